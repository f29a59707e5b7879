"""OffsetDelete: forget a group's offsets for some partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: OffsetDeleteRequest, context: RequestContext) -> Later[Any]:
    return broker.groups.ask(request.group_id, GroupShard.delete_offsets, request, context)
