"""ConsumerGroupDescribe: state and members of consumer groups, each asked at its own shard. Version 1 tells which
protocol a member speaks. A group that is named twice is described once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.consumer.describe import describe_error
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import NONE, UnsupportedVersion
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_GROUP = Need(AclOperation.DESCRIBE, AclResource.GROUP, Refused.ENTRY)
DESCRIBE_TOPIC = Need(
    AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY, when="every topic that a member is assigned"
)
SERVES = Served(ConsumerGroupDescribeRequest, is_paced=True, needs=(DESCRIBE_GROUP, DESCRIBE_TOPIC))


async def handle(
    broker: Broker, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    if "consumer" not in broker.settings.group_coordinator_rebalance_protocols:
        error = UnsupportedVersion("group.coordinator.rebalance.protocols does not name consumer")
        return ConsumerGroupDescribeResponse(groups=[describe_error(each, error) for each in request.group_ids])
    asked, refused = DESCRIBE_GROUP.split(broker, context, list(dict.fromkeys(request.group_ids)), str)
    with broker.pacing.turn(context.connection) as pace:
        answers = await broker.groups.ask_each(
            pace,
            asked,
            GroupShard.describe_consumer_groups,
            lambda group_id: ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False),
            context,
            lambda group_id, error: ConsumerGroupDescribeResponse(groups=[describe_error(group_id, error)]),
        )
    groups = [_visible(broker, context, group) for answer in answers for group in answer.groups]
    for group in groups:
        if request.include_authorized_operations and group.error_code == NONE:
            group.authorized_operations = broker.access.operations(context, AclResource.GROUP, group.group_id)
    groups += [describe_error(each, DESCRIBE_GROUP.refusal(context)) for each in refused]
    return ConsumerGroupDescribeResponse(groups=groups)


def _visible(broker: Broker, context: RequestContext, group: DescribedGroup) -> DescribedGroup:
    """The group, or that it cannot be told: its members are assigned topics that who asks may not know."""
    if not broker.access.is_on:
        return group
    topics = {
        topic.topic_name
        for member in group.members
        for each in (member.assignment, member.target_assignment)
        for topic in each.topic_partitions
    }
    if len(DESCRIBE_TOPIC.met_by(broker, context, topics)) == len(topics):
        return group
    return describe_error(group.group_id, DESCRIBE_TOPIC.refusal(context))
