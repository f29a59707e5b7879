"""AssignReplicasToDirs: a broker says in which of its directories replicas lie (KIP-858).

A replica in a directory that is not among the broker's working ones is lost there: it leaves the in-sync set.
"""

from __future__ import annotations

from ottla.cluster.changes import Change, ChangePartition
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.levels import DIRECTORIES_SINCE
from ottla.cluster.model import METADATA_VERSION, Broker, Topic
from ottla.cluster.plan import Plan
from ottla.cluster.quorum_controller.partition_changes import Wanted
from ottla.cluster.quorum_controller.registrations import registered_broker
from ottla.cluster.quorum_controller.rules import ControllerRules, Decider, works
from ottla.errors import (
    NONE,
    BrokerError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)


def assign_replicas(
    image: ClusterImage, request: AssignReplicasToDirsRequest, rules: ControllerRules
) -> Plan[ResponseDirectoryData]:
    """Every partition stands for itself; a broker that is not who it was is refused as a whole."""
    if image.feature(METADATA_VERSION) < DIRECTORIES_SINCE:
        raise UnsupportedVersion("this metadata.version does not say which directory has which replica")
    broker = registered_broker(image, request.broker_id, request.broker_epoch)
    decider = Decider(image, rules, without=())
    changes: dict[tuple[bytes, int], Change] = {}
    answers = []
    for directory in request.directories:
        topics = []
        for asked in directory.topics:
            topic = image.topic_by_id(asked.topic_id)
            indexes = [each.partition_index for each in asked.partitions]
            results = [_answer(decider, broker, topic, index, directory.id, changes) for index in indexes]
            topics.append(ResponseTopicData(topic_id=asked.topic_id, partitions=results))
        answers.append(ResponseDirectoryData(id=directory.id, topics=topics))
    return Plan(tuple(changes.values()), answers)


def _answer(
    decider: Decider,
    broker: Broker,
    topic: Topic | None,
    index: int,
    directory: bytes,
    changes: dict[tuple[bytes, int], Change],
) -> ResponsePartitionData:
    try:
        if topic is None:
            raise UnknownTopicId
        if not 0 <= index < len(topic.partitions):
            raise UnknownTopicOrPartition
        before = topic.partitions[index]
        if broker.id not in before.replicas:
            raise NotLeaderOrFollower
    except BrokerError as error:
        return ResponsePartitionData(partition_index=index, error_code=error.code)
    is_lost = not works(broker, directory)
    isr = tuple(each for each in before.isr if each != broker.id) if is_lost else None
    asking = Decider(decider.image, decider.rules, without={broker.id}) if is_lost else decider
    after = asking.changed(topic, before, Wanted(isr=isr, directories={broker.id: directory}))
    if after is not before:
        changes[topic.id, index] = ChangePartition(topic.id, index, after)
    return ResponsePartitionData(partition_index=index, error_code=NONE)
