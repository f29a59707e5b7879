"""What is so right now, looked up when somebody asks: partitions, groups, connections, sizes of logs, uptime.

    state = StateMetrics(registry)
    state.look(broker, listeners=["PLAINTEXT", ...], uptime_ms=...)       # before the text of the registry is made

1. The names are those that dashboards for Kafka have (kafka_server_replicamanager_*, kafka_log_log_size,
   kafka_controller_kafkacontroller_*, kafka_coordinator_group_groupmetadatamanager_*); others begin with ottla_.
2. Nothing is kept while records are served: one look counts everything, in one pass over partitions and groups.
3. Labels are bounded: kafka_log_log_size has LOGS_LIMIT partitions, the largest ones, and one __other__ for the rest,
   so that the sum is right; states and listeners are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinators.groups.consumer.state import ConsumerGroupState
from ottla.broker.coordinators.groups.group import Group, GroupKind
from ottla.broker.coordinators.groups.state import GroupState
from ottla.cluster.model import NO_LEADER
from ottla.metrics import OTHER, Family, Gauge, Registry

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

LOGS_LIMIT: Final = 1_000

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

    def look(self, broker: Broker, listeners: Iterable[str], uptime_ms: float) -> None:
        """Count everything; `listeners` has the listener of every open connection."""
        counts = Counter(_partition_counts(broker))
        counts.update(_cluster_counts(broker))
        groups = [group for _, shard in broker.groups.runtime.shards() for group in shard.groups.values()]
        counts.update(_group_counts(groups))
        for name, gauge in self._counts.items():
            gauge.value = counts[name]
        consumer = Counter(each.state_name for each in groups if each.kind is GroupKind.CONSUMER)
        for state in ConsumerGroupState:
            self._consumer_groups.of(state.value).value = consumer[state.value]
        self._look_at_connections(Counter(listeners), [each.name for each in broker.settings.endpoints])
        self._look_at_logs(broker)
        self._uptime.value = round(uptime_ms / 1000, 3)

    def _look_at_connections(self, open_now: Counter[str], names: Collection[str]) -> None:
        for name in names:
            self._connections.of(name).value = open_now[name]

    def _look_at_logs(self, broker: Broker) -> None:
        sizes = {
            (each.name.topic, str(each.name.partition)): each.log.size_bytes
            for each in broker.replicas
            if each.offline is None
        }
        shown = dict(
            sizes.items() if len(sizes) <= LOGS_LIMIT else nlargest(LOGS_LIMIT, sizes.items(), lambda it: it[1])
        )
        rest = sum(sizes.values()) - sum(shown.values())
        if len(shown) < len(sizes):
            shown[OTHER, OTHER] = rest
        _show(self._sizes, shown)


def _show(family: Family[Gauge], values: dict[tuple[str, ...], int] | dict[tuple[str, str], int]) -> None:
    """These series and no others."""
    for labels, _ in family.series():
        if labels not in values:
            family.forget(*labels)
    for labels, value in values.items():
        family.of(*labels).value = value


def _partition_counts(broker: Broker) -> dict[str, int]:
    replicas = list(broker.replicas)
    led = [each for each in replicas if each.is_leader]
    under = [
        each for each in led if each.in_sync_count < len(_replicas_of(broker, each.name.topic, each.name.partition))
    ]
    return {
        "PartitionCount": len(replicas),
        "LeaderCount": len(led),
        "UnderReplicatedPartitions": len(under),
        "UnderMinIsrPartitionCount": sum(each.in_sync_count < each.min_in_sync_count for each in led),
        "OfflineReplicaCount": sum(each.offline is not None for each in replicas),
    }


def _replicas_of(broker: Broker, topic: str, index: int) -> Collection[int]:
    state = broker.image.partition(topic, index)
    return () if state is None else state.replicas


def _cluster_counts(broker: Broker) -> dict[str, int]:
    leaders = [partition.leader for _, partition in broker.image.partitions()]
    return {
        "ActiveControllerCount": int(broker.image.controller_id == broker.id),
        "GlobalTopicCount": len(list(broker.image.topics())),
        "GlobalPartitionCount": len(leaders),
        "OfflinePartitionsCount": leaders.count(NO_LEADER),
    }


def _group_counts(groups: Collection[Group]) -> dict[str, int]:
    classic = Counter(each.state_name for each in groups if each.kind is GroupKind.CLASSIC)
    return {"NumGroups": len(groups), **{f"NumGroups{state}": count for state, count in classic.items()}}
