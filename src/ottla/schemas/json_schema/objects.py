"""Properties of objects: which may come, go or become required depends on what the content model leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.schemas.model import Problem

if TYPE_CHECKING:
    from ottla.schemas.json_schema.compatibility import Comparison
    from ottla.schemas.json_schema.nodes import Node

MISSING: Final = object()


def compare_objects(comparison: Comparison, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
    new, old = reader.get("properties", {}), writer.get("properties", {})
    comparison.budget.spend(len(new) + len(old))
    for name in {**old, **new}:
        where = f"{path}/properties/{name}"
        if name not in new:
            yield from _removed(comparison, reader, writer, name, where)
        elif name not in old:
            yield from _added(comparison, reader, writer, name, where)
        else:
            yield from comparison.compare(reader.of(new[name]), writer.of(old[name]), where)
    yield from _required(comparison, reader, writer, path)
    yield from _additional(comparison, reader, writer, path)
    yield from _patterns(comparison, reader, writer, path)
    yield from _dependencies(comparison, reader, writer, path)


def _rest(node: Node) -> Any:
    """The schema of properties that are not named."""
    return node.get("additionalProperties", node.get("unevaluatedProperties", True))


def _is_open_model(node: Node) -> bool:
    return not node.get("patternProperties") and _rest(node) in (True, {})


def _covering(comparison: Comparison, node: Node, name: str) -> Any:
    """What a model that is neither open nor closed says about a name; MISSING when it may not be there."""
    for pattern, schema in node.get("patternProperties", {}).items():
        if comparison.covers(pattern, name):
            return schema
    rest = _rest(node)
    return MISSING if rest is False else rest


def _removed(comparison: Comparison, reader: Node, writer: Node, name: str, path: str) -> Iterator[Problem]:
    if _is_open_model(reader):
        return
    before, covering = writer.get("properties")[name], _covering(comparison, reader, name)
    if covering is MISSING:
        if before is not False:
            yield Problem("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path, f"{name} is not accepted any more")
    elif not comparison.fits(reader.of(covering), writer.of(before), path):
        sentence = f"{name} is not accepted as it was"
        yield Problem("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, sentence)


def _added(comparison: Comparison, reader: Node, writer: Node, name: str, path: str) -> Iterator[Problem]:
    from ottla.schemas.json_schema.compatibility import is_open

    wanted = reader.get("properties")[name]
    if _is_open_model(writer):
        if not is_open(wanted):
            sentence = f"anything may have been written as {name}, because the old schema allows more properties"
            yield Problem("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path, sentence)
    else:
        covering = _covering(comparison, writer, name)
        if covering is not MISSING and not comparison.fits(reader.of(wanted), writer.of(covering), path):
            sentence = f"what may have been written as {name} is not accepted"
            yield Problem("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, sentence)
    comparison.budget.spend(len(_names(reader, "required")) // 16)
    if name in _names(reader, "required") and not _has_default(reader, name):
        sentence = f"{name} is required, has no default, and was not there before"
        yield Problem("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path, sentence)


def _names(node: Node, word: str) -> list[str]:
    names = node.get(word)
    return names if isinstance(names, list) else []


def _has_default(node: Node, name: str) -> bool:
    schema = node.get("properties", {}).get(name)
    return schema is not None and "default" in (schema if isinstance(schema, dict) else {})


def _required(comparison: Comparison, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
    new, old = reader.get("properties", {}), writer.get("properties", {})
    wanted, required = _names(reader, "required"), frozenset(_names(writer, "required"))
    comparison.budget.spend(len(wanted) + len(required))
    for name in wanted:
        was_added = name in new and name not in old
        if not was_added and name not in required and not _has_default(reader, name):
            yield Problem("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}", f"{name} is required now")


def _additional(comparison: Comparison, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
    new, old = _rest(reader), _rest(writer)
    where = f"{path}/additionalProperties"
    if old is False or new in (True, {}):
        return
    if new is False:
        yield Problem("ADDITIONAL_PROPERTIES_REMOVED", where, "no more properties are accepted than are named")
    elif old in (True, {}):
        yield Problem("ADDITIONAL_PROPERTIES_NARROWED", where, "not all properties are accepted any more")
    else:
        yield from comparison.compare(reader.of(new), writer.of(old), where)


def _patterns(comparison: Comparison, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
    from ottla.schemas.json_schema.compatibility import is_open

    before, after = writer.get("patternProperties", {}), reader.get("patternProperties", {})
    comparison.budget.spend(len(before) * len(after) + len(before) + len(after))
    for pattern, wanted in after.items():
        where = f"{path}/patternProperties/{pattern}"
        if pattern in before:
            yield from comparison.compare(reader.of(wanted), writer.of(before[pattern]), where)
            continue
        rest = _rest(writer)
        written = [] if rest is False else [rest]
        written += [each for name, each in writer.get("properties", {}).items() if comparison.covers(pattern, name)]
        written += [each for other, each in before.items() if _may_meet(pattern, other)]
        if not is_open(wanted) and not all(comparison.fits(reader.of(wanted), writer.of(x), where) for x in written):
            yield Problem("PATTERN_PROPERTY_ADDED", where, "not all that may have been written is accepted")
    for pattern, written in before.items():
        where = f"{path}/patternProperties/{pattern}"
        # Names that it matched are now what a wider pattern says, or the rest.
        wider = [each for other, each in after.items() if _is_within(pattern, other)]
        wanted = wider[0] if wider else _rest(reader)
        if pattern not in after and not comparison.fits(reader.of(wanted), writer.of(written), where):
            yield Problem("PATTERN_PROPERTY_REMOVED", where, "names that it matched are not accepted as they were")


def _beginning(pattern: str) -> str | None:
    """What the names begin with that a pattern of the plain kind "^text" matches; None for all other patterns."""
    plain = pattern.removeprefix("^")
    return plain if plain != pattern and plain.replace("_", "").replace("-", "").isalnum() else None


def _is_within(pattern: str, other: str) -> bool:
    """Whether all names that `pattern` matches plainly match the other one too."""
    one, wider = _beginning(pattern), _beginning(other)
    return pattern == other or (one is not None and wider is not None and one.startswith(wider))


def _may_meet(pattern: str, other: str) -> bool:
    """Whether a name may match both; in doubt it may."""
    no_beginning = _beginning(pattern) is None or _beginning(other) is None
    return no_beginning or _is_within(pattern, other) or _is_within(other, pattern)


def _dependencies(comparison: Comparison, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
    for word in ("dependencies", "dependentRequired", "dependentSchemas"):
        before = writer.get(word, {})
        for name, wanted in reader.get(word, {}).items():
            comparison.budget.spend(1 + len(wanted) if isinstance(wanted, list) else 1)
            where = f"{path}/{word}/{name}"
            kind = "ARRAY" if isinstance(wanted, list) else "SCHEMA"
            if name not in before or isinstance(wanted, list) != isinstance(before[name], list):
                yield Problem(f"DEPENDENCY_{kind}_ADDED", where, f"{name} demands more than before")
            elif kind == "SCHEMA":
                yield from comparison.compare(reader.of(wanted), writer.of(before[name]), where)
            elif not set(wanted) <= set(before[name]):
                yield Problem("DEPENDENCY_ARRAY_EXTENDED", where, f"{name} demands more than before")
