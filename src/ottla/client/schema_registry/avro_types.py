"""A Python type as an Avro schema.

    bool boolean, int long, float double, str string, bytes bytes, None null
    datetime   timestamp-micros        date   date             time   time-micros
    UUID       string, logicalType uuid                        Decimal   Annotated[Decimal, Precision(12, 2)]
    Enum       enum of the names       Literal of texts        enum
    list, tuple, set   array           dict with text as keys  map
    X | None   ["null", X]             a type with fields      record

1. A field with a default has it in the schema, so that readers with the new schema read what was written before.
2. An optional field without a default is required; give it `= None`.
3. A type that stands in several places is written once, and named after that. It may contain itself.
4. A type that has no schema here is refused with its name.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import json
import re
import types
import uuid
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from ottla.client.schema_registry.fields import MISSING, TypeField, fields_of, is_record
from ottla.light_tuples import NamedTuple

_PLAIN: Final[dict[Any, Any]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    None: "null",
    type(None): "null",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
}
_LISTS: Final = (list, tuple, set, frozenset)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Precision(NamedTuple):
    """How many digits a decimal has, and how many of them stand behind the point."""

    precision: int
    scale: int = 0


class NoSchema(TypeError):
    """A type has no schema."""


def avro_schema(kind: Any, *, namespace: str = "") -> str:
    """The schema of a type as text."""
    return json.dumps(_Writer(namespace).of(kind))


class _Writer:
    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._named: dict[str, Any] = {}

    def of(self, kind: Any) -> Any:
        try:
            plain = _PLAIN.get(kind)
        except TypeError:  # it has no hash
            plain = None
        if plain is not None:
            return plain
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._annotated(arguments)
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        if origin is Literal:
            return self._literal(arguments)
        if origin in _LISTS:
            return {"type": "array", "items": self._items(kind, arguments)}
        if origin is dict:
            return self._map(kind, arguments)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return self._enum(kind)
        if is_record(kind):
            return self._record(kind)
        raise NoSchema(f"{kind!r} has no Avro schema; see ottla.serializers for those that have one")

    def _annotated(self, arguments: tuple[Any, ...]) -> Any:
        if arguments[0] is decimal.Decimal:
            for each in arguments[1:]:
                if isinstance(each, Precision):
                    return {"type": "bytes", "logicalType": "decimal", **each._asdict()}
        return self.of(arguments[0])

    def _union(self, arguments: tuple[Any, ...]) -> list[Any]:
        made: list[Any] = []
        for each in sorted(arguments, key=lambda kind: kind is not type(None)):
            schema = self.of(each)
            if schema not in made:
                made.append(schema)
        return made

    def _literal(self, arguments: tuple[Any, ...]) -> Any:
        if all(isinstance(each, str) for each in arguments):
            return "string"
        if all(isinstance(each, int) and not isinstance(each, bool) for each in arguments):
            return "long"
        raise NoSchema(f"Literal{list(arguments)!r} has no Avro schema; texts and whole numbers have one")

    def _items(self, kind: Any, arguments: tuple[Any, ...]) -> Any:
        wanted = [each for each in arguments if each is not Ellipsis]
        if len(wanted) != 1:
            raise NoSchema(f"{kind!r} has items of several types; an array of Avro has one")
        return self.of(wanted[0])

    def _map(self, kind: Any, arguments: tuple[Any, ...]) -> Any:
        if len(arguments) != 2 or arguments[0] is not str:
            raise NoSchema(f"{kind!r} has keys that are no text; a map of Avro has text as keys")
        return {"type": "map", "values": self.of(arguments[1])}

    def _enum(self, kind: type[enum.Enum]) -> Any:
        return self._once(kind, lambda made: made.update({"type": "enum", "symbols": [each.name for each in kind]}))

    def _record(self, kind: type) -> Any:
        def fill(made: dict[str, Any]) -> None:
            made["type"] = "record"
            if doc := _own_doc(kind):
                made["doc"] = doc
            made["fields"] = [self._field(each) for each in fields_of(kind)]

        return self._once(kind, fill)

    def _once(self, kind: type, fill: Any) -> Any:
        name = kind.__name__
        if name in self._named:
            if self._named[name] is not kind:
                raise NoSchema(f"two types are called {name}; an Avro schema needs a name for each")
            return f"{self._namespace}.{name}" if self._namespace else name
        if not _NAME.fullmatch(name):
            raise NoSchema(f"{name!r} cannot be the name of an Avro type")
        self._named[name] = kind
        made: dict[str, Any] = {"type": "", "name": name}
        if self._namespace:
            made["namespace"] = self._namespace
        fill(made)
        return made

    def _field(self, field: TypeField) -> dict[str, Any]:
        schema = self.of(field.hint)
        made: dict[str, Any] = {"name": field.name, "type": schema}
        if field.default is MISSING:
            return made
        default = _default(field.default)
        if default is None and isinstance(schema, list) and schema[0] == "null":
            return made | {"default": None}
        if isinstance(schema, list):
            # The default of a union is of its first branch.
            made["type"] = sorted(schema, key=lambda each: each == "null") if default is not None else schema
        return made if default is MISSING else made | {"default": default}


def _default(value: Any) -> Any:
    """A default as a schema has it; MISSING where it has none."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, _LISTS) and not value:
        return []
    if value is None or isinstance(value, bool | int | float | str) or value == {}:
        return value
    return MISSING


def _own_doc(kind: type) -> str | None:
    doc = kind.__dict__.get("__doc__")
    # A dataclass without a docstring gets its signature as one.
    return None if not doc or doc.startswith(f"{kind.__name__}(") else inspect.cleandoc(doc)
