"""An Avro schema with its names resolved: what compatibility is decided on.

A record may contain itself, so records are made before their fields are known and compared by identity.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ottla.light_dataclasses import dataclass, field
from ottla.schemas.model import InvalidSchema

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
RECORDS: Final = ("record", "error")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(eq=False)
class AvroType:
    """One type. `kind` is Avro's word; a union has `branches`, an array or map its one `items`. What a value means
    beyond its type (`logical`, `scale`, `precision`) is for those who show it, and no matter of compatibility."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    branches: list[AvroType] = field(default_factory=list)
    items: AvroType | None = None
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    logical: str = ""
    scale: int = 0
    precision: int = 0

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(eq=False)
class AvroField:
    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None


class Resolver:
    """Types by their full names; what was resolved before is known to what comes after."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def resolve(self, value: Any, namespace: str = "") -> AvroType:
        if isinstance(value, list):
            return AvroType("union", branches=[self.resolve(each, namespace) for each in value])
        if isinstance(value, str):
            return AvroType(value) if value in PRIMITIVES else self._found(value, namespace)
        kind = value["type"]
        if not isinstance(kind, str):
            return self.resolve(kind, namespace)
        if kind in ("array", "map"):
            return AvroType(kind, items=self.resolve(value["items" if kind == "array" else "values"], namespace))
        if kind in (*RECORDS, "enum", "fixed"):
            return _with_meaning(self._named_type(kind, value, namespace), value)
        found = self.resolve(kind, namespace)
        return _with_meaning(found, value) if kind in PRIMITIVES else found

    def _named_type(self, kind: str, value: dict[str, Any], namespace: str) -> AvroType:
        check_named(kind, value)
        name = full_name(value["name"], value.get("namespace", namespace))
        inner = name.rpartition(".")[0]
        aliases = tuple(full_name(each, inner) for each in value.get("aliases", ()))
        made = AvroType("record" if kind in RECORDS else kind, name, aliases)
        self._named[name] = made
        if kind == "enum":
            made.symbols, made.default = tuple(value["symbols"]), value.get("default")
        elif kind == "fixed":
            made.size = value["size"]
        else:
            made.fields.extend(self._field(each, inner) for each in value["fields"])
        return made

    def _field(self, value: dict[str, Any], namespace: str) -> AvroField:
        kind = self.resolve(value["type"], namespace)
        return AvroField(value["name"], kind, tuple(value.get("aliases", ())), "default" in value, value.get("default"))

    def _found(self, name: str, namespace: str) -> AvroType:
        found = self._named.get(full_name(name, namespace)) or self._named.get(name)
        if found is None:
            raise InvalidSchema(f"the type {name!r} is not known")
        return found


def _with_meaning(made: AvroType, value: dict[str, Any]) -> AvroType:
    logical, scale, precision = value.get("logicalType"), value.get("scale"), value.get("precision")
    made.logical = logical if isinstance(logical, str) else ""
    made.scale = scale if type(scale) is int else 0
    made.precision = precision if type(precision) is int else 0
    return made


def check_named(kind: str, value: dict[str, Any]) -> None:
    """What fastavro does not mind: names that are none, fields and symbols that are missing, or there twice."""
    name = value.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSchema(f"{name!r} is no name")
    if kind == "fixed":
        if type(value.get("size")) is not int or value["size"] < 0:
            raise InvalidSchema(f"fixed {name} needs a size")
        return
    word = "symbols" if kind == "enum" else "fields"
    inside = value.get(word)
    if not isinstance(inside, list):
        raise InvalidSchema(f"{kind} {name} needs a list of {word}")
    names = [each.get("name") if isinstance(each, dict) else each for each in inside]
    for each in names:
        if not isinstance(each, str) or not _NAME.fullmatch(each):
            raise InvalidSchema(f"{each!r} in {kind} {name} is no name")
    if len(set(names)) < len(names):
        raise InvalidSchema(f"{kind} {name} has {word} of the same name")


def full_name(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
