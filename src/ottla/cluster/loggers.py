"""Log levels, which Kafka lets clients change through the calls for settings (KIP-412).

They are not part of the truth about the cluster: nothing is stored, and a restart forgets them. The plan only says
which levels to set; the caller sets them.
"""

from __future__ import annotations

from typing import Final

from ottla.cluster.config_layers import ConfigRules
from ottla.errors import InvalidConfig, InvalidRequest
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.incremental_alter_configs import AlterConfigsResource

LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
ROOT: Final = "root"
_SET, _DELETE = 0, 1


class LogLevel(NamedTuple):
    """The level a log gets; None takes its own level away, so that it has that of the log above it."""

    logger: str
    level: str | None


def planned_levels(resource: AlterConfigsResource, rules: ConfigRules) -> list[LogLevel]:
    """What to set; raises Kafka's errors."""
    planned = []
    for config in resource.configs:
        if config.config_operation not in (_SET, _DELETE):
            raise InvalidRequest("log levels can only be set and deleted")
        if config.name not in rules.loggers:
            raise InvalidConfig(f"logger {config.name} does not exist")
        if config.config_operation == _DELETE and config.name == ROOT:
            raise InvalidRequest("the log level of the root logger cannot be removed")
        if config.config_operation == _SET and config.value not in LEVELS:
            raise InvalidConfig(f"{config.value!r} is no log level; choose one of {', '.join(LEVELS)}")
        planned.append(LogLevel(config.name, config.value if config.config_operation == _SET else None))
    return planned
