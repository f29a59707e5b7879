"""Transactions as an operator sees them: who has one open, where, since when; and how to end one that hangs.

And as a coordinator of several writers sees them: offsets are added to a transaction that was prepared elsewhere, and
it is ended, by whoever has its PreparedTransaction. Only what the brokers refuse for good is raised; what may pass is
asked again, which is safe, because the same end of the same epoch is answered as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.client.admin.plans import BrokerQuestion, Plan, Route, by_topic, error_of, raise_error_of
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.errors import BrokerError, InvalidProducerEpoch, OttlaError, ProducerFenced, broker_error
from ottla.light_dataclasses import dataclass, replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import (
    add_offsets_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from ottla.protocol.schema import Message
from ottla.values import OffsetAndMetadata, TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id in a list."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """What a coordinator knows of a transactional id."""

    transactional_id: str
    coordinator: int | None
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer as the leader of a partition remembers it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class ProducerIdAndEpoch(NamedTuple):
    """A producer's identity."""

    producer_id: int
    epoch: int


@dataclass(frozen=True)
class ListTransactions(BrokerQuestion[list[TransactionListing]]):
    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    running_longer_than_ms: int = -1
    transactional_id_pattern: str | None = None

    def ask(self, timeout_ms: int) -> Message:
        return list_transactions.ListTransactionsRequest(
            state_filters=list(self.states),
            producer_id_filters=list(self.producer_ids),
            duration_filter=self.running_longer_than_ms,
            transactional_id_pattern=self.transactional_id_pattern,
        )

    def answered_by(self, value: list[TransactionListing], node_id: int) -> list[TransactionListing]:
        return [replace(each, coordinator=node_id) for each in value]

    def answer(self, response: Any) -> list[TransactionListing]:
        raise_error_of(response)
        return [
            TransactionListing(each.transactional_id, each.producer_id, each.transaction_state)
            for each in response.transaction_states
        ]


@dataclass(frozen=True)
class DescribeTransactions(Plan[str, TransactionDescription]):
    route = Route.TRANSACTION

    def answered_by(self, value: TransactionDescription, node_id: int) -> TransactionDescription:
        return replace(value, coordinator=node_id)

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return describe_transactions.DescribeTransactionsRequest(transactional_ids=list(keys))

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, TransactionDescription | OttlaError]]:
        for each in response.transaction_states:
            yield each.transactional_id, error_of(each) or _described(each)


def _described(each: Any) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=each.transactional_id,
        coordinator=None,
        state=each.transaction_state,
        producer_id=each.producer_id,
        producer_epoch=each.producer_epoch,
        timeout_ms=each.transaction_timeout_ms,
        start_time_ms=None if each.transaction_start_time_ms < 0 else each.transaction_start_time_ms,
        partitions=frozenset(TopicPartition(topic.topic, index) for topic in each.topics for index in topic.partitions),
    )


class DescribeProducers(Plan[TopicPartition, list[ProducerState]]):
    route = Route.LEADER
    final = ()  # a leader that was just elected may not know its partition yet

    def request(self, keys: Sequence[TopicPartition], timeout_ms: int) -> Message:
        topics = [
            describe_producers.TopicRequest(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(keys).items()
        ]
        return describe_producers.DescribeProducersRequest(topics=topics)

    def results(
        self, keys: Sequence[TopicPartition], response: Any
    ) -> Iterator[tuple[TopicPartition, list[ProducerState] | OttlaError]]:
        for topic in response.topics:
            for each in topic.partitions:
                error = error_of(each)
                yield (
                    TopicPartition(topic.name, each.partition_index),
                    error if error is not None else [_producer(producer) for producer in each.active_producers],
                )


@dataclass(frozen=True)
class DescribeProducersOn(DescribeProducers):
    """The same as one replica remembers them, whoever leads."""

    route = Route.BROKER

    broker: int

    def target(self, key: TopicPartition) -> int:
        return self.broker


def _producer(each: Any) -> ProducerState:
    return ProducerState(
        producer_id=each.producer_id,
        producer_epoch=each.producer_epoch,
        last_sequence=each.last_sequence,
        last_timestamp_ms=each.last_timestamp,
        coordinator_epoch=None if each.coordinator_epoch < 0 else each.coordinator_epoch,
        transaction_start_offset=None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
    )


@dataclass(frozen=True)
class AbortTransaction(Plan[TopicPartition, None]):
    """Write the abort marker of one producer into one partition, past its coordinator: for hanging ones only."""

    route = Route.LEADER
    final = ()  # a leader that was just elected may not know its partition yet

    producer: ProducerIdAndEpoch
    coordinator_epoch: int

    def request(self, keys: Sequence[TopicPartition], timeout_ms: int) -> Message:
        marker = write_txn_markers.WritableTxnMarker(
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            transaction_result=False,
            topics=[
                write_txn_markers.WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(keys).items()
            ],
            coordinator_epoch=self.coordinator_epoch,
        )
        return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])

    def results(
        self, keys: Sequence[TopicPartition], response: Any
    ) -> Iterator[tuple[TopicPartition, OttlaError | None]]:
        for marker in response.markers:
            for topic in marker.topics:
                for each in topic.partitions:
                    yield TopicPartition(topic.name, each.partition_index), error_of(each)


@dataclass(frozen=True)
class FenceProducers(Plan[str, ProducerIdAndEpoch]):
    """Take over transactional ids: whoever used them is fenced, and what they had open is aborted."""

    route = Route.TRANSACTION
    one_key_per_request = True

    transaction_timeout_ms: int

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        # The time-out counts for nothing: the id is not used by us. It must only be one that the broker accepts.
        return init_producer_id.InitProducerIdRequest(
            transactional_id=keys[0], transaction_timeout_ms=self.transaction_timeout_ms
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, ProducerIdAndEpoch | OttlaError]]:
        if response.error_code:
            yield keys[0], broker_error(response.error_code, keys[0])
        else:
            yield keys[0], ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


# --- prepared transactions --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EndTransaction(Plan[str, None]):
    """Commit or abort what somebody else has prepared, with the epoch rising (KIP-890)."""

    route = Route.TRANSACTION

    prepared: PreparedTransaction
    commit: bool

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return end_txn.EndTxnRequest(
            transactional_id=self.prepared.transactional_id,
            producer_id=self.prepared.producer_id,
            producer_epoch=self.prepared.producer_epoch,
            committed=self.commit,
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, OttlaError | None]]:
        yield keys[0], _refusal(response.error_code, self.prepared)


class EndTransactionOfOldKind(EndTransaction):
    """The same for a transaction of the first kind: a higher version would raise the epoch."""

    at_most = 4


@dataclass(frozen=True)
class AddGroupToTransaction(Plan[str, None]):
    """Only for the first kind of transactions: the group must be known to be part of it before its offsets come."""

    route = Route.TRANSACTION

    prepared: PreparedTransaction
    group_id: str

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=self.prepared.transactional_id,
            producer_id=self.prepared.producer_id,
            producer_epoch=self.prepared.producer_epoch,
            group_id=self.group_id,
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, OttlaError | None]]:
        yield keys[0], _refusal(response.error_code, self.prepared)


@dataclass(frozen=True)
class AddOffsetsToTransaction(Plan[str, None]):
    """Offsets of a group that count if the transaction does."""

    route = Route.GROUP
    final = ()  # the topic of the offsets may have been made just now

    prepared: PreparedTransaction
    offsets: Mapping[TopicPartition, OffsetAndMetadata]

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        return txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=self.prepared.transactional_id,
            group_id=keys[0],
            producer_id=self.prepared.producer_id,
            producer_epoch=self.prepared.producer_epoch,
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name=topic, partitions=[self._position(topic, index) for index in indexes]
                )
                for topic, indexes in by_topic(self.offsets).items()
            ],
        )

    def _position(self, topic: str, index: int) -> txn_offset_commit.TxnOffsetCommitRequestPartition:
        position = self.offsets[TopicPartition(topic, index)]
        return txn_offset_commit.TxnOffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=position.offset,
            committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
            committed_metadata=position.metadata,
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, OttlaError | None]]:
        refused = [
            error
            for topic in response.topics
            for each in topic.partitions
            if (error := _refusal(each.error_code, self.prepared, f"{topic.name}-{each.partition_index}"))
        ]
        # All of them are sent again after an error that passes, so one that does not must be told first.
        yield keys[0], min(refused, key=lambda error: error.retriable, default=None)


class AddOffsetsToTransactionOfOldKind(AddOffsetsToTransaction):
    """The same for a transaction of the first kind: a higher version would add the group by itself."""

    at_most = 4


def _refusal(code: int, prepared: PreparedTransaction, about: str | None = None) -> BrokerError | None:
    if not code:
        return None
    who = f"{prepared.transactional_id!r}, producer {prepared.producer_id}, epoch {prepared.producer_epoch}"
    error = broker_error(code, f"{who}: {about}" if about else who)
    # Old coordinators say INVALID_PRODUCER_EPOCH for the same thing.
    return ProducerFenced(error.detail) if isinstance(error, InvalidProducerEpoch) else error
