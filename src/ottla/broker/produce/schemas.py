"""Produce requests for topics that take only records with a known schema (registry/validation.py): check, then append.

    if Partition.some_check_schemas and wants_schemas(broker, request):
        return check_schemas_then(append, broker, request, context, traits)

The next such request may begin when this one is appended; it need not be committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.network.processor import CloseConnection
from ottla.broker.produce.append import Traits, topic_name
from ottla.broker.produce.committed import count_refusal
from ottla.broker.produce.frames import Produce, ProduceResult, ProduceResults
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work, awaited
from ottla.errors import BrokerError
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

TURN: Final = "schemas"

Produced: TypeAlias = ProduceResults | Work[ProduceResults | None] | None
Append: TypeAlias = "Callable[[Broker, Produce, RequestContext, Traits], Produced]"
Refused: TypeAlias = Mapping[TopicPartition, BrokerError]


def wants_schemas(broker: Broker, request: Produce) -> bool:
    """Whether records are for a topic that takes only such with a known schema."""
    for topic, partitions in request.topics:
        name = topic_name(broker, topic)
        for index, _ in partitions:
            partition = None if name is None else broker.replicas.get((name, index))
            if partition is not None and partition.checks_schemas:
                return True
    return False


async def check_schemas_then(
    append: Append, broker: Broker, request: Produce, context: RequestContext, traits: Traits
) -> ProduceResults | None:
    """Append what has a known schema, and refuse the rest."""
    checks = broker.schema_checks
    async with checks.turns.acquire(TURN):
        with broker.pacing.turn(context.connection, always_finishes=True) as pace:
            refused = await checks.refused(request, pace)
        left = _without(broker, request, refused)
        appended = append(broker, left, context, traits) if left.topics else []
        if traits.takes_long or request.transactional_id is not None:
            appended = await awaited(appended)
    answers = await awaited(appended)
    denied = _denied(broker, request, refused)
    if request.acks != 0:
        return _merged(answers or [], denied)
    if denied:
        raise CloseConnection(f"Produce with acks=0: {denied[0][1][0].error}")
    return None


def _denied(broker: Broker, request: Produce, refused: Refused) -> ProduceResults:
    denied: ProduceResults = []
    for topic, partitions in request.topics:
        name, outcomes = topic_name(broker, topic) or "", []
        for index, records in partitions:
            if (error := refused.get(TopicPartition(name, index))) is not None:
                outcomes.append(ProduceResult(index, error=error))
                count_refusal(broker, name, error, 0 if records is None else len(records))
        denied += [(topic, outcomes)] if outcomes else []
    return denied


def _without(broker: Broker, request: Produce, refused: Refused) -> Produce:
    left = []
    for topic, partitions in request.topics:
        name = topic_name(broker, topic) or ""
        kept = [each for each in partitions if TopicPartition(name, each[0]) not in refused]
        left += [(topic, kept)] if kept else []
    return request._replace(topics=left)


def _merged(answers: ProduceResults, denied: ProduceResults) -> ProduceResults:
    """One entry for each topic."""
    by_topic = {topic: list(outcomes) for topic, outcomes in answers}
    for topic, outcomes in denied:
        by_topic.setdefault(topic, []).extend(outcomes)
    return list(by_topic.items())
