"""Produce: append record batches to partitions that this broker leads.

    frames ──► scan ──► admission ──► partition.queued ──► append ──► committed ──► answers, in order
    produce/frames.py   admission.py  replication/writes.py  produce/writer.py      produce/answers.py

acks 0: no answer; an error closes the connection, because that is the only thing the client can notice.
acks 1: answered when the leader's log has it; on a partition with one durable replica, when it is on the disk, because
whoever is answered can read it. acks -1: when it is committed.
Other values of acks are INVALID_REQUIRED_ACKS for every partition. Internal topics are refused to clients.
From version 12 on a transactional batch adds its partition to the transaction; before, the partition must have been
added by AddPartitionsToTxn, which is verified once per transaction (KIP-890).

1. Requests that came together go together (`answer_run`), as far as they have the same acks and time-out and need not
   wait before they are appended. Whatever has to wait at a stage (wide or compressed requests, which leave others their
   turn, schemas, transactions that must be verified) goes by itself (`handle`), through the same admission into the
   same queues.
2. Requests and answers are flat values here, not messages (produce/frames.py): every record comes this way.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.verifying import verify
from ottla.broker.network.processor import CloseConnection
from ottla.broker.produce.admission import (
    MANY_PARTITIONS,
    PLAIN,
    Admission,
    Guards,
    Traits,
    is_slow,
    topic_name,
    traits_of,
    wants_schemas,
)
from ottla.broker.produce.admission import Refused as RefusedPartitions
from ottla.broker.produce.answers import Answers
from ottla.broker.produce.choice import scan, scan_run
from ottla.broker.produce.choice import write as write_answer
from ottla.broker.produce.frames import Produce, ProduceResults, Topic
from ottla.broker.produce.frames import write as write_with_throttle
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.replication.writes import ProduceResult, Write
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.pacing import Pace
from ottla.broker.requests.served import ANY_FRAME_BYTES, ENTRIES, Quota, Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError, InvalidRequiredAcks
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.schema import Buffer
from ottla.storage.log.record_errors import RecordsRefused
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SCHEMAS_TURN = "schemas"


def codec(
    version: int,
) -> tuple[Callable[[Buffer, int], tuple[Produce, int]], Callable[[ProduceResults], list[Buffer]]]:
    """Flat values instead of messages."""
    return partial(scan, version, ENTRIES), partial(write_answer, version)


def throttled(version: int) -> Callable[[ProduceResults, int], list[Buffer]]:
    """Writes answers that say for how long to wait; there are few of them."""
    return partial(write_with_throttle, version)


WRITE_TOPIC = Need(AclOperation.WRITE, AclResource.TOPIC, Refused.ENTRY)
WRITE_ID = Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, when="records of a transaction")


# -- requests that came together -------------------------------------------------------------------------------------


def answer_run(broker: Broker, frames: list[memoryview], position: int, context: RequestContext) -> Answers | None:
    """Have what stands at the front of these frames, whose bodies begin at `position`, appended; None where the first
    must be handled by itself."""
    requests = _together(broker, scan_run(context.api_version, ENTRIES, frames, position), context)
    if not requests:
        return None
    results: list[ProduceResults] = []
    answers = Answers(results, broker.progress.next_turn)
    answers.of_frames(context.api_version, frames[: len(requests)])
    admission = Admission(broker, context, requests[0].acks, requests[0].timeout_ms, answers)
    for request in requests:
        results.append(admission.add(request.topics))
    for partition, write in admission.writes:
        broker.writer.write(partition, write)
    answers.all_begun()
    return answers


def _together(broker: Broker, requests: list[Produce], context: RequestContext) -> list[Produce]:
    """Those from the first on that go together and wait for nothing before they are appended."""
    if not requests or (acks := requests[0].acks) not in (ACKS_ALL, 1):
        return []
    timeout_ms = requests[0].timeout_ms
    known = WRITE_TOPIC.remembered(broker, context) if broker.access.is_on else None
    for count, request in enumerate(requests):
        if (
            request.acks != acks
            or request.timeout_ms != timeout_ms
            or request.transactional_id is not None
            or traits_of(request) is not PLAIN
            or (known is not None and not are_writable(broker, request, known))
            or (Partition.some_check_schemas and wants_schemas(broker, request))
        ):
            return requests[:count]
    return requests


def are_writable(broker: Broker, request: Produce, known: Set[str]) -> bool:
    """Whether all topics are known to be writable, by their names or their ids."""
    for topic, _ in request.topics:
        name = topic if type(topic) is str else topic_name(broker, topic)
        if name not in known:
            return False
    return True


SERVES = Served(
    ProduceRequest,
    frame_bytes=ANY_FRAME_BYTES,
    needs=(WRITE_TOPIC, WRITE_ID),
    quota=Quota.PRODUCE,
    codec=codec,
    throttled=throttled,
    answer_run=answer_run,
)


# -- one request, in stages ------------------------------------------------------------------------------------------


async def handle(broker: Broker, request: Produce, context: RequestContext) -> ProduceResults | None:
    """Its first step goes as far as nothing has to be waited for, in the order of the requests of its connection."""
    traits = traits_of(request)
    if traits.is_wide:  # hold the connection first: this takes a while, and so does its answer
        with broker.pacing.turn(context.connection, always_finishes=True) as pace:
            await pace.pause()
    error = _refusal(broker, request, context, traits)
    if error is not None:
        return _answered(request, _refused_all(broker, request, error))
    results: ProduceResults = []
    answers = Answers([results], broker.progress.next_turn)
    denied = _denied(broker, request, context)
    async with AsyncExitStack() as turns:
        try:
            refused, guards = await _pass_stages(broker, _without(request, denied), context, turns)
        except BrokerError as problem:
            return _answered(request, _refused_all(broker, request, problem))
        admission = Admission(
            broker,
            context,
            request.acks,
            request.timeout_ms,
            answers,
            denied=denied,
            refused=refused,
            guards=guards,
        )
        await _write(broker, request, context, traits, admission, results)
    answers.all_begun()
    if not answers.is_over:
        await answers.over()
    return _answered(request, results)


def _answered(request: Produce, results: ProduceResults) -> ProduceResults | None:
    if request.acks:
        return results
    for topic, outcomes in results:
        for outcome in outcomes:
            if outcome.error is not None:
                raise CloseConnection(f"Produce with acks=0 to {topic!r}: {outcome.error}")
    return None


async def _write(
    broker: Broker,
    request: Produce,
    context: RequestContext,
    traits: Traits,
    admission: Admission,
    results: ProduceResults,
) -> None:
    """Into the queues. Where it may take long others have their turn in between: a few kilobytes of compressed records
    may be a hundred megabytes to check, and a request may have thousands of these."""
    if not traits.takes_long:
        results += admission.add(request.topics)
        for partition, write in admission.writes:
            broker.writer.write(partition, write)
        return
    with broker.pacing.turn(context.connection, always_finishes=True) as pace:
        for topic, partitions in request.topics:
            outcomes: list[ProduceResult] = []
            for start in range(0, len(partitions), MANY_PARTITIONS):
                outcomes += admission.add([(topic, partitions[start : start + MANY_PARTITIONS])])[0][1]
                await pace.step()
            results.append((topic, outcomes))
        for partition, write in admission.writes:
            if not write.is_plain and is_slow(write.batches[0]):
                await _inspect(broker, partition, write, pace)
            else:
                broker.writer.write(partition, write)
            await pace.step()


async def _inspect(broker: Broker, partition: Partition, write: Write, pace: Pace) -> None:
    """Look into a batch piece by piece first, so that nobody waits until all of it was seen."""
    batch, now_ms = write.batches[0], broker.clock.now_ms()
    inspection = partition.log.inspect_batch(batch, now_ms=now_ms, zstd_allowed=write.zstd_allowed)
    try:
        write.checked = await pace.run(inspection)
    except BrokerError as error:
        # One that is there already was taken then, and is not judged again; the log says where it is.
        if not (isinstance(error, RecordsRefused) and partition.log.has_batch(batch)):
            write.refuse(error)
            broker.writer.count_refusal(partition.name.topic, error, len(batch))
            write.end()
            return
    broker.writer.write(partition, write)


# -- who may ---------------------------------------------------------------------------------------------------------


def _refusal(broker: Broker, request: Produce, context: RequestContext, traits: Traits) -> BrokerError | None:
    """Why nothing of the request is appended."""
    if traits.is_transactional and not _may_use_id(broker, request, context):
        return WRITE_ID.refusal(context)
    if request.acks not in (-1, 0, 1):
        return InvalidRequiredAcks(f"acks is {request.acks}")
    return None


def _may_use_id(broker: Broker, request: Produce, context: RequestContext) -> bool:
    """Records of a transaction belong to its id: without one nobody may write them (CVE-2018-17196)."""
    return request.transactional_id is not None and WRITE_ID.is_met(broker, context, request.transactional_id)


def _denied(broker: Broker, request: Produce, context: RequestContext) -> dict[Topic, BrokerError] | None:
    """Topics that who asks may not write to; an id that nobody has is said to be that."""
    if not broker.access.is_on or are_writable(broker, request, WRITE_TOPIC.remembered(broker, context)):
        return None
    return {
        topic: WRITE_TOPIC.refusal(context)
        for topic, _ in request.topics
        if (name := topic_name(broker, topic)) is not None and not WRITE_TOPIC.is_met(broker, context, name)
    }


def _without(request: Produce, denied: dict[Topic, BrokerError] | None) -> Produce:
    return request._replace(topics=[entry for entry in request.topics if entry[0] not in denied]) if denied else request


def _refused_all(broker: Broker, request: Produce, error: BrokerError) -> ProduceResults:
    for topic, partitions in request.topics:
        for _, records in partitions:
            size_bytes = 0 if records is None else len(records)
            broker.writer.count_refusal(topic_name(broker, topic), error, size_bytes)
    return [
        (topic, [ProduceResult(index, error=error) for index, _ in partitions]) for topic, partitions in request.topics
    ]


# -- stages ----------------------------------------------------------------------------------------------------------


async def _pass_stages(
    broker: Broker, request: Produce, context: RequestContext, turns: AsyncExitStack
) -> tuple[RefusedPartitions, Guards]:
    """What is refused, and what guards the rest. `turns` are kept until it is appended: nobody who must pass the same
    stage overtakes it. It need not be committed then."""
    refused: dict[TopicPartition, BrokerError] = {}
    guards: Guards = {}
    if Partition.some_check_schemas and wants_schemas(broker, request):
        checks = broker.schema_checks
        await turns.enter_async_context(checks.turns.acquire(SCHEMAS_TURN))
        with broker.pacing.turn(context.connection, always_finishes=True) as pace:
            refused |= await checks.refused(request, pace)
    if request.transactional_id is not None:
        await turns.enter_async_context(broker.transactions.turns.acquire(request.transactional_id))
        unverified, guards = await verify(broker, request, context)
        refused |= unverified
    return refused, guards
