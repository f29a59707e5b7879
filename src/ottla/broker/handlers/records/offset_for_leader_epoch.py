"""OffsetForLeaderEpoch: where a leader epoch ended here; how others find out that logs went apart (KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError, UnknownTopicOrPartition
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


CLUSTER_ACTION = Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY, unless=CLUSTER_ACTION)
SERVES = Served(OffsetForLeaderEpochRequest, entries=WIDE_ENTRIES, is_paced=True, needs=(DESCRIBE_TOPIC,))


async def handle(
    broker: Broker, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    topics = []
    with broker.pacing.turn(context.connection) as pace:
        names = {topic.topic for topic in request.topics}
        allowed = await DESCRIBE_TOPIC.met_by_many(broker, context, names, pace)
        for topic in request.topics:
            found: list[EpochEndOffset] = []
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=found))
            for asked in topic.partitions:
                is_allowed = topic.topic in allowed
                found.append(_one(broker, topic.topic, asked) if is_allowed else _refused(asked, DESCRIBE_TOPIC.code))
                await pace.step()
            await pace.step()  # a topic may have no partitions, and a request a quarter of a million of them
    return OffsetForLeaderEpochResponse(topics=topics)


def _one(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.replicas.get(TopicPartition(topic, asked.partition))
        if partition is None:
            raise UnknownTopicOrPartition(f"{topic}-{asked.partition}")
        partition.check_leader(asked.current_leader_epoch)
        end = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except BrokerError as error:
        return _refused(asked, error.code)
    return EpochEndOffset(error_code=0, partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset)


def _refused(asked: OffsetForLeaderPartition, code: int) -> EpochEndOffset:
    return EpochEndOffset(error_code=code, partition=asked.partition)
