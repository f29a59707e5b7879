"""ShareGroupDescribe: state and members of share groups (coordinators/groups/modern_describe.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.modern_describe import DESCRIBE_GROUP, Kind, describe_groups
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.coordinators.groups.share.describe import describe_error
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.errors import UnsupportedVersion
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

DESCRIBE_TOPIC = Need(
    AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY, when="every topic that a member is assigned"
)
SLICES = Slices("group_ids", "groups", is_set=True)
SERVES = Served(ShareGroupDescribeRequest, slices=SLICES, needs=(DESCRIBE_GROUP, DESCRIBE_TOPIC))


async def handle(
    broker: Broker, request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse:
    if not broker.image.feature("share.version"):
        error = UnsupportedVersion("share groups are not enabled: the feature share.version is 0")
        return ShareGroupDescribeResponse(groups=[describe_error(each, error) for each in request.group_ids])
    with_operations = request.include_authorized_operations
    return await describe_groups(broker, context, _SHARE, request.group_ids, with_operations=with_operations)


def _of_one(group_id: str) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)


def _answer(groups: list[DescribedGroup]) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=groups)


def _groups(answer: ShareGroupDescribeResponse) -> list[DescribedGroup]:
    return answer.groups


def _topics(group: DescribedGroup) -> set[str]:
    return {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}


_SHARE = Kind(GroupShard.describe_share_groups, _of_one, _answer, _groups, describe_error, _topics, DESCRIBE_TOPIC)
