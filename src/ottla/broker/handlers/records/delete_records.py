"""DeleteRecords: move the start of partitions forward; -1 stands for the high watermark.

It is answered when the new start is on our disk and every replica that lives starts there: what is deleted stays
deleted, also when brokers are killed. Where it cannot be written down, the answer is the error of the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.replication.partition import Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import (
    BrokerError,
    InvalidTopicException,
    KafkaStorageError,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ottla.light_dataclasses import dataclass
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


log = logging.getLogger(__name__)

HIGH_WATERMARK = -1


@dataclass(slots=True)
class _Deletion:
    """Records of one partition that are deleted here, and must be in its followers."""

    partition: Partition
    offset: int
    leader_epoch: int
    result: DeleteRecordsPartitionResult
    low_watermark: Callable[[Partition], int]

    def is_over(self) -> bool:
        """Whether it is done, or cannot be any more, which its result then says."""
        try:
            self.partition.check_leader(self.leader_epoch)
        except BrokerError as error:
            self.result.error_code, self.result.low_watermark = error.code, -1
            return True
        self.result.low_watermark = self.low_watermark(self.partition)
        return self.result.low_watermark >= self.offset


DELETE_TOPIC = Need(AclOperation.DELETE, AclResource.TOPIC, Refused.ENTRY)
SERVES = Served(DeleteRecordsRequest, is_paced=True, needs=(DELETE_TOPIC,))


async def handle(broker: Broker, request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    deletions: list[_Deletion] = []
    topics: list[DeleteRecordsTopicResult] = []
    with broker.pacing.turn(context.connection) as pace:
        for topic in request.topics:
            is_allowed = DELETE_TOPIC.is_met(broker, context, topic.name)
            result = DeleteRecordsTopicResult(name=topic.name, partitions=[])
            topics.append(result)
            for asked in topic.partitions:
                name = TopicPartition(topic.name, asked.partition_index)
                result.partitions.append(
                    _one(broker, name, asked.offset, deletions)
                    if is_allowed
                    else _refused(asked.partition_index, DELETE_TOPIC.code)
                )
                await pace.step()
            await pace.step()
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    if deletions and await _are_written_down(broker, deletions):
        await _wait(broker, deletions, deadline_ms)
    return DeleteRecordsResponse(topics=topics)


async def _are_written_down(broker: Broker, deletions: list[_Deletion]) -> bool:
    """Whether our disk says where the logs start; otherwise the results say why not."""
    try:
        await broker.write_log_starts()
    except KafkaStorageError as error:
        log.warning("records are deleted until the broker is killed, because it cannot be written down: %s", error)
        for each in deletions:
            each.result.error_code, each.result.low_watermark = error.code, -1
        return False
    return True


async def _wait(broker: Broker, deletions: list[_Deletion], deadline_ms: float) -> None:
    """Until every replica that is alive starts where the leader does, or the time is over."""
    waiting = list(deletions)

    def is_over() -> bool:
        waiting[:] = [each for each in waiting if not each.is_over()]
        return not waiting

    keys = [each.partition.name for each in deletions]
    if not await broker.progress.produce_purgatory.wait(is_over, keys, deadline_ms):
        for each in waiting:
            each.result.error_code = RequestTimedOut.code


def _one(broker: Broker, name: TopicPartition, offset: int, deletions: list[_Deletion]) -> DeleteRecordsPartitionResult:
    try:
        partition = _delete(broker, name, offset)
    except BrokerError as error:
        return _refused(name.partition, error.code)
    start = partition.log.log_start_offset
    result = DeleteRecordsPartitionResult(partition_index=name.partition, low_watermark=start, error_code=0)
    deletions.append(_Deletion(partition, start, partition.leader_epoch, result, partial(_low_watermark, broker)))
    return result


def _refused(index: int, code: int) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=code)


def _low_watermark(broker: Broker, partition: Partition) -> int:
    """Where the replicas that live start, the last of them."""
    start = partition.log.log_start_offset
    return start if partition.in_sync is None else partition.in_sync.low_watermark(start, broker.image.is_alive)


def _delete(broker: Broker, name: TopicPartition, offset: int) -> Partition:
    if name.topic in broker.internal_topics:
        raise InvalidTopicException(f"{name.topic} is written and cut by the broker only")
    partition = broker.replicas.get(name)
    if partition is None:
        raise UnknownTopicOrPartition(str(name))
    partition.check_leader()
    settings, high_watermark = partition.log.settings, partition.high_watermark
    if not settings.is_deleted and settings.is_compacted:
        raise PolicyViolation(f"{name.topic} is compacted only; its records go when newer ones replace them")
    target = high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= target <= high_watermark:
        raise OffsetOutOfRange(f"{name} has committed offsets up to {high_watermark}, not {target}")
    partition.log.advance_log_start(target)
    broker.progress.advanced(partition)
    return partition
