"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932).

Who joins a group whose partitions the share coordinator has still to begin would get nothing, and ask again with its
next heartbeat, seconds later. It is answered when they have begun, or after a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.coordinators.groups.share.heartbeat import JOIN
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.errors import NONE, UnsupportedVersion
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, when="every topic that it names")
SERVES = Served(ShareGroupHeartbeatRequest, is_paced=True, needs=(READ_GROUP, DESCRIBE_TOPIC))


def handle(broker: Broker, request: ShareGroupHeartbeatRequest, context: RequestContext) -> Message | Work[Message]:
    if not broker.image.feature("share.version"):
        raise UnsupportedVersion("share groups are not enabled: the feature share.version is 0")
    READ_GROUP.check(broker, context, request.group_id)
    if request.subscribed_topic_names:
        topics = set(request.subscribed_topic_names)
        if len(DESCRIBE_TOPIC.met_by(broker, context, topics)) < len(topics):
            raise DESCRIBE_TOPIC.refusal(context)
    if request.member_epoch == JOIN:
        return _join(broker, request, context)
    return broker.groups.answer(request.group_id, GroupShard.share_group_heartbeat, request, context)


async def _join(broker: Broker, request: ShareGroupHeartbeatRequest, context: RequestContext) -> Message:
    answer: ShareGroupHeartbeatResponse = await broker.groups.ask(
        request.group_id, GroupShard.share_group_heartbeat, request, context
    )
    if answer.error_code or answer.assignment is None or answer.assignment.topic_partitions:
        return answer
    if not await broker.groups.share_partitions_begun(request.group_id):
        return answer
    joined = ShareGroupHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=answer.member_epoch,
        subscribed_topic_names=request.subscribed_topic_names,
    )
    again: ShareGroupHeartbeatResponse = await broker.groups.ask(
        request.group_id, GroupShard.share_group_heartbeat, joined, context
    )
    return again if again.error_code == NONE else answer
