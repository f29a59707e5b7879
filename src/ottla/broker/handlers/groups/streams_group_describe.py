"""StreamsGroupDescribe: state, topology and members of streams groups (coordinators/groups/modern_describe.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.modern_describe import DESCRIBE_GROUP, Kind, describe_groups
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.errors import InvalidGroupId, UnsupportedVersion
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY, when="every topic of its topology")
SLICES = Slices("group_ids", "groups", is_set=True)
SERVES = Served(StreamsGroupDescribeRequest, slices=SLICES, needs=(DESCRIBE_GROUP, DESCRIBE_TOPIC))


async def handle(
    broker: Broker, request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    from ottla.broker.coordinators.groups.streams.describe import describe_error

    if "streams" not in broker.settings.group_coordinator_rebalance_protocols:
        error = UnsupportedVersion("group.coordinator.rebalance.protocols does not name streams")
        return StreamsGroupDescribeResponse(groups=[describe_error(each, error) for each in request.group_ids])
    method = GroupShard.describe_streams_groups
    streams = Kind(method, _of_one, _answer, _groups, describe_error, _topics, DESCRIBE_TOPIC, unnamed=InvalidGroupId())
    with_operations = request.include_authorized_operations
    return await describe_groups(broker, context, streams, request.group_ids, with_operations=with_operations)


def _of_one(group_id: str) -> StreamsGroupDescribeRequest:
    return StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)


def _answer(groups: list[DescribedGroup]) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=groups)


def _groups(answer: StreamsGroupDescribeResponse) -> list[DescribedGroup]:
    return answer.groups


def _topics(group: DescribedGroup) -> set[str]:
    topics: set[str] = set()
    subtopologies = None if group.topology is None else group.topology.subtopologies
    for each in subtopologies or ():
        topics.update(each.source_topics, each.repartition_sink_topics)
        topics.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
    return topics
