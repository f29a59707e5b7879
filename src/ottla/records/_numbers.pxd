"""Numbers as Kafka writes them, for the native leaves: big-endian integers, varints, sums that wrap, the hash of keys.

Inline functions only: every module that cimports them has its own copy, and nothing is imported at run time. The readable
twin of the varints is varint.py.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


# ---- big-endian numbers: compilers make one load and one swap of these ----

cdef inline uint16_t get16(const uint8_t* at) noexcept nogil:
    return <uint16_t> (at[0] << 8 | at[1])


cdef inline uint32_t get32(const uint8_t* at) noexcept nogil:
    return <uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | at[3]


cdef inline uint64_t get64(const uint8_t* at) noexcept nogil:
    return <uint64_t> get32(at) << 32 | get32(at + 4)


cdef inline void put16(uint8_t* at, uint16_t value) noexcept nogil:
    at[0] = <uint8_t> (value >> 8)
    at[1] = <uint8_t> value


cdef inline void put32(uint8_t* at, uint32_t value) noexcept nogil:
    put16(at, <uint16_t> (value >> 16))
    put16(at + 2, <uint16_t> value)


cdef inline void put64(uint8_t* at, uint64_t value) noexcept nogil:
    put32(at, <uint32_t> (value >> 32))
    put32(at + 4, <uint32_t> value)


# ---- sums: unsigned, because overflow of signed numbers is not defined in C ----

cdef inline int64_t wrapped_sum(int64_t first, int64_t second) noexcept nogil:
    return <int64_t> (<uint64_t> first + <uint64_t> second)


cdef inline int64_t wrapped_difference(int64_t first, int64_t second) noexcept nogil:
    return <int64_t> (<uint64_t> first - <uint64_t> second)


# ---- varints ----

cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)


cdef inline int varint_size(uint64_t raw) noexcept nogil:
    cdef int size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* at, uint64_t raw) noexcept nogil:
    while raw >= 0x80:
        at[0] = <uint8_t> (raw | 0x80)
        raw >>= 7
        at += 1
    at[0] = <uint8_t> raw
    return at + 1


cdef inline const uint8_t* take_long(const uint8_t* at, const uint8_t* end, int bits, int64_t* value) noexcept nogil:
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
    """The same; nearly all varints are one or two bytes long."""
    cdef uint32_t raw
    if at < end and at[0] < 0x80:
        value[0] = <int64_t> (at[0] >> 1) ^ -<int64_t> (at[0] & 1)
        return at + 1
    if end - at >= 2 and at[1] < 0x80:
        raw = <uint32_t> (at[0] & 0x7F) | <uint32_t> at[1] << 7
        value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
        return at + 2
    return take_long(at, end, bits, value)


# ---- the hash of keys: MurmurHash2 with Java's seed; the readable twin is hashing.py ----

cdef inline int32_t murmur2_of(const uint8_t* data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t register = <uint32_t> 0x9747B28C ^ <uint32_t> length
    cdef uint32_t word
    while length >= 4:
        word = data[0] | <uint32_t> data[1] << 8 | <uint32_t> data[2] << 16 | <uint32_t> data[3] << 24
        word *= <uint32_t> 0x5BD1E995
        word = (word ^ word >> 24) * <uint32_t> 0x5BD1E995
        register = register * <uint32_t> 0x5BD1E995 ^ word
        data += 4
        length -= 4
    if length > 0:
        register ^= data[0]
        if length > 1:
            register ^= <uint32_t> data[1] << 8
        if length > 2:
            register ^= <uint32_t> data[2] << 16
        register *= <uint32_t> 0x5BD1E995
    register = (register ^ register >> 13) * <uint32_t> 0x5BD1E995
    return <int32_t> (register ^ register >> 15)
