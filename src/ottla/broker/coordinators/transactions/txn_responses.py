"""What the transaction coordinator answers: codes by version, and the shapes of its responses.

1. PRODUCER_FENCED came later than the requests: clients of older versions get INVALID_PRODUCER_EPOCH.
2. A failed append becomes the error of a coordinator: the client finds the coordinator again or tries again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.broker.coordinators.transactions.state import (
    STATES_BY_TEXT,
    TransactionMetadata,
    partitions_by_topic,
)
from ottla.errors import (
    NONE,
    BrokerError,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidRequest,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    ProducerFenced,
    RecordListTooLarge,
    RequestTimedOut,
    TransactionalIdNotFound,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages import describe_transactions, list_transactions
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.values import TopicPartition

# The versions of each request from which on PRODUCER_FENCED may be answered.
INIT_KNOWS_FENCED: Final = 4
OTHERS_KNOW_FENCED: Final = 2

BATCHED_ADD_SINCE: Final = 4  # from here on AddPartitionsToTxn comes from brokers, for many transactions

_COORDINATOR_ERRORS: Final[Mapping[type[BrokerError], type[BrokerError]]] = {
    UnknownTopicOrPartition: CoordinatorNotAvailable,
    NotEnoughReplicas: CoordinatorNotAvailable,
    NotEnoughReplicasAfterAppend: CoordinatorNotAvailable,
    RequestTimedOut: CoordinatorNotAvailable,
    NotLeaderOrFollower: NotCoordinator,
    KafkaStorageError: NotCoordinator,
    MessageTooLarge: UnknownServerError,
    RecordListTooLarge: UnknownServerError,
}


def code_of(error: BrokerError, version: int, knows_fenced: int = OTHERS_KNOW_FENCED) -> int:
    if isinstance(error, ProducerFenced) and version < knows_fenced:
        return InvalidProducerEpoch.code
    return error.code


def append_error(error: BrokerError) -> BrokerError:
    """The error that a client gets when the transaction log could not be written."""
    for kind, answered in _COORDINATOR_ERRORS.items():
        if isinstance(error, kind):
            return answered(str(error))
    return error


def init_refused(error: BrokerError, version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code_of(error, version, INIT_KNOWS_FENCED), producer_epoch=-1)


def end_refused(error: BrokerError, version: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=code_of(error, version))


# --- AddPartitionsToTxn ----------------------------------------------------------------------------------------------

PartitionCodes = dict[TopicPartition, int]  # the error code of each partition of one transaction


def transactions_of(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    """The request in its newer shape: a client's has one transaction and never only verifies."""
    if version >= BATCHED_ADD_SINCE:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def partitions_of(transaction: AddPartitionsToTxnTransaction) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.name, partition) for topic in transaction.topics for partition in topic.partitions
    )


def add_response(codes_by_id: Iterable[tuple[str, PartitionCodes]], version: int) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(transactional_id=name, topic_results=_topic_results(codes))
        for name, codes in codes_by_id
    ]
    if version >= BATCHED_ADD_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def failed_codes(codes_by_id: Iterable[tuple[str, PartitionCodes]], code: int) -> list[tuple[str, PartitionCodes]]:
    """The same, when nothing could be kept: what would have been granted is refused with this code."""
    return [(name, {each: old or code for each, old in codes.items()}) for name, codes in codes_by_id]


def _topic_results(codes: PartitionCodes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition, partition_error_code=codes[TopicPartition(topic, partition)]
                )
                for partition in partitions
            ],
        )
        for topic, partitions in partitions_by_topic(codes).items()
    ]


# --- looking ---------------------------------------------------------------------------------------------------------


def described(
    transactional_id: str, metadata: TransactionMetadata | None, partitions: Iterable[TopicPartition]
) -> describe_transactions.TransactionState:
    """`partitions` are those that still have no marker."""
    if metadata is None:
        return not_described(transactional_id, TransactionalIdNotFound() if transactional_id else InvalidRequest())
    return describe_transactions.TransactionState(
        error_code=NONE,
        transactional_id=transactional_id,
        transaction_state=metadata.state.text,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[
            describe_transactions.TopicData(topic=topic, partitions=numbers)
            for topic, numbers in partitions_by_topic(partitions).items()
        ],
    )


def not_described(transactional_id: str, error: BrokerError) -> describe_transactions.TransactionState:
    return describe_transactions.TransactionState(
        error_code=error.code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def listed(
    transactions: Iterable[TransactionMetadata],
    request: list_transactions.ListTransactionsRequest,
    now_ms: int,
) -> list_transactions.ListTransactionsResponse:
    """Those that pass every filter but the pattern; a state that does not exist is told as unknown, and none has it."""
    states = {STATES_BY_TEXT[text] for text in request.state_filters if text in STATES_BY_TEXT}
    producer_ids = set(request.producer_id_filters)

    def passes(each: TransactionMetadata) -> bool:
        return (
            (not producer_ids or each.producer_id in producer_ids)
            and (not request.state_filters or each.state in states)
            and (request.duration_filter < 0 or now_ms - each.start_ms > request.duration_filter)
        )

    return list_transactions.ListTransactionsResponse(
        error_code=NONE,
        unknown_state_filters=[text for text in dict.fromkeys(request.state_filters) if text not in STATES_BY_TEXT],
        transaction_states=[
            list_transactions.TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.text,
            )
            for each in transactions
            if passes(each)
        ],
    )
