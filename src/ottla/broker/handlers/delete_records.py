"""DeleteRecords: move the start of partitions forward; -1 stands for the high watermark.

It is answered when every replica that lives starts there (waiting/delete_records.py): what is deleted is deleted.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.answers import Later
from ottla.broker.waiting.delete_records import Deleting, WaitingDeletion
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


def handle(
    broker: Broker, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | Later[DeleteRecordsResponse]:
    deleting: list[Deleting] = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                _one(broker, TopicPartition(topic.name, asked.partition_index), asked.offset, deleting)
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    response = DeleteRecordsResponse(topics=topics)
    later: Later[DeleteRecordsResponse] = Later()
    operation = WaitingDeletion(deleting, lambda: later.give(response))
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    broker.produce_purgatory.wait(operation, [one.partition.name for one in deleting], deadline_ms)
    return response if later.is_given else later


def _one(broker: Broker, name: TopicPartition, offset: int, deleting: list[Deleting]) -> DeleteRecordsPartitionResult:
    try:
        partition = _delete(broker, name, offset)
    except BrokerError as error:
        return DeleteRecordsPartitionResult(partition_index=name.partition, low_watermark=-1, error_code=error.code)
    start = partition.log.log_start_offset
    result = DeleteRecordsPartitionResult(partition_index=name.partition, low_watermark=start, error_code=0)
    deleting.append(Deleting(partition, start, partition.leader_epoch, result, partial(_low_watermark, broker)))
    return result


def _low_watermark(broker: Broker, partition: Partition) -> int:
    """Where the replicas that live start, the last of them."""
    start = partition.log.log_start_offset
    return (
        start
        if partition.in_sync is None
        else partition.in_sync.low_watermark(start, broker.image.brokers.__contains__)
    )


def _delete(broker: Broker, name: TopicPartition, offset: int) -> Partition:
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
    return partition
