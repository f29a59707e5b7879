# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of compaction.py: the walks over records that compaction makes.

Read the Python twin for the reasons. Here only what C changes:

1. The interpreter lock is released for every walk, however short: compaction is nobody's hurry, and others are.
2. The table's memory comes from calloc, so that slots nobody uses cost nothing, and is let go without the lock.
3. No pointer moves before the bytes it moves over are known to be there. A batch that cannot be read is not an error
   here: the walk stops before it, and the caller proves what is wrong with it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from ottla.records._numbers cimport get32, get64, put32, put64, put_varint, take, wrapped_difference, wrapped_sum, zigzag

from ottla.errors import CorruptMessage
from ottla.records.compaction import Filtered, Indexed, KeptRecords

cdef extern from "_crc32c.h" nogil:
    void ottla_crc32c_prepare()
    uint32_t ottla_crc32c(uint32_t value, const uint8_t* data, size_t length)

cdef extern from "_md5.h" nogil:
    void ottla_md5(const uint8_t* data, size_t length, uint8_t* digest)

cdef extern from * nogil:
    """
    #if defined(__GNUC__)
    #define ottla_prefetch(address) __builtin_prefetch(address)
    #else
    #define ottla_prefetch(address) ((void) (address))
    #endif
    """
    void ottla_prefetch(const void* address)

cdef enum:
    HEADER_BYTES = 61
    LOG_OVERHEAD_BYTES = 12
    LENGTH_AT = 8
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    RECORD_COUNT_AT = 57
    RECORD_BYTES_MIN = 7
    # A timestamp delta of ten bytes, a length of five.
    RECORD_GROWTH_MAX = 15
    COMPRESSION_MASK = 0x07
    LOG_APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    DELETE_HORIZON_BIT = 0x40
    SPECIAL_BITS = 0x37
    KNOWN_BITS = 0x7F
    NO_TIMESTAMP = -1
    NOT_FOUND = -1
    HASH_BYTES = 16
    WINDOW = 32
    WHOLE = -1
    BROKEN = -2
    NO_MEMORY = -3

ottla_crc32c_prepare()


# ---- one record ----

cdef struct Walked:
    int64_t timestamp_delta
    int64_t offset_delta
    int64_t key_length
    int64_t value_length
    const uint8_t* key
    # From the offset delta on: what a copy carries as it is.
    const uint8_t* rest
    const uint8_t* after


cdef inline bint walk_record(const uint8_t* at, const uint8_t* end, Walked* record) noexcept nogil:
    """Read the record at `at`; False when it is broken."""
    cdef int64_t length = 0
    at = take(at, end, 32, &length)
    if at == NULL or length < 1 or length > end - at:
        return False
    record.after = end = at + length
    record.rest = at = take(at + 1, end, 64, &record.timestamp_delta)
    if at == NULL:
        return False
    at = take(at, end, 32, &record.offset_delta)
    if at == NULL:
        return False
    record.key = at = take(at, end, 32, &record.key_length)
    if at == NULL or record.key_length < -1 or record.key_length > end - at:
        return False
    if record.key_length > 0:
        at += record.key_length
    at = take(at, end, 32, &record.value_length)
    return at != NULL and -1 <= record.value_length <= end - at


# ---- the table ----

cdef struct Slot:
    uint8_t digest[HASH_BYTES]
    # Offset + 1; 0 is an empty slot.
    uint64_t mark


cdef struct Table:
    Slot* slots
    uint64_t size
    int64_t count


cdef struct Hashed:
    Walked record
    uint8_t digest[HASH_BYTES]
    # Where the search for the key begins.
    uint64_t slot


cdef inline uint64_t hash_key(const Table* table, const uint8_t* key, int64_t length, uint8_t* digest) noexcept nogil:
    """The digest of a key, and the slot where its search begins, which is asked for from memory already."""
    cdef uint64_t slot
    ottla_md5(key, <size_t> length, digest)
    slot = get64(digest) % table.size
    ottla_prefetch(table.slots + slot)
    return slot


cdef const uint8_t* hash_window(const Table* table, const uint8_t* at, const uint8_t* end, int count,
                                Hashed* window) noexcept nogil:
    """Read and hash so many records; gives where they end, NULL when one is broken. The slots of a whole window are on
    their way from memory while the last of its keys are hashed, which is most of the speed of a large table."""
    cdef int index
    cdef Walked* record
    for index in range(count):
        record = &window[index].record
        if not walk_record(at, end, record):
            return NULL
        at = record.after
        if record.key_length >= 0:
            window[index].slot = hash_key(table, record.key, record.key_length, window[index].digest)
    return at


cdef inline Slot* find(const Table* table, const uint8_t* digest, uint64_t slot) noexcept nogil:
    """Where the key is or would be; NULL if the table is full of others."""
    cdef uint64_t tried
    for tried in range(table.size):
        if table.slots[slot].mark == 0 or memcmp(table.slots[slot].digest, digest, HASH_BYTES) == 0:
            return table.slots + slot
        slot += 1
        if slot == table.size:
            slot = 0
    return NULL


cdef inline bint put(Table* table, const uint8_t* digest, uint64_t start, int64_t offset) noexcept nogil:
    cdef Slot* slot = find(table, digest, start)
    if slot == NULL:
        return False
    if slot.mark == 0:
        table.count += 1
        memcpy(slot.digest, digest, HASH_BYTES)
    slot.mark = <uint64_t> offset + 1
    return True


cdef inline int64_t get(const Table* table, const uint8_t* digest, uint64_t start) noexcept nogil:
    cdef Slot* slot = find(table, digest, start)
    return NOT_FOUND if slot == NULL else <int64_t> (slot.mark - 1)


cdef class KeyTable:
    """Keys and offsets in memory that is taken once."""

    cdef Table table

    def __cinit__(self, int64_t slots):
        if slots < 1:
            raise ValueError(f"a table of keys needs at least one slot, not {slots}")
        self.table.slots = <Slot*> calloc(<size_t> slots, sizeof(Slot))
        if self.table.slots == NULL:
            raise MemoryError(f"there is no memory for a table of {slots} keys")
        self.table.size = <uint64_t> slots
        self.table.count = 0

    def __dealloc__(self):
        cdef Slot* slots = self.table.slots
        with nogil:
            free(slots)

    @property
    def slots(self):
        return self.table.size

    def __len__(self):
        return self.table.count

    def put(self, key, int64_t offset):
        """Remember an offset for a key, in the place of the one it had."""
        cdef Py_buffer view
        cdef uint8_t digest[HASH_BYTES]
        cdef bint done
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        done = put(&self.table, digest, hash_key(&self.table, <const uint8_t*> view.buf, view.len, digest), offset)
        PyBuffer_Release(&view)
        if not done:
            raise ValueError(f"the table of {self.slots} keys is full")

    def get(self, key):
        """The offset of a key; -1 if it has none."""
        cdef Py_buffer view
        cdef uint8_t digest[HASH_BYTES]
        cdef int64_t offset
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        offset = get(&self.table, digest, hash_key(&self.table, <const uint8_t*> view.buf, view.len, digest))
        PyBuffer_Release(&view)
        return offset


# ---- a batch ----

cdef struct Batch:
    const uint8_t* start
    const uint8_t* end
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp_ms
    int64_t max_timestamp_ms
    int32_t record_count
    int16_t attributes


cdef inline void read_header(const uint8_t* at, Batch* batch) noexcept nogil:
    batch.start = at
    batch.end = at + LOG_OVERHEAD_BYTES + <int32_t> get32(at + LENGTH_AT)
    batch.base_offset = <int64_t> get64(at)
    batch.last_offset = wrapped_sum(batch.base_offset, <int32_t> get32(at + 23))
    batch.base_timestamp_ms = <int64_t> get64(at + BASE_TIMESTAMP_AT)
    batch.max_timestamp_ms = <int64_t> get64(at + MAX_TIMESTAMP_AT)
    batch.record_count = <int32_t> get32(at + RECORD_COUNT_AT)
    batch.attributes = <int16_t> (<uint16_t> at[21] << 8 | at[22])


cdef bint is_plain(const uint8_t* at, const uint8_t* end, Batch* batch) noexcept nogil:
    """Read the header at `at`; False unless the batch is whole, sound and plain."""
    cdef int64_t size, delta
    if end - at < HEADER_BYTES or at[16] != 2:
        return False
    size = <int64_t> <int32_t> get32(at + LENGTH_AT) + LOG_OVERHEAD_BYTES
    if size < HEADER_BYTES or size > end - at:
        return False
    read_header(at, batch)
    delta = <int32_t> get32(at + 23)
    if batch.attributes & SPECIAL_BITS or batch.record_count < 0 or delta < 0 or batch.record_count > delta + 1:
        return False
    if <int64_t> batch.record_count * RECORD_BYTES_MIN > size - HEADER_BYTES:
        return False
    return ottla_crc32c(0, at + ATTRIBUTES_AT, <size_t> (size - ATTRIBUTES_AT)) == get32(at + CRC_AT)


# ---- learning the last offset of every key ----

cdef int64_t index_walk(Table* table, int64_t limit, const uint8_t* at, const uint8_t* end, int32_t count,
                        int64_t base_offset, int64_t start_offset, int64_t* latest) noexcept nogil:
    """WHOLE, BROKEN, or the index of the record that the table had no room for."""
    cdef Hashed window[WINDOW]
    cdef const Walked* record
    cdef int64_t offset
    cdef int32_t index = 0
    cdef int ahead, number
    while index < count:
        ahead = min(count - index, <int32_t> WINDOW)
        at = hash_window(table, at, end, ahead, window)
        if at == NULL:
            return BROKEN
        for number in range(ahead):
            record = &window[number].record
            offset = wrapped_sum(base_offset, record.offset_delta)
            if record.key_length >= 0 and offset >= start_offset:
                if table.count >= limit or not put(table, window[number].digest, window[number].slot, offset):
                    return index + number
                latest[0] = offset
        index += ahead
    return WHOLE if at == end else BROKEN


def index_records(KeyTable table, int64_t limit, records, int32_t record_count, int64_t base_offset,
                  int64_t start_offset):
    """Take the decompressed records of one batch from `start_offset` on, until the table has `limit` keys."""
    cdef Py_buffer view
    cdef const uint8_t* start
    cdef int64_t latest = NOT_FOUND
    cdef int64_t stopped
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    start = <const uint8_t*> view.buf
    with nogil:
        stopped = index_walk(
            &table.table, limit, start, start + view.len, record_count, base_offset, start_offset, &latest
        )
    PyBuffer_Release(&view)
    if stopped == BROKEN:
        raise CorruptMessage("the records of the batch are broken")
    if stopped == WHOLE:
        return Indexed(0, latest, record_count, False)
    return Indexed(0, latest, stopped, True)


def index_batches(KeyTable table, int64_t limit, chunk, Py_ssize_t position, int64_t start_offset):
    """Take the plain batches of a chunk from `position` on."""
    cdef Py_buffer view
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef const uint8_t* at
    cdef Batch batch
    cdef int64_t latest = NOT_FOUND
    cdef int64_t stopped = WHOLE
    cdef int64_t records = 0
    PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
    start = <const uint8_t*> view.buf
    end = start + view.len
    at = start + min(max(position, 0), view.len)
    with nogil:
        while is_plain(at, end, &batch):
            stopped = index_walk(
                &table.table, limit, at + HEADER_BYTES, batch.end, batch.record_count, batch.base_offset,
                start_offset, &latest,
            )
            if stopped != WHOLE:
                if stopped >= 0:
                    records += stopped
                break
            records += batch.record_count
            if batch.last_offset >= start_offset:
                latest = batch.last_offset
            at = batch.end
    PyBuffer_Release(&view)
    return Indexed(at - start, latest, records, stopped >= 0)


# ---- keeping what is still true ----

cdef struct Rules:
    int64_t latest_offset
    int64_t now_ms
    int64_t new_horizon_ms
    const int64_t* kept_offsets
    Py_ssize_t kept_count


cdef struct Output:
    uint8_t* data
    size_t used
    size_t room


cdef struct Kept:
    int64_t base_timestamp_ms
    int64_t max_timestamp_ms
    int64_t count
    bint needs_horizon
    bint has_horizon


cdef bint reserve(Output* output, size_t more) noexcept nogil:
    """Make room for so many bytes; False when there is no memory."""
    cdef size_t room = output.room
    cdef uint8_t* grown
    if output.room - output.used >= more:
        return True
    while room - output.used < more:
        room = room * 2 if room else 65536
    grown = <uint8_t*> realloc(output.data, room)
    if grown == NULL:
        return False
    output.data = grown
    output.room = room
    return True


cdef bint is_listed(const Rules* rules, int64_t offset) noexcept nogil:
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = rules.kept_count
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if rules.kept_offsets[middle] < offset:
            low = middle + 1
        else:
            high = middle
    return low < rules.kept_count and rules.kept_offsets[low] == offset


cdef inline bint stays(const Table* table, const Rules* rules, int64_t offset, const Hashed* hashed,
                       bint is_over) noexcept nogil:
    if offset > rules.latest_offset:
        return True
    if hashed.record.key_length < 0:
        return False
    if hashed.record.value_length < 0 and is_over:
        return False
    return offset >= get(table, hashed.digest, hashed.slot)


cdef inline int64_t time_of(const Batch* batch, const Walked* record) noexcept nogil:
    if batch.attributes & LOG_APPEND_TIME_BIT:
        return batch.max_timestamp_ms
    return wrapped_sum(batch.base_timestamp_ms, record.timestamp_delta)


cdef inline void note_kept(Kept* kept, const Batch* batch, const Walked* record) noexcept nogil:
    cdef int64_t time_ms = time_of(batch, record)
    if kept.count == 0:
        kept.base_timestamp_ms = time_ms
    if time_ms > kept.max_timestamp_ms:
        kept.max_timestamp_ms = time_ms
    kept.count += 1
    if record.value_length < 0 and not batch.attributes & DELETE_HORIZON_BIT:
        kept.needs_horizon = True


cdef bint judge(const Table* table, const Rules* rules, const Batch* batch, const uint8_t* at, const uint8_t* end,
                uint8_t* marks, Kept* kept) noexcept nogil:
    """Mark the records that stay; False when the records are broken."""
    cdef Hashed window[WINDOW]
    cdef int32_t index = 0
    cdef int ahead, number
    cdef bint had_horizon = (batch.attributes & DELETE_HORIZON_BIT) != 0
    cdef bint is_over = had_horizon and batch.base_timestamp_ms <= rules.now_ms
    kept.count = 0
    kept.needs_horizon = False
    kept.base_timestamp_ms = kept.max_timestamp_ms = NO_TIMESTAMP
    while index < batch.record_count:
        ahead = min(batch.record_count - index, <int32_t> WINDOW)
        at = hash_window(table, at, end, ahead, window)
        if at == NULL:
            return False
        for number in range(ahead):
            marks[index + number] = stays(
                table, rules, wrapped_sum(batch.base_offset, window[number].record.offset_delta), &window[number], is_over
            )
            if marks[index + number]:
                note_kept(kept, batch, &window[number].record)
        index += ahead
    if batch.attributes & LOG_APPEND_TIME_BIT:
        kept.max_timestamp_ms = batch.max_timestamp_ms
    if kept.needs_horizon:
        kept.base_timestamp_ms = rules.new_horizon_ms
    elif had_horizon:
        kept.base_timestamp_ms = batch.base_timestamp_ms
    kept.has_horizon = kept.needs_horizon or had_horizon
    return at == end


cdef uint8_t* copy_kept(const Batch* batch, const Kept* kept, const uint8_t* at, const uint8_t* end,
                        const uint8_t* marks, uint8_t* to) noexcept nogil:
    """Write the marked records, their times told from the new base timestamp; there is room for them."""
    cdef Walked record
    cdef uint8_t delta[10]
    cdef Py_ssize_t delta_bytes, rest_bytes
    cdef int32_t index
    for index in range(batch.record_count):
        if not walk_record(at, end, &record):
            break  # it was read before
        at = record.after
        if not marks[index]:
            continue
        delta_bytes = put_varint(delta, zigzag(wrapped_difference(time_of(batch, &record), kept.base_timestamp_ms))) - delta
        rest_bytes = record.after - record.rest
        to = put_varint(to, zigzag(1 + delta_bytes + rest_bytes))
        to[0] = 0
        memcpy(to + 1, delta, delta_bytes)
        memcpy(to + 1 + delta_bytes, record.rest, rest_bytes)
        to += 1 + delta_bytes + rest_bytes
    return to


cdef void seal(uint8_t* header, const Batch* batch, int16_t attributes, int64_t base_timestamp_ms,
               int64_t max_timestamp_ms, int64_t count, size_t size) noexcept nogil:
    """The header of a batch whose records stand behind it already."""
    memcpy(header, batch.start, HEADER_BYTES)
    put32(header + LENGTH_AT, <uint32_t> (size - LOG_OVERHEAD_BYTES))
    header[ATTRIBUTES_AT] = 0
    header[ATTRIBUTES_AT + 1] = <uint8_t> attributes
    put64(header + BASE_TIMESTAMP_AT, <uint64_t> base_timestamp_ms)
    put64(header + MAX_TIMESTAMP_AT, <uint64_t> max_timestamp_ms)
    put32(header + RECORD_COUNT_AT, <uint32_t> count)
    put32(header + CRC_AT, ottla_crc32c(0, header + ATTRIBUTES_AT, size - ATTRIBUTES_AT))


cdef int64_t filter_batch(const Table* table, const Rules* rules, const Batch* batch, Output* marks,
                          Output* output) noexcept nogil:
    """Add what stays of a plain batch to the output; gives the number of records, BROKEN or NO_MEMORY."""
    cdef size_t size = <size_t> (batch.end - batch.start)
    cdef const uint8_t* records = batch.start + HEADER_BYTES
    cdef Kept kept
    cdef uint8_t* header
    cdef uint8_t* end
    cdef int16_t attributes
    if not reserve(marks, <size_t> batch.record_count + 1):
        return NO_MEMORY
    if not judge(table, rules, batch, records, batch.end, marks.data, &kept):
        return BROKEN
    if not reserve(output, size + <size_t> kept.count * RECORD_GROWTH_MAX):
        return NO_MEMORY
    header = output.data + output.used
    if kept.count and kept.count == batch.record_count and not kept.needs_horizon:
        memcpy(header, batch.start, size)
        output.used += size
    elif kept.count:
        end = copy_kept(batch, &kept, records, batch.end, marks.data, header + HEADER_BYTES)
        attributes = batch.attributes & KNOWN_BITS & ~DELETE_HORIZON_BIT
        if kept.has_horizon:
            attributes |= DELETE_HORIZON_BIT
        seal(header, batch, attributes, kept.base_timestamp_ms, kept.max_timestamp_ms, kept.count, end - header)
        output.used += end - header
    elif is_listed(rules, batch.last_offset):
        attributes = batch.attributes & LOG_APPEND_TIME_BIT
        seal(header, batch, attributes, NO_TIMESTAMP, batch.max_timestamp_ms, 0, HEADER_BYTES)
        output.used += HEADER_BYTES
    return kept.count


cdef int fill_rules(Rules* rules, given, Py_buffer* kept_offsets) except -1:
    rules.latest_offset, rules.now_ms, rules.new_horizon_ms = given[:3]
    PyObject_GetBuffer(given[3], kept_offsets, PyBUF_SIMPLE)
    rules.kept_offsets = <const int64_t*> kept_offsets.buf
    rules.kept_count = kept_offsets.len // 8
    return 0


def filter_records(KeyTable table, rules, header, Py_ssize_t position, records):
    """What stays of the decompressed records of the batch whose header is at `position`."""
    cdef Py_buffer header_view, records_view, offsets_view
    cdef Rules known
    cdef Batch batch
    cdef Kept kept
    cdef Output marks
    cdef Output output
    cdef const uint8_t* start
    cdef bint is_sound, has_memory, is_original
    marks.data = output.data = NULL
    marks.used = marks.room = output.used = output.room = 0
    PyObject_GetBuffer(header, &header_view, PyBUF_SIMPLE)
    if position < 0 or header_view.len - position < HEADER_BYTES:
        PyBuffer_Release(&header_view)
        raise CorruptMessage(f"no header of a batch is at position {position}")
    read_header(<const uint8_t*> header_view.buf + position, &batch)
    PyBuffer_Release(&header_view)
    PyObject_GetBuffer(records, &records_view, PyBUF_SIMPLE)
    try:
        if batch.record_count < 0 or <int64_t> batch.record_count * RECORD_BYTES_MIN > records_view.len:
            raise CorruptMessage(f"the batch claims {batch.record_count} records in {records_view.len} bytes")
        fill_rules(&known, rules, &offsets_view)
        PyBuffer_Release(&offsets_view)
        start = <const uint8_t*> records_view.buf
        with nogil:
            has_memory = reserve(&marks, <size_t> batch.record_count + 1)
            is_sound = has_memory and judge(
                &table.table, &known, &batch, start, start + records_view.len, marks.data, &kept
            )
            is_original = is_sound and kept.count == batch.record_count and not kept.needs_horizon
            if is_sound and not is_original:
                has_memory = reserve(&output, <size_t> records_view.len + <size_t> kept.count * RECORD_GROWTH_MAX + 1)
                if has_memory:
                    output.used = copy_kept(
                        &batch, &kept, start, start + records_view.len, marks.data, output.data
                    ) - output.data
        if not has_memory:
            raise MemoryError(f"there is no memory for a batch of {records_view.len} bytes")
        if not is_sound:
            raise CorruptMessage("the records of the batch are broken")
        if is_original:
            return KeptRecords(True, kept.count, b"", 0, 0, False)
        return KeptRecords(
            False, kept.count, PyBytes_FromStringAndSize(<char*> output.data, <Py_ssize_t> output.used),
            kept.base_timestamp_ms, kept.max_timestamp_ms, kept.has_horizon != 0,
        )
    finally:
        PyBuffer_Release(&records_view)
        free(marks.data)
        free(output.data)


def filter_batches(KeyTable table, rules, chunk, Py_ssize_t position):
    """Copy what stays of the plain batches of a chunk from `position` on."""
    cdef Py_buffer view, offsets_view
    cdef Rules known
    cdef Batch batch
    cdef Output marks
    cdef Output output
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef const uint8_t* at
    cdef int64_t kept = 0
    cdef int64_t records_read = 0
    cdef int64_t records_kept = 0
    marks.data = output.data = NULL
    marks.used = marks.room = output.used = output.room = 0
    fill_rules(&known, rules, &offsets_view)
    try:
        PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
    except BaseException:
        PyBuffer_Release(&offsets_view)
        raise
    start = <const uint8_t*> view.buf
    end = start + view.len
    at = start + min(max(position, 0), view.len)
    try:
        with nogil:
            while is_plain(at, end, &batch):
                kept = filter_batch(&table.table, &known, &batch, &marks, &output)
                if kept < 0:
                    break
                records_read += batch.record_count
                records_kept += kept
                at = batch.end
        if kept == NO_MEMORY:
            raise MemoryError(f"there is no memory for a batch of {batch.end - batch.start} bytes")
        written = PyBytes_FromStringAndSize(<char*> output.data, <Py_ssize_t> output.used) if output.used else b""
        return Filtered(at - start, written, records_read, records_kept)
    finally:
        PyBuffer_Release(&view)
        PyBuffer_Release(&offsets_view)
        free(marks.data)
        free(output.data)
