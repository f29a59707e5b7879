# The native twin of produce_frames.py, a part of _append.pyx: the bytes of a produce request and of a plain answer.
#
# Read the Python twin for what they mean. Here only what C changes: small pieces between the records are written into one
# scratch memory whose size is known before; a Cursor never moves before the bytes it moves over are known to be there,
# and whatever is not plain in an answer makes the whole job the twin's, from its beginning.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memcmp

from ottla.client.producer.batches import produce_frames
from ottla.protocol.schema import ZERO_UUID

cdef enum:
    FLEXIBLE_SINCE = 9
    LOG_START_SINCE = 5
    RECORD_ERRORS_SINCE = 8
    TOPIC_IDS_SINCE = 13
    UUID_BYTES = 16
    STRING_BYTES_MAX = 32767
    FIXED_BYTES = 64       # more than what stands before the topics, of one topic, or of one batch, without names
    PREFIX_BYTES = 4       # the size of the frame
    CORRELATION_AT = 8     # behind that size, the key and the version

cdef object read_by_fields = produce_frames.read_accepted
cdef object write_by_fields = produce_frames.write_body
cdef object write_frame_by_fields = produce_frames.write_frame
cdef object around_correlation_id = produce_frames.around_correlation_id
cdef int64_t SMALL_BYTES = produce_frames.GATHERED_LIMIT_BYTES
cdef object Accepted = produce_frames.Accepted
cdef bytes NO_ID = ZERO_UUID


# ---- writing ----

cdef list grouped(batches):
    """[topic, its batches, their numbers] for each topic, in the order of their first batches."""
    cdef list groups = []
    cdef list group = None
    cdef dict known = {}
    cdef Py_ssize_t number = 0
    cdef str name
    for each in batches:
        name = (<ProducerBatch?> each).delivery.topic
        if group is None or group[0] is not name:
            group = known.get(name)
            if group is None:
                group = [name, [], []]
                known[name] = group
                groups.append(group)
        (<list> group[1]).append(each)
        (<list> group[2]).append(number)
        number += 1
    return groups


cdef inline uint8_t* put_count(uint8_t* at, bint is_flexible, uint32_t count) noexcept:
    if is_flexible:
        return put_varint(at, <uint64_t> count + 1)
    put32(at, count)
    return at + 4


cdef uint8_t* put_text(uint8_t* at, bint is_flexible, bytes text) noexcept:
    cdef Py_ssize_t size = -1 if text is None else PyBytes_GET_SIZE(text)
    if is_flexible:
        at = put_varint(at, <uint64_t> (size + 1))
    else:
        put16(at, <uint16_t> size)
        at += 2
    if size > 0:
        memcpy(at, PyBytes_AS_STRING(text), size)
        at += size
    return at


def write_body(batches, topic_ids, int version, transactional_id, int16_t acks, int32_t timeout_ms,
               bint is_transactional):
    """The body of the request that carries these batches, as buffers to be written one after the other."""
    parts = written(batches, topic_ids, version, transactional_id, acks, timeout_ms, is_transactional, b"", -1)
    if parts is None:
        return write_by_fields(batches, topic_ids, version, transactional_id, acks, timeout_ms, is_transactional)
    return parts


def write_frame(batches, topic_ids, int version, transactional_id, int16_t acks, int32_t timeout_ms,
                bint is_transactional, int32_t correlation_id, client_id):
    """The whole frame of that request, as few buffers to be written one after the other."""
    cdef bytes before, after, head, first
    cdef Py_ssize_t size = -PREFIX_BYTES
    cdef uint8_t* at
    before, after = around_correlation_id(0, version, client_id)
    head = bytes(PREFIX_BYTES) + before + bytes(PREFIX_BYTES) + after
    parts = written(batches, topic_ids, version, transactional_id, acks, timeout_ms, is_transactional, head,
                    SMALL_BYTES)
    if parts is None:
        return write_frame_by_fields(batches, topic_ids, version, transactional_id, acks, timeout_ms, is_transactional,
                                     correlation_id, client_id)
    for part in <list> parts:
        size += len(part)
    first = <bytes> (<list> parts)[0]  # made here, and nobody else has it yet
    at = <uint8_t*> PyBytes_AS_STRING(first)
    put32(at, <uint32_t> size)
    put32(at + CORRELATION_AT, <uint32_t> correlation_id)
    return parts


cdef object written(batches, topic_ids, int version, transactional_id, int16_t acks, int32_t timeout_ms,
                    bint is_transactional, bytes head, int64_t small_bytes):
    """Head and body in pieces; records of at most `small_bytes` are copied. None when the twin has to write it."""
    cdef list groups = grouped(batches)
    cdef bytes who = None
    cdef list names = []
    cdef Py_ssize_t bound = FIXED_BYTES + PyBytes_GET_SIZE(head)
    cdef bytes name
    if transactional_id is not None:
        who = (<str?> transactional_id).encode()
        bound += PyBytes_GET_SIZE(who)
        if PyBytes_GET_SIZE(who) > STRING_BYTES_MAX:
            return None
    for group in groups:
        if version >= TOPIC_IDS_SINCE:
            name = topic_ids.get(group[0], NO_ID)
            if PyBytes_GET_SIZE(name) != UUID_BYTES:
                return None
        else:
            name = (<str> group[0]).encode()
            if PyBytes_GET_SIZE(name) > STRING_BYTES_MAX:
                return None
        names.append(name)
        bound += PyBytes_GET_SIZE(name) + FIXED_BYTES * (1 + len(<list> group[1]))
        for each in <list> group[1]:
            if (<ProducerBatch> each).is_small(small_bytes):
                bound += (<ProducerBatch> each).used
    cdef uint8_t* scratch = <uint8_t*> PyMem_Malloc(bound)
    if scratch == NULL:
        raise MemoryError()
    try:
        memcpy(scratch, PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        return write_pieces(scratch, scratch + PyBytes_GET_SIZE(head), groups, names, version, who, acks, timeout_ms,
                            is_transactional, small_bytes)
    finally:
        PyMem_Free(scratch)


cdef list write_pieces(uint8_t* scratch, uint8_t* at, list groups, list names, int version, bytes who, int16_t acks,
                       int32_t timeout_ms, bint is_transactional, int64_t small_bytes):
    cdef bint is_flexible = version >= FLEXIBLE_SINCE
    cdef list parts = []
    cdef uint8_t* start = scratch
    cdef Py_ssize_t place
    cdef ProducerBatch batch
    cdef bytes name
    at = put_text(at, is_flexible, who)
    put16(at, <uint16_t> acks)
    put32(at + 2, <uint32_t> timeout_ms)
    at = put_count(at + 6, is_flexible, <uint32_t> len(groups))
    for place in range(len(groups)):
        name = names[place]
        if version >= TOPIC_IDS_SINCE:
            memcpy(at, PyBytes_AS_STRING(name), UUID_BYTES)
            at += UUID_BYTES
        else:
            at = put_text(at, is_flexible, name)
        at = put_count(at, is_flexible, <uint32_t> len(groups[place][1]))
        for each in groups[place][1]:
            records = sealed(<ProducerBatch> each, is_transactional)
            batch = <ProducerBatch> each
            put32(at, <uint32_t> batch.delivery.partition)
            at = put_count(at + 4, is_flexible, <uint32_t> len(records))
            if batch.is_small(small_bytes):
                memcpy(at, batch.memory, batch.used)
                at += batch.used
            else:
                parts.append(PyBytes_FromStringAndSize(<char*> start, at - start))
                parts.append(records)
                start = at
            if is_flexible:
                at[0] = 0
                at += 1
        if is_flexible:
            at[0] = 0
            at += 1
    if is_flexible:
        at[0] = 0
        at += 1
    if at != start or not parts:
        parts.append(PyBytes_FromStringAndSize(<char*> start, at - start))
    return parts


cdef object sealed(ProducerBatch batch, bint is_transactional):
    stamp = batch.stamp
    if stamp is None:
        return batch.seal(-1, -1, -1, False)
    producer_id, epoch = stamp.identity
    return batch.seal(producer_id, epoch, stamp.base_sequence, is_transactional)


# ---- reading ----

cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    bint is_flexible
    # Set once something was met that is not plain; nothing that was read after it means anything.
    bint gave_up


cdef inline bint lacks(Cursor* cursor, Py_ssize_t count) noexcept:
    if cursor.gave_up or count > cursor.end - cursor.at:
        cursor.gave_up = True
    return cursor.gave_up


cdef inline int64_t next_int(Cursor* cursor, int size) noexcept:
    """A big-endian number of so many bytes, 2, 4 or 8."""
    cdef const uint8_t* at = cursor.at
    if lacks(cursor, size):
        return 0
    cursor.at += size
    if size == 2:
        return <int16_t> get16(at)
    return <int32_t> get32(at) if size == 4 else <int64_t> get64(at)


cdef inline int64_t next_uvarint(Cursor* cursor) noexcept:
    cdef int64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 28 and not lacks(cursor, 1):
        byte = cursor.at[0]
        cursor.at += 1
        value |= <int64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    cursor.gave_up = True
    return 0


cdef inline int64_t next_count(Cursor* cursor) noexcept:
    """The entries of an array; a null array is not plain."""
    cdef int64_t count = next_uvarint(cursor) - 1 if cursor.is_flexible else next_int(cursor, 4)
    if count < 0:
        cursor.gave_up = True
    return count


cdef inline void no_tags(Cursor* cursor) noexcept:
    if cursor.is_flexible and next_uvarint(cursor) != 0:
        cursor.gave_up = True


cdef inline void expect(Cursor* cursor, bytes text, bint has_length) noexcept:
    """These bytes, and behind the length of a string if it has one."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    cdef int64_t length = size
    if has_length:
        length = next_uvarint(cursor) - 1 if cursor.is_flexible else next_int(cursor, 2)
    if length != size or lacks(cursor, size) or memcmp(cursor.at, PyBytes_AS_STRING(text), size) != 0:
        cursor.gave_up = True
        return
    cursor.at += size


cdef inline void no_errors(Cursor* cursor, int version) noexcept:
    """Behind the times of a batch: no errors of single records, no message, no new leader."""
    if version >= LOG_START_SINCE:
        next_int(cursor, 8)
    if version >= RECORD_ERRORS_SINCE:
        if next_count(cursor) != 0 or (next_uvarint(cursor) != 0 if cursor.is_flexible else next_int(cursor, 2) != -1):
            cursor.gave_up = True
    no_tags(cursor)


cdef bint read_places(Cursor* cursor, list groups, topic_ids, int version, list places) except -1:
    cdef int64_t base_offset, append_time_ms
    cdef Py_ssize_t place
    if next_count(cursor) != len(groups):
        return False
    for group in groups:
        if version >= TOPIC_IDS_SINCE:
            expect(cursor, topic_ids.get(group[0], NO_ID), False)
        else:
            expect(cursor, (<str> group[0]).encode(), True)
        if next_count(cursor) != len(group[1]):
            return False
        for place in range(len(<list> group[1])):
            batch = (<list> group[1])[place]
            if next_int(cursor, 4) != (<ProducerBatch> batch).delivery.partition or next_int(cursor, 2) != 0:
                return False
            base_offset = next_int(cursor, 8)
            append_time_ms = next_int(cursor, 8)
            no_errors(cursor, version)
            if cursor.gave_up:
                return False
            places[<Py_ssize_t> (<list> group[2])[place]] = (base_offset, append_time_ms)
        no_tags(cursor)
    return not cursor.gave_up


def read_accepted(batches, topic_ids, int version, frame):
    """What an answer says if it is nothing but good news; None when it must be read in full."""
    cdef Py_buffer view
    cdef Cursor cursor
    cdef list places = [None] * len(batches)
    cdef int64_t throttle_ms = 0
    cdef bint is_plain
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        cursor.at = <const uint8_t*> view.buf
        cursor.end = cursor.at + view.len
        cursor.is_flexible = version >= FLEXIBLE_SINCE
        cursor.gave_up = False
        next_int(&cursor, 4)  # the correlation id was compared before
        no_tags(&cursor)
        is_plain = read_places(&cursor, grouped(batches), topic_ids, version, places)
        if is_plain:
            throttle_ms = next_int(&cursor, 4)
            no_tags(&cursor)
    finally:
        PyBuffer_Release(&view)
    if not is_plain or cursor.gave_up:
        return read_by_fields(batches, topic_ids, version, frame)
    return Accepted(throttle_ms, places)
