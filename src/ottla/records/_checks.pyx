# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of checks.py: the walk over the records of a batch before a log takes them.

Read the Python twin for the reasons. Here only what C changes: no pointer moves before the bytes it moves over are known
to be there, and above LOCK_FREE_BYTES the interpreter lock is released. Refused records are kept as C values during
the walk, at most REFUSALS_LIMIT of them, and become Python values after it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from ottla.errors import InvalidRecord
from ottla.records.checks import REFUSALS_LIMIT as PYTHON_LIMIT
from ottla.records.checks import RecordsCheck, Refusal, RefusedRecord

cdef enum:
    LOCK_FREE_BYTES = 128 * 1024
    RECORD_BYTES_MIN = 7
    HEADER_ENTRY_BYTES_MIN = 2
    LIMIT = 1000
    NO_TIMESTAMP = -1
    NO_KEY = 0
    TIME_OUT_OF_BOUNDS = 1
    APPEND_TIME_CLAIMED = 2
    TAKEN = 3

if PYTHON_LIMIT != LIMIT:
    raise ImportError("the twins of the record checks list a different number of refused records")

cdef tuple REASONS = (Refusal.NO_KEY, Refusal.TIME_OUT_OF_BOUNDS, Refusal.APPEND_TIME_CLAIMED)


cdef struct Rules:
    int64_t base_timestamp_ms
    int64_t append_time_ms
    int64_t now_ms
    int64_t before_max_ms
    int64_t after_max_ms
    bint has_append_time
    bint has_bounds
    bint keys_required


cdef struct Refused:
    int64_t timestamp_ms
    int32_t index
    int32_t reason


cdef struct Found:
    int64_t max_timestamp_ms
    int32_t refused_count
    # The index of the broken record, or -1.
    int32_t broken
    bint has_consecutive_offsets
    bint has_refused_time
    const uint8_t* end
    Refused refused[LIMIT]


cdef inline int64_t difference(int64_t first, int64_t second) noexcept nogil:
    # Unsigned, because overflow of signed numbers is not defined in C.
    return <int64_t> (<uint64_t> first - <uint64_t> second)


cdef const uint8_t* take_long(const uint8_t* at, const uint8_t* end, int bits, int64_t* value) noexcept nogil:
    """The varint at `at`, or NULL when it runs over the end or over its bits."""
    cdef uint64_t raw = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift < bits:
        if at >= end:
            return NULL
        byte = at[0]
        at += 1
        raw |= <uint64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            # The last byte of a full-length varint may only carry the bits that are left.
            if bits - shift < 7 and byte >> (bits - shift):
                return NULL
            value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
            return at
        shift += 7
    return NULL


cdef inline const uint8_t* take(const uint8_t* at, const uint8_t* end, int bits, int64_t* value) noexcept nogil:
    if at < end and at[0] < 0x80:
        value[0] = <int64_t> (at[0] >> 1) ^ -<int64_t> (at[0] & 1)
        return at + 1
    return take_long(at, end, bits, value)


cdef inline const uint8_t* skip_bytes(const uint8_t* at, const uint8_t* end, int64_t shortest,
                                      int64_t* length) noexcept nogil:
    """Past a length and so many bytes; -1 is null. NULL when it does not fit."""
    at = take(at, end, 32, length)
    if at == NULL or length[0] < shortest or length[0] > end - at:
        return NULL
    return at + length[0] if length[0] > 0 else at


cdef const uint8_t* skip_headers(const uint8_t* at, const uint8_t* end) noexcept nogil:
    cdef int64_t count = 0
    cdef int64_t length = 0
    at = take(at, end, 32, &count)
    if at == NULL or count < 0 or count * HEADER_ENTRY_BYTES_MIN > end - at:
        return NULL
    while count > 0:
        at = skip_bytes(at, end, 0, &length)
        if at == NULL:
            return NULL
        at = skip_bytes(at, end, -1, &length)
        if at == NULL:
            return NULL
        count -= 1
    return at


cdef inline const uint8_t* walk_record(const uint8_t* at, const uint8_t* end, int64_t* timestamp_delta,
                                       int64_t* offset_delta, int64_t* key_length) noexcept nogil:
    """Where the record at `at` ends, or NULL when it is broken."""
    cdef int64_t length = 0
    cdef const uint8_t* after
    at = take(at, end, 32, &length)
    if at == NULL or length < 1 or length > end - at:
        return NULL
    after = at + length
    at = take(at + 1, after, 64, timestamp_delta)
    if at == NULL:
        return NULL
    at = take(at, after, 32, offset_delta)
    if at == NULL:
        return NULL
    at = skip_bytes(at, after, -1, key_length)
    if at == NULL:
        return NULL
    at = skip_bytes(at, after, -1, &length)
    if at == NULL:
        return NULL
    return after if skip_headers(at, after) == after else NULL


cdef inline int reason_to_refuse(const Rules* rules, int64_t timestamp_ms, bint has_key) noexcept nogil:
    cdef int64_t behind_ms
    if rules.keys_required and not has_key:
        return NO_KEY
    if rules.has_bounds and timestamp_ms != NO_TIMESTAMP:
        behind_ms = difference(rules.now_ms, timestamp_ms)
        if behind_ms > rules.before_max_ms or difference(0, behind_ms) > rules.after_max_ms:
            return TIME_OUT_OF_BOUNDS
        return TAKEN
    return APPEND_TIME_CLAIMED if rules.has_append_time else TAKEN


cdef void walk(const uint8_t* at, const uint8_t* end, int32_t count, const Rules* rules, Found* found) noexcept nogil:
    cdef int64_t timestamp_delta = 0
    cdef int64_t offset_delta = 0
    cdef int64_t key_length = 0
    cdef int64_t timestamp_ms
    cdef int32_t index
    cdef int reason
    for index in range(count):
        at = walk_record(at, end, &timestamp_delta, &offset_delta, &key_length)
        if at == NULL:
            found.broken = index
            return
        if rules.has_append_time:
            timestamp_ms = rules.append_time_ms
        else:
            timestamp_ms = <int64_t> (<uint64_t> rules.base_timestamp_ms + <uint64_t> timestamp_delta)
        if timestamp_ms > found.max_timestamp_ms:
            found.max_timestamp_ms = timestamp_ms
        if offset_delta != index:
            found.has_consecutive_offsets = False
        reason = reason_to_refuse(rules, timestamp_ms, key_length >= 0)
        if reason == TAKEN:
            continue
        if reason != NO_KEY:
            found.has_refused_time = True
        if found.refused_count < LIMIT:
            found.refused[found.refused_count].index = index
            found.refused[found.refused_count].reason = reason
            found.refused[found.refused_count].timestamp_ms = timestamp_ms
        found.refused_count += 1
    found.end = at


cdef object result_of(const Found* found):
    cdef int32_t listed = min(found.refused_count, <int32_t> LIMIT)
    refused = [
        RefusedRecord(found.refused[i].index, REASONS[found.refused[i].reason], found.refused[i].timestamp_ms)
        for i in range(listed)
    ]
    return RecordsCheck(
        found.max_timestamp_ms, found.has_consecutive_offsets != 0, found.refused_count, refused,
        found.has_refused_time != 0,
    )


def check_records(records, int32_t record_count, int64_t base_timestamp_ms, *, append_time_ms=None,
                  bint keys_required=False, bounds=None):
    """Check the decompressed records of one batch."""
    cdef Py_buffer view
    cdef Rules rules
    cdef Found found
    cdef const uint8_t* start
    rules.base_timestamp_ms = base_timestamp_ms
    rules.keys_required = keys_required
    rules.has_append_time = append_time_ms is not None
    rules.append_time_ms = append_time_ms if append_time_ms is not None else 0
    rules.has_bounds = bounds is not None
    rules.now_ms, rules.before_max_ms, rules.after_max_ms = bounds if bounds is not None else (0, 0, 0)
    found.max_timestamp_ms = NO_TIMESTAMP
    found.refused_count = 0
    found.broken = -1
    found.has_consecutive_offsets = True
    found.has_refused_time = False
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        if record_count < 0 or <int64_t> record_count * RECORD_BYTES_MIN > view.len:
            raise InvalidRecord(f"the batch claims {record_count} records in {view.len} bytes")
        start = <const uint8_t*> view.buf
        found.end = start
        if view.len < LOCK_FREE_BYTES:
            walk(start, start + view.len, record_count, &rules, &found)
        else:
            with nogil:
                walk(start, start + view.len, record_count, &rules, &found)
        if found.broken >= 0:
            raise InvalidRecord(f"record {found.broken} of the batch is broken")
        if found.end != start + view.len:
            raise InvalidRecord(
                f"{start + view.len - found.end} bytes are left after the {record_count} records of the batch"
            )
    finally:
        PyBuffer_Release(&view)
    return result_of(&found)
