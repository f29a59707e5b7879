"""Produce: append record batches to partitions that this broker leads.

acks 0: no answer; an error closes the connection, because that is the only thing the client can notice.
acks 1: answered when the leader's log has it. acks -1: when it is committed (waiting/produce.py).
Any other acks is INVALID_REQUIRED_ACKS for every partition. Internal topics are refused to clients.
From version 12 on a transactional batch adds its partition to the transaction; before, the partition must have been
added by AddPartitionsToTxn, which is verified once per transaction (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.answers import Later
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.network.processor import CloseConnection
from ottla.broker.verification import refused_produce
from ottla.broker.waiting.produce import Pending, WaitingProduce, is_settled
from ottla.broker.waiting.transaction import ask_patiently
from ottla.broker.waiting.turns import Done
from ottla.errors import (
    BrokerError,
    InvalidRequiredAcks,
    InvalidTopicException,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.schema import Message
from ottla.records import BatchInfo
from ottla.records.layout import HEADER_BYTES
from ottla.storage.producer_append import VerificationGuard
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ZSTD_SINCE = 7
TOPIC_IDS_SINCE = 13
ABORTABLE_SINCE = 11
IMPLICIT_ADD_SINCE = 12


Guards = dict[TopicPartition, VerificationGuard]
Refused = dict[TopicPartition, BrokerError]


def handle(broker: Broker, request: ProduceRequest, context: RequestContext) -> Message | Later[Message | None] | None:
    if request.acks not in (-1, 0, 1):
        return _refuse_all(request, InvalidRequiredAcks(f"acks is {request.acks}"))
    if request.transactional_id is not None:
        return _after_verification(broker, request, context)
    return _append(broker, request, context, {}, {})


def _append(
    broker: Broker, request: ProduceRequest, context: RequestContext, refused: Refused, guards: Guards
) -> Message | Later[Message | None] | None:
    now_ms = broker.clock.now_ms()
    pending: list[Pending] = []
    topics = []
    for topic in request.topic_data:
        name = _topic_name(broker, topic, context)
        answers = [
            _append_one(broker, name, data, request.acks, context, now_ms, pending, refused, guards)
            for data in topic.partition_data
        ]
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    response = ProduceResponse(responses=topics)
    for one in pending:
        broker.appended(one.partition)
    if request.acks == 0:
        _close_on_error(response)
        return None
    if request.acks == 1 or not pending:
        return response
    return _when_committed(broker, response, pending, request.timeout_ms)


# -- transactions ----------------------------------------------------------------------------------------------------


def _after_verification(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> Message | Later[Message | None] | None:
    """Append when the coordinator knows of every partition, and never before what the same producer sent before."""
    turns = broker.transactions.turns
    if not turns.is_taken(request.transactional_id):
        guards, fenced, producer = _unverified(broker, request, context)
        if not guards or producer is None:
            return _append(broker, request, context, fenced, guards)
    later: Later[Message | None] = Later()
    turns.take(request.transactional_id, lambda done: _verify(broker, request, context, later, done))
    return later


def _verify(
    broker: Broker, request: ProduceRequest, context: RequestContext, later: Later[Message | None], done: Done
) -> None:
    """Ask the coordinator about partitions that have no open transaction of this producer yet, then append."""
    try:
        guards, fenced, producer = _unverified(broker, request, context)
    except BrokerError as error:
        done()
        later.give(_refuse_all(request, error))
        return

    def verified(refused: Refused) -> None:
        told = {name: _told(error, context.api_version) for name, error in refused.items()}
        try:
            given = _append(broker, request, context, {**fenced, **told}, guards)
        except CloseConnection:
            given = None
            if context.connection is not None:
                context.connection.close()
        finally:
            done()
        if isinstance(given, Later):
            given.when_given(later.give)
        else:
            later.give(given)

    if not guards or producer is None:
        verified({})
        return
    add = partial(
        broker.transactions.add_partitions,
        request.transactional_id or "",
        *producer,
        guards,
        verify_only=context.api_version < IMPLICIT_ADD_SINCE,
        context=context,
    )
    ask_patiently(broker, add).when_given(verified)


def _told(error: BrokerError, version: int) -> BrokerError:
    return refused_produce(
        error, knows_abortable=version >= ABORTABLE_SINCE, adds_partitions=version >= IMPLICIT_ADD_SINCE
    )


def _unverified(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> tuple[Guards, Refused, tuple[int, int] | None]:
    """Guards of partitions to ask about, partitions whose producer is fenced, and who the producer is."""
    guards: Guards = {}
    fenced: Refused = {}
    producer: tuple[int, int] | None = None
    for topic in request.topic_data:
        name = _topic_name(broker, topic, context)
        for data in topic.partition_data:
            partition = broker.replicas.get(TopicPartition(str(name), data.index))
            if partition is None or data.records is None or len(data.records) < HEADER_BYTES:
                continue
            batch = BatchInfo(data.records)
            if not batch.is_transactional:
                continue
            producer = batch.producer_id, batch.producer_epoch
            try:
                guard = partition.log.producers.start_verification(
                    batch.producer_id,
                    batch.base_sequence,
                    batch.producer_epoch,
                    now_ms=broker.clock.now_ms(),
                    raises_epoch=context.api_version >= IMPLICIT_ADD_SINCE,
                )
            except BrokerError as error:
                fenced[partition.name] = error
                continue
            if guard is not None:
                guards[partition.name] = guard
    return guards, fenced, producer


# -- partitions ------------------------------------------------------------------------------------------------------


def _topic_name(broker: Broker, topic: TopicProduceData, context: RequestContext) -> str | BrokerError:
    if context.api_version < TOPIC_IDS_SINCE:
        return topic.name
    return broker.image.topic_name(topic.topic_id) or UnknownTopicId()


def _append_one(
    broker: Broker,
    topic: str | BrokerError,
    data: PartitionProduceData,
    acks: int,
    context: RequestContext,
    now_ms: int,
    pending: list[Pending],
    refused: Refused,
    guards: Guards,
) -> PartitionProduceResponse:
    try:
        if isinstance(topic, BrokerError):
            raise topic
        if topic in broker.internal_topics:
            raise InvalidTopicException(f"{topic} is written by the broker only")
        name = TopicPartition(topic, data.index)
        if name in refused:
            raise refused[name]
        partition = broker.replicas.get(name)
        if partition is None:
            raise UnknownTopicOrPartition(str(name))
        result = partition.append(
            data.records if data.records is not None else memoryview(b""),
            acks=acks,
            now_ms=now_ms,
            zstd_allowed=context.api_version >= ZSTD_SINCE,
            guard=guards.get(name),
        )
    except BrokerError as error:
        return _refusal(data.index, error)
    broker.topic_metrics.produced(topic, len(data.records or b""), result.last_offset - result.first_offset + 1)
    answer = PartitionProduceResponse(
        index=data.index,
        error_code=0,
        base_offset=result.first_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    pending.append(Pending(partition, result.next_offset, partition.leader_epoch, answer))
    return answer


def _refusal(index: int, error: BrokerError) -> PartitionProduceResponse:
    record_errors = [
        BatchIndexAndErrorMessage(batch_index=one.batch_index, batch_index_error_message=one.message)
        for one in getattr(error, "record_errors", ())
    ]
    return PartitionProduceResponse(
        index=index, error_code=error.code, base_offset=-1, record_errors=record_errors, error_message=str(error)
    )


def _when_committed(
    broker: Broker, response: ProduceResponse, pending: list[Pending], timeout_ms: int
) -> Message | Later[Message | None]:
    waiting = [one for one in pending if not is_settled(one)]
    if not waiting:
        return response
    later: Later[Any] = Later()
    operation = WaitingProduce(waiting, lambda: later.give(response))
    keys = [one.partition.name for one in waiting]
    if broker.produce_purgatory.wait(operation, keys, broker.clock.monotonic_ms() + timeout_ms):
        return response
    return later


def _close_on_error(response: ProduceResponse) -> None:
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise CloseConnection(f"Produce with acks=0 to {topic.name}: {answer.error_message}")


def _refuse_all(request: ProduceRequest, error: BrokerError) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refusal(data.index, error) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
