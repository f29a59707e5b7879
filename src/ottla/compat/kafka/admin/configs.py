"""The calls of KafkaAdminClient about settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.client.admin import configs as our_configs
from ottla.client.admin.admin import Admin
from ottla.client.admin.plans import PartlyFailed
from ottla.compat.kafka.admin.values import (
    AlterConfigOp,
    ConfigFilterType,
    ConfigResource,
    ConfigResourceType,
    ConfigSourceType,
    ConfigType,
)
from ottla.compat.kafka.errors import theirs
from ottla.errors import OttlaError


class ConfigCalls:
    """A part of KafkaAdminClient."""

    _ours: Admin

    def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        config_filter: Any = "modified",
    ) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
        wanted = list(config_resources)
        chosen = ConfigFilterType.build_from(config_filter)
        entries = self._ours.describe_configs([each.ours for each in wanted], include_synonyms=include_synonyms)
        found: dict[str, dict[str, Any]] = {}
        for each in wanted:
            names = None if each.configs is None else set(each.configs)
            found.setdefault(each.resource_type.name.lower(), {})[each.name] = {
                name: _entry(entry, include_synonyms)
                for name, entry in entries[each.ours].items()
                if (names is None or name in names) and not _is_skipped(entry, chosen)
            }
        return found

    def list_config_resources(self, resource_types: Sequence[Any] | None = None) -> dict[str, list[str]]:
        types = [our_configs.ConfigResourceType(ConfigResourceType.value_for(each)) for each in resource_types or ()]
        found: dict[str, list[str]] = {}
        for each in self._ours.list_config_resources(types):
            found.setdefault(each.type.name.lower(), []).append(each.name)
        return found

    def alter_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Change settings; (op, value), or a value to be set. `incremental` is always True here: nothing else is
        touched."""
        wanted = list(config_resources)
        if raise_on_unknown:
            self._check_known(wanted)
        changes = {each.ours: [_change(name, it) for name, it in (each.configs or {}).items()] for each in wanted}
        return self._altered(wanted, changes, validate_only)

    def reset_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Back to the defaults: the settings that are named, or all that were changed."""
        wanted = list(config_resources)
        if raise_on_unknown:
            self._check_known([each for each in wanted if each.configs])
        changes = {}
        for each in wanted:
            names = list(each.configs or self._modified(each))
            changes[each.ours] = [
                our_configs.AlterConfig(name, None, our_configs.AlterOperation.DELETE) for name in names
            ]
        return self._altered(wanted, changes, validate_only)

    def _modified(self, resource: ConfigResource) -> list[str]:
        entries = self._ours.describe_configs([resource.ours])[resource.ours]
        return [name for name, each in entries.items() if ConfigSourceType(int(each.source)).is_modified()]

    def _check_known(self, wanted: list[ConfigResource]) -> None:
        for each in wanted:
            known = self._ours.describe_configs([each.ours])[each.ours]
            if unknown := [name for name in each.configs or () if name not in known]:
                raise ValueError(f"Unrecognized configs: {unknown}")

    def _altered(
        self, wanted: list[ConfigResource], changes: Mapping[Any, Sequence[Any]], validate_only: bool
    ) -> dict[str, dict[str, str]]:
        failed: dict[Any, BaseException] = {}
        try:
            self._ours.incremental_alter_configs(changes, validate_only=validate_only)
        except PartlyFailed as error:
            failed = dict(error.failed)
        except OttlaError as error:
            failed = dict.fromkeys(changes, error)
        found: dict[str, dict[str, str]] = {}
        for each in wanted:
            shown = str(theirs(failed[each.ours])) if each.ours in failed else "OK"
            found.setdefault(each.resource_type.name.lower(), {})[each.name] = shown
        return found


def _is_skipped(entry: our_configs.ConfigEntry, chosen: ConfigFilterType) -> bool:
    if chosen is ConfigFilterType.DYNAMIC and entry.is_read_only:
        return True
    return chosen.should_skip(ConfigSourceType(int(entry.source)))


def _entry(entry: our_configs.ConfigEntry, include_synonyms: bool) -> dict[str, Any]:
    synonyms = entry.synonyms if include_synonyms else ()
    return {
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": ConfigSourceType(int(entry.source)).name,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": ConfigSourceType(int(each.source)).name}
            for each in synonyms
        ],
        "config_type": ConfigType(int(entry.type)).name,
        "documentation": entry.documentation,
    }


def _change(name: str, value: Any) -> our_configs.AlterConfig:
    operation, text = value if isinstance(value, tuple) else (AlterConfigOp.SET, value)
    chosen = our_configs.AlterOperation(int(AlterConfigOp.build_from(operation)))
    wanted = None if chosen is our_configs.AlterOperation.DELETE or text is None else str(text)
    return our_configs.AlterConfig(name, wanted, chosen)
