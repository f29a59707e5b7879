"""Requests out of plain values, at any version: fields that the version lacks are left out.

built("Fetch", 12, {"topics": [{"topic": "open", "topic_id": Id("open"), "partitions": [...]}], ...}, ids)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.protocol.api import APIS
from ottla.protocol.schema import ZERO_UUID, ArrayOf, Field, Message, Primitive, StructType

API_OF_NAME = {api.name: api for api in APIS.values()}


class Id(NamedTuple):
    """Stands for the id that a topic has at the time."""

    topic: str


def built(api_name: str, version: int, values: Mapping[str, Any], ids: Mapping[str, bytes]) -> Message:
    made: Message = _struct(API_OF_NAME[api_name].request, version, values, ids)
    return made


def _struct(kind: Any, version: int, values: Mapping[str, Any], ids: Mapping[str, bytes]) -> Any:
    assert set(values) <= {field.name for field in kind.fields}, f"{kind.__name__} has no {set(values)}"
    present = {}
    for field in kind.fields:
        if version in field.present and field.name in values:
            present[field.name] = _value(field.type, version, values[field.name], ids)
        elif field.required:
            present[field.name] = _nothing(field, version)
    return kind(**present)


def _value(kind: Any, version: int, value: Any, ids: Mapping[str, bytes]) -> Any:
    if value is None:
        return None
    if isinstance(value, Id):
        return ids.get(value.topic, value.topic.encode().ljust(16, b"-"))
    if isinstance(kind, ArrayOf):
        return [_value(kind.element, version, each, ids) for each in value]
    return _struct(kind, version, value, ids) if isinstance(kind, StructType) else value


def _nothing(field: Field, version: int) -> Any:
    if isinstance(field.type, ArrayOf):
        return []
    if field.null_at(version):
        return None
    return field.type.zero if isinstance(field.type, Primitive) else ZERO_UUID
