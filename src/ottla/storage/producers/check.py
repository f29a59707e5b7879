"""May these batches of producers be appended? Decides and changes nothing.

A producer numbers its records per partition. The leader takes a batch that continues the numbers, answers a repeated
one with where it already is, and refuses all others, so that retries neither lose, repeat nor reorder records.

1. Sequences count from 0 to 2^31 - 1 and then from 0 again.
2. A smaller epoch than the last one seen is refused (InvalidProducerEpoch): that producer was replaced.
3. A larger epoch starts its sequences at 0. A producer of which nothing is known may start anywhere, because its
   records may have been deleted; but one that raises its epoch at every transaction (KIP-890) must start at 0.
4. A transactional batch needs a transaction that the coordinator knows: one that is open here already, or the guard
   handed out when the question to the coordinator was begun. A marker that came meanwhile took the guard away, unless
   it belongs to the transaction before.
5. A marker of a former coordinator is refused (TransactionCoordinatorFenced). In the second version of transactions
   a marker has a larger epoch than the records it ends, so that a late one cannot end the next transaction; the same
   marker again, when nothing is open, is written again and does no harm.
6. What comes by replication was decided by the leader and is only booked.
"""

from __future__ import annotations

from ottla.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequenceNumber, TransactionCoordinatorFenced
from ottla.light_tuples import NamedTuple
from ottla.records.control import EndTransactionMarker
from ottla.records.layout import NO_PRODUCER_EPOCH
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.producers.entry import SEQUENCES, BatchMetadata, ProducerBatch, ProducerEntry
from ottla.storage.producers.open_transactions import CompletedTransaction

LAST_EPOCH = 2**15 - 1
STRICT_MARKERS_SINCE = 2


class VerificationGuard:
    """Given out when the coordinator is asked about a transaction; the append must bring the same one back."""

    __slots__ = ()


class Verification:
    """A transaction about which the coordinator is being asked."""

    __slots__ = ("epoch", "guard", "lowest_sequence", "raises_epoch", "started_ms")

    def __init__(self, sequence: int, epoch: int, *, raises_epoch: bool, started_ms: int) -> None:
        self.guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.raises_epoch = raises_epoch
        self.started_ms = started_ms

    def lower(self, sequence: int, epoch: int) -> None:
        """Another batch waits too: the lowest of this epoch must be written first, or it could never be."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.lowest_sequence = sequence


class Duplicate(NamedTuple):
    """The batch is in the log already; answer with where it is."""

    batch: BatchMetadata


class Accepted(NamedTuple):
    """What the state becomes when the batches have been written."""

    entries: dict[int, ProducerEntry]
    started: list[tuple[int, int]]
    completed: list[CompletedTransaction]
    # Producers whose question to the coordinator is answered by this append.
    verified: set[int]


class ProducerCheck:
    """The check of one append, for one producer."""

    def __init__(self, before: ProducerEntry, verification: Verification | None, origin: AppendOrigin) -> None:
        self._before = before
        self._verification = verification
        self._origin = origin
        self.entry = before

    def check_guard(self, batch: ProducerBatch, guard: VerificationGuard | None, *, required: bool) -> None:
        """A transactional batch from outside belongs to a transaction that the coordinator knows."""
        if not batch.is_transactional or self._origin is AppendOrigin.REPLICATION:
            return
        entry = self._before
        if entry.transaction_first_offset is not None and entry.epoch == batch.epoch:
            return
        if batch.epoch < entry.epoch:
            raise self._stale_epoch(batch.epoch, entry.epoch)
        known = self._verification and self._verification.guard
        if required and not batch.is_control and (guard is None or guard is not known):
            raise InvalidTxnState(
                f"producer {batch.producer_id} has no transaction here that the coordinator was asked about"
            )

    def ends_verification(self, batch: ProducerBatch) -> bool:
        """Whether the question to the coordinator is over when this batch is written.

        A marker that raised the epoch to the one that is asked about ended the transaction before: the question is
        about the next one, which the producer began as soon as it knew its new epoch, and its guard must stay.
        """
        if not batch.is_transactional or self._verification is None:
            return False
        return not (batch.is_control and self._verification.raises_epoch and batch.epoch == self._verification.epoch)

    def add_data(self, batch: ProducerBatch) -> bool:
        """Check and book one batch of records; True when it begins a transaction."""
        if batch.epoch < self.entry.epoch and self._origin is not AppendOrigin.REPLICATION:
            raise self._stale_epoch(batch.epoch, self.entry.epoch)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(batch)
        was_open = self.entry.transaction_first_offset is not None
        if was_open and not batch.is_transactional:
            raise InvalidTxnState(
                f"producer {batch.producer_id} has an open transaction and sent a batch that is not part of it"
            )
        self.entry = self.entry.with_batch(batch)
        return batch.is_transactional and not was_open

    def end_transaction(
        self, batch: ProducerBatch, marker: EndTransactionMarker, transaction_version: int | None
    ) -> CompletedTransaction | None:
        """Check and book a marker; None when there was no transaction to end."""
        if transaction_version is None:
            # Followers and start-up do not know it, and the leader has checked.
            if self._origin is not AppendOrigin.REPLICATION:
                raise ValueError("a marker needs the version of its transaction")
            transaction_version = 0
        self._check_marker_epoch(batch.epoch, is_strict=transaction_version >= STRICT_MARKERS_SINCE)
        self._check_coordinator(marker)
        first_offset = self.entry.transaction_first_offset
        self.entry = self.entry.with_marker(batch.epoch, marker.coordinator_epoch, batch.timestamp_ms)
        if first_offset is None:
            return None
        return CompletedTransaction(batch.producer_id, first_offset, batch.first_offset, not marker.commit)

    def _check_sequence(self, batch: ProducerBatch) -> None:
        sequence, verification, known = batch.first_sequence, self._verification, self._before
        if verification is not None:
            if verification.raises_epoch and sequence != 0 and not known.batches:
                raise self._out_of_order(sequence, "0, because its epoch has nothing here")
            if sequence > verification.lowest_sequence:
                raise self._out_of_order(sequence, f"{verification.lowest_sequence}, which is still being verified")
        if batch.epoch != self.entry.epoch:
            if sequence != 0 and self.entry.epoch != NO_PRODUCER_EPOCH:
                raise self._out_of_order(sequence, f"0, because epoch {batch.epoch} is new")
        elif known.epoch != NO_PRODUCER_EPOCH and sequence != _next_sequence(self.entry.last_sequence):
            raise self._out_of_order(sequence, f"{_next_sequence(self.entry.last_sequence)}")

    def _check_marker_epoch(self, epoch: int, *, is_strict: bool) -> None:
        current = self.entry.epoch
        if self._origin is AppendOrigin.REPLICATION or epoch > current or (epoch == current and not is_strict):
            return
        # The answer to the first one was lost, or its coordinator started again (KAFKA-19999). A producer that has used
        # up its epochs cannot have a larger one.
        is_repeated = epoch == current and (self.entry.transaction_first_offset is None or epoch == LAST_EPOCH)
        if not is_repeated:
            raise self._stale_epoch(epoch, current)

    def _check_coordinator(self, marker: EndTransactionMarker) -> None:
        current = self.entry.coordinator_epoch
        if marker.coordinator_epoch < current and self._origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFenced(
                f"the marker for producer {self.entry.producer_id} is from coordinator epoch "
                f"{marker.coordinator_epoch}, epoch {current} has written here"
            )

    def _stale_epoch(self, epoch: int, current: int) -> InvalidProducerEpoch:
        return InvalidProducerEpoch(f"producer {self.entry.producer_id} has epoch {epoch}, epoch {current} was seen")

    def _out_of_order(self, sequence: int, expected: str) -> OutOfOrderSequenceNumber:
        return OutOfOrderSequenceNumber(
            f"producer {self.entry.producer_id} sent sequence {sequence}, expected is {expected}"
        )


def _next_sequence(last_sequence: int) -> int:
    return (last_sequence + 1) % SEQUENCES
