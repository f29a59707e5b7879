"""What has to change so that a cluster has what a file wants: a function of two values, without a connection.

1. Nothing goes away unless `prune` says so, and then only in sections that the file has. Topics of the cluster itself,
   and those of tools (names that begin with an underscore, as `_schemas`), are never pruned.
2. Partitions grow and never shrink; copies are moved by `ottla reassign`. A file that wants otherwise is refused as a
   whole, with a sentence for each such wish.
3. Passwords and hidden settings cannot be compared: they are set when they are missing, and again with `renew_secrets`.
4. In between nobody may do more than before and after: what is denied is denied before anything is allowed, and what
   was allowed is taken back before what was denied. Topics go last.
5. Planned again after all changes were made, nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import chain
from typing import Final

from ottla.cli.apply.values import (
    HIDDEN,
    AddRule,
    Change,
    CreateTopic,
    Current,
    DeletePassword,
    DeleteTopic,
    Desired,
    GrowTopic,
    Hidden,
    Plan,
    PresentTopic,
    RemoveRule,
    SecretSource,
    SetConfig,
    SetPassword,
    SetQuota,
    Setting,
    WantedTopic,
)
from ottla.client.admin.access import AclPermission
from ottla.client.admin.configs import ConfigResource, ConfigResourceType


def plan(desired: Desired, current: Current, *, prune: bool = False, renew_secrets: bool = False) -> Plan:
    """The changes in their order, or why there are none."""
    refused = tuple(_refusals(desired, current))
    changes = chain(
        _topics(desired, current, prune),
        _settings(desired, current, prune, renew_secrets),
        _passwords(desired, current, renew_secrets),
        _quotas(desired, current, prune),
        _rules(desired, current, prune),
        _gone_passwords(desired, current, prune),
        _gone_topics(desired, current, prune),
    )
    return Plan(tuple(changes), refused)


# --- topics ----------------------------------------------------------------------------------------------------------


def is_pruned(name: str, topic: PresentTopic) -> bool:
    """Whether a topic that the file does not have may be deleted for that."""
    return not topic.is_internal and not name.startswith("_")


def _refusals(desired: Desired, current: Current) -> Iterator[str]:
    for name, wanted in sorted((desired.topics or {}).items()):
        there = current.topics.get(name)
        if there is not None:
            yield from _refused_shape(name, wanted, there)


def _refused_shape(name: str, wanted: WantedTopic, there: PresentTopic) -> Iterator[str]:
    if wanted.partitions is not None and wanted.partitions < there.partitions:
        yield (
            f"topic {name} has {there.partitions} partitions and the file wants {wanted.partitions}: partitions cannot"
            f" be taken away; make another topic and copy the records (ottla job mirror), or write {there.partitions}"
        )
    if wanted.replication is not None and there.replicas != {wanted.replication}:
        have = " or ".join(map(str, sorted(there.replicas)))
        yield (
            f"topic {name} has {have} copies of its partitions and the file wants {wanted.replication}: copies are"
            " moved from broker to broker, which takes time; use ottla reassign, then apply again"
        )


def _topics(desired: Desired, current: Current, prune: bool) -> Iterator[Change]:
    for name, wanted in sorted((desired.topics or {}).items()):
        there = current.topics.get(name)
        if there is None:
            yield CreateTopic(name, wanted)
            continue
        if wanted.partitions is not None and wanted.partitions > there.partitions:
            yield GrowTopic(name, there.partitions, wanted.partitions)
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        yield from _changed(resource, wanted.settings, there.settings, prune, renew_secrets=False)


def _gone_topics(desired: Desired, current: Current, prune: bool) -> Iterator[Change]:
    if prune and desired.topics is not None:
        for name, there in sorted(current.topics.items()):
            if name not in desired.topics and is_pruned(name, there):
                yield DeleteTopic(name)


# --- settings --------------------------------------------------------------------------------------------------------

KEPT: Final[Mapping[ConfigResource, Set[str]]] = {
    ConfigResource(ConfigResourceType.BROKER, ""): {"min.insync.replicas"},
}
"""What a controller sets by itself, and refuses to give up."""


def _settings(desired: Desired, current: Current, prune: bool, renew_secrets: bool) -> Iterator[Change]:
    for resource, wanted in sorted((desired.settings or {}).items()):
        yield from _changed(resource, wanted, current.settings.get(resource, {}), prune, renew_secrets)


def _changed(
    resource: ConfigResource,
    wanted: Mapping[str, Setting],
    there: Mapping[str, str | Hidden | None],
    prune: bool,
    renew_secrets: bool,
) -> Iterator[Change]:
    for name, value in sorted(wanted.items()):
        before = there.get(name)
        if before is HIDDEN or (isinstance(value, SecretSource) and name in there):
            if renew_secrets:
                yield SetConfig(resource, name, HIDDEN, value)
        elif isinstance(value, SecretSource) or not (isinstance(before, str) and same_value(before, value)):
            yield SetConfig(resource, name, before, value)
    if prune:
        for name in sorted(set(there) - set(wanted) - KEPT.get(resource, set())):
            yield SetConfig(resource, name, there[name], None)


def same_value(one: str, other: str) -> bool:
    """Whether two texts are the same value: a broker shows `0.7` for 0.70 and `a,b` for `a, b`."""
    return one == other or _normal(one) == _normal(other)


def _normal(text: str) -> object:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1:
        return tuple(parts)
    word = parts[0]
    if word.lower() in ("true", "false"):
        return word.lower()
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word


# --- users, quotas, rules --------------------------------------------------------------------------------------------


def _passwords(desired: Desired, current: Current, renew_secrets: bool) -> Iterator[Change]:
    for user, wanted in sorted((desired.users or {}).items()):
        there = current.users.get(user, {})
        for mechanism in wanted.mechanisms:
            other = wanted.iterations is not None and there.get(mechanism) != wanted.iterations
            if mechanism not in there or other or renew_secrets:
                yield SetPassword(user, mechanism, wanted.iterations, wanted.password, mechanism not in there)


def _gone_passwords(desired: Desired, current: Current, prune: bool) -> Iterator[Change]:
    if not prune or desired.users is None:
        return
    for user, there in sorted(current.users.items()):
        kept = desired.users[user].mechanisms if user in desired.users else ()
        yield from (DeletePassword(user, mechanism) for mechanism in sorted(there) if mechanism not in kept)


def _quotas(desired: Desired, current: Current, prune: bool) -> Iterator[Change]:
    if desired.quotas is None:
        return
    entities = {*desired.quotas, *(current.quotas if prune else ())}
    for entity in sorted(entities, key=lambda key: [(kind, name is not None, name or "") for kind, name in key]):
        wanted, there = desired.quotas.get(entity, {}), current.quotas.get(entity, {})
        for name, limit in sorted(wanted.items()):
            if there.get(name) != limit:
                yield SetQuota(entity, name, there.get(name), limit)
        if prune:
            yield from (SetQuota(entity, name, there[name], None) for name in sorted(set(there) - set(wanted)))


def _rules(desired: Desired, current: Current, prune: bool) -> Iterator[Change]:
    if desired.rules is None:
        return
    added = sorted(desired.rules - current.rules)
    yield from (AddRule(each) for each in added if each.permission is AclPermission.DENY)
    yield from (AddRule(each) for each in added if each.permission is not AclPermission.DENY)
    if prune:
        gone = sorted(current.rules - desired.rules)
        yield from (RemoveRule(each) for each in gone if each.permission is not AclPermission.DENY)
        yield from (RemoveRule(each) for each in gone if each.permission is AclPermission.DENY)
