# The native twin of stamps.py and partition_queue.py, a part of _append.pyx. Read the Python twins for the reasons.

cdef enum:
    NO_SEQUENCE = -1
    NO_OFFSET = -1
    REMEMBERED_BATCHES = 5
    SEQUENCE_MASK = 0x7FFFFFFF  # sequences count modulo 2^31
    SEQUENCE_HALF = 0x40000000


cdef inline int32_t sequence_after(int64_t sequence, int64_t count) noexcept:
    return <int32_t> ((sequence + count) & SEQUENCE_MASK)


cdef inline bint is_later(int64_t sequence, int64_t other) noexcept:
    cdef int64_t distance = (sequence - other) & SEQUENCE_MASK
    return 0 < distance < SEQUENCE_HALF


cdef inline bint same(first, second) except -1:
    return first is second or first == second


@cython.freelist(64)
cdef class Stamp:
    """What a batch header says of its producer; owned by the sequences, read by the sender at each attempt."""

    cdef public object identity
    cdef public int32_t base_sequence
    cdef public int32_t record_count
    cdef public int64_t number
    cdef public bint was_reset
    cdef public bint at_rest
    cdef public bint may_be_written

    def __init__(self, identity, int32_t base_sequence, int32_t record_count, int64_t number=0):
        self.identity = identity
        self.base_sequence = base_sequence
        self.record_count = record_count
        self.number = number

    cdef inline int32_t last(self) noexcept:
        return sequence_after(self.base_sequence, <int64_t> self.record_count - 1)

    @property
    def last_sequence(self):
        return self.last()

    @property
    def producer_id(self):
        return self.identity.producer_id

    @property
    def epoch(self):
        return self.identity.epoch

    def rewrite(self, identity, int32_t base_sequence):
        self.identity = identity
        self.base_sequence = base_sequence
        self.was_reset = True
        self.may_be_written = False

    def __repr__(self):
        return f"<Stamp {self.producer_id}/{self.epoch} {self.base_sequence}+{self.record_count}>"


cdef class PartitionSequences:
    """The numbers of one partition."""

    cdef public object identity
    cdef public int32_t next_sequence
    cdef public int32_t last_acked
    cdef public int64_t last_acked_offset
    cdef public list in_flight
    cdef public int64_t stamped_count
    cdef public object unresolved_until
    cdef public object gap_at
    cdef public Stamp probe
    cdef public list refused_probes
    cdef public bint is_dropped

    def __init__(self):
        self.last_acked = NO_SEQUENCE
        self.last_acked_offset = NO_OFFSET
        self.in_flight = []
        self.refused_probes = []

    def stamp(self, identity, int32_t record_count):
        """The next batch; a partition with nothing on its way moves to `identity` first."""
        cdef Stamp stamp
        if not self.in_flight and not same(self.identity, identity):
            self.start_over(identity)
        stamp = Stamp.__new__(Stamp)
        stamp.identity = identity if self.identity is None else self.identity
        stamp.base_sequence = self.next_sequence
        stamp.record_count = record_count
        stamp.number = self.stamped_count
        self.stamped_count += 1
        self.next_sequence = sequence_after(self.next_sequence, record_count)
        self.in_flight.append(stamp)
        return stamp

    def start_over(self, identity):
        """Number from 0 under `identity`, beginning with what is on its way."""
        cdef int32_t sequence = 0
        for stamp in self.in_flight:
            (<Stamp> stamp).rewrite(identity, sequence)
            sequence = sequence_after(sequence, (<Stamp> stamp).record_count)
        self.identity = identity
        self.next_sequence = sequence
        self.last_acked = NO_SEQUENCE
        self.unresolved_until = self.gap_at = None
        self.end_probing()

    cpdef acknowledged(self, Stamp stamp, int64_t base_offset):
        cdef int32_t last
        if same(stamp.identity, self.identity):
            last = stamp.last()
            if self.last_acked == NO_SEQUENCE or is_later(last, self.last_acked):
                self.last_acked = last
        if base_offset != NO_OFFSET and base_offset + stamp.record_count - 1 > self.last_acked_offset:
            self.last_acked_offset = base_offset + stamp.record_count - 1
        self.forget(stamp)

    cpdef forget(self, Stamp stamp):
        """This batch is no longer on its way."""
        cdef list kept
        if self.in_flight and self.in_flight[0] is stamp:
            kept = self.in_flight[1:]  # answers come in order
        else:
            kept = [other for other in self.in_flight if other is not stamp]
        self.in_flight = kept
        self.end_probing()

    def close_gap(self, Stamp failed):
        """The broker refused `failed` for good: what follows moves into its place."""
        cdef Stamp stamp
        for stamp in self.in_flight:
            if is_later(stamp.base_sequence, failed.base_sequence):
                stamp.rewrite(stamp.identity, sequence_after(stamp.base_sequence, -failed.record_count))
        self.next_sequence = sequence_after(self.next_sequence, -failed.record_count)

    def split(self, Stamp stamp, list record_counts):
        """Stamps of the parts of a batch that was too large, in its place and with its numbers."""
        cdef list parts = []
        cdef int32_t sequence = stamp.base_sequence
        cdef Stamp part
        self.end_probing()
        for count in record_counts:
            part = Stamp(stamp.identity, sequence, count, stamp.number)
            part.may_be_written = stamp.may_be_written
            part.at_rest = True
            parts.append(part)
            sequence = sequence_after(sequence, count)
        place = next((place for place, other in enumerate(self.in_flight) if other is stamp), None)
        if place is not None:
            self.in_flight[place : place + 1] = parts
        return parts

    def is_next(self, int32_t sequence):
        """Whether `sequence` directly follows the last one the broker acknowledged."""
        return sequence == (0 if self.last_acked == NO_SEQUENCE else sequence_after(self.last_acked, 1))

    def found_gap(self, int32_t sequence):
        """Nothing from `sequence` on is in the log, or will be with the numbers it has."""
        if self.gap_at is None or is_later(self.gap_at, sequence):
            self.gap_at = sequence

    cpdef bint is_behind_gap(self, Stamp stamp) except -1:
        return self.gap_at is not None and not is_later(self.gap_at, stamp.base_sequence)

    def is_written(self, Stamp stamp):
        """Whether a batch that the broker refused as out of order is in the log: a later one was acknowledged."""
        if not stamp.may_be_written or not same(stamp.identity, self.identity) or self.last_acked == NO_SEQUENCE:
            return False
        return not is_later(stamp.last(), self.last_acked)

    def choose_probe(self, Stamp refused):
        """Whether a later batch may still show that the `refused` one is in the log; the newest such one goes next."""
        cdef Stamp other
        if not refused.may_be_written:
            return False
        later = [other for other in self.in_flight if is_later(other.base_sequence, refused.base_sequence)]
        for other in later:
            if not other.at_rest:
                return True  # its answer will tell
        self.probe = None
        for other in reversed(later):
            if other.may_be_written and other not in self.refused_probes and not self.is_behind_gap(other):
                self.probe = other
                break
        return self.probe is not None

    cpdef end_probing(self):
        """What was learned is no longer true, or no longer needed."""
        self.probe = None
        if self.refused_probes:
            self.refused_probes.clear()

    @property
    def has_room(self):
        """Whether the broker would still know the oldest batch on its way after one more."""
        return self.knows_oldest()

    cdef inline bint knows_oldest(self):
        return not self.in_flight or self.stamped_count - (<Stamp> self.in_flight[0]).number < REMEMBERED_BATCHES

    @property
    def is_calm(self):
        """Everything on its way can be numbered again: it is behind the gap, and none of it on the wire."""
        for stamp in self.in_flight:
            if not (<Stamp> stamp).at_rest or not self.is_behind_gap(stamp):
                return False
        return True

    def mark_unresolved(self, Stamp expired):
        cdef int32_t following = sequence_after(expired.last(), 1)
        if self.unresolved_until is None or is_later(following, self.unresolved_until):
            self.unresolved_until = following


cdef class PartitionQueue:
    """The batches of one partition that are not on their way."""

    cdef public object name
    cdef public TopicState state
    cdef public object batches
    cdef public bint is_muted
    cdef public int32_t in_flight_count
    cdef public int64_t last_bytes
    cdef public object last_error
    cdef public object proven
    cdef public PartitionSequences numbers
    cdef public object leader
    cdef public int32_t leader_epoch
    cdef public int64_t leader_version
    cdef int32_t partition

    def __init__(self, name, TopicState state):
        self.name = name
        self.partition = name[1]
        self.state = state
        self.batches = deque()
        self.leader_epoch = -1
        self.leader_version = -1

    def __repr__(self):
        return f"<PartitionQueue {self.name} {len(self.batches)} batches>"
