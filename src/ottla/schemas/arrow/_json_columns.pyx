# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of json_columns.py: texts of JSON objects into columns, without a Python object for a value.

Read the Python twin for what is plain. Here only what C changes: the fields are nodes of a flat array (_column_nodes.pxi)
that are filled while a text is read from the left; where it turns out not to be plain, all nodes go back to where they
were before it. Every node has as many rows as its struct, so a field that came already is known by its rows.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport isfinite
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

from ottla.schemas.arrow import json_columns as twin
from ottla.schemas.arrow.columns import Column

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, object overflow) except? -1.0

include "_column_nodes.pxi"

cdef enum:
    TEXT_BYTES_MAX = 50000
    DEPTH_MAX = 64
    NUMBER_BYTES_MAX = 100
    # A number of so many digits is exact as a double, and so is a power of ten up to this.
    EXACT_DIGITS = 15
    EXACT_POWER = 22

if (twin.TEXT_BYTES_MAX, twin.DEPTH_MAX, twin.NUMBER_BYTES_MAX) != (TEXT_BYTES_MAX, DEPTH_MAX, NUMBER_BYTES_MAX):
    raise ImportError("the twins of the JSON columns have different limits")
if [kind.value for kind in twin.JsonKind] != list(range(LIST + 1)):
    raise ImportError("the twins of the JSON columns have different kinds")

cdef double[23] POWERS
for _power in range(EXACT_POWER + 1):
    POWERS[_power] = 10.0 ** _power

cdef int32_t[13] DAYS_BEFORE
DAYS_BEFORE[:] = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
cdef int32_t[13] DAYS_OF
DAYS_OF[:] = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


# ---- the words of JSON ----

cdef inline void skip_space(Reading* reading) noexcept:
    while reading.at < reading.end and reading.at[0] <= 0x20:
        if reading.at[0] != 0x20 and reading.at[0] != 0x0A and reading.at[0] != 0x0D and reading.at[0] != 0x09:
            return
        reading.at += 1


cdef inline bint takes(Reading* reading, uint8_t sign) noexcept:
    if reading.at < reading.end and reading.at[0] == sign:
        reading.at += 1
        return True
    return False


cdef inline bint takes_word(Reading* reading, const char* word, size_t length) noexcept:
    if <size_t> (reading.end - reading.at) >= length and memcmp(reading.at, word, length) == 0:
        reading.at += length
        return True
    return False


cdef inline uint64_t is_special(uint64_t eight) noexcept:
    """A high bit for each of eight bytes that is a quote, a backslash, or below a space; the lowest is surely right."""
    cdef uint64_t ones = <uint64_t> 0x0101010101010101, highs = <uint64_t> 0x8080808080808080
    cdef uint64_t quotes = eight ^ (ones * 0x22), slashes = eight ^ (ones * 0x5C)
    return (((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes) | ((eight - ones * 0x20) & ~eight)) & highs


cdef inline const uint8_t* next_special(const uint8_t* at, const uint8_t* end) noexcept:
    """The next quote, backslash or control character, or the end."""
    cdef uint64_t eight
    while end - at >= 8:
        memcpy(&eight, at, 8)
        if is_special(eight):
            break
        at += 8
    while at < end and at[0] != 0x22 and at[0] != 0x5C and at[0] >= 0x20:
        at += 1
    return at


cdef inline int hex_of(uint8_t sign) noexcept:
    if 0x30 <= sign <= 0x39:
        return sign - 0x30
    sign |= 0x20
    return sign - 0x61 + 10 if 0x61 <= sign <= 0x66 else -1


cdef int32_t take_hex(Reading* reading) noexcept:
    """Four digits; -1 where they are none."""
    cdef int32_t value = 0
    cdef int index, digit
    if reading.end - reading.at < 4:
        return -1
    for index in range(4):
        digit = hex_of(reading.at[index])
        if digit < 0:
            return -1
        value = value * 16 + digit
    reading.at += 4
    return value


cdef int32_t take_escape(Reading* reading) noexcept:
    """The character behind a backslash; -1 where there is none, or half of a pair."""
    cdef uint8_t sign
    cdef int32_t first, second
    if reading.at == reading.end:
        return -1
    sign = reading.at[0]
    reading.at += 1
    if sign == 0x22 or sign == 0x5C or sign == 0x2F:
        return sign
    if sign == 0x6E:
        return 0x0A
    if sign == 0x74:
        return 0x09
    if sign == 0x72:
        return 0x0D
    if sign == 0x62:
        return 0x08
    if sign == 0x66:
        return 0x0C
    if sign != 0x75:
        return -1
    first = take_hex(reading)
    if not 0xD800 <= first <= 0xDFFF:
        return first
    if first >= 0xDC00 or not takes(reading, 0x5C) or not takes(reading, 0x75):
        return -1
    second = take_hex(reading)
    if not 0xDC00 <= second <= 0xDFFF:
        return -1
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)


cdef inline size_t put_utf8(uint8_t* into, int32_t point) noexcept:
    if point < 0x80:
        into[0] = <uint8_t> point
        return 1
    if point < 0x800:
        into[0] = <uint8_t> (0xC0 | point >> 6)
        into[1] = <uint8_t> (0x80 | point & 0x3F)
        return 2
    if point < 0x10000:
        into[0] = <uint8_t> (0xE0 | point >> 12)
        into[1] = <uint8_t> (0x80 | point >> 6 & 0x3F)
        into[2] = <uint8_t> (0x80 | point & 0x3F)
        return 3
    into[0] = <uint8_t> (0xF0 | point >> 18)
    into[1] = <uint8_t> (0x80 | point >> 12 & 0x3F)
    into[2] = <uint8_t> (0x80 | point >> 6 & 0x3F)
    into[3] = <uint8_t> (0x80 | point & 0x3F)
    return 4


cdef bint take_string(Reading* reading, Growing* into) noexcept:
    """A string behind its first quote, up to behind its last; its bytes go into `into`, if that is given. What it means
    is never longer than what is written."""
    cdef const uint8_t* begin
    cdef int32_t point
    cdef uint8_t[4] spare
    while True:
        begin = reading.at
        reading.at = next_special(reading.at, reading.end)
        if into != NULL:
            if not make_room(into, reading.at - begin + 4):
                reading.has_memory = False
                return False
            memcpy(into.memory + into.used, begin, reading.at - begin)
            into.used += reading.at - begin
        if takes(reading, 0x22):
            return True
        if not takes(reading, 0x5C):
            return False  # the end, or a control character
        point = take_escape(reading)
        if point < 0:
            return False
        if into != NULL:
            into.used += put_utf8(into.memory + into.used, point)
        else:
            put_utf8(spare, point)


cdef inline bint is_digit(Reading* reading) noexcept:
    return reading.at < reading.end and 0x30 <= reading.at[0] <= 0x39


cdef bint take_number(Reading* reading, bint* is_integer) noexcept:
    """A number, wherever it may go."""
    cdef const uint8_t* begin = reading.at
    is_integer[0] = True
    takes(reading, 0x2D)
    if not is_digit(reading):
        return False
    if not takes(reading, 0x30):
        while is_digit(reading):
            reading.at += 1
    if takes(reading, 0x2E):
        is_integer[0] = False
        if not is_digit(reading):
            return False
        while is_digit(reading):
            reading.at += 1
    if reading.at < reading.end and (reading.at[0] | 0x20) == 0x65:
        is_integer[0] = False
        reading.at += 1
        if not takes(reading, 0x2D):
            takes(reading, 0x2B)
        if not is_digit(reading):
            return False
        while is_digit(reading):
            reading.at += 1
    return reading.at - begin <= NUMBER_BYTES_MAX


cdef bint skip_value(Reading* reading, int depth) noexcept:
    """A value that nobody asked for: it must be JSON."""
    cdef bint is_integer
    cdef uint8_t sign
    if reading.at == reading.end:
        return False
    sign = reading.at[0]
    if sign == 0x22:
        reading.at += 1
        return take_string(reading, NULL)
    if sign == 0x7B or sign == 0x5B:
        return skip_container(reading, depth, sign == 0x7B)
    if sign == 0x74:
        return takes_word(reading, "true", 4)
    if sign == 0x66:
        return takes_word(reading, "false", 5)
    if sign == 0x6E:
        return takes_word(reading, "null", 4)
    return take_number(reading, &is_integer)


cdef bint skip_container(Reading* reading, int depth, bint is_object) noexcept:
    cdef uint8_t last = 0x7D if is_object else 0x5D
    if depth == DEPTH_MAX:
        return False
    reading.at += 1
    skip_space(reading)
    if takes(reading, last):
        return True
    while True:
        if is_object:
            if not takes(reading, 0x22) or not take_string(reading, NULL):
                return False
            skip_space(reading)
            if not takes(reading, 0x3A):
                return False
            skip_space(reading)
        if not skip_value(reading, depth + 1):
            return False
        skip_space(reading)
        if takes(reading, last):
            return True
        if not takes(reading, 0x2C):
            return False
        skip_space(reading)


# ---- values of fields ----

cdef bint read_value(Reading* reading, Node* node, int depth) noexcept:
    if takes_word(reading, "null", 4):
        return add_null(reading, node)
    if node.kind == STRING:
        return takes(reading, 0x22) and take_string(reading, &node.data) and close_row(reading, node, True)
    if INT8 <= node.kind <= INT64:
        return read_integer(reading, node)
    if node.kind == STRUCT:
        return read_struct(reading, node, depth)
    if node.kind == LIST:
        return read_list(reading, node, depth)
    if node.kind == DOUBLE:
        return read_double(reading, node)
    if node.kind == TIMESTAMP or node.kind == DATE:
        return read_moment(reading, node)
    if node.kind == BOOLEAN:
        return read_boolean(reading, node)
    return False


cdef bint read_struct(Reading* reading, Node* node, int depth) noexcept:
    cdef int child, number
    cdef int64_t rows = node.rows
    if depth == DEPTH_MAX or not takes(reading, 0x7B):
        return False
    node.guess = 0
    skip_space(reading)
    if not takes(reading, 0x7D):
        while True:
            if not read_field(reading, node, depth):
                return False
            skip_space(reading)
            if takes(reading, 0x7D):
                break
            if not takes(reading, 0x2C):
                return False
            skip_space(reading)
    for number in range(node.child_count):
        child = node.first_child + number
        if reading.nodes[child].rows == rows and not add_null(reading, &reading.nodes[child]):
            return False
    return close_row(reading, node, True)


cdef bint read_field(Reading* reading, Node* node, int depth) noexcept:
    """A name and its value, which is a field's or nobody's."""
    cdef const uint8_t* begin
    cdef size_t length
    cdef Growing written
    cdef int child
    cdef bint is_found
    if not takes(reading, 0x22):
        return False
    begin = reading.at
    reading.at = next_special(begin, reading.end)
    length = reading.at - begin
    if takes(reading, 0x22):
        child = child_of(reading, node, begin, length)
    else:  # with escapes, or no name at all
        reading.at = begin
        memset(&written, 0, sizeof(Growing))
        is_found = take_string(reading, &written)
        child = child_of(reading, node, written.memory, written.used) if is_found else -1
        free(written.memory)
        if not is_found:
            return False
    skip_space(reading)
    if not takes(reading, 0x3A):
        return False
    skip_space(reading)
    if child < 0:
        return takes_word(reading, "null", 4) if reading.is_strict else skip_value(reading, depth + 1)
    if reading.nodes[child].rows != node.rows:
        return False  # it came already
    return read_value(reading, &reading.nodes[child], depth + 1)


cdef int child_of(Reading* reading, Node* node, const uint8_t* name, size_t length) noexcept:
    """The field of this name, -1 for none. They mostly come in one order."""
    cdef int tried, number = node.guess
    cdef Node* child
    for tried in range(node.child_count):
        if number >= node.child_count:
            number = 0
        child = &reading.nodes[node.first_child + number]
        if child.name_bytes == length and memcmp(child.name, name, length) == 0:
            node.guess = number + 1
            return node.first_child + number
        number += 1
    return -1


cdef bint read_list(Reading* reading, Node* node, int depth) noexcept:
    cdef Node* item = &reading.nodes[node.first_child]
    if depth == DEPTH_MAX or not takes(reading, 0x5B):
        return False
    skip_space(reading)
    if not takes(reading, 0x5D):
        while True:
            if not read_value(reading, item, depth + 1):
                return False
            skip_space(reading)
            if takes(reading, 0x5D):
                break
            if not takes(reading, 0x2C):
                return False
            skip_space(reading)
    return close_list(reading, node, True)


cdef bint read_boolean(Reading* reading, Node* node) noexcept:
    cdef uint8_t value = 1
    if not takes_word(reading, "true", 4):
        value = 0
        if not takes_word(reading, "false", 5):
            return False
    return add_number(reading, node, &value)


cdef bint read_integer(Reading* reading, Node* node) noexcept:
    cdef const uint8_t* begin = reading.at
    cdef bint is_integer, is_negative
    cdef uint64_t found = 0, limit
    cdef int64_t value
    if not take_number(reading, &is_integer) or not is_integer:
        return False
    is_negative = begin[0] == 0x2D
    begin += is_negative
    if reading.at - begin > 19:  # of 20 digits none fits, and none of 19 is beyond 64 bits
        return False
    while begin < reading.at:
        found = found * 10 + (begin[0] - 0x30)
        begin += 1
    limit = (<uint64_t> 1) << (8 * node.width - 1)
    if found > limit or (found == limit and not is_negative):
        return False
    value = <int64_t> (0 - found) if is_negative else <int64_t> found
    return add_number(reading, node, &value)  # the low bytes come first


cdef bint read_double(Reading* reading, Node* node) noexcept:
    cdef const uint8_t* begin = reading.at
    cdef const uint8_t* at
    cdef bint is_integer
    cdef uint64_t digits = 0
    cdef int count = 0, exponent = 0, power = 0
    cdef bint is_negative, is_behind = False, is_down
    cdef double value
    if not take_number(reading, &is_integer):
        return False
    is_negative = begin[0] == 0x2D
    at = begin + is_negative
    while at < reading.at and (at[0] | 0x20) != 0x65:
        if at[0] == 0x2E:
            is_behind = True
        else:
            if count or at[0] != 0x30:
                count += 1
            if count <= EXACT_DIGITS:
                digits = digits * 10 + (at[0] - 0x30)
            exponent -= is_behind
        at += 1
    if at < reading.at:
        at += 1
        is_down = at[0] == 0x2D
        at += at[0] == 0x2D or at[0] == 0x2B
        while at < reading.at and power < 10000:
            power = power * 10 + (at[0] - 0x30)
            at += 1
        exponent += -power if is_down else power
    if is_negative and is_integer and not count:
        return False
    if count <= EXACT_DIGITS and -EXACT_POWER <= exponent <= EXACT_POWER:
        value = <double> digits
        value = value / POWERS[-exponent] if exponent < 0 else value * POWERS[exponent]
        value = -value if is_negative else value
    elif not slow_double(begin, reading.at - begin, &value):
        return False
    return add_number(reading, node, &value)


cdef bint slow_double(const uint8_t* text, size_t length, double* value) noexcept:
    cdef char[NUMBER_BYTES_MAX + 1] copied
    memcpy(copied, text, length)
    copied[length] = 0
    try:
        value[0] = PyOS_string_to_double(copied, NULL, None)
    except Exception:
        return False
    return isfinite(value[0])


cdef inline int two_digits(const uint8_t* at) noexcept:
    """-1 where they are none."""
    if not 0x30 <= at[0] <= 0x39 or not 0x30 <= at[1] <= 0x39:
        return -1
    return (at[0] - 0x30) * 10 + at[1] - 0x30


cdef bint days_of(const uint8_t* at, int32_t* days) noexcept:
    """Days since 1970 of ten signs that are a date."""
    cdef int century = two_digits(at), rest = two_digits(at + 2), month = two_digits(at + 5), day = two_digits(at + 8)
    cdef int year, before
    cdef bint is_leap
    if century < 19 or rest < 0 or not 1 <= month <= 12 or day < 1 or at[4] != 0x2D or at[7] != 0x2D:
        return False
    year = century * 100 + rest
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > DAYS_OF[month] + (is_leap and month == 2):
        return False
    before = year - 1
    days[0] = (before * 365 + before / 4 - before / 100 + before / 400 + DAYS_BEFORE[month]
               + (is_leap and month > 2) + day - 1 - 719162)
    return True


cdef bint read_moment(Reading* reading, Node* node) noexcept:
    """A date or a timestamp; one with escapes in it is left to others."""
    cdef const uint8_t* begin
    cdef const uint8_t* at
    cdef const uint8_t* last
    cdef int32_t days
    cdef int hour, minute, second, zone_hour, zone_minute, digits = 0
    cdef int64_t micros, fraction = 0
    if not takes(reading, 0x22):
        return False
    begin = reading.at
    last = next_special(begin, reading.end)
    reading.at = last
    if not takes(reading, 0x22) or last - begin < 10 or not days_of(begin, &days):
        return False
    if node.kind == DATE:
        return last - begin == 10 and add_number(reading, node, &days)
    if last - begin < 20 or (begin[10] != 0x54 and begin[10] != 0x20) or begin[13] != 0x3A or begin[16] != 0x3A:
        return False
    hour, minute, second = two_digits(begin + 11), two_digits(begin + 14), two_digits(begin + 17)
    if not 0 <= hour <= 23 or not 0 <= minute <= 59 or not 0 <= second <= 59:
        return False
    at = begin + 19
    if at[0] == 0x2E:
        at += 1
        while digits < 6 and at < last and 0x30 <= at[0] <= 0x39:
            fraction = fraction * 10 + at[0] - 0x30
            digits += 1
            at += 1
        if digits == 0:
            return False
        while digits < 6:
            fraction *= 10
            digits += 1
    micros = (((<int64_t> days * 24 + hour) * 60 + minute) * 60 + second) * 1000000 + fraction
    if last - at == 6 and (at[0] == 0x2B or at[0] == 0x2D) and at[3] == 0x3A:
        zone_hour, zone_minute = two_digits(at + 1), two_digits(at + 4)
        if not 0 <= zone_hour <= 14 or not 0 <= zone_minute <= 59:
            return False
        micros += (<int64_t> zone_hour * 60 + zone_minute) * 60000000 * (-1 if at[0] == 0x2B else 1)
    elif last - at != 1 or at[0] != 0x5A:
        return False
    return add_number(reading, node, &micros)


# ---- texts ----

cdef bint read_text(Reading* reading, const uint8_t* begin, size_t length) noexcept:
    """A whole text as one row of the first node."""
    if length > TEXT_BYTES_MAX or not is_utf8(begin, begin + length):
        return False
    reading.at = begin
    reading.end = begin + length
    skip_space(reading)
    if not read_struct(reading, &reading.nodes[0], 0):
        return False
    skip_space(reading)
    return reading.at == reading.end


cdef class JsonColumns:
    """Reads columns of texts; made once for many."""

    cdef Node* nodes
    cdef int node_count
    cdef bint is_strict
    cdef list names

    def __cinit__(self, fields, *, bint is_strict=False):
        self.names = []
        self.is_strict = is_strict
        root = twin.JsonField("", twin.JsonKind.STRUCT, tuple(fields))
        self.node_count = 0
        self.nodes = <Node*> calloc(count_of(root), sizeof(Node))
        if self.nodes == NULL:
            raise MemoryError
        self.node_count = 1
        self.fill(0, root)

    cdef int fill(self, int number, object field) except -1:
        cdef int child
        cdef Node* node = &self.nodes[number]
        name = field.name.encode("utf-8", "surrogatepass")
        self.names.append(name)  # which keeps its bytes where they are
        node.name = name
        node.name_bytes = len(name)
        node.kind = field.kind
        node.width = {BOOLEAN: 1, INT8: 1, INT16: 2, INT32: 4, INT64: 8, DOUBLE: 8, DATE: 4, TIMESTAMP: 8}.get(node.kind, 0)
        node.child_count = len(field.children)
        node.first_child = self.node_count
        self.node_count += node.child_count
        for child in range(node.child_count):
            self.fill(node.first_child + child, field.children[child])
        return 0

    def __dealloc__(self):
        free_nodes(self.nodes, self.node_count)

    def read(self, Py_ssize_t row_count, offsets, data, validity=None, Py_ssize_t first_row=0):
        """The rows of a column of bytes, as a column of structs."""
        cdef Py_buffer ends, content, valid
        cdef bint has_valid = validity is not None
        PyObject_GetBuffer(offsets, &ends, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(data, &content, PyBUF_SIMPLE)
            try:
                if has_valid:
                    PyObject_GetBuffer(validity, &valid, PyBUF_SIMPLE)
                try:
                    if row_count and (ends.len < 4 * (first_row + row_count + 1)
                                      or has_valid and valid.len < (first_row + row_count + 7) // 8):
                        raise ValueError("there are fewer rows than that")
                    self.read_rows(row_count, <int32_t*> ends.buf, <uint8_t*> content.buf, content.len,
                                   <uint8_t*> valid.buf if has_valid else NULL, first_row)
                finally:
                    if has_valid:
                        PyBuffer_Release(&valid)
            finally:
                PyBuffer_Release(&content)
        finally:
            PyBuffer_Release(&ends)
        return column_of(self.nodes, 0)

    cdef int read_rows(self, Py_ssize_t row_count, const int32_t* ends, const uint8_t* data, Py_ssize_t data_bytes,
                       const uint8_t* valid, Py_ssize_t first_row) except -1:
        cdef Reading reading
        cdef Py_ssize_t row
        cdef bint is_plain
        reading.nodes = self.nodes
        reading.has_memory = reading.has_room = True
        reading.is_strict = self.is_strict
        begin(self.nodes, self.node_count)
        for row in range(first_row, first_row + row_count):
            is_plain = False
            if valid == NULL or valid[row >> 3] >> (row & 7) & 1:
                if not 0 <= ends[row] <= ends[row + 1] <= data_bytes:
                    raise ValueError("a row is not in the data")
                mark(self.nodes, self.node_count)
                is_plain = read_text(&reading, data + ends[row], ends[row + 1] - ends[row])
                if not is_plain and reading.has_memory:
                    go_back(self.nodes, self.node_count)
            if not reading.has_room:
                raise OverflowError("a column would have more than 2 GiB: decode fewer records at once")
            if reading.has_memory and not is_plain:
                add_null(&reading, self.nodes)
            if not reading.has_memory:
                raise MemoryError
        return 0


def count_of(field):
    """Nodes of a field and of all below it."""
    return 1 + sum([count_of(child) for child in field.children])
