"""LeaveGroup: members leave a classic group at once instead of timing out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later
from ottla.protocol.messages.leave_group import LeaveGroupRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: LeaveGroupRequest, context: RequestContext) -> Later[Any]:
    return broker.groups.ask(request.group_id, GroupShard.leave_group, request, context)
