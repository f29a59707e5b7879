"""The form in which an Avro schema is stored: attributes in the order in which Avro's Java library writes them.

1. Nothing is lost: documentation, defaults, aliases and properties of one's own stay. Spaces and the order of
   attributes do not matter, and {"type": "string"} is "string".
2. A namespace that is the same as around it is left out; "a.b.Name" is a name and a namespace.
3. Sorted, for normalisation, properties of one's own stand in the order of their names, and so do aliases.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.schemas.avro.types import RECORDS, full_name

_ORDERS: Final[dict[str, tuple[str, ...]]] = {
    "record": ("doc", "fields"),
    "error": ("doc", "fields"),
    "enum": ("doc", "symbols", "default"),
    "fixed": ("doc", "size"),
    "array": ("items",),
    "map": ("values",),
}
_FIELD_ORDER: Final = ("name", "type", "doc", "default", "order", "aliases")
_NAMED: Final = (*RECORDS, "enum", "fixed")


def written(value: Any, namespace: str = "", *, is_sorted: bool = False) -> Any:
    """The same schema with its attributes in order."""
    if isinstance(value, list):
        return [written(each, namespace, is_sorted=is_sorted) for each in value]
    if not isinstance(value, dict):
        return _without_namespace(value, namespace)
    kind = value["type"]
    if not isinstance(kind, str):
        inner = written(kind, namespace, is_sorted=is_sorted)
        return inner if len(value) == 1 else _with_properties({"type": inner}, value, ("type",), is_sorted)
    if kind not in _ORDERS:
        made = {"type": _without_namespace(kind, namespace)}
        return made["type"] if len(value) == 1 else _with_properties(made, value, ("type",), is_sorted)
    return _complex(kind, value, namespace, is_sorted)


def _complex(kind: str, value: dict[str, Any], namespace: str, is_sorted: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"type": kind}
    inner = namespace
    if kind in _NAMED:
        inner, _, made["name"] = full_name(value["name"], value.get("namespace", namespace)).rpartition(".")
        if inner != namespace:
            made["namespace"] = inner
    for name in _ORDERS[kind]:
        if name in value:
            made[name] = _attribute(name, value[name], inner, is_sorted)
    known = ("type", "name", "namespace", "aliases", *_ORDERS[kind])
    made = _with_properties(made, value, known, is_sorted)
    if value.get("aliases"):
        made["aliases"] = _aliases(value["aliases"], inner, is_sorted)
    return made


def _attribute(name: str, value: Any, namespace: str, is_sorted: bool) -> Any:
    if name == "fields":
        return [_field(each, namespace, is_sorted) for each in value]
    if name in ("items", "values"):
        return written(value, namespace, is_sorted=is_sorted)
    return value


def _field(value: dict[str, Any], namespace: str, is_sorted: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in _FIELD_ORDER:
        if name not in value or (name == "order" and value[name] == "ascending"):
            continue
        made[name] = written(value[name], namespace, is_sorted=is_sorted) if name == "type" else value[name]
    if is_sorted and "aliases" in made:
        made["aliases"] = sorted(made["aliases"])
    return _with_properties(made, value, _FIELD_ORDER, is_sorted)


def _with_properties(
    made: dict[str, Any], value: dict[str, Any], known: tuple[str, ...], is_sorted: bool
) -> dict[str, Any]:
    own = [name for name in value if name not in known]
    return made | {name: value[name] for name in (sorted(own) if is_sorted else own)}


def _aliases(aliases: list[str], namespace: str, is_sorted: bool) -> list[str]:
    short = [_without_namespace(each, namespace) for each in aliases]
    return sorted(short) if is_sorted else short


def _without_namespace(name: Any, namespace: str) -> Any:
    if isinstance(name, str) and namespace and name.rpartition(".")[0] == namespace:
        return name.rpartition(".")[2]
    return name
