# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of produce_frames.py: one pass over the bytes of a produce request, one over those of its answer.

Read the Python twin for what the values mean. Here only what C changes: a Reader never moves before the bytes it moves
over are known to be there, and whatever is not plain (unknown tags, null arrays, lengths that cannot be, an outcome
with an error) makes the whole job the twin's, from its beginning. So there is one place for every sentence.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from ottla.broker.produce import frames as produce_frames
from ottla.broker.produce.frames import Produce

cdef enum:
    FLEXIBLE_SINCE = 9
    LOG_START_SINCE = 5
    RECORD_ERRORS_SINCE = 8
    TOPIC_IDS_SINCE = 13
    UUID_BYTES = 16
    STRING_BYTES_MAX = 32767
    # Enough for one partition or one topic without its name, in any version.
    ENTRY_BYTES_MAX = 64
    CORRELATION_AT = 4
    HEADER_FIXED_BYTES = 8

cdef object scan_by_fields = produce_frames.scan
cdef object write_by_fields = produce_frames.write
cdef object write_run_by_fields = produce_frames.write_run
cdef tuple UNREADABLE = produce_frames.UNREADABLE


include "../_frame_bytes.pxi"


cdef object read_string(Reader* reader):
    cdef int64_t length = read_length(reader, True)
    if length == -1 and not reader.gave_up:
        return None
    if length > STRING_BYTES_MAX or lacks(reader, length):
        reader.gave_up = True
        return None
    reader.at += length
    try:
        return PyUnicode_DecodeUTF8(<const char*> reader.at - length, length, NULL)
    except UnicodeDecodeError:
        reader.gave_up = True
        return None


cdef object read_topic(Reader* reader, bint by_id):
    cdef object name
    if not by_id:
        name = read_string(reader)
        if name is None:
            reader.gave_up = True
        return name
    if lacks(reader, UUID_BYTES):
        return None
    reader.at += UUID_BYTES
    return PyBytes_FromStringAndSize(<const char*> reader.at - UUID_BYTES, UUID_BYTES)


cdef object read_records(Reader* reader, object frame, const uint8_t* start):
    cdef int64_t length = read_length(reader, False)
    cdef Py_ssize_t first
    if length == -1 or lacks(reader, length):
        return None
    first = reader.at - start
    reader.at += length
    return frame[first : first + length]


cdef list read_partitions(Reader* reader, object frame, const uint8_t* start):
    cdef int64_t count = read_count(reader)
    cdef list partitions = []
    cdef int32_t index
    while count > 0 and not reader.gave_up:
        index = read_int32(reader)
        partitions.append((index, read_records(reader, frame, start)))
        read_tags(reader)
        count -= 1
    return partitions


cdef list read_topics(Reader* reader, object frame, const uint8_t* start, bint by_id):
    cdef int64_t count = read_count(reader)
    cdef list topics = []
    cdef object topic
    while count > 0 and not reader.gave_up:
        topic = read_topic(reader, by_id)
        topics.append((topic, read_partitions(reader, frame, start)))
        read_tags(reader)
        count -= 1
    return topics


def scan(int version, int64_t entries_limit, frame, Py_ssize_t position):
    """The request whose body begins at `position`, and where it ends."""
    cdef Py_buffer view
    cdef Reader reader
    cdef object transactional_id
    cdef int32_t acks, timeout_ms
    cdef list topics
    cdef Py_ssize_t end
    if not isinstance(frame, memoryview):
        return scan_by_fields(version, entries_limit, frame, position)
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        reader.at = <const uint8_t*> view.buf + position
        reader.end = <const uint8_t*> view.buf + view.len
        reader.entries_left = entries_limit
        reader.is_flexible = version >= FLEXIBLE_SINCE
        reader.is_strict = False
        reader.gave_up = not 0 <= position <= view.len
        transactional_id = read_string(&reader)
        acks = read_int16(&reader)
        timeout_ms = read_int32(&reader)
        topics = read_topics(&reader, frame, <const uint8_t*> view.buf, version >= TOPIC_IDS_SINCE)
        read_tags(&reader)
        end = reader.at - <const uint8_t*> view.buf
    finally:
        PyBuffer_Release(&view)
    if reader.gave_up:
        return scan_by_fields(version, entries_limit, frame, position)
    return tuple.__new__(Produce, (transactional_id, acks, timeout_ms, topics)), end


cdef bint begins_alike(frame, first, Py_ssize_t position) except -1:
    """Whether two frames have the same header but for the correlation id."""
    cdef Py_buffer one, other
    cdef const uint8_t* a
    cdef const uint8_t* b
    PyObject_GetBuffer(frame, &one, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(first, &other, PyBUF_SIMPLE)
        a, b = <const uint8_t*> one.buf, <const uint8_t*> other.buf
        try:
            return (
                HEADER_FIXED_BYTES <= position <= one.len and position <= other.len
                and memcmp(a, b, CORRELATION_AT) == 0
                and memcmp(a + HEADER_FIXED_BYTES, b + HEADER_FIXED_BYTES, position - HEADER_FIXED_BYTES) == 0
            )
        finally:
            PyBuffer_Release(&other)
    finally:
        PyBuffer_Release(&one)


def scan_run(int version, int64_t entries_limit, list frames, Py_ssize_t position):
    """The requests of frames that begin with the same header as the first, up to one that cannot be read."""
    cdef list requests = []
    cdef object frame
    for frame in frames:
        if not begins_alike(frame, frames[0], position):
            break
        try:
            requests.append(scan(version, entries_limit, frame, position)[0])
        except UNREADABLE:
            break
    return requests


# ---- writing ----

cdef inline uint8_t* put_count(uint8_t* at, Py_ssize_t count, int version) noexcept:
    return put_varint(at, count + 1) if version >= FLEXIBLE_SINCE else put_int32(at, <uint32_t> count)


cdef inline uint8_t* put_tags(uint8_t* at, int version) noexcept:
    if version >= FLEXIBLE_SINCE:
        at[0] = 0
        return at + 1
    return at


cdef uint8_t* put_topic(uint8_t* at, const char* name, Py_ssize_t length, int version) noexcept:
    if version < FLEXIBLE_SINCE:
        at[0] = <uint8_t> (length >> 8)
        at[1] = <uint8_t> length
        at += 2
    elif version < TOPIC_IDS_SINCE:
        at = put_varint(at, length + 1)
    memcpy(at, name, length)
    return at + length


cdef inline uint8_t* put_appended(uint8_t* at, int32_t index, int64_t base_offset, int64_t log_append_time_ms,
                                  int64_t log_start_offset, int version) noexcept:
    at = put_int32(at, <uint32_t> index)
    at[0] = at[1] = 0
    at = put_int64(at + 2, base_offset)
    at = put_int64(at, log_append_time_ms)
    if version >= LOG_START_SINCE:
        at = put_int64(at, log_start_offset)
    if version >= RECORD_ERRORS_SINCE:
        at = put_count(at, 0, version)
        if version >= FLEXIBLE_SINCE:
            at = put_varint(at, 0)
        else:
            at[0] = at[1] = 0xFF
            at += 2
    return put_tags(at, version)


cdef uint8_t* put_outcome(uint8_t* at, object outcome, int version) except NULL:
    return put_appended(
        at, outcome.index, outcome.base_offset, outcome.log_append_time_ms, outcome.log_start_offset, version
    )


cdef Py_ssize_t room_for(list answers) except -2:
    """Bytes that will do; -1 when an outcome has an error, which the twin writes."""
    cdef Py_ssize_t room = ENTRY_BYTES_MAX
    cdef object topic, outcome
    cdef list outcomes
    for topic, outcomes in answers:
        # No character takes more than four bytes, and a name of more than this many the twin refuses.
        if len(topic) > STRING_BYTES_MAX // 4:
            return -1
        room += ENTRY_BYTES_MAX + 4 * len(topic) + ENTRY_BYTES_MAX * len(outcomes)
        for outcome in outcomes:
            if outcome.error is not None:
                return -1
    return room


cdef uint8_t* put_answers(uint8_t* at, list answers, int version) except NULL:
    cdef object topic, outcome
    cdef bytes name
    cdef list outcomes
    at = put_count(at, len(answers), version)
    for topic, outcomes in answers:
        name = topic if version >= TOPIC_IDS_SINCE else PyUnicode_AsUTF8String(topic)
        at = put_topic(at, name, len(name), version)
        at = put_count(at, len(outcomes), version)
        for outcome in outcomes:
            at = put_outcome(at, outcome, version)
        at = put_tags(at, version)
    return put_tags(put_int32(at, 0), version)


def write(int version, list answers):
    """The body of the answer."""
    cdef Py_ssize_t room = room_for(answers)
    cdef bytes written
    cdef uint8_t* start
    if room < 0:
        return write_by_fields(version, answers)
    written = PyBytes_FromStringAndSize(NULL, room)
    start = <uint8_t*> PyBytes_AS_STRING(written)
    return [written[: put_answers(start, answers, version) - start]]


cdef uint8_t* put_correlation(uint8_t* at, frame) except NULL:
    cdef Py_buffer view
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    if view.len < HEADER_FIXED_BYTES:
        PyBuffer_Release(&view)
        raise ValueError("a request has a correlation id")
    memcpy(at, <const uint8_t*> view.buf + CORRELATION_AT, 4)
    PyBuffer_Release(&view)
    return at + 4


def write_run(int version, list frames, list all_answers):
    """Whole frames with the answers to the requests in `frames`, one after the other."""
    cdef Py_ssize_t room = 0
    cdef Py_ssize_t one
    cdef Py_ssize_t index
    cdef list answers
    cdef bytes written
    cdef uint8_t* start
    cdef uint8_t* at
    cdef uint8_t* body
    for answers in all_answers:
        one = room_for(answers)
        if one < 0 or len(frames) != len(all_answers):
            return write_run_by_fields(version, frames, all_answers)
        room += one + ENTRY_BYTES_MAX
    written = PyBytes_FromStringAndSize(NULL, room)
    start = at = <uint8_t*> PyBytes_AS_STRING(written)
    for index in range(len(all_answers)):
        body = at + 4
        at = put_tags(put_correlation(body, frames[index]), version)
        at = put_answers(at, all_answers[index], version)
        put_int32(body - 4, <uint32_t> (at - body))
    return written[: at - start]
