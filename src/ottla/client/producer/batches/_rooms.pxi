# The native twin of rooms.py, a part of _append.pyx. Read the Python twin for what is done and why.
#
# What C changes: the queues of a topic are found by their number in its TopicState, and a batch is made without a call
# with names. What is unusual (a place that was waited at, compression) is the Python twin's, before anything is done.

from ottla.client.producer.batches.buffer_pool import Place
from ottla.client.producer.partitioner import next_partition

cdef object next_partition_of = next_partition
cdef object PlaceInLine = Place

cdef enum:
    FIRST_BYTES = 16384
    GROWTH = 4
    PLAIN_PARTITIONS = 64


cdef inline ProducerBatch open_at(TopicState state, int32_t partition):
    return <ProducerBatch> state.open[partition] if 0 <= partition < len(state.open) else None


cdef int stop_open(TopicState state, int32_t partition, list stopped) except -1:
    cdef ProducerBatch batch = open_at(state, partition)
    if batch is not None:
        batch.is_open = False
        batch.delivery.record_count = batch.record_count
        (<PartitionQueue?> batch.queue).last_bytes = batch.used - HEADER_BYTES
        state.open[partition] = None
        stopped.append(batch)
    return 0


cdef int32_t chosen_by(double fraction, list lengths, Py_ssize_t whole, Py_ssize_t total) except -1:
    """The partition at this fraction of all chances: first those with something in their queues, then the others."""
    cdef Py_ssize_t point = <Py_ssize_t> (fraction * <double> total)
    cdef Py_ssize_t place, length
    for place in range(len(lengths)):
        length = lengths[place]
        if length:
            if point < whole - length:
                return <int32_t> place
            point -= whole - length
    for place in range(len(lengths)):
        if not lengths[place]:
            if point < whole:
                return <int32_t> place
            point -= whole
    raise AssertionError("the chances add up to the total")


cdef class Rooms:
    """Opens the batches of one accumulator."""

    cdef object all
    cdef object twin
    cdef bint is_compressed

    def __init__(self, accumulator):
        from ottla.client.producer.batches.rooms import Rooms as PythonRooms

        self.all = accumulator
        self.twin = PythonRooms(accumulator)
        self.is_compressed = accumulator.compression is not NONE_CODEC

    def queue_of(self, state, partition):
        """The queue of a partition, made on first use."""
        return self.twin.queue_of(state, partition)

    def free(self, batches):
        """Nothing refers to these batches any more: memory back; the places in line that are granted by it."""
        cdef object pool = self.all.pool
        cdef dict incomplete = self.all.incomplete
        cdef list free = pool.free
        cdef int64_t buffer_bytes = pool.buffer_bytes
        cdef list others = []
        cdef ProducerBatch batch
        cdef int64_t size
        for each in batches:
            batch = <ProducerBatch?> each
            size, buffer = batch.release()
            incomplete.pop(batch, None)
            if buffer is not None and size == buffer_bytes == PyByteArray_GET_SIZE(buffer):
                free.append(buffer)
            else:
                others.append((size, buffer))
        return pool.give_back_all(others) if others or pool.line else others

    def make(self, TopicState state, partition, int64_t needed_bytes, double now_ms, place, list stopped, list granted):
        """A place to wait at, if there is no memory, and whether there was room already. `stopped` gets the batches
        that take no more records, `granted` the places that were granted when `place` was given up."""
        cdef int32_t chosen
        cdef ProducerBatch batch
        if place is not None or self.is_compressed:
            return self.twin.make(state, partition, needed_bytes, now_ms, place, stopped, granted)
        chosen = self.turn(state, needed_bytes, stopped) if partition is None else <int32_t> partition
        batch = open_at(state, chosen)
        if batch is not None and (batch.has_space(needed_bytes) or self.twin.grow(batch, needed_bytes)):
            return None, True
        return self.open_another(state, chosen, needed_bytes, now_ms, stopped), False

    cdef int32_t turn(self, TopicState state, int64_t needed_bytes, list stopped) except? -2:
        """Whose turn it is among the partitions, for a record without a key that found no room."""
        cdef int64_t turn_bytes = self.all.sizes.batch_bytes
        cdef bint is_over = state.sticky_bytes > 0 and state.sticky_bytes + needed_bytes >= turn_bytes
        cdef ProducerBatch batch = open_at(state, state.sticky)
        if state.sticky < 0 or (is_over and (batch is None or not batch.has_space(needed_bytes))):
            stop_open(state, state.sticky, stopped)
            state.stick_to(self.draw(state, self.available(state)))
        return state.sticky

    cdef tuple available(self, TopicState state):
        if self.all.avoided:
            return self.all.available_of(state.topic)
        return <tuple?> (<dict?> self.all.available).get(state.topic, ())

    cdef int32_t draw(self, TopicState state, tuple available) except? -2:
        """What partitioner.next_partition draws. Queues that are not empty are few: when each of them stands for the
        partition with its own number, as it does while all have leaders, nothing has to be searched or sorted."""
        cdef Py_ssize_t count = len(available)
        cdef Py_ssize_t whole = 1
        cdef Py_ssize_t total, index, place
        cdef list lengths
        cdef PartitionQueue queue
        if count == 0 or count > PLAIN_PARTITIONS or <int32_t?> available[count - 1] != count - 1:
            return next_partition_of(self.waiting_of(state), available, state.partition_count, self.all.chance)
        lengths = [0] * count
        total = 0
        if self.all.is_adaptive:
            for queue in <dict?> self.all.busy:
                if queue.state is state and queue.partition < count:
                    place = len(queue.batches)
                    lengths[queue.partition] = place
                    total += place
                    whole = max(whole, place + 1)
        return chosen_by(<double> self.all.chance.random(), lengths, whole, whole * count - total)

    cdef dict waiting_of(self, TopicState state):
        """The lengths of a topic's queues that are not empty."""
        cdef dict waiting = {}
        cdef PartitionQueue queue
        if self.all.is_adaptive:
            for queue in <dict?> self.all.busy:
                if queue.state is state:
                    waiting[queue.partition] = len(queue.batches)
        return waiting

    cdef object open_another(self, TopicState state, int32_t partition, int64_t needed_bytes, double now_ms,
                             list stopped):
        """Stop the batch that has no room and open another, if there is memory for it."""
        cdef PartitionQueue queue = self.queue_at(state, partition)
        cdef int64_t limit_bytes
        self.all.admit(queue.name)
        stop_open(state, partition, stopped)
        limit_bytes = self.limit(state, needed_bytes)
        found = self.memory(self.first_bytes(queue, limit_bytes, needed_bytes))
        if isinstance(found, PlaceInLine):
            return found
        self.open(queue, state, partition, found, limit_bytes, now_ms)
        return None

    cdef int64_t limit(self, TopicState state, int64_t needed_bytes) except -1:
        """How large a batch of this topic may become; brokers seldom refuse any."""
        cdef object sizes = self.all.sizes
        if sizes.refused_topics:
            return sizes.limit_bytes(state.topic, needed_bytes)
        return max(<int64_t> sizes.batch_bytes, needed_bytes)

    cdef PartitionQueue queue_at(self, TopicState state, int32_t partition):
        while len(state.queues) <= partition:
            state.queues.append(None)
        if state.queues[partition] is None:
            state.queues[partition] = self.twin.queue_of(state, partition)
        return <PartitionQueue?> state.queues[partition]

    cdef int64_t first_bytes(self, PartitionQueue queue, int64_t limit_bytes, int64_t needed_bytes):
        cdef int64_t size = FIRST_BYTES
        while size < queue.last_bytes or size < needed_bytes:
            size *= GROWTH
        return size if size < limit_bytes else limit_bytes

    cdef object memory(self, int64_t size):
        """A buffer that is free already, or what the pool says."""
        cdef object pool = self.all.pool
        cdef list free = pool.free
        if free and size == <int64_t> pool.buffer_bytes and not pool.line:
            return free.pop()
        return pool.allocate(size)

    cdef int open(self, PartitionQueue queue, TopicState state, int32_t partition, buffer, int64_t limit_bytes,
                  double now_ms) except -1:
        cdef ProducerBatch batch = ProducerBatch.__new__(ProducerBatch)
        batch.begin(queue, state.topic, partition, buffer, PyByteArray_GET_SIZE(buffer), limit_bytes, now_ms,
                    NONE_CODEC, None, 1.0)
        queue.batches.append(batch)
        (<dict?> self.all.busy)[queue] = None
        (<dict?> self.all.incomplete)[batch] = None
        state.set_open(partition, batch)
        return 0
