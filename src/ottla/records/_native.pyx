# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of the record codec: same names, same answers as batch.py, builder.py, header.py, stream.py, columns.py.

Read the Python twins for the reasons; here only what C changes is explained.

1. No pointer moves before the bytes it moves over are known to be there. All lengths come from the buffer once, into
   locals, and are checked before use, so that a buffer whose content changes under us gives odd records, not a crash.
2. boundscheck is off for C pointers, which have none anyway; Python lists are walked by iteration or by safe calls.
3. The interpreter lock is released for work above LOCK_FREE_BYTES and kept below: getting it back from a busy thread
   can take longer than the work.

The parts are in files of their own: _native_header.pxi (headers, scan, edits), _native_reader.pxi (records, streams),
_native_writer.pxi (the builder) and _native_columns.pxi (Arrow columns). CRC-32C is plain C, in _crc32c.h.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE, _PyBytes_Resize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, _Py_REFCNT
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from ottla.records._numbers cimport (
    get16, get32, get64, murmur2_of, put16, put32, put64, put_varint, take_long, varint_size, zigzag
)

from ottla.errors import CorruptMessage
from ottla.records.builder import check_builder_arguments, check_lengths, check_timestamp, owned_bytes
from ottla.records.columns import BytesColumn, Columns, check_column_limit, check_timestamp_scale, column_of
from ottla.records.compression import Compression, compress, decompress
from ottla.records.layout import DECOMPRESSED_LIMIT_BYTES, TimestampType, check_producer
from ottla.records.header import BatchInfo as PythonBatchInfo
from ottla.records.header import view_of
from ottla.records.stream import MessageSet

cdef extern from "_crc32c.h" nogil:
    void ottla_crc32c_prepare()
    uint32_t ottla_crc32c(uint32_t value, const uint8_t* data, size_t length)
    uint32_t ottla_crc32c_portable(uint32_t value, const uint8_t* data, size_t length)

cdef enum:
    HEADER_BYTES = 61
    LOG_OVERHEAD_BYTES = 12
    LENGTH_AT = 8
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    MAGIC_KNOWN_BYTES = 17
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    MAX_TIMESTAMP_AT = 35
    RECORD_COUNT_AT = 57
    RECORD_BYTES_MIN = 7
    HEADER_ENTRY_BYTES_MIN = 2
    COMPRESSION_MASK = 0x07
    LOG_APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    DELETE_HORIZON_BIT = 0x40
    CODEC_MAX = 4
    BATCH_BYTES_MAX = 0x7FFFFFFF
    RECORD_BYTES_LIMIT = 0x7FFFFFFF - 61
    LOCK_FREE_BYTES = 128 * 1024

cdef tuple CODECS = tuple(Compression)
cdef tuple TIMESTAMP_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
cdef Py_ssize_t DEFAULT_LIMIT_BYTES = DECOMPRESSED_LIMIT_BYTES

ottla_crc32c_prepare()


# ---- varints ----

cdef inline const uint8_t* take_varlong(const uint8_t* at, const uint8_t* end, int64_t* value) noexcept nogil:
    if at < end and at[0] < 0x80:
        value[0] = <int64_t> (at[0] >> 1) ^ -<int64_t> (at[0] & 1)
        return at + 1
    return take_long(at, end, 64, value)


cdef inline const uint8_t* take_varint(const uint8_t* at, const uint8_t* end, int32_t* value) noexcept nogil:
    cdef int64_t wide = 0
    if at < end and at[0] < 0x80:
        value[0] = <int32_t> (at[0] >> 1) ^ -<int32_t> (at[0] & 1)
        return at + 1
    at = take_long(at, end, 32, &wide)
    value[0] = <int32_t> wide
    return at


def encode_varint(value):
    """An int32 as bytes."""
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{value} does not fit in a varint: it holds 32 bits")
    cdef uint8_t space[10]
    return PyBytes_FromStringAndSize(<char*> space, put_varint(space, zigzag(value)) - space)


def encode_varlong(value):
    """An int64 as bytes."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit in a varlong: it holds 64 bits")
    cdef uint8_t space[10]
    return PyBytes_FromStringAndSize(<char*> space, put_varint(space, zigzag(value)) - space)


cdef object decode_one(object data, Py_ssize_t position, int bits):
    cdef Py_buffer view
    cdef const uint8_t* start
    cdef const uint8_t* after
    cdef int64_t value = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if position < 0 or position > view.len:
            raise CorruptMessage(f"a varint cannot start at byte {position} of {view.len}")
        start = <const uint8_t*> view.buf
        after = take_long(start + position, start + view.len, bits, &value)
        if after == NULL:
            raise CorruptMessage(f"the varint at byte {position} runs over its end or has more than {bits} bits")
        return value, after - start
    finally:
        PyBuffer_Release(&view)


def decode_varint(data, Py_ssize_t position=0):
    """The int32 at `position`, and the position after it."""
    return decode_one(data, position, 32)


def decode_varlong(data, Py_ssize_t position=0):
    """The int64 at `position`, and the position after it."""
    return decode_one(data, position, 64)


# ---- checksum and hash ----

cdef uint32_t sum_of(const uint8_t* data, size_t length, uint32_t value) noexcept:
    if length < LOCK_FREE_BYTES:
        return ottla_crc32c(value, data, length)
    with nogil:
        value = ottla_crc32c(value, data, length)
    return value


def crc32c(data, value=0):
    """CRC-32C of `data`, continuing from `value`."""
    cdef Py_buffer view
    cdef uint32_t before = value & 0xFFFFFFFF
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return sum_of(<const uint8_t*> view.buf, view.len, before)
    finally:
        PyBuffer_Release(&view)


def crc32c_portable(data, value=0):
    """The same without the CPU's instruction, for tests of the way that other machines take."""
    cdef Py_buffer view
    cdef uint32_t before = value & 0xFFFFFFFF
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return ottla_crc32c_portable(before, <const uint8_t*> view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def murmur2(data):
    """MurmurHash2 of `data` with Java's seed, as a signed 32-bit number."""
    cdef Py_buffer view
    if type(data) is bytes:
        return murmur2_of(<const uint8_t*> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return murmur2_of(<const uint8_t*> view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


include "_native_header.pxi"
include "_native_reader.pxi"
include "_native_writer.pxi"
include "_native_columns.pxi"
