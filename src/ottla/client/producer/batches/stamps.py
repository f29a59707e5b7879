"""The numbers of one partition: stamps of batches on their way, in order, and what is known of the gaps between them.

Why there are numbers, and the rules by their numbers, are told in sending/sequences.py; here are the two classes that
every batch passes through. The readable twin; the native one is in _stamps.pxi.
"""

from __future__ import annotations

from typing import Final

from ottla.client.producer.transactions.states import ProducerIdentity

SEQUENCE_COUNT: Final = 2**31
_HALF: Final = SEQUENCE_COUNT // 2
NO_SEQUENCE: Final = -1
REMEMBERED_BATCHES: Final = 5
NO_OFFSET: Final = -1


def sequence_after(sequence: int, count: int) -> int:
    """The number `count` places after (before, when negative), around the end."""
    return (sequence + count) % SEQUENCE_COUNT


def is_later(sequence: int, other: int) -> bool:
    """Whether `sequence` comes after `other`; right while they are less than 2^30 apart."""
    return 0 < (sequence - other) % SEQUENCE_COUNT < _HALF


class Stamp:
    """What a batch header says of its producer; owned by the sequences, read by the sender at each attempt."""

    __slots__ = (
        "at_rest",
        "base_sequence",
        "identity",
        "may_be_written",
        "number",
        "record_count",
        "was_reset",
    )

    def __init__(self, identity: ProducerIdentity, base_sequence: int, record_count: int, number: int = 0) -> None:
        self.identity = identity
        self.base_sequence = base_sequence
        self.record_count = record_count
        self.number = number  # how many batches of the partition were stamped before it
        self.was_reset = False
        self.at_rest = False  # answered with an error and not sent again yet
        self.may_be_written = False  # an attempt with these numbers ended without a certain answer

    @property
    def last_sequence(self) -> int:
        return sequence_after(self.base_sequence, self.record_count - 1)

    @property
    def producer_id(self) -> int:
        return self.identity.producer_id

    @property
    def epoch(self) -> int:
        return self.identity.epoch

    def rewrite(self, identity: ProducerIdentity, base_sequence: int) -> None:
        self.identity = identity
        self.base_sequence = base_sequence
        self.was_reset = True
        self.may_be_written = False

    def __repr__(self) -> str:
        return f"<Stamp {self.producer_id}/{self.epoch} {self.base_sequence}+{self.record_count}>"


class PartitionSequences:
    """The numbers of one partition."""

    __slots__ = (
        "gap_at",
        "identity",
        "in_flight",
        "is_dropped",
        "last_acked",
        "last_acked_offset",
        "next_sequence",
        "probe",
        "refused_probes",
        "stamped_count",
        "unresolved_until",
    )

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None
        self.next_sequence = 0
        self.last_acked = NO_SEQUENCE
        self.last_acked_offset = NO_OFFSET
        self.in_flight: list[Stamp] = []
        self.stamped_count = 0
        self.unresolved_until: int | None = None
        self.gap_at: int | None = None
        self.probe: Stamp | None = None  # goes before all others, to learn how far the log reaches
        self.refused_probes: list[Stamp] = []
        self.is_dropped = False  # nobody counts with it any more: the partition has, or will have, another one

    def stamp(self, identity: ProducerIdentity, record_count: int) -> Stamp:
        """The next batch; a partition with nothing on its way moves to `identity` first."""
        if self.identity != identity and not self.in_flight:
            self.start_over(identity)
        stamp = Stamp(self.identity or identity, self.next_sequence, record_count, self.stamped_count)
        self.stamped_count += 1
        self.next_sequence = sequence_after(self.next_sequence, record_count)
        self.in_flight.append(stamp)
        return stamp

    def start_over(self, identity: ProducerIdentity) -> None:
        """Number from 0 under `identity`, beginning with what is on its way."""
        sequence = 0
        for stamp in self.in_flight:
            stamp.rewrite(identity, sequence)
            sequence = sequence_after(sequence, stamp.record_count)
        self.identity = identity
        self.next_sequence = sequence
        self.last_acked = NO_SEQUENCE
        self.unresolved_until = self.gap_at = None
        self.end_probing()

    def acknowledged(self, stamp: Stamp, base_offset: int) -> None:
        if stamp.identity == self.identity:
            last = stamp.last_sequence
            if self.last_acked == NO_SEQUENCE or is_later(last, self.last_acked):
                self.last_acked = last
        if base_offset != NO_OFFSET:
            self.last_acked_offset = max(self.last_acked_offset, base_offset + stamp.record_count - 1)
        self.forget(stamp)

    def forget(self, stamp: Stamp) -> None:
        """This batch is no longer on its way."""
        self.in_flight = [other for other in self.in_flight if other is not stamp]
        self.end_probing()

    def close_gap(self, failed: Stamp) -> None:
        """The broker refused `failed` for good: what follows moves into its place."""
        for stamp in self.in_flight:
            if is_later(stamp.base_sequence, failed.base_sequence):
                stamp.rewrite(stamp.identity, sequence_after(stamp.base_sequence, -failed.record_count))
        self.next_sequence = sequence_after(self.next_sequence, -failed.record_count)

    def split(self, stamp: Stamp, record_counts: list[int]) -> list[Stamp]:
        """Stamps of the parts of a batch that was too large, in its place and with its numbers."""
        self.end_probing()
        parts, sequence = [], stamp.base_sequence
        for count in record_counts:
            parts.append(Stamp(stamp.identity, sequence, count, stamp.number))
            parts[-1].may_be_written, parts[-1].at_rest = stamp.may_be_written, True
            sequence = sequence_after(sequence, count)
        place = next((place for place, other in enumerate(self.in_flight) if other is stamp), None)
        if place is not None:
            self.in_flight[place : place + 1] = parts
        return parts

    def is_next(self, sequence: int) -> bool:
        """Whether `sequence` directly follows the last one the broker acknowledged."""
        return sequence == (0 if self.last_acked == NO_SEQUENCE else sequence_after(self.last_acked, 1))

    def found_gap(self, sequence: int) -> None:
        """Nothing from `sequence` on is in the log, or will be with the numbers it has."""
        if self.gap_at is None or is_later(self.gap_at, sequence):
            self.gap_at = sequence

    def is_behind_gap(self, stamp: Stamp) -> bool:
        return self.gap_at is not None and not is_later(self.gap_at, stamp.base_sequence)

    def is_written(self, stamp: Stamp) -> bool:
        """Whether a batch that the broker refused as out of order is in the log: a later one was acknowledged."""
        if not stamp.may_be_written or stamp.identity != self.identity or self.last_acked == NO_SEQUENCE:
            return False
        return not is_later(stamp.last_sequence, self.last_acked)

    def choose_probe(self, refused: Stamp) -> bool:
        """Whether a later batch may still show that the `refused` one is in the log; the newest such one goes next."""
        if not refused.may_be_written:
            return False
        later = [other for other in self.in_flight if is_later(other.base_sequence, refused.base_sequence)]
        if not all(other.at_rest for other in later):
            return True  # its answer will tell
        unasked = [other for other in later if other.may_be_written and other not in self.refused_probes]
        self.probe = next((other for other in reversed(unasked) if not self.is_behind_gap(other)), None)
        return self.probe is not None

    def end_probing(self) -> None:
        """What was learned is no longer true, or no longer needed."""
        self.probe = None
        self.refused_probes.clear()

    @property
    def has_room(self) -> bool:
        """Whether the broker would still know the oldest batch on its way after one more."""
        return not self.in_flight or self.stamped_count - self.in_flight[0].number < REMEMBERED_BATCHES

    @property
    def is_calm(self) -> bool:
        """Everything on its way can be numbered again: it is behind the gap, and none of it on the wire."""
        return all(stamp.at_rest and self.is_behind_gap(stamp) for stamp in self.in_flight)

    def mark_unresolved(self, expired: Stamp) -> None:
        following = sequence_after(expired.last_sequence, 1)
        if self.unresolved_until is None or is_later(following, self.unresolved_until):
            self.unresolved_until = following
