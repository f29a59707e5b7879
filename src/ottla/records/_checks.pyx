# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of checks.py: the walk over the records of a batch before a log takes them.

Read the Python twin for the reasons. Here only what C changes: no pointer moves before the bytes it moves over are known
to be there, and above LOCK_FREE_BYTES the interpreter lock is released. Refused records are kept as C values during
the walk, at most REFUSALS_LIMIT of them, and become Python values after it.

place_plain_batch() does for the batch that nearly every produce request carries what ottla.storage.log.validation does step
by step, and nothing for any other: there the steps are to be read, and every refusal is theirs.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from ottla.records._numbers cimport take, wrapped_difference

from ottla.errors import InvalidRecord
from ottla.records.checks import REFUSALS_LIMIT as PYTHON_LIMIT
from ottla.records.checks import PlacedBatch, PlacedRun, RecordsCheck, Refusal, RefusedRecord

cdef extern from "_crc32c.h" nogil:
    void ottla_crc32c_prepare()
    uint32_t ottla_crc32c(uint32_t value, const uint8_t* data, size_t length)

cdef enum:
    HEADER_BYTES = 61
    LOG_OVERHEAD_BYTES = 12
    MAGIC = 2
    TRANSACTIONAL_BIT = 0x10
    LOCK_FREE_BYTES = 128 * 1024
    # More batches than that are no run; whoever has more goes one by one.
    RUN_LIMIT = 64
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

ottla_crc32c_prepare()

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
    # -1 when no record has a time.
    int64_t max_timestamp_ms
    int32_t refused_count
    # The index of the broken record, or -1.
    int32_t broken
    bint has_consecutive_offsets
    bint has_refused_time
    const uint8_t* end
    Refused refused[LIMIT]


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
    if after - at == 1 and at[0] == 0:  # no headers, as nearly always
        return after
    return after if skip_headers(at, after) == after else NULL


cdef inline int reason_to_refuse(const Rules* rules, int64_t timestamp_ms, bint has_key) noexcept nogil:
    cdef int64_t behind_ms
    if rules.keys_required and not has_key:
        return NO_KEY
    if rules.has_bounds and timestamp_ms != NO_TIMESTAMP:
        behind_ms = wrapped_difference(rules.now_ms, timestamp_ms)
        if behind_ms > rules.before_max_ms or wrapped_difference(0, behind_ms) > rules.after_max_ms:
            return TIME_OUT_OF_BOUNDS
        return TAKEN
    return APPEND_TIME_CLAIMED if rules.has_append_time else TAKEN


cdef inline void clear(Found* found) noexcept nogil:
    found.max_timestamp_ms = NO_TIMESTAMP
    found.refused_count = 0
    found.broken = -1
    found.has_consecutive_offsets = True
    found.has_refused_time = False
    found.end = NULL


cdef inline void judge(int32_t index, int64_t timestamp_delta, int64_t offset_delta, bint has_key, const Rules* rules,
                       Found* found) noexcept nogil:
    """Take the record into account, or write down why it is refused."""
    cdef int64_t timestamp_ms
    cdef int reason
    if rules.has_append_time:
        timestamp_ms = rules.append_time_ms
    else:
        timestamp_ms = <int64_t> (<uint64_t> rules.base_timestamp_ms + <uint64_t> timestamp_delta)
    if timestamp_ms > found.max_timestamp_ms:
        found.max_timestamp_ms = timestamp_ms
    if offset_delta != index:
        found.has_consecutive_offsets = False
    reason = reason_to_refuse(rules, timestamp_ms, has_key)
    if reason == TAKEN:
        return
    if reason != NO_KEY:
        found.has_refused_time = True
    if found.refused_count < LIMIT:
        found.refused[found.refused_count].index = index
        found.refused[found.refused_count].reason = reason
        found.refused[found.refused_count].timestamp_ms = timestamp_ms
    found.refused_count += 1


cdef void walk(const uint8_t* at, const uint8_t* end, int32_t count, const Rules* rules, Found* found) noexcept nogil:
    cdef int64_t timestamp_delta = 0
    cdef int64_t offset_delta = 0
    cdef int64_t key_length = 0
    cdef int32_t index
    for index in range(count):
        at = walk_record(at, end, &timestamp_delta, &offset_delta, &key_length)
        if at == NULL:
            found.broken = index
            return
        judge(index, timestamp_delta, offset_delta, key_length >= 0, rules, found)
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


cdef Rules rules_of(int64_t base_timestamp_ms, object append_time_ms, bint keys_required, object bounds) except *:
    cdef Rules rules
    rules.base_timestamp_ms = base_timestamp_ms
    rules.keys_required = keys_required
    rules.has_append_time = append_time_ms is not None
    rules.append_time_ms = append_time_ms if append_time_ms is not None else 0
    rules.has_bounds = bounds is not None
    rules.now_ms, rules.before_max_ms, rules.after_max_ms = bounds if bounds is not None else (0, 0, 0)
    return rules


def check_records(records, int32_t record_count, int64_t base_timestamp_ms, *, append_time_ms=None,
                  bint keys_required=False, bounds=None):
    """Check the decompressed records of one batch."""
    cdef Py_buffer view
    cdef Rules rules = rules_of(base_timestamp_ms, append_time_ms, keys_required, bounds)
    cdef Found found
    cdef const uint8_t* start
    clear(&found)
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


# ---- records that come in pieces ----

cdef enum:
    # What the next varint is; ATTRIBUTES is one byte, AFTER_RECORD none.
    LENGTH = 0
    ATTRIBUTES = 1
    TIMESTAMP = 2
    OFFSET = 3
    KEY = 4
    VALUE = 5
    HEADERS = 6
    HEADER_KEY = 7
    HEADER_VALUE = 8
    AFTER_RECORD = 9


cdef struct Place:
    # Where in a record the last piece ended.
    int state
    int shift
    uint64_t raw
    int64_t skip
    int64_t length
    int64_t taken
    int64_t headers
    int64_t timestamp_delta
    int64_t offset_delta
    int64_t key_length
    int32_t index


cdef inline bint take_value(Place* place, int64_t value) noexcept nogil:
    """What a varint means where it stands; False when it cannot stand there."""
    cdef int64_t shortest = 0 if place.state == HEADER_KEY else -1
    if place.state == LENGTH:
        place.length = value
        place.taken = 0
        place.state = ATTRIBUTES
        return value >= 1
    if place.state == TIMESTAMP:
        place.timestamp_delta = value
        place.state = OFFSET
    elif place.state == OFFSET:
        place.offset_delta = value
        place.state = KEY
    elif place.state == HEADERS:
        if value < 0 or value > place.length:
            return False
        place.headers = value
        place.state = HEADER_KEY if value > 0 else AFTER_RECORD
    else:
        if value < shortest:
            return False
        place.skip = value if value > 0 else 0
        place.taken += place.skip
        if place.state == KEY:
            place.key_length = value
            place.state = VALUE
        elif place.state == VALUE:
            place.state = HEADERS
        elif place.state == HEADER_KEY:
            place.state = HEADER_VALUE
        else:
            place.headers -= 1
            place.state = HEADER_KEY if place.headers > 0 else AFTER_RECORD
    return place.taken <= place.length


cdef const uint8_t* walk_piece(Place* place, const uint8_t* at, const uint8_t* end, int32_t count, const Rules* rules,
                               Found* found) noexcept nogil:
    """As far as the piece goes, or to the end of the last record; NULL when a record is broken."""
    cdef const uint8_t* after
    cdef int64_t value
    cdef int bits
    cdef uint8_t byte
    while True:
        if place.skip > 0:
            if place.skip > end - at:
                place.skip -= end - at
                return end
            at += place.skip
            place.skip = 0
        if place.state == AFTER_RECORD:
            if place.taken != place.length:
                return NULL
            judge(place.index, place.timestamp_delta, place.offset_delta, place.key_length >= 0, rules, found)
            place.index += 1
            place.state = LENGTH
        if place.index == count or at == end:
            return at
        if place.state == LENGTH and place.shift == 0:
            # Most records lie within a piece; one that does not, or is broken, is read part by part.
            after = walk_record(at, end, &place.timestamp_delta, &place.offset_delta, &place.key_length)
            if after != NULL:
                judge(place.index, place.timestamp_delta, place.offset_delta, place.key_length >= 0, rules, found)
                place.index += 1
                at = after
                continue
        byte = at[0]
        at += 1
        place.taken += 1
        if place.state == ATTRIBUTES:
            place.state = TIMESTAMP
            continue
        bits = 64 if place.state == TIMESTAMP else 32
        place.raw |= <uint64_t> (byte & 0x7F) << place.shift
        if byte >= 0x80:
            place.shift += 7
            if place.shift >= bits:
                return NULL
            continue
        if bits - place.shift < 7 and byte >> (bits - place.shift):
            return NULL
        value = <int64_t> (place.raw >> 1) ^ -<int64_t> (place.raw & 1)
        place.raw = 0
        place.shift = 0
        if not take_value(place, value):
            return NULL


cdef class RecordsWalk:
    """Checks the decompressed records of one batch, piece by piece."""

    cdef Rules rules
    cdef Found found
    cdef Place place
    cdef int32_t record_count

    def __cinit__(self, int32_t record_count, int64_t base_timestamp_ms, *, append_time_ms=None,
                  bint keys_required=False, bounds=None):
        if record_count < 0:
            raise InvalidRecord(f"the batch claims {record_count} records")
        self.record_count = record_count
        self.rules = rules_of(base_timestamp_ms, append_time_ms, keys_required, bounds)
        clear(&self.found)

    def feed(self, piece):
        """The next bytes of the records; InvalidRecord when they cannot be right."""
        cdef Py_buffer view
        cdef const uint8_t* at
        cdef const uint8_t* end
        PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
        try:
            at = <const uint8_t*> view.buf
            end = at + view.len
            with nogil:
                at = walk_piece(&self.place, at, end, self.record_count, &self.rules, &self.found)
            if at == NULL:
                raise InvalidRecord(f"record {self.place.index} of the batch is broken")
            if at != end:
                raise InvalidRecord(f"bytes are left after the {self.record_count} records of the batch")
        finally:
            PyBuffer_Release(&view)

    def finish(self):
        """What the walk found, when all bytes were fed; InvalidRecord when some are missing."""
        if self.place.index < self.record_count:
            raise InvalidRecord(f"record {self.place.index} of the batch is broken")
        return result_of(&self.found)


# ---- the plain case in one step ----

cdef inline uint32_t get32(const uint8_t* at) noexcept nogil:
    return <uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | at[3]


cdef inline uint64_t get64(const uint8_t* at) noexcept nogil:
    return <uint64_t> get32(at) << 32 | get32(at + 4)


cdef inline void put32(uint8_t* at, uint32_t value) noexcept nogil:
    at[0] = <uint8_t> (value >> 24)
    at[1] = <uint8_t> (value >> 16)
    at[2] = <uint8_t> (value >> 8)
    at[3] = <uint8_t> value


cdef bint has_plain_header(const uint8_t* batch, Py_ssize_t length, int64_t size_limit) noexcept nogil:
    """One whole batch of a client, uncompressed, with nothing unusual said in its header."""
    cdef int16_t attributes
    cdef int64_t producer_id
    cdef int32_t count
    if length < HEADER_BYTES or length > size_limit or batch[16] != MAGIC or get64(batch) != 0:
        return False
    if <int64_t> <int32_t> get32(batch + 8) + LOG_OVERHEAD_BYTES != length:
        return False
    attributes = <int16_t> (<uint16_t> batch[21] << 8 | batch[22])
    producer_id = <int64_t> get64(batch + 43)
    count = <int32_t> get32(batch + 57)
    if attributes & ~TRANSACTIONAL_BIT or count <= 0 or <int32_t> get32(batch + 23) != count - 1:
        return False
    if <int64_t> count * RECORD_BYTES_MIN > length - HEADER_BYTES:
        return False
    if producer_id == -1:
        return attributes == 0
    # A negative epoch or sequence has its top bit set.
    return producer_id >= 0 and not batch[51] & 0x80 and not batch[53] & 0x80


cdef bint is_plain(const uint8_t* batch, Py_ssize_t length, Rules* rules, Found* found) noexcept nogil:
    """Its sum is right and every record is taken as it is."""
    if ottla_crc32c(0, batch + 21, <size_t> (length - 21)) != get32(batch + 17):
        return False
    rules.base_timestamp_ms = <int64_t> get64(batch + 27)
    walk(batch + HEADER_BYTES, batch + length, <int32_t> get32(batch + 57), rules, found)
    return (
        found.end == batch + length and found.broken < 0 and found.refused_count == 0
        and found.has_consecutive_offsets and found.max_timestamp_ms == <int64_t> get64(batch + 35)
    )


cdef object placed_batch(const uint8_t* batch, Py_ssize_t length, int64_t base_offset):
    cdef int32_t count = <int32_t> get32(batch + 57)
    cdef int32_t sequence = <int32_t> get32(batch + 53)
    cdef int32_t last_sequence = -1
    if sequence >= 0:
        # Sequences go on with 0 after 2^31 - 1.
        last_sequence = <int32_t> ((<uint32_t> sequence + <uint32_t> (count - 1)) & 0x7FFFFFFF)
    return tuple.__new__(PlacedBatch, (
        base_offset,
        base_offset + count - 1,
        length,
        <int64_t> get64(batch + 35),
        <int64_t> get64(batch + 43),
        <int16_t> (<uint16_t> batch[51] << 8 | batch[52]),
        sequence,
        last_sequence,
        (batch[22] & TRANSACTIONAL_BIT) != 0,
    ))


cdef inline Rules plain_rules(int64_t now_ms, bint keys_required, int64_t before_max_ms, int64_t after_max_ms) noexcept:
    cdef Rules rules
    rules.base_timestamp_ms = 0
    rules.keys_required = keys_required
    rules.has_append_time = False
    rules.append_time_ms = 0
    rules.has_bounds = True
    rules.now_ms = now_ms
    rules.before_max_ms = before_max_ms
    rules.after_max_ms = after_max_ms
    return rules


cdef inline void place(uint8_t* batch, int64_t base_offset, int32_t leader_epoch) noexcept nogil:
    put32(batch, <uint32_t> (<uint64_t> base_offset >> 32))
    put32(batch + 4, <uint32_t> <uint64_t> base_offset)
    put32(batch + 12, <uint32_t> leader_epoch)


def place_plain_batch(buffer, int64_t base_offset, int32_t leader_epoch, int64_t now_ms, int64_t size_limit_bytes,
                      bint keys_required, int64_t before_max_ms, int64_t after_max_ms):
    """Check a batch and give it its place, if it is as plain as most are; else change nothing and say None."""
    cdef object placed = None
    cdef Py_buffer view
    cdef Rules rules = plain_rules(now_ms, keys_required, before_max_ms, after_max_ms)
    cdef Found found
    cdef uint8_t* batch
    cdef bint plain
    try:
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    except BufferError:
        return None
    batch = <uint8_t*> view.buf
    plain = has_plain_header(batch, view.len, size_limit_bytes)
    clear(&found)
    if plain and view.len < LOCK_FREE_BYTES:
        plain = is_plain(batch, view.len, &rules, &found)
    elif plain:
        with nogil:
            plain = is_plain(batch, view.len, &rules, &found)
    if plain:
        place(batch, base_offset, leader_epoch)
        placed = placed_batch(batch, view.len, base_offset)
    PyBuffer_Release(&view)
    return placed


cdef bint are_plain(const Py_buffer* views, Py_ssize_t count, int64_t size_limit, Rules* rules) noexcept nogil:
    cdef Found found
    cdef Py_ssize_t index
    for index in range(count):
        if not has_plain_header(<const uint8_t*> views[index].buf, views[index].len, size_limit):
            return False
        clear(&found)
        if not is_plain(<const uint8_t*> views[index].buf, views[index].len, rules, &found):
            return False
    return True


cdef object placed_run(const Py_buffer* views, Py_ssize_t count, int64_t base_offset, int32_t leader_epoch):
    cdef list batches = []
    cdef int64_t size_bytes = 0
    cdef int64_t latest_ms = NO_TIMESTAMP
    cdef bint have_producer = False
    cdef uint8_t* batch
    cdef Py_ssize_t index
    for index in range(count):
        batch = <uint8_t*> views[index].buf
        place(batch, base_offset, leader_epoch)
        batches.append(placed_batch(batch, views[index].len, base_offset))
        base_offset += <int32_t> get32(batch + 57)
        size_bytes += views[index].len
        latest_ms = max(latest_ms, <int64_t> get64(batch + 35))
        have_producer = have_producer or <int64_t> get64(batch + 43) != -1
    return tuple.__new__(PlacedRun, (batches, size_bytes, latest_ms, bool(have_producer)))


def place_plain_run(buffers, int64_t base_offset, int32_t leader_epoch, int64_t now_ms, int64_t size_limit_bytes,
                    bint keys_required, int64_t before_max_ms, int64_t after_max_ms):
    """Check batches that came together and give them their places, if all are plain; else change nothing: None."""
    cdef Py_buffer views[RUN_LIMIT]
    cdef Rules rules = plain_rules(now_ms, keys_required, before_max_ms, after_max_ms)
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t size_bytes = 0
    cdef bint plain
    cdef object buffer
    if len(buffers) > RUN_LIMIT:
        return None
    try:
        for buffer in buffers:
            PyObject_GetBuffer(buffer, &views[count], PyBUF_WRITABLE)
            size_bytes += views[count].len
            count += 1
        if size_bytes < LOCK_FREE_BYTES:
            plain = are_plain(views, count, size_limit_bytes, &rules)
        else:
            with nogil:
                plain = are_plain(views, count, size_limit_bytes, &rules)
        return placed_run(views, count, base_offset, leader_epoch) if plain else None
    except BufferError:
        return None
    finally:
        while count > 0:
            count -= 1
            PyBuffer_Release(&views[count])
