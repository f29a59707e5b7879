"""Heartbeat: a member of a classic group is alive. The group's coordinator decides (coordinators/groups).

While it reads what it took over from another broker nobody knows the members, and each of them is told that all is
well, as Kafka does: Java's client would ask again, others (aiokafka) end for any other word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.errors import NONE, CoordinatorLoadInProgress
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
SERVES = Served(HeartbeatRequest, needs=(READ_GROUP,))


def handle(broker: Broker, request: HeartbeatRequest, context: RequestContext) -> Message | Work[Message]:
    READ_GROUP.check(broker, context, request.group_id)
    try:
        return broker.groups.answer(request.group_id, GroupShard.heartbeat, request, context)
    except CoordinatorLoadInProgress:
        return HeartbeatResponse(error_code=NONE)
