# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of fetch/frames.py: one pass over the bytes of a fetch request, one over those of its answer.

Read the Python twin for what the values mean and for what is simple. Here only what C changes: a Reader never moves
before the bytes it moves over are known to be there, and whatever is not simple makes the answer None.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ottla.broker.fetch.frames import SimpleAsked, SimpleFetched
from ottla.broker.fetch.sessions import FetchPosition
from ottla.protocol.header import around_correlation_id

cdef enum:
    API_KEY = 1
    TOPIC_IDS_SINCE = 13
    REPLICA_STATE_SINCE = 15
    ENTRIES = 4096
    UUID_BYTES = 16
    # Enough for one partition, one topic or all else but the header, in any version.
    ENTRY_BYTES_MAX = 80
    REPLICA_STATE_TAG = 1
    REPLICA_STATE_BYTES = 13
    ANSWER_HEADER_BYTES = 5

cdef object around = around_correlation_id

include "../_frame_bytes.pxi"


cdef inline object read_topic_id(Reader* reader):
    if lacks(reader, UUID_BYTES):
        return None
    reader.at += UUID_BYTES
    return PyBytes_FromStringAndSize(<const char*> reader.at - UUID_BYTES, UUID_BYTES)


cdef inline Reader reader_of(const Py_buffer* view, Py_ssize_t position) noexcept:
    cdef Reader reader
    reader.at = <const uint8_t*> view.buf + position
    reader.end = <const uint8_t*> view.buf + view.len
    reader.entries_left = ENTRIES
    reader.is_flexible = True
    reader.is_strict = True
    reader.gave_up = not 0 <= position <= view.len
    return reader


# ---- the request ----

cdef inline bint read_replica_state(Reader* reader, int32_t* replica_id, int64_t* replica_epoch) noexcept:
    """The tags of a request, which may say who follows; whether there is nothing else."""
    cdef int64_t count = read_varint(reader)
    replica_id[0], replica_epoch[0] = -1, -1
    if count == 0:
        return not reader.gave_up
    if count != 1 or read_varint(reader) != REPLICA_STATE_TAG or read_varint(reader) != REPLICA_STATE_BYTES:
        return False
    replica_id[0] = read_int32(reader)
    replica_epoch[0] = read_int64(reader)
    # What is as if nothing were said is not written.
    return read_varint(reader) == 0 and not reader.gave_up and not (replica_id[0] == -1 and replica_epoch[0] == -1)


cdef list read_asked_rows(Reader* reader):
    cdef int64_t topic_count = read_count(reader)
    cdef int64_t count
    cdef int32_t partition, leader_epoch, last_epoch, max_bytes
    cdef int64_t offset, log_start
    cdef list rows = []
    cdef object topic_id, before = None
    while topic_count > 0 and not reader.gave_up:
        topic_id = read_topic_id(reader)
        count = read_count(reader)
        if count < 1 or topic_id == before:
            reader.gave_up = True
        while count > 0 and not reader.gave_up:
            partition = read_int32(reader)
            leader_epoch = read_int32(reader)
            offset = read_int64(reader)
            last_epoch = read_int32(reader)
            log_start = read_int64(reader)
            max_bytes = read_int32(reader)
            read_tags(reader)
            position = tuple.__new__(FetchPosition, (offset, max_bytes, leader_epoch, last_epoch, log_start))
            rows.append((topic_id, partition, position))
            count -= 1
        read_tags(reader)
        before = topic_id
        topic_count -= 1
    return rows


cdef object read_asked(int version, const Py_buffer* view, Py_ssize_t position):
    cdef Reader reader = reader_of(view, position)
    cdef int32_t replica_id = -1
    cdef int64_t replica_epoch = -1
    cdef int32_t max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch
    cdef list rows
    if version < REPLICA_STATE_SINCE:
        replica_id = read_int32(&reader)
    max_wait_ms = read_int32(&reader)
    min_bytes = read_int32(&reader)
    max_bytes = read_int32(&reader)
    if lacks(&reader, 1):
        return None
    isolation_level = <signed char> reader.at[0]
    reader.at += 1
    session_id = read_int32(&reader)
    session_epoch = read_int32(&reader)
    if session_epoch <= 0:
        return None
    rows = read_asked_rows(&reader)
    # No topic is forgotten, and no rack is named.
    if read_varint(&reader) != 1 or read_varint(&reader) != 1:
        return None
    if version < REPLICA_STATE_SINCE:
        read_tags(&reader)
    elif not read_replica_state(&reader, &replica_id, &replica_epoch):
        return None
    if reader.gave_up or reader.at != reader.end:
        return None
    return tuple.__new__(SimpleAsked, (
        replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, rows
    ))


def scan_asked(int version, frame, Py_ssize_t position):
    """The request whose body begins at `position`, if it is simple."""
    cdef Py_buffer view
    if version < TOPIC_IDS_SINCE:
        return None
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        return read_asked(version, &view, position)
    finally:
        PyBuffer_Release(&view)


def write_asked(int version, int32_t correlation_id, client_id, terms, int64_t broker_epoch, int32_t session_id,
                int32_t session_epoch, dict topics):
    """The whole frame of a follower's request."""
    cdef bytes before, after, topic_id, written
    cdef int32_t replica_id = terms[0], partition_max_bytes = terms[4]
    cdef list partitions
    cdef Py_ssize_t room = ENTRY_BYTES_MAX
    cdef uint8_t* start
    cdef uint8_t* at
    before, after = around(API_KEY, version, client_id)
    for partitions in topics.values():
        room += ENTRY_BYTES_MAX * (1 + len(partitions))
    written = PyBytes_FromStringAndSize(NULL, room + len(before) + len(after))
    start = <uint8_t*> PyBytes_AS_STRING(written)
    at = start + 4
    memcpy(at, PyBytes_AS_STRING(before), len(before))
    at = put_int32(at + len(before), <uint32_t> correlation_id)
    memcpy(at, PyBytes_AS_STRING(after), len(after))
    at += len(after)
    if version < REPLICA_STATE_SINCE:
        at = put_int32(at, <uint32_t> replica_id)
    at = put_int32(at, <uint32_t> <int32_t> terms[1])
    at = put_int32(at, <uint32_t> <int32_t> terms[2])
    at = put_int32(at, <uint32_t> <int32_t> terms[3])
    at[0] = 0  # isolation level
    at = put_int32(put_int32(at + 1, <uint32_t> session_id), <uint32_t> session_epoch)
    at = put_varint(at, len(topics) + 1)
    for topic_id, partitions in topics.items():
        if len(topic_id) != UUID_BYTES:
            raise ValueError("a topic id has 16 bytes")
        memcpy(at, PyBytes_AS_STRING(topic_id), UUID_BYTES)
        at = put_varint(at + UUID_BYTES, len(partitions) + 1)
        for index, position in partitions:
            at = put_int32(at, <uint32_t> <int32_t> index)
            at = put_int32(at, <uint32_t> <int32_t> position[1])
            at = put_int64(at, position[2])
            at = put_int32(at, <uint32_t> <int32_t> position[3])
            at = put_int64(at, position[4])
            at = put_int32(at, <uint32_t> partition_max_bytes)
            at[0] = 0  # tags
            at += 1
        at[0] = 0
        at += 1
    at[0] = at[1] = 1  # no topic is forgotten, no rack is named
    at += 2
    if version < REPLICA_STATE_SINCE or (replica_id == -1 and broker_epoch == -1):
        at[0] = 0
        at += 1
    else:
        at[0] = 1
        at[1] = REPLICA_STATE_TAG
        at[2] = REPLICA_STATE_BYTES
        at = put_int64(put_int32(at + 3, <uint32_t> replica_id), broker_epoch)
        at[0] = 0
        at += 1
    put_int32(start, <uint32_t> (at - start - 4))
    return written[: at - start]


# ---- the answer ----

cdef inline uint8_t* put_data(uint8_t* at, tuple row, int64_t size_bytes) except NULL:
    """What an answer says of a partition before its records."""
    at = put_int32(at, <uint32_t> <int32_t> row[1])
    at[0] = at[1] = 0  # no error
    at = put_int64(at + 2, row[2])
    at = put_int64(at, row[3])
    at = put_int64(at, row[4])
    at[0] = 0  # no list of aborted transactions
    at = put_int32(at + 1, <uint32_t> -1)  # no other replica to read from
    return put_varint(at, <uint64_t> (size_bytes + 1))


cdef Py_ssize_t count_alike(list rows, Py_ssize_t first) except -1:
    """How many rows from that one on are of the same topic."""
    cdef Py_ssize_t number = first + 1
    cdef object topic_id = (<tuple> rows[first])[0]
    while number < len(rows) and (<tuple> rows[number])[0] == topic_id:
        number += 1
    return number - first


def write_fetched(int version, int32_t session_id, list rows):
    """The body of an answer in which nothing went wrong: bytes, and the records as they came between them."""
    cdef list parts = []
    cdef bytes written = PyBytes_FromStringAndSize(NULL, ENTRY_BYTES_MAX * (2 + 2 * len(rows)))
    cdef bytes topic_id
    cdef uint8_t* start = <uint8_t*> PyBytes_AS_STRING(written)
    cdef uint8_t* at
    cdef uint8_t* begun = start
    cdef Py_ssize_t number = 0, topic_count = 0, left
    cdef int64_t size_bytes
    cdef tuple row
    while number < len(rows):
        number += count_alike(rows, number)
        topic_count += 1
    at = put_int32(start, 0)  # throttle time
    at[0] = at[1] = 0  # no error
    at = put_int32(at + 2, <uint32_t> session_id)
    at = put_varint(at, topic_count + 1)
    number = 0
    while number < len(rows):
        topic_id = (<tuple> rows[number])[0]
        if len(topic_id) != UUID_BYTES:
            raise ValueError("a topic id has 16 bytes")
        left = count_alike(rows, number)
        memcpy(at, PyBytes_AS_STRING(topic_id), UUID_BYTES)
        at = put_varint(at + UUID_BYTES, left + 1)
        while left > 0:
            row = rows[number]
            size_bytes = len(row[5])
            at = put_data(at, row, size_bytes)
            if size_bytes:
                parts.append(written[begun - start : at - start])
                parts.append(row[5])
                begun = at
            at[0] = 0  # tags
            at += 1
            number += 1
            left -= 1
        at[0] = 0
        at += 1
    at[0] = 0
    parts.append(written[begun - start : at + 1 - start])
    return parts


cdef list read_fetched_rows(Reader* reader, object frame, const uint8_t* start):
    cdef int64_t topic_count = read_count(reader)
    cdef int64_t count, length, high_watermark, last_stable, log_start
    cdef int32_t index
    cdef Py_ssize_t first
    cdef list rows = []
    cdef object topic_id, before = None
    while topic_count > 0 and not reader.gave_up:
        topic_id = read_topic_id(reader)
        count = read_count(reader)
        if count < 1 or topic_id == before:
            reader.gave_up = True
        while count > 0 and not reader.gave_up:
            index = read_int32(reader)
            if read_int16(reader) != 0:
                reader.gave_up = True
            high_watermark = read_int64(reader)
            last_stable = read_int64(reader)
            log_start = read_int64(reader)
            # No list of aborted transactions, and no other replica to read from.
            if read_varint(reader) != 0 or read_int32(reader) != -1:
                reader.gave_up = True
            length = read_varint(reader) - 1
            if lacks(reader, length):
                break
            first = reader.at - start
            reader.at += length
            read_tags(reader)
            rows.append((topic_id, index, high_watermark, last_stable, log_start, frame[first : first + length]))
            count -= 1
        read_tags(reader)
        before = topic_id
        topic_count -= 1
    return rows


cdef object read_fetched(object frame, const Py_buffer* view):
    cdef Reader reader = reader_of(view, ANSWER_HEADER_BYTES)
    cdef int32_t session_id
    cdef list rows
    if reader.gave_up or (<const uint8_t*> view.buf)[ANSWER_HEADER_BYTES - 1] != 0:
        return None
    if read_int32(&reader) != 0 or read_int16(&reader) != 0:
        return None
    session_id = read_int32(&reader)
    rows = read_fetched_rows(&reader, frame, <const uint8_t*> view.buf)
    read_tags(&reader)
    if reader.gave_up or reader.at != reader.end:
        return None
    return tuple.__new__(SimpleFetched, (session_id, rows))


def scan_fetched(int version, frame):
    """What the frame of an answer says, if it is simple."""
    cdef Py_buffer view
    if version < TOPIC_IDS_SINCE:
        return None
    if not isinstance(frame, memoryview):
        frame = memoryview(frame)
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        return read_fetched(frame, &view)
    finally:
        PyBuffer_Release(&view)
