"""JoinGroup: enter a classic group and wait for the others. The group's coordinator decides (coordinators/groups)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later
from ottla.protocol.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: JoinGroupRequest, context: RequestContext) -> Later[Any]:
    return broker.groups.ask(request.group_id, GroupShard.join_group, request, context)
