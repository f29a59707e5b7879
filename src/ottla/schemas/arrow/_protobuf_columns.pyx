# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of protobuf_columns.py: messages of Protobuf into columns, without a Python object for a value.

Read the Python twin for what is plain. Here only what C changes: values go into nodes (_column_nodes.pxi) as they come;
every node has as many rows as its struct, so a field that came already is known by its rows.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

import pyarrow as pa

from ottla.schemas.arrow import protobuf_columns as twin
from ottla.schemas.arrow.columns import Column, array_of

include "_column_nodes.pxi"
include "_record_columns.pxi"

cdef enum:
    OTHER_FIELD = 0
    DOUBLE_FIELD = 1
    FLOAT_FIELD = 2
    INT64_FIELD = 3
    INT32_FIELD = 4
    UINT32_FIELD = 5
    UINT64_FIELD = 6
    SINT32_FIELD = 7
    SINT64_FIELD = 8
    FIXED32_FIELD = 9
    FIXED64_FIELD = 10
    SFIXED32_FIELD = 11
    SFIXED64_FIELD = 12
    BOOL_FIELD = 13
    STRING_FIELD = 14
    BYTES_FIELD = 15
    ENUM_FIELD = 16
    TIMESTAMP_FIELD = 17
    MESSAGE_FIELD = 18
    VARINT = 0
    BITS_64 = 1
    SIZED = 2
    BITS_32 = 5
    DEPTH_MAX = 64
    FIELD_NUMBER_MAX = 536870911

cdef int64_t FIRST_SECOND = twin.FIRST_MICRO // 1000000, LAST_SECOND = twin.LAST_MICRO // 1000000

if [op.value for op in twin.ProtobufOp] != list(range(MESSAGE_FIELD + 1)):
    raise ImportError("the twins of the Protobuf columns have different fields")
if (twin.DEPTH_MAX, twin.FIELD_NUMBER_MAX) != (DEPTH_MAX, FIELD_NUMBER_MAX):
    raise ImportError("the twins of the Protobuf columns have different limits")


cdef struct Field:
    # What stands behind a node; of a list it is what its items are.
    uint32_t number
    int op
    int wire_type
    bint is_repeated
    bint may_miss
    int oneof
    int first_text     # in `texts`
    int text_count


cdef struct Messages:
    Reading* reading
    Field* fields      # for each node
    Text* texts


# ---- the words of Protobuf ----

cdef inline bint take_varint(Reading* reading, uint64_t* value) noexcept:
    cdef uint64_t found = 0
    cdef uint8_t byte
    cdef int shift
    for shift in range(0, 70, 7):
        if reading.at == reading.end:
            return False
        byte = reading.at[0]
        reading.at += 1
        if shift == 63 and byte > 1:
            return False
        found |= (<uint64_t> (byte & 0x7F)) << shift
        if byte < 0x80:
            value[0] = found
            return True
    return False


cdef inline bint take_bytes(Reading* reading, uint64_t count, const uint8_t** content) noexcept:
    if count > <uint64_t> (reading.end - reading.at):
        return False
    content[0] = reading.at
    reading.at += count
    return True


cdef inline bint take_sized(Reading* reading, const uint8_t** content, uint64_t* length) noexcept:
    return take_varint(reading, length) and take_bytes(reading, length[0], content)


cdef inline bint take_tag(Reading* reading, uint32_t* number, int* wire_type) noexcept:
    cdef uint64_t tag
    if not take_varint(reading, &tag) or not 1 <= tag >> 3 <= FIELD_NUMBER_MAX:
        return False
    number[0] = <uint32_t> (tag >> 3)
    wire_type[0] = <int> (tag & 7)
    return True


cdef bint skip(Reading* reading, int wire_type) noexcept:
    cdef const uint8_t* content
    cdef uint64_t value
    if wire_type == VARINT:
        return take_varint(reading, &value)
    if wire_type == SIZED:
        return take_sized(reading, &content, &value)
    if wire_type == BITS_32:
        return take_bytes(reading, 4, &content)
    return wire_type == BITS_64 and take_bytes(reading, 8, &content)


# ---- values ----

cdef inline bint add_unsigned(Reading* reading, Node* node, uint64_t value) noexcept:
    """Into a decimal of 128 bits."""
    cdef uint64_t[2] wide
    wide[0] = value
    wide[1] = 0
    return add_number(reading, node, wide)


cdef bint read_number(Messages* messages, Field* field, Node* node) noexcept:
    cdef Reading* reading = messages.reading
    cdef uint64_t value
    cdef int64_t found
    cdef uint8_t flag
    cdef Text* text
    cdef int op = field.op
    if not take_varint(reading, &value):
        return False
    if op == ENUM_FIELD:
        if value >= <uint64_t> field.text_count:
            return False
        text = &messages.texts[field.first_text + value]
        return text.length and add_content(reading, node, text.content, text.length)
    if op == UINT64_FIELD:
        return add_unsigned(reading, node, value)
    if op == BOOL_FIELD:
        flag = <uint8_t> value
        return value < 2 and add_number(reading, node, &flag)
    if op == SINT32_FIELD or op == SINT64_FIELD:
        found = <int64_t> (value >> 1) ^ -(<int64_t> (value & 1))
        if op == SINT32_FIELD and value > 0xFFFFFFFF:
            return False
    else:
        found = <int64_t> value
        if op == INT32_FIELD and found != <int32_t> found or op == UINT32_FIELD and value > 0xFFFFFFFF:
            return False
    return add_number(reading, node, &found)  # the low bytes come first


cdef bint read_fixed(Reading* reading, Field* field, Node* node) noexcept:
    cdef const uint8_t* content
    cdef uint64_t wide = 0
    if not take_bytes(reading, 4 if field.wire_type == BITS_32 else 8, &content):
        return False
    if field.op == FIXED32_FIELD:
        memcpy(&wide, content, 4)
        return add_number(reading, node, &wide)
    if field.op == FIXED64_FIELD:
        memcpy(&wide, content, 8)
        return add_unsigned(reading, node, wide)
    return add_number(reading, node, content)


cdef bint read_timestamp(Reading* reading, Node* node) noexcept:
    """The bytes up to `end`."""
    cdef uint32_t number
    cdef uint64_t value
    cdef int64_t micros
    cdef int64_t[3] parts
    cdef bint[3] came
    cdef int wire_type
    parts[1] = parts[2] = 0
    came[1] = came[2] = False
    while reading.at < reading.end:
        if not take_tag(reading, &number, &wire_type):
            return False
        if number > 2:
            if not skip(reading, wire_type):
                return False
        elif came[number] or wire_type != VARINT or not take_varint(reading, &value):
            return False
        else:
            parts[number] = <int64_t> value
            came[number] = True
    if not FIRST_SECOND <= parts[1] <= LAST_SECOND or not 0 <= parts[2] < 1000000000:
        return False
    micros = parts[1] * 1000000 + parts[2] / 1000
    return add_number(reading, node, &micros)


cdef bint read_value(Messages* messages, Field* field, int number, int depth) noexcept:
    """One value of a field into the node of this number."""
    cdef Reading* reading = messages.reading
    cdef Node* node = &reading.nodes[number]
    cdef const uint8_t* content
    cdef const uint8_t* end
    cdef uint64_t length
    cdef bint is_read
    if field.wire_type == VARINT:
        return read_number(messages, field, node)
    if field.wire_type != SIZED:
        return read_fixed(reading, field, node)
    if not take_sized(reading, &content, &length):
        return False
    if field.op == STRING_FIELD:
        return is_utf8(content, content + length) and add_content(reading, node, content, length)
    if field.op == BYTES_FIELD:
        return add_content(reading, node, content, length)
    end = reading.end
    reading.at = content
    reading.end = content + length
    if field.op == TIMESTAMP_FIELD:
        is_read = read_timestamp(reading, node)
    else:
        is_read = read_message(messages, number, depth + 1)
    reading.end = end
    return is_read


cdef bint read_items(Messages* messages, Field* field, int number, int wire_type, int depth) noexcept:
    """One value of a repeated field, or some that are packed, into the node of its items."""
    cdef Reading* reading = messages.reading
    cdef const uint8_t* content
    cdef const uint8_t* end
    cdef uint64_t length
    if wire_type == field.wire_type:
        return read_value(messages, field, number, depth)
    if wire_type != SIZED or not take_sized(reading, &content, &length):
        return False
    end = reading.end
    reading.at = content
    reading.end = content + length
    while reading.at < reading.end:
        if not read_value(messages, field, number, depth):
            return False
    reading.end = end
    return True


cdef inline int child_of(Messages* messages, Node* node, uint32_t number) noexcept:
    """The node of the field with this number, -1 for none. They mostly come in one order."""
    cdef int tried, child = node.guess
    for tried in range(node.child_count):
        if child >= node.child_count:
            child = 0
        if messages.fields[node.first_child + child].number == number:
            node.guess = child + 1
            return node.first_child + child
        child += 1
    return -1


cdef inline bint is_chosen(Messages* messages, Node* node, int oneof) noexcept:
    """Whether one of these fields came already."""
    cdef int child
    for child in range(node.first_child, node.first_child + node.child_count):
        if messages.fields[child].oneof == oneof and messages.reading.nodes[child].rows > node.rows:
            return True
    return False


cdef bint add_missing(Messages* messages, int number) noexcept:
    cdef Reading* reading = messages.reading
    cdef Node* node = &reading.nodes[number]
    cdef Field* field = &messages.fields[number]
    cdef Text* text
    cdef uint64_t[2] zeros
    if field.may_miss or field.op == OTHER_FIELD:
        return add_null(reading, node)
    if field.op == ENUM_FIELD:
        text = &messages.texts[field.first_text]
        return field.text_count and text.length and add_content(reading, node, text.content, text.length)
    if node.width:
        zeros[0] = zeros[1] = 0
        return add_number(reading, node, zeros)
    return close_row(reading, node, True)


cdef bint read_message(Messages* messages, int number, int depth) noexcept:
    """The bytes up to `end` as one row of the node of this number."""
    cdef Reading* reading = messages.reading
    cdef Node* node = &reading.nodes[number]
    cdef Field* field
    cdef uint32_t field_number
    cdef int wire_type, child
    if depth > DEPTH_MAX:
        return False
    while reading.at < reading.end:
        if not take_tag(reading, &field_number, &wire_type):
            return False
        child = child_of(messages, node, field_number)
        if child < 0:
            if not skip(reading, wire_type):
                return False
            continue
        field = &messages.fields[child]
        if field.op == OTHER_FIELD:
            return False
        if field.is_repeated:
            if not read_items(messages, field, reading.nodes[child].first_child, wire_type, depth):
                return False
            continue
        if wire_type != field.wire_type or reading.nodes[child].rows > node.rows:
            return False
        if field.oneof >= 0 and is_chosen(messages, node, field.oneof):
            return False
        if not read_value(messages, field, child, depth):
            return False
    for child in range(node.first_child, node.first_child + node.child_count):
        if messages.fields[child].is_repeated:
            if not close_list(reading, &reading.nodes[child], True):
                return False
        elif reading.nodes[child].rows == node.rows and not add_missing(messages, child):
            return False
    return close_row(reading, node, True)


# ---- columns ----

cdef class ProtobufColumns(RecordColumns):
    """Reads columns of messages with one plan; made once for many."""

    cdef Messages messages
    cdef bint is_readable

    def __cinit__(self, plan):
        cdef int number
        self.kind = plan.kind
        self.is_readable = plan.is_readable
        planned = nodes_of(plan)
        self.kept = [text for _, field, _, _ in planned for text in (field.texts if field is not None else ())]
        self.make_nodes(len(planned))
        self.messages.reading = &self.reading
        self.messages.fields = <Field*> calloc(len(planned), sizeof(Field))
        self.messages.texts = <Text*> calloc(max(len(self.kept), 1), sizeof(Text))
        if self.messages.fields == NULL or self.messages.texts == NULL:
            raise MemoryError
        for number, text in enumerate(self.kept):
            self.messages.texts[number].content = text
            self.messages.texts[number].length = len(text)
        text_number = 0
        for number, (kind, field, first_child, child_count) in enumerate(planned):
            self.fill(number, kind, field, first_child, child_count, text_number)
            text_number += 0 if field is None else len(field.texts)

    cdef int fill(self, int number, kind, field, int first_child, int child_count, int first_text) except -1:
        cdef Node* node = &self.reading.nodes[number]
        cdef Field* filled = &self.messages.fields[number]
        node.first_child, node.child_count = first_child, child_count
        if field is None:
            node.kind, node.width = STRUCT if child_count else OTHER, 0
            return 0
        node.kind, node.width = kind_of(kind) if field.op != OTHER_FIELD or field.is_repeated else (OTHER, 0)
        filled.number, filled.op, filled.wire_type = field.number, field.op, twin.WIRE_TYPES[field.op]
        filled.is_repeated, filled.may_miss, filled.oneof = field.is_repeated, field.may_miss, field.oneof
        filled.first_text, filled.text_count = first_text, len(field.texts)
        return 0

    def __dealloc__(self):
        free(self.messages.fields)
        free(self.messages.texts)

    cdef bint read_record(self) noexcept:
        return self.is_readable and read_message(&self.messages, 0, 0)


def nodes_of(plan):
    """Type, field, first child and number of children of each node. The items of a list have no field of their own."""
    nodes = [(plan.kind, None, plan.fields)]
    found = []
    for kind, field, children in nodes:  # which grows meanwhile
        first_child = len(nodes)
        if field is not None and field.is_repeated:
            # Of a map, and of what is never read, the items have no columns: there are none.
            item = kind.value_type if pa.types.is_list(kind) else None
            nodes.append((item, None if field.op == OTHER_FIELD else field._replace(is_repeated=False), field.children))
        else:
            nodes.extend([(column.type, inner, inner.children) for column, inner in zip(kind if children else (), children)])
        found.append((kind, field, first_child, len(nodes) - first_child))
    return found
