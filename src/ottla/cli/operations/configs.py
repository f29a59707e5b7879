"""Settings of topics, brokers and client metrics: named by kind and name, set, and put back to their defaults.

kafka-topics and kafka-configs, which only look, name a ConfigResource themselves: each module that they load is counted
(tests/unit/cli/test_command_imports.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, ConfigResourceType

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin


def resource(kind: str, name: str) -> ConfigResource:
    """What has settings; `kind` as Kafka's tools and ours write it: topic, BROKER, client-metrics, ..."""
    return ConfigResource(ConfigResourceType[kind.upper().replace("-", "_")], name)


def setting(values: Mapping[str, str]) -> list[AlterConfig]:
    """Set these."""
    return [AlterConfig(name, text) for name, text in values.items()]


def resetting(names: Iterable[str]) -> list[AlterConfig]:
    """Put these back to their defaults."""
    return [AlterConfig(name, None, AlterOperation.DELETE) for name in names]


def alter(admin: Admin, changes: Mapping[ConfigResource, Sequence[AlterConfig]]) -> None:
    """Nothing is sent when nothing is to be changed."""
    if changes:
        admin.incremental_alter_configs(changes)
