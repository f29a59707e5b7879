# The native twin of draining.py, a part of _append.pyx. Read the Python twin for what is done and why.
#
# What C changes: a batch that was never sent is judged here, without a call into Python; about one that was (a retry, a
# part of a split, a probe) the twin's `may_leave` is asked. The accumulator's lock is held by whoever calls `drain`.

from ottla.client.producer.batches import draining

cdef object may_leave = draining.may_leave
cdef double INFINITE = float("inf")


cdef inline ProducerBatch first_of(PartitionQueue queue):
    return <ProducerBatch?> queue.batches[0] if len(queue.batches) else None


cdef double ready_ms_of(PartitionQueue queue, ProducerBatch batch, double now_ms, bint is_hurried,
                        double linger_ms) except? -1:
    if batch.attempts > 0 and batch.leader_epoch >= queue.leader_epoch:
        return batch.last_attempt_ms + batch.backoff_ms
    if is_hurried or batch.attempts > 0 or batch.is_filled() or len(queue.batches) > 1:
        return now_ms
    return batch.created_ms + linger_ms


cdef class Drainer:
    """Takes the batches of one producer out of their queues."""

    cdef dict busy
    cdef dict in_flight
    cdef object numbering
    cdef double linger_ms
    cdef int64_t request_limit_bytes
    cdef bint mutes

    def __init__(self, dict busy, dict in_flight, numbering, *, double linger_ms, int64_t request_limit_bytes,
                 bint mutes):
        self.busy = busy
        self.in_flight = in_flight
        self.numbering = numbering
        self.linger_ms = linger_ms
        self.request_limit_bytes = request_limit_bytes
        self.mutes = mutes

    # --- looking ---

    def ready(self, int64_t version, double now_ms, bint is_hurried, find_leader):
        """The queues that may send, by their leaders; when to look at the others; queues whose batch nobody wrote into
        although its time is over; and how many could send if they had a leader. `version` is that of the metadata."""
        cdef dict ready = {}
        cdef list empty = []
        cdef list queues
        cdef double wake_ms = INFINITE
        cdef double ready_ms
        cdef Py_ssize_t leaderless_count = 0
        cdef PartitionQueue queue
        cdef ProducerBatch batch
        for queue in list(self.busy):
            leader = queue.leader if queue.leader_version == version else find_leader(queue)
            batch = first_of(queue)
            if queue.is_muted or batch is None:
                continue
            ready_ms = ready_ms_of(queue, batch, now_ms, is_hurried, self.linger_ms)
            if ready_ms > now_ms:
                wake_ms = min(wake_ms, ready_ms)
            elif batch.record_count == 0:
                empty.append(queue)
            elif leader is None:
                leaderless_count += 1
            else:
                queues = <list> ready.get(leader)
                if queues is None:
                    queues = ready[leader] = []
                queues.append(queue)
        return ready, wake_ms, empty, leaderless_count

    def next_ready_ms(self, list queues, double now_ms, bint is_hurried):
        """When what was left behind may go, if only time holds it back."""
        cdef double wake_ms = INFINITE
        cdef double ready_ms
        cdef PartitionQueue queue
        cdef ProducerBatch batch
        for queue in queues:
            batch = first_of(queue)
            if batch is None or queue.is_muted:
                continue
            ready_ms = ready_ms_of(queue, batch, now_ms, is_hurried, self.linger_ms)
            if now_ms < ready_ms < wake_ms:
                wake_ms = ready_ms
        return wake_ms

    def oldest_ms(self):
        """When the oldest batch with records was made, of those that wait or are on their way; infinity for none."""
        cdef double oldest_ms = INFINITE
        cdef ProducerBatch batch
        for queue in list(self.busy):
            batch = first_of(<PartitionQueue?> queue)
            if batch is not None and batch.record_count and batch.created_ms < oldest_ms:
                oldest_ms = batch.created_ms
        for each in self.in_flight:
            batch = <ProducerBatch?> each
            if batch.created_ms < oldest_ms and not batch.delivery.is_done:
                oldest_ms = batch.created_ms
        return oldest_ms

    # --- out ---

    def drain(self, list queues, Py_ssize_t start, double now_ms, bint is_hurried):
        """The batches of one request, and where to begin next time."""
        cdef list batches = []
        cdef int64_t size_bytes = 0
        cdef int64_t first_bytes
        cdef Py_ssize_t count = len(queues)
        cdef Py_ssize_t step
        cdef PartitionQueue queue
        cdef object identity = None
        cdef object added = None
        if self.numbering is not None:
            identity, added = self.numbering.sendable()
        for step in range(start, start + count):
            queue = <PartitionQueue?> queues[step % count]
            if not self.lets_go(queue, now_ms, is_hurried, identity, added):
                continue
            first_bytes = first_of(queue).wire_bytes()
            if batches and size_bytes + first_bytes > self.request_limit_bytes:
                return batches, step
            size_bytes += first_bytes
            if added is not None and not batches:
                self.numbering.stamping()  # only transactions want to know
            batches.append(self.take(queue, identity))
        return batches, start + 1

    cdef bint lets_go(self, PartitionQueue queue, double now_ms, bint is_hurried, identity, added) except -1:
        """Whether the first batch of a queue may go now."""
        cdef ProducerBatch batch = first_of(queue)
        if batch is None or queue.is_muted or batch.record_count == 0:
            return False
        if batch.attempts > 0 or batch.stamp is not None:
            return may_leave(queue, now_ms, is_hurried, self.linger_ms, self.numbering)
        if ready_ms_of(queue, batch, now_ms, is_hurried, self.linger_ms) > now_ms:
            return False
        return self.numbering is None or self.may_number(queue, identity, added)

    cdef bint may_number(self, PartitionQueue queue, identity, added) except -1:
        """Whether a batch of this queue may get the next numbers."""
        cdef PartitionSequences numbers
        if identity is None or (added is not None and queue.name not in added):
            return False
        if queue.in_flight_count and not same(queue.proven, identity):
            return False
        numbers = self.numbers_of(queue)
        if numbers.unresolved_until is not None or numbers.gap_at is not None:
            return False
        return not numbers.in_flight or (same(numbers.identity, identity) and numbers.knows_oldest())

    cdef PartitionSequences numbers_of(self, PartitionQueue queue):
        if queue.numbers is None or queue.numbers.is_dropped:
            queue.numbers = self.numbering.numbers_of(queue.name)
        return queue.numbers

    cdef ProducerBatch take(self, PartitionQueue queue, identity):
        cdef ProducerBatch batch = <ProducerBatch?> queue.batches.popleft()
        cdef TopicState state = queue.state
        if batch.is_open:
            batch.is_open = False
            batch.delivery.record_count = batch.record_count
            queue.last_bytes = batch.used - HEADER_BYTES
        if queue.partition < len(state.open) and state.open[queue.partition] is batch:
            state.open[queue.partition] = None
        if not len(queue.batches):
            self.busy.pop(queue, None)
        if self.numbering is not None and batch.stamp is None:
            batch.stamp = self.numbers_of(queue).stamp(identity, batch.record_count)
        batch.leader_epoch = queue.leader_epoch
        if self.mutes:
            queue.is_muted = True
        self.in_flight[batch] = None
        queue.in_flight_count += 1
        return batch

    # --- and back ---

    def accept(self, batches, list places, list done):
        """The broker has all of them, at these offsets and times; `done` gets those whose memory may go back."""
        cdef Py_ssize_t place
        cdef ProducerBatch batch
        cdef tuple where
        if len(batches) != len(places):
            raise ValueError(f"{len(batches)} batches at {len(places)} places")
        for place in range(len(places)):
            batch = <ProducerBatch?> batches[place]
            where = <tuple?> places[place]
            if not self.end(batch):
                continue
            if not batch.delivery.is_done:
                self.acknowledge(batch, where[0], where[1])
            done.append(batch)

    cdef acknowledge(self, ProducerBatch batch, int64_t base_offset, int64_t append_time_ms):
        cdef PartitionQueue queue = <PartitionQueue?> batch.queue
        cdef Stamp stamp
        if self.numbering is not None and batch.stamp is not None:
            stamp = <Stamp?> batch.stamp
            self.numbers_of(queue).acknowledged(stamp, base_offset)
            queue.proven = stamp.identity
        queue.last_error = None
        batch.delivery.succeed(base_offset, append_time_ms)

    cpdef bint end(self, ProducerBatch batch) except -1:
        """The request that carried this batch is over, one way or the other; False when that was told before."""
        cdef PartitionQueue queue
        if batch not in self.in_flight:
            return False
        del self.in_flight[batch]
        queue = <PartitionQueue?> batch.queue
        queue.in_flight_count -= 1
        if self.mutes:
            queue.is_muted = False
        return True
