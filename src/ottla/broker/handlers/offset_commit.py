"""OffsetCommit: a group keeps how far it has read. Errors stand at every partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.answers import Later
from ottla.errors import BrokerError
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse | Later[Any]:
    try:
        return broker.groups.ask(request.group_id, GroupShard.commit_offsets, request, context)
    except BrokerError as error:
        return _refusal(request, error)


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
