"""What kafka.admin takes and gives: topics, settings, groups, places in partitions."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Self

from ottla.client.admin import configs as our_configs
from ottla.client.admin import groups, offsets, topics


class EnumHelper:
    """Members by themselves, their values or their names in any spelling."""

    @classmethod
    def build_from(cls, val: Any) -> Self:
        if isinstance(val, cls):
            return val
        try:
            return cls(val)  # type: ignore[call-arg]
        except ValueError:
            pass
        try:
            return cls[str(val).strip().upper().replace("-", "_")]  # type: ignore[index, no-any-return]
        except KeyError:
            raise ValueError(f"Unrecognized {cls.__name__}: {val}") from None

    @classmethod
    def value_for(cls, val: Any) -> Any:
        return cls.build_from(val).value  # type: ignore[attr-defined]


class NewTopic:
    """A topic to be made."""

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}


def new_topics(wanted: Any) -> list[topics.NewTopic]:
    """Topics in any of kafka-python's three forms."""
    if isinstance(wanted, Mapping):
        made = [
            NewTopic(
                name,
                each.get("num_partitions", -1),
                each.get("replication_factor", -1),
                each.get("assignments"),
                each.get("configs"),
            )
            for name, each in wanted.items()
        ]
    else:
        made = [NewTopic(each) if isinstance(each, str) else each for each in wanted]
    if not made or not all(isinstance(each, NewTopic) for each in made):
        raise ValueError(f"No valid topics found in new_topics: {wanted}")
    return [_our_topic(each) for each in made]


def _our_topic(topic: NewTopic) -> topics.NewTopic:
    chosen = dict(topic.replica_assignments) or None
    count = None if chosen or topic.num_partitions < 0 else topic.num_partitions
    factor = None if chosen or topic.replication_factor < 0 else topic.replication_factor
    settings = {key: str(value) for key, value in topic.topic_configs.items()}
    return topics.NewTopic(topic.name, count, factor, settings, chosen)


class NewPartitions:
    """More partitions for a topic."""

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments


class ConfigResourceType(EnumHelper, enum.IntEnum):
    """What can have settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigType(EnumHelper, enum.IntEnum):
    """What a value looks like."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSourceType(EnumHelper, enum.IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    def is_modified(self) -> bool:
        return self.value not in (3, 4, 5)

    @classmethod
    def dynamic_for_resource_type(cls, resource_type: ConfigResourceType) -> ConfigSourceType:
        return cls.__members__.get(f"DYNAMIC_{resource_type.name}_CONFIG", cls.UNKNOWN)


class ConfigFilterType(EnumHelper, enum.IntEnum):
    """Which settings describe_configs() shows."""

    ALL = 0
    DYNAMIC = 1
    MODIFIED = 2
    DEFAULT = 3
    STATIC = 4

    def should_skip(self, config_source: ConfigSourceType) -> bool:
        if self is ConfigFilterType.STATIC:
            return config_source is not ConfigSourceType.STATIC_BROKER_CONFIG
        if self is ConfigFilterType.DEFAULT:
            return config_source.is_modified()
        return self is ConfigFilterType.MODIFIED and not config_source.is_modified()


class AlterConfigOp(EnumHelper, enum.IntEnum):
    """What to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource:
    """A thing with settings."""

    def __init__(self, resource_type: ConfigResourceType | str, name: str, configs: Any = None) -> None:
        self.resource_type = (
            resource_type
            if isinstance(resource_type, ConfigResourceType)
            else ConfigResourceType[str(resource_type).upper()]
        )
        self.name = name
        self.configs = configs

    @property
    def ours(self) -> our_configs.ConfigResource:
        return our_configs.ConfigResource(our_configs.ConfigResourceType(int(self.resource_type)), self.name)

    def __str__(self) -> str:
        return f"ConfigResource {self.name}={self.resource_type}"

    def __repr__(self) -> str:
        return f"ConfigResource({self.resource_type}, {self.name}, {self.configs})"


class GroupState(EnumHelper, enum.StrEnum):
    """What a group does now."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


class GroupType(EnumHelper, enum.StrEnum):
    """The protocol of a group."""

    UNKNOWN = "unknown"
    CONSUMER = "consumer"
    CLASSIC = "classic"
    SHARE = "share"
    STREAMS = "streams"


class MemberToRemove:
    """A member that shall leave: by its id, or by its static id."""

    __slots__ = ("group_instance_id", "member_id", "reason")

    def __init__(
        self, member_id: str | None = None, group_instance_id: str | None = None, reason: str | None = None
    ) -> None:
        if member_id is None and group_instance_id is None:
            raise ValueError("MemberToRemove needs a member_id or a group_instance_id")
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason

    @property
    def ours(self) -> groups.MemberToRemove:
        return groups.MemberToRemove(self.group_instance_id, self.member_id or "")

    def _values(self) -> tuple[str | None, ...]:
        return self.member_id, self.group_instance_id, self.reason

    def __repr__(self) -> str:
        return f"<MemberToRemove member_id={self.member_id}, group_instance_id={self.group_instance_id}>"

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, MemberToRemove) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())


class IsolationLevel(EnumHelper, enum.IntEnum):
    """Whether records of open transactions count."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(EnumHelper, enum.IntEnum):
    """Places in a partition that have names."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class OffsetTimestamp(int):
    """A time in milliseconds: the first offset at or after it."""


class UpdateFeatureType(EnumHelper, enum.IntEnum):
    """Which way a feature may move."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def place_of(spec: Any) -> offsets.Place:
    """A place in any of kafka-python's forms."""
    number = int(spec)
    return offsets.OffsetSpec(number) if number < 0 else number
