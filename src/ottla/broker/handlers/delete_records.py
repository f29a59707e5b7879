"""DeleteRecords: move the start of partitions forward; -1 stands for the high watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.effects import RequestContext
from ottla.errors import (
    BrokerError,
    InvalidTopicException,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


HIGH_WATERMARK = -1


def handle(broker: Broker, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _one(broker, TopicPartition(topic.name, asked.partition_index), asked.offset)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _one(broker: Broker, name: TopicPartition, offset: int) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = _delete(broker, name, offset)
    except BrokerError as error:
        return DeleteRecordsPartitionResult(partition_index=name.partition, low_watermark=-1, error_code=error.code)
    return DeleteRecordsPartitionResult(partition_index=name.partition, low_watermark=low_watermark, error_code=0)


def _delete(broker: Broker, name: TopicPartition, offset: int) -> int:
    if name.topic in broker.internal_topics:
        raise InvalidTopicException(f"{name.topic} is written and cut by the broker only")
    partition = broker.replicas.get(name)
    if partition is None:
        raise UnknownTopicOrPartition(str(name))
    partition.check_leader()
    log = partition.log
    if not log.settings.is_deleted and log.settings.is_compacted:
        raise PolicyViolation(f"{name.topic} is compacted only; its records go when newer ones replace them")
    target = log.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= target <= log.high_watermark:
        raise OffsetOutOfRange(f"{name} has committed offsets up to {log.high_watermark}, not {target}")
    log.advance_log_start(target)
    broker.moved(partition)
    return log.log_start_offset
