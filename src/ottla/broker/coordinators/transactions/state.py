"""What a coordinator knows of one transactional id, the states it goes through, and its record in the log.

    EMPTY -> ONGOING -> PREPARE_COMMIT -> COMPLETE_COMMIT -> ONGOING ...
                     -> PREPARE_ABORT  -> COMPLETE_ABORT  -> ONGOING ...

1. A TransactionMetadata is a frozen value. Only `move_to` changes the state, and it refuses what is not in MOVES.
2. PREPARE_* is the decision. Once its record is committed the transaction can only be completed that way; COMPLETE_*
   says that every partition has its marker.
3. DEAD and PREPARE_EPOCH_FENCE have numbers in Kafka, but never reach its log: an expired id is a tombstone, and a
   fence goes straight on to PREPARE_ABORT. Here they are names of those two steps, and no metadata is ever in them.
4. The epoch of a producer id only grows. Clients get at most LAST_CLIENT_EPOCH, so that one is left for fencing;
   after it a new producer id starts at 0. The id it replaces stays known as previous_producer_id until the next move,
   and the one it will be replaced by is next_producer_id while the markers of the old one are being written.
5. In the second version of transactions (KIP-890, client_version 2) the decision itself raises the epoch, so that
   nothing sent for one transaction can be mistaken for the next.

The record is Kafka's TransactionLogValue: version 1 since transaction.version 1, before that version 0, which lacks
the previous and next producer id and the client's version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, Self

from ottla.broker.coordinators.effects import StoredRecord
from ottla.errors import ConcurrentTransactions, MalformedMessage
from ottla.light_dataclasses import dataclass, replace
from ottla.protocol.stored.transactions import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ottla.values import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
LAST_EPOCH: Final = 2**15 - 1
LAST_CLIENT_EPOCH: Final = LAST_EPOCH - 1
NEVER_MS: Final = 2**31 - 1  # the time-out of a two-phase commit: another system decides, however long it takes
NO_START: Final = -1

EPOCH_BUMP_SINCE: Final = 2  # the transaction.version from which on every end raises the epoch
FLEXIBLE_RECORD_SINCE: Final = 1


class TransactionState(IntEnum):
    """The numbers are those of Kafka's log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """The name that DescribeTransactions and ListTransactions show."""
        return self.name.title().replace("_", "")


EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, PREPARE_EPOCH_FENCE = (
    TransactionState
)
STATES_BY_TEXT: Final[Mapping[str, TransactionState]] = {state.text: state for state in TransactionState}

# Straight to PREPARE_ABORT without a transaction: a producer of version 2 aborts without knowing whether the broker
# has seen any of its records (table in KIP-890).
MOVES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    EMPTY: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT, PREPARE_EPOCH_FENCE}),
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING, PREPARE_ABORT, DEAD}),
    DEAD: frozenset(),
    PREPARE_EPOCH_FENCE: frozenset({PREPARE_ABORT}),
}

PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
IDLE: Final = frozenset(state for state in TransactionState if DEAD in MOVES[state])
_STORED: Final = frozenset(TransactionState) - {DEAD, PREPARE_EPOCH_FENCE}


class IllegalMove(Exception):
    """A fault in us: a transaction was to go where the table has no way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One transactional id. Times are in ms; start_ms is NO_START while there is no transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    start_ms: int = NO_START
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    partitions: frozenset[TopicPartition] = frozenset()
    client_version: int = 0

    @property
    def is_prepared(self) -> bool:
        return self.state in PREPARED

    @property
    def is_idle(self) -> bool:
        return self.state in IDLE

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_CLIENT_EPOCH

    def check_no_pending_markers(self) -> None:
        """Raise CONCURRENT_TRANSACTIONS while the markers of a decided transaction are being written."""
        if self.is_prepared:
            raise ConcurrentTransactions(f"the markers of {self.transactional_id!r} are being written")

    def is_timed_out(self, now_ms: int) -> bool:
        return self.state is ONGOING and self.timeout_ms != NEVER_MS and self.start_ms + self.timeout_ms < now_ms

    # --- moves -------------------------------------------------------------------------------------------------------

    def move_to(self, state: TransactionState, now_ms: int, **changes: object) -> Self:
        """This id in another state; every move remembers which producer id it came from."""
        if state not in MOVES[self.state]:
            raise IllegalMove(f"{self.transactional_id!r} cannot go from {self.state.text} to {state.text}: {self!r}")
        return replace(
            self,
            state=state,
            last_update_ms=now_ms,
            previous_producer_id=self.producer_id,
            **changes,  # type: ignore[arg-type]
        )

    def initialised(self, producer_id: int, producer_epoch: int, timeout_ms: int, now_ms: int) -> Self:
        """A producer has this id and epoch now, and no transaction."""
        return self.move_to(
            EMPTY,
            now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_START,
        )

    def with_partitions(self, added: Iterable[TopicPartition], client_version: int, now_ms: int) -> Self:
        """These partitions take part too; the first ones begin the transaction."""
        return self.move_to(
            ONGOING,
            now_ms,
            partitions=self.partitions.union(added),
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int, fences: bool = False
    ) -> Self:
        """It is decided. The epoch grows with it from client version 2 on, and always when it fences the producer."""
        raises_epoch = (fences or client_version >= EPOCH_BUMP_SINCE) and self.producer_epoch < LAST_EPOCH
        return self.move_to(
            PREPARE_COMMIT if commit else PREPARE_ABORT,
            now_ms,
            producer_epoch=self.producer_epoch + raises_epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Self:
        """Every partition has its marker."""
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return self.move_to(
            COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            now_ms,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

    # --- the record --------------------------------------------------------------------------------------------------

    def record(self, transaction_version: int) -> StoredRecord:
        """As the log keeps it. Version 0 has no place for some fields; when they matter, version 1 is written."""
        needs_flexible = self.client_version >= EPOCH_BUMP_SINCE or self.next_producer_id != NO_PRODUCER_ID
        version = 1 if needs_flexible or transaction_version >= FLEXIBLE_RECORD_SINCE else 0
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=None if self.state is EMPTY else _grouped(self.partitions),
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
        )
        if version:
            value.previous_producer_id = self.previous_producer_id
            value.next_producer_id = self.next_producer_id
            value.client_transaction_version = self.client_version
        return StoredRecord(TransactionLogKey(transactional_id=self.transactional_id), value, version)

    @classmethod
    def from_record(cls, transactional_id: str, value: TransactionLogValue) -> Self:
        return cls(
            transactional_id=transactional_id,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            state=_stored_state(value.transaction_status, transactional_id),
            last_update_ms=value.transaction_last_update_timestamp_ms,
            start_ms=value.transaction_start_timestamp_ms,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            partitions=frozenset(
                TopicPartition(each.topic, partition)
                for each in value.transaction_partitions or ()
                for partition in each.partition_ids
            ),
            client_version=value.client_transaction_version,
        )


def tombstone(transactional_id: str) -> StoredRecord:
    """The id is forgotten."""
    return StoredRecord(TransactionLogKey(transactional_id=transactional_id), None)


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """In the order of names and numbers, so that the same state is always the same bytes."""
    grouped: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        grouped[topic].append(partition)
    return dict(grouped)


def _grouped(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in partitions_by_topic(partitions).items()]


def _stored_state(status: int, transactional_id: str) -> TransactionState:
    if status not in _STORED:
        raise MalformedMessage(
            f"the transaction log has state {status} for {transactional_id!r}, which is never stored"
        )
    return TransactionState(status)
