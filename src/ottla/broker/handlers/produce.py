"""Produce: append record batches to partitions that this broker leads.

acks 0: no answer; an error closes the connection, because that is the only thing the client can notice.
acks 1: answered when the leader's log has it. acks -1: when it is committed (waiting/produce.py).
Any other acks is INVALID_REQUIRED_ACKS for every partition. Internal topics are refused to clients.
From version 12 on a transactional batch adds its partition to the transaction; before, the partition must have been
added by AddPartitionsToTxn, which is verified once per transaction (KIP-890).

Requests and answers are flat values here, not messages (produce_frames.py): every record comes this way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.network.processor import CloseConnection
from ottla.broker.produce.append import Appending, Guards, Refused, takes_long, topic_name
from ottla.broker.produce.ask_again import ask_patiently
from ottla.broker.produce.choice import scan, scan_run, write, write_run
from ottla.broker.produce.committed import Pending, WaitingProduce, is_settled
from ottla.broker.produce.frames import Answers, Outcome, Produce
from ottla.broker.produce.verification import refused_produce
from ottla.broker.replication.partition import ACKS_ALL
from ottla.broker.requests.answers import Later
from ottla.broker.requests.dispatch import Runs
from ottla.broker.requests.limits import ENTRIES_LIMIT
from ottla.broker.requests.long_work import LongLater, Steps
from ottla.broker.waiting.turns import Done
from ottla.errors import BrokerError, InvalidRequiredAcks, UnknownServerError
from ottla.protocol.schema import Buffer
from ottla.records import BatchInfo
from ottla.records.layout import HEADER_BYTES
from ottla.storage.producers.check import VerificationGuard
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

ABORTABLE_SINCE = 11
IMPLICIT_ADD_SINCE = 12


def codec(version: int) -> tuple[Callable[[Buffer, int], tuple[Produce, int]], Callable[[Answers], list[Buffer]]]:
    """How a lane reads requests and writes answers, instead of by messages."""
    return partial(scan, version, ENTRIES_LIMIT), partial(write, version)


def runs(version: int) -> Runs:
    """How a lane does the same with requests that came together."""
    return Runs(partial(scan_run, version, ENTRIES_LIMIT), handle_run, partial(write_run, version))


def handle(broker: Broker, request: Produce, context: RequestContext) -> Answers | Later[Answers | None] | None:
    if request.acks not in (-1, 0, 1):
        return _refuse_all(request, InvalidRequiredAcks(f"acks is {request.acks}"))
    if request.transactional_id is not None:
        return _after_verification(broker, request, context)
    return _append(broker, request, context, {}, {})


def handle_run(
    broker: Broker, requests: list[Produce], context: RequestContext
) -> list[Answers | Later[Answers | None] | None]:
    """Requests that came together; gives the answers to those from the first on that are alike and are acknowledged."""
    acks = requests[0].acks
    if acks not in (ACKS_ALL, 1):
        return []
    appending = Appending(broker, acks, context.api_version)
    taken = []
    for request in requests:
        if request.acks != acks or request.transactional_id is not None or takes_long(request):
            break
        taken.append((*appending.take(request), request.timeout_ms))
    appending.append()
    return [
        _when_committed(broker, answers, pending, timeout_ms) if pending else answers
        for answers, pending, timeout_ms in taken
    ]


def _append(
    broker: Broker, request: Produce, context: RequestContext, refused: Refused, guards: Guards
) -> Answers | Later[Answers | None] | None:
    if takes_long(request):
        # Without the client's name: what came whole is appended, even if he has left since.
        steps: Steps[Any] = _steps(broker, request, context, refused, guards)
        return broker.long_work.do(steps)
    appending = Appending(broker, request.acks, context.api_version, refused, guards)
    answers, pending = appending.take(request)
    appending.append()
    return _settled(broker, request, answers, pending)


def _steps(
    broker: Broker, request: Produce, context: RequestContext, refused: Refused, guards: Guards
) -> Steps[Answers | Later[Answers | None] | None]:
    appending = Appending(broker, request.acks, context.api_version, refused, guards)
    answers, pending = appending.take(request)
    yield from appending.steps()
    return _settled(broker, request, answers, pending)


def _settled(
    broker: Broker, request: Produce, answers: Answers, pending: list[Pending]
) -> Answers | Later[Answers | None] | None:
    if request.acks == 0:
        _close_on_error(answers)
        return None
    if pending:
        return _when_committed(broker, answers, pending, request.timeout_ms)
    return answers


# -- transactions ----------------------------------------------------------------------------------------------------


def _after_verification(
    broker: Broker, request: Produce, context: RequestContext
) -> Answers | Later[Answers | None] | None:
    """Append when the coordinator knows of every partition, and never before what the same producer sent before."""
    turns = broker.transactions.turns
    if not turns.is_taken(request.transactional_id):
        guards, fenced, producer = _unverified(broker, request, context)
        if not guards or producer is None:
            return _append(broker, request, context, fenced, guards)
    later: Later[Answers | None] = Later()
    turns.take(request.transactional_id, lambda done: _verify(broker, request, context, later, done))
    return later


def _verify(
    broker: Broker, request: Produce, context: RequestContext, later: Later[Answers | None], done: Done
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
            settled(_append(broker, request, context, {**fenced, **told}, guards))
        except CloseConnection as reason:
            settled(reason)

    def settled(given: Any) -> None:
        """What comes of the append: at once, in stints, or when it is committed; the next may begin before that."""
        if isinstance(given, LongLater):
            given.when_given(settled)
            return
        done()
        if isinstance(given, Later):
            given.when_given(later.give)
        elif isinstance(given, CloseConnection):
            if context.connection is not None:
                context.connection.close()
            later.give(None)
        elif isinstance(given, Exception):
            log.error("a transactional produce failed", exc_info=given)
            later.give(_refuse_all(request, UnknownServerError()))
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
    broker: Broker, request: Produce, context: RequestContext
) -> tuple[Guards, Refused, tuple[int, int] | None]:
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


def _when_committed(
    broker: Broker, answers: Answers, pending: list[Pending], timeout_ms: int
) -> Answers | Later[Answers | None]:
    waiting = [one for one in pending if not is_settled(one)]
    if not waiting:
        return answers
    later: Later[Any] = Later()
    operation = WaitingProduce(waiting, lambda: later.give(answers))
    keys = [one.partition.name for one in waiting]
    if broker.produce_purgatory.wait(operation, keys, broker.clock.monotonic_ms() + timeout_ms):
        return answers
    return later


def _close_on_error(answers: Answers) -> None:
    for topic, outcomes in answers:
        for outcome in outcomes:
            if outcome.error is not None:
                raise CloseConnection(f"Produce with acks=0 to {topic!r}: {outcome.error}")


def _refuse_all(request: Produce, error: BrokerError) -> Answers:
    return [(topic, [Outcome(index, error=error) for index, _ in partitions]) for topic, partitions in request.topics]
