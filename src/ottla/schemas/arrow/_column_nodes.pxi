# Columns that grow by rows, for the leaves that read records: a tree of nodes in a flat array, children behind each other.
#
# A record is read from the left into the nodes of its values. mark() remembers where all of them were before it, and
# go_back() takes back what a record left that turned out to be unreadable in its middle.

cdef enum:
    # Kinds of columns. JSON knows those up to LIST, by the same numbers (json_columns.py).
    OTHER = 0
    BOOLEAN = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    DOUBLE = 6
    STRING = 7
    DATE = 8
    TIMESTAMP = 9
    STRUCT = 10
    LIST = 11
    FLOAT = 12
    BINARY = 13
    DECIMAL = 14
    MAP = 15


cdef struct Growing:
    uint8_t* memory
    size_t used
    size_t capacity


cdef struct Node:
    int kind
    int width          # bytes of a value, 0 where there are none
    int first_child    # children stand behind each other
    int child_count
    int guess          # the child whose name probably comes next
    const char* name
    size_t name_bytes
    int64_t rows
    int64_t null_count
    Growing valid      # a byte for each row
    Growing data
    Growing offsets    # ends, one more than rows
    # Where the node was before the text that is being read.
    int64_t rows_before
    int64_t null_count_before
    size_t data_before


cdef struct Reading:
    Node* nodes
    const uint8_t* at
    const uint8_t* end
    bint has_memory
    bint has_room      # offsets of Arrow have 32 bits
    bint is_strict     # of JSON: a value under a name that is no field's makes a text one that is not plain


cdef bint more_room(Growing* space, size_t extra) noexcept:
    cdef size_t capacity = max(space.used + extra, 2 * space.capacity, <size_t> 1024)
    cdef uint8_t* larger = <uint8_t*> realloc(space.memory, capacity)
    if larger == NULL:
        return False
    space.memory = larger
    space.capacity = capacity
    return True


cdef inline bint make_room(Growing* space, size_t extra) noexcept:
    return space.used + extra <= space.capacity or more_room(space, extra)


# ---- rows of nodes ----

cdef inline bint close_row(Reading* reading, Node* node, bint is_there) noexcept:
    """One row more, whose value is in `data` already."""
    if not make_room(&node.valid, 1):
        reading.has_memory = False
        return False
    node.valid.memory[node.valid.used] = is_there
    node.valid.used += 1
    node.rows += 1
    if not is_there:
        node.null_count += 1
    if node.kind == STRING or node.kind == BINARY:
        if not make_room(&node.offsets, 4):
            reading.has_memory = False
            return False
        (<int32_t*> (node.offsets.memory + node.offsets.used))[0] = <int32_t> node.data.used
        node.offsets.used += 4
    return True


cdef inline bint close_list(Reading* reading, Node* node, bint is_there) noexcept:
    if reading.nodes[node.first_child].rows > INT32_MAX:
        reading.has_room = False
        return False
    if not make_room(&node.offsets, 4):
        reading.has_memory = False
        return False
    (<int32_t*> (node.offsets.memory + node.offsets.used))[0] = <int32_t> reading.nodes[node.first_child].rows
    node.offsets.used += 4
    return close_row(reading, node, is_there)


cdef bint add_null(Reading* reading, Node* node) noexcept:
    cdef int child
    if node.kind == STRUCT:
        for child in range(node.first_child, node.first_child + node.child_count):
            if not add_null(reading, &reading.nodes[child]):
                return False
    elif node.kind == LIST or node.kind == MAP:
        return close_list(reading, node, False)
    elif node.width:
        if not make_room(&node.data, node.width):
            reading.has_memory = False
            return False
        memset(node.data.memory + node.data.used, 0, node.width)
        node.data.used += node.width
    return close_row(reading, node, False)


cdef inline bint add_number(Reading* reading, Node* node, const void* value) noexcept:
    if not make_room(&node.data, node.width):
        reading.has_memory = False
        return False
    memcpy(node.data.memory + node.data.used, value, node.width)
    node.data.used += node.width
    return close_row(reading, node, True)


cdef inline bint add_content(Reading* reading, Node* node, const uint8_t* content, size_t length) noexcept:
    if node.data.used + length > INT32_MAX:
        reading.has_room = False
        return False
    if not make_room(&node.data, length):
        reading.has_memory = False
        return False
    memcpy(node.data.memory + node.data.used, content, length)
    node.data.used += length
    return close_row(reading, node, True)


# ---- texts ----

cdef bint is_utf8(const uint8_t* at, const uint8_t* end) noexcept:
    cdef uint64_t eight
    cdef uint8_t lead
    cdef int more, index
    while at < end:
        if end - at >= 8:
            memcpy(&eight, at, 8)
            if not eight & <uint64_t> 0x8080808080808080:
                at += 8
                continue
        lead = at[0]
        if lead < 0x80:
            at += 1
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        if end - at <= more:
            return False
        for index in range(1, more + 1):
            if at[index] & 0xC0 != 0x80:
                return False
        # Too long for what they say, halves of surrogate pairs, and what is beyond the last character.
        if (lead == 0xE0 and at[1] < 0xA0) or (lead == 0xED and at[1] > 0x9F):
            return False
        if (lead == 0xF0 and at[1] < 0x90) or (lead == 0xF4 and at[1] > 0x8F):
            return False
        at += more + 1
    return True


# ---- all nodes ----

cdef inline bint has_offsets(Node* node) noexcept:
    return node.kind == STRING or node.kind == LIST or node.kind == BINARY or node.kind == MAP


cdef int begin(Node* nodes, int node_count) except -1:
    """No rows anywhere; room that there was is kept."""
    cdef int number
    cdef Node* node
    for number in range(node_count):
        node = &nodes[number]
        node.rows = node.null_count = 0
        node.valid.used = node.data.used = node.offsets.used = 0
        if has_offsets(node):
            if not make_room(&node.offsets, 4):
                raise MemoryError
            (<int32_t*> node.offsets.memory)[0] = 0
            node.offsets.used = 4
    return 0


cdef inline void mark(Node* nodes, int node_count) noexcept:
    cdef int number
    cdef Node* node
    for number in range(node_count):
        node = &nodes[number]
        node.rows_before = node.rows
        node.null_count_before = node.null_count
        node.data_before = node.data.used


cdef void go_back(Node* nodes, int node_count) noexcept:
    cdef int number
    cdef Node* node
    for number in range(node_count):
        node = &nodes[number]
        node.rows = node.rows_before
        node.valid.used = node.rows
        node.null_count = node.null_count_before
        node.data.used = node.data_before
        if has_offsets(node):
            node.offsets.used = 4 * (node.rows + 1)


cdef object column_of(Node* nodes, int number):
    cdef Node* node = &nodes[number]
    cdef int child
    validity = bitmap(&node.valid) if node.null_count else None
    data = bitmap(&node.data) if node.kind == BOOLEAN else copied(&node.data)
    children = tuple([column_of(nodes, child) for child in range(node.first_child, node.first_child + node.child_count)])
    return Column(node.rows, node.null_count, validity, data, copied(&node.offsets), children)


cdef object copied(Growing* space):
    return PyBytes_FromStringAndSize(<char*> space.memory, space.used) if space.used else b""


cdef object bitmap(Growing* space):
    """A byte for each row becomes a bit."""
    cdef size_t row
    found = PyBytes_FromStringAndSize(NULL, (space.used + 7) // 8)
    cdef uint8_t* bits = <uint8_t*> <char*> found
    memset(bits, 0, (space.used + 7) // 8)
    for row in range(space.used):
        bits[row >> 3] |= <uint8_t> (space.memory[row] << (row & 7))
    return found


cdef void free_nodes(Node* nodes, int node_count) noexcept:
    cdef int number
    for number in range(node_count):
        free(nodes[number].valid.memory)
        free(nodes[number].data.memory)
        free(nodes[number].offsets.memory)
    free(nodes)
