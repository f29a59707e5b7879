# BatchBuilder: the twin of builder.py.
#
# The batch grows inside a bytes object that nobody else has seen; close() fills in the header and hands that very object
# out, so an uncompressed batch is never copied. While it grows it must stay ours alone, see reserve().

cdef enum:
    FIRST_CAPACITY_BYTES = 16384

cdef double ESTIMATE_MARGIN = 1.05


cdef class BatchBuilder:
    """Gathers records for one batch."""

    cdef PyObject* batch
    cdef bytes closed
    cdef object compression
    cdef object level
    cdef uint8_t* scratch
    cdef Py_ssize_t scratch_used
    cdef Py_ssize_t scratch_capacity
    cdef Py_ssize_t used
    cdef Py_ssize_t record_bytes
    cdef int64_t size_limit_bytes
    cdef int64_t base_offset
    cdef int64_t last_offset
    cdef int64_t base_timestamp_ms
    cdef int64_t max_timestamp_ms
    cdef int64_t append_time_ms
    cdef int64_t producer_id
    cdef int32_t base_sequence
    cdef int32_t leader_epoch
    cdef int32_t count
    cdef int16_t producer_epoch
    cdef int16_t attributes
    cdef double ratio
    cdef bint is_compressed
    cdef bint is_closing
    cdef bint has_base_timestamp

    def __init__(
        self,
        *,
        compression=Compression.NONE,
        level=None,
        int64_t size_limit_bytes=16384,
        int64_t base_offset=0,
        log_append_time_ms=None,
        int64_t producer_id=-1,
        int16_t producer_epoch=-1,
        int32_t base_sequence=-1,
        bint transactional=False,
        bint control=False,
        int32_t leader_epoch=-1,
        delete_horizon_ms=None,
        double compression_ratio=1.0,
    ):
        if self.batch != NULL or self.closed is not None:
            raise TypeError("a BatchBuilder makes one batch; make another one")
        if level is not None or not 0 <= size_limit_bytes <= BATCH_BYTES_MAX or not compression_ratio > 0:
            check_builder_arguments(compression, level, size_limit_bytes, compression_ratio)
        self.compression = compression if type(compression) is Compression else Compression(compression)
        self.level = level
        self.is_compressed = self.compression is not CODECS[0]
        self.size_limit_bytes = size_limit_bytes
        self.base_offset = base_offset
        self.last_offset = base_offset - 1
        self.leader_epoch = leader_epoch
        self.ratio = compression_ratio
        self.base_timestamp_ms = -1
        self.max_timestamp_ms = -1
        self.attributes = CONTROL_BIT if control else 0
        if log_append_time_ms is not None:
            self.append_time_ms = log_append_time_ms
            self.attributes |= LOG_APPEND_TIME_BIT
        if delete_horizon_ms is not None:
            self.base_timestamp_ms = delete_horizon_ms
            self.has_base_timestamp = True
            self.attributes |= DELETE_HORIZON_BIT
        self.set_producer(producer_id, producer_epoch, base_sequence, transactional)
        self.used = HEADER_BYTES
        self.reserve(min(size_limit_bytes, FIRST_CAPACITY_BYTES))

    def __dealloc__(self):
        Py_XDECREF(self.batch)
        free(self.scratch)

    # ---- what it knows of itself ----

    @property
    def record_count(self):
        return self.count

    @property
    def uncompressed_bytes(self):
        """The records alone, before compression."""
        return self.record_bytes

    cdef inline int64_t estimate(self) noexcept:
        if self.is_compressed:
            return HEADER_BYTES + <int64_t> (<double> self.record_bytes * self.ratio * ESTIMATE_MARGIN)
        return HEADER_BYTES + self.record_bytes

    @property
    def size_estimate_bytes(self):
        """What the batch will take on the wire, header included; exact once it is closed."""
        return self.estimate() if self.closed is None else len(self.closed)

    @property
    def is_full(self):
        """No further record will be taken."""
        return self.closed is not None or (self.count > 0 and self.estimate() >= self.size_limit_bytes)

    @property
    def is_closed(self):
        return self.closed is not None

    @property
    def compression_ratio(self):
        """Compressed over uncompressed: the expectation while open, the truth after close."""
        return self.ratio

    # ---- taking records ----

    def append(self, timestamp_ms, key, value, headers=()):
        """Take one record at the next offset; False when there is no room for it."""
        return self.take(NULL, timestamp_ms, key, value, headers) == 1

    def append_with_offset(self, int64_t offset, timestamp_ms, key, value, headers=()):
        """Take one record at this offset, which must lie behind the last one; gaps are kept."""
        return self.take(&offset, timestamp_ms, key, value, headers) == 1

    def append_many(self, timestamps, keys, values, headers=None):
        """Take records from parallel lists; gives how many fitted.

        When one of them is refused with an error, none is taken.
        """
        cdef bint one_time = isinstance(timestamps, int)
        cdef list all_keys = None if keys is None else list(keys)
        cdef list all_values = list(values)
        cdef list all_times = None if one_time else list(timestamps)
        cdef list all_headers = None if headers is None else list(headers)
        cdef Py_ssize_t total = len(all_values)
        cdef Py_ssize_t index
        check_lengths(total, all_times, all_keys, all_headers)
        used, record_bytes, count = self.used, self.record_bytes, self.count
        before = self.base_timestamp_ms, self.max_timestamp_ms, self.last_offset, self.has_base_timestamp
        try:
            for index in range(total):
                if not self.take(
                    NULL,
                    timestamps if one_time else all_times[index],
                    None if all_keys is None else all_keys[index],
                    all_values[index],
                    () if all_headers is None else all_headers[index],
                ):
                    return index
        except BaseException:
            self.used, self.record_bytes, self.count = used, record_bytes, count
            self.base_timestamp_ms, self.max_timestamp_ms, self.last_offset, self.has_base_timestamp = before
            raise
        return total

    cdef int take(self, const int64_t* offset, timestamp_ms, key, value, headers) except -1:
        """1 when the record was taken, 0 when there is no room."""
        if self.closed is not None or self.is_closing:
            return 0
        if not isinstance(timestamp_ms, int):
            check_timestamp(timestamp_ms)
        if key is not None and type(key) is not bytes:
            key = owned_bytes(key, "key")
        if value is not None and type(value) is not bytes:
            value = owned_bytes(value, "value")
        cdef int64_t time = time_of(timestamp_ms)
        cdef int32_t header_count = 0
        self.scratch_used = 0
        if headers is not EMPTY:
            header_count = self.encode_headers(headers)
        # Nothing below runs foreign code: from here to the end the state is ours. What ran above may have closed us.
        if self.closed is not None or self.is_closing:
            return 0
        return self.write(
            self.last_offset + 1 if offset == NULL else offset[0], time, key, value, header_count
        )

    cdef int write(self, int64_t offset, int64_t time, key, value, int32_t header_count) except -1:
        cdef Py_ssize_t key_length = -1 if key is None else PyBytes_GET_SIZE(key)
        cdef Py_ssize_t value_length = -1 if value is None else PyBytes_GET_SIZE(value)
        cdef int64_t base_time = self.base_timestamp_ms if self.has_base_timestamp else time
        cdef uint64_t time_raw = zigzag(wrapped_sum(time, -base_time))
        cdef uint64_t offset_raw = zigzag(wrapped_sum(offset, -self.base_offset))
        cdef uint64_t key_raw = zigzag(key_length)
        cdef uint64_t value_raw = zigzag(value_length)
        cdef int64_t body = 1 + varint_size(time_raw) + varint_size(offset_raw) + varint_size(key_raw) \
            + varint_size(value_raw) + varint_size(zigzag(header_count)) + self.scratch_used
        cdef int64_t total
        cdef uint8_t* at
        if offset <= self.last_offset:
            raise ValueError(f"offset {offset} does not come after {self.last_offset}")
        if offset_raw > 0xFFFFFFFFu:
            raise ValueError(f"offset {offset} is too far from the base offset {self.base_offset}: 2^31 - 1 at most")
        if key_length > 0:
            body += key_length
        if value_length > 0:
            body += value_length
        total = body + varint_size(zigzag(body))
        if not self.has_room_for(total):
            return 0
        self.reserve(total)
        at = <uint8_t*> PyBytes_AS_STRING(<object> self.batch) + self.used
        at = put_varint(at, zigzag(body))
        at[0] = 0
        at = put_varint(at + 1, time_raw)
        at = put_varint(at, offset_raw)
        at = put_varint(at, key_raw)
        if key_length > 0:
            memcpy(at, PyBytes_AS_STRING(key), key_length)
            at += key_length
        at = put_varint(at, value_raw)
        if value_length > 0:
            memcpy(at, PyBytes_AS_STRING(value), value_length)
            at += value_length
        at = put_varint(at, zigzag(header_count))
        if self.scratch_used:
            memcpy(at, self.scratch, self.scratch_used)
        self.used += total
        self.record_bytes += total
        self.base_timestamp_ms = base_time
        self.has_base_timestamp = True
        self.max_timestamp_ms = max(self.max_timestamp_ms, time)
        self.last_offset = offset
        self.count += 1
        return 1

    cdef inline int has_room_for(self, int64_t total) except -1:
        if self.record_bytes + total > RECORD_BYTES_LIMIT:
            if self.count == 0:
                raise ValueError(f"a record of {total} bytes cannot be sent: a batch holds {RECORD_BYTES_LIMIT}")
            return 0
        return self.count == 0 or self.estimate() + total <= self.size_limit_bytes

    cdef inline int reserve(self, Py_ssize_t extra) except -1:
        """Room for `extra` bytes behind what is used."""
        if self.batch == NULL or self.used + extra > PyBytes_GET_SIZE(<object> self.batch):
            self.grow(self.used + extra)
        return 0

    cdef int grow(self, Py_ssize_t needed) except -1:
        cdef PyObject* batch = self.batch
        cdef int64_t larger_size
        cdef bytes larger
        if batch != NULL:
            larger_size = 2 * PyBytes_GET_SIZE(<object> batch)
            if not self.is_compressed:
                # A full batch then has the size it will be cut to, and the allocator can use the same piece again.
                larger_size = min(larger_size, self.size_limit_bytes)
            needed = max(needed, larger_size)
            if _Py_REFCNT(batch) == 1:
                # The allocator can often make it longer in place. When it cannot, the old one is gone: so are we.
                self.batch = NULL
                _PyBytes_Resize(&batch, needed)
                self.batch = batch
                return 0
        # The first one; or a traceback of a failed compression still looks at the one we have.
        larger = PyBytes_FromStringAndSize(NULL, needed)
        if batch != NULL:
            memcpy(PyBytes_AS_STRING(larger), PyBytes_AS_STRING(<object> batch), self.used)
            Py_DECREF(<object> batch)
        Py_INCREF(larger)
        self.batch = <PyObject*> larger
        return 0

    cdef int32_t encode_headers(self, headers) except -1:
        """Into the scratch space, in one pass: what was counted is what is written."""
        cdef Py_ssize_t length
        cdef const char* text
        cdef int32_t count = 0
        len(headers)
        for name, content in headers:
            if not isinstance(name, str):
                raise TypeError(f"a header's key must be str, not {type(name).__name__}")
            if content is not None and type(content) is not bytes:
                content = owned_bytes(content, "header value")
            text = PyUnicode_AsUTF8AndSize(name, &length)
            self.put_scratch(text, length)
            if content is None:
                self.put_scratch(NULL, -1)
            else:
                self.put_scratch(PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
            count += 1
        return count

    cdef int put_scratch(self, const char* data, Py_ssize_t length) except -1:
        cdef Py_ssize_t needed = self.scratch_used + 10 + max(length, 0)
        cdef uint8_t* larger
        cdef uint8_t* at
        if needed > self.scratch_capacity:
            larger = <uint8_t*> realloc(self.scratch, 2 * needed)
            if larger == NULL:
                raise MemoryError(f"no memory for {needed} bytes of headers")
            self.scratch = larger
            self.scratch_capacity = 2 * needed
        at = put_varint(self.scratch + self.scratch_used, zigzag(length))
        if length > 0:
            memcpy(at, data, length)
            at += length
        self.scratch_used = at - self.scratch
        return 0

    # ---- finishing ----

    def set_producer(self, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, bint transactional):
        """Say whose batch it is. After close the header is written again: a retry may come with a new epoch."""
        cdef bint control = self.attributes & CONTROL_BIT != 0
        if producer_id != -1 or transactional:
            check_producer(producer_id, producer_epoch, base_sequence, transactional=transactional, control=control)
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        if transactional:
            self.attributes |= TRANSACTIONAL_BIT
        else:
            self.attributes &= ~TRANSACTIONAL_BIT
        cdef bytes batch
        if self.closed:
            batch = PyBytes_FromStringAndSize(PyBytes_AS_STRING(self.closed), PyBytes_GET_SIZE(self.closed))
            self.write_header(batch)
            self.closed = batch

    def override_last_offset(self, int64_t last_offset):
        """Let the batch end at this offset although its last records are gone, as compaction leaves it."""
        if last_offset < self.last_offset:
            raise ValueError(f"the batch already reaches offset {self.last_offset}, it cannot end at {last_offset}")
        if self.closed is not None:
            raise ValueError("the batch is closed; say where it ends before")
        self.last_offset = last_offset

    def close(self):
        """The finished batch."""
        if self.closed is None:
            # Compression and long sums release the interpreter lock: another thread could come by in the middle.
            if self.is_closing:
                raise RuntimeError("two threads close the same batch; a builder belongs to one thread at a time")
            self.is_closing = True
            try:
                self.closed = self.finished()
            finally:
                self.is_closing = False
            Py_XDECREF(self.batch)
            self.batch = NULL
        return self.closed

    cdef bytes finished(self):
        cdef bytes batch
        if self.last_offset < self.base_offset:
            return b""
        batch = self.compressed() if self.is_compressed and self.count else self.trimmed()
        self.write_header(batch)
        return batch

    cdef bytes trimmed(self):
        """The batch itself, cut to size without a copy."""
        cdef PyObject* batch = self.batch
        self.ratio = 1.0
        self.batch = NULL
        _PyBytes_Resize(&batch, self.used)
        result = <bytes> batch
        Py_DECREF(result)
        return result

    cdef bytes compressed(self):
        cdef bytes records, batch
        cdef Py_ssize_t length
        cdef object view = memoryview(<object> self.batch)[HEADER_BYTES:self.used]
        records = compress(self.compression, view, self.level)
        view.release()
        length = PyBytes_GET_SIZE(records)
        if length > RECORD_BYTES_LIMIT:
            raise ValueError(f"the compressed batch takes {length} bytes, a batch holds {RECORD_BYTES_LIMIT}")
        batch = PyBytes_FromStringAndSize(NULL, HEADER_BYTES + length)
        memcpy(PyBytes_AS_STRING(batch) + HEADER_BYTES, PyBytes_AS_STRING(records), length)
        self.ratio = <double> length / <double> self.record_bytes
        return batch

    cdef int write_header(self, bytes batch) except -1:
        """Only for bytes that were made here and were not handed out yet."""
        cdef uint8_t* at = <uint8_t*> PyBytes_AS_STRING(batch)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(batch)
        cdef int codec = <int> self.compression if self.count else 0
        put64(at, <uint64_t> self.base_offset)
        put32(at + LENGTH_AT, <uint32_t> (size - LOG_OVERHEAD_BYTES))
        put32(at + LEADER_EPOCH_AT, <uint32_t> self.leader_epoch)
        at[MAGIC_AT] = 2
        put16(at + ATTRIBUTES_AT, <uint16_t> (self.attributes | codec))
        put32(at + 23, <uint32_t> (self.last_offset - self.base_offset))
        put64(at + 27, <uint64_t> self.base_timestamp_ms)
        put64(at + MAX_TIMESTAMP_AT, <uint64_t> (
            self.append_time_ms if self.attributes & LOG_APPEND_TIME_BIT else self.max_timestamp_ms
        ))
        put64(at + 43, <uint64_t> self.producer_id)
        put16(at + 51, <uint16_t> self.producer_epoch)
        put32(at + 53, <uint32_t> self.base_sequence)
        put32(at + 57, <uint32_t> self.count)
        put32(at + CRC_AT, sum_of(at + ATTRIBUTES_AT, size - ATTRIBUTES_AT, 0))
        return 0


cdef tuple EMPTY = ()


cdef inline int64_t time_of(timestamp_ms) except? -2:
    cdef int overflow = 0
    cdef int64_t time = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
    if overflow or time < -1:
        check_timestamp(timestamp_ms)
    return time
