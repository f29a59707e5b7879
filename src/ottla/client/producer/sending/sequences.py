"""Sequence numbers: why a broker can tell a retry from a new batch, and a gap from an order.

1. Records of one producer id and epoch are numbered per partition from 0, without gaps; after 2^31 - 1 comes 0 again,
   so "later" is decided modulo 2^31.
2. A batch on its way has a Stamp, and its partition keeps the stamps in sequence order until the batch is
   acknowledged or given up. The sender writes the stamp into the batch header each time it sends: a stamp can
   change between two attempts (`was_reset`), when the epoch was bumped or an earlier batch was given up.
3. A partition moves to a new identity only when nothing of the old one is on its way, or when its stamps are
   rewritten as a whole.
4. A gap is a place where records will never come: the broker takes nothing after it in this epoch. What is before it
   is brought to its end with the old numbers; what is after it rests, and when nothing of it is on the wire any more it
   is numbered again under the next epoch. To number a batch again that may be in the log would write it twice.
5. A batch that was sent and then expired leaves its partition unresolved: nobody knows whether the broker has it. No
   new stamps are given until later acknowledgements prove that it arrived, or the epoch is bumped.
6. A broker remembers the last REMEMBERED_BATCHES batches. No batch is stamped that would push one out whose answer is
   not there: while a silent old leader is waited for, a new one could take many, and the retry would be a stranger.
7. A leader that started again from a snapshot knows only the newest batch, and refuses an older one that is in its log
   just as it refuses one after a gap. So a batch that may be written is not behind a gap before every later one that
   may be written was refused, too: the newest goes as a probe. A leader takes it only when all before it are there.
"""

from __future__ import annotations

from enum import Enum

from ottla.client.producer.batches.append_choice import PartitionSequences, Stamp
from ottla.client.producer.batches.stamps import (
    NO_OFFSET,
    REMEMBERED_BATCHES,
    SEQUENCE_COUNT,
    is_later,
    sequence_after,
)
from ottla.client.producer.transactions.states import ProducerIdentity
from ottla.values import TopicPartition

__all__ = [
    "NO_OFFSET",
    "REMEMBERED_BATCHES",
    "SEQUENCE_COUNT",
    "PartitionSequences",
    "Retry",
    "Sequences",
    "Stamp",
    "is_later",
    "sequence_after",
]


class Retry(Enum):
    """What to do with a batch that the broker would not take because of its numbers."""

    NO = "no"
    YES = "as it is"
    AFTER_BUMP = "with a new epoch"


class Sequences:
    """All partitions of one producer, and the rules about what may follow what."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        self._unresolved: set[TopicPartition] = set()

    def of(self, partition: TopicPartition) -> PartitionSequences:
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = PartitionSequences()
        return found

    def reset(self, partition: TopicPartition) -> None:
        if (numbers := self._partitions.pop(partition, None)) is not None:
            numbers.is_dropped = True

    def reset_all(self) -> None:
        for numbers in self._partitions.values():
            numbers.is_dropped = True
        self._partitions.clear()
        self._unresolved.clear()

    def may_drain(self, partition: TopicPartition, stamp: Stamp | None, identity: ProducerIdentity) -> bool:
        """Whether the first batch of the partition's queue may go; `stamp` is the one it has from an earlier try."""
        numbers = self.of(partition)
        if stamp is not None:
            # Retries go in order, one at a time: the broker takes nothing after a gap. Only a probe may overtake.
            may_go = not numbers.in_flight or (numbers.probe or numbers.in_flight[0]) is stamp
            if may_go and stamp.at_rest and numbers.is_behind_gap(stamp):
                return False  # it gets new numbers first
            stamp.at_rest = stamp.at_rest and not may_go
            return may_go
        if numbers.unresolved_until is not None or numbers.gap_at is not None:
            return False
        return not numbers.in_flight or (numbers.identity == identity and numbers.has_room)

    def mark_unresolved(self, partition: TopicPartition, expired: Stamp) -> None:
        self._unresolved.add(partition)
        self.of(partition).mark_unresolved(expired)

    def take_lost(self) -> list[TopicPartition]:
        """Settle unresolved partitions with nothing on its way; returns those where records are missing for good."""
        lost = []
        for partition in sorted(self._unresolved):
            numbers = self.of(partition)
            if numbers.unresolved_until is not None and numbers.in_flight:
                continue
            self._unresolved.discard(partition)
            if numbers.unresolved_until is not None and not numbers.is_next(numbers.next_sequence):
                lost.append(partition)
            numbers.unresolved_until = None
        return lost

    def after_unknown_producer(
        self, partition: TopicPartition, stamp: Stamp, log_start_offset: int, transactional: ProducerIdentity | None
    ) -> Retry:
        """UNKNOWN_PRODUCER_ID: the broker remembers nothing of us. `transactional`: the identity if in transactions."""
        numbers = self.of(partition)
        if log_start_offset == NO_OFFSET or stamp.was_reset:
            # The leader is moving and does not know yet, or the whole row was numbered again already.
            return Retry.YES
        if transactional is None:
            return Retry.AFTER_BUMP
        if numbers.last_acked_offset >= log_start_offset:
            return Retry.NO
        # Retention removed all this producer wrote, and with it the broker's memory: starting over loses nothing.
        numbers.start_over(transactional)
        return Retry.YES

    def after_out_of_order(self, partition: TopicPartition, stamp: Stamp, *, transactional: bool) -> Retry:
        """OUT_OF_ORDER_SEQUENCE_NUMBER: something before this batch is missing."""
        numbers = self.of(partition)
        if numbers.probe is stamp:
            numbers.probe = None
            numbers.refused_probes.append(stamp)
            return Retry.YES  # the oldest one is asked about again, and then perhaps another probe
        if numbers.choose_probe(stamp):
            return Retry.YES
        unresolved = numbers.unresolved_until
        if unresolved is None and not numbers.is_next(stamp.base_sequence):
            return Retry.YES  # what is missing is still being tried; this one fits in after it
        if transactional:
            # The answer may be to the numbers it had before.
            return Retry.YES if unresolved is None and stamp.was_reset else Retry.NO
        is_gap = unresolved is None or unresolved == stamp.base_sequence
        return Retry.AFTER_BUMP if is_gap else Retry.YES
