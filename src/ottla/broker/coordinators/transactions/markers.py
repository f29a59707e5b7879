"""Commit and abort markers: which are still to be written where, and what an answer about one means.

1. WriteMarkers asks the runtime to have a marker written into every partition in it, by WriteTxnMarkers to the leaders
   or by appending here. It is carried out only after every Write before it in the same list of effects is committed;
   when that Write fails, it is dropped. A marker that goes out before its decision is committed could contradict the
   decision that another coordinator makes after a crash.
2. The runtime answers once per partition, with the same WriteMarkers: shard.markers_written(markers, partition, error).
   No error also means that the partition does not exist any more, so that there is nothing to write.
3. A failure that may pass is retried with growing pauses; `generation` distinguishes a late answer for one transaction
   from an answer for the next one, which in version 1 of transactions has the same producer id and epoch.
4. A partition that has seen a newer producer epoch or coordinator says so. Then another coordinator is at work, and
   this one stops; DropMarkers makes the runtime forget what it still holds.
5. Nothing here is in the log: after a change of coordinator all markers are written again, which does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, TypeAlias

from ottla.broker.coordinators.effects import Effect
from ottla.broker.coordinators.transactions.state import PREPARE_COMMIT, TransactionMetadata
from ottla.errors import (
    BrokerError,
    InvalidProducerEpoch,
    TransactionCoordinatorFenced,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
)
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

RETRY_FIRST_MS: Final = 20
RETRY_LONGEST_MS: Final = 1_000
# What nobody expects (a marker that is too large, say) is logged each time, so it is asked for rarely.
RETRY_UNEXPECTED_MS: Final = 10_000


class WriteMarkers(NamedTuple):
    """Write the decision into these partitions, and tell the shard about each of them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int
    generation: int


class DropMarkers(NamedTuple):
    """Stop writing the markers of this transaction; answers about them are not expected any more."""

    transactional_id: str
    generation: int


TransactionEffect: TypeAlias = Effect | WriteMarkers | DropMarkers


class MarkerOutcome(Enum):
    """What an answer about a marker means."""

    DONE = "done"
    RETRY = "retry"
    STOP = "stop"
    UNEXPECTED = "unexpected"


# A partition of the old format, or a leader that does not know markers, cannot hold transactional records either.
_NOTHING_TO_END: Final = (UnsupportedForMessageFormat, UnsupportedVersion)
_SOMEBODY_ELSE: Final = (InvalidProducerEpoch, TransactionCoordinatorFenced)


def outcome_of(error: BrokerError | None) -> MarkerOutcome:
    if error is None or isinstance(error, _NOTHING_TO_END):
        return MarkerOutcome.DONE
    if isinstance(error, _SOMEBODY_ELSE):
        return MarkerOutcome.STOP
    return MarkerOutcome.RETRY if error.retriable else MarkerOutcome.UNEXPECTED


class MarkerProgress:
    """The markers of one decided transaction that are not written yet."""

    __slots__ = ("failed", "generation", "is_stopped", "metadata", "remaining", "retries")

    def __init__(self, generation: int, metadata: TransactionMetadata) -> None:
        self.generation = generation
        self.metadata = metadata
        self.remaining = set(metadata.partitions)
        self.failed: set[TopicPartition] = set()
        self.retries = 0
        self.is_stopped = False

    @property
    def is_done(self) -> bool:
        return not self.remaining and not self.is_stopped

    def written(self, partition: TopicPartition) -> None:
        self.remaining.discard(partition)
        self.failed.discard(partition)

    def next_retry_ms(self, partition: TopicPartition, outcome: MarkerOutcome) -> int | None:
        """How long to wait before asking again, in ms; None when a timer for it runs already or nothing is left."""
        if partition not in self.remaining:
            return None
        is_first = not self.failed
        self.failed.add(partition)
        if not is_first:
            return None
        if outcome is MarkerOutcome.UNEXPECTED:
            return RETRY_UNEXPECTED_MS
        return min(RETRY_FIRST_MS << min(self.retries, 16), RETRY_LONGEST_MS)

    def pop_failed(self) -> frozenset[TopicPartition]:
        """What has to be asked for again, now that its time has come."""
        failed = frozenset(self.failed)
        self.failed.clear()
        self.retries += 1
        return failed


class MarkerBook:
    """The progress of every decided transaction of a shard."""

    def __init__(self, coordinator_epoch: int) -> None:
        self._coordinator_epoch = coordinator_epoch
        self._progress: dict[str, MarkerProgress] = {}
        self._reserved: dict[str, int] = {}
        self._generations = 0

    def __iter__(self) -> Iterator[MarkerProgress]:
        return iter(self._progress.values())

    def get(self, transactional_id: str) -> MarkerProgress | None:
        return self._progress.get(transactional_id)

    def order(self, prepared: TransactionMetadata) -> WriteMarkers:
        """The order to go out with a decision whose record is written just before; see `decided`."""
        self._generations += 1
        self._reserved[prepared.transactional_id] = self._generations
        return self._markers(prepared, self._generations, prepared.partitions)

    def decided(self, metadata: TransactionMetadata) -> None:
        """The record of the decision was replayed."""
        name = metadata.transactional_id
        generation = self._reserved.pop(name, None)
        if generation is None:
            self._generations += 1
            generation = self._generations
        self._progress[name] = MarkerProgress(generation, metadata)

    def forget(self, transactional_id: str) -> None:
        self._progress.pop(transactional_id, None)

    def waiting_for(self, markers: WriteMarkers) -> MarkerProgress | None:
        """What an answer to `markers` is about; None when nobody waits for it any more."""
        progress = self._progress.get(markers.transactional_id)
        if progress is None or progress.is_stopped or progress.generation != markers.generation:
            return None
        return progress if markers.coordinator_epoch == self._coordinator_epoch else None

    def reorder(self, progress: MarkerProgress, partitions: frozenset[TopicPartition]) -> list[WriteMarkers]:
        if not partitions or progress.is_stopped:
            return []
        return [self._markers(progress.metadata, progress.generation, partitions)]

    def _markers(
        self, metadata: TransactionMetadata, generation: int, partitions: frozenset[TopicPartition]
    ) -> WriteMarkers:
        return WriteMarkers(
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            coordinator_epoch=self._coordinator_epoch,
            commit=metadata.state is PREPARE_COMMIT,
            partitions=tuple(sorted(partitions)),
            transaction_version=metadata.client_version,
            generation=generation,
        )
