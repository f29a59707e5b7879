"""DescribeTopicPartitions: topics with their partitions, in pages, in the order of their names.

Version 0 only. No topics asks for all of them. An answer holds at most `response_partition_limit` partitions, and never
more than max.request.partition.size.limit; where it stops, `next_cursor` names the first partition that is missing, and
the client sends it back as `cursor`. A topic that is asked for by name and does not exist has an error and no
partitions; a partition without a leader has the leader -1 and, as in Kafka, no error. A request that makes no sense (a
cursor outside of the topics, a negative partition) is answered with INVALID_REQUEST at every topic, because the answer
has no other place for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final

from ottla.broker.handlers.topics.metadata import leader_of
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster import model
from ottla.errors import BrokerError, InvalidRequest, InvalidTopicException, UnknownTopicOrPartition
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.requests.pacing import Pace

SORTED_AT_ONCE: Final = 5_000

DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY, when="topics asked for by name")
LIST_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.LEFT_OUT, when="all topics")
SERVES = Served(DescribeTopicPartitionsRequest, entries=WIDE_ENTRIES, is_paced=True, needs=(DESCRIBE_TOPIC, LIST_TOPIC))


async def handle(
    broker: Broker, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    limit = max(1, min(request.response_partition_limit, broker.settings.max_request_partition_size_limit))
    answer = DescribeTopicPartitionsResponse(topics=[])
    with broker.pacing.turn(context.connection) as pace:
        try:
            names = await _names(broker, request, pace)
        except InvalidRequest as error:
            for topic in request.topics:
                answer.topics.append(_missing(broker, topic.name, error))
                await pace.step()
            return answer
        need = DESCRIBE_TOPIC if request.topics else LIST_TOPIC
        allowed = await need.met_by_many(broker, context, names, pace)
        for name in names:
            if name not in allowed:
                continue
            if limit <= 0:
                answer.next_cursor = Cursor(topic_name=name, partition_index=0)
                break
            limit -= _add_topic(broker, answer, name, _first_index(request.cursor, name), limit, context)
            if answer.next_cursor is not None:
                break
            await pace.step()
        for name in names if request.topics else ():
            if name not in allowed:
                answer.topics.append(_refused(name))
                await pace.step()
    return answer


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=DESCRIBE_TOPIC.code, name=name, topic_id=ZERO_UUID, partitions=[]
    )


async def _names(broker: Broker, request: DescribeTopicPartitionsRequest, pace: Pace) -> list[str]:
    """The topics from the cursor on, in order."""
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise InvalidRequest(f"the cursor is at partition {cursor.partition_index}; partitions begin at 0")
    asked = (topic.name for topic in request.topics) if request.topics else iter(broker.image.topics())
    found: list[str] = []
    names_cursor = False
    async for name in _sorted(asked, pace):
        names_cursor = names_cursor or (cursor is not None and name == cursor.topic_name)
        if cursor is None or name >= cursor.topic_name:
            found.append(name)
    if request.topics and cursor is not None and not names_cursor:
        raise InvalidRequest(f"the cursor is at topic {cursor.topic_name!r}, which the request does not name")
    return found


async def _sorted(names: Iterator[str], pace: Pace) -> AsyncIterator[str]:
    """All of them once, in order. Nothing interrupts a sort, so parts of SORTED_AT_ONCE are sorted, and merged."""
    parts: list[list[str]] = []
    while part := list(islice(names, SORTED_AT_ONCE)):
        parts.append(sorted(part))
        await pace.step()
    previous = None
    for name in merge(*parts):
        if name != previous:
            yield name
        previous = name
        await pace.step()


def _first_index(cursor: Cursor | None, name: str) -> int:
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


def _add_topic(
    broker: Broker, answer: DescribeTopicPartitionsResponse, name: str, first: int, limit: int, context: RequestContext
) -> int:
    """Put a topic into the answer, from partition `first` on; returns how many partitions that were."""
    topic = broker.image.topic(name)
    if topic is None:
        legal = broker.is_legal_topic_name(name)
        missing = _missing(broker, name, UnknownTopicOrPartition() if legal else InvalidTopicException())
        missing.topic_authorized_operations = broker.access.operations(context, AclResource.TOPIC, name)
        answer.topics.append(missing)
        return 0
    chosen = topic.partitions[first : first + limit]
    answer.topics.append(
        DescribeTopicPartitionsResponseTopic(
            error_code=0,
            name=name,
            topic_id=topic.id,
            is_internal=name in broker.internal_topics,
            partitions=[_partition(broker, index, one, context.listener) for index, one in enumerate(chosen, first)],
            topic_authorized_operations=broker.access.operations(context, AclResource.TOPIC, name),
        )
    )
    if first + limit < len(topic.partitions):
        answer.next_cursor = Cursor(topic_name=name, partition_index=first + limit)
    return len(chosen)


def _missing(broker: Broker, name: str, error: BrokerError) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error.code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in broker.internal_topics,
        partitions=[],
    )


def _partition(
    broker: Broker, index: int, state: model.Partition, listener: str
) -> DescribeTopicPartitionsResponsePartition:
    _, leader_id = leader_of(broker.image, state, listener)
    return DescribeTopicPartitionsResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=[replica for replica in state.replicas if not broker.image.is_active(replica)],
    )
