"""OffsetDelete: forget a group's offsets for some partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.errors import NONE
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DELETE_GROUP = Need(AclOperation.DELETE, AclResource.GROUP)
READ_TOPIC = Need(AclOperation.READ, AclResource.TOPIC, Refused.ENTRY)
SLICES = Slices("topics", "topics", Slices("partitions", "partitions"))
SERVES = Served(OffsetDeleteRequest, slices=SLICES, needs=(DELETE_GROUP, READ_TOPIC))


async def handle(broker: Broker, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    DELETE_GROUP.check(broker, context, request.group_id)
    request.topics, refused = READ_TOPIC.split(broker, context, request.topics, lambda topic: topic.name)
    answer = OffsetDeleteResponse(error_code=NONE, topics=[])
    if request.topics or not refused:
        answer = await broker.groups.ask(request.group_id, GroupShard.delete_offsets, request, context)
    if answer.error_code == NONE:
        answer.topics += [_refused(topic) for topic in refused]
    return answer


def _refused(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=READ_TOPIC.code)
            for one in topic.partitions
        ],
    )
