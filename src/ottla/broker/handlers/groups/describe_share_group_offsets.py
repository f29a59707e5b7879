"""DescribeShareGroupOffsets: where share groups are in their partitions, and from version 1 on how far behind.

Topics of null are all that the group has. A partition that the group was never in has start offset -1, and so has every
partition of a topic or of a group that is not there: Kafka asks only for the states of partitions that are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Running
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.broker.sharing.group_offsets import GroupOffsets, OffsetNow
from ottla.broker.sharing.requests import check_enabled
from ottla.errors import NONE, BrokerError
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

DESCRIBE_GROUP = Need(AclOperation.DESCRIBE, AclResource.GROUP, Refused.ENTRY)
DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY)
SLICES = Slices("groups", "groups", Slices("topics", "topics", Slices("partitions", "partitions")))
SERVES = Served(DescribeShareGroupOffsetsRequest, slices=SLICES, needs=(DESCRIBE_GROUP, DESCRIBE_TOPIC))


class _Asked(NamedTuple):
    """One topic; `refused` where it cannot be asked about."""

    name: str
    topic_id: bytes
    partitions: list[int]
    refused: BrokerError | None = None


async def handle(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    groups = [await _group(broker, group, context) for group in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _group(
    broker: Broker, asked: DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        check_enabled(broker)
        DESCRIBE_GROUP.check(broker, context, asked.group_id)
        offsets = GroupOffsets(broker, asked.group_id)
        topics = _topics(broker, offsets, asked, context)
    except BrokerError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id, topics=[], error_code=error.code, error_message=error.brief
        )
    reading = {
        (topic.topic_id, each): offsets.begin_read(topic.topic_id, topic.name, each)
        for topic in topics
        if topic.refused is None
        for each in topic.partitions
        if 0 <= each < (broker.image.partition_count(topic.name) or 0)
    }
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=asked.group_id, topics=[await _topic(topic, reading) for topic in topics], error_code=NONE
    )


def _topics(
    broker: Broker,
    offsets: GroupOffsets,
    asked: DescribeShareGroupOffsetsRequestGroup,
    context: RequestContext,
) -> list[_Asked]:
    known = offsets.initialized
    if asked.topics is None:
        seen = DESCRIBE_TOPIC.met_by(broker, context, {topic.name for topic in known.values()})
        return [
            _Asked(topic.name, topic_id, sorted(topic.partitions))
            for topic_id, topic in sorted(known.items())
            if topic.name in seen
        ]
    allowed = DESCRIBE_TOPIC.met_by(broker, context, {topic.topic_name for topic in asked.topics})
    found = []
    for topic in asked.topics:
        refused = None if topic.topic_name in allowed else DESCRIBE_TOPIC.refusal(context)
        # Whoever may not describe a topic learns neither its id nor whether it is there.
        topic_id = broker.image.topic_id(topic.topic_name) if refused is None else None
        found.append(_Asked(topic.topic_name, topic_id or ZERO_UUID, topic.partitions, refused))
    return found


async def _topic(
    topic: _Asked, reading: dict[tuple[bytes, int], Running[OffsetNow | BrokerError]]
) -> DescribeShareGroupOffsetsResponseTopic:
    partitions = []
    for each in topic.partitions:
        read = reading.get((topic.topic_id, each))
        found = OffsetNow() if read is None else await read.wait()
        partitions.append(_partition(each, topic.refused or found))
    return DescribeShareGroupOffsetsResponseTopic(topic_name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _partition(index: int, result: OffsetNow | BrokerError) -> DescribeShareGroupOffsetsResponsePartition:
    now = OffsetNow() if isinstance(result, BrokerError) else result
    error = result if isinstance(result, BrokerError) else None
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=now.start_offset,
        leader_epoch=now.leader_epoch,
        lag=now.lag,
        error_code=NONE if error is None else error.code,
        error_message=None if error is None else error.brief,
    )
