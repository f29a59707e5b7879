# decode_columns(): the twin of columns.py. Batches are walked in C, with no Python object per record.

cdef struct Growing:
    uint8_t* memory
    size_t used
    size_t capacity


cdef struct GrowingColumn:
    Growing offsets
    Growing data
    Growing validity
    int64_t rows
    int64_t null_count


cdef enum:
    FILLED = 0
    NO_MEMORY = 1
    COLUMN_FULL = 2
    BROKEN = 3


cdef inline bint make_room(Growing* space, size_t extra) noexcept nogil:
    """Room for `extra` bytes behind what is used; False when there is no memory for it."""
    cdef size_t capacity
    cdef uint8_t* larger
    if space.used + extra <= space.capacity:
        return True
    capacity = max(space.used + extra, 2 * space.capacity, <size_t> 64)
    larger = <uint8_t*> realloc(space.memory, capacity)
    if larger == NULL:
        return False
    space.memory = larger
    space.capacity = capacity
    return True


cdef inline bint make_rows(GrowingColumn* column, size_t rows, size_t data_bytes) noexcept nogil:
    return (make_room(&column.offsets, 4 * (rows + 1)) and make_room(&column.validity, rows / 8 + 2)
            and make_room(&column.data, data_bytes))


cdef inline void add_row(GrowingColumn* column, const uint8_t* data, int32_t length) noexcept nogil:
    """Room for the row and its bytes was made before."""
    cdef uint8_t bit = <uint8_t> (1 << (column.rows & 7))
    cdef uint8_t* validity = column.validity.memory + (column.rows >> 3)
    if bit == 1:
        validity[0] = 0
        column.validity.used += 1
    if length >= 0:
        validity[0] |= bit
        memcpy(column.data.memory + column.data.used, data, length)
        column.data.used += length
    else:
        column.null_count += 1
    column.rows += 1
    (<int32_t*> column.offsets.memory)[column.rows] = <int32_t> column.data.used
    column.offsets.used += 4


@cython.final
cdef class Block:
    """Memory that a finished column lives in, given out as a read-only buffer."""

    cdef uint8_t* memory
    cdef Py_ssize_t length

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.memory, self.length, 1, flags)

    def __dealloc__(self):
        free(self.memory)


cdef object hand_over(Growing* space):
    """A view on the filled memory, which from now on belongs to the view."""
    cdef Block block = Block.__new__(Block)
    if not make_room(space, 1):
        raise MemoryError("no memory for a column")
    block.memory = <uint8_t*> realloc(space.memory, max(space.used, <size_t> 1))
    if block.memory == NULL:
        block.memory = space.memory
    block.length = space.used
    space.memory = NULL
    space.used = space.capacity = 0
    return memoryview(block)


cdef object hand_over_column(GrowingColumn* column):
    validity = hand_over(&column.validity) if column.null_count else None
    return BytesColumn(hand_over(&column.offsets), hand_over(&column.data), validity, column.null_count)


cdef void drop_column(GrowingColumn* column) noexcept:
    free(column.offsets.memory)
    free(column.data.memory)
    free(column.validity.memory)


cdef class ColumnSet:
    """Columns while they are being filled."""

    cdef Growing offsets
    cdef Growing timestamps
    cdef Growing headers
    cdef GrowingColumn keys
    cdef GrowingColumn values
    cdef GrowingColumn header_keys
    cdef GrowingColumn header_values
    cdef int64_t from_offset
    cdef int64_t until_offset
    cdef bint has_until_offset
    cdef size_t limit_bytes
    # What went wrong in C, for the sentence that is made when the interpreter lock is held again.
    cdef const char* problem
    cdef int32_t problem_index

    def __dealloc__(self):
        free(self.offsets.memory)
        free(self.timestamps.memory)
        free(self.headers.memory)
        drop_column(&self.keys)
        drop_column(&self.values)
        drop_column(&self.header_keys)
        drop_column(&self.header_values)

    cdef int prepare(self, size_t expected_bytes) except -1:
        """Offsets start with a 0; values of uncompressed batches will take at most what the buffer has."""
        if not (make_rows(&self.keys, 0, 0) and make_rows(&self.values, 0, expected_bytes)
                and make_rows(&self.header_keys, 0, 0) and make_rows(&self.header_values, 0, 0)
                and make_room(&self.headers, 4)):
            raise MemoryError("no memory for columns")
        (<int32_t*> self.keys.offsets.memory)[0] = 0
        (<int32_t*> self.values.offsets.memory)[0] = 0
        (<int32_t*> self.header_keys.offsets.memory)[0] = 0
        (<int32_t*> self.header_values.offsets.memory)[0] = 0
        (<int32_t*> self.headers.memory)[0] = 0
        self.headers.used = 4
        self.keys.offsets.used = self.values.offsets.used = 4
        self.header_keys.offsets.used = self.header_values.offsets.used = 4
        return 0

    cdef int add_headers(self, const Parsed* record) noexcept nogil:
        cdef const uint8_t* at = record.headers
        cdef const uint8_t* data = NULL
        cdef int32_t length = 0
        cdef size_t room = record.end - at
        if not (make_rows(&self.header_keys, record.header_count, room)
                and make_rows(&self.header_values, record.header_count, room)):
            return NO_MEMORY
        if (self.header_keys.data.used + room > self.limit_bytes
                or self.header_values.data.used + room > self.limit_bytes
                or self.header_keys.rows + record.header_count > 0x7FFFFFFF):
            if not self.headers_fit(record):
                return COLUMN_FULL
        for _ in range(record.header_count):
            at = take_bytes(at, record.end, &data, &length)
            if at == NULL or length < 0:
                return BROKEN
            add_row(&self.header_keys, data, length)
            at = take_bytes(at, record.end, &data, &length)
            if at == NULL:
                return BROKEN
            add_row(&self.header_values, data, length)
        return FILLED

    cdef bint headers_fit(self, const Parsed* record) noexcept nogil:
        """The exact sum, taken only near the limit."""
        cdef const uint8_t* at = record.headers
        cdef const uint8_t* data = NULL
        cdef int32_t length = 0
        cdef size_t keys = self.header_keys.data.used
        cdef size_t values = self.header_values.data.used
        for _ in range(record.header_count):
            at = take_bytes(at, record.end, &data, &length)
            if at == NULL or length < 0:
                return False
            keys += length
            at = take_bytes(at, record.end, &data, &length)
            if at == NULL:
                return False
            values += max(length, 0)
        return (keys <= self.limit_bytes and values <= self.limit_bytes
                and self.header_keys.rows + record.header_count <= 0x7FFFFFFF)

    cdef int fill(self, const Header* header, const uint8_t* at, const uint8_t* end) noexcept nogil:
        """All records of one batch whose shape was checked."""
        cdef int32_t index
        cdef int64_t offset, time
        cdef size_t count = header.record_count
        cdef size_t room = end - at
        cdef bint append_time = header.attributes & LOG_APPEND_TIME_BIT != 0
        cdef int outcome
        cdef Parsed record
        if not (make_room(&self.offsets, 8 * count) and make_room(&self.timestamps, 8 * count)
                and make_room(&self.headers, 4 * count) and make_rows(&self.keys, count, room)
                and make_rows(&self.values, count, room)):
            return NO_MEMORY
        for index in range(header.record_count):
            self.problem = parse_record(at, end, &record)
            if self.problem != NULL:
                self.problem_index = index
                return BROKEN
            at = record.end
            offset = wrapped_sum(header.base_offset, record.offset_delta)
            if offset < self.from_offset or (self.has_until_offset and offset >= self.until_offset):
                continue
            if (self.keys.data.used + max(record.key_length, 0) > self.limit_bytes
                    or self.values.data.used + max(record.value_length, 0) > self.limit_bytes):
                return COLUMN_FULL
            if record.header_count:
                outcome = self.add_headers(&record)
                if outcome != FILLED:
                    self.problem = b"its headers are broken"
                    self.problem_index = index
                    return outcome
            time = header.max_timestamp_ms if append_time \
                else wrapped_sum(header.base_timestamp_ms, record.timestamp_delta)
            (<int64_t*> (self.offsets.memory + self.offsets.used))[0] = offset
            self.offsets.used += 8
            (<int64_t*> (self.timestamps.memory + self.timestamps.used))[0] = time
            self.timestamps.used += 8
            add_row(&self.keys, record.key, record.key_length)
            add_row(&self.values, record.value, record.value_length)
            (<int32_t*> (self.headers.memory + self.headers.used))[0] = <int32_t> self.header_keys.rows
            self.headers.used += 4
        if at != end:
            self.problem = b"bytes are left after it"
            self.problem_index = header.record_count - 1
            return BROKEN
        return FILLED

    cdef int add(self, RecordBatch batch, Py_ssize_t limit_bytes) except -1:
        cdef const uint8_t* at = NULL
        cdef const uint8_t* end = NULL
        cdef int outcome
        keep = batch.open_records(limit_bytes, &at, &end)
        if end - at < LOCK_FREE_BYTES:
            outcome = self.fill(&batch.header, at, end)
        else:
            with nogil:
                outcome = self.fill(&batch.header, at, end)
        if outcome == NO_MEMORY:
            raise MemoryError("no memory for columns")
        if outcome == COLUMN_FULL:
            raise ValueError(f"a column would pass {self.limit_bytes} bytes: decode fewer batches at once")
        if outcome == BROKEN:
            batch.fail(self.problem_index, self.problem)
        return 0

    cdef object finished_header_keys(self):
        """Text columns must be UTF-8; what is not is replaced, as the records themselves show it."""
        cdef size_t index
        cdef uint8_t high = 0
        for index in range(self.header_keys.data.used):
            high |= self.header_keys.data.memory[index]
        return hand_over_column(&self.header_keys) if high < 0x80 else repaired_text(
            hand_over_column(&self.header_keys), self.limit_bytes)


cdef object repaired_text(column, Py_ssize_t limit_bytes):
    cdef const int32_t[::1] bounds = column.offsets.cast("i")
    cdef Py_ssize_t index
    cdef bytes data = bytes(column.data)
    try:
        for index in range(bounds.shape[0] - 1):
            PyUnicode_DecodeUTF8(PyBytes_AS_STRING(data) + bounds[index], bounds[index + 1] - bounds[index], b"strict")
        return column
    except UnicodeDecodeError:
        pass
    parts = [data[bounds[index]:bounds[index + 1]].decode("utf-8", "replace").encode()
             for index in range(bounds.shape[0] - 1)]
    return column_of(parts, limit_bytes)


def decode_columns(
    buffer,
    Py_ssize_t limit_bytes=DEFAULT_LIMIT_BYTES,
    *,
    from_offset=None,
    until_offset=None,
    bint include_control=False,
    bint check_crc=True,
    column_limit_bytes=0x7FFFFFFF,
):
    """All records with from_offset <= offset < until_offset, as columns."""
    cdef RecordStream stream = RecordStream(buffer)
    cdef ColumnSet columns = ColumnSet()
    cdef RecordBatch batch
    columns.from_offset = INT64_MIN if from_offset is None else from_offset
    if until_offset is not None:
        columns.until_offset = until_offset
        columns.has_until_offset = True
    check_column_limit(column_limit_bytes)
    columns.limit_bytes = column_limit_bytes
    columns.prepare(stream.view.len)
    for item in stream:
        if isinstance(item, MessageSet):
            raise CorruptMessage(f"message sets v{item.magic} at position {item.position} cannot be read as columns")
        batch = item
        if check_crc:
            batch.check()
        if (batch.header.attributes & CONTROL_BIT and not include_control) or (
                wrapped_sum(batch.header.base_offset, batch.header.last_offset_delta) < columns.from_offset):
            continue
        columns.add(batch, limit_bytes)
    return Columns(
        columns.keys.rows,
        hand_over(&columns.offsets),
        hand_over(&columns.timestamps),
        hand_over_column(&columns.keys),
        hand_over_column(&columns.values),
        hand_over(&columns.headers),
        columns.finished_header_keys(),
        hand_over_column(&columns.header_values),
    )
