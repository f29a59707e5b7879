"""A plan for people, line by line, and for programs as JSON. No secret can be in either: a plan has none."""

from __future__ import annotations

from typing import Any, Final

from ottla.cli.acl_options import name_of
from ottla.cli.amounts import written
from ottla.cli.apply.values import (
    AddRule,
    Change,
    CreateTopic,
    DeletePassword,
    DeleteTopic,
    GrowTopic,
    Hidden,
    Plan,
    RemoveRule,
    SecretSource,
    SetConfig,
    SetPassword,
    SetQuota,
    deletes,
)
from ottla.client.admin.access import AclBinding, AclPermission
from ottla.client.admin.credentials import ScramMechanism

MADE, CHANGED, DELETED = "create", "change", "delete"
SIGNS: Final = {MADE: "+", CHANGED: "~", DELETED: "-"}


def action_of(change: Change) -> str:
    """Whether something is made, changed or deleted by it."""
    if deletes(change):
        return DELETED
    if isinstance(change, GrowTopic):
        return CHANGED
    if isinstance(change, SetPassword):
        return MADE if change.is_new else CHANGED
    if isinstance(change, SetConfig | SetQuota):
        return MADE if change.before is None else CHANGED
    return MADE


def line_of(change: Change) -> str:
    """One line: a sign, what it is about, and what becomes of it."""
    return f"{SIGNS[action_of(change)]} {_text(change)}"


def _text(change: Change) -> str:
    match change:
        case CreateTopic(name, topic):
            parts = [f"{topic.partitions} partitions"] if topic.partitions is not None else []
            parts += [f"{topic.replication} copies"] if topic.replication is not None else []
            parts += [f"{key}={value}" for key, value in sorted(topic.settings.items())]
            return f"topic {name}: {', '.join(parts) or 'as the cluster makes them'}"
        case GrowTopic(name, before, after):
            return f"topic {name}: {before} -> {after} partitions (records with keys may go elsewhere than before)"
        case SetConfig(resource, name, before, after):
            return f"{resource}: {name} {_shown(before)} -> {_shown(after)}"
        case SetPassword(user, mechanism, _, password, is_new):
            return f"user {user}: {'' if is_new else 'another '}password {password} ({_mechanism(mechanism)})"
        case SetQuota(entity, name, before, after):
            return f"quota of {_entity(dict(entity))}: {name} {_amount(before)} -> {_amount(after)}"
        case AddRule(rule) | RemoveRule(rule):
            return f"rule: {_rule(rule)}"
        case DeletePassword(user, mechanism):
            return f"user {user}: the password ({_mechanism(mechanism)})"
        case DeleteTopic(name):
            return f"topic {name} with all its records"


def _shown(value: str | SecretSource | Hidden | None) -> str:
    if isinstance(value, SecretSource):
        return f"(hidden, {value})"
    return value.value if isinstance(value, Hidden) else "(default)" if value is None else value


def _amount(value: float | None) -> str:
    return "(none)" if value is None else written(value)


def _mechanism(mechanism: ScramMechanism) -> str:
    return mechanism.name.replace("_", "-")


def _entity(entity: dict[str, str | None]) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity.items())


def _rule(rule: AclBinding) -> str:
    verb = "may" if rule.permission is AclPermission.ALLOW else "may not"
    kind = rule.resource_type.name.lower().replace("_", " ")
    prefix = " (prefixed)" if rule.pattern_type.name == "PREFIXED" else ""
    where = "" if rule.host == "*" else f" from {rule.host}"
    return f"{rule.principal} {verb} {name_of(rule.operation)} {kind} {rule.resource_name}{prefix}{where}"


def summary(plan: Plan) -> str:
    """How many of each."""
    if not plan.changes:
        return "nothing to change: the cluster has what the file wants"
    counts = {action: sum(action_of(each) == action for each in plan.changes) for action in SIGNS}
    parts = [f"{count} to {action}" for action, count in counts.items() if count]
    return f"{len(plan.changes)} change{'s' * (len(plan.changes) != 1)}: {', '.join(parts)}"


# --- for programs ----------------------------------------------------------------------------------------------------


def json_of(change: Change) -> dict[str, Any]:
    """The same as an object: `action`, `kind`, `name`, and `before` and `after` where there is something to compare."""
    return {"action": action_of(change), **_fields(change)}


def _fields(change: Change) -> dict[str, Any]:
    match change:
        case CreateTopic(name, topic):
            after = {"partitions": topic.partitions, "replication": topic.replication, "settings": dict(topic.settings)}
            return {"kind": "topic", "name": name, "before": None, "after": after}
        case GrowTopic(name, before, after):
            return {"kind": "partitions", "name": name, "before": before, "after": after}
        case SetConfig(resource, name, before, after):
            of = {"type": resource.type.name.lower().replace("_", "-"), "name": resource.name or "all"}
            hidden = isinstance(before, Hidden) or isinstance(after, SecretSource)
            values = {"hidden": True} if hidden else {"before": before, "after": after}
            return {"kind": "setting", "name": name, "of": of, **values}
        case SetPassword(user, mechanism) | DeletePassword(user, mechanism):
            return {"kind": "user", "name": user, "mechanism": _mechanism(mechanism)}
        case SetQuota(entity, name, before, after):
            return {"kind": "quota", "name": name, "of": dict(entity), "before": before, "after": after}
        case AddRule(rule) | RemoveRule(rule):
            return {"kind": "rule", "name": _rule(rule), "rule": _rule_fields(rule)}
        case DeleteTopic(name):
            return {"kind": "topic", "name": name}


def _rule_fields(rule: AclBinding) -> dict[str, str]:
    return {
        "resource": rule.resource_type.name.lower().replace("_", " "),
        "name": rule.resource_name,
        "pattern": rule.pattern_type.name.lower(),
        "principal": rule.principal,
        "permission": rule.permission.name.lower(),
        "operation": name_of(rule.operation),
        "host": rule.host,
    }
