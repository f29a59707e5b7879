"""ListOffsets: the first or last offset of a partition, or the first at or after a time.

Special times: -1 the end (high watermark, or last stable offset for read_committed), -2 the start, -3 the record with
the largest timestamp (7+), -4 the start of what is local (8+). -5 and -6 ask about tiered storage, which this broker
does not have; like a Kafka without it, it answers that there is no such offset.

A follower (replica_id) is told where the log ends; who is no broker is answered as a consumer, whatever replica he
names. A consumer is not told an end that may still move back: a leader
whose high watermark has not reached the start of its epoch says OFFSET_NOT_AVAILABLE (KIP-207).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.processor import CloseConnection
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError, LeaderNotAvailable, OffsetNotAvailable, UnknownTopicOrPartition
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replication.partition import Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
READ_COMMITTED = 1
LEADER_EPOCH_SINCE = 4
OFFSET_NOT_AVAILABLE_SINCE = 5
UNKNOWN = -1
CONSUMER = -1


DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY)
SERVES = Served(ListOffsetsRequest, entries=WIDE_ENTRIES, is_paced=True, needs=(DESCRIBE_TOPIC,))


async def handle(broker: Broker, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    topics = []
    if request.replica_id >= 0 and not await _is_broker(broker, context):
        request.replica_id = CONSUMER
    with broker.pacing.turn(context.connection) as pace:
        names = {topic.name for topic in request.topics}
        allowed = await DESCRIBE_TOPIC.met_by_many(broker, context, names, pace)
        for topic in request.topics:
            found: list[ListOffsetsPartitionResponse] = []
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=found))
            for asked in topic.partitions:
                if topic.name in allowed:
                    found.append(_one(broker, topic.name, asked, request, context.api_version))
                else:
                    found.append(_refused(asked, DESCRIBE_TOPIC.code))
                await pace.step()
            await pace.step()  # a topic may have no partitions, and a request a quarter of a million of them
    return ListOffsetsResponse(topics=topics)


async def _is_broker(broker: Broker, context: RequestContext) -> bool:
    try:
        await broker.peers.admit(context)
    except (BrokerError, CloseConnection):
        return False
    return True


def _one(
    broker: Broker, topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, version: int
) -> ListOffsetsPartitionResponse:
    try:
        partition = broker.replicas.get(TopicPartition(topic, asked.partition_index))
        if partition is None:
            raise UnknownTopicOrPartition(f"{topic}-{asked.partition_index}")
        partition.check_leader(asked.current_leader_epoch)
        timestamp, offset = _look_up(partition, asked.timestamp, _limit(partition, request))
        if request.replica_id < 0 and (asked.timestamp == LATEST or offset == UNKNOWN):
            _check_committed(partition, version)
    except BrokerError as error:
        return _refused(asked, error.code)
    # Older clients have no field for the epoch, and the codec refuses to drop it in silence.
    knows_epochs = version >= LEADER_EPOCH_SINCE and offset >= 0
    epoch = partition.log.epochs.epoch_for_offset(offset) if knows_epochs else None
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=0,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=-1 if epoch is None else epoch,
    )


def _refused(asked: ListOffsetsPartition, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)


def _limit(partition: Partition, request: ListOffsetsRequest) -> int:
    """Where the log ends for who asks."""
    log = partition.log
    if request.replica_id >= 0:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark


def _check_committed(partition: Partition, version: int) -> None:
    in_sync = partition.in_sync
    if in_sync is not None and partition.high_watermark < in_sync.epoch_start_offset:
        said = f"{partition.name}: what its new leader has is not all committed yet"
        raise OffsetNotAvailable(said) if version >= OFFSET_NOT_AVAILABLE_SINCE else LeaderNotAvailable(said)


def _look_up(partition: Partition, timestamp: int, limit: int) -> tuple[int, int]:
    """(timestamp, offset); -1 for both when there is no such record."""
    log = partition.log
    if timestamp == LATEST:
        return UNKNOWN, limit
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return UNKNOWN, log.log_start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN, UNKNOWN
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= limit:
        return UNKNOWN, UNKNOWN
    return found.timestamp_ms, found.offset
