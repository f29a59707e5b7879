"""The cluster itself: its brokers, features, log directories and metadata quorum."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.plans import BrokerQuestion, Plan, Question, Route, by_topic, error_of, raise_error_of
from ottla.errors import DuplicateVoter, OttlaError, VoterNotFound
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import (
    alter_replica_log_dirs,
    api_versions,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    update_features,
)
from ottla.protocol.schema import Message
from ottla.quorum_health import QuorumEndpoint as QuorumEndpoint
from ottla.quorum_health import QuorumInfo as QuorumInfo
from ottla.quorum_health import quorum_of
from ottla.values import Node, TopicPartition

METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Who is in the cluster."""

    cluster_id: str
    controller: int | None
    nodes: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True)
class DescribeCluster(Question[ClusterDescription]):
    include_authorized_operations: bool = False
    include_fenced_brokers: bool = False

    def ask(self, timeout_ms: int) -> Message:
        return describe_cluster.DescribeClusterRequest(
            include_cluster_authorized_operations=self.include_authorized_operations,
            include_fenced_brokers=self.include_fenced_brokers,
        )

    def answer(self, response: Any) -> ClusterDescription:
        raise_error_of(response)
        nodes = (Node(each.broker_id, each.host, each.port, each.rack) for each in response.brokers)
        return ClusterDescription(
            cluster_id=response.cluster_id,
            controller=None if response.controller_id < 0 else response.controller_id,
            nodes=tuple(sorted(nodes)),
            fenced=frozenset(each.broker_id for each in response.brokers if each.is_fenced),
            authorized_operations=operations_of(response.cluster_authorized_operations),
        )


# --- features --------------------------------------------------------------------------------------------------------


class VersionRange(NamedTuple):
    """From the lowest to the highest level of a feature."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """What the cluster has decided on, and what the broker that was asked could do."""

    finalized: Mapping[str, VersionRange] = field(default_factory=dict)
    finalized_epoch: int | None = None
    supported: Mapping[str, VersionRange] = field(default_factory=dict)


def _ask_versions() -> Message:
    return api_versions.ApiVersionsRequest(client_software_name="ottla", client_software_version="admin")


def _features(response: Any) -> FeatureMetadata:
    raise_error_of(response)
    return FeatureMetadata(
        finalized={
            each.name: VersionRange(each.min_version_level, each.max_version_level)
            for each in response.finalized_features
        },
        finalized_epoch=None if response.finalized_features_epoch < 0 else response.finalized_features_epoch,
        supported={each.name: VersionRange(each.min_version, each.max_version) for each in response.supported_features},
    )


@dataclass(frozen=True)
class DescribeFeatures(Question[FeatureMetadata]):
    """What any broker says."""

    def ask(self, timeout_ms: int) -> Message:
        return _ask_versions()

    def answer(self, response: Any) -> FeatureMetadata:
        return _features(response)


@dataclass(frozen=True)
class DescribeFeaturesOf(BrokerQuestion[FeatureMetadata]):
    """What certain brokers say."""

    def ask(self, timeout_ms: int) -> Message:
        return _ask_versions()

    def answer(self, response: Any) -> FeatureMetadata:
        return _features(response)


class UpgradeType(enum.IntEnum):
    """Which way a feature may move."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The highest level a feature may have from now on; 0 takes it away."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True)
class UpdateFeatures(Plan[str, None]):
    route = Route.CONTROLLER

    updates: Mapping[str, FeatureUpdate]
    validate_only: bool = False

    def target(self, key: str) -> None:
        return None

    def request(self, keys: Sequence[str], timeout_ms: int) -> Message:
        updates = [
            update_features.FeatureUpdateKey(
                feature=name,
                max_version_level=self.updates[name].max_version_level,
                upgrade_type=int(self.updates[name].upgrade_type),
            )
            for name in keys
        ]
        return update_features.UpdateFeaturesRequest(
            timeout_ms=timeout_ms, feature_updates=updates, validate_only=self.validate_only
        )

    def results(self, keys: Sequence[str], response: Any) -> Iterator[tuple[str, OttlaError | None]]:
        # From version 2 on the answer speaks of all updates at once; the error on top counts for each of them.
        named = {each.feature: error_of(each) for each in response.results}
        whole = error_of(response)
        for key in keys:
            yield key, whole or named.get(key)


# --- log directories -------------------------------------------------------------------------------------------------


class ReplicaInfo(NamedTuple):
    """A copy of a partition in a directory; `is_future` while it is to replace another one."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A directory of a broker; a failed one has an error and nothing else."""

    error: OttlaError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None = None
    usable_bytes: int | None = None


@dataclass(frozen=True)
class DescribeLogDirs(BrokerQuestion[dict[str, LogDirDescription]]):
    partitions: Sequence[TopicPartition] | None = None

    def ask(self, timeout_ms: int) -> Message:
        topics = None
        if self.partitions is not None:
            topics = [
                describe_log_dirs.DescribableLogDirTopic(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(self.partitions).items()
            ]
        return describe_log_dirs.DescribeLogDirsRequest(topics=topics)

    def answer(self, response: Any) -> dict[str, LogDirDescription]:
        raise_error_of(response)
        return {each.log_dir: _log_dir(each) for each in response.results}


def _log_dir(each: Any) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, copy.partition_index): ReplicaInfo(
            copy.partition_size, copy.offset_lag, copy.is_future_key
        )
        for topic in each.topics
        for copy in topic.partitions
    }
    total = None if each.total_bytes < 0 else each.total_bytes
    usable = None if each.usable_bytes < 0 else each.usable_bytes
    return LogDirDescription(error_of(each), replicas, total, usable)


class Replica(NamedTuple):
    """The copy of a partition on one broker."""

    topic: str
    partition: int
    broker: int


class ReplicaLogDirs(NamedTuple):
    """Where a copy is and how far behind, and the same of the directory it moves to; None where it is not."""

    current: str | None = None
    current_lag: int | None = None
    future: str | None = None
    future_lag: int | None = None


def directories_of(replica: Replica, directories: Mapping[str, LogDirDescription]) -> ReplicaLogDirs:
    """What the directories of a broker say about one copy."""
    found = ReplicaLogDirs()
    for path, directory in directories.items():
        copy = directory.replicas.get(TopicPartition(replica.topic, replica.partition))
        if copy is not None and copy.is_future:
            found = found._replace(future=path, future_lag=copy.offset_lag)
        elif copy is not None:
            found = found._replace(current=path, current_lag=copy.offset_lag)
    return found


@dataclass(frozen=True)
class AlterReplicaLogDirs(Plan[Replica, None]):
    """Move copies into other directories of their brokers."""

    route = Route.BROKER

    directories: Mapping[Replica, str]

    def target(self, key: Replica) -> int:
        return key.broker

    def request(self, keys: Sequence[Replica], timeout_ms: int) -> Message:
        by_path: dict[str, list[TopicPartition]] = {}
        for key in keys:
            by_path.setdefault(self.directories[key], []).append(TopicPartition(key.topic, key.partition))
        dirs = [
            alter_replica_log_dirs.AlterReplicaLogDir(
                path=path,
                topics=[
                    alter_replica_log_dirs.AlterReplicaLogDirTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(partitions).items()
                ],
            )
            for path, partitions in by_path.items()
        ]
        return alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=dirs)

    def results(self, keys: Sequence[Replica], response: Any) -> Iterator[tuple[Replica, OttlaError | None]]:
        broker = keys[0].broker
        for topic in response.results:
            for each in topic.partitions:
                yield Replica(topic.topic_name, each.partition_index, broker), error_of(each)


# --- quorum ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DescribeQuorum(Question[QuorumInfo]):
    def ask(self, timeout_ms: int) -> Message:
        partitions = [describe_quorum.PartitionData(partition_index=0)]
        topics = [describe_quorum.TopicData(topic_name=METADATA_TOPIC, partitions=partitions)]
        return describe_quorum.DescribeQuorumRequest(topics=topics)

    def answer(self, response: Any) -> QuorumInfo:
        return quorum_of(response)


@dataclass(frozen=True)
class AddRaftVoter(Question[None]):
    """A controller that follows the log is to vote."""

    presumed_done_after = (DuplicateVoter,)

    voter: int
    directory_id: bytes
    endpoints: Sequence[QuorumEndpoint]
    cluster_id: str | None = None

    def ask(self, timeout_ms: int) -> Message:
        from ottla.protocol.messages import add_raft_voter

        return add_raft_voter.AddRaftVoterRequest(
            cluster_id=self.cluster_id,
            timeout_ms=timeout_ms,
            voter_id=self.voter,
            voter_directory_id=self.directory_id,
            listeners=[
                add_raft_voter.Listener(name=each.listener, host=each.host, port=each.port) for each in self.endpoints
            ],
        )

    def answer(self, response: Any) -> None:
        raise_error_of(response)

    def presumed(self, key: None, error: OttlaError) -> None:
        return None


@dataclass(frozen=True)
class RemoveRaftVoter(Question[None]):
    """A controller is not to vote any more."""

    presumed_done_after = (VoterNotFound,)

    voter: int
    directory_id: bytes
    cluster_id: str | None = None

    def ask(self, timeout_ms: int) -> Message:
        from ottla.protocol.messages import remove_raft_voter

        return remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=self.cluster_id, voter_id=self.voter, voter_directory_id=self.directory_id
        )

    def answer(self, response: Any) -> None:
        raise_error_of(response)

    def presumed(self, key: None, error: OttlaError) -> None:
        return None


# --- brokers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnregisterBroker(Question[None]):
    """A broker that is gone for good."""

    broker: int

    def ask(self, timeout_ms: int) -> Message:
        from ottla.protocol.messages import unregister_broker

        return unregister_broker.UnregisterBrokerRequest(broker_id=self.broker)

    def answer(self, response: Any) -> None:
        raise_error_of(response)
