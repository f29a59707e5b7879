# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False, embedsignature=True
"""The native twin of the hot path: same names, same answers as delivery.py, producer_batch.py, topic_state.py, hot_path.py,
produce_frames.py, stamps.py, partition_queue.py, draining.py, rooms.py, tally.py.

Read the Python twins for the reasons; here only what C changes is explained.

1. Nothing here takes a lock. A method that touches the state of a batch or a topic runs no Python code between its
   first look and its last write, so the interpreter lock is lock enough: objects are allocated before, callables are
   called after. (This module does not claim to run without that lock: a free-threaded Python turns it on at import.)
2. A record is written straight into the buffer of the open batch. A bytearray's memory stays where it is as long as
   nobody resizes it, and nobody outside this file has a batch's buffer before the batch is closed.
3. SendFuture has no garbage-collector header: a million of them would be a million objects to walk. A cycle through a
   callback ends when the batch is done, because it drops its callbacks then.
"""

from collections import deque

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_READ
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ottla.records._numbers cimport get16, get32, get64, murmur2_of, put16, put32, put64, put_varint, varint_size, zigzag

from ottla.client.producer.values import RecordMetadata, headers_of
from ottla.client.producer.batches.waiting import again, await_done, call_waiters, wait_until_done
from ottla.records.builder import check_timestamp, owned_bytes
from ottla.records.compression import Compression, compress

cdef extern from "../../../records/_crc32c.h" nogil:
    void ottla_crc32c_prepare()
    uint32_t ottla_crc32c(uint32_t value, const uint8_t* data, size_t length)

cdef extern from *:
    """
    /* Checksums of two pieces joined, without a look at the bytes: the first one is carried over the zeros that the
     * second piece would be, which is a multiplication by x^(8 * length) modulo the polynomial. Bits are reflected. */
    static uint32_t ottla_crc_power[32]; /* x^(2^n) */

    static uint32_t ottla_crc_product(uint32_t first, uint32_t second) {
        uint32_t product = 0;
        for (; first; first <<= 1) {
            if (first & 0x80000000u) product ^= second;
            second = (second >> 1) ^ ((second & 1) ? OTTLA_CRC_POLYNOMIAL : 0);
        }
        return product;
    }

    static void ottla_crc_prepare_powers(void) {
        int n;
        ottla_crc_power[0] = 0x40000000u;
        for (n = 1; n < 32; n++) ottla_crc_power[n] = ottla_crc_product(ottla_crc_power[n - 1], ottla_crc_power[n - 1]);
    }

    /* Full batches are mostly of one length: its power is kept. The interpreter lock is held. */
    static uint32_t ottla_crc_joined(uint32_t first, uint32_t second, size_t second_length) {
        static size_t known_length = 0;
        static uint32_t known_power = 0x80000000u; /* 1 */
        size_t rest = second_length;
        int n;
        if (second_length != known_length) {
            known_power = 0x80000000u;
            for (n = 3; rest; rest >>= 1, n++)
                if (rest & 1) known_power = ottla_crc_product(known_power, ottla_crc_power[n]);
            known_length = second_length;
        }
        return ottla_crc_product(first, known_power) ^ second;
    }
    """
    void ottla_crc_prepare_powers()
    uint32_t ottla_crc_joined(uint32_t first, uint32_t second, size_t second_length)

cdef extern from "Python.h":
    ctypedef struct PyByteArrayObject:
        Py_ssize_t ob_exports

cdef extern from "_present.h":
    int64_t ottla_present_ms()

cdef enum:
    HEADER_BYTES = 61
    ATTRIBUTES_AT = 21
    CRC_AT = 17
    TRANSACTIONAL_BIT = 0x10
    LENGTH_LIMIT = 0x7FFFFFFF - 61 - 128
    JOINED_LIMIT = 1 << 28

cdef double ESTIMATE_MARGIN = 1.05
cdef object NONE_CODEC = Compression.NONE

ottla_crc32c_prepare()
ottla_crc_prepare_powers()


# ---- numbers ----

cdef inline int64_t time_of(timestamp_ms) except? -2:
    cdef int overflow = 0
    if not isinstance(timestamp_ms, int):
        check_timestamp(timestamp_ms)
    cdef int64_t time = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
    if overflow or time < 0:
        check_timestamp(-2 if time < 0 else timestamp_ms)
    return time


# ---- what became of a batch ----

cdef class Delivery:
    """What became of the records of one batch; the futures of its records ask here."""

    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t base_offset
    cdef readonly int64_t append_time_ms
    cdef readonly object error
    cdef readonly object record_errors
    cdef readonly bint is_done
    cdef readonly object parts
    cdef readonly object told
    cdef public int32_t record_count
    cdef list waiters

    def __cinit__(self, str topic, int32_t partition):
        self.topic = topic
        self.partition = partition
        self.base_offset = -1
        self.append_time_ms = -1

    def succeed(self, int64_t base_offset, int64_t append_time_ms=-1):
        """The broker has them; False when something else was told before."""
        if self.is_done or self.parts is not None:
            return False
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self.is_done = True
        self.finish()
        return True

    def fail(self, error, record_errors=None):
        """They are not delivered; single records may have reasons of their own."""
        if self.is_done or self.parts is not None:
            return False
        self.error = error
        self.record_errors = record_errors
        self.told = set()
        self.is_done = True
        self.finish()
        return True

    cdef finish(self):
        waiters = self.waiters
        if waiters is not None:
            self.waiters = None
            call_waiters(waiters, self)

    def split(self, parts):
        """The records travel on in other batches: (first index here, delivery there), in order."""
        if self.is_done or self.parts is not None:
            return False
        self.parts = parts
        waiters, self.waiters = self.waiters, None
        if waiters is not None:
            for index, call in waiters:
                if not self.add_waiter(index, call):
                    call_waiters([(index, call)], self)
        return True

    def add_waiter(self, int32_t index, call):
        """Call with nothing when the record at `index` is done; False when it is already."""
        # Made before we look: an allocation may start a collection, which may run Python and let the loop in.
        cdef tuple waiter = (index, call)
        cdef list fresh = []
        if self.parts is not None:
            delivery, place = self.located(index)
            return delivery.add_waiter(place, call)
        if self.is_done:
            return False
        if self.waiters is None:
            self.waiters = fresh
        self.waiters.append(waiter)
        return True

    def located(self, int32_t index):
        """Where the record at `index` is now, after splits."""
        cdef Delivery delivery = self
        while delivery.parts is not None:
            for first, part in reversed(delivery.parts):
                if index >= first:
                    index -= <int32_t> first
                    delivery = part
                    break
        return delivery, index

    def is_done_at(self, int32_t index):
        return self.is_done if self.parts is None else self.located(index)[0].is_done

    def error_at(self, int32_t index):
        """Why the record at `index` was not delivered; None when it was, or is not done."""
        if self.parts is not None:
            delivery, place = self.located(index)
            return delivery.error_at(place)
        if self.record_errors is not None:
            return self.record_errors.get(index, self.error)
        return self.error

    def tell(self, int32_t index):
        """Somebody has heard of the failure of this record."""
        delivery, place = self.located(index)
        if delivery.told is not None:
            delivery.told.add(place)


@cython.no_gc
@cython.freelist(256)
@cython.final
cdef class SendFuture:
    """The record's place in a delivery; what it gives is made when it is asked for."""

    cdef Delivery delivery
    cdef int64_t time_ms
    cdef int32_t index
    cdef int32_t key_bytes
    cdef int32_t value_bytes

    @property
    def topic(self):
        return self.delivery.topic

    @property
    def partition(self):
        return self.delivery.partition

    def as_run(self):
        """The same place as send_many() notes it: delivery, first index, count."""
        return self.delivery, self.index, 1

    def done(self):
        return self.delivery.is_done if self.delivery.parts is None else self.delivery.is_done_at(self.index)

    def cancelled(self):
        return False

    def cancel(self):
        """A record cannot be called back: always False."""
        return False

    def exception(self, timeout=None):
        """Why it was not delivered, or None; waits at most `timeout` seconds."""
        if not self.done():
            wait_until_done(self.delivery, self.index, timeout)
        error = self.delivery.error_at(self.index)
        if error is not None:
            self.delivery.tell(self.index)
        return error

    def result(self, timeout=None):
        """The record's metadata; raises why it was not delivered, or TimeoutError after `timeout` seconds."""
        error = self.exception(timeout)
        if error is not None:
            raise again(error)
        return self.metadata()

    def get(self, timeout=None):
        return self.result(timeout)

    def metadata(self):
        """What is known now; the offset is -1 before the delivery and after a failure."""
        cdef Delivery delivery
        delivery, index = self.delivery.located(self.index)
        return RecordMetadata(
            delivery.topic,
            delivery.partition,
            delivery.base_offset + index if delivery.base_offset >= 0 else -1,
            delivery.append_time_ms if delivery.append_time_ms >= 0 else self.time_ms,
            self.key_bytes,
            self.value_bytes,
        )

    def add_done_callback(self, call):
        """Call with this future when it is done: on the client's loop, or at once when it is done already."""
        if not self.delivery.add_waiter(self.index, _Told(self, call)):
            call(self)

    def add_delivery_callback(self, call):
        """The same with (metadata, error), as on_delivery gets them."""
        notice = _Noticed(self, call)
        if not self.delivery.add_waiter(self.index, notice):
            notice()

    def add_silent_callback(self, call):
        """The same for somebody whose hearing of a failure does not count as the caller's."""
        notice = _Noticed(self, call)
        notice.is_silent = True
        if not self.delivery.add_waiter(self.index, notice):
            notice()

    def __await__(self):
        if not self.done():
            yield from await_done(self.delivery, self.index)
        return self.result(0)

    def __repr__(self):
        return f"<SendFuture {self.delivery.topic}-{self.delivery.partition} {'done' if self.done() else 'waiting'}>"


cdef class _Told:
    cdef SendFuture future
    cdef object call

    def __cinit__(self, SendFuture future, call):
        self.future = future
        self.call = call

    def __call__(self):
        self.call(self.future)


cdef class _Noticed:
    cdef SendFuture future
    cdef object call
    cdef bint is_silent

    def __cinit__(self, SendFuture future, call):
        self.future = future
        self.call = call

    def __call__(self):
        cdef SendFuture future = self.future
        error = future.delivery.error_at(future.index)
        if error is not None and not self.is_silent:
            future.delivery.tell(future.index)
        self.call(future.metadata(), error)


cdef inline SendFuture new_future(int64_t time_ms, Py_ssize_t key_bytes, Py_ssize_t value_bytes):
    cdef SendFuture future = SendFuture.__new__(SendFuture)
    future.time_ms = time_ms
    future.key_bytes = <int32_t> key_bytes
    future.value_bytes = <int32_t> value_bytes
    return future


# ---- one batch on its way ----

cdef class ProducerBatch:
    """One batch: records are written into it while it is open, then it travels."""

    cdef readonly Delivery delivery
    cdef readonly object queue
    cdef readonly object buffer
    cdef readonly int64_t accounted_bytes
    cdef readonly bint is_open
    cdef readonly int32_t record_count
    cdef public double created_ms
    cdef public double last_attempt_ms
    cdef public double backoff_ms
    cdef public int32_t attempts
    cdef public object stamp
    cdef public object in_flight_to
    cdef public int32_t leader_epoch
    cdef readonly object compression
    cdef object level
    cdef object payload
    cdef int64_t sealed_id
    cdef int32_t sealed_sequence
    cdef int16_t sealed_epoch
    cdef bint sealed_transactional
    cdef object bytes_out
    cdef uint8_t* memory
    cdef Py_ssize_t capacity
    cdef Py_ssize_t used
    cdef int64_t limit_bytes
    cdef int64_t base_time_ms
    cdef int64_t max_time_ms
    cdef double ratio
    cdef readonly bint is_compressed
    cdef bint is_summed
    cdef uint32_t records_sum

    def __init__(self, queue, str topic, int32_t partition, buffer, int64_t accounted_bytes, *, int64_t limit_bytes,
                 double created_ms, compression=NONE_CODEC, level=None, double ratio=1.0):
        self.begin(queue, topic, partition, buffer, accounted_bytes, limit_bytes, created_ms, compression, level, ratio)

    cdef int begin(self, queue, str topic, int32_t partition, buffer, int64_t accounted_bytes, int64_t limit_bytes,
                   double created_ms, compression, level, double ratio) except -1:
        self.delivery = Delivery.__new__(Delivery, topic, partition)
        self.queue = queue
        self.buffer = buffer
        self.memory = <uint8_t*> PyByteArray_AS_STRING(buffer)
        self.capacity = PyByteArray_GET_SIZE(buffer)
        self.accounted_bytes = accounted_bytes
        self.limit_bytes = limit_bytes
        self.used = HEADER_BYTES
        self.created_ms = created_ms
        self.last_attempt_ms = created_ms
        self.leader_epoch = -1
        self.compression = compression
        self.level = level
        self.is_compressed = compression is not NONE_CODEC
        self.ratio = ratio
        self.max_time_ms = -1
        self.is_open = True
        return 0

    # --- what it knows of itself ---

    cdef inline int64_t estimate(self) noexcept:
        if self.is_compressed:
            return HEADER_BYTES + <int64_t> (<double> (self.used - HEADER_BYTES) * self.ratio * ESTIMATE_MARGIN)
        return self.used

    @property
    def size_bytes(self):
        """What it takes on the wire: an estimate while it is open, then the truth."""
        return self.wire_bytes()

    cdef inline int64_t wire_bytes(self) except -1:
        return self.estimate() if self.payload is None else HEADER_BYTES + len(self.payload)

    cdef inline bint is_small(self, int64_t limit_bytes) noexcept:
        """Whether its finished bytes lie in its memory, and are at most so many."""
        return not self.is_compressed and self.used <= limit_bytes and self.memory != NULL

    @property
    def uncompressed_bytes(self):
        return self.used - HEADER_BYTES

    @property
    def compression_ratio(self):
        return self.ratio

    @property
    def max_timestamp_ms(self):
        return self.max_time_ms

    @property
    def is_full(self):
        return self.is_filled()

    cdef inline bint is_filled(self) noexcept:
        return not self.is_open or (self.record_count > 0 and self.estimate() >= self.limit_bytes)

    def fits(self, int64_t needed_bytes):
        """Whether a record that needs at most so much, header of a batch included, finds room."""
        return self.has_space(needed_bytes)

    cdef inline bint has_space(self, int64_t needed_bytes) noexcept:
        cdef int64_t record_bytes = needed_bytes - HEADER_BYTES
        if not self.is_open or self.used + record_bytes > self.capacity:
            return False
        return self.record_count == 0 or self.estimate() + record_bytes <= self.limit_bytes

    def fits_grown(self, int64_t needed_bytes):
        """Whether only the buffer is too small, while the batch (after compression, if any) would have room."""
        return self.is_open and self.estimate() + needed_bytes - HEADER_BYTES <= self.limit_bytes

    # --- taking records ---

    cdef int64_t take(self, const uint8_t* key, Py_ssize_t key_length, const uint8_t* value, Py_ssize_t value_length,
                      const uint8_t* headers, Py_ssize_t headers_length, int64_t time_ms) noexcept:
        """The bytes it took, 0 when there is no room, -1 when there would be in a larger buffer."""
        cdef int64_t base_time = self.base_time_ms if self.record_count else time_ms
        cdef uint64_t time_raw = zigzag(<int64_t> (<uint64_t> time_ms - <uint64_t> base_time))
        cdef uint64_t offset_raw = <uint64_t> self.record_count << 1
        cdef uint64_t key_raw = zigzag(key_length)
        cdef uint64_t value_raw = zigzag(value_length)
        cdef int64_t body = 1 + varint_size(time_raw) + varint_size(offset_raw) + varint_size(key_raw) \
            + varint_size(value_raw) + headers_length
        cdef int64_t total
        cdef uint8_t* at
        if not self.is_open:
            return 0
        if key_length > 0:
            body += key_length
        if value_length > 0:
            body += value_length
        total = body + varint_size(zigzag(body))
        if self.record_count and self.estimate() + total > self.limit_bytes:
            return 0
        if self.used + total > self.capacity:
            return -1
        at = put_varint(self.memory + self.used, zigzag(body))
        at[0] = 0
        at = put_varint(at + 1, time_raw)
        at = put_varint(at, offset_raw)
        at = put_varint(at, key_raw)
        if key_length > 0:
            memcpy(at, key, key_length)
            at += key_length
        at = put_varint(at, value_raw)
        if value_length > 0:
            memcpy(at, value, value_length)
            at += value_length
        memcpy(at, headers, headers_length)
        self.used += total
        self.base_time_ms = base_time
        if time_ms > self.max_time_ms:
            self.max_time_ms = time_ms
        self.record_count += 1
        return total

    def append(self, timestamp_ms, key, value, headers=()):
        """Take one record; False when there is no room. For splits and tests: the hot path is TopicState.put."""
        cdef int64_t taken
        cdef int64_t time_ms = time_of(timestamp_ms)
        cdef bytes key_bytes = b"" if key is None else owned(key, "key")
        cdef bytes value_bytes = b"" if value is None else owned(value, "value")
        cdef bytes encoded = NO_HEADERS if not headers else encode_headers(headers)
        taken = self.take(
            <const uint8_t*> PyBytes_AS_STRING(key_bytes), -1 if key is None else PyBytes_GET_SIZE(key_bytes),
            <const uint8_t*> PyBytes_AS_STRING(value_bytes), -1 if value is None else PyBytes_GET_SIZE(value_bytes),
            <const uint8_t*> PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded), time_ms,
        )
        return taken > 0

    def future_at(self, int32_t index, int64_t timestamp_ms, Py_ssize_t key_bytes, Py_ssize_t value_bytes):
        """A future for a record that is in this batch already."""
        cdef SendFuture future = new_future(timestamp_ms, key_bytes, value_bytes)
        future.delivery = self.delivery
        future.index = index
        return future

    def grow(self, buffer, int64_t accounted_bytes):
        """Go on in a larger buffer; gives the old one back."""
        old = self.buffer
        memcpy(PyByteArray_AS_STRING(buffer), self.memory, self.used)
        self.memory = <uint8_t*> PyByteArray_AS_STRING(buffer)
        self.capacity = PyByteArray_GET_SIZE(buffer)
        self.buffer = buffer
        self.accounted_bytes = accounted_bytes
        return old

    # --- finishing ---

    cpdef close(self):
        """No more records; compresses if it must. Calling it again does nothing."""
        self.is_open = False
        self.delivery.record_count = self.record_count
        buffer = self.buffer
        if not self.is_compressed:
            self.sum_records(buffer)
        elif self.payload is None and self.record_count and buffer is not None:
            payload = compress(self.compression, memoryview(buffer)[HEADER_BYTES:self.used], self.level)
            self.ratio = <double> len(payload) / <double> (self.used - HEADER_BYTES)
            self.payload = payload

    cdef int sum_records(self, buffer) except -1:
        """Take the checksum of the records. Whoever filled the batch closes it and has its bytes in the cache; the
        sender, to whom they are cold, adds that of the header. Both may come here: they find the same."""
        cdef const uint8_t* start = self.memory + HEADER_BYTES
        cdef size_t length = self.used - HEADER_BYTES
        cdef uint32_t found
        if self.is_summed or buffer is None or length >= JOINED_LIMIT:
            return 0
        found = ottla_crc32c(0, start, length)
        self.records_sum = found
        self.is_summed = True
        return 0

    def stop(self):
        """No more records; whoever sends it will close it."""
        self.is_open = False
        self.delivery.record_count = self.record_count

    cpdef seal(self, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, bint transactional):
        """The finished bytes. The same again while the stamp is the same; bytes already handed out never change."""
        self.close()
        if self.bytes_out is not None and producer_id == self.sealed_id and producer_epoch == self.sealed_epoch \
                and base_sequence == self.sealed_sequence and transactional == self.sealed_transactional:
            return self.bytes_out if self.payload is not None else memoryview(self.buffer)[:self.used]
        cdef uint8_t* at
        cdef Py_ssize_t size
        cdef bytes whole
        if self.payload is not None:
            size = HEADER_BYTES + PyBytes_GET_SIZE(self.payload)
            whole = PyBytes_FromStringAndSize(NULL, size)
            at = <uint8_t*> PyBytes_AS_STRING(whole)
            memcpy(at + HEADER_BYTES, PyBytes_AS_STRING(self.payload), size - HEADER_BYTES)
            self.bytes_out = whole
        else:
            if self.bytes_out is not None and (<PyByteArrayObject*> self.buffer).ob_exports:
                self.buffer = bytearray(memoryview(self.buffer)[:self.used])
                self.memory = <uint8_t*> PyByteArray_AS_STRING(self.buffer)
            size = self.used
            at = self.memory
            self.bytes_out = True
        self.sealed_id, self.sealed_epoch = producer_id, producer_epoch
        self.sealed_sequence, self.sealed_transactional = base_sequence, transactional
        self.write_header(at, size, producer_id, producer_epoch, base_sequence, transactional)
        return self.bytes_out if self.payload is not None else memoryview(self.buffer)[:self.used]

    cdef void write_header(self, uint8_t* at, Py_ssize_t size, int64_t producer_id, int16_t producer_epoch,
                           int32_t base_sequence, bint transactional):
        cdef int attributes = <int> self.compression if self.is_compressed else 0
        cdef uint32_t head
        if transactional:
            attributes |= TRANSACTIONAL_BIT
        put64(at, 0)
        put32(at + 8, <uint32_t> (size - 12))
        put32(at + 12, 0xFFFFFFFFu)
        at[16] = 2
        put16(at + ATTRIBUTES_AT, <uint16_t> attributes)
        put32(at + 23, <uint32_t> (self.record_count - 1))
        put64(at + 27, <uint64_t> self.base_time_ms)
        put64(at + 35, <uint64_t> self.max_time_ms)
        put64(at + 43, <uint64_t> producer_id)
        put16(at + 51, <uint16_t> producer_epoch)
        put32(at + 53, <uint32_t> base_sequence)
        put32(at + 57, <uint32_t> self.record_count)
        if self.is_summed:
            head = ottla_crc32c(0, at + ATTRIBUTES_AT, HEADER_BYTES - ATTRIBUTES_AT)
            put32(at + CRC_AT, ottla_crc_joined(head, self.records_sum, size - HEADER_BYTES))
        else:
            put32(at + CRC_AT, ottla_crc32c(0, at + ATTRIBUTES_AT, size - ATTRIBUTES_AT))

    cpdef tuple release(self):
        """Let the memory go: (bytes accounted, buffer); no buffer when a request still refers to it. Once only."""
        cdef int64_t accounted_bytes = self.accounted_bytes
        buffer, self.buffer = self.buffer, None
        self.accounted_bytes = 0
        self.memory = NULL
        self.capacity = 0
        self.payload = None
        self.bytes_out = None
        self.is_open = False
        if buffer is None or (<PyByteArrayObject*> buffer).ob_exports:
            return accounted_bytes, None
        return accounted_bytes, buffer


cdef bytes NO_HEADERS = b"\x00"


cdef bytes owned(data, str what):
    return <bytes> data if type(data) is bytes else owned_bytes(data, what)


cdef bint are_plain(headers) except -1:
    """Whether these are a dict, or a list or tuple of pairs: then they can be read twice as they are."""
    if type(headers) is dict:
        return True
    if type(headers) is not list and type(headers) is not tuple:
        return False
    for item in headers:
        if type(item) is not tuple or len(<tuple> item) != 2:
            return False
    return True


cdef bytes encode_headers(headers):
    """Count and headers, as they stand in the record."""
    cdef list parts = []
    cdef Py_ssize_t size
    cdef uint8_t* at
    cdef bytes name_bytes, content_bytes, whole
    if isinstance(headers, dict):
        headers = headers.items()
    for name, content in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's key must be str, not {type(name).__name__}")
        parts.append((<str> name).encode())
        parts.append(None if content is None else owned(content, "header value"))
    size = 10
    for part in parts:
        size += 5 + (0 if part is None else PyBytes_GET_SIZE(part))
    if size > LENGTH_LIMIT:
        raise ValueError(f"headers of {size} bytes cannot be sent")
    whole = PyBytes_FromStringAndSize(NULL, size)
    at = put_varint(<uint8_t*> PyBytes_AS_STRING(whole), zigzag(len(parts) // 2))
    for part in parts:
        if part is None:
            at = put_varint(at, zigzag(-1))
            continue
        content_bytes = part
        at = put_varint(at, zigzag(PyBytes_GET_SIZE(content_bytes)))
        memcpy(at, PyBytes_AS_STRING(content_bytes), PyBytes_GET_SIZE(content_bytes))
        at += PyBytes_GET_SIZE(content_bytes)
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(whole), at - <uint8_t*> PyBytes_AS_STRING(whole))


# ---- the hot state of one topic ----

cdef class TopicState:
    """Which batch of a topic is open in each partition, and whose turn it is for records without a key."""

    cdef readonly str topic
    cdef readonly int32_t partition_count
    cdef readonly int32_t sticky
    cdef readonly int64_t sticky_bytes
    cdef list open
    cdef list queues
    cdef int64_t sticky_limit_bytes
    cdef int64_t record_limit_bytes
    cdef bint ignores_keys
    cdef int32_t wanted
    cdef object now_ms

    def __init__(
        self, str topic, *, int64_t sticky_limit_bytes, int64_t record_limit_bytes, bint ignores_keys, lock, now_ms=None
    ):
        self.topic = topic
        self.sticky = -1
        self.sticky_limit_bytes = max(1, sticky_limit_bytes)
        self.record_limit_bytes = record_limit_bytes
        self.ignores_keys = ignores_keys
        self.open = []
        self.queues = []
        self.wanted = -1
        self.now_ms = now_ms

    def set_partition_count(self, int32_t count):
        """The cluster says how many there are; a topic that was made anew may have fewer."""
        while len(self.open) < count:
            self.open.append(None)
        self.partition_count = count
        if self.sticky >= count:
            self.sticky = -1

    def stick_to(self, int32_t partition):
        """Records without a key go here until the turn is over."""
        self.sticky = partition
        self.sticky_bytes = 0

    def set_open(self, int32_t partition, batch):
        """The batch that takes records of this partition; None for none."""
        while len(self.open) <= partition:
            self.open.append(None)
        self.open[partition] = batch

    def open_batch(self, int32_t partition):
        return self.open[partition] if 0 <= partition < len(self.open) else None

    def partition_of(self, key):
        """Where a record with this key goes; -1 when no partition has its turn."""
        if key is not None and not self.ignores_keys:
            key = owned(key, "key")
            return (murmur2_of(<const uint8_t*> PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)) & 0x7FFFFFFF) \
                % self.partition_count
        return self.sticky

    cdef inline int64_t present_ms(self) except? -1:
        return ottla_present_ms() if self.now_ms is None else <int64_t> self.now_ms()

    def put(self, key, value, headers, timestamp_ms, partition, bint wants_future):
        """Write a record into the open batch: its future, or True when none is wanted; None when there is no room."""
        cdef bytes encoded = NO_HEADERS if not headers else encode_headers(headers)
        cdef int64_t time_ms = self.present_ms() if timestamp_ms is None else time_of(timestamp_ms)
        if key is not None:
            key = owned(key, "key")
        if value is not None:
            value = owned(value, "value")
        return self.write(key, value, encoded, time_ms, -1 if partition is None else <int32_t> partition, wants_future)

    cdef object write(self, key, value, bytes headers, int64_t time_ms, int32_t partition, bint wants_future):
        cdef const uint8_t* key_at = NULL
        cdef const uint8_t* value_at = NULL
        cdef Py_ssize_t key_length = -1
        cdef Py_ssize_t value_length = -1
        cdef ProducerBatch batch
        cdef SendFuture future = None
        if key is not None:
            key_at = <const uint8_t*> PyBytes_AS_STRING(key)
            key_length = PyBytes_GET_SIZE(key)
        if value is not None:
            value_at = <const uint8_t*> PyBytes_AS_STRING(value)
            value_length = PyBytes_GET_SIZE(value)
        if wants_future:
            future = new_future(time_ms, key_length, value_length)
        # From here on no Python code runs before the record is written: see the first promise.
        batch = self.place(key_at, key_length, value_at, value_length, <const uint8_t*> PyBytes_AS_STRING(headers),
                           PyBytes_GET_SIZE(headers), time_ms, partition)
        if batch is None:
            return None
        if wants_future:
            future.delivery = batch.delivery
            future.index = batch.record_count - 1
            return future
        return True

    cdef ProducerBatch place(self, const uint8_t* key_at, Py_ssize_t key_length, const uint8_t* value_at,
                             Py_ssize_t value_length, const uint8_t* headers_at, Py_ssize_t headers_length,
                             int64_t time_ms, int32_t partition):
        """Write a record into the open batch of its partition and give that batch; None when there is no room. Runs no
        Python code. A length of -1 is none, a partition of -1 leaves it to the key, or to the turn."""
        cdef int64_t taken
        cdef int64_t bound
        cdef bint is_sticky = False
        cdef ProducerBatch batch
        bound = HEADER_BYTES + 36 + max(key_length, 0) + max(value_length, 0) + headers_length
        self.wanted = partition
        if bound > self.record_limit_bytes:
            return None
        if partition < 0:
            if key_length >= 0 and not self.ignores_keys and self.partition_count > 0:
                partition = <int32_t> ((murmur2_of(key_at, key_length) & 0x7FFFFFFF) % self.partition_count)
            else:
                partition = self.sticky
                is_sticky = True
            self.wanted = partition
        if partition < 0 or partition >= self.partition_count:
            return None
        batch = <ProducerBatch> self.open[partition]
        if batch is None:
            return None
        taken = batch.take(key_at, key_length, value_at, value_length, headers_at, headers_length, time_ms)
        if taken <= 0:
            return None
        if is_sticky:
            self.sticky_bytes += taken
            if self.sticky_bytes >= 2 * self.sticky_limit_bytes:
                # Its batches never fill up, because they leave before: the turn ends all the same.
                self.sticky = -1
        return batch

    def put_many(self, list items, Py_ssize_t start, bint are_pairs, headers, timestamp_ms, partition, list runs):
        """Write records from `start` on until one finds no room; gives the index of that one, or the length.

        `runs` gets (delivery, first index there, count) for neighbours that lie side by side in one batch.
        """
        cdef bytes encoded = NO_HEADERS if not headers else encode_headers(headers)
        cdef int64_t time_ms = self.present_ms() if timestamp_ms is None else time_of(timestamp_ms)
        cdef int32_t wished = -1 if partition is None else <int32_t> partition
        cdef Py_ssize_t index = start
        cdef Py_ssize_t total = len(items)
        cdef Delivery delivery = None
        cdef int32_t first = 0
        cdef int32_t count = 0
        cdef object key = None
        try:
            while index < total and index < len(items):
                value = items[index]
                if are_pairs:
                    key, value = value
                    if key is not None:
                        key = owned(key, "key")
                if value is not None:
                    value = owned(value, "value")
                if self.write(key, value, encoded, time_ms, wished, False) is None:
                    break
                # Nothing ran since the record was written: the last place of that batch is this record's.
                batch = <ProducerBatch> self.open[self.wanted]
                if (<ProducerBatch> batch).delivery is delivery and (<ProducerBatch> batch).record_count == first + count + 1:
                    count += 1
                else:
                    if count:
                        runs.append((delivery, first, count))
                    delivery = (<ProducerBatch> batch).delivery
                    first = (<ProducerBatch> batch).record_count - 1
                    count = 1
                index += 1
        finally:
            if count:
                runs.append((delivery, first, count))
        return index


def check_many(list items, bint are_pairs, int64_t limit_bytes):
    """Refuse a list with something that cannot be sent, before any of it is; -1, or the index of one too large."""
    cdef Py_ssize_t index = 0
    cdef int64_t size
    for item in items:
        size = HEADER_BYTES + 36
        if are_pairs:
            key, value = item
            if key is not None:
                size += PyBytes_GET_SIZE(key) if type(key) is bytes else len(owned(key, "key"))
        else:
            value = item
        if value is not None:
            size += PyBytes_GET_SIZE(value) if type(value) is bytes else len(owned(value, "value"))
        if size > limit_bytes:
            return index
        index += 1
    return -1


def has_text(list items, bint are_pairs):
    """Whether a key or a value is text, which must become bytes first."""
    for item in items:
        if are_pairs:
            for part in item:
                if type(part) is str:
                    return True
        elif type(item) is str:
            return True
    return False


# ---- the face's own part ----

cdef class HotPath:
    """What producer faces inherit: send() and produce() that stay in C while nothing needs a decision."""

    cdef public dict topic_states
    cdef public bint is_hot
    cdef public object quick_room

    def __cinit__(self, *arguments, **named):
        self.topic_states = {}

    cdef object quick(self, topic, value, key, partition, timestamp_ms, headers, bint wants_future):
        cdef TopicState state
        cdef int64_t time_ms
        cdef int64_t needed_bytes
        cdef bytes encoded
        cdef object found
        cdef int32_t chosen = -1
        if not self.is_hot or type(topic) is not str:
            return None
        if partition is not None:
            chosen = partition
            if chosen < 0:
                return None  # the slow way says what is wrong with it
        state = self.topic_states.get(topic)
        if state is None or not (value is None or type(value) is bytes) or not (key is None or type(key) is bytes):
            return None
        if timestamp_ms is not None:
            time_ms = time_of(timestamp_ms)
        else:
            time_ms = state.present_ms()
        encoded = NO_HEADERS if not headers else encode_headers(headers)
        found = state.write(key, value, encoded, time_ms, chosen, wants_future)
        if found is not None or self.quick_room is None:
            return found
        needed_bytes = HEADER_BYTES + 36 + PyBytes_GET_SIZE(encoded)
        if key is not None:
            needed_bytes += PyBytes_GET_SIZE(key)
        if value is not None:
            needed_bytes += PyBytes_GET_SIZE(value)
        if needed_bytes > state.record_limit_bytes or not self.quick_room(state, key, partition, needed_bytes):
            return None
        return state.write(key, value, encoded, time_ms, chosen, wants_future)

    def send(self, topic, value=None, *, key=None, partition=None, timestamp_ms=None, headers=None, on_delivery=None):
        """Send a record: a future of its metadata."""
        cdef object future
        if headers is not None and not are_plain(headers):
            headers = headers_of(headers)
        if on_delivery is None:
            future = self.quick(topic, value, key, partition, timestamp_ms, headers, True)
            if future is not None:
                return future
        return self._send_slowly(topic, value, key, partition, timestamp_ms, headers, on_delivery, True)

    def produce(self, topic, value=None, *, key=None, partition=None, timestamp_ms=None, headers=None,
                on_delivery=None):
        """Send a record without a future: a failure is raised by flush() or close()."""
        if headers is not None and not are_plain(headers):
            headers = headers_of(headers)
        if on_delivery is None and self.quick(topic, value, key, partition, timestamp_ms, headers, False) is not None:
            return
        self._send_slowly(topic, value, key, partition, timestamp_ms, headers, on_delivery, False)


@cython.freelist(8)
@cython.final
cdef class Ready:
    """An awaitable that has its value already: `await` goes on without a turn of the loop. It is a coroutine for
    asyncio, so that a task can be made of it, as of what send() gives when it has to wait."""

    cdef object value

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(self.value)

    def send(self, value):
        raise StopIteration(self.value)

    def throw(self, kind, value=None, trace=None):
        raise kind if value is None else value

    def close(self):
        pass


cdef inline Ready ready(value):
    cdef Ready made = Ready.__new__(Ready)
    made.value = value
    return made


cdef Ready NOTHING = ready(None)


cdef class AsyncHotPath(HotPath):
    """The same for the asyncio face: send() and produce() are awaited, because they may have to wait for room."""

    def send(self, topic, value=None, *, key=None, partition=None, timestamp_ms=None, headers=None, on_delivery=None):
        """Send a record; `await` gives a future of its metadata as soon as there is room for it."""
        cdef object future
        if headers is not None and not are_plain(headers):
            headers = headers_of(headers)
        if on_delivery is None:
            future = self.quick(topic, value, key, partition, timestamp_ms, headers, True)
            if future is not None:
                return ready(future)
        return self._send_slowly(topic, value, key, partition, timestamp_ms, headers, on_delivery, True)

    def produce(self, topic, value=None, *, key=None, partition=None, timestamp_ms=None, headers=None,
                on_delivery=None):
        """Send a record without a future: a failure is raised by flush() or close()."""
        if headers is not None and not are_plain(headers):
            headers = headers_of(headers)
        if on_delivery is None and self.quick(topic, value, key, partition, timestamp_ms, headers, False) is not None:
            return NOTHING
        return self._send_slowly(topic, value, key, partition, timestamp_ms, headers, on_delivery, False)


include "_arrow_append.pxi"
include "_produce_frames.pxi"
include "_stamps.pxi"
include "_draining.pxi"
include "_rooms.pxi"
include "_tally.pxi"
