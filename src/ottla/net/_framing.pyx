# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of FrameReader in framing.py: the same steps on the same memory, without a frame of Python for each.

Read the Python twin for what they mean, and for its promises. Here only what C changes: sizes are read and bytes are
copied by pointers into memory that `chunk` and `big` own, and whether memory is lent is read where CPython counts it.
The spares are the twin's own, so readers of both kinds share them.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from libc.stdint cimport int16_t, int32_t
from libc.string cimport memcpy, memmove

from ottla.errors import FrameTooLarge
from ottla.net import framing

cdef extern from "Python.h":
    ctypedef struct PyByteArrayObject:
        Py_ssize_t ob_exports

cdef Py_ssize_t FIRST_CHUNK_BYTES = framing.FIRST_CHUNK_BYTES
cdef Py_ssize_t CHUNK_BYTES = framing.CHUNK_BYTES
cdef Py_ssize_t CHUNK_FRAMES = framing.CHUNK_FRAMES
cdef Py_ssize_t GROWTH_BYTES = framing.GROWTH_BYTES
cdef Py_ssize_t GROWTH_LIMIT_BYTES = framing.GROWTH_LIMIT_BYTES
cdef Py_ssize_t PEEK_BYTES = framing.PEEK_BYTES
cdef object take_spare = framing.take_spare
cdef object keep_spare = framing.keep_spare
cdef object grow = framing.grow
cdef object bad_size = framing.bad_size

cdef enum:
    SIZE_BYTES = 4
    KIND_BYTES = 2


cdef inline int32_t read_int32(const unsigned char* at) noexcept:
    return <int32_t> ((<unsigned int> at[0] << 24) | (at[1] << 16) | (at[2] << 8) | at[3])


cdef inline bint is_lent(bytearray memory) noexcept:
    return (<PyByteArrayObject*> memory).ob_exports > 0


cdef inline unsigned char* bytes_of(bytearray memory) noexcept:
    return <unsigned char*> PyByteArray_AS_STRING(memory)


cdef class FrameReader:
    """Cuts one stream of bytes into frames. One reader per connection; not shared between threads."""

    cdef public object broken
    cdef public Py_ssize_t size_limit_bytes, chunk_bytes
    cdef object kind_limit_bytes, view
    cdef bytearray chunk, big
    cdef Py_ssize_t start, end, big_filled, big_size
    cdef bint big_was_last

    def __init__(self, *, Py_ssize_t size_limit_bytes=framing.REQUEST_SIZE_LIMIT_BYTES,
                 Py_ssize_t chunk_bytes=framing.CHUNK_BYTES, kind_limit_bytes=None):
        framing.check_limits(size_limit_bytes, chunk_bytes)
        self.size_limit_bytes = size_limit_bytes
        self.chunk_bytes = chunk_bytes
        self.kind_limit_bytes = kind_limit_bytes
        self.chunk = bytearray(min(chunk_bytes, FIRST_CHUNK_BYTES) + 1)
        self.view = memoryview(self.chunk)

    @property
    def pending_bytes(self):
        return self.big_filled + SIZE_BYTES if self.big is not None else self.end - self.start

    @property
    def big_frame_bytes(self):
        return 0 if self.big is None else PyByteArray_GET_SIZE(self.big)

    @property
    def big_frame_missing_bytes(self):
        return 0 if self.big is None else self.big_size - self.big_filled

    def get_buffer(self, sizehint=-1):
        cdef Py_ssize_t room_end
        if self.broken is not None:
            raise self.broken
        if self.big is not None:
            return self.big_room()
        if self.must_move():
            self.take_chunk()
        elif self.start == self.end and self.end > min(PyByteArray_GET_SIZE(self.chunk), CHUNK_BYTES) // 2:
            self.begin_again()
        room_end = PyByteArray_GET_SIZE(self.chunk) - 1
        if self.big_was_last and self.start == self.end:
            room_end = min(room_end, self.end + PEEK_BYTES)
        return self.view[self.end : room_end]

    def received(self, Py_ssize_t nbytes):
        if self.broken is not None:
            raise self.broken
        if self.big is not None:
            return self.big_received(nbytes)
        if not 0 <= nbytes < PyByteArray_GET_SIZE(self.chunk) - self.end:  # C would read what nobody lent
            raise ValueError(f"{nbytes} bytes are more than there was room for")
        self.end += nbytes
        frames = self.cut()
        if not frames and self.broken is not None:
            raise self.broken
        return frames

    cdef list cut(self):
        cdef list frames = []
        cdef const unsigned char* content = bytes_of(self.chunk)
        cdef Py_ssize_t start = self.start, end = self.end, stop, size
        while end - start >= SIZE_BYTES:
            size = read_int32(content + start)
            if not 0 <= size <= self.size_limit_bytes:
                self.broken = bad_size(size, self.size_limit_bytes)
                break
            stop = start + SIZE_BYTES + size
            if stop > end:
                if size > self.chunk_bytes // 2:
                    self.begin_big(size, start + SIZE_BYTES)
                    return frames
                break
            frames.append(self.view[start + SIZE_BYTES : stop])
            start = stop
        self.start = start
        self.big_was_last = False
        return frames

    # --- the chunk, for small frames ---

    cdef bint must_move(self):
        cdef Py_ssize_t usable = PyByteArray_GET_SIZE(self.chunk) - 1
        if self.end - self.start < SIZE_BYTES:
            return usable - self.end < usable // 4
        cdef Py_ssize_t size = read_int32(bytes_of(self.chunk) + self.start)
        return self.start + SIZE_BYTES + size > usable or CHUNK_BYTES <= usable < self.chunk_bytes_for(size)

    cdef Py_ssize_t chunk_bytes_for(self, Py_ssize_t size) noexcept:
        return min(self.chunk_bytes, max(CHUNK_BYTES, size * CHUNK_FRAMES))

    cdef take_chunk(self):
        cdef Py_ssize_t unfinished = self.end - self.start
        cdef bytearray before = self.chunk
        cdef Py_ssize_t size = read_int32(bytes_of(before) + self.start) if unfinished >= SIZE_BYTES else 0
        cdef Py_ssize_t wanted = self.chunk_bytes_for(size) + 1 if unfinished else PyByteArray_GET_SIZE(before)
        self.view = None
        if PyByteArray_GET_SIZE(before) < wanted or is_lent(before):
            self.chunk = bytearray(wanted)
        memmove(bytes_of(self.chunk), bytes_of(before) + self.start, unfinished)
        self.view = memoryview(self.chunk)
        self.start, self.end = 0, unfinished

    cdef begin_again(self):
        self.view = None
        if not is_lent(self.chunk):
            self.start = self.end = 0
        self.view = memoryview(self.chunk)

    # --- memory of its own, for big frames ---

    cdef begin_big(self, Py_ssize_t size, Py_ssize_t position):
        cdef Py_ssize_t here = self.end - position
        cdef bytearray big = take_spare(size)
        if big is None:
            big = bytearray(min(size, here * 2 + GROWTH_BYTES))
        memcpy(bytes_of(big), bytes_of(self.chunk) + position, here)
        self.big, self.big_filled, self.big_size = big, here, size
        self.start = self.end
        if here >= KIND_BYTES:
            self.check_kind()

    cdef big_room(self):
        cdef bytearray big = self.big
        cdef Py_ssize_t ahead
        if self.big_filled == PyByteArray_GET_SIZE(big):
            ahead = min(self.big_filled + GROWTH_BYTES, GROWTH_LIMIT_BYTES)
            grow(big, min(self.big_size, self.big_filled + ahead))
        return memoryview(big)[self.big_filled : self.big_size]

    cdef check_kind(self):
        cdef const unsigned char* at = bytes_of(self.big)
        if self.kind_limit_bytes is None:
            return
        limit_bytes = self.kind_limit_bytes(<int16_t> ((at[0] << 8) | at[1]))
        if limit_bytes is not None and self.big_size > limit_bytes:
            self.broken = FrameTooLarge(f"{self.big_size} bytes, the limit is {limit_bytes} for its kind")
            self.big, self.big_filled = None, 0

    cdef list big_received(self, Py_ssize_t nbytes):
        cdef bytearray big = self.big
        cdef bint is_new_kind = self.big_filled < KIND_BYTES
        self.big_filled += nbytes
        if is_new_kind and self.big_filled >= KIND_BYTES:
            self.check_kind()
            if self.broken is not None:
                raise self.broken
        if self.big_filled < self.big_size:
            return []
        self.big, self.big_filled, self.big_was_last = None, 0, True
        keep_spare(big)
        return [memoryview(big)[: self.big_size]]
