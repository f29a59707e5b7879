"""JSON schemas of a registry as types of Spark: the columns of valueFormat=json where nobody named them.

    JSON Schema                              Spark
    object with properties                   struct
    object of one schema for all names       map<string, ...>
    array                                    array
    string, integer, number, boolean         string, bigint, double, boolean
    null beside one of them                  the same: every column may be NULL
    enum and const of one type               that type

1. The schema is the newest of the subject <topic>-key or <topic>-value when the query is planned. A reader that wants
   other columns says so with valueSchema; properties that are not named are passed over.
2. What has no type in Spark (several types, a schema inside itself, allOf) is refused by its path.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from ottla.errors import OttlaError
from ottla.schemas.model import JSON
from ottla.spark.formats.registered import newest_schemas, same_for_all

if TYPE_CHECKING:
    from ottla.spark.formats.formats import Side
    from ottla.spark.source.options import SourceOptions

PLAIN: Final[dict[str, DataType]] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
NULL: Final = {"type": "null"}


class UnreadableJsonSchema(OttlaError):
    """A JSON schema has no type in Spark. Name the columns to read: valueSchema='id BIGINT, name STRING'."""


def registered_type(options: SourceOptions, side: Side) -> StructType:
    """The columns that the newest schema of the topics has."""
    found = newest_schemas(options, side, JSON, "the columns to read, as in 'id BIGINT, name STRING'")
    return same_for_all((struct_of(*each) for each in found), side)


def struct_of(text: str, imports: dict[str, str]) -> StructType:
    """The struct of a schema of objects."""
    whole = json.loads(text)
    others = {name: json.loads(each) for name, each in imports.items()}
    made = _Types(whole, others).of(whole, "#", ())
    if not isinstance(made, StructType):
        raise UnreadableJsonSchema(f"it is {made.simpleString()}, and rows are objects with properties")
    return made


class _Types:
    def __init__(self, whole: Any, others: dict[str, Any]) -> None:
        self._whole = whole
        self._others = others

    def of(self, schema: Any, path: str, around: tuple[str, ...]) -> DataType:
        if not isinstance(schema, dict):
            raise UnreadableJsonSchema(f"anything may stand at {path}")
        if isinstance(ref := schema.get("$ref"), str):
            if ref in around:
                raise UnreadableJsonSchema(f"{ref} contains itself, at {path}")
            return self.of(self._target(ref, path), path, (*around, ref))
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self._only([each for each in schema[word] if each != NULL], path, around)
        kind = _kind(schema, path)
        if kind == "object":
            return self._object(schema, path, around)
        if kind == "array":
            if not isinstance(schema.get("items"), dict):
                raise UnreadableJsonSchema(f"the items at {path} have no one type")
            return ArrayType(self.of(schema["items"], f"{path}/items", around))
        return PLAIN[kind]

    def _only(self, choices: list[Any], path: str, around: tuple[str, ...]) -> DataType:
        if len(choices) != 1:
            raise UnreadableJsonSchema(f"{path} has several types")
        return self.of(choices[0], path, around)

    def _object(self, schema: dict[str, Any], path: str, around: tuple[str, ...]) -> DataType:
        properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        if not properties and isinstance(rest, dict) and rest:
            return MapType(StringType(), self.of(rest, f"{path}/*", around))
        if not properties:
            raise UnreadableJsonSchema(f"the object at {path} has no properties")
        return StructType(
            [StructField(name, self.of(each, f"{path}/{name}", around)) for name, each in properties.items()]
        )

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
        values = [each for each in schema.get("enum", [schema.get("const")]) if each is not None]
        names = {bool: "boolean", str: "string", int: "integer", float: "number"}
        kind = sorted({names.get(type(each), "several") for each in values})
    kinds = [each for each in ([kind] if isinstance(kind, str) else kind or []) if each != "null"]
    if kinds in (["integer", "number"], ["number", "integer"]):
        return "number"
    if len(kinds) != 1 or kinds[0] not in (*PLAIN, "object", "array"):
        words = "no type" if not kinds else "several types"
        raise UnreadableJsonSchema(f"{path} has {words}")
    return str(kinds[0])
