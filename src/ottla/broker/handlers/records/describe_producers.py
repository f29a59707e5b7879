"""DescribeProducers: who writes to a partition, and where its open transaction began; how hanging ones are found.

Version 0 only. All replicas answer, as in Kafka. A partition that is elsewhere is NOT_LEADER_OR_FOLLOWER, one that does
not exist UNKNOWN_TOPIC_OR_PARTITION, a name that no topic can have INVALID_TOPIC_EXCEPTION. A partition that is named
twice is described once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.replication.partition import Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import (
    NONE,
    BrokerError,
    InvalidTopicException,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.storage.producers.entry import ProducerEntry
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

NO_TRANSACTION: Final = -1


READ_TOPIC = Need(AclOperation.READ, AclResource.TOPIC, Refused.ENTRY)
SERVES = Served(DescribeProducersRequest, is_paced=True, needs=(READ_TOPIC,))


async def handle(
    broker: Broker, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    topics: dict[str, dict[int, PartitionResponse]] = {}
    with broker.pacing.turn(context.connection) as pace:
        for topic in request.topics:
            partitions = topics.setdefault(topic.name, {})
            for index in topic.partition_indexes:
                if index not in partitions:
                    partitions[index] = _one(broker, TopicPartition(topic.name, index), context)
                await pace.step()
            await pace.step()
    return DescribeProducersResponse(
        topics=[TopicResponse(name=name, partitions=list(found.values())) for name, found in topics.items()]
    )


def _one(broker: Broker, name: TopicPartition, context: RequestContext) -> PartitionResponse:
    try:
        READ_TOPIC.check(broker, context, name.topic)
        partition = _partition(broker, name)
    except BrokerError as error:
        return PartitionResponse(
            partition_index=name.partition, error_code=error.code, error_message=str(error), active_producers=[]
        )
    producers = [_producer(entry) for entry in partition.log.producers.entries.values()]
    return PartitionResponse(partition_index=name.partition, error_code=NONE, active_producers=producers)


def _partition(broker: Broker, name: TopicPartition) -> Partition:
    if not broker.is_legal_topic_name(name.topic):
        raise InvalidTopicException(f"{name.topic!r} is no name of a topic")
    if broker.image.partition(name.topic, name.partition) is None:
        raise UnknownTopicOrPartition(str(name))
    partition = broker.replicas.get(name)
    if partition is None:
        raise NotLeaderOrFollower(f"{name} is not on this broker")
    if partition.offline is not None:
        raise partition.offline
    return partition


def _producer(entry: ProducerEntry) -> ProducerState:
    first_offset = entry.transaction_first_offset
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=NO_TRANSACTION if first_offset is None else first_offset,
    )
