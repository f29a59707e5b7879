"""The requests of a transaction: how each is written, and what each answer means.

Every answer is read into one Verdict; which error is which is data, in one table per request, so that it can be held
against Kafka's. What all requests share:

    PRODUCER_FENCED, INVALID_PRODUCER_EPOCH   fatal, both shown as ProducerFenced: another producer took over
    TRANSACTION_ABORTABLE                     abort and go on (of an abort itself: fatal, nothing is left to try)
    NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE   find the coordinator and try again
    any other retriable error                 try again after a back-off
    anything unforeseen                       fatal, except for single partitions (AddPartitionsToTxn), where it aborts
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from ottla.client.group_metadata import GroupMetadata
from ottla.client.producer.transactions.states import (
    Kind,
    OffsetsNotCommitted,
    ProducerIdentity,
    TransactionFailed,
)
from ottla.errors import (
    NONE,
    BrokerError,
    ClusterAuthorizationFailed,
    ConcurrentTransactions,
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    OttlaError,
    ProducerFenced,
    RequestTimedOut,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownMemberId,
    UnknownProducerId,
    UnsupportedForMessageFormat,
    broker_error,
)
from ottla.light_dataclasses import dataclass
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.values import OffsetAndMetadata, TopicPartition

INIT_VERSION_LIMIT: Final = 5
"""Version 6 is two-phase commit (KIP-939), which no stable broker advertises."""
ADD_PARTITIONS_VERSION_LIMIT: Final = 3
"""From version 4 on the request is for brokers, which batch it and need cluster authorization."""
V1_OFFSETS_VERSION_LIMIT: Final = 4
V1_END_VERSION_LIMIT: Final = 4
V1_PRODUCE_VERSION_LIMIT: Final = 11
"""One version higher, the same request would add its partitions to the transaction by itself or bump the epoch."""

NO_TIMEOUT_MS: Final = 2**31 - 1


class Effect(Enum):
    DONE = "done"
    RETRY = "retry"
    ABORTABLE = "abortable"
    ABORTABLE_IF_BUMPED = "abortable if the epoch can be bumped"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer means. `find_coordinator`: look it up again; `soon`: the cause passes in milliseconds."""

    effect: Effect
    error: OttlaError | None = None
    find_coordinator: bool = False
    soon: bool = False


DONE: Final = Verdict(Effect.DONE)

_OVER: Final = {
    TransactionalIdAuthorizationFailed: Effect.FATAL,
    InvalidTxnState: Effect.FATAL,
    InvalidProducerIdMapping: Effect.FATAL,
    UnknownProducerId: Effect.ABORTABLE_IF_BUMPED,
}

EFFECTS: Final[Mapping[Kind, Mapping[type[BrokerError], Effect]]] = {
    Kind.INIT_PRODUCER_ID: {
        # An administrator can grant the right while the producer lives; it asks again from the beginning.
        TransactionalIdAuthorizationFailed: Effect.ABORTABLE,
        ClusterAuthorizationFailed: Effect.ABORTABLE,
        InvalidTransactionTimeout: Effect.FATAL,
    },
    Kind.ADD_PARTITIONS: {**_OVER, TopicAuthorizationFailed: Effect.ABORTABLE},
    Kind.ADD_OFFSETS: {**_OVER, GroupAuthorizationFailed: Effect.ABORTABLE},
    Kind.COMMIT_OFFSETS: {
        TransactionalIdAuthorizationFailed: Effect.FATAL,
        UnsupportedForMessageFormat: Effect.FATAL,
        GroupAuthorizationFailed: Effect.ABORTABLE,
        FencedInstanceId: Effect.ABORTABLE,
        UnknownMemberId: Effect.ABORTABLE,
        IllegalGeneration: Effect.ABORTABLE,
        GroupIdNotFound: Effect.ABORTABLE,
        StaleMemberEpoch: Effect.ABORTABLE,
    },
    Kind.END: _OVER,
    Kind.BUMP_EPOCH: {
        TransactionalIdAuthorizationFailed: Effect.ABORTABLE,
        ClusterAuthorizationFailed: Effect.ABORTABLE,
    },
}
_UNFORESEEN: Final = {Kind.ADD_PARTITIONS: Effect.ABORTABLE}
_NOT_A_MEMBER: Final = (UnknownMemberId, IllegalGeneration, GroupIdNotFound, StaleMemberEpoch)

_NO_PRODUCER_ID: Final = (
    "it may write to no topic at all, so it gets no producer id; a rule for WRITE on the topic is enough"
)


def verdict_on_error(kind: Kind, error: BrokerError, *, aborting: bool = False) -> Verdict:
    """What `error` in the answer to a `kind` of request means."""
    if isinstance(error, InvalidProducerEpoch | ProducerFenced):
        # Old coordinators say INVALID_PRODUCER_EPOCH for the same thing.
        return Verdict(Effect.FATAL, ProducerFenced(error.detail))
    if isinstance(error, TransactionAbortable):
        if aborting and kind is Kind.END:
            return Verdict(Effect.FATAL, TransactionFailed(f"the abort itself was refused: {error}"))
        return Verdict(Effect.ABORTABLE, error)
    if error.retriable:
        lookup = error.refresh_coordinator or (kind is Kind.COMMIT_OFFSETS and isinstance(error, RequestTimedOut))
        soon = kind is Kind.ADD_PARTITIONS and isinstance(error, ConcurrentTransactions)
        return Verdict(Effect.RETRY, error, find_coordinator=lookup, soon=soon)
    if isinstance(error, ClusterAuthorizationFailed) and not error.detail:
        error = ClusterAuthorizationFailed(_NO_PRODUCER_ID)
    effect = EFFECTS[kind].get(type(error))
    if effect is None:
        effect = _UNFORESEEN.get(kind, Effect.FATAL)
        return Verdict(effect, TransactionFailed(f"unexpected answer {error.name} to {kind.name.lower()}: {error}"))
    if isinstance(error, _NOT_A_MEMBER):
        return Verdict(effect, OffsetsNotCommitted(str(error)))
    return Verdict(effect, error)


def verdict_on_code(kind: Kind, code: int, detail: str | None = None, *, aborting: bool = False) -> Verdict:
    return DONE if code == NONE else verdict_on_error(kind, broker_error(code, detail), aborting=aborting)


# --- identity --------------------------------------------------------------------------------------------------------


def init_producer_id(
    transactional_id: str | None, timeout_ms: int, current: ProducerIdentity | None
) -> InitProducerIdRequest:
    """Ask for an identity; with `current`, for the next epoch of this one."""
    known = current or ProducerIdentity(-1, -1)
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms if transactional_id is not None else NO_TIMEOUT_MS,
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
    )


def end_txn(transactional_id: str, identity: ProducerIdentity, *, commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )


# --- partitions ------------------------------------------------------------------------------------------------------


def add_partitions(
    transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        by_topic[topic].append(partition)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in by_topic.items()],
    )


def verdict_on_partitions(response: AddPartitionsToTxnResponse) -> Verdict:
    """One verdict for all: the first that stops everything, else what the refused ones have in common."""
    refused: dict[TopicPartition, Verdict] = {}
    for topic in response.results_by_topic_v3_and_below:
        for result in topic.results_by_partition:
            verdict = verdict_on_code(Kind.ADD_PARTITIONS, result.partition_error_code, topic.name)
            if verdict.effect is Effect.DONE:
                continue
            if verdict.effect is not Effect.ABORTABLE or isinstance(verdict.error, TransactionAbortable):
                return verdict
            refused[TopicPartition(topic.name, result.partition_index)] = verdict
    if not refused:
        return DONE
    forbidden = sorted(
        {name.topic for name, verdict in refused.items() if isinstance(verdict.error, TopicAuthorizationFailed)}
    )
    if forbidden:
        return Verdict(Effect.ABORTABLE, TopicAuthorizationFailed(", ".join(forbidden)))
    reasons = "; ".join(f"{name}: {verdict.error}" for name, verdict in sorted(refused.items()))
    return Verdict(Effect.ABORTABLE, TransactionAbortable(f"partitions could not be added: {reasons}"))


# --- offsets ---------------------------------------------------------------------------------------------------------


def add_offsets(transactional_id: str, identity: ProducerIdentity, group_id: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )


def commit_offsets(
    transactional_id: str,
    identity: ProducerIdentity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: GroupMetadata,
) -> TxnOffsetCommitRequest:
    by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
    for name, position in sorted(offsets.items(), key=lambda item: item[0]):
        by_topic[name.topic].append(
            TxnOffsetCommitRequestPartition(
                partition_index=name.partition,
                committed_offset=position.offset,
                committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=found) for name, found in by_topic.items()],
    )


def verdict_on_offsets(response: TxnOffsetCommitResponse) -> tuple[set[TopicPartition], Verdict]:
    """Which partitions are committed, and what to do about the others."""
    committed: set[TopicPartition] = set()
    again: Verdict | None = None
    for topic in response.topics:
        for result in topic.partitions:
            verdict = verdict_on_code(Kind.COMMIT_OFFSETS, result.error_code, f"{topic.name}-{result.partition_index}")
            if verdict.effect is Effect.DONE:
                committed.add(TopicPartition(topic.name, result.partition_index))
            elif verdict.effect is not Effect.RETRY:
                return committed, verdict
            elif again is None or verdict.find_coordinator:
                again = verdict
    return committed, again or DONE
