"""What confluent_kafka.admin takes and gives for topics, settings, offsets and the cluster."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from ottla.client.admin import configs, offsets, topics
from ottla.compat.confluent_kafka.acls import AclOperation, ResourceType
from ottla.compat.confluent_kafka.model import Node, TopicPartitionInfo, Uuid, member


def operations(found: Collection[Any] | None) -> list[AclOperation] | None:
    """Operations that are allowed, in their order; None when they were not asked for."""
    return sorted(member(each, AclOperation) for each in found) if found else None


class NewTopic:
    """A topic to be made."""

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: Sequence[Sequence[int]] | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.topic = topic
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignment = replica_assignment
        self.config = config

    @property
    def ours(self) -> topics.NewTopic:
        assignments = dict(enumerate(self.replica_assignment or ())) or None
        wanted = None if assignments or self.num_partitions < 0 else self.num_partitions
        factor = None if assignments or self.replication_factor < 0 else self.replication_factor
        settings = {key: str(value) for key, value in (self.config or {}).items()}
        return topics.NewTopic(self.topic, wanted, factor, settings, assignments)

    def __repr__(self) -> str:
        return f"NewTopic(topic={self.topic},num_partitions={self.num_partitions})"

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, NewTopic) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.topic, self.num_partitions, self.replication_factor))


class NewPartitions:
    """More partitions for a topic."""

    def __init__(
        self, topic: str, new_total_count: int, replica_assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.topic = topic
        self.new_total_count = new_total_count
        self.replica_assignment = replica_assignment

    def __repr__(self) -> str:
        return f"NewPartitions(topic={self.topic},new_total_count={self.new_total_count})"


class TopicDescription:
    """A topic and its partitions."""

    def __init__(
        self,
        name: str,
        topic_id: Uuid,
        is_internal: bool,
        partitions: list[TopicPartitionInfo],
        authorized_operations: list[Any] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.authorized_operations = operations(authorized_operations)


def topic_description(found: topics.TopicDescription, nodes: Mapping[int, Node], with_rights: bool) -> TopicDescription:
    """Ours as theirs; what is allowed only for those who asked, though brokers may say it unasked."""
    partitions = [
        TopicPartitionInfo(
            each.partition,
            None if each.leader is None else nodes.get(each.leader),
            [nodes.get(replica, Node(replica, "", -1)) for replica in each.replicas],
            [nodes.get(replica, Node(replica, "", -1)) for replica in each.in_sync],
        )
        for each in found.partitions
    ]
    allowed = [int(each) for each in found.authorized_operations or ()] if with_rights else None
    return TopicDescription(
        found.name, Uuid.from_bytes(found.topic_id or bytes(16)), found.is_internal, partitions, allowed
    )


class DescribeClusterResult:
    """Who is in the cluster."""

    def __init__(
        self,
        controller: Node | None,
        nodes: list[Node],
        cluster_id: str | None = None,
        authorized_operations: list[Any] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.controller = controller
        self.nodes = nodes
        self.authorized_operations = operations(authorized_operations)


class DeletedRecords:
    """Where a partition begins now."""

    def __init__(self, low_watermark: int) -> None:
        self.low_watermark = low_watermark


class OffsetSpec:
    """A place in a partition: earliest(), latest(), max_timestamp() or for_timestamp(milliseconds)."""

    def __init__(self, index: int) -> None:
        self._value = index

    @classmethod
    def earliest(cls) -> OffsetSpec:
        return cls(-2)

    @classmethod
    def latest(cls) -> OffsetSpec:
        return cls(-1)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        return cls(-3)

    @classmethod
    def for_timestamp(cls, timestamp: int) -> OffsetSpec:
        return cls(timestamp)

    @property
    def ours(self) -> offsets.Place:
        return offsets.OffsetSpec(self._value) if self._value < 0 else self._value

    def __lt__(self, other: object) -> bool:
        return self._value < other._value if isinstance(other, OffsetSpec) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, OffsetSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._value)


class ListOffsetsResultInfo:
    """What is at a place."""

    def __init__(self, offset: int, timestamp: int, leader_epoch: int) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.leader_epoch = None if leader_epoch < 0 else leader_epoch


class AlterConfigOpType(enum.Enum):
    """What to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(enum.Enum):
    """Where a setting comes from."""

    UNKNOWN_CONFIG = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


_OUR_TYPES: Final = {
    ResourceType.TOPIC: configs.ConfigResourceType.TOPIC,
    ResourceType.GROUP: configs.ConfigResourceType.GROUP,
    ResourceType.BROKER: configs.ConfigResourceType.BROKER,
}


class ConfigEntry:
    """One setting."""

    def __init__(
        self,
        name: str,
        value: str | None,
        source: ConfigSource = ConfigSource.UNKNOWN_CONFIG,
        is_read_only: bool = False,
        is_default: bool = False,
        is_sensitive: bool = False,
        is_synonym: bool = False,
        synonyms: Mapping[str, ConfigEntry] | None = None,
        incremental_operation: AlterConfigOpType | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.is_read_only = bool(is_read_only)
        self.is_default = bool(is_default)
        self.is_sensitive = bool(is_sensitive)
        self.is_synonym = bool(is_synonym)
        self.synonyms = dict(synonyms or {})
        self.incremental_operation = incremental_operation

    def __repr__(self) -> str:
        return f'ConfigEntry({self.name}="{self.value}")'

    def __str__(self) -> str:
        return f'{self.name}="{self.value}"'


class ConfigResource:
    """A thing with settings."""

    Type: ClassVar[type[ResourceType]] = ResourceType

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str,
        set_config: dict[str, str] | None = None,
        described_configs: dict[str, ConfigEntry] | None = None,
        error: Any = None,
        incremental_configs: list[ConfigEntry] | None = None,
    ) -> None:
        if name is None:
            raise ValueError("Expected resource name not to be None")
        self.restype = member(restype, ResourceType)
        self.restype_int = self.restype.value
        self.name = name
        self.set_config_dict = dict(set_config or {})
        self.configs = described_configs
        self.error = error
        self.incremental_configs = list(incremental_configs or [])

    def set_config(self, name: str, value: str, overwrite: bool = True) -> None:
        if overwrite or name not in self.set_config_dict:
            self.set_config_dict[name] = value

    def add_incremental_config(self, config_entry: ConfigEntry) -> None:
        self.incremental_configs.append(config_entry)

    @property
    def ours(self) -> configs.ConfigResource:
        if self.restype not in _OUR_TYPES:
            raise ValueError(f"{self.restype} has no settings")
        return configs.ConfigResource(_OUR_TYPES[self.restype], self.name)

    def __hash__(self) -> int:
        return hash((self.restype, self.name))

    def __lt__(self, other: ConfigResource) -> bool:
        return self.restype < other.restype or self.name < other.name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfigResource):
            return NotImplemented
        return (self.restype, self.name) == (other.restype, other.name)

    def __len__(self) -> int:
        return len(self.set_config_dict)

    def __repr__(self) -> str:
        return f"ConfigResource({self.restype},{self.name})"


def config_entry(found: configs.ConfigEntry) -> ConfigEntry:
    """Ours as theirs."""
    return ConfigEntry(
        found.name,
        found.value,
        _source(found.source),
        is_read_only=found.is_read_only,
        is_default=found.is_default,
        is_sensitive=found.is_sensitive,
        synonyms={
            each.name: ConfigEntry(each.name, each.value, _source(each.source), is_synonym=True)
            for each in found.synonyms
        },
    )


def _source(source: configs.ConfigSource) -> ConfigSource:
    known = {each.value for each in ConfigSource}
    return ConfigSource(int(source)) if int(source) in known else ConfigSource.UNKNOWN_CONFIG


def config_change(entry: ConfigEntry) -> configs.AlterConfig:
    """Theirs as ours."""
    operation = entry.incremental_operation or AlterConfigOpType.SET
    return configs.AlterConfig(entry.name, entry.value, configs.AlterOperation[operation.name])
