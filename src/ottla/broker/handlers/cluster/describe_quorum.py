"""DescribeQuorum: who decides in this cluster, how far that is, and who follows; as far as it can be said truly.

    leader       the controller, with the epoch in which it leads
    voters       the controller alone: its quorum is of one, or the truth is kept by ZooKeeper, and nobody else has a
                 say
    observers    all other brokers. How far they are is known to nobody but themselves, so it is -1, as Kafka says it of
                 replicas it has not heard of
    offsets      where the metadata log ends; without one, the number of changes since the beginning

The controller answers; other brokers pass the question on. Other partitions are UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.forwarding import decided
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.topic_names import CLUSTER_METADATA
from ottla.errors import NONE, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.cluster.image import ClusterImage

UNKNOWN: Final = -1
NODES_SINCE: Final = 2
DIRECTORIES_SINCE: Final = 2
NO_QUORUM: Final = str(UnknownTopicOrPartition("only the metadata log has a quorum, and is asked for alone"))

DESCRIBE_CLUSTER = Need(AclOperation.DESCRIBE, AclResource.CLUSTER, is_forwarded=True)
SERVES = Served(DescribeQuorumRequest, needs=(DESCRIBE_CLUSTER,))


async def handle(broker: Broker, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    DESCRIBE_CLUSTER.check(broker, context)
    return await decided(broker, request, context, _decide)


def _decide(broker: Broker, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    image, is_asked = broker.image, asks_for_the_log_alone(request)
    topics = [
        ResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                _partition(broker, context.api_version) if is_asked else unknown_log(partition.partition_index)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    nodes = _nodes(image, context.listener) if context.api_version >= NODES_SINCE else []
    return DescribeQuorumResponse(error_code=NONE, topics=topics, nodes=nodes)


def asks_for_the_log_alone(request: DescribeQuorumRequest) -> bool:
    """Anything beside it makes all unknown, as in Kafka: there may be thousands of observers, to be told once."""
    if [topic.topic_name for topic in request.topics] != [CLUSTER_METADATA]:
        return False
    return [partition.partition_index for partition in request.topics[0].partitions] == [0]


def unknown_log(index: int) -> ResponsePartitionData:
    return _refused(index, UnknownTopicOrPartition.code, NO_QUORUM)


def _partition(broker: Broker, version: int) -> ResponsePartitionData:
    image = broker.image
    if image.controller_id != broker.id:
        error = NotLeaderOrFollower(f"broker {broker.id} is not the controller")
        return _refused(0, error.code, str(error))
    now_ms = broker.clock.now_ms()
    others = (each for each in image.brokers if each != image.controller_id)
    end_offset = image.change_number + (1 if image.controllers else 0)  # a log counts from 0
    voter = _replica(image.controller_id, end_offset, now_ms)
    if version >= DIRECTORIES_SINCE:
        voter.replica_directory_id = broker.link.metadata_directory_id
    return ResponsePartitionData(
        partition_index=0,
        error_code=NONE,
        leader_id=image.controller_id,
        leader_epoch=image.controller_epoch,
        high_watermark=end_offset,
        current_voters=[voter],
        observers=[_replica(each, UNKNOWN, UNKNOWN) for each in others],
    )


def _refused(index: int, error_code: int, message: str) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=index,
        error_code=error_code,
        error_message=message,
        leader_id=UNKNOWN,
        leader_epoch=UNKNOWN,
        high_watermark=UNKNOWN,
        current_voters=[],
        observers=[],
    )


def _replica(broker_id: int, offset: int, time_ms: int) -> ReplicaState:
    return ReplicaState(
        replica_id=broker_id, log_end_offset=offset, last_fetch_timestamp=time_ms, last_caught_up_timestamp=time_ms
    )


def _nodes(image: ClusterImage, listener: str) -> list[Node]:
    """Where the voters are."""
    if image.controllers:
        return [
            Node(
                node_id=node.id,
                listeners=[Listener(name=each.listener, host=each.host, port=each.port) for each in node.endpoints],
            )
            for node in image.controllers.values()
        ]
    controller = image.brokers.get(image.controller_id)
    endpoint = None if controller is None else controller.endpoint(listener)
    if endpoint is None:
        return []
    listeners = [Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)]
    return [Node(node_id=image.controller_id, listeners=listeners)]
