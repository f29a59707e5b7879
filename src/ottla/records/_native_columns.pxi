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
    # What the caller wants: the bits of columns.Wanted.
    OFFSET = 1
    TIMESTAMP = 2
    KEY = 4
    VALUE = 8
    HEADERS = 16
    TIMESTAMP_TYPE = 32
    # Below this a copy into a bytes object is cheaper than an owner and a view for the memory itself.
    COPIED_BYTES_MAX = 32 * 1024
    # A set of columns that grew beyond this is not kept for the next call.
    SPARE_BYTES_MAX = 256 * 1024
    # Memory of large columns that nobody holds any more: so many pieces, and so many bytes altogether, are used again.
    USED_PIECES = 32
    USED_BYTES_MAX = 32 * 1024 * 1024


# A named tuple's own constructor is a Python function; this is what it calls.
cdef object named_tuple = tuple.__new__


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


# ---- memory that is used again: fresh pages cost more than the bytes that go into them ----

# Touched only with the interpreter lock held.
cdef Growing used_pieces[USED_PIECES]
cdef int used_count = 0
cdef size_t used_bytes = 0


cdef void keep_used(uint8_t* memory, size_t capacity) noexcept:
    """Nobody holds this any more. What was used longest ago makes room for it."""
    global used_count, used_bytes
    if memory == NULL or capacity > USED_BYTES_MAX:
        free(memory)
        return
    while used_count == USED_PIECES or used_bytes + capacity > USED_BYTES_MAX:
        free(used_pieces[0].memory)
        used_bytes -= used_pieces[0].capacity
        used_count -= 1
        memmove(&used_pieces[0], &used_pieces[1], used_count * sizeof(Growing))
    used_pieces[used_count].memory = memory
    used_pieces[used_count].capacity = capacity
    used_count += 1
    used_bytes += capacity


cdef void take_used(Growing* space, size_t wanted) noexcept:
    """The piece that was used last and has room for `wanted` bytes, but not far too much: the processor may still have
    it at hand. Nothing changes without one."""
    global used_count, used_bytes
    cdef int found = used_count - 1
    if wanted < COPIED_BYTES_MAX or space.capacity >= wanted:
        return
    while found >= 0 and not wanted <= used_pieces[found].capacity <= 2 * wanted:
        found -= 1
    if found < 0:
        return
    free(space.memory)
    space.memory = used_pieces[found].memory
    space.capacity = used_pieces[found].capacity
    used_bytes -= space.capacity
    used_count -= 1
    memmove(&used_pieces[found], &used_pieces[found + 1], (used_count - found) * sizeof(Growing))


@cython.final
cdef class Block:
    """Memory that a large finished column lives in, given out as a read-only buffer."""

    cdef uint8_t* memory
    cdef Py_ssize_t length
    cdef size_t capacity

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.memory, self.length, 1, flags)

    def __dealloc__(self):
        keep_used(self.memory, self.capacity)


cdef object hand_over(Growing* space):
    """What was filled, as something that owns its memory: a copy when it is small, the memory itself when it is not."""
    cdef Block block
    cdef uint8_t* shorter
    cdef Py_ssize_t length = space.used
    space.used = 0
    if length < COPIED_BYTES_MAX:
        return PyBytes_FromStringAndSize(<char*> space.memory, length)
    block = Block.__new__(Block)
    block.memory = space.memory
    block.length = length
    block.capacity = space.capacity
    if space.capacity - length > space.capacity / 2:
        shorter = <uint8_t*> realloc(space.memory, length)
        if shorter != NULL:
            block.memory = shorter
            block.capacity = length
    space.memory = NULL
    space.capacity = 0
    return memoryview(block)


cdef object hand_over_column(GrowingColumn* column):
    validity = hand_over(&column.validity) if column.null_count else None
    return named_tuple(
        BytesColumn, (hand_over(&column.offsets), hand_over(&column.data), validity, column.null_count)
    )


cdef inline void start_column(GrowingColumn* column) noexcept:
    (<int32_t*> column.offsets.memory)[0] = 0
    column.offsets.used = 4
    column.data.used = column.validity.used = 0
    column.rows = column.null_count = 0


cdef inline size_t column_capacity(GrowingColumn* column) noexcept:
    return column.offsets.capacity + column.data.capacity + column.validity.capacity


cdef void drop_column(GrowingColumn* column) noexcept:
    free(column.offsets.memory)
    free(column.data.memory)
    free(column.validity.memory)


cdef inline int64_t scaled(int64_t time, int64_t scale) noexcept nogil:
    """A time in smaller units; what does not fit becomes the last time there is."""
    if time > INT64_MAX // scale:
        return INT64_MAX
    return INT64_MIN if time < INT64_MIN // scale else time * scale


cdef class ColumnSet:
    """Columns while they are being filled."""

    cdef Growing offsets
    cdef Growing timestamps
    cdef Growing timestamp_types
    cdef Growing headers
    cdef GrowingColumn keys
    cdef GrowingColumn values
    cdef GrowingColumn header_keys
    cdef GrowingColumn header_values
    cdef int64_t rows
    cdef int64_t from_offset
    cdef int64_t until_offset
    cdef int64_t timestamp_scale
    cdef bint has_until_offset
    cdef bint include_control
    cdef bint check_crc
    cdef int wanted
    cdef size_t limit_bytes
    # What went wrong in C, for the sentence that is made when the interpreter lock is held again.
    cdef const char* problem
    cdef int32_t problem_index

    def __dealloc__(self):
        free(self.offsets.memory)
        free(self.timestamps.memory)
        free(self.timestamp_types.memory)
        free(self.headers.memory)
        drop_column(&self.keys)
        drop_column(&self.values)
        drop_column(&self.header_keys)
        drop_column(&self.header_values)

    cdef int prepare(self, size_t rows, size_t expected_bytes) except -1:
        """Room for what the headers of the batches promise, and the 0 that offsets start with."""
        self.rows = 0
        self.offsets.used = self.timestamps.used = self.timestamp_types.used = self.headers.used = 0
        self.values.data.used = self.values.offsets.used = self.keys.offsets.used = 0
        if self.wanted & VALUE:
            take_used(&self.values.data, expected_bytes)
            take_used(&self.values.offsets, 4 * (rows + 1))
        if self.wanted & KEY:
            take_used(&self.keys.offsets, 4 * (rows + 1))
        if self.wanted & OFFSET:
            take_used(&self.offsets, 8 * rows)
        if self.wanted & TIMESTAMP:
            take_used(&self.timestamps, 8 * rows)
        if self.wanted & TIMESTAMP_TYPE:
            take_used(&self.timestamp_types, 4 * rows)
        if self.wanted & HEADERS:
            take_used(&self.headers, 4 * (rows + 1))
        if not (self.make_rows(rows, 0, expected_bytes) and make_rows(&self.keys, 0, 0)
                and make_rows(&self.values, 0, 0) and make_rows(&self.header_keys, 0, 0)
                and make_rows(&self.header_values, 0, 0) and make_room(&self.headers, 4)):
            raise MemoryError("no memory for columns")
        (<int32_t*> self.headers.memory)[0] = 0
        self.headers.used = 4
        start_column(&self.keys)
        start_column(&self.values)
        start_column(&self.header_keys)
        start_column(&self.header_values)
        return 0

    cdef bint make_rows(self, size_t rows, size_t key_bytes, size_t value_bytes) noexcept nogil:
        """Room for so many more rows in every column that is wanted."""
        return ((not self.wanted & OFFSET or make_room(&self.offsets, 8 * rows))
                and (not self.wanted & TIMESTAMP or make_room(&self.timestamps, 8 * rows))
                and (not self.wanted & TIMESTAMP_TYPE or make_room(&self.timestamp_types, 4 * rows))
                and (not self.wanted & HEADERS or make_room(&self.headers, 4 * (rows + 1)))
                and (not self.wanted & KEY or make_rows(&self.keys, rows, key_bytes))
                and (not self.wanted & VALUE or make_rows(&self.values, rows, value_bytes)))

    cdef size_t capacity(self) noexcept:
        return (self.offsets.capacity + self.timestamps.capacity + self.timestamp_types.capacity
                + self.headers.capacity + column_capacity(&self.keys) + column_capacity(&self.values)
                + column_capacity(&self.header_keys) + column_capacity(&self.header_values))

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
        cdef size_t room = end - at
        cdef int wanted = self.wanted
        cdef int32_t append_time = header.attributes & LOG_APPEND_TIME_BIT != 0
        cdef int outcome
        cdef Parsed record
        if not self.make_rows(header.record_count, room, room):
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
            if wanted & KEY:
                if self.keys.data.used + max(record.key_length, 0) > self.limit_bytes:
                    return COLUMN_FULL
                add_row(&self.keys, record.key, record.key_length)
            if wanted & VALUE:
                if self.values.data.used + max(record.value_length, 0) > self.limit_bytes:
                    return COLUMN_FULL
                add_row(&self.values, record.value, record.value_length)
            if wanted & HEADERS:
                if record.header_count:
                    outcome = self.add_headers(&record)
                    if outcome != FILLED:
                        self.problem = b"its headers are broken"
                        self.problem_index = index
                        return outcome
                (<int32_t*> (self.headers.memory + self.headers.used))[0] = <int32_t> self.header_keys.rows
                self.headers.used += 4
            if wanted & OFFSET:
                (<int64_t*> (self.offsets.memory + self.offsets.used))[0] = offset
                self.offsets.used += 8
            if wanted & TIMESTAMP:
                time = header.max_timestamp_ms if append_time \
                    else wrapped_sum(header.base_timestamp_ms, record.timestamp_delta)
                if self.timestamp_scale != 1:
                    time = scaled(time, self.timestamp_scale)
                (<int64_t*> (self.timestamps.memory + self.timestamps.used))[0] = time
                self.timestamps.used += 8
            if wanted & TIMESTAMP_TYPE:
                (<int32_t*> (self.timestamp_types.memory + self.timestamp_types.used))[0] = append_time
                self.timestamp_types.used += 4
            self.rows += 1
        if at != end:
            self.problem = b"bytes are left after it"
            self.problem_index = header.record_count - 1
            return BROKEN
        return FILLED

    cdef bint is_passed_over(self, const Header* header) noexcept nogil:
        return ((header.attributes & CONTROL_BIT and not self.include_control)
                or (self.has_until_offset and header.base_offset >= self.until_offset)
                or wrapped_sum(header.base_offset, header.last_offset_delta) < self.from_offset)

    cdef Py_ssize_t fill_plain(self, const uint8_t* start, Py_ssize_t length, Py_ssize_t position) noexcept nogil:
        """Batch after batch, while they are not compressed and sound in every way; gives the position of the first
        that is not. What is odd about that one is found again, and said in words, by the careful way of add()."""
        cdef Header header
        cdef int64_t size
        while length - position >= HEADER_BYTES and start[position + MAGIC_AT] == 2:
            read_header(start + position, &header)
            size = size_of(&header)
            if (size < HEADER_BYTES or size > length - position or header.attributes & COMPRESSION_MASK
                    or header.record_count < 0 or header.last_offset_delta < 0
                    or header.record_count > <int64_t> header.last_offset_delta + 1
                    or <int64_t> header.record_count * RECORD_BYTES_MIN > size - HEADER_BYTES):
                break
            if self.check_crc and header.crc != ottla_crc32c(
                    0, start + position + ATTRIBUTES_AT, <size_t> (size - ATTRIBUTES_AT)):
                break
            if not self.is_passed_over(&header) and self.fill(
                    &header, start + position + HEADER_BYTES, start + position + size) != FILLED:
                break
            position += size
        return position

    cdef int add(self, RecordBatch batch, Py_ssize_t limit_bytes) except -1:
        """One batch, of any kind; whatever is wrong with it is raised."""
        cdef const uint8_t* at = NULL
        cdef const uint8_t* end = NULL
        cdef int outcome
        if self.check_crc:
            batch.check()
        if self.is_passed_over(&batch.header):
            return 0
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

    cdef object finished(self):
        return named_tuple(Columns, (
            self.rows,
            hand_over(&self.offsets),
            hand_over(&self.timestamps),
            hand_over_column(&self.keys),
            hand_over_column(&self.values),
            hand_over(&self.headers),
            self.finished_header_keys(),
            hand_over_column(&self.header_values),
            hand_over(&self.timestamp_types),
        ))

    cdef object finished_header_keys(self):
        """Text columns must be UTF-8; what is not is replaced, as the records themselves show it."""
        cdef size_t index
        cdef uint8_t high = 0
        for index in range(self.header_keys.data.used):
            high |= self.header_keys.data.memory[index]
        return hand_over_column(&self.header_keys) if high < 0x80 else repaired_text(
            hand_over_column(&self.header_keys), self.limit_bytes)


cdef object repaired_text(column, Py_ssize_t limit_bytes):
    cdef const int32_t[::1] bounds = memoryview(column.offsets).cast("i")
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


# The memory of the last small set, so that decoding batch by batch does not ask for a dozen pieces every time.
cdef ColumnSet spare = None


cdef size_t expected_rows(const uint8_t* start, Py_ssize_t length) except? 0:
    """How many records the headers claim, no more than the bytes could hold without compression."""
    cdef Py_ssize_t position = 0
    cdef int64_t size = 0
    cdef int magic = 0
    cdef size_t rows = 0
    while next_frame(start, length, position, &size, &magic):
        if magic < 2:
            raise CorruptMessage(f"message sets v{magic} at position {position} cannot be read as columns")
        rows += max(<int32_t> get32(start + position + RECORD_COUNT_AT), 0)
        position += size
    return min(rows, <size_t> length / RECORD_BYTES_MIN)


def decode_columns(
    buffer,
    Py_ssize_t limit_bytes=DEFAULT_LIMIT_BYTES,
    *,
    from_offset=None,
    until_offset=None,
    bint include_control=False,
    bint check_crc=True,
    column_limit_bytes=0x7FFFFFFF,
    int wanted=OFFSET | TIMESTAMP | KEY | VALUE | HEADERS,
    int64_t timestamp_scale=1,
):
    """All records with from_offset <= offset < until_offset, as columns."""
    global spare
    cdef RecordStream stream = RecordStream(buffer)
    cdef const uint8_t* start = <const uint8_t*> stream.view.buf
    cdef Py_ssize_t length = stream.view.len
    cdef ColumnSet columns = spare
    cdef Py_ssize_t position = 0
    cdef int64_t size = 0
    cdef int magic = 0
    spare = None
    if columns is None:
        columns = ColumnSet()
    check_column_limit(column_limit_bytes)
    check_timestamp_scale(timestamp_scale)
    columns.from_offset = INT64_MIN if from_offset is None else from_offset
    columns.has_until_offset = until_offset is not None
    columns.until_offset = 0 if until_offset is None else until_offset
    columns.include_control, columns.check_crc = include_control, check_crc
    columns.wanted, columns.timestamp_scale = wanted, timestamp_scale
    columns.limit_bytes = column_limit_bytes
    columns.prepare(expected_rows(start, length), length)
    while True:
        if length - position < LOCK_FREE_BYTES:
            position = columns.fill_plain(start, length, position)
        else:
            with nogil:
                position = columns.fill_plain(start, length, position)
        if not next_frame(start, length, position, &size, &magic):
            break
        columns.add(RecordBatch(buffer, position), limit_bytes)
        position += size
    result = columns.finished()
    if columns.capacity() <= SPARE_BYTES_MAX:
        spare = columns
    return result
