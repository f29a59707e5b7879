"""OffsetDelete: forget a group's offsets for some partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    OffsetDeleteRequest,
    needs=(
        Need(AclOperation.DELETE, AclResource.GROUP, lambda request: [request.group_id]),
        Need(AclOperation.READ, AclResource.TOPIC, lambda request: [topic.name for topic in request.topics]),
    ),
)


async def handle(broker: Broker, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    answer: OffsetDeleteResponse = await broker.groups.ask(
        request.group_id, GroupShard.delete_offsets, request, context
    )
    return answer
