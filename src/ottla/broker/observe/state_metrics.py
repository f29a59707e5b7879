"""What is so right now, looked up when somebody asks: partitions, groups, connections, sizes of logs, uptime.

    state = StateMetrics(registry)
    for _ in state.update(broker, listeners=["PLAINTEXT", ...], uptime_ms=...): ...     # before the registry is read

1. The names are those that dashboards for Kafka have (kafka_server_replicamanager_*, kafka_log_log_size,
   kafka_controller_kafkacontroller_*, kafka_coordinator_group_groupmetadatamanager_*); others begin with ottla_.
2. Nothing is kept while records are served: one look counts everything, STEP partitions or groups at a time, so that
   requests have their turns between.
3. Labels are bounded: kafka_log_log_size has LOGS_LIMIT partitions, the largest ones, and one __other__ for the rest,
   so that the sum is right; states and listeners are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from heapq import nlargest
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.broker.coordinators.groups.consumer.state import ConsumerGroupState
from ottla.broker.coordinators.groups.state import GroupState
from ottla.cluster.model import NO_LEADER
from ottla.cluster.topic_names import GROUP_METADATA
from ottla.metrics import OTHER, Family, Gauge, Registry
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

T = TypeVar("T")

LOGS_LIMIT: Final = 1_000
STEP: Final = 250

_REPLICAS: Final = "kafka.server:ReplicaManager", "kafka_server_replicamanager_"
_CONTROLLER: Final = "kafka.controller:KafkaController", "kafka_controller_kafkacontroller_"
_GROUPS: Final = "kafka.coordinator.group:GroupMetadataManager", "kafka_coordinator_group_groupmetadatamanager_"

_COUNTS: Final = {
    "PartitionCount": (_REPLICAS, "Partitions that this broker has a replica of."),
    "LeaderCount": (_REPLICAS, "Partitions that this broker leads."),
    "UnderReplicatedPartitions": (_REPLICAS, "Partitions led here with replicas that are not in sync."),
    "UnderMinIsrPartitionCount": (_REPLICAS, "Partitions led here with fewer in sync than min.insync.replicas."),
    "OfflineReplicaCount": (_REPLICAS, "Replicas of this broker whose disk failed."),
    "ActiveControllerCount": (_CONTROLLER, "1 on the broker that is the controller."),
    "GlobalTopicCount": (_CONTROLLER, "Topics of the cluster."),
    "GlobalPartitionCount": (_CONTROLLER, "Partitions of the cluster."),
    "OfflinePartitionsCount": (_CONTROLLER, "Partitions of the cluster that nobody leads."),
    "NumGroups": (_GROUPS, "Groups that this broker coordinates."),
    **{
        f"NumGroups{state.value}": (_GROUPS, f"Groups of the classic protocol that are {state.value}.")
        for state in GroupState
    },
}


class StateMetrics:
    def __init__(self, registry: Registry) -> None:
        self._counts = {
            name: registry.gauge(group, name, text, exposed=exposed + name.lower()).of()
            for name, ((group, exposed), text) in _COUNTS.items()
        }
        self._consumer_groups = registry.gauge(
            "kafka.server:group-coordinator-metrics",
            "consumer-group-count",
            "Groups of the consumer protocol by state.",
            ["state"],
            exposed="kafka_server_group_coordinator_metrics_consumer_group_count",
        )
        self._connections = registry.gauge(
            "kafka.server:socket-server-metrics",
            "connection-count",
            "Open connections of clients by listener.",
            ["listener"],
            exposed="kafka_server_socket_server_metrics_connection_count",
        )
        self._sizes = registry.gauge(
            "kafka.log:Log",
            "Size",
            "Bytes of a partition's log; the smaller ones of many together.",
            ["topic", "partition"],
            exposed="kafka_log_log_size",
        )
        self._uptime = registry.gauge(
            "ottla-broker",
            "uptime-seconds",
            "Seconds since the broker began to serve.",
            exposed="ottla_broker_uptime_seconds",
        ).of()

    def update(self, broker: Broker, listeners: Iterable[str], uptime_ms: float) -> Iterator[None]:
        """Count everything; `listeners` has the listener of every open connection."""
        counts: Counter[str] = Counter(ActiveControllerCount=int(broker.image.controller_id == broker.id))
        yield from _update_partitions(broker, counts)
        yield from _update_cluster(broker, counts)
        consumer: Counter[str] = Counter()
        yield from _update_groups(broker, counts, consumer)
        for name, gauge in self._counts.items():
            gauge.value = counts[name]
        for state in ConsumerGroupState:
            self._consumer_groups.of(state.value).value = consumer[state.value]
        self._update_connections(Counter(listeners), [each.name for each in broker.settings.endpoints])
        yield from self._update_logs(broker)
        self._uptime.value = round(uptime_ms / 1000, 3)

    def _update_connections(self, open_now: Counter[str], names: Collection[str]) -> None:
        for name in names:
            self._connections.of(name).value = open_now[name]

    def _update_logs(self, broker: Broker) -> Iterator[None]:
        sizes: dict[tuple[str, ...], int] = {}
        for some in in_steps(broker.replicas):
            for each in some:
                if each.offline is None:
                    sizes[each.name.topic, str(each.name.partition)] = each.log.size_bytes
            yield
        shown = sizes
        if len(sizes) > LOGS_LIMIT:
            shown = dict(nlargest(LOGS_LIMIT, sizes.items(), lambda item: item[1]))
            shown[OTHER, OTHER] = sum(sizes.values()) - sum(shown.values())
        _show(self._sizes, shown)


def in_steps(items: Iterable[T]) -> Iterator[list[T]]:
    """STEP at a time, of those that are there now."""
    waiting = list(items)
    for start in range(0, len(waiting), STEP):
        yield waiting[start : start + STEP]


def _show(family: Family[Gauge], values: dict[tuple[str, ...], int]) -> None:
    """These series and no others."""
    for labels, _ in family.series():
        if labels not in values:
            family.forget(*labels)
    for labels, value in values.items():
        family.of(*labels).value = value


def _update_partitions(broker: Broker, counts: Counter[str]) -> Iterator[None]:
    for some in in_steps(broker.replicas):
        led = [each for each in some if each.is_leader]
        counts["PartitionCount"] += len(some)
        counts["LeaderCount"] += len(led)
        counts["UnderReplicatedPartitions"] += sum(
            each.in_sync_count < _replica_count(broker, each.name) for each in led
        )
        counts["UnderMinIsrPartitionCount"] += sum(each.in_sync_count < each.min_in_sync_count for each in led)
        counts["OfflineReplicaCount"] += sum(each.offline is not None for each in some)
        yield


def _replica_count(broker: Broker, name: TopicPartition) -> int:
    state = broker.image.partition(name.topic, name.partition)
    return 0 if state is None else len(state.replicas)


def _update_cluster(broker: Broker, counts: Counter[str]) -> Iterator[None]:
    image = broker.image
    for some in in_steps(image.topics()):
        for name in some:
            topic = image.topic(name)
            leaders = [] if topic is None else [partition.leader for partition in topic.partitions]
            counts["GlobalTopicCount"] += 1
            counts["GlobalPartitionCount"] += len(leaders)
            counts["OfflinePartitionsCount"] += leaders.count(NO_LEADER)
        yield


def _update_groups(broker: Broker, counts: Counter[str], consumer: Counter[str]) -> Iterator[None]:
    if not broker.image.partition_count(GROUP_METADATA):
        return  # nobody had a group yet, and the code for them is not loaded
    from ottla.broker.coordinators.groups.group import GroupKind

    for _, shard in list(broker.groups.runtime.shards()):
        for some in in_steps(shard.groups.values()):
            counts["NumGroups"] += len(some)
            counts.update(f"NumGroups{each.state_name}" for each in some if each.kind is GroupKind.CLASSIC)
            consumer.update(each.state_name for each in some if each.kind is GroupKind.CONSUMER)
            yield
