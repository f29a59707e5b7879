"""Settings of topics, brokers, groups and client metrics: read them with their sources, change them, list them."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client.admin.plans import Plan, Question, Route, Target, error_of, raise_error_of
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import alter_configs, describe_configs, incremental_alter_configs, list_config_resources
from ottla.protocol.schema import Message


class ConfigResourceType(enum.IntEnum):
    """What can have settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A thing with settings. The name of a broker is its id; the empty name means all brokers."""

    type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", " ")
        return f"{kind} {self.name!r}" if self.name else f"every {kind}"


class ConfigSource(enum.IntEnum):
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


class ConfigType(enum.IntEnum):
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


class ConfigSynonym(NamedTuple):
    """A value that would count if those before it were not there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting as it is in effect; the value of a sensitive one is never told."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool = False
    is_read_only: bool = False
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterOperation(enum.IntEnum):
    """What to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """One change of one setting; deleting needs no value. APPEND and SUBTRACT are for lists.
    A value may be a secret, so it is not printed."""

    name: str
    value: str | None = field(default=None, repr=False)
    operation: AlterOperation = AlterOperation.SET


E_ = TypeVar("E_", bound=enum.IntEnum)


def known(kind: type[E_], number: int) -> E_:
    """The member for a number; the one called UNKNOWN for a number of the future."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def _broker_of(resource: ConfigResource) -> Target:
    """Settings of one broker are that broker's affair; those of all brokers, and of everything else, anybody's."""
    if resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource.name.isdigit():
        return int(resource.name)
    return None


@dataclass(frozen=True)
class DescribeConfigs(Plan[ConfigResource, dict[str, ConfigEntry]]):
    route = Route.BROKER

    names: Sequence[str] | None = None
    include_synonyms: bool = False
    include_documentation: bool = False

    def target(self, key: ConfigResource) -> Target:
        return _broker_of(key)

    def request(self, keys: Sequence[ConfigResource], timeout_ms: int) -> Message:
        names = None if self.names is None else list(self.names)
        resources = [
            describe_configs.DescribeConfigsResource(
                resource_type=int(key.type), resource_name=key.name, configuration_keys=names
            )
            for key in keys
        ]
        return describe_configs.DescribeConfigsRequest(
            resources=resources,
            include_synonyms=self.include_synonyms,
            include_documentation=self.include_documentation,
        )

    def results(
        self, keys: Sequence[ConfigResource], response: Any
    ) -> Iterator[tuple[ConfigResource, dict[str, ConfigEntry] | OttlaError]]:
        for each in response.results:
            resource = ConfigResource(known(ConfigResourceType, each.resource_type), each.resource_name)
            yield resource, error_of(each) or {entry.name: _entry(entry) for entry in each.configs}


def _entry(entry: Any) -> ConfigEntry:
    synonyms = tuple(ConfigSynonym(each.name, each.value, known(ConfigSource, each.source)) for each in entry.synonyms)
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=known(ConfigSource, entry.config_source),
        is_sensitive=entry.is_sensitive,
        is_read_only=entry.read_only,
        type=known(ConfigType, entry.config_type),
        documentation=entry.documentation or None,
        synonyms=synonyms,
    )


@dataclass(frozen=True)
class IncrementalAlterConfigs(Plan[ConfigResource, None]):
    route = Route.BROKER

    changes: Mapping[ConfigResource, Sequence[AlterConfig]]
    validate_only: bool = False

    def target(self, key: ConfigResource) -> Target:
        return _broker_of(key)

    def request(self, keys: Sequence[ConfigResource], timeout_ms: int) -> Message:
        resources = [
            incremental_alter_configs.AlterConfigsResource(
                resource_type=int(key.type),
                resource_name=key.name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=each.name, config_operation=int(each.operation), value=each.value
                    )
                    for each in self.changes[key]
                ],
            )
            for key in keys
        ]
        return incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=resources, validate_only=self.validate_only
        )

    def results(
        self, keys: Sequence[ConfigResource], response: Any
    ) -> Iterator[tuple[ConfigResource, OttlaError | None]]:
        for each in response.responses:
            yield ConfigResource(known(ConfigResourceType, each.resource_type), each.resource_name), error_of(each)


@dataclass(frozen=True)
class AlterConfigs(Plan[ConfigResource, None]):
    """The old way: what is not named goes back to its default."""

    route = Route.BROKER

    configs: Mapping[ConfigResource, Mapping[str, str]] = field(repr=False)
    validate_only: bool = False

    def target(self, key: ConfigResource) -> Target:
        return _broker_of(key)

    def request(self, keys: Sequence[ConfigResource], timeout_ms: int) -> Message:
        resources = [
            alter_configs.AlterConfigsResource(
                resource_type=int(key.type),
                resource_name=key.name,
                configs=[
                    alter_configs.AlterableConfig(name=name, value=value) for name, value in self.configs[key].items()
                ],
            )
            for key in keys
        ]
        return alter_configs.AlterConfigsRequest(resources=resources, validate_only=self.validate_only)

    def results(
        self, keys: Sequence[ConfigResource], response: Any
    ) -> Iterator[tuple[ConfigResource, OttlaError | None]]:
        for each in response.responses:
            yield ConfigResource(known(ConfigResourceType, each.resource_type), each.resource_name), error_of(each)


@dataclass(frozen=True)
class ListConfigResources(Question[list[ConfigResource]]):
    types: Sequence[ConfigResourceType] = ()

    def ask(self, timeout_ms: int) -> Message:
        return list_config_resources.ListConfigResourcesRequest(resource_types=[int(each) for each in self.types])

    def answer(self, response: Any) -> list[ConfigResource]:
        raise_error_of(response)
        return [
            ConfigResource(known(ConfigResourceType, each.resource_type), each.resource_name)
            for each in response.config_resources
        ]
