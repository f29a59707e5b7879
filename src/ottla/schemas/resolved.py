"""A schema with all that it refers to written into it: what format=resolved asks for.

Avro: the first use of a type of a reference becomes its definition. JSON Schema: references become definitions, and
every $ref leads there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.schemas.avro.types import PRIMITIVES, RECORDS, full_name
from ottla.schemas.model import AVRO, read_json, write_json


def resolved(kind: str, text: str, imports: Mapping[str, str]) -> str:
    """The text of the whole."""
    if kind == AVRO:
        named: dict[str, Any] = {}
        for each in imports.values():
            _collect(read_json(each), "", named)
        return write_json(_whole(read_json(text), "", named))
    value = read_json(text)
    if isinstance(value, dict):
        others = {name: read_json(each) for name, each in imports.items()}
        value = _redirected(value, others)
        value["definitions"] = {
            **value.get("definitions", {}),
            **{n: _redirected(x, others) for n, x in others.items()},
        }
    return write_json(value)


def _redirected(value: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_redirected(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: _redirected(each, names) for name, each in value.items() if name != "$id"}
    ref = value.get("$ref")
    if isinstance(ref, str):
        name, hash_sign, rest = ref.partition("#")
        if name in names:
            escaped = name.replace("~", "~0").replace("/", "~1")
            made["$ref"] = f"#/definitions/{escaped}{rest if hash_sign else ''}"
    return made


def _collect(value: Any, namespace: str, named: dict[str, Any]) -> None:
    if isinstance(value, list):
        for each in value:
            _collect(each, namespace, named)
    elif isinstance(value, dict):
        if value.get("type") in (*RECORDS, "enum", "fixed"):
            name = full_name(value["name"], value.get("namespace", namespace))
            namespace = name.rpartition(".")[0]
            named[name] = {**value, "name": name.rpartition(".")[2], "namespace": namespace}
        for inner in ("type", "items", "values"):
            _collect(value.get(inner), namespace, named)
        for field in value.get("fields", ()):
            _collect(field.get("type"), namespace, named)


def _whole(value: Any, namespace: str, named: dict[str, Any]) -> Any:
    """Each named type is written where it is first used, and taken out of `named` then."""
    if isinstance(value, list):
        return [_whole(each, namespace, named) for each in value]
    if isinstance(value, str):
        if value in PRIMITIVES:
            return value
        for name in (full_name(value, namespace), value):
            if name in named:
                return _whole(named.pop(name), "", named)
        return value
    if not isinstance(value, dict):
        return value
    made = dict(value)
    if value.get("type") in (*RECORDS, "enum", "fixed"):
        name = full_name(value["name"], value.get("namespace", namespace))
        namespace = name.rpartition(".")[0]
        named.pop(name, None)
    elif "type" in value:
        made["type"] = _whole(value["type"], namespace, named)
    for inner in ("items", "values"):
        if inner in value:
            made[inner] = _whole(value[inner], namespace, named)
    if "fields" in value:
        made["fields"] = [{**each, "type": _whole(each["type"], namespace, named)} for each in value["fields"]]
    return made
