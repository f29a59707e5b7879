"""Avro schemas as JSON values: which columns they are.

    Avro                          Arrow
    boolean, int, long, float,    bool, int32, int64, float, double; bytes and fixed are binary, string and enum
    double, bytes, string         are string
    record, array, map            struct, list, map<string, ...>
    [null, T]                     T; so is [T] alone
    [int, long], [float, double]  int64; double
    date                          date32
    timestamp-millis, -micros     timestamp[us, UTC]; local-timestamp-... timestamp[us]
    decimal                       decimal128
    other logical types           what they are written as: a uuid is a string, a time of day a number

Other unions are refused, or with `unions_as_structs` a struct with a field for each of their types, of which one is not
null: {"int": 7, "string": null, "Order": null}. Types that contain themselves have no column. Every column may be null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from ottla.errors import OttlaError

MOMENT: Final = pa.timestamp("us", tz="UTC")
LOCAL: Final = pa.timestamp("us")
PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
LOGICAL: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): MOMENT,
    ("long", "timestamp-micros"): MOMENT,
    ("long", "local-timestamp-millis"): LOCAL,
    ("long", "local-timestamp-micros"): LOCAL,
}
WIDER: Final[Mapping[frozenset[str], str]] = {
    frozenset({"int", "long"}): "long",
    frozenset({"float", "double"}): "double",
}
DECIMAL_DIGITS_MAX: Final = 38
NAMED: Final = ("record", "error", "enum", "fixed")


class UnreadableAvroSchema(OttlaError):
    """An Avro schema has no columns, or is none. Read with a schema (valueSchema) that leaves out what has none."""


def arrow_type(schema: Any, *, unions_as_structs: bool = False) -> pa.DataType:
    """The column of values of this schema, given as JSON."""
    try:
        return AvroTypes(unions_as_structs=unions_as_structs).of(schema)
    except RecursionError:
        raise UnreadableAvroSchema("it is nested too deeply") from None


def full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema.get("name", ""))
    if "." in name:
        return name
    space = str(schema.get("namespace", namespace))
    return f"{space}.{name}" if space else name


def space_of(name: str) -> str:
    return name.rpartition(".")[0]


def without_odd_types(schema: Any) -> Any:
    """The same without the logical types that have no type here, so that their values come as they are written."""
    if isinstance(schema, list):
        return [without_odd_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: without_odd_types(value) if key in ("type", "items", "values") else value for key, value in schema.items()
    }
    if "fields" in schema:
        found["fields"] = [{**field, "type": without_odd_types(field.get("type"))} for field in schema["fields"]]
    logical = schema.get("logicalType")
    if logical is not None and _logical_type(schema) is None:
        del found["logicalType"]
    return found


def _logical_type(schema: Mapping[str, Any]) -> pa.DataType | None:
    base, logical = schema.get("type"), schema.get("logicalType")
    if logical == "decimal" and base in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= DECIMAL_DIGITS_MAX:
            return pa.decimal128(precision, scale)
        return None
    return LOGICAL.get((str(base), str(logical)))


class AvroTypes:
    """Goes through one schema and says which column it is."""

    def __init__(self, *, unions_as_structs: bool) -> None:
        self._unions_as_structs = unions_as_structs
        self._named: dict[str, pa.DataType] = {}
        self._open: set[str] = set()

    def of(self, schema: Any, namespace: str = "") -> pa.DataType:
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        if not isinstance(schema, dict) or "type" not in schema:
            raise UnreadableAvroSchema(f"{_shown(schema)} is no Avro schema")
        if (logical := _logical_type(schema)) is not None and schema["type"] != "fixed":
            return logical
        match schema["type"]:
            case "array":
                return pa.list_(self.of(schema.get("items"), namespace))
            case "map":
                return pa.map_(pa.string(), self.of(schema.get("values"), namespace))
            case word if word in NAMED:
                return self._define(schema, namespace)
            case inner:
                return self.of(inner, namespace)

    def _by_name(self, name: str, namespace: str) -> pa.DataType:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        for full in (f"{namespace}.{name}" if namespace and "." not in name else name, name):
            if full in self._open:
                raise UnreadableAvroSchema(f"{full} contains itself")
            if full in self._named:
                return self._named[full]
        raise UnreadableAvroSchema(f"{name!r} is not defined before it is used")

    def _define(self, schema: Mapping[str, Any], namespace: str) -> pa.DataType:
        name = full_name(schema, namespace)
        self._open.add(name)
        found: pa.DataType
        if schema["type"] == "enum":
            found = pa.string()
        elif schema["type"] == "fixed":
            found = _logical_type(schema) or pa.binary()
        else:
            fields = schema.get("fields")
            if not isinstance(fields, list):
                raise UnreadableAvroSchema(f"record {name} has no fields")
            found = pa.struct(
                [(str(field.get("name")), self.of(field.get("type"), space_of(name))) for field in fields]
            )
        self._open.discard(name)
        self._named[name] = found
        return found

    def _union(self, branches: list[Any], namespace: str) -> pa.DataType:
        kinds = [branch for branch in branches if branch != "null"]
        if len(kinds) == 1:
            return self.of(kinds[0], namespace)
        if all(isinstance(kind, str) for kind in kinds) and frozenset(kinds) in WIDER:
            return PRIMITIVES[WIDER[frozenset(kinds)]]
        if not self._unions_as_structs or not kinds:
            raise UnreadableAvroSchema(f"the union {_shown(branches)} has several types")
        members = [(self.of(kind, namespace), self._member_name(kind, namespace)) for kind in kinds]
        if len({name for _, name in members}) < len(members):
            raise UnreadableAvroSchema(f"types of the union {_shown(branches)} have one name as columns")
        return pa.struct([(name, kind) for kind, name in members])

    def _member_name(self, kind: Any, namespace: str) -> str:
        """The full name of a type as a field has it: without dots, which separate fields from those inside."""
        if isinstance(kind, dict):
            word = kind.get("type")
            if word in NAMED:
                return full_name(kind, namespace).replace(".", "_")
            return self._member_name(word, namespace)
        inside = f"{namespace}.{kind}" if namespace and "." not in kind else kind
        return str(inside if inside in self._named else kind).replace(".", "_")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
