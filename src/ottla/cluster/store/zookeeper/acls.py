"""Access rules in ZooKeeper, as Kafka 3.9's AclAuthorizer keeps them: one node per resource, with all its rules.

    /kafka-acl/Topic/orders                       literal, the name "*" too
    /kafka-acl-extended/prefixed/Group/app-       prefixed
        {"acls":[{"principal":"User:bob","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}

    /kafka-acl-changes/acl_changes_0000000007              TOPIC:orders
    /kafka-acl-extended-changes/acl_changes_0000000003     {"version":1,"resourceType":"GROUP",...}

1. A change is an edit of the rules that the node has, written with the version it was read with; when somebody else was
   faster, the node is read again and edited again. So nobody loses a rule that somebody else made.
2. A node whose last rule goes is deleted. With every change goes a note, so that other brokers read the node.
3. What we do not understand in a rule (a newer operation) stays in the node as it is, and is UNKNOWN in the image: as a
   rule that allows it matches nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from operator import itemgetter
from typing import Any, Final, TypeVar

from ottla.cluster.changes import Change, CreateAcl, RemoveAcl
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import AclBinding, AclEntry, AclPattern
from ottla.cluster.store.zookeeper import paths, znodes
from ottla.cluster.store.zookeeper.operations import Create, Delete, Ensure, SetData, Write
from ottla.cluster.store.zookeeper.znodes import DamagedNode, Znode
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType

AclChange = CreateAcl | RemoveAcl
E = TypeVar("E", bound=IntEnum)

VERSION: Final = 1
_NOTE: Final = "/acl_changes_"
_PREFIXED: Final = f"{paths.ACL_EXTENDED}/prefixed"


def _word(value: IntEnum) -> str:
    """TRANSACTIONAL_ID is TransactionalId in paths and rules."""
    return "".join(part.capitalize() for part in value.name.split("_"))


_TYPES: Final = {_word(each): each for each in AclResource if each > AclResource.ANY}
_WORDS: Final[Mapping[type[IntEnum], Mapping[str, IntEnum]]] = {
    of: {_word(each): each for each in of} for of in (AclOperation, AclPermission)
}


# --- where ------------------------------------------------------------------------------------------------------------


def acl_path(pattern: AclPattern) -> str:
    root = paths.ACL if pattern.pattern_type == PatternType.LITERAL else _PREFIXED
    return f"{root}/{_word(pattern.resource_type)}/{pattern.name}"


def acl_pattern(path: str) -> AclPattern | None:
    """What the rules of a node are about; None when it is no node of rules, or of a kind that we do not know."""
    for root, pattern_type in ((paths.ACL, PatternType.LITERAL), (_PREFIXED, PatternType.PREFIXED)):
        of, _, name = path.removeprefix(root + "/").partition("/")
        if path.startswith(root + "/") and name and of in _TYPES:
            return AclPattern(_TYPES[of], pattern_type, name)
    return None


def acl_paths(changes: Iterable[Change]) -> set[str]:
    """The nodes whose rules change."""
    return {acl_path(each.binding.pattern) for each in changes if isinstance(each, CreateAcl | RemoveAcl)}


# --- what -------------------------------------------------------------------------------------------------------------


def acls_json(rules: Iterable[Mapping[str, Any]]) -> bytes:
    return znodes.to_json({"acls": list(rules), "version": VERSION})


def rule_json(entry: AclEntry) -> dict[str, Any]:
    return {
        "principal": entry.principal,
        "permissionType": _word(entry.permission),
        "host": entry.host,
        "operation": _word(entry.operation),
    }


def read_entries(path: str, node: Znode | None) -> tuple[AclEntry, ...]:
    """The rules of a node, in order; none of one that is not there."""
    return tuple(sorted({_entry(path, each) for each in _rules(path, node)}))


def _rules(path: str, node: Znode | None) -> list[dict[str, Any]]:
    if node is None or not node.data:
        return []
    try:
        data = json.loads(node.data)
        if data["version"] != VERSION:
            raise DamagedNode(f"the rules in {path} have version {data['version']!r}, which nobody here knows")
        return list(data["acls"])
    except (ValueError, KeyError, TypeError) as problem:
        raise DamagedNode(f"the rules in {path} make no sense: {problem!r}") from problem


def _entry(path: str, rule: Any) -> AclEntry:
    try:
        return AclEntry(
            str(rule["principal"]),
            str(rule["host"]),
            _read(AclOperation, rule["operation"]),
            _read(AclPermission, rule["permissionType"]),
        )
    except (KeyError, TypeError) as problem:
        raise DamagedNode(f"a rule in {path} makes no sense: {problem!r}") from problem


def _read(of: type[E], word: object) -> E:
    found = _WORDS[of].get(str(word))
    return found if isinstance(found, of) else of(0)


def node_changes(path: str, image: ClusterImage, node: Znode | None) -> list[Change]:
    """The changes that make an image have the rules of a node."""
    pattern = acl_pattern(path)
    if pattern is None:
        return []
    before, after = image.acls.get(pattern, ()), read_entries(path, node)
    gone = [RemoveAcl(AclBinding(pattern, each)) for each in before if each not in after]
    return [*gone, *(CreateAcl(AclBinding(pattern, each)) for each in after if each not in before)]


# --- writing ----------------------------------------------------------------------------------------------------------


def acl_writes(changes: Sequence[Change], nodes: Mapping[str, Znode]) -> Iterator[Write]:
    """One write and one note per resource, however many of its rules change."""
    edits: dict[AclPattern, list[AclChange]] = {}
    for change in changes:
        if isinstance(change, CreateAcl | RemoveAcl):
            edits.setdefault(change.binding.pattern, []).append(change)
    for pattern, ones in edits.items():
        path = acl_path(pattern)
        writes = list(_node_writes(path, nodes.get(path), ones))
        if writes:
            yield from writes
            yield _note(pattern)


def _node_writes(path: str, node: Znode | None, edits: Sequence[AclChange]) -> Iterator[Write]:
    before = _rules(path, node)
    rules = _edited(path, before, edits)
    if node is None:
        if rules:
            yield from (Ensure(parent) for parent in paths.uncertain_parents(path))
            yield Create(path, acls_json(rules))
    elif not rules:
        yield Delete(path, node.version)
    elif rules != before:
        yield SetData(path, acls_json(rules), node.version)


def _edited(path: str, rules: Sequence[dict[str, Any]], edits: Sequence[AclChange]) -> list[dict[str, Any]]:
    """The rules after the edits, in order; those that stay are written as they were."""
    wanted = {edit.binding.entry: isinstance(edit, CreateAcl) for edit in edits}
    kept = [(entry, each) for each in rules if wanted.get(entry := _entry(path, each), True)]
    present = {entry for entry, _ in kept}
    kept += [(entry, rule_json(entry)) for entry, holds in wanted.items() if holds and entry not in present]
    return [rule for _, rule in sorted(kept, key=itemgetter(0))]


def _note(pattern: AclPattern) -> Create:
    if pattern.pattern_type == PatternType.LITERAL:
        text = f"{pattern.resource_type.name}:{pattern.name}"
        return Create(paths.ACL_CHANGES + _NOTE, text.encode(), sequential=True)
    note = {
        "version": VERSION,
        "resourceType": pattern.resource_type.name,
        "name": pattern.name,
        "patternType": pattern.pattern_type.name,
    }
    return Create(paths.ACL_EXTENDED_CHANGES + _NOTE, znodes.to_json(note), sequential=True)


def noted_path(folder: str, note: Znode) -> str:
    """Which node a note is about. Old notes have the words of paths (TransactionalId)."""
    if folder == paths.ACL_CHANGES:
        of, _, name = (note.data or b"").decode().partition(":")
        return f"{paths.ACL}/{_path_word(of)}/{name}"
    data = znodes.read_note(note)
    pattern = str(data["patternType"]).lower()
    return f"{paths.ACL_EXTENDED}/{pattern}/{_path_word(str(data['resourceType']))}/{data['name']}"


def _path_word(name: str) -> str:
    return name if name in paths.ACL_TYPES else "".join(part.capitalize() for part in name.split("_"))
