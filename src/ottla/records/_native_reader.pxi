# Headers, records and streams: the twin of header.py, batch.py and stream.py.


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


# ---- one record in C ----

cdef struct Parsed:
    int64_t timestamp_delta
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers
    const uint8_t* end
    int32_t offset_delta
    int32_t key_length
    int32_t value_length
    int32_t header_count


cdef inline const uint8_t* take_bytes(const uint8_t* at, const uint8_t* end, const uint8_t** data,
                                      int32_t* length) noexcept nogil:
    """A length and so many bytes; length -1 is null. NULL when it does not fit."""
    at = take_varint(at, end, length)
    if at == NULL or length[0] < -1 or length[0] > end - at:
        return NULL
    data[0] = at
    return at + length[0] if length[0] > 0 else at


cdef const uint8_t* skip_headers(const uint8_t* at, const uint8_t* end, int32_t count) noexcept nogil:
    cdef const uint8_t* data
    cdef int32_t length
    for _ in range(count):
        at = take_bytes(at, end, &data, &length)
        if at == NULL or length < 0:
            return NULL
        at = take_bytes(at, end, &data, &length)
        if at == NULL:
            return NULL
    return at


cdef inline const char* parse_record(const uint8_t* at, const uint8_t* end, Parsed* record) noexcept nogil:
    """NULL when the record at `at` is sound, else what is wrong with it. Goes on at record.end."""
    cdef int32_t length
    at = take_varint(at, end, &length)
    if at == NULL:
        return b"its length is broken or not there"
    if length < 0 or length > end - at:
        return b"it claims more bytes than are there"
    end = at + length
    record.end = end
    # The attributes byte: unused, but it must be there.
    at = take_varlong(at + 1, end, &record.timestamp_delta) if at < end else NULL
    if at == NULL:
        return b"its timestamp is broken"
    at = take_varint(at, end, &record.offset_delta)
    if at == NULL:
        return b"its offset is broken"
    at = take_bytes(at, end, &record.key, &record.key_length)
    if at == NULL:
        return b"its key is broken or longer than the record"
    at = take_bytes(at, end, &record.value, &record.value_length)
    if at == NULL:
        return b"its value is broken or longer than the record"
    at = take_varint(at, end, &record.header_count)
    if at == NULL or record.header_count < 0 or <int64_t> record.header_count * HEADER_ENTRY_BYTES_MIN > end - at:
        return b"its number of headers is broken or more than its bytes can hold"
    record.headers = at
    if record.header_count:
        at = skip_headers(at, end, record.header_count)
        if at == NULL:
            return b"its headers are broken"
    if at != end:
        return b"bytes are left after its headers"
    return NULL


cdef tuple read_headers(const uint8_t* at, const uint8_t* end, int32_t count):
    """Headers as Python values, from bytes that were copied, so they are checked again on the way."""
    cdef const uint8_t* data = NULL
    cdef int32_t length = 0
    cdef list found = []
    for _ in range(count):
        at = take_bytes(at, end, &data, &length)
        if at == NULL or length < 0:
            raise CorruptMessage("a header changed while it was read")
        name = PyUnicode_DecodeUTF8(<const char*> data, length, b"replace")
        at = take_bytes(at, end, &data, &length)
        if at == NULL:
            raise CorruptMessage("a header changed while it was read")
        found.append((name, None if length < 0 else PyBytes_FromStringAndSize(<const char*> data, length)))
    return tuple(found)


cdef inline bytes owned(const uint8_t* data, int32_t length):
    return PyBytes_FromStringAndSize(<const char*> data, length) if length >= 0 else None


# Nothing a record holds can hold the record, so the garbage collector need not visit thousands of them.
@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class Record:
    """One record as a reader sees it. Headers stay bytes until somebody asks for them."""

    cdef readonly int64_t offset
    cdef readonly int64_t timestamp_ms
    cdef readonly bytes key
    cdef readonly bytes value
    cdef tuple _headers
    cdef bytes _raw_headers
    cdef int32_t _header_count

    def __init__(self, int64_t offset, int64_t timestamp_ms, bytes key, bytes value, tuple headers=()):
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self._headers = headers

    @property
    def headers(self):
        cdef const uint8_t* raw
        if self._headers is None:
            if self._raw_headers is None:
                self._headers = ()
            else:
                raw = <const uint8_t*> PyBytes_AS_STRING(self._raw_headers)
                self._headers = read_headers(raw, raw + PyBytes_GET_SIZE(self._raw_headers), self._header_count)
                self._raw_headers = None
        return self._headers

    cdef tuple as_tuple(self):
        return self.offset, self.timestamp_ms, self.key, self.value, self.headers

    def __eq__(self, other):
        if isinstance(other, Record):
            return self.as_tuple() == (<Record> other).as_tuple()
        return self.as_tuple() == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self):
        return hash(self.as_tuple())

    def __iter__(self):
        return iter(self.as_tuple())

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return self.as_tuple()[index]

    def __reduce__(self):
        return Record, self.as_tuple()

    def __repr__(self):
        return (
            f"Record(offset={self.offset}, timestamp_ms={self.timestamp_ms}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )


# Cython makes `readonly` attributes properties, and the interpreter calls those. Slots (what __slots__ makes) it reads
# in place once a line of code is warm, which halves what a consumer pays for touching key and value. So both names are
# given slot descriptors, on the same two fields.
cdef extern from *:
    """
    #include <stddef.h>
    #include <structmember.h>
    #define OTTLA_RECORD struct __pyx_obj_5ottla_7records_7_native_Record
    static PyMemberDef ottla_record_slots[] = {
        {"key", T_OBJECT_EX, 0, READONLY, NULL},
        {"value", T_OBJECT_EX, 0, READONLY, NULL},
    };
    #define ottla_place_record_slots() ( \
        ottla_record_slots[0].offset = offsetof(OTTLA_RECORD, key), \
        ottla_record_slots[1].offset = offsetof(OTTLA_RECORD, value))
    static int ottla_add_slot(PyObject *type, PyMemberDef *slot) {
        PyObject *descriptor = PyDescr_NewMember((PyTypeObject *)type, slot);
        int failed = descriptor == NULL || PyDict_SetItemString(((PyTypeObject *)type)->tp_dict, slot->name, descriptor);
        Py_XDECREF(descriptor);
        PyType_Modified((PyTypeObject *)type);
        return failed ? -1 : 0;
    }
    """
    ctypedef struct PyMemberDef:
        pass
    PyMemberDef ottla_record_slots[2]
    void ottla_place_record_slots()
    int ottla_add_slot(object type, PyMemberDef* slot) except -1

ottla_place_record_slots()
ottla_add_slot(Record, &ottla_record_slots[0])
ottla_add_slot(Record, &ottla_record_slots[1])


cdef class RecordBatch(BatchInfo):
    """The batch that starts at `position` of `buffer`."""

    cdef Py_buffer view
    cdef bint has_view

    def __init__(self, buffer, Py_ssize_t position=0):
        if self.has_view:
            raise TypeError("a RecordBatch looks at one buffer for life; make another one")
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.has_view = True
        check_position(position, self.view.len)
        self.position = position
        read_header(<const uint8_t*> self.view.buf + position, &self.header)

    def __dealloc__(self):
        if self.has_view:
            PyBuffer_Release(&self.view)

    def check(self):
        """Raise CorruptMessage, saying what and where, unless size, magic, counts, codec and CRC are right."""
        check_shape(&self.header, self.position, self.view.len - self.position)
        check_sum(<const uint8_t*> self.view.buf + self.position, &self.header, self.position)

    cdef object open_records(self, Py_ssize_t limit_bytes, const uint8_t** start, const uint8_t** end):
        """Where the records are; the object returned must outlive the use of the pointers."""
        check_shape(&self.header, self.position, self.view.len - self.position)
        cdef const uint8_t* payload = <const uint8_t*> self.view.buf + self.position + HEADER_BYTES
        cdef Py_ssize_t length = <Py_ssize_t> size_of(&self.header) - HEADER_BYTES
        cdef int codec = self.header.attributes & COMPRESSION_MASK
        cdef bytes data
        if codec == 0:
            start[0], end[0] = payload, payload + length
            return None
        compressed = PyBytes_FromStringAndSize(<const char*> payload, length)
        data = bytes(decompress(CODECS[codec], compressed, limit_bytes))
        check_count(self.header.record_count, len(data), self.position)
        start[0] = <const uint8_t*> PyBytes_AS_STRING(data)
        end[0] = start[0] + PyBytes_GET_SIZE(data)
        return data

    cdef int fail(self, int32_t index, const char* reason) except -1:
        raise CorruptMessage(f"record {index} of the batch at position {self.position}: {reason.decode()}")

    cdef int check_end(self, const uint8_t* at, const uint8_t* end) except -1:
        if at != end:
            raise CorruptMessage(
                f"{end - at} bytes are left after the {self.header.record_count} records "
                f"of the batch at position {self.position}"
            )
        return 0

    cdef inline int64_t timestamp_of(self, const Parsed* record) noexcept:
        if self.header.attributes & LOG_APPEND_TIME_BIT:
            return self.header.max_timestamp_ms
        return wrapped_sum(self.header.base_timestamp_ms, record.timestamp_delta)

    def records(self, Py_ssize_t limit_bytes=DEFAULT_LIMIT_BYTES):
        """All records; a compressed batch may grow to `limit_bytes`."""
        cdef const uint8_t* at = NULL
        cdef const uint8_t* end = NULL
        cdef const char* problem
        cdef Parsed parsed
        cdef Record record
        cdef int32_t index
        keep = self.open_records(limit_bytes, &at, &end)
        cdef list found = PyList_New(self.header.record_count)
        for index in range(self.header.record_count):
            problem = parse_record(at, end, &parsed)
            if problem != NULL:
                self.fail(index, problem)
            record = Record.__new__(Record)
            record.offset = wrapped_sum(self.header.base_offset, parsed.offset_delta)
            record.timestamp_ms = self.timestamp_of(&parsed)
            record.key = owned(parsed.key, parsed.key_length)
            record.value = owned(parsed.value, parsed.value_length)
            if parsed.header_count:
                record._header_count = parsed.header_count
                record._raw_headers = owned(parsed.headers, <int32_t> (parsed.end - parsed.headers))
            Py_INCREF(record)
            PyList_SET_ITEM(found, index, record)
            at = parsed.end
        self.check_end(at, end)
        return found

    def tuples(self, Py_ssize_t limit_bytes=DEFAULT_LIMIT_BYTES):
        """The same as plain (offset, timestamp_ms, key, value, headers)."""
        cdef const uint8_t* at = NULL
        cdef const uint8_t* end = NULL
        cdef const char* problem
        cdef Parsed parsed
        cdef tuple record
        cdef int32_t index
        keep = self.open_records(limit_bytes, &at, &end)
        cdef list found = PyList_New(self.header.record_count)
        for index in range(self.header.record_count):
            problem = parse_record(at, end, &parsed)
            if problem != NULL:
                self.fail(index, problem)
            record = (
                wrapped_sum(self.header.base_offset, parsed.offset_delta),
                self.timestamp_of(&parsed),
                owned(parsed.key, parsed.key_length),
                owned(parsed.value, parsed.value_length),
                read_headers(parsed.headers, parsed.end, parsed.header_count) if parsed.header_count else (),
            )
            Py_INCREF(record)
            PyList_SET_ITEM(found, index, record)
            at = parsed.end
        self.check_end(at, end)
        return found

    def record_bytes(self, Py_ssize_t limit_bytes=DEFAULT_LIMIT_BYTES):
        """The bytes of the records, decompressed, after the header was found sound."""
        cdef const uint8_t* at = NULL
        cdef const uint8_t* end = NULL
        data = self.open_records(limit_bytes, &at, &end)
        return PyBytes_FromStringAndSize(<const char*> at, end - at) if data is None else data

    def __iter__(self):
        return iter(self.records())


# ---- many batches ----

cdef int next_frame(const uint8_t* start, Py_ssize_t length, Py_ssize_t position, int64_t* size,
                    int* magic) except -1:
    """1 with size and magic when something whole stands at `position`, 0 when it is cut off or the end."""
    cdef int smallest = HEADER_BYTES
    if length - position < MAGIC_KNOWN_BYTES:
        return 0
    magic[0] = start[position + MAGIC_AT]
    if magic[0] > 2:
        raise CorruptMessage(f"the bytes at position {position} have magic {magic[0]}; known are 0, 1 and 2")
    size[0] = <int64_t> <int32_t> get32(start + position + LENGTH_AT) + LOG_OVERHEAD_BYTES
    if magic[0] < 2:
        smallest = LOG_OVERHEAD_BYTES + (14 if magic[0] == 0 else 22)
    if size[0] < smallest:
        raise CorruptMessage(f"the batch at position {position} claims {size[0]} bytes, too few for any")
    return size[0] <= length - position


cdef class RecordStream:
    """What a fetch answer holds for one partition."""

    cdef object buffer
    cdef Py_buffer view
    cdef bint has_view

    def __init__(self, buffer):
        if self.has_view:
            raise TypeError("a RecordStream looks at one buffer for life; make another one")
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.has_view = True
        self.buffer = buffer

    def __dealloc__(self):
        if self.has_view:
            PyBuffer_Release(&self.view)

    def __iter__(self):
        cdef Py_ssize_t position = 0
        cdef Py_ssize_t run_start = -1
        cdef int64_t size = 0
        cdef int64_t last_offset = 0
        cdef int magic = 0
        while next_frame(<const uint8_t*> self.view.buf, self.view.len, position, &size, &magic):
            if magic == 2:
                if run_start >= 0:
                    yield MessageSet(view_of(self.buffer), run_start, position - run_start, last_offset)
                    run_start = -1
                yield RecordBatch(self.buffer, position)
            else:
                if run_start < 0:
                    run_start = position
                last_offset = <int64_t> get64(<const uint8_t*> self.view.buf + position)
            position += size
        if run_start >= 0:
            yield MessageSet(view_of(self.buffer), run_start, position - run_start, last_offset)

    @property
    def partial_bytes(self):
        """How many bytes at the end belong to a batch that is not all there."""
        cdef Py_ssize_t position = 0
        cdef int64_t size = 0
        cdef int magic = 0
        while next_frame(<const uint8_t*> self.view.buf, self.view.len, position, &size, &magic):
            position += size
        return self.view.len - position
