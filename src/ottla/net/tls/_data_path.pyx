# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of data_path.py: the same steps on the same state, without a frame of Python for each.

Read the Python twin for what they mean. Here only what C changes: bytes that have arrived are a pointer and a length,
and whoever calls holds the object they belong to. Python sees slices of them as memoryviews that live no longer than
the one call they are made for.
"""

import asyncio
import ssl

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory

from ottla.net.tls import data_path

cdef enum:
    HEADER_BYTES = 5

cdef Py_ssize_t HOLD_LIMIT_BYTES = data_path.HOLD_LIMIT_BYTES
cdef Py_ssize_t DATA_LIMIT_BYTES = data_path.DATA_LIMIT_BYTES
cdef object WantRead = ssl.SSLWantReadError
cdef tuple FAILURES = (ssl.SSLError, OSError)
cdef object get_running_loop = asyncio.get_running_loop


cdef struct Arrived:
    const unsigned char* start
    Py_ssize_t length
    Py_ssize_t position  # behind what OpenSSL has got


cdef class DataPath:
    """Protocol of the transport below, transport of the link above, as far as data is concerned."""

    gathers = True

    cdef public object _encrypted, _link, _below, _failure
    cdef public bint _is_paused, _is_closing, _is_delivering
    cdef object ssl_object, read, write_plain, incoming, outgoing
    cdef unsigned char[HEADER_BYTES] header
    cdef Py_ssize_t header_bytes, missing_bytes, unready_bytes
    cdef bint is_data, has_decrypted, is_over

    def __init__(self, encrypted):
        self._encrypted = encrypted

    @property
    def _object(self):
        return self.ssl_object

    @_object.setter
    def _object(self, value):
        self.ssl_object = value
        self.read, self.write_plain = value.read, value.write

    @property
    def _incoming(self):
        return self.incoming

    @_incoming.setter
    def _incoming(self, value):
        self.incoming = value

    @property
    def _outgoing(self):
        return self.outgoing

    @_outgoing.setter
    def _outgoing(self, value):
        self.outgoing = value

    # --- reading ---

    def get_buffer(self, sizehint):
        return self._encrypted

    def buffer_updated(self, Py_ssize_t nbytes):
        if self._is_closing:
            return
        if self._link is None:
            self.incoming.write(self._encrypted[:nbytes])
            self._handshake_received()
        else:
            self.decrypt(self._encrypted, nbytes)

    def _decrypt(self, arrived=b""):
        self.decrypt(arrived, len(arrived))

    cdef int decrypt(self, object memory, Py_ssize_t length) except -1:
        cdef Py_buffer view
        cdef Arrived arrived
        if self._link is None:
            return 0
        PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE)
        arrived.start, arrived.length, arrived.position = <const unsigned char*> view.buf, min(length, view.len), 0
        self._is_delivering = True
        try:
            self.deliver(&arrived)
            while arrived.position < arrived.length and not self._is_closing:
                self.feed(&arrived)
        finally:
            self._is_delivering = False
            PyBuffer_Release(&view)
        if not self._is_closing:
            self.flush()
        return 0

    cdef int deliver(self, Arrived* arrived) except -1:
        while not self._is_paused and not self._is_closing:
            if not self.prepare(arrived):
                break
            if not self.is_over:
                self.fill(arrived)
            elif self._failure is None:
                self.close()
            else:
                self._end(self._failure)
        return 0

    cdef int fill(self, Arrived* arrived) except -1:
        cdef object link = self._link
        cdef object room = link.get_buffer(-1)
        cdef Py_ssize_t filled = 0
        cdef Py_buffer view
        PyObject_GetBuffer(room, &view, PyBUF_WRITABLE)
        try:
            if not view.len:
                raise RuntimeError("get_buffer() returned an empty buffer")
            while filled < view.len and self.is_ready() and not self.is_over:
                self.read_record(<char*> view.buf, view.len, &filled)
                self.prepare(arrived)
        except WantRead:
            pass
        except FAILURES as error:
            self.is_over, self._failure = True, error
        finally:
            PyBuffer_Release(&view)
        room = None  # held by nobody now: the link may resize it
        if filled:
            link.buffer_updated(filled)
        return 0

    cdef int read_record(self, char* room, Py_ssize_t size, Py_ssize_t* filled) except -1:
        cdef Py_ssize_t left = size - filled[0]
        cdef Py_ssize_t count = self.read(left, PyMemoryView_FromMemory(room + filled[0], left, PyBUF_WRITE))
        filled[0] += count
        self.is_over = not count
        self.has_decrypted = count == left and self.ssl_object.pending() > 0
        return 0

    cdef inline bint is_ready(self) except -1:
        return self.is_over or self.has_decrypted or <Py_ssize_t> self.incoming.pending > self.unready_bytes

    cdef bint prepare(self, Arrived* arrived) except -1:
        """Whether OpenSSL has something to read; it gets the next record if not."""
        if self.is_ready():
            return True
        if arrived.position == arrived.length:
            return False
        self.feed(arrived)
        return self.is_ready()

    cdef int feed(self, Arrived* arrived) except -1:
        cdef Py_ssize_t position = arrived.position
        cdef Py_ssize_t stop = position + self.missing_bytes if self.missing_bytes else self.read_header(arrived)
        cdef Py_ssize_t end = min(stop, arrived.length)
        self.incoming.write(PyMemoryView_FromMemory(<char*> arrived.start + position, end - position, PyBUF_READ))
        self.missing_bytes = 0 if self.header_bytes else stop - end
        if stop == end:
            self.unready_bytes = 0
        elif self.is_data:
            self.unready_bytes += end - position
        arrived.position = end
        return 0

    cdef Py_ssize_t read_header(self, Arrived* arrived) noexcept:
        cdef Py_ssize_t position = arrived.position
        cdef Py_ssize_t length
        while self.header_bytes < HEADER_BYTES:
            if position == arrived.length:
                self.is_data = True
                return position + HEADER_BYTES - self.header_bytes
            self.header[self.header_bytes] = arrived.start[position]
            self.header_bytes += 1
            position += 1
        self.header_bytes = 0
        length = self.header[3] << 8 | self.header[4]
        self.is_data = (
            self.header[0] == 0x17 and self.header[1] == 3 and self.header[2] == 3 and length <= DATA_LIMIT_BYTES
        )
        if not self.is_data:
            self.unready_bytes = 0
        return position + length

    def pause_reading(self):
        if not self._is_paused:
            self._is_paused = True
            self._below.pause_reading()

    def resume_reading(self):
        if not self._is_paused or self._is_closing:
            return
        self._is_paused = False
        self._below.resume_reading()
        if self.is_ready():
            get_running_loop().call_soon(self._decrypt)

    # --- writing ---

    def write(self, data):
        if self._is_closing:
            return
        try:
            self.encrypt(data)
        except FAILURES as error:
            self._end(error)
            return
        self.flush_unless_held()

    def writelines(self, buffers):
        cdef object buffer
        if self._is_closing:
            return
        try:
            for buffer in buffers:
                self.encrypt(buffer)
        except FAILURES as error:
            self._end(error)
            return
        self.flush_unless_held()

    cdef int encrypt(self, object buffer) except -1:
        cdef Py_ssize_t size = buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)
        cdef Py_ssize_t done = self.write_plain(buffer) if size else 0
        while done < size:
            done += self.write_plain(memoryview(buffer)[done:])
        return 0

    cdef int flush_unless_held(self) except -1:
        if not self._is_delivering or <Py_ssize_t> self.outgoing.pending >= HOLD_LIMIT_BYTES:
            self.flush()
        return 0

    cdef int flush(self) except -1:
        if self.outgoing.pending:
            self._below.write(self.outgoing.read())
        return 0

    def _flush(self):
        self.flush()

    def get_write_buffer_size(self):
        return self._below.get_write_buffer_size() + self.outgoing.pending
