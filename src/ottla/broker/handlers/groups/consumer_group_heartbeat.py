"""ConsumerGroupHeartbeat: join, stay in and leave a consumer group of the new protocol (KIP-848).

From version 1 on the client makes the member id, and may subscribe by a regular expression. A broker whose
group.coordinator.rebalance.protocols does not name `consumer` answers UNSUPPORTED_VERSION, and clients go back to the
classic protocol or tell their user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work, awaited
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import NAMES_AT_ONCE, Need
from ottla.errors import UnsupportedVersion
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
DESCRIBE_TOPIC = Need(
    AclOperation.DESCRIBE,
    AclResource.TOPIC,
    when="every topic that it names; of those that its expression matches the others are left out",
)
SERVES = Served(ConsumerGroupHeartbeatRequest, is_paced=True, needs=(READ_GROUP, DESCRIBE_TOPIC))


def handle(broker: Broker, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Message | Work[Message]:
    if "consumer" not in broker.settings.group_coordinator_rebalance_protocols:
        raise UnsupportedVersion("group.coordinator.rebalance.protocols does not name consumer")
    READ_GROUP.check(broker, context, request.group_id)
    if request.subscribed_topic_names:
        topics = set(request.subscribed_topic_names)
        if len(topics) > NAMES_AT_ONCE:
            return _beat_of_many(broker, request, context, topics)
        if len(DESCRIBE_TOPIC.met_by(broker, context, topics)) < len(topics):
            raise DESCRIBE_TOPIC.refusal(context)
    return broker.groups.answer(request.group_id, GroupShard.consumer_group_heartbeat, request, context)


async def _beat_of_many(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, context: RequestContext, topics: set[str]
) -> Message:
    """The same for thousands of topics: his rights are asked for with pauses."""
    with broker.pacing.turn(context.connection) as pace:
        allowed = await DESCRIBE_TOPIC.met_by_many(broker, context, topics, pace)
    if len(allowed) < len(topics):
        raise DESCRIBE_TOPIC.refusal(context)
    return await awaited(broker.groups.answer(request.group_id, GroupShard.consumer_group_heartbeat, request, context))
