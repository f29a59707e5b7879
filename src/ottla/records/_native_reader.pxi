# Records and streams: the twin of batch.py and stream.py.


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
        damage = None
        try:
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
        except CorruptMessage as error:
            damage = error
        if run_start >= 0:
            yield MessageSet(view_of(self.buffer), run_start, position - run_start, last_offset)
        if damage is not None:
            raise damage

    @property
    def partial_bytes(self):
        """How many bytes at the end belong to a batch that is not all there."""
        cdef Py_ssize_t position = 0
        cdef int64_t size = 0
        cdef int magic = 0
        while next_frame(<const uint8_t*> self.view.buf, self.view.len, position, &size, &magic):
            position += size
        return self.view.len - position
