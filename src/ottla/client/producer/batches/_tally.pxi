# The native twin of tally.py, a part of _append.pyx. Read the Python twin for what is added up and why.

cdef class Sum:
    """Values that were added up: how many, their sum, the smallest and the largest."""

    cdef readonly int64_t count
    cdef readonly double total
    cdef readonly double smallest
    cdef readonly double largest

    def __cinit__(self):
        self.clear()

    cpdef clear(self):
        self.count = 0
        self.total = 0.0
        self.smallest = INFINITE
        self.largest = -INFINITE

    cpdef add(self, double value):
        self.count += 1
        self.total += value
        if value < self.smallest:
            self.smallest = value
        if value > self.largest:
            self.largest = value

    def take(self):
        """Sum, count, smallest and largest; it begins again with nothing."""
        found = self.total, self.count, self.smallest, self.largest
        self.clear()
        return found


cdef class Tally:
    """The sums of one producer."""

    cdef readonly Sum batch_size
    cdef readonly Sum queue_time
    cdef readonly Sum record_size
    cdef readonly Sum records
    cdef readonly Sum latency
    cdef readonly Sum throttle
    cdef readonly dict topics

    def __init__(self):
        self.batch_size, self.queue_time, self.record_size = Sum(), Sum(), Sum()
        self.records, self.latency, self.throttle = Sum(), Sum(), Sum()
        self.topics = {}

    def sent(self, batches, double now_ms):
        """A request leaves. What is an average is taken once for all its batches."""
        cdef int64_t records = 0
        cdef int64_t record_bytes = 0
        cdef int64_t size_bytes
        cdef double oldest_ms = now_ms
        cdef ProducerBatch batch
        cdef tuple before
        for each in batches:
            batch = <ProducerBatch?> each
            size_bytes = batch.wire_bytes()
            records += batch.record_count
            record_bytes += batch.used - HEADER_BYTES
            self.batch_size.add(<double> size_bytes)
            if batch.last_attempt_ms < oldest_ms:
                oldest_ms = batch.last_attempt_ms
            before = <tuple> self.topics.get(batch.delivery.topic)
            if before is None:
                self.topics[batch.delivery.topic] = (batch.record_count, size_bytes)
            else:
                self.topics[batch.delivery.topic] = (before[0] + batch.record_count, before[1] + size_bytes)
        self.queue_time.add(now_ms - oldest_ms)
        self.record_size.add(<double> record_bytes / <double> max(<int64_t> 1, records))
        self.records.add(<double> records)

    def answered(self, double latency_ms, double throttle_ms):
        """Its answer came."""
        self.latency.add(latency_ms)
        self.throttle.add(throttle_ms)

    def take_topics(self):
        """Records and bytes of each topic; it begins again with nothing."""
        found, self.topics = self.topics, {}
        return found
