# Headers of batches: the twin of header.py.


# ---- headers ----

cdef struct Header:
    int64_t base_offset
    int64_t base_timestamp_ms
    int64_t max_timestamp_ms
    int64_t producer_id
    int32_t length
    int32_t leader_epoch
    int32_t last_offset_delta
    int32_t base_sequence
    int32_t record_count
    uint32_t crc
    int16_t attributes
    int16_t producer_epoch
    int8_t magic


cdef inline void read_header(const uint8_t* at, Header* header) noexcept nogil:
    header.base_offset = <int64_t> get64(at)
    header.length = <int32_t> get32(at + LENGTH_AT)
    header.leader_epoch = <int32_t> get32(at + LEADER_EPOCH_AT)
    header.magic = <int8_t> at[MAGIC_AT]
    header.crc = get32(at + CRC_AT)
    header.attributes = <int16_t> get16(at + ATTRIBUTES_AT)
    header.last_offset_delta = <int32_t> get32(at + 23)
    header.base_timestamp_ms = <int64_t> get64(at + 27)
    header.max_timestamp_ms = <int64_t> get64(at + MAX_TIMESTAMP_AT)
    header.producer_id = <int64_t> get64(at + 43)
    header.producer_epoch = <int16_t> get16(at + 51)
    header.base_sequence = <int32_t> get32(at + 53)
    header.record_count = <int32_t> get32(at + 57)


cdef inline int64_t wrapped_sum(int64_t first, int64_t second) noexcept nogil:
    # Unsigned, because overflow of signed numbers is not defined in C.
    return <int64_t> (<uint64_t> first + <uint64_t> second)


cdef inline int64_t size_of(const Header* header) noexcept nogil:
    return <int64_t> header.length + LOG_OVERHEAD_BYTES


cdef int check_position(Py_ssize_t position, Py_ssize_t length) except -1:
    if position < 0 or length - position < HEADER_BYTES:
        raise CorruptMessage(
            f"a batch header of {HEADER_BYTES} bytes cannot start at position {position} of {length} bytes"
        )
    return 0


cdef int check_shape(const Header* header, Py_ssize_t position, Py_ssize_t available) except -1:
    """Everything a header can say wrong that is seen without reading the records."""
    cdef int64_t size = size_of(header)
    cdef int codec = header.attributes & COMPRESSION_MASK
    if header.magic != 2:
        raise CorruptMessage(f"the batch at position {position} has magic {header.magic}, expected 2")
    if size < HEADER_BYTES:
        raise CorruptMessage(
            f"the batch at position {position} claims {size} bytes, its header alone takes {HEADER_BYTES}"
        )
    if size > available:
        raise CorruptMessage(f"the batch at position {position} claims {size} bytes, only {available} are there")
    if (header.record_count < 0 or header.last_offset_delta < 0
            or header.record_count > <int64_t> header.last_offset_delta + 1):
        raise CorruptMessage(
            f"the batch at position {position} claims {header.record_count} records "
            f"and a last offset delta of {header.last_offset_delta}"
        )
    if codec > CODEC_MAX:
        raise CorruptMessage(f"the batch at position {position} names codec {codec}, which does not exist")
    if codec == 0:
        check_count(header.record_count, size - HEADER_BYTES, position)
    return 0


cdef int check_count(int32_t record_count, int64_t record_bytes, Py_ssize_t position) except -1:
    """A claimed count must be paid for in bytes before anybody makes room for it."""
    if <int64_t> record_count * RECORD_BYTES_MIN > record_bytes:
        raise CorruptMessage(
            f"the batch at position {position} claims {record_count} records in {record_bytes} bytes, "
            f"a record takes at least {RECORD_BYTES_MIN}"
        )
    return 0


cdef int check_sum(const uint8_t* batch, const Header* header, Py_ssize_t position) except -1:
    cdef uint32_t found = sum_of(batch + ATTRIBUTES_AT, <size_t> (size_of(header) - ATTRIBUTES_AT), 0)
    if found != header.crc:
        raise CorruptMessage(
            f"the batch at position {position} says its CRC is {header.crc:#010x}, its bytes give {found:#010x}"
        )
    return 0


cdef class BatchInfo:
    """What the header of one batch says, and where that batch stands in its buffer."""

    cdef Header header
    cdef readonly Py_ssize_t position

    def __init__(self, buffer, Py_ssize_t position=0):
        cdef Py_buffer view
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            check_position(position, view.len)
            self.position = position
            read_header(<const uint8_t*> view.buf + position, &self.header)
        finally:
            PyBuffer_Release(&view)

    @property
    def base_offset(self):
        return self.header.base_offset

    @property
    def size_bytes(self):
        return size_of(&self.header)

    @property
    def leader_epoch(self):
        return self.header.leader_epoch

    @property
    def magic(self):
        return self.header.magic

    @property
    def crc(self):
        return self.header.crc

    @property
    def attributes(self):
        return self.header.attributes

    @property
    def last_offset_delta(self):
        return self.header.last_offset_delta

    @property
    def base_timestamp_ms(self):
        return self.header.base_timestamp_ms

    @property
    def max_timestamp_ms(self):
        return self.header.max_timestamp_ms

    @property
    def producer_id(self):
        return self.header.producer_id

    @property
    def producer_epoch(self):
        return self.header.producer_epoch

    @property
    def base_sequence(self):
        return self.header.base_sequence

    @property
    def record_count(self):
        return self.header.record_count

    @property
    def compression(self):
        cdef int codec = self.header.attributes & COMPRESSION_MASK
        if codec > CODEC_MAX:
            raise CorruptMessage(f"the batch at position {self.position} names codec {codec}, which does not exist")
        return CODECS[codec]

    @property
    def timestamp_type(self):
        return TIMESTAMP_TYPES[1 if self.header.attributes & LOG_APPEND_TIME_BIT else 0]

    @property
    def is_transactional(self):
        return self.header.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self):
        return self.header.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self):
        return self.header.attributes & DELETE_HORIZON_BIT != 0

    @property
    def last_offset(self):
        return wrapped_sum(self.header.base_offset, self.header.last_offset_delta)

    @property
    def next_offset(self):
        return wrapped_sum(self.header.base_offset, <int64_t> self.header.last_offset_delta + 1)

    @property
    def last_sequence(self):
        if self.header.base_sequence == -1:
            return -1
        return (<int64_t> self.header.base_sequence + self.header.last_offset_delta) & 0x7FFFFFFF

    @property
    def _facts(self):
        return (
            self.header.base_offset, self.header.length, self.header.leader_epoch, self.header.magic,
            self.header.crc, self.header.attributes, self.header.last_offset_delta, self.header.base_timestamp_ms,
            self.header.max_timestamp_ms, self.header.producer_id, self.header.producer_epoch,
            self.header.base_sequence, self.header.record_count,
        )

    def __eq__(self, other):
        if not isinstance(other, (BatchInfo, PythonBatchInfo)):
            return NotImplemented
        return self.position == other.position and self._facts == other._facts

    def __hash__(self):
        return hash((self.position, self._facts))

    def __repr__(self):
        return (
            f"{type(self).__name__}(position={self.position}, base_offset={self.base_offset}, "
            f"last_offset={self.last_offset}, size_bytes={self.size_bytes}, record_count={self.record_count})"
        )


def scan(buffer, Py_ssize_t position=0, end=None, bint check_crc=True):
    """The headers of all batches between `position` and `end`, each checked."""
    cdef Py_buffer view
    cdef Py_ssize_t stop
    cdef const uint8_t* start
    cdef BatchInfo info
    cdef list found = []
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        start = <const uint8_t*> view.buf
        stop = view.len if end is None else end
        if not 0 <= position <= stop <= view.len:
            raise ValueError(f"cannot scan from {position} to {stop} in {view.len} bytes")
        while position < stop:
            check_position(position, stop)
            info = BatchInfo.__new__(BatchInfo)
            info.position = position
            read_header(start + position, &info.header)
            check_shape(&info.header, position, stop - position)
            if check_crc:
                check_sum(start + position, &info.header, position)
            found.append(info)
            position += size_of(&info.header)
        return found
    finally:
        PyBuffer_Release(&view)


# ---- the few facts a broker may edit ----

cdef int get_writable(object buffer, Py_buffer* view) except -1:
    try:
        PyObject_GetBuffer(buffer, view, PyBUF_WRITABLE)
    except BufferError:
        raise TypeError("a batch can only be edited in a writable buffer such as bytearray") from None
    return 0


def assign_offsets(buffer, Py_ssize_t position, int64_t base_offset, int32_t leader_epoch):
    """Give the batch at `position` its place in the log. The CRC does not cover these two."""
    cdef Py_buffer view
    cdef Header header
    cdef uint8_t* batch
    get_writable(buffer, &view)
    try:
        check_position(position, view.len)
        batch = <uint8_t*> view.buf + position
        read_header(batch, &header)
        check_shape(&header, position, view.len - position)
        put64(batch, <uint64_t> base_offset)
        put32(batch + LEADER_EPOCH_AT, <uint32_t> leader_epoch)
    finally:
        PyBuffer_Release(&view)


def set_append_time(buffer, Py_ssize_t position, int64_t log_append_time_ms):
    """Let every record of the batch at `position` carry the broker's time instead of its producer's."""
    cdef Py_buffer view
    cdef Header header
    cdef uint8_t* batch
    get_writable(buffer, &view)
    try:
        check_position(position, view.len)
        batch = <uint8_t*> view.buf + position
        read_header(batch, &header)
        check_shape(&header, position, view.len - position)
        put16(batch + ATTRIBUTES_AT, <uint16_t> (header.attributes | LOG_APPEND_TIME_BIT))
        put64(batch + MAX_TIMESTAMP_AT, <uint64_t> log_append_time_ms)
        put32(batch + CRC_AT, sum_of(batch + ATTRIBUTES_AT, <size_t> (size_of(&header) - ATTRIBUTES_AT), 0))
    finally:
        PyBuffer_Release(&view)
