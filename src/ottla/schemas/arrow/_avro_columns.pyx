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
include "_record_columns.pxi"

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
    MEMBER_VALUE = 16
    RECORD_VALUES_MAX = 2000000
    VALUES_PER_BYTE = 10
    SPARE_VALUES = 1000
    NESTING_MAX = 100

cdef int64_t FIRST_DAY = twin.FIRST_DAY, LAST_DAY = twin.LAST_DAY
cdef int64_t FIRST_MICRO = twin.FIRST_MICRO, LAST_MICRO = twin.LAST_MICRO

if [op.value for op in AvroOp] != list(range(MEMBER_VALUE + 1)):
    raise ImportError("the twins of the Avro columns have different steps")
if (twin.RECORD_VALUES_MAX, record_bytes.VALUES_PER_BYTE, record_bytes.SPARE_VALUES, record_bytes.NESTING_MAX) != (
    RECORD_VALUES_MAX, VALUES_PER_BYTE, SPARE_VALUES, NESTING_MAX
):
    raise ImportError("the twins of the Avro columns have different limits")


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
    Reading* reading
    AvroStep* steps
    int* children
    Text* texts
    Digits* limits     # for each node
    int64_t values_left


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
    return add_number(records.reading, node, value)


cdef inline bint add_whole(Records* records, AvroStep* step, Node* node, int64_t value) noexcept:
    cdef float single
    cdef double twice
    if node.kind == DATE:
        return FIRST_DAY <= value <= LAST_DAY and add_number(records.reading, node, &value)
    if node.kind == TIMESTAMP:
        # In two steps, because the product may have more than 64 bits.
        if not FIRST_MICRO / step.micros <= value <= LAST_MICRO / step.micros:
            return False
        value *= step.micros
        return add_number(records.reading, node, &value)
    if node.kind == FLOAT:
        single = <float> <double> value
        return add_number(records.reading, node, &single)
    if node.kind == DOUBLE:
        twice = <double> value
        return add_number(records.reading, node, &twice)
    return add_number(records.reading, node, &value)  # the low bytes come first


cdef inline bint add_real(Records* records, Node* node, double value) noexcept:
    cdef float single
    if node.kind == FLOAT:
        single = <float> value
        return add_number(records.reading, node, &single)
    return add_number(records.reading, node, &value)


# ---- steps ----

cdef bint run(Records* records, int number, int depth) noexcept:
    """One value; False where it cannot be read."""
    cdef AvroStep* step = &records.steps[number]
    cdef Reading* reading = records.reading
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
        return add_content(records.reading, node, begin, value)
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
    if op == MEMBER_VALUE:
        for child in range(node.child_count):
            if child == step.size:
                if not run(records, records.children[step.first_child], depth + 1):
                    return False
            elif not add_null(reading, &reading.nodes[node.first_child + child]):
                return False
        return close_row(reading, node, True)
    return False


cdef bint run_enum(Records* records, AvroStep* step, Node* node) noexcept:
    cdef int64_t value
    cdef Text* text
    if not take_long(records.reading, &value) or not 0 <= value < step.text_count:
        return False
    text = &records.texts[step.first_text + value]
    if not text.length:
        return False
    return node == NULL or add_content(records.reading, node, text.content, text.length)


cdef bint run_items(Records* records, AvroStep* step, Node* node, int depth) noexcept:
    cdef Reading* reading = records.reading
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

cdef class AvroColumns(RecordColumns):
    """Reads columns of records with one plan; made once for many."""

    cdef Records records
    cdef int root

    def __cinit__(self, plan):
        cdef int number
        cdef Node* node
        cdef AvroStep* step
        children = [child for planned in plan.steps for child in planned.children]
        texts = [text for planned in plan.steps for text in planned.texts]
        self.kept = texts  # which keeps their bytes where they are
        self.kind = plan.nodes[0].kind
        self.root = plan.root
        self.make_nodes(len(plan.nodes))
        self.records.limits = <Digits*> calloc(len(plan.nodes), sizeof(Digits))
        self.records.steps = <AvroStep*> calloc(len(plan.steps), sizeof(AvroStep))
        self.records.children = <int*> calloc(max(len(children), 1), sizeof(int))
        self.records.texts = <Text*> calloc(max(len(texts), 1), sizeof(Text))
        if (self.records.limits == NULL or self.records.steps == NULL or self.records.children == NULL
                or self.records.texts == NULL):
            raise MemoryError
        for number, planned in enumerate(plan.nodes):
            node = &self.reading.nodes[number]
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
        free(self.records.limits)
        free(self.records.steps)
        free(self.records.children)
        free(self.records.texts)

    cdef bint read_record(self) noexcept:
        self.records.reading = &self.reading
        self.records.values_left = values_of(self.reading.end - self.reading.at)
        return run(&self.records, self.root, 0)
