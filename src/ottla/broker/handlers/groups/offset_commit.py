"""OffsetCommit: a group keeps how far it has read. Errors stand at every partition."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

TOPIC_IDS_SINCE = 10


READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
READ_TOPIC = Need(AclOperation.READ, AclResource.TOPIC, Refused.ENTRY)
SERVES = Served(
    OffsetCommitRequest,
    # Offsets of thousands of partitions have nothing to do with each other, and in one batch they would be too large.
    slices=Slices("topics", "topics", within=Slices("partitions", "partitions")),
    needs=(READ_GROUP, READ_TOPIC),
)


async def handle(broker: Broker, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    if not READ_GROUP.is_met(broker, context, request.group_id):
        return _refusal(request.topics, READ_GROUP.refusal(context))
    request.topics, refused = READ_TOPIC.split(broker, context, request.topics, partial(_name, broker, context))
    answer = OffsetCommitResponse(topics=[])
    if request.topics or not refused:
        answer = await broker.groups.ask_or(
            request.group_id, GroupShard.commit_offsets, request, context, partial(_refusal, request.topics)
        )
    answer.topics += _refusal(refused, READ_TOPIC.refusal(context)).topics
    return answer


def _name(broker: Broker, context: RequestContext, topic: OffsetCommitRequestTopic) -> str | None:
    """None for an id that nobody has: there is nothing to be hidden."""
    return broker.image.topic_name(topic.topic_id) if context.api_version >= TOPIC_IDS_SINCE else topic.name


def _refusal(asked: list[OffsetCommitRequestTopic], error: BrokerError) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error.code)
                for one in topic.partitions
            ],
        )
        for topic in asked
    ]
    return OffsetCommitResponse(topics=topics)
