"""JSON schemas as the columns of records that name no columns themselves.

    JSON Schema                              Arrow
    object with properties                   struct
    object of one schema for all names       map<string, ...>
    array                                    list
    string, integer, number, boolean         string, int64, double, bool
    null beside one of them                  the same: every column may be null
    enum and const of one type               that type

1. A reader that wants other columns names them; properties that are not named are passed over.
2. What has no columns (several types, a schema inside itself, allOf) is refused by its path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from ottla.errors import OttlaError

PLAIN: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
NULL: Final = {"type": "null"}


class UnreadableJsonSchema(OttlaError):
    """A JSON schema has no columns. Name those to read: valueSchema='id BIGINT, name STRING'."""


def struct_of(text: str, imports: Mapping[str, str]) -> pa.StructType:
    """The struct of a schema of objects."""
    whole = json.loads(text)
    others = {name: json.loads(imported) for name, imported in imports.items()}
    made = _Types(whole, others).of(whole, "#", ())
    if not pa.types.is_struct(made):
        raise UnreadableJsonSchema(f"it is {made}, and rows are objects with properties")
    return made


class _Types:
    def __init__(self, whole: Any, others: dict[str, Any]) -> None:
        self._whole = whole
        self._others = others

    def of(self, schema: Any, path: str, around: tuple[str, ...]) -> pa.DataType:
        if not isinstance(schema, dict):
            raise UnreadableJsonSchema(f"anything may stand at {path}")
        if isinstance(ref := schema.get("$ref"), str):
            if ref in around:
                raise UnreadableJsonSchema(f"{ref} contains itself, at {path}")
            return self.of(self._target(ref, path), path, (*around, ref))
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self._only([choice for choice in schema[word] if choice != NULL], path, around)
        kind = _kind(schema, path)
        if kind == "object":
            return self._object(schema, path, around)
        if kind == "array":
            if not isinstance(schema.get("items"), dict):
                raise UnreadableJsonSchema(f"the items at {path} have no one type")
            return pa.list_(self.of(schema["items"], f"{path}/items", around))
        return PLAIN[kind]

    def _only(self, choices: list[Any], path: str, around: tuple[str, ...]) -> pa.DataType:
        if len(choices) != 1:
            raise UnreadableJsonSchema(f"{path} has several types")
        return self.of(choices[0], path, around)

    def _object(self, schema: dict[str, Any], path: str, around: tuple[str, ...]) -> pa.DataType:
        properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        if not properties and isinstance(rest, dict) and rest:
            return pa.map_(pa.string(), self.of(rest, f"{path}/*", around))
        if not properties:
            raise UnreadableJsonSchema(f"the object at {path} has no properties")
        return pa.struct([(name, self.of(inner, f"{path}/{name}", around)) for name, inner in properties.items()])

    def _target(self, ref: str, path: str) -> Any:
        """What a $ref leads to: by a pointer, in this schema or in one that it refers to."""
        name, _, pointer = ref.partition("#")
        found = self._others.get(name) if name else self._whole
        for step in pointer.split("/")[1:]:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if found is None:
            raise UnreadableJsonSchema(f"$ref {ref!r} at {path} is not understood here")
        return found


def _kind(schema: dict[str, Any], path: str) -> str:
    kind = schema.get("type")
    if kind is None and ("enum" in schema or "const" in schema):
        values = [value for value in schema.get("enum", [schema.get("const")]) if value is not None]
        names = {bool: "boolean", str: "string", int: "integer", float: "number"}
        kind = sorted({names.get(type(value), "several") for value in values})
    kinds = [name for name in ([kind] if isinstance(kind, str) else kind or []) if name != "null"]
    if kinds in (["integer", "number"], ["number", "integer"]):
        return "number"
    if len(kinds) != 1 or kinds[0] not in (*PLAIN, "object", "array"):
        words = "no type" if not kinds else "several types"
        raise UnreadableJsonSchema(f"{path} has {words}")
    return str(kinds[0])
