"""Produce: append record batches to partitions that this broker leads.

acks 0: no answer; an error closes the connection, because that is the only thing the client can notice.
acks 1: answered when the leader's log has it; on a partition with one durable replica, when it is on the disk, because
whoever is answered can read it. acks -1: when it is committed (produce/committed.py).
Other values of acks are INVALID_REQUIRED_ACKS for every partition. Internal topics are refused to clients.
From version 12 on a transactional batch adds its partition to the transaction; before, the partition must have been
added by AddPartitionsToTxn, which is verified once per transaction (KIP-890).

Requests and answers are flat values here, not messages (produce_frames.py): every record comes this way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Set
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.network.processor import CloseConnection
from ottla.broker.produce.append import (
    Appending,
    Guards,
    RefusedPartitions,
    Traits,
    topic_name,
    traits_of,
)
from ottla.broker.produce.choice import scan, write, write_run
from ottla.broker.produce.committed import Uncommitted, count_refusal, wait_until_committed
from ottla.broker.produce.frames import Produce, ProduceResult, ProduceResults, Topic
from ottla.broker.produce.frames import write as write_fields
from ottla.broker.produce.patience import ask_patiently
from ottla.broker.produce.runs import answer_run, are_writable
from ottla.broker.produce.schemas import check_schemas_then, wants_schemas
from ottla.broker.produce.verification import refused_produce
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work, awaited
from ottla.broker.requests.served import ANY_FRAME_BYTES, ENTRIES, Quota, Runs, Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError, InvalidRequiredAcks
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.schema import Buffer
from ottla.records import BatchInfo
from ottla.records.layout import HEADER_BYTES
from ottla.storage.producers.check import VerificationGuard
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ABORTABLE_SINCE = 11
IMPLICIT_ADD_SINCE = 12

Produced: TypeAlias = ProduceResults | Work[ProduceResults | None] | None


def codec(
    version: int,
) -> tuple[Callable[[Buffer, int], tuple[Produce, int]], Callable[[ProduceResults], list[Buffer]]]:
    """Flat values instead of messages."""
    return partial(scan, version, ENTRIES), partial(write, version)


def throttled(version: int) -> Callable[[ProduceResults, int], list[Buffer]]:
    """Writes answers that say for how long to wait; there are few of them."""
    return partial(write_fields, version)


def runs(version: int) -> Runs:
    """The same for requests that came together."""
    return Runs(partial(answer_run, may_write=WRITE_TOPIC), partial(write_run, version))


WRITE_TOPIC = Need(AclOperation.WRITE, AclResource.TOPIC, Refused.ENTRY)
WRITE_ID = Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, when="records of a transaction")
SERVES = Served(
    ProduceRequest,
    frame_bytes=ANY_FRAME_BYTES,
    needs=(WRITE_TOPIC, WRITE_ID),
    quota=Quota.PRODUCE,
    codec=codec,
    throttled=throttled,
    runs=runs,
)


def handle(broker: Broker, request: Produce, context: RequestContext) -> Produced:
    traits = traits_of(request)
    if traits.is_wide:
        return _handle_wide(broker, request, context, traits)
    return _handle_any(broker, request, context, traits)


async def _handle_wide(
    broker: Broker, request: Produce, context: RequestContext, traits: Traits
) -> ProduceResults | None:
    """Hold the connection first: this takes a while, and so does its answer, which is written apart then."""
    with broker.pacing.turn(context.connection, always_finishes=True) as pace:
        await pace.pause()
    return await awaited(_handle_any(broker, request, context, traits))


def _handle_any(broker: Broker, request: Produce, context: RequestContext, traits: Traits) -> Produced:
    if traits.is_transactional and not _may_use_id(broker, request, context):
        return _refuse_all(broker, request, WRITE_ID.refusal(context))
    if broker.access.is_on:
        known = WRITE_TOPIC.remembered(broker, context)
        for topic, _ in request.topics:
            if topic not in known:
                return _handle_writable(broker, request, context, traits, known)
    return _handle(broker, request, context, traits)


def _handle(broker: Broker, request: Produce, context: RequestContext, traits: Traits) -> Produced:
    if Partition.some_check_schemas and wants_schemas(broker, request):
        return check_schemas_then(_handle_known, broker, request, context, traits)
    return _handle_known(broker, request, context, traits)


def _handle_known(broker: Broker, request: Produce, context: RequestContext, traits: Traits) -> Produced:
    if request.acks not in (-1, 0, 1):
        return _refuse_all(broker, request, InvalidRequiredAcks(f"acks is {request.acks}"))
    if request.transactional_id is not None:
        return _append_in_transaction(broker, request, context, traits)
    return _append(broker, request, context, traits, {}, {})


# -- access ----------------------------------------------------------------------------------------------------------


def _may_use_id(broker: Broker, request: Produce, context: RequestContext) -> bool:
    """Records of a transaction belong to its id: without one nobody may write them (CVE-2018-17196)."""
    return request.transactional_id is not None and WRITE_ID.is_met(broker, context, request.transactional_id)


def _handle_writable(
    broker: Broker, request: Produce, context: RequestContext, traits: Traits, known: Set[str]
) -> Produced:
    """Ask about topics that are not known to be writable; an id that nobody has is told as that."""
    if are_writable(broker, request, known):
        return _handle(broker, request, context, traits)
    refused = {
        topic
        for topic, _ in request.topics
        if (name := topic_name(broker, topic)) is not None and not WRITE_TOPIC.is_met(broker, context, name)
    }
    if refused:
        return _handle_rest(broker, request, context, traits, refused)
    return _handle(broker, request, context, traits)


async def _handle_rest(
    broker: Broker, request: Produce, context: RequestContext, traits: Traits, refused: Collection[Topic]
) -> ProduceResults | None:
    """Append to the other topics, and answer for all of them."""
    writable = [each for each in request.topics if each[0] not in refused]
    unwritable = [each for each in request.topics if each[0] in refused]
    answers = await awaited(_handle(broker, request._replace(topics=writable), context, traits)) if writable else []
    denied = _refuse_all(broker, request._replace(topics=unwritable), WRITE_TOPIC.refusal(context))
    return None if answers is None or denied is None else answers + denied


# -- appending -------------------------------------------------------------------------------------------------------


def _append(
    broker: Broker,
    request: Produce,
    context: RequestContext,
    traits: Traits,
    refused: RefusedPartitions,
    guards: Guards,
) -> Produced:
    if traits.takes_long:
        return _append_with_pauses(broker, request, context, refused, guards)
    appending = Appending(broker, request.acks, context, refused, guards)
    answers, uncommitted = appending.add(request)
    appending.append()
    return _acknowledge(broker, request, answers, uncommitted)


async def _append_with_pauses(
    broker: Broker, request: Produce, context: RequestContext, refused: RefusedPartitions, guards: Guards
) -> ProduceResults | None:
    appending = Appending(broker, request.acks, context, refused, guards)
    with broker.pacing.turn(context.connection, always_finishes=True) as pace:
        answers, uncommitted = await appending.add_with_pauses(request, pace)
        await appending.append_with_pauses(pace)
    return await awaited(_acknowledge(broker, request, answers, uncommitted))


def _acknowledge(broker: Broker, request: Produce, answers: ProduceResults, uncommitted: list[Uncommitted]) -> Produced:
    if request.acks == 0:
        _close_on_error(answers)
        return None
    if uncommitted:
        return wait_until_committed(broker, answers, uncommitted, request.timeout_ms)
    return answers


# -- transactions ----------------------------------------------------------------------------------------------------


def _append_in_transaction(broker: Broker, request: Produce, context: RequestContext, traits: Traits) -> Produced:
    """Append when the coordinator knows of every partition, and never before what the same producer sent before."""
    if not broker.transactions.turns.is_held(request.transactional_id):
        guards, fenced, producer = _unverified(broker, request, context)
        if not guards or producer is None:
            return _append(broker, request, context, traits, fenced, guards)
    return _verify_then_append(broker, request, context)


async def _verify_then_append(broker: Broker, request: Produce, context: RequestContext) -> ProduceResults | None:
    """Ask the coordinator about partitions that have no open transaction of this producer yet, then append.

    The next request of the producer may begin when this one is appended; it need not be committed.
    """
    async with broker.transactions.turns.acquire(request.transactional_id):
        try:
            guards, fenced, producer = _unverified(broker, request, context)
        except BrokerError as error:
            return _refuse_all(broker, request, error)
        refused = dict(fenced)
        if guards and producer is not None:
            refused |= await _verify(broker, request, context, guards, producer)
        appending = Appending(broker, request.acks, context, refused, guards)
        with broker.pacing.turn(context.connection, always_finishes=True) as pace:
            answers, uncommitted = await appending.add_with_pauses(request, pace)
            await appending.append_with_pauses(pace)
    return await awaited(_acknowledge(broker, request, answers, uncommitted))


async def _verify(
    broker: Broker, request: Produce, context: RequestContext, guards: Guards, producer: tuple[int, int]
) -> dict[TopicPartition, BrokerError]:
    add = partial(
        broker.transactions.add_partitions,
        request.transactional_id or "",
        *producer,
        guards,
        verify_only=context.api_version < IMPLICIT_ADD_SINCE,
        context=context,
    )
    refused = await ask_patiently(broker, add)
    return {name: _for_client(error, context.api_version) for name, error in refused.items()}


def _for_client(error: BrokerError, version: int) -> BrokerError:
    return refused_produce(
        error, knows_abortable=version >= ABORTABLE_SINCE, adds_partitions=version >= IMPLICIT_ADD_SINCE
    )


def _unverified(
    broker: Broker, request: Produce, context: RequestContext
) -> tuple[Guards, RefusedPartitions, tuple[int, int] | None]:
    """Guards of partitions to ask about, partitions whose producer is fenced, and who the producer is."""
    guards: dict[TopicPartition, VerificationGuard] = {}
    fenced: dict[TopicPartition, BrokerError] = {}
    producer: tuple[int, int] | None = None
    for topic, partitions in request.topics:
        name = topic_name(broker, topic) or ""
        for index, records in partitions:
            partition = broker.replicas.get((name, index))
            if partition is None or not partition.is_leader or records is None or len(records) < HEADER_BYTES:
                continue
            batch = BatchInfo(records)
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


# -- answers ---------------------------------------------------------------------------------------------------------


def _close_on_error(answers: ProduceResults) -> None:
    for topic, outcomes in answers:
        for outcome in outcomes:
            if outcome.error is not None:
                raise CloseConnection(f"Produce with acks=0 to {topic!r}: {outcome.error}")


def _refuse_all(broker: Broker, request: Produce, error: BrokerError) -> ProduceResults | None:
    answers: ProduceResults = [
        (topic, [ProduceResult(index, error=error) for index, _ in partitions]) for topic, partitions in request.topics
    ]
    for topic, partitions in request.topics:
        for _, records in partitions:
            count_refusal(broker, topic_name(broker, topic), error, 0 if records is None else len(records))
    if request.acks == 0:
        _close_on_error(answers)
        return None
    return answers
