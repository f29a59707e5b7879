"""A Python type as a JSON schema: pydantic's and msgspec's own, and ours for dataclasses.

Like theirs, ours leaves the content model open: more properties are accepted. To add properties later, close it with
`is_closed`: see "open and closed" in docs/schema-registry.md.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import sys
import types
import uuid
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from ottla.client.schema_registry.avro_types import NoSchema
from ottla.client.schema_registry.fields import MISSING, fields_of, is_msgspec, is_pydantic, is_record
from ottla.client.schema_registry.values import to_plain

_PLAIN: Final[dict[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string"},
    Any: {},
}


def json_schema(kind: Any, *, is_closed: bool = False) -> str:
    """The schema of a type as text."""
    if is_pydantic(kind):
        value = kind.model_json_schema(by_alias=True)
    elif is_msgspec(kind):
        value = sys.modules["msgspec"].json.schema(kind)
    else:
        value = _whole(_Writer(is_closed), kind)
    if is_record(kind) and "$ref" not in value:
        value.setdefault("title", kind.__name__)
        if is_closed:
            value["additionalProperties"] = False
    return json.dumps(value)


def _whole(writer: _Writer, kind: Any) -> dict[str, Any]:
    """The schema of a type at the top, unless it contains itself, and of all that it uses below."""
    value, definitions = writer.of(kind), writer.definitions
    name = getattr(kind, "__name__", "")
    is_own = value == {"$ref": f"#/definitions/{name}"}
    if is_own and json.dumps(value["$ref"]) not in json.dumps(definitions):
        value = definitions.pop(name)
    return {**value, "definitions": definitions} if definitions else value


class _Writer:
    def __init__(self, is_closed: bool) -> None:
        self._is_closed = is_closed
        self.definitions: dict[str, Any] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        try:
            plain = _PLAIN.get(kind)
        except TypeError:  # it has no hash
            plain = None
        if plain is not None:
            return dict(plain)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self.of(arguments[0])
        if origin in (Union, types.UnionType):
            return {"oneOf": [self.of(each) for each in sorted(arguments, key=lambda each: each is not type(None))]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (list, tuple, set, frozenset):
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": [each.value for each in kind]}
        if is_record(kind):
            return self._record(kind)
        raise NoSchema(f"{kind!r} has no JSON schema; see ottla.serializers for those that have one")

    def _record(self, kind: Any) -> dict[str, Any]:
        """Each type with fields is a definition, so that it may stand in several places and contain itself."""
        name = kind.__name__
        if name not in self.definitions:
            made: dict[str, Any] = {"type": "object", "title": name, "properties": {}}
            self.definitions[name] = made
            for each in fields_of(kind):
                schema = self.of(each.hint)
                if each.default is MISSING:
                    made.setdefault("required", []).append(each.name)
                else:
                    schema["default"] = to_plain(each.default, is_json=True)
                made["properties"][each.name] = schema
            if self._is_closed:
                made["additionalProperties"] = False
        return {"$ref": f"#/definitions/{name}"}
