"""`kafka-configs --describe`: settings with their sources, quotas, and which SCRAM passwords there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.java_errors import class_of, message_of
from ottla.cli.kafka.java_maps import hash_order
from ottla.cli.kafka.java_numbers import java_double
from ottla.errors import ClusterAuthorizationFailed, OttlaError, UnsupportedVersion

if TYPE_CHECKING:
    from ottla.cli.kafka.configs import Entities
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.configs import ConfigEntry, ConfigResource
    from ottla.client.admin.quotas import EntityKey

NAMES_OF_TYPES: Final = {
    "topics": "TOPIC",
    "brokers": "BROKER",
    "broker-loggers": "BROKER_LOGGER",
    "client-metrics": "CLIENT_METRICS",
    "groups": "GROUP",
}
SOURCES: Final = {
    "topics": "DYNAMIC_TOPIC_CONFIG",
    "brokers": "DYNAMIC_BROKER_CONFIG",
    "client-metrics": "DYNAMIC_CLIENT_METRICS_CONFIG",
    "groups": "DYNAMIC_GROUP_CONFIG",
}
ENTITY_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
WORDS: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
TOPIC_MAX: Final = 249


def resource_of(kind: str, name: str) -> ConfigResource:
    from ottla.client.admin.configs import ConfigResource, ConfigResourceType

    return ConfigResource(ConfigResourceType[NAMES_OF_TYPES[kind]], name)


def describe(admin: Admin, entities: Entities, *, everything: bool) -> None:
    kind = entities.types[0]
    if kind in NAMES_OF_TYPES:
        _describe_settings(admin, kind, entities.names[0] if entities.names else None, everything)
        return
    _describe_quotas(admin, entities)
    if "clients" not in entities.types and kind == "users" and "" not in entities.names:
        _describe_passwords(admin, entities.names)


# --- settings --------------------------------------------------------------------------------------------------------


def _describe_settings(admin: Admin, kind: str, name: str | None, everything: bool) -> None:
    if name is not None and kind == "topics":
        validate_topic(name)
    if name and not everything and name not in _known(admin, kind):
        print(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    for each in _known(admin, kind) if name is None else [name]:
        if each:
            print(f"{'All' if everything else 'Dynamic'} configs for {kind[:-1]} {each} are:")
        else:
            print(f"Default configs for {kind} in the cluster are:")
        resource = resource_of(kind, each)
        entries = admin.describe_configs([resource], include_synonyms=True)[resource]
        source = None if everything or kind == "broker-loggers" else SOURCES[kind]
        if source is not None and kind == "brokers" and not each:
            source = "DYNAMIC_DEFAULT_BROKER_CONFIG"
        for entry in sorted(entries.values(), key=lambda entry: entry.name):
            if source is None or entry.source.name == source:
                print(_entry_line(entry))


def _entry_line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{each.source.name}:{each.name}={_java(each.value)}" for each in entry.synonyms)
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_java(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _java(text: str | None) -> str:
    return "null" if text is None else text


def _known(admin: Admin, kind: str) -> list[str]:
    """The entities of a kind that there are; the empty name is the default of all brokers."""
    if kind == "topics":
        return hash_order(admin.list_topics(include_internal=True))
    if kind in ("brokers", "broker-loggers"):
        return [*(str(node.id) for node in admin.describe_cluster().nodes), ""]
    if kind == "client-metrics":
        return admin.list_client_metrics_resources()
    groups = [each.group_id for each in admin.list_groups()]
    return list(dict.fromkeys([*groups, *_groups_with_settings(admin)]))


def _groups_with_settings(admin: Admin) -> Iterable[str]:
    from ottla.client.admin.configs import ConfigResourceType

    try:
        return [each.name for each in admin.list_config_resources([ConfigResourceType.GROUP])]
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return []


def validate_topic(name: str) -> None:
    """Refuse what cannot be the name of a topic, in Kafka's words."""
    if not name:
        raise ValueError("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise ValueError(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > TOPIC_MAX:
        raise ValueError(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {TOPIC_MAX}"
        )
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        raise ValueError(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )


# --- quotas and passwords --------------------------------------------------------------------------------------------


def quotas_of(admin: Admin, entities: Entities) -> Mapping[EntityKey, Mapping[str, float]]:
    """The quotas of the entities that are named; a kind without a name is all of the kind."""
    from ottla.client.admin.quotas import MatchType, QuotaFilter

    filters = []
    for kind, name in zip_longest(entities.types, entities.names):
        if kind is None:
            raise ValueError("More entity names specified than entity types")
        match = MatchType.ANY if name is None else MatchType.EXACT if name else MatchType.DEFAULT
        filters.append(QuotaFilter(ENTITY_TYPES[kind], match, name or None))
    return admin.describe_client_quotas(filters, strict=True)


def _describe_quotas(admin: Admin, entities: Entities) -> None:
    for key, limits in quotas_of(admin, entities).items():
        parts = dict(key)
        whom = [
            f"the default {word}" if parts[kind] is None else f"{word} '{parts[kind]}'"
            for kind, word in WORDS.items()
            if kind in parts
        ]
        shown = ", ".join(f"{name}={java_double(limits[name])}" for name in hash_order(limits, len(limits)))
        print(f"Quota configs for {', '.join(whom)} are {shown}")


def _describe_passwords(admin: Admin, users: list[str]) -> None:
    try:
        found = admin.describe_user_scram_credentials(users or None)
    except OttlaError as error:
        from ottla.errors import ResourceNotFound

        if not isinstance(error, ResourceNotFound):
            name = class_of(error).rpartition(".")[2]
            for user in users:
                about = f"Error retrieving SCRAM credential configs for user-principal '{user}'"
                print(f"{about}: {name}: {message_of(error)}")
        return
    for user, infos in found.items():
        shown = ", ".join(f"{each.mechanism.name.replace('_', '-')}=iterations={each.iterations}" for each in infos)
        print(f"SCRAM credential configs for user-principal '{user}' are {shown}")
