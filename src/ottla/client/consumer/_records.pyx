# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of records.py: bytes of a fetch answer into ConsumerRecord objects.

Read the Python twin for the reasons. Here only what C changes: no pointer moves before the bytes it moves over are
known to be there; the walk keeps positions as numbers and takes its pointers anew on every call. Old message sets and
whatever is rare are left to Python code.

The thread that receives the next answer must not wait for the one that makes records of this one, so the heavy work,
proving CRCs and copying large values, is done without the interpreter lock, STRETCH_BYTES at a time:

1. CRCs are proved ahead of the batch that is opened. What fails there is met again when it is opened, and raised then.
2. A large value is a bytes object first, and filled later; all are filled before `take` returns or raises.
3. What is smaller than LOCK_FREE_BYTES is not worth it: getting the lock back from a busy thread takes longer.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from ottla.records._numbers cimport get16, get32, get64, take, wrapped_sum

from ottla.client.consumer.record_errors import corrupt_at, undeserializable
from ottla.client.consumer.records import Span
from ottla.errors import CorruptMessage
from ottla.records import MessageSet, TimestampType
from ottla.records.compression import decompress
from ottla.records.layout import DECOMPRESSED_LIMIT_BYTES
from ottla.values import Header

cdef extern from "../../records/_crc32c.h" nogil:
    void ottla_crc32c_prepare()
    uint32_t ottla_crc32c(uint32_t value, const uint8_t* data, size_t length)

cdef enum:
    HEADER_BYTES = 61
    LOG_OVERHEAD_BYTES = 12
    LENGTH_AT = 8
    MAGIC_AT = 16
    MAGIC_KNOWN_BYTES = 17
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    RECORD_BYTES_MIN = 7
    HEADER_ENTRY_BYTES_MIN = 2
    COMPRESSION_MASK = 0x07
    LOG_APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    CODEC_MAX = 4
    LOCK_FREE_BYTES = 64 * 1024
    STRETCH_BYTES = 256 * 1024
    LARGE_VALUE_BYTES = 512
    COPIES_MAX = STRETCH_BYTES // LARGE_VALUE_BYTES

cdef tuple TIMESTAMP_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
cdef Py_ssize_t DEFAULT_LIMIT_BYTES = DECOMPRESSED_LIMIT_BYTES

ottla_crc32c_prepare()


# ---- one record in C ----

cdef struct Parsed:
    int64_t timestamp_delta
    int64_t offset_delta
    int64_t key_length
    int64_t value_length
    int64_t header_count
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers
    const uint8_t* end


cdef inline const uint8_t* take_bytes(const uint8_t* at, const uint8_t* end, const uint8_t** data,
                                      int64_t* length) noexcept nogil:
    """A length and so many bytes; length -1 is null. NULL when it does not fit."""
    at = take(at, end, 32, length)
    if at == NULL or length[0] < -1 or length[0] > end - at:
        return NULL
    data[0] = at
    return at + length[0] if length[0] > 0 else at


cdef const uint8_t* skip_headers(const uint8_t* at, const uint8_t* end, int64_t count) noexcept nogil:
    cdef const uint8_t* data
    cdef int64_t length
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
    cdef int64_t length
    at = take(at, end, 32, &length)
    if at == NULL:
        return b"its length is broken or not there"
    if length < 0 or length > end - at:
        return b"it claims more bytes than are there"
    end = at + length
    record.end = end
    # The attributes byte: unused, but it must be there.
    at = take(at + 1, end, 64, &record.timestamp_delta) if at < end else NULL
    if at == NULL:
        return b"its timestamp is broken"
    at = take(at, end, 32, &record.offset_delta)
    if at == NULL:
        return b"its offset is broken"
    at = take_bytes(at, end, &record.key, &record.key_length)
    if at == NULL:
        return b"its key is broken or longer than the record"
    at = take_bytes(at, end, &record.value, &record.value_length)
    if at == NULL:
        return b"its value is broken or longer than the record"
    at = take(at, end, 32, &record.header_count)
    if at == NULL or record.header_count < 0 or record.header_count * HEADER_ENTRY_BYTES_MIN > end - at:
        return b"its number of headers is broken or more than its bytes can hold"
    record.headers = at
    if record.header_count:
        at = skip_headers(at, end, record.header_count)
        if at == NULL:
            return b"its headers are broken"
    if at != end:
        return b"bytes are left after its headers"
    return NULL


cdef tuple read_headers(const uint8_t* at, const uint8_t* end, int64_t count):
    """Headers as Python values, from bytes that were copied, so they are checked again on the way."""
    cdef const uint8_t* data = NULL
    cdef int64_t length = 0
    cdef list found = []
    for _ in range(count):
        at = take_bytes(at, end, &data, &length)
        if at == NULL or length < 0:
            raise CorruptMessage("a header changed while it was read")
        name = PyUnicode_DecodeUTF8(<const char*> data, length, b"replace")
        at = take_bytes(at, end, &data, &length)
        if at == NULL:
            raise CorruptMessage("a header changed while it was read")
        found.append(Header(name, owned(data, length)))
    return tuple(found)


cdef inline object owned(const uint8_t* data, int64_t length):
    return PyBytes_FromStringAndSize(<const char*> data, length) if length >= 0 else None


# The garbage collector need not visit thousands of records: a ring through one could only be made on purpose, by
# putting a record into its own deserialized value.
@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class ConsumerRecord:
    """One record as a consumer gets it. Headers stay bytes until somebody asks for them."""

    cdef str topic
    cdef object key
    cdef object value
    cdef int64_t offset
    cdef int64_t timestamp_ms
    cdef int32_t partition
    cdef int32_t _leader_epoch
    cdef int32_t serialized_key_size
    cdef int32_t serialized_value_size
    cdef int32_t _header_count
    cdef int8_t _timestamp_type
    cdef object _headers

    def __init__(self, str topic not None, int32_t partition, int64_t offset, key=None, value=None, headers=(), *,
                 int64_t timestamp_ms=-1, int timestamp_type=0, leader_epoch=None,
                 int32_t serialized_key_size=-1, int32_t serialized_value_size=-1):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self._headers = tuple([Header(*each) for each in headers])
        self.timestamp_ms = timestamp_ms
        self._timestamp_type = 1 if timestamp_type else 0
        self._leader_epoch = -1 if leader_epoch is None else leader_epoch
        self.serialized_key_size = serialized_key_size
        self.serialized_value_size = serialized_value_size

    @property
    def headers(self):
        """Names and values in their order; a name may come twice."""
        cdef const uint8_t* raw
        if self._headers is None:
            return ()
        if type(self._headers) is bytes:
            raw = <const uint8_t*> PyBytes_AS_STRING(self._headers)
            self._headers = read_headers(raw, raw + PyBytes_GET_SIZE(self._headers), self._header_count)
        return self._headers

    @property
    def timestamp_type(self):
        return TIMESTAMP_TYPES[self._timestamp_type]

    @property
    def leader_epoch(self):
        """The epoch of the leader that wrote the record; None when it is not known."""
        return None if self._leader_epoch < 0 else self._leader_epoch

    cdef tuple as_tuple(self):
        return (self.topic, self.partition, self.offset, self.key, self.value, self.headers, self.timestamp_ms,
                int(self._timestamp_type), self.leader_epoch, self.serialized_key_size, self.serialized_value_size)

    def __eq__(self, other):
        return self.as_tuple() == (<ConsumerRecord> other).as_tuple() if isinstance(other, ConsumerRecord) \
            else NotImplemented

    def __hash__(self):
        return hash((self.topic, self.partition, self.offset))

    def __reduce__(self):
        return _unpickled, self.as_tuple()

    def __repr__(self):
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r}, timestamp_ms={self.timestamp_ms})"
        )


def _unpickled(topic, partition, offset, key, value, headers, timestamp_ms, timestamp_type, leader_epoch, key_size,
               value_size):
    return ConsumerRecord(
        topic, partition, offset, key, value, headers, timestamp_ms=timestamp_ms, timestamp_type=timestamp_type,
        leader_epoch=leader_epoch, serialized_key_size=key_size, serialized_value_size=value_size)


# Attributes as slots, what __slots__ makes: the interpreter reads those in place once a line of code is warm, which
# halves what a consumer pays for touching key and value; a property would be called.
cdef extern from *:
    """
    #include <stddef.h>
    #include <structmember.h>
    #define OTTLA_RECORD struct __pyx_obj_5ottla_6client_8consumer_8_records_ConsumerRecord
    static PyMemberDef ottla_record_slots[] = {
        {"topic", T_OBJECT_EX, 0, READONLY, NULL},
        {"key", T_OBJECT_EX, 0, READONLY, NULL},
        {"value", T_OBJECT_EX, 0, READONLY, NULL},
        {"offset", T_LONGLONG, 0, READONLY, NULL},
        {"timestamp_ms", T_LONGLONG, 0, READONLY, NULL},
        {"timestamp", T_LONGLONG, 0, READONLY, NULL},
        {"partition", T_INT, 0, READONLY, NULL},
        {"serialized_key_size", T_INT, 0, READONLY, NULL},
        {"serialized_value_size", T_INT, 0, READONLY, NULL},
    };
    #define OTTLA_PLACE(index, field) ottla_record_slots[index].offset = offsetof(OTTLA_RECORD, field)
    #define ottla_place_record_slots() ( \
        OTTLA_PLACE(0, topic), OTTLA_PLACE(1, key), OTTLA_PLACE(2, value), OTTLA_PLACE(3, offset), \
        OTTLA_PLACE(4, timestamp_ms), OTTLA_PLACE(5, timestamp_ms), OTTLA_PLACE(6, partition), \
        OTTLA_PLACE(7, serialized_key_size), OTTLA_PLACE(8, serialized_value_size))
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
    PyMemberDef ottla_record_slots[9]
    void ottla_place_record_slots()
    int ottla_add_slot(object type, PyMemberDef* slot) except -1

ottla_place_record_slots()
cdef int _slot
for _slot in range(9):
    ottla_add_slot(ConsumerRecord, &ottla_record_slots[_slot])


# ---- the bytes of one partition ----

cdef struct Batch:
    int64_t base_offset
    int64_t base_timestamp_ms
    int64_t max_timestamp_ms
    int64_t producer_id
    int64_t size
    int32_t leader_epoch
    int32_t last_offset_delta
    int32_t record_count
    int16_t attributes


cdef int next_frame(const uint8_t* start, Py_ssize_t length, Py_ssize_t position, int64_t* size,
                    int* magic) except -1:
    """1 with size and magic when something whole stands at `position`, 0 when it is cut off or the end."""
    cdef int smallest = HEADER_BYTES
    cdef int64_t next_offset
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
    if size[0] > length - position:
        return 0
    if magic[0] == 2 and length - position - size[0] >= MAGIC_KNOWN_BYTES:
        next_offset = wrapped_sum(wrapped_sum(<int64_t> get64(start + position), 1),
                                  <int32_t> get32(start + position + 23))
        if <int64_t> get64(start + position + size[0]) < next_offset:
            raise CorruptMessage(
                f"the batch at position {position} ends before offset {next_offset}, but the one behind it begins at "
                f"{<int64_t> get64(start + position + size[0])}: the offsets of one of them are wrong"
            )
    return 1


def end_offset_of(data, int64_t fetch_offset):
    """The offset after the last whole batch, where the next fetch goes on; `fetch_offset` when there is none."""
    cdef Py_buffer view
    cdef Py_ssize_t position = 0
    cdef int64_t size = 0
    cdef int64_t end = fetch_offset
    cdef int magic = 0
    cdef const uint8_t* at
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while next_frame(<const uint8_t*> view.buf, view.len, position, &size, &magic):
            at = <const uint8_t*> view.buf + position
            end = wrapped_sum(<int64_t> get64(at), 1)
            if magic == 2:
                end = wrapped_sum(end, <int32_t> get32(at + 23))
            position += size
        return max(end, fetch_offset)
    except CorruptMessage:
        return max(end, fetch_offset)  # whoever reads the records meets the damage and says where
    finally:
        PyBuffer_Release(&view)


cdef Py_ssize_t proved_up_to(const uint8_t* start, Py_ssize_t length, Py_ssize_t position) noexcept nogil:
    """Behind the last batch, from `position` on, of those whose CRCs are right: STRETCH_BYTES of them, or up to the
    first that is wrong, cut off or of an old format."""
    cdef Py_ssize_t enough = position + STRETCH_BYTES
    cdef int64_t size
    while position < enough and length - position >= HEADER_BYTES and start[position + MAGIC_AT] == 2:
        size = <int64_t> <int32_t> get32(start + position + LENGTH_AT) + LOG_OVERHEAD_BYTES
        if size < HEADER_BYTES or size > length - position:
            break
        if ottla_crc32c(0, start + position + ATTRIBUTES_AT, size - ATTRIBUTES_AT) != get32(start + position + CRC_AT):
            break
        position += size
    return position


cdef struct Copy:
    char* target
    const uint8_t* source
    Py_ssize_t size


# Not for the garbage collector either: what it holds cannot hold it, and a buffer that is looked at cannot be cleared.
@cython.no_gc
cdef class FetchedRecords:
    """Records of one partition from one fetch answer, handed out piece by piece."""

    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t next_offset
    cdef readonly Py_ssize_t size_bytes
    cdef object buffer
    cdef object isolation
    cdef Py_buffer view
    cdef bint has_view
    cdef bint check_crcs
    cdef Py_ssize_t limit_bytes
    cdef Py_ssize_t position      # of the batch that is open or comes next
    cdef int32_t _leader_epoch    # of the last record that was met
    # The open batch: where its records are (in `content`, or in the view when that is None) and how many were read.
    cdef bint is_open
    cdef Batch batch
    cdef bytes content
    cdef Py_ssize_t record_at
    cdef Py_ssize_t record_end
    cdef int32_t record_index
    cdef Py_ssize_t proved_until  # batches before this position have the right CRC
    # Values of records in the frame that have their memory and not yet their bytes.
    cdef Copy* copies
    cdef Py_ssize_t copy_count
    cdef Py_ssize_t copy_bytes
    # An open message set of the old formats, read by Python code.
    cdef list old_records

    def __init__(self, str topic not None, int32_t partition, data, int64_t fetch_offset, *, isolation=None,
                 bint check_crcs=True, Py_ssize_t limit_bytes=DEFAULT_LIMIT_BYTES):
        if self.has_view:
            raise TypeError("FetchedRecords look at one buffer for life; make others")
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.has_view = True
        self.buffer = data
        self.topic = topic
        self.partition = partition
        self.next_offset = fetch_offset
        self.size_bytes = self.view.len
        self.isolation = isolation
        self.check_crcs = check_crcs
        self.limit_bytes = limit_bytes
        self._leader_epoch = -1

    def __dealloc__(self):
        free(self.copies)
        if self.has_view:
            PyBuffer_Release(&self.view)

    @property
    def leader_epoch(self):
        """The epoch of the last record that was handed out or passed over; None before the first."""
        return None if self._leader_epoch < 0 else self._leader_epoch

    @property
    def is_drained(self):
        """Whether nothing whole is left; what is cut off at the end comes again with the next fetch."""
        cdef int64_t size = 0
        cdef int magic = 0
        if self.is_open:
            return False
        try:
            return not next_frame(<const uint8_t*> self.view.buf, self.view.len, self.position, &size, &magic)
        except CorruptMessage:
            return False

    def own(self):
        """Copy what is left, so that the frame it came in can go."""
        cdef FetchedRecords same = FetchedRecords(
            self.topic, self.partition, bytes(memoryview(self.buffer)[self.position:]), self.next_offset,
            isolation=self.isolation, check_crcs=self.check_crcs, limit_bytes=self.limit_bytes)
        same._leader_epoch = self._leader_epoch
        # The batch that is open is opened again: records before next_offset are passed over, and the isolation, which
        # has seen it, gives the same answer for it a second time.
        return same

    def take(self, Py_ssize_t limit, list found=None, key_deserializer=None, value_deserializer=None):
        """Up to `limit` records altogether in `found`, new ones at its end. An error is raised only when `found` is
        empty, so that what came before it is handed out first; the next call meets it again."""
        cdef bint goes_on = True
        if found is None:
            found = []
        try:
            while goes_on and len(found) < limit and (self.is_open or self.open_next()):
                if self.old_records is None:
                    goes_on = self.take_records(limit, found, key_deserializer, value_deserializer)
                else:
                    goes_on = self.take_old(limit, found, key_deserializer, value_deserializer)
        except CorruptMessage as error:
            if not found:
                raise corrupt_at(self.topic, self.partition, self.next_offset, error) from error
        finally:
            self.copy_values()
        return found

    cdef object large_value(self, const uint8_t* data, Py_ssize_t length):
        """A bytes object that copy_values() fills."""
        cdef object value
        if self.copies == NULL:
            self.copies = <Copy*> malloc(COPIES_MAX * sizeof(Copy))
            if self.copies == NULL:
                raise MemoryError("no memory to copy values")
        if self.copy_count == COPIES_MAX or self.copy_bytes >= STRETCH_BYTES:
            self.copy_values()
        value = PyBytes_FromStringAndSize(NULL, length)
        self.copies[self.copy_count] = Copy(PyBytes_AS_STRING(value), data, length)
        self.copy_count += 1
        self.copy_bytes += length
        return value

    cdef void copy_values(self) noexcept:
        # Nobody else sees these bytes objects before `take` returns, so that nobody can miss the lock.
        if self.copy_bytes < LOCK_FREE_BYTES:
            self.fill_values()
        else:
            with nogil:
                self.fill_values()
        self.copy_count = self.copy_bytes = 0

    cdef void fill_values(self) noexcept nogil:
        cdef Py_ssize_t index
        for index in range(self.copy_count):
            memcpy(self.copies[index].target, self.copies[index].source, self.copies[index].size)

    cdef bint take_records(self, Py_ssize_t limit, list found, key_deserializer, value_deserializer) except -1:
        """Records of the open batch; False when a record cannot be deserialized and others go first."""
        cdef const uint8_t* start
        cdef const uint8_t* at
        cdef const uint8_t* end
        cdef const char* problem
        cdef Parsed parsed
        cdef ConsumerRecord record
        cdef int64_t offset
        cdef Py_ssize_t room = limit - len(found)
        cdef bint append_time = self.batch.attributes & LOG_APPEND_TIME_BIT != 0
        cdef bint plain = key_deserializer is None and value_deserializer is None
        # A deserializer reads its value at once, and what was decompressed does not outlive its batch.
        cdef int64_t large_bytes = LARGE_VALUE_BYTES if plain and self.content is None else INT64_MAX
        if self.content is None:
            start = <const uint8_t*> self.view.buf
        else:
            start = <const uint8_t*> PyBytes_AS_STRING(self.content)
        at = start + self.record_at
        end = start + self.record_end
        while room and self.record_index < self.batch.record_count:
            problem = parse_record(at, end, &parsed)
            if problem != NULL:
                raise CorruptMessage(
                    f"record {self.record_index} of the batch at position {self.position}: {problem.decode()}")
            offset = wrapped_sum(self.batch.base_offset, parsed.offset_delta)
            if offset >= self.next_offset:
                record = ConsumerRecord.__new__(ConsumerRecord)
                record.topic = self.topic
                record.partition = self.partition
                record.offset = offset
                record.timestamp_ms = self.batch.max_timestamp_ms if append_time \
                    else wrapped_sum(self.batch.base_timestamp_ms, parsed.timestamp_delta)
                record._timestamp_type = append_time
                record._leader_epoch = self.batch.leader_epoch
                record.key = owned(parsed.key, parsed.key_length)
                record.value = owned(parsed.value, parsed.value_length) if parsed.value_length < large_bytes \
                    else self.large_value(parsed.value, parsed.value_length)
                record.serialized_key_size = <int32_t> parsed.key_length
                record.serialized_value_size = <int32_t> parsed.value_length
                if parsed.header_count:
                    record._header_count = <int32_t> parsed.header_count
                    record._headers = PyBytes_FromStringAndSize(<const char*> parsed.headers,
                                                                parsed.end - parsed.headers)
                if not plain and not deserialize(record, found, key_deserializer, value_deserializer):
                    return False
                found.append(record)
                self.next_offset = offset + 1
                self._leader_epoch = self.batch.leader_epoch
                room -= 1
            at = parsed.end
            self.record_at = at - start
            self.record_index += 1
        if self.record_index >= self.batch.record_count:
            if at != end:
                raise CorruptMessage(
                    f"{end - at} bytes are left after the {self.batch.record_count} records "
                    f"of the batch at position {self.position}")
            self.pass_batch()
        return True

    cdef bint take_old(self, Py_ssize_t limit, list found, key_deserializer, value_deserializer) except -1:
        """Records of a message set v0 or v1, which were read at once when it was opened."""
        cdef ConsumerRecord record
        while len(found) < limit and self.record_index < self.batch.record_count:
            record = self.old_records[self.record_index]
            if record.offset >= self.next_offset:
                if not deserialize(record, found, key_deserializer, value_deserializer):
                    return False
                found.append(record)
                self.next_offset = record.offset + 1
                self._leader_epoch = self.batch.leader_epoch
            self.record_index += 1
        if self.record_index >= self.batch.record_count:
            self.old_records = None
            self.pass_batch()
        return True

    # ---- batch by batch ----

    cdef bint open_next(self) except -1:
        """Pass over batches that are not for users and open the next one that is; False at the end."""
        cdef int64_t size = 0
        cdef int magic = 0
        while next_frame(<const uint8_t*> self.view.buf, self.view.len, self.position, &size, &magic):
            if magic < 2:
                self.open_old()
                return True
            self.read_batch()
            if self.admits():
                self.open_batch()
                return True
            self.pass_batch()
        return False

    cdef int read_batch(self) except -1:
        """The header of the batch at `position`, checked."""
        cdef const uint8_t* at = <const uint8_t*> self.view.buf + self.position
        cdef Batch* batch = &self.batch
        batch.base_offset = <int64_t> get64(at)
        batch.size = <int64_t> <int32_t> get32(at + LENGTH_AT) + LOG_OVERHEAD_BYTES
        batch.leader_epoch = <int32_t> get32(at + 12)
        batch.attributes = <int16_t> get16(at + ATTRIBUTES_AT)
        batch.last_offset_delta = <int32_t> get32(at + 23)
        batch.base_timestamp_ms = <int64_t> get64(at + 27)
        batch.max_timestamp_ms = <int64_t> get64(at + 35)
        batch.producer_id = <int64_t> get64(at + 43)
        batch.record_count = <int32_t> get32(at + 57)
        if (batch.record_count < 0 or batch.last_offset_delta < 0
                or batch.record_count > <int64_t> batch.last_offset_delta + 1):
            raise CorruptMessage(
                f"the batch at position {self.position} claims {batch.record_count} records "
                f"and a last offset delta of {batch.last_offset_delta}")
        if batch.attributes & COMPRESSION_MASK > CODEC_MAX:
            raise CorruptMessage(f"the batch at position {self.position} names codec "
                                 f"{batch.attributes & COMPRESSION_MASK}, which does not exist")
        return 0

    cdef bint admits(self) except -1:
        """Whether the batch just read has records for the user."""
        cdef int64_t last_offset = wrapped_sum(self.batch.base_offset, self.batch.last_offset_delta)
        if self.batch.attributes & CONTROL_BIT:
            if self.isolation is not None:
                self.open_batch()
                self.is_open = False
                self.isolation.met_control_batch(last_offset, self.batch.producer_id, self.control_keys())
            return False
        if self.isolation is not None and self.batch.attributes & TRANSACTIONAL_BIT:
            if self.isolation.is_aborted(last_offset, self.batch.producer_id):
                return False
        return last_offset >= self.next_offset

    cdef list control_keys(self):
        """The keys of all records of a control batch, which may have none left."""
        cdef const uint8_t* start = <const uint8_t*> self.view.buf if self.content is None \
            else <const uint8_t*> PyBytes_AS_STRING(self.content)
        cdef const uint8_t* at = start + self.record_at
        cdef Parsed parsed
        cdef const char* problem
        cdef int32_t index
        cdef list keys = []
        for index in range(self.batch.record_count):
            problem = parse_record(at, start + self.record_end, &parsed)
            if problem != NULL:
                raise CorruptMessage(f"record {index} of the batch at position {self.position}: {problem.decode()}")
            keys.append(owned(parsed.key, parsed.key_length))
            at = parsed.end
        return keys

    cdef int open_batch(self) except -1:
        cdef const uint8_t* at = <const uint8_t*> self.view.buf + self.position
        cdef uint32_t found
        if self.check_crcs and self.position >= self.proved_until:
            self.prove_ahead()
            if self.position >= self.proved_until:
                found = ottla_crc32c(0, at + ATTRIBUTES_AT, <size_t> (self.batch.size - ATTRIBUTES_AT))
                raise CorruptMessage(
                    f"the batch at position {self.position} says its CRC is {get32(at + CRC_AT):#010x}, "
                    f"its bytes give {found:#010x}")
        self.content = None
        self.record_at = self.position + HEADER_BYTES
        self.record_end = self.position + self.batch.size
        if self.batch.attributes & COMPRESSION_MASK:
            self.content = bytes(decompress(
                self.batch.attributes & COMPRESSION_MASK,
                memoryview(self.buffer)[self.record_at:self.record_end], self.limit_bytes))
            self.record_at, self.record_end = 0, len(self.content)
        if <int64_t> self.batch.record_count * RECORD_BYTES_MIN > self.record_end - self.record_at:
            raise CorruptMessage(
                f"the batch at position {self.position} claims {self.batch.record_count} records "
                f"in {self.record_end - self.record_at} bytes, a record takes at least {RECORD_BYTES_MIN}")
        self.record_index = 0
        self.is_open = True
        return 0

    cdef void prove_ahead(self) noexcept:
        cdef const uint8_t* start = <const uint8_t*> self.view.buf
        if self.view.len - self.position < LOCK_FREE_BYTES:
            self.proved_until = proved_up_to(start, self.view.len, self.position)
        else:
            with nogil:
                self.proved_until = proved_up_to(start, self.view.len, self.position)

    cdef int open_old(self) except -1:
        """All of one message of the old formats, which may be a compressed set of others."""
        cdef const uint8_t* at = <const uint8_t*> self.view.buf + self.position
        self.batch.base_offset = <int64_t> get64(at)
        self.batch.size = <int64_t> <int32_t> get32(at + LENGTH_AT) + LOG_OVERHEAD_BYTES
        self.batch.last_offset_delta = 0
        self.batch.leader_epoch = -1
        old = MessageSet(memoryview(self.buffer).cast("B"), self.position, self.batch.size, self.batch.base_offset)
        self.old_records = [
            ConsumerRecord(self.topic, self.partition, each.offset, each.key, each.value,
                           timestamp_ms=each.timestamp_ms,
                           serialized_key_size=-1 if each.key is None else len(each.key),
                           serialized_value_size=-1 if each.value is None else len(each.value))
            for each in old.records(self.limit_bytes)]
        self.batch.record_count = <int32_t> len(self.old_records)
        self.record_index = 0
        self.is_open = True
        return 0

    cdef int pass_batch(self) except -1:
        """Behind this batch, and behind the offsets that compaction took from its end."""
        cdef int64_t after = wrapped_sum(wrapped_sum(self.batch.base_offset, self.batch.last_offset_delta), 1)
        if after > self.next_offset:
            self.next_offset = after
        self._leader_epoch = self.batch.leader_epoch
        self.position += self.batch.size
        self.is_open = False
        self.content = None
        return 0

    # ---- whole batches, for columns ----

    def span(self, Py_ssize_t row_target):
        """Batches without a gap in their bytes that are all for users, at least one and until they claim
        `row_target` records: a Span, or None when the next bytes are of an old format or at their end."""
        cdef int64_t size = 0
        cdef int64_t rows = 0
        cdef int magic = 0
        cdef Py_ssize_t start
        cdef Py_ssize_t position
        cdef int64_t next_offset
        cdef int32_t epoch
        try:
            if self.old_records is not None or (not self.is_open and not self.open_next_span()):
                return None
            start = position = self.position
            next_offset = self.next_offset
            epoch = self._leader_epoch
            try:
                while rows < row_target and next_frame(
                        <const uint8_t*> self.view.buf, self.view.len, position, &size, &magic):
                    if magic < 2:
                        break
                    self.position = position
                    self.read_batch()
                    if position != start and not self.admits_span():
                        break
                    rows += self.batch.record_count
                    next_offset = max(
                        next_offset, wrapped_sum(wrapped_sum(self.batch.base_offset, self.batch.last_offset_delta), 1))
                    epoch = self.batch.leader_epoch
                    position += size
            except CorruptMessage:
                if position == start:
                    raise
                # A span ends before the damage: what stands before it is given first, and the next call meets it.
            self.position = start
            self.read_batch()
        except CorruptMessage as error:
            raise corrupt_at(self.topic, self.partition, self.next_offset, error) from error
        return Span(memoryview(self.buffer)[start:position], self.next_offset, next_offset, position, epoch)

    cdef bint admits_span(self) except -1:
        # A marker changes what isolation knows, and a span may be given up: none is met before its turn.
        return not self.batch.attributes & CONTROL_BIT and self.admits()

    cdef bint open_next_span(self) except -1:
        cdef int64_t size = 0
        cdef int magic = 0
        while next_frame(<const uint8_t*> self.view.buf, self.view.len, self.position, &size, &magic):
            if magic < 2:
                return False
            self.read_batch()
            if self.admits():
                return True
            self.pass_batch()
        return False

    def advance(self, Py_ssize_t position, int64_t next_offset, int32_t leader_epoch):
        """A span was read: go on behind it."""
        self.position = position
        self.next_offset = next_offset
        self._leader_epoch = leader_epoch
        self.is_open = False
        self.content = None


cdef bint deserialize(ConsumerRecord record, list found, key_deserializer, value_deserializer) except -1:
    """False when it failed and there are records to hand out first."""
    try:
        key = record.key if key_deserializer is None else key_deserializer(record.topic, record.key)
        value = record.value if value_deserializer is None else value_deserializer(record.topic, record.value)
    except Exception as error:
        if found:
            return False
        raise undeserializable(record, error) from error
    record.key = key
    record.value = value
    return True
