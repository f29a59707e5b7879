# How the native leaves of requests and answers read and write bytes; produce/_frames.pyx and fetch/_frames.pyx include it.
#
# A Reader never moves before the bytes it moves over are known to be there. Who writes has made room before.

cdef struct Reader:
    const uint8_t* at
    const uint8_t* end
    int64_t entries_left
    bint is_flexible
    # Whether a number may only be written in the shortest way.
    bint is_strict
    # Set once something was met that is not plain; nothing that was read after it means anything.
    bint gave_up


# ---- reading ----

cdef inline bint lacks(Reader* reader, int64_t count) noexcept:
    if reader.gave_up or count < 0 or count > reader.end - reader.at:
        reader.gave_up = True
    return reader.gave_up


cdef inline int32_t read_int16(Reader* reader) noexcept:
    cdef const uint8_t* at = reader.at
    if lacks(reader, 2):
        return 0
    reader.at += 2
    return <int16_t> (<uint32_t> at[0] << 8 | at[1])


cdef inline int32_t read_int32(Reader* reader) noexcept:
    cdef const uint8_t* at = reader.at
    if lacks(reader, 4):
        return 0
    reader.at += 4
    return <int32_t> (<uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | at[3])


cdef inline int64_t read_int64(Reader* reader) noexcept:
    cdef uint64_t high = <uint32_t> read_int32(reader)
    return <int64_t> (high << 32 | <uint32_t> read_int32(reader))


cdef inline int64_t read_varint(Reader* reader) noexcept:
    """An unsigned varint of at most four bytes: five would be a length beyond any frame we take."""
    cdef int64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 28:
        if lacks(reader, 1):
            return 0
        byte = reader.at[0]
        reader.at += 1
        value |= <int64_t> (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift > 0 and reader.is_strict:
                reader.gave_up = True
            return value
        shift += 7
    reader.gave_up = True
    return 0


cdef inline int64_t read_length(Reader* reader, bint is_string) noexcept:
    """Of a string, of bytes or of an array; -1 is null."""
    if reader.is_flexible:
        return read_varint(reader) - 1
    return read_int16(reader) if is_string else read_int32(reader)


cdef inline int64_t read_count(Reader* reader) noexcept:
    """Of an array, which is not null and has no more entries than are left."""
    cdef int64_t count = read_length(reader, False)
    reader.entries_left -= count
    if count < 0 or reader.entries_left < 0:
        reader.gave_up = True
    return count


cdef inline void read_tags(Reader* reader) noexcept:
    """None may be there."""
    if reader.is_flexible and read_varint(reader) != 0:
        reader.gave_up = True


# ---- writing ----

cdef inline uint8_t* put_int32(uint8_t* at, uint32_t value) noexcept:
    at[0] = <uint8_t> (value >> 24)
    at[1] = <uint8_t> (value >> 16)
    at[2] = <uint8_t> (value >> 8)
    at[3] = <uint8_t> value
    return at + 4


cdef inline uint8_t* put_int64(uint8_t* at, int64_t value) noexcept:
    return put_int32(put_int32(at, <uint32_t> (<uint64_t> value >> 32)), <uint32_t> <uint64_t> value)


cdef inline uint8_t* put_varint(uint8_t* at, uint64_t value) noexcept:
    while value >= 0x80:
        at[0] = <uint8_t> (value | 0x80)
        at += 1
        value >>= 7
    at[0] = <uint8_t> value
    return at + 1
