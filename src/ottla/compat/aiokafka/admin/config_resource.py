"""A thing with settings."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from ottla.client.admin import configs as our_configs


class ConfigResourceType(enum.IntEnum):
    """What it is."""

    BROKER = 4
    TOPIC = 2


class ConfigResource:
    """Its name, and settings to be read or changed."""

    def __init__(
        self, resource_type: ConfigResourceType | str, name: str, configs: Mapping[str, Any] | None = None
    ) -> None:
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
