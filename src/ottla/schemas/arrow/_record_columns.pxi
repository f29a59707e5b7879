# Columns of records that are bytes of a binary format, read by nodes (_column_nodes.pxi): what Avro and Protobuf share.

cdef struct Text:
    const uint8_t* content
    size_t length


cdef class RecordColumns:
    """Reads a column of bytes, record by record, into nodes; a subclass reads one."""

    cdef Reading reading
    cdef int node_count
    cdef object kind
    cdef list kept     # what the nodes point to

    cdef int make_nodes(self, int node_count) except -1:
        self.reading.nodes = <Node*> calloc(node_count, sizeof(Node))
        if self.reading.nodes == NULL:
            raise MemoryError
        self.node_count = node_count
        return 0

    def __dealloc__(self):
        free_nodes(self.reading.nodes, self.node_count)

    cdef bint read_record(self) noexcept:
        """The bytes from `at` to `end` as one row of the first node; False where they cannot be read."""
        return False

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
        return array_of(self.kind, column_of(self.reading.nodes, 0))

    cdef int read_rows(self, Py_ssize_t row_count, const int32_t* ends, const uint8_t* data, Py_ssize_t data_bytes,
                       const uint8_t* valid, Py_ssize_t first_row, Py_ssize_t skipped_bytes) except -1:
        cdef Reading* reading = &self.reading
        cdef Py_ssize_t row
        cdef bint is_read
        reading.has_room = reading.has_memory = True
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
                    is_read = self.read_record() and reading.at == reading.end
                if not is_read and reading.has_memory:
                    go_back(reading.nodes, self.node_count)
            if not reading.has_room:
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
