# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of avro_columns.py: records of Avro into a column, without a Python object for a value.

Read the Python twin for what a step does, and avro_steps.py for where steps come from. Here only what C changes: values
go into nodes (_column_nodes.pxi) as they are read; where a record cannot be read its row is null, and the other twin is
asked why.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

import pyarrow as pa

from ottla.schemas.arrow import avro_columns as twin
from ottla.schemas.arrow.avro_steps import AvroOp
from ottla.schemas.arrow.columns import Column, array_of
from ottla.schemas.avro import record_bytes

include "_column_nodes.pxi"

cdef enum:
    NULL_VALUE = 0
    BOOLEAN_VALUE = 1
    INT_VALUE = 2
    LONG_VALUE = 3
    FLOAT_VALUE = 4
    DOUBLE_VALUE = 5
    BYTES_VALUE = 6
    STRING_VALUE = 7
    FIXED_VALUE = 8
    ENUM_VALUE = 9
    RECORD_VALUE = 10
    ARRAY_VALUE = 11
    MAP_VALUE = 12
    UNION_VALUE = 13
    DEFAULT_VALUE = 14
    REFUSED_VALUE = 15
    RECORD_VALUES_MAX = 2000000
    VALUES_PER_BYTE = 10
    SPARE_VALUES = 1000
    NESTING_MAX = 100

cdef int64_t FIRST_DAY = twin.FIRST_DAY, LAST_DAY = twin.LAST_DAY
cdef int64_t FIRST_MICRO = twin.FIRST_MICRO, LAST_MICRO = twin.LAST_MICRO

if [op.value for op in AvroOp] != list(range(REFUSED_VALUE + 1)):
    raise ImportError("the twins of the Avro columns have different steps")
if (twin.RECORD_VALUES_MAX, record_bytes.VALUES_PER_BYTE, record_bytes.SPARE_VALUES, record_bytes.NESTING_MAX) != (
    RECORD_VALUES_MAX, VALUES_PER_BYTE, SPARE_VALUES, NESTING_MAX
):
    raise ImportError("the twins of the Avro columns have different limits")


cdef struct Text:
    const uint8_t* content
    size_t length


cdef struct Digits:
    # A number of 128 bits: the first that a decimal may not reach.
    uint64_t high
    uint64_t low


cdef struct AvroStep:
    int op
    int column         # -1: is passed over
    int first_child    # in `children`
    int child_count
    int first_text     # in `texts`
    int text_count
    int64_t size
    int64_t micros


cdef struct Records:
    Reading reading
    AvroStep* steps
    int* children
    Text* texts
    Digits* limits     # for each node
    int64_t values_left
    bint has_room


# ---- the words of Avro ----

cdef inline bint take_long(Reading* reading, int64_t* value) noexcept:
    cdef uint64_t raw = 0
    cdef uint8_t byte
    cdef int shift
    for shift in range(0, 70, 7):
        if reading.at == reading.end:
            return False
        byte = reading.at[0]
        reading.at += 1
        if shift == 63 and byte > 1:
            return False
        raw |= (<uint64_t> (byte & 0x7F)) << shift
        if byte < 0x80:
            value[0] = <int64_t> (raw >> 1) ^ -(<int64_t> (raw & 1))
            return True
    return False


cdef inline bint take_bytes(Reading* reading, int64_t count, const uint8_t** begin) noexcept:
    if count < 0 or count > reading.end - reading.at:
        return False
    begin[0] = reading.at
    reading.at += count
    return True


cdef inline bint take_block(Reading* reading, int64_t* count) noexcept:
    cdef int64_t size
    if not take_long(reading, count):
        return False
    if count[0] < 0:
        count[0] = INT64_MAX if count[0] == INT64_MIN else -count[0]
        return take_long(reading, &size)
    return True


# ---- values into columns ----

cdef inline bint add_content(Records* records, Node* node, const uint8_t* begin, size_t length) noexcept:
    if node.data.used + length > INT32_MAX:
        records.has_room = False
        return False
    if not make_room(&node.data, length):
        records.reading.has_memory = False
        return False
    memcpy(node.data.memory + node.data.used, begin, length)
    node.data.used += length
    return close_row(&records.reading, node, True)


cdef bint add_decimal(Records* records, Node* node, Digits* limit, const uint8_t* begin, size_t length) noexcept:
    cdef uint8_t sign = 0xFF if length and begin[0] & 0x80 else 0
    cdef uint8_t[16] value
    cdef uint64_t high, low
    cdef size_t index
    while length > 16 and begin[0] == sign:
        begin += 1
        length -= 1
    if length > 16:
        return False
    memset(value, sign, 16)
    for index in range(length):
        value[index] = begin[length - 1 - index]
    if value[15] & 0x80 != sign & 0x80:
        return False
    memcpy(&low, value, 8)
    memcpy(&high, <uint8_t*> value + 8, 8)
    if sign:
        low = ~low + 1
        high = ~high + (low == 0)
    if high > limit.high or (high == limit.high and low >= limit.low):
        return False
    return add_number(&records.reading, node, value)


cdef inline bint add_whole(Records* records, AvroStep* step, Node* node, int64_t value) noexcept:
    cdef float single
    cdef double twice
    if node.kind == DATE:
        return FIRST_DAY <= value <= LAST_DAY and add_number(&records.reading, node, &value)
    if node.kind == TIMESTAMP:
        # In two steps, because the product may have more than 64 bits.
        if not FIRST_MICRO / step.micros <= value <= LAST_MICRO / step.micros:
            return False
        value *= step.micros
        return add_number(&records.reading, node, &value)
    if node.kind == FLOAT:
        single = <float> <double> value
        return add_number(&records.reading, node, &single)
    if node.kind == DOUBLE:
        twice = <double> value
        return add_number(&records.reading, node, &twice)
    return add_number(&records.reading, node, &value)  # the low bytes come first


cdef inline bint add_real(Records* records, Node* node, double value) noexcept:
    cdef float single
    if node.kind == FLOAT:
        single = <float> value
        return add_number(&records.reading, node, &single)
    return add_number(&records.reading, node, &value)


# ---- steps ----

cdef bint run(Records* records, int number, int depth) noexcept:
    """One value; False where it cannot be read."""
    cdef AvroStep* step = &records.steps[number]
    cdef Reading* reading = &records.reading
    cdef Node* node = NULL if step.column < 0 else &reading.nodes[step.column]
    cdef const uint8_t* begin
    cdef int64_t value
    cdef float single
    cdef double twice
    cdef int child, op = step.op
    records.values_left -= 1
    if records.values_left < 0 or depth > NESTING_MAX:
        return False
    if op == RECORD_VALUE:
        for child in range(step.first_child, step.first_child + step.child_count):
            if not run(records, records.children[child], depth + 1):
                return False
        return node == NULL or close_row(reading, node, True)
    if op == UNION_VALUE:
        if not take_long(reading, &value) or not 0 <= value < step.child_count:
            return False
        return run(records, records.children[step.first_child + value], depth + 1)
    if op == NULL_VALUE:
        return node == NULL or add_null(reading, node)
    if op == INT_VALUE or op == LONG_VALUE:
        if not take_long(reading, &value) or (op == INT_VALUE and value != <int32_t> value):
            return False
        return node == NULL or add_whole(records, step, node, value)
    if op == STRING_VALUE or op == BYTES_VALUE or op == FIXED_VALUE:
        value = step.size
        if op != FIXED_VALUE and not take_long(reading, &value) or not take_bytes(reading, value, &begin):
            return False
        if (op == STRING_VALUE or (node != NULL and node.kind == STRING)) and not is_utf8(begin, begin + value):
            return False
        if node == NULL:
            return True
        if node.kind == DECIMAL:
            return add_decimal(records, node, &records.limits[step.column], begin, value)
        return add_content(records, node, begin, value)
    if op == DOUBLE_VALUE:
        if not take_bytes(reading, 8, &begin):
            return False
        memcpy(&twice, begin, 8)
        return node == NULL or add_real(records, node, twice)
    if op == FLOAT_VALUE:
        if not take_bytes(reading, 4, &begin):
            return False
        memcpy(&single, begin, 4)
        return node == NULL or add_real(records, node, single)
    if op == BOOLEAN_VALUE:
        if not take_bytes(reading, 1, &begin) or begin[0] > 1:
            return False
        return node == NULL or add_number(reading, node, begin)
    if op == ENUM_VALUE:
        return run_enum(records, step, node)
    if op == ARRAY_VALUE or op == MAP_VALUE:
        return run_items(records, step, node, depth)
    if op == DEFAULT_VALUE:
        return run_default(records, step, depth)
    return False


cdef bint run_enum(Records* records, AvroStep* step, Node* node) noexcept:
    cdef int64_t value
    cdef Text* text
    if not take_long(&records.reading, &value) or not 0 <= value < step.text_count:
        return False
    text = &records.texts[step.first_text + value]
    if not text.length:
        return False
    return node == NULL or add_content(records, node, text.content, text.length)


cdef bint run_items(Records* records, AvroStep* step, Node* node, int depth) noexcept:
    cdef Reading* reading = &records.reading
    cdef Node* entries = &reading.nodes[node.first_child] if node != NULL and step.op == MAP_VALUE else NULL
    cdef int64_t count
    cdef int child
    while True:
        if not take_block(reading, &count):
            return False
        if count == 0:
            break
        while count > 0:
            count -= 1
            for child in range(step.first_child, step.first_child + step.child_count):
                if not run(records, records.children[child], depth + 1):
                    return False
            if entries != NULL and not close_row(reading, entries, True):
                return False
    if node == NULL:
        return True
    if reading.nodes[node.first_child].rows > INT32_MAX:
        records.has_room = False
        return False
    return close_list(reading, node, True)


cdef bint run_default(Records* records, AvroStep* step, int depth) noexcept:
    """The bytes of the default are read in place of the record's, with a budget of their own."""
    cdef Text* text = &records.texts[step.first_text]
    cdef const uint8_t* at = records.reading.at
    cdef const uint8_t* end = records.reading.end
    cdef int64_t values_left = records.values_left
    cdef bint is_read
    records.reading.at = text.content
    records.reading.end = text.content + text.length
    records.values_left = values_of(text.length)
    is_read = run(records, records.children[step.first_child], depth + 1)
    records.reading.at = at
    records.reading.end = end
    records.values_left = values_left
    return is_read


cdef inline int64_t values_of(int64_t length) noexcept:
    return min(<int64_t> RECORD_VALUES_MAX, SPARE_VALUES + VALUES_PER_BYTE * length)


# ---- columns ----

cdef class AvroColumns:
    """Reads columns of records with one plan; made once for many."""

    cdef Records records
    cdef int node_count
    cdef int root
    cdef object kind
    cdef list kept

    def __cinit__(self, plan):
        cdef int number
        cdef Node* node
        cdef AvroStep* step
        children = [child for planned in plan.steps for child in planned.children]
        texts = [text for planned in plan.steps for text in planned.texts]
        self.kept = texts  # which keeps their bytes where they are
        self.kind = plan.nodes[0].kind
        self.root = plan.root
        self.records.reading.nodes = <Node*> calloc(len(plan.nodes), sizeof(Node))
        self.records.limits = <Digits*> calloc(len(plan.nodes), sizeof(Digits))
        self.records.steps = <AvroStep*> calloc(len(plan.steps), sizeof(AvroStep))
        self.records.children = <int*> calloc(max(len(children), 1), sizeof(int))
        self.records.texts = <Text*> calloc(max(len(texts), 1), sizeof(Text))
        if (self.records.reading.nodes == NULL or self.records.limits == NULL or self.records.steps == NULL
                or self.records.children == NULL or self.records.texts == NULL):
            raise MemoryError
        self.node_count = len(plan.nodes)
        for number, planned in enumerate(plan.nodes):
            node = &self.records.reading.nodes[number]
            node.kind, node.width = kind_of(planned.kind)
            node.first_child, node.child_count = planned.first_child, planned.child_count
            if node.kind == DECIMAL:
                limit = 10 ** planned.kind.precision
                self.records.limits[number].high = limit >> 64
                self.records.limits[number].low = limit & 0xFFFFFFFFFFFFFFFF
        for number, child in enumerate(children):
            self.records.children[number] = child
        for number, text in enumerate(texts):
            self.records.texts[number].content = text
            self.records.texts[number].length = len(text)
        child_number = text_number = 0
        for number, planned in enumerate(plan.steps):
            step = &self.records.steps[number]
            step.op, step.column, step.size, step.micros = planned.op, planned.column, planned.size, planned.micros
            step.first_child, step.child_count = child_number, len(planned.children)
            step.first_text, step.text_count = text_number, len(planned.texts)
            child_number += len(planned.children)
            text_number += len(planned.texts)

    def __dealloc__(self):
        free_nodes(self.records.reading.nodes, self.node_count)
        free(self.records.limits)
        free(self.records.steps)
        free(self.records.children)
        free(self.records.texts)

    def read(self, column, Py_ssize_t skipped_bytes=0):
        """The rows of a column of bytes, without so many at the front of each."""
        cdef Py_buffer ends, content, valid
        cdef bint has_valid
        cdef Py_ssize_t row_count = len(column), first_row = column.offset
        if not row_count:
            return pa.nulls(0, self.kind)
        validity, offsets, data = column.buffers()
        has_valid = validity is not None
        PyObject_GetBuffer(offsets, &ends, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(data if data is not None else b"", &content, PyBUF_SIMPLE)
            try:
                if has_valid:
                    PyObject_GetBuffer(validity, &valid, PyBUF_SIMPLE)
                try:
                    if ends.len < 4 * (first_row + row_count + 1) or (
                        has_valid and valid.len < (first_row + row_count + 7) // 8
                    ):
                        raise ValueError("there are fewer rows than that")
                    self.read_rows(row_count, <int32_t*> ends.buf, <uint8_t*> content.buf, content.len,
                                   <uint8_t*> valid.buf if has_valid else NULL, first_row, skipped_bytes)
                finally:
                    if has_valid:
                        PyBuffer_Release(&valid)
            finally:
                PyBuffer_Release(&content)
        finally:
            PyBuffer_Release(&ends)
        return array_of(self.kind, column_of(self.records.reading.nodes, 0))

    cdef int read_rows(self, Py_ssize_t row_count, const int32_t* ends, const uint8_t* data, Py_ssize_t data_bytes,
                       const uint8_t* valid, Py_ssize_t first_row, Py_ssize_t skipped_bytes) except -1:
        cdef Records* records = &self.records
        cdef Reading* reading = &records.reading
        cdef Py_ssize_t row
        cdef bint is_read
        records.has_room = reading.has_memory = True
        begin(reading.nodes, self.node_count)
        for row in range(first_row, first_row + row_count):
            is_read = False
            if valid == NULL or valid[row >> 3] >> (row & 7) & 1:
                if not 0 <= ends[row] <= ends[row + 1] <= data_bytes:
                    raise ValueError("a row is not in the data")
                mark(reading.nodes, self.node_count)
                if ends[row + 1] - ends[row] >= skipped_bytes:
                    reading.at = data + ends[row] + skipped_bytes
                    reading.end = data + ends[row + 1]
                    records.values_left = values_of(reading.end - reading.at)
                    is_read = run(records, self.root, 0) and reading.at == reading.end
                if not is_read and reading.has_memory:
                    go_back(reading.nodes, self.node_count)
            if not records.has_room:
                raise OverflowError("a column would have more than 2 GiB: decode fewer records at once")
            if reading.has_memory and not is_read:
                add_null(reading, reading.nodes)
            if not reading.has_memory:
                raise MemoryError
        return 0


def kind_of(kind):
    """The kind of a node for a type, and the bytes of its values."""
    if pa.types.is_struct(kind):
        return STRUCT, 0
    if pa.types.is_list(kind):
        return LIST, 0
    if pa.types.is_map(kind):
        return MAP, 0
    if pa.types.is_timestamp(kind):
        return TIMESTAMP, 8
    if pa.types.is_decimal(kind):
        return DECIMAL, 16
    return {
        pa.bool_(): (BOOLEAN, 1),
        pa.int32(): (INT32, 4),
        pa.int64(): (INT64, 8),
        pa.float32(): (FLOAT, 4),
        pa.float64(): (DOUBLE, 8),
        pa.string(): (STRING, 0),
        pa.binary(): (BINARY, 0),
        pa.date32(): (DATE, 4),
    }[kind]
