"""confluent_kafka.admin: AdminClient whose calls give a future for each thing, and the values they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from ottla.client.admin import replicas
from ottla.client.admin.admin import Admin
from ottla.client.admin.offsets import IsolationLevel as OurIsolation
from ottla.client.admin.settings import AdminSettings
from ottla.compat.confluent_kafka import admin_checks as check
from ottla.compat.confluent_kafka.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from ottla.compat.confluent_kafka.admin_access import AccessCalls
from ottla.compat.confluent_kafka.admin_groups import GroupCalls
from ottla.compat.confluent_kafka.admin_values import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    DeletedRecords,
    DescribeClusterResult,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TopicDescription,
    config_change,
    config_entry,
    topic_description,
)
from ottla.compat.confluent_kafka.cimpl_numbers import (
    CONFIG_SOURCE_DEFAULT_CONFIG,
    CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG,
    CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG,
    CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG,
    CONFIG_SOURCE_GROUP_CONFIG,
    CONFIG_SOURCE_STATIC_BROKER_CONFIG,
    CONFIG_SOURCE_UNKNOWN_CONFIG,
    OFFSET_INVALID,
    RESOURCE_ANY,
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    RESOURCE_TRANSACTIONAL_ID,
    RESOURCE_UNKNOWN,
)
from ottla.compat.confluent_kafka.cluster import (
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
    cluster_id,
    list_topics,
)
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException, error_of
from ottla.compat.confluent_kafka.futures import Future, Futures
from ottla.compat.confluent_kafka.group_values import (
    ConsumerGroupDescription,
    ConsumerGroupListing,
    GroupMember,
    GroupMetadata,
    ListConsumerGroupsResult,
    MemberAssignment,
    MemberDescription,
)
from ottla.compat.confluent_kafka.messages import TopicPartition
from ottla.compat.confluent_kafka.model import ElectionType, IsolationLevel, Node, TopicCollection
from ottla.compat.confluent_kafka.scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)
from ottla.compat.confluent_kafka.serving import Serving
from ottla.compat.confluent_kafka.settings import configure
from ottla.errors import OttlaError

__all__ = [
    "CONFIG_SOURCE_DEFAULT_CONFIG",
    "CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG",
    "CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG",
    "CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG",
    "CONFIG_SOURCE_GROUP_CONFIG",
    "CONFIG_SOURCE_STATIC_BROKER_CONFIG",
    "CONFIG_SOURCE_UNKNOWN_CONFIG",
    "OFFSET_INVALID",
    "RESOURCE_ANY",
    "RESOURCE_BROKER",
    "RESOURCE_GROUP",
    "RESOURCE_TOPIC",
    "RESOURCE_TRANSACTIONAL_ID",
    "RESOURCE_UNKNOWN",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AdminClient",
    "AlterConfigOpType",
    "BrokerMetadata",
    "ClusterMetadata",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConsumerGroupDescription",
    "ConsumerGroupListing",
    "DeletedRecords",
    "DescribeClusterResult",
    "GroupMember",
    "GroupMetadata",
    "KafkaError",
    "KafkaException",
    "ListConsumerGroupsResult",
    "ListOffsetsResultInfo",
    "MemberAssignment",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PartitionMetadata",
    "ResourcePatternType",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramMechanism",
    "TopicDescription",
    "TopicMetadata",
    "UserScramCredentialAlteration",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "UserScramCredentialsDescription",
]


class AdminClient(GroupCalls, AccessCalls):
    """Calls return at once: a future, or a dictionary with a future for each thing. Its settings are a Producer's."""

    def __init__(self, conf: dict[str, Any], **kwargs: Any) -> None:
        self._configuration = configure("producer", conf, kwargs, AdminSettings)
        self._settings = {"client.id": "rdkafka"} | self._configuration.ours
        try:
            self._ours = Admin(self._settings)
        except OttlaError as error:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from error
        self._futures = Futures()
        self._serving = Serving(self._configuration)
        self._serving.attach(self._ours._async._network)

    def poll(self, timeout: float = 0) -> int:
        """Call error_cb and throttle_cb when they are due."""
        return self._serving.serve(lambda: "{}")

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        return list_topics(self._settings, topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str:
        return cluster_id(self._settings, timeout)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Not possible here: the login is part of the settings."""
        raise KafkaException(
            KafkaError(KafkaError._NOT_IMPLEMENTED, "credentials cannot be changed: make a new AdminClient")
        )

    # --- topics ---

    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        operation_timeout: float = 0,
        request_timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[str, Future[None]]:
        wanted = [NewTopic(each) if isinstance(each, str) else each for each in new_topics]

        def call() -> Any:
            return self._ours.create_topics(
                [each.ours for each in wanted], validate_only=validate_only, timeout=request_timeout
            )

        return self._futures.each([each.topic for each in wanted], call)

    def delete_topics(
        self, topics: list[str], *, operation_timeout: float = 0, request_timeout: float | None = None
    ) -> dict[str, Future[None]]:
        return self._futures.each(topics, lambda: self._ours.delete_topics(topics, timeout=request_timeout))

    def create_partitions(
        self,
        new_partitions: list[NewPartitions],
        *,
        operation_timeout: float = 0,
        request_timeout: float | None = None,
        validate_only: bool = False,
    ) -> dict[str, Future[None]]:
        counts = {each.topic: each.new_total_count for each in new_partitions}
        chosen = {each.topic: each.replica_assignment for each in new_partitions if each.replica_assignment}

        def call() -> Any:
            return self._ours.create_partitions(
                counts, assignments=chosen, validate_only=validate_only, timeout=request_timeout
            )

        return self._futures.each(list(counts), call)

    def describe_topics(
        self,
        topics: TopicCollection,
        *,
        include_authorized_operations: bool = False,
        request_timeout: float | None = None,
    ) -> dict[str, Future[TopicDescription]]:
        if not isinstance(topics, TopicCollection):
            raise TypeError("Expected topics to be a TopicCollection")
        names = topics.topic_names
        nodes: dict[int, Node] = {}

        def call() -> Any:
            nodes.update(self._nodes(request_timeout))
            return self._ours.describe_topics(
                names, include_authorized_operations=include_authorized_operations, timeout=request_timeout
            )

        return self._futures.each(
            names, call, lambda found: topic_description(found, nodes, include_authorized_operations)
        )

    def delete_records(
        self,
        topic_partition_offsets: list[TopicPartition],
        *,
        operation_timeout: float = 0,
        request_timeout: float | None = None,
    ) -> dict[TopicPartition, Future[DeletedRecords]]:
        check.records(topic_partition_offsets)
        wanted = {each.ours: each.offset for each in topic_partition_offsets}
        return self._futures.each(
            topic_partition_offsets, lambda: self._ours.delete_records(wanted, timeout=request_timeout), DeletedRecords
        )

    def list_offsets(
        self,
        topic_partition_offsets: dict[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float | None = None,
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        check.places(topic_partition_offsets, isolation_level)
        wanted = {each.ours: place.ours for each, place in topic_partition_offsets.items()}
        committed = isolation_level is IsolationLevel.READ_COMMITTED
        level: OurIsolation = "read_committed" if committed else "read_uncommitted"

        def call() -> Any:
            return self._ours.list_offsets(wanted, isolation_level=level, timeout=request_timeout)

        def made(found: Any) -> ListOffsetsResultInfo:
            epoch = -1 if found.leader_epoch is None else found.leader_epoch
            return ListOffsetsResultInfo(found.offset, found.timestamp_ms, epoch)

        return self._futures.each(topic_partition_offsets, call, made)

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: list[TopicPartition] | None = None,
        *,
        operation_timeout: float = 0,
        request_timeout: float | None = None,
    ) -> Future[dict[TopicPartition, KafkaError | None]]:
        check.election(election_type, partitions)
        kind = replicas.ElectionType(election_type.value)
        wanted = None if partitions is None else [each.ours for each in partitions]

        def call() -> dict[TopicPartition, KafkaError | None]:
            found = self._ours.elect_leaders(wanted, election_type=kind, timeout=request_timeout)
            return {TopicPartition(*each): None if error is None else error_of(error) for each, error in found.items()}

        return self._futures.one(call)

    # --- settings ---

    def describe_configs(
        self, resources: list[ConfigResource], *, request_timeout: float | None = None
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        wanted = check.all_of(ConfigResource, resources)

        def call() -> Any:
            return self._ours.describe_configs(
                [each.ours for each in wanted], include_synonyms=True, timeout=request_timeout
            )

        return self._futures.each(wanted, call, lambda found: {name: config_entry(it) for name, it in found.items()})

    def alter_configs(
        self, resources: list[ConfigResource], *, request_timeout: float | None = None, validate_only: bool = False
    ) -> dict[ConfigResource, Future[None]]:
        wanted = check.all_of(ConfigResource, resources)
        changes: dict[Any, Any] = {each.ours: each.set_config_dict for each in wanted}
        return self._futures.each(
            wanted,
            lambda: self._ours.alter_configs(changes, validate_only=validate_only, timeout=request_timeout),
        )

    def incremental_alter_configs(
        self, resources: list[ConfigResource], *, request_timeout: float | None = None, validate_only: bool = False
    ) -> dict[ConfigResource, Future[None]]:
        wanted = check.all_of(ConfigResource, resources)
        changes: dict[Any, Sequence[Any]] = {
            each.ours: [config_change(entry) for entry in each.incremental_configs] for each in wanted
        }
        return self._futures.each(
            wanted,
            lambda: self._ours.incremental_alter_configs(changes, validate_only=validate_only, timeout=request_timeout),
        )

    # --- the cluster ---

    def describe_cluster(
        self, *, include_authorized_operations: bool = False, request_timeout: float | None = None
    ) -> Future[DescribeClusterResult]:
        def call() -> DescribeClusterResult:
            found = self._ours.describe_cluster(
                include_authorized_operations=include_authorized_operations, timeout=request_timeout
            )
            nodes = {each.id: Node(each.id, each.host, each.port, each.rack) for each in found.nodes}
            allowed = found.authorized_operations
            return DescribeClusterResult(
                None if found.controller is None else nodes.get(found.controller),
                list(nodes.values()),
                found.cluster_id,
                None if allowed is None else [int(each) for each in allowed],
            )

        return self._futures.one(call)

    def _nodes(self, timeout: float | None) -> dict[int, Node]:
        found = self._ours.describe_cluster(timeout=timeout)
        return {each.id: Node(each.id, each.host, each.port, each.rack) for each in found.nodes}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._futures.close()
        self._ours.close()
