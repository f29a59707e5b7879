"""The calls of KafkaAdminClient about the cluster, its directories, moves and features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.client.admin import cluster, replicas
from ottla.client.admin.admin import Admin
from ottla.compat.kafka.acls import ACLOperation
from ottla.compat.kafka.admin.groups import failures
from ottla.compat.kafka.admin.values import IsolationLevel, UpdateFeatureType, place_of
from ottla.compat.kafka.errors import NoError, theirs
from ottla.compat.kafka.structs import OffsetAndTimestamp, TopicPartitionReplica
from ottla.values import TopicPartition


class ClusterCalls:
    """A part of KafkaAdminClient."""

    _ours: Admin

    def describe_cluster(self) -> dict[str, Any]:
        found = self._ours.describe_cluster(include_authorized_operations=True, include_fenced_brokers=True)
        allowed = found.authorized_operations
        return {
            "cluster_id": found.cluster_id,
            "controller_id": -1 if found.controller is None else found.controller,
            "brokers": [
                {
                    "broker_id": each.id,
                    "host": each.host,
                    "port": each.port,
                    "rack": each.rack,
                    "is_fenced": each.id in found.fenced,
                }
                for each in found.nodes
            ],
            "cluster_authorized_operations": None if allowed is None else {ACLOperation(int(it)) for it in allowed},
        }

    def describe_log_dirs(
        self, topic_partitions: Any = None, brokers: Sequence[int] | None = None
    ) -> list[dict[str, Any]]:
        wanted = None if topic_partitions is None else self._partitions(topic_partitions)
        found = self._ours.describe_log_dirs(brokers, partitions=wanted)
        return [
            {"broker": broker, "log_dirs": [_directory(path, it) for path, it in directories.items()]}
            for broker, directories in found.items()
        ]

    def _partitions(self, wanted: Any) -> list[TopicPartition]:
        if isinstance(wanted, Mapping):
            return [TopicPartition(name, each) for name, numbers in wanted.items() for each in numbers]
        described = self._ours.describe_topics(list(wanted))
        return [TopicPartition(name, each.partition) for name, it in described.items() for each in it.partitions]

    def alter_replica_log_dirs(self, replica_assignments: Mapping[Any, str]) -> dict[TopicPartitionReplica, Any]:
        wanted = {TopicPartitionReplica(*each): path for each, path in replica_assignments.items()}
        directories = {cluster.Replica(each.topic, each.partition, each.broker_id): it for each, it in wanted.items()}
        failed = failures(
            lambda: self._ours.alter_replica_log_dirs(directories),
            wanted,
            lambda each: cluster.Replica(each.topic, each.partition, each.broker_id),
        )
        return {each: type(theirs(failed[each])) if each in failed else NoError for each in wanted}

    def describe_features(self, send_request_to_controller: bool = False) -> dict[str, Any]:
        found = self._ours.describe_features()
        return {
            "supported_features": {
                name: {"min_version": each.min, "max_version": each.max} for name, each in found.supported.items()
            },
            "finalized_features": {
                name: {"min_version_level": each.min, "max_version_level": each.max}
                for name, each in found.finalized.items()
            },
            "finalized_features_epoch": found.finalized_epoch,
        }

    def update_features(
        self, feature_updates: Mapping[str, Any], validate_only: bool = False, timeout_ms: int = 60_000
    ) -> dict[str, Any]:
        """{feature: (level, upgrade type)}, or {feature: level}; what became of each: None or the error."""
        wanted = {}
        for name, value in feature_updates.items():
            level, kind = value if isinstance(value, tuple) else (value, UpdateFeatureType.UPGRADE)
            upgrade = cluster.UpgradeType(int(UpdateFeatureType.build_from(kind)))
            wanted[name] = cluster.FeatureUpdate(level, upgrade)
        failed = failures(
            lambda: self._ours.update_features(wanted, validate_only=validate_only, timeout=timeout_ms / 1000),
            wanted,
            lambda each: each,
            spread=True,
        )
        return {name: str(theirs(failed[name])) if name in failed else None for name in wanted}

    def elect_leaders(
        self,
        election_type: Any,
        topic_partitions: Any = None,
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> dict[TopicPartition, Any]:
        """What became of each partition: None, or the error's class."""
        wanted = None if topic_partitions is None else self._partitions(topic_partitions)
        kind = replicas.ElectionType(int(election_type))
        found = self._ours.elect_leaders(wanted, election_type=kind, timeout=seconds(timeout_ms))
        errors = {each: theirs(error) for each, error in found.items() if error is not None}
        bad = [error for error in errors.values() if type(error).__name__ != "ElectionNotNeededError"]
        if bad and raise_errors:
            raise bad[0]
        return {each: type(errors[each]) if each in errors else None for each in found}

    def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: float | None = None
    ) -> dict[TopicPartition, Any]:
        for each, nodes in reassignments.items():
            if nodes is not None and not list(nodes):
                raise ValueError(f"Replica list for {each} must be non-empty; use None to cancel a reassignment.")
        failed = failures(
            lambda: self._ours.alter_partition_reassignments(reassignments, timeout=seconds(timeout_ms)),
            reassignments,
            lambda each: each,
        )
        return {each: type(theirs(failed[each])) if each in failed else None for each in reassignments}

    def list_partition_reassignments(
        self, topic_partitions: Any = None, timeout_ms: float | None = None
    ) -> dict[TopicPartition, dict[str, list[int]]]:
        wanted: Iterable[TopicPartition] | None = None
        if topic_partitions is not None:
            is_map = isinstance(topic_partitions, Mapping)
            wanted = self._partitions(topic_partitions) if is_map else list(topic_partitions)
        found = self._ours.list_partition_reassignments(wanted, timeout=seconds(timeout_ms))
        return {
            each: {
                "replicas": list(it.replicas),
                "adding_replicas": list(it.adding),
                "removing_replicas": list(it.removing),
            }
            for each, it in found.items()
        }

    def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, Any],
        isolation_level: Any = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        level = IsolationLevel.build_from(isolation_level)
        found = self._ours.list_offsets(
            {TopicPartition(*each): place_of(spec) for each, spec in topic_partition_specs.items()},
            isolation_level="read_committed" if level is IsolationLevel.READ_COMMITTED else "read_uncommitted",
            timeout=seconds(timeout_ms),
        )
        return {
            each: OffsetAndTimestamp(it.offset, it.timestamp_ms, it.leader_epoch)  # type: ignore[arg-type]
            for each, it in found.items()
        }


def seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000


def _directory(path: str, found: cluster.LogDirDescription) -> dict[str, Any]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for each, it in found.replicas.items():
        topics.setdefault(each.topic, []).append(
            {
                "partition_index": each.partition,
                "partition_size": it.size_bytes,
                "offset_lag": it.offset_lag,
                "is_future_key": it.is_future,
            }
        )
    return {
        "error_code": 0 if found.error is None else getattr(found.error, "code", -1),
        "log_dir": path,
        "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
    }
