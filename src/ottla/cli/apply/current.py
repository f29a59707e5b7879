"""What a cluster has of the sections that a file wants: the questions, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.cli.apply.values import HIDDEN, Current, Desired, Hidden, PresentTopic
from ottla.client.admin.configs import ConfigResource, ConfigResourceType, ConfigSource

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.configs import ConfigEntry

SET_HERE: Final = {
    ConfigResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigResourceType.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigResourceType.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
    ConfigResourceType.CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
}
"""Which source means that a value was set for exactly this thing."""


def current_of(admin: Admin, desired: Desired) -> Current:
    """The present state of all that the file may change."""
    from ottla.client.admin.access import AclFilter

    users = admin.describe_user_scram_credentials() if desired.users is not None else {}
    return Current(
        topics=_topics(admin, desired.topics) if desired.topics is not None else {},
        settings=_settings(admin, desired.settings or ()),
        users={name: {info.mechanism: info.iterations for info in infos} for name, infos in users.items()},
        rules=frozenset(admin.describe_acls(AclFilter())) if desired.rules is not None else frozenset(),
        quotas=admin.describe_client_quotas() if desired.quotas is not None else {},
    )


def _topics(admin: Admin, wanted: Iterable[str]) -> dict[str, PresentTopic]:
    """Those that the file names with all they have; of the others it is enough to know that they are there."""
    listed = admin.list_topics(include_internal=True)
    found = {name: PresentTopic(0, frozenset(), {}, each.is_internal) for name, each in listed.items()}
    names = [name for name in wanted if name in listed]
    if not names:
        return found
    resources = {name: ConfigResource(ConfigResourceType.TOPIC, name) for name in names}
    settings = _settings(admin, resources.values())
    for name, each in admin.describe_topics(names).items():
        copies = frozenset(len(partition.replicas) for partition in each.partitions)
        found[name] = PresentTopic(len(each.partitions), copies, settings[resources[name]], each.is_internal)
    return found


def _settings(
    admin: Admin, resources: Iterable[ConfigResource]
) -> dict[ConfigResource, Mapping[str, str | Hidden | None]]:
    wanted = list(resources)
    if not wanted:
        return {}
    return {resource: _set_here(resource, found) for resource, found in admin.describe_configs(wanted).items()}


def _set_here(resource: ConfigResource, found: Mapping[str, ConfigEntry]) -> dict[str, str | Hidden | None]:
    source = SET_HERE[resource.type]
    if resource.type is ConfigResourceType.BROKER and not resource.name:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return {name: HIDDEN if each.is_sensitive else each.value for name, each in found.items() if each.source is source}
