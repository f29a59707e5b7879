"""ConsumerGroupDescribe: state and members of consumer groups (coordinators/groups/modern_describe.py).

Version 1 says which protocol a member speaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.consumer.describe import describe_error
from ottla.broker.coordinators.groups.modern_describe import DESCRIBE_GROUP, Kind, describe_groups
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.errors import UnsupportedVersion
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_TOPIC = Need(
    AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY, when="every topic that a member is assigned"
)
SLICES = Slices("group_ids", "groups", is_set=True)
SERVES = Served(ConsumerGroupDescribeRequest, slices=SLICES, needs=(DESCRIBE_GROUP, DESCRIBE_TOPIC))


async def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    if "consumer" not in broker.settings.group_coordinator_rebalance_protocols:
        error = UnsupportedVersion("group.coordinator.rebalance.protocols does not name consumer")
        return ConsumerGroupDescribeResponse(groups=[describe_error(each, error) for each in request.group_ids])
    with_operations = request.include_authorized_operations
    return await describe_groups(broker, context, _CONSUMER, request.group_ids, with_operations=with_operations)


def _of_one(group_id: str) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)


def _answer(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=groups)


def _groups(answer: ConsumerGroupDescribeResponse) -> list[DescribedGroup]:
    return answer.groups


def _topics(group: DescribedGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for each in (member.assignment, member.target_assignment)
        for topic in each.topic_partitions
    }


_CONSUMER = Kind(
    GroupShard.describe_consumer_groups, _of_one, _answer, _groups, describe_error, _topics, DESCRIBE_TOPIC
)
