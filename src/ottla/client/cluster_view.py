"""What is known of the cluster at one moment: brokers, topics, leaders. A frozen value, made from answers.

1. A view never changes; a new answer makes a new view. So any thread may read one while the loop makes the next.
2. Leaders do not go back. Answers come from brokers that learn of changes at different times; a partition whose
   answer has an older leader epoch than the one we know keeps what we know (KIP-320). Brokers before 2.4 sometimes
   answer with wrong epochs; the caller says so and all their answers are taken.
3. A topic that has another id than before was deleted and made again: nothing of the old one counts, epochs begin
   again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.errors import BrokerError, broker_error
from ottla.light_dataclasses import dataclass, field, replace
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.values import ZERO_UUID, Node, TopicPartition

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition as the cluster described it. Replicas are broker ids."""

    topic: str
    partition: int
    leader: Node | None
    leader_epoch: int | None
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: BrokerError | None = field(default=None, compare=False)

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic as the cluster described it, or why it could not."""

    name: str
    topic_id: bytes | None
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    error: BrokerError | None = field(default=None, compare=False)
    error_code: int = 0

    @property
    def may_get_better(self) -> bool:
        """Whether asking again soon makes sense: leaders are missing, or the topic is not known yet."""
        errors = [self.error, *(partition.error for partition in self.partitions)]
        return any(error is not None and error.refresh_metadata for error in errors)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Brokers and topics, by their ids and names."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    names: Mapping[bytes, str] = field(default_factory=dict)

    def updated(
        self,
        response: MetadataResponse,
        *,
        keep: Iterable[str] = (),
        reliable_epochs: bool = True,
        forget: bool = False,
    ) -> ClusterView:
        """The view after an answer. Topics of `keep` that the answer does not speak of stay as they are; with `forget`
        epochs known so far do not count, because the answer may come from another cluster."""
        nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
        }
        topics = {name: self.topics[name] for name in keep if name in self.topics}
        for topic in response.topics:
            if topic.name is not None:
                known = None if forget or not reliable_epochs else self.topics.get(topic.name)
                topics[topic.name] = _topic_info(topic, topic.name, known, nodes)
        return ClusterView(response.cluster_id, response.controller_id, nodes, topics, _names(topics))

    def with_leader(
        self, partition: TopicPartition, leader_id: int, leader_epoch: int, nodes: Iterable[Node]
    ) -> ClusterView | None:
        """The view after a broker said who leads now; None when that is no news, or nothing we can use."""
        known = self.partition(partition)
        all_nodes = {**self.nodes, **{node.id: node for node in nodes}}
        if known is None or leader_id not in all_nodes or leader_epoch < 0:
            return None
        if known.leader_epoch is not None and leader_epoch <= known.leader_epoch:
            return None
        changed = replace(known, leader=all_nodes[leader_id], leader_epoch=leader_epoch, error=None)
        topic = self.topics[partition.topic]
        partitions = tuple(changed if each.partition == partition.partition else each for each in topic.partitions)
        topics = {**self.topics, topic.name: replace(topic, partitions=partitions)}
        return replace(self, nodes=all_nodes, topics=topics)

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]


def _topic_info(
    topic: MetadataResponseTopic, name: str, known: TopicInfo | None, nodes: Mapping[int, Node]
) -> TopicInfo:
    topic_id = None if topic.topic_id == ZERO_UUID else topic.topic_id
    if topic.error_code:
        return TopicInfo(name, topic_id, topic.is_internal, (), _error(topic.error_code), topic.error_code)
    if known is not None and known.topic_id is not None and topic_id is not None and known.topic_id != topic_id:
        known = None
    before = {} if known is None else {each.partition: each for each in known.partitions}
    ordered = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    newest = [_newest(before.get(each.partition_index), _partition_info(name, each, nodes)) for each in ordered]
    return TopicInfo(name, topic_id, topic.is_internal, _by_index(name, newest))


def _partition_info(topic: str, found: MetadataResponsePartition, nodes: Mapping[int, Node]) -> PartitionInfo:
    return PartitionInfo(
        topic,
        found.partition_index,
        leader=nodes.get(found.leader_id),
        leader_epoch=found.leader_epoch if found.leader_epoch >= 0 else None,
        replicas=tuple(found.replica_nodes),
        in_sync=tuple(found.isr_nodes),
        offline=tuple(found.offline_replicas),
        error=_error(found.error_code),
    )


def _newest(known: PartitionInfo | None, found: PartitionInfo) -> PartitionInfo:
    if known is None or known.leader_epoch is None or found.leader_epoch is None:
        return found
    return found if found.leader_epoch >= known.leader_epoch else known


def _by_index(topic: str, partitions: list[PartitionInfo]) -> tuple[PartitionInfo, ...]:
    """The partitions at their own index, so that a lookup is one step. Kafka leaves no gaps; a broker that does would
    shift every later partition, so a gap is filled with one that has no leader."""
    found = {each.partition: each for each in partitions if 0 <= each.partition < 1_000_000}
    if len(found) == len(partitions) and all(index == each.partition for index, each in enumerate(partitions)):
        return tuple(partitions)
    count = max(found, default=-1) + 1
    # A hostile or broken answer must not make us build a million empty places for one partition.
    if count > 10 * len(found) + 1000:
        return ()
    return tuple(found.get(index) or PartitionInfo(topic, index, None, None) for index in range(count))


def _names(topics: Mapping[str, TopicInfo]) -> dict[bytes, str]:
    return {topic.topic_id: name for name, topic in topics.items() if topic.topic_id is not None}


def _error(code: int) -> BrokerError | None:
    return broker_error(code) if code else None
