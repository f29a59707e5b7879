"""SyncGroup: the leader hands out the assignment, the others wait for theirs (coordinators/groups)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later
from ottla.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: SyncGroupRequest, context: RequestContext) -> Later[Any]:
    return broker.groups.ask(request.group_id, GroupShard.sync_group, request, context)
