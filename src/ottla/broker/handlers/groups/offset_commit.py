"""OffsetCommit: a group keeps how far it has read. Errors stand at every partition."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    OffsetCommitRequest,
    needs=(
        Need(AclOperation.READ, AclResource.GROUP, lambda request: [request.group_id]),
        Need(AclOperation.READ, AclResource.TOPIC, lambda request: [topic.name for topic in request.topics]),
    ),
)


async def handle(broker: Broker, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    return await broker.groups.ask_or(
        request.group_id, GroupShard.commit_offsets, request, context, partial(_refusal, request)
    )


def _refusal(request: OffsetCommitRequest, error: BrokerError) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error.code)
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)
