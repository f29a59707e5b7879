"""Schemas that are small and ask for much: in three languages, alone and to be compared with one another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def hostile_schemas() -> Iterator[tuple[str, str, str]]:
    """Name, kind, text."""
    yield from (("AVRO " + name, "AVRO", text) for name, text in _avro())
    yield from (("JSON " + name, "JSON", text) for name, text in _json())
    yield from (("PROTOBUF " + name, "PROTOBUF", text) for name, text in _protobuf())


def hostile_pairs() -> Iterator[tuple[str, str, str, str]]:
    """Name, kind, and two schemas that are compared."""
    numbers = range(2_000)
    wide = ["string", *({"type": "record", "name": f"R{n}", "fields": [{"name": "f", "type": "int"}]} for n in numbers)]
    yield "unions of 2,000 records", "AVRO", json.dumps(wide), json.dumps(wide[::-1])
    symbols = [f"S{n}" for n in range(20_000)]
    yield "enums of 20,000 symbols", "AVRO", _enum(symbols), _enum(symbols[::-1])
    chain = {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(200)} | {"d200": {"type": "object"}}}
    yield (
        "a chain of references",
        "JSON",
        json.dumps(chain | {"$ref": "#/$defs/d0"}),
        json.dumps(chain | {"$ref": "#/$defs/d1"}),
    )
    options = [{"type": "object", "properties": {f"p{n}": {"enum": list(range(50))}}} for n in range(200)]
    for word in ("anyOf", "oneOf", "allOf"):
        yield f"{word} of 200", "JSON", json.dumps({word: options}), json.dumps({word: options[::-1]})
    yield (
        "enums of 50,000 values",
        "JSON",
        json.dumps({"enum": list(range(50_000))}),
        json.dumps({"enum": list(range(50_000, 0, -1))}),
    )
    patterns = {f"(a*)*{n}b": {"type": "string"} for n in range(50)}
    names = {"a" * 3_000 + str(n): {"type": "string"} for n in range(20)}
    yield (
        "patterns of properties",
        "JSON",
        json.dumps({"patternProperties": patterns}),
        json.dumps({"properties": names}),
    )
    fields = "".join(f"message M{n} {{ M{(n + 1) % 1_000} a = 1; }}" for n in range(1_000))
    yield (
        "a circle of 1,000 messages",
        "PROTOBUF",
        f'syntax = "proto3"; {fields}',
        f'syntax = "proto3"; {fields} message X {{}}',
    )
    choices = "".join(f"string f{n} = {n + 1};" for n in range(3_000))
    yield (
        "a oneof of 3,000",
        "PROTOBUF",
        f'syntax = "proto3"; message M {{ oneof o {{ {choices} }} }}',
        f'syntax = "proto3"; message M {{ {choices} }}',
    )


def _enum(symbols: list[str]) -> str:
    return json.dumps({"type": "enum", "name": "E", "symbols": symbols})


def _nested(depth: int, around: str, within: str, end: str) -> str:
    return around * depth + within + end * depth


def _avro() -> Iterator[tuple[str, str]]:
    yield "arrays within each other", _nested(2_000, '{"type":"array","items":', '"int"', "}")
    yield (
        "a union of 5,000 names",
        json.dumps(["null", *({"type": "fixed", "name": f"F{n}", "size": 1} for n in range(5_000))]),
    )
    yield (
        "a record of 10,000 fields",
        json.dumps(
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": f"f{n}", "type": "int", "aliases": [f"a{n}"]} for n in range(10_000)],
            }
        ),
    )
    yield "a fixed of 10**400 bytes", '{"type":"fixed","name":"F","size":1' + "0" * 400 + "}"
    yield (
        "a decimal of 10**9 digits",
        '{"type":"bytes","logicalType":"decimal","precision":1000000000,"scale":999999999}',
    )
    yield (
        "a default that is nested",
        '{"type":"record","name":"R","fields":[{"name":"f","type":"string","default":'
        + "[" * 50_000
        + "]" * 50_000
        + "}]}",
    )
    yield (
        "a default of a megabyte",
        json.dumps(
            {"type": "record", "name": "R", "fields": [{"name": "f", "type": "string", "default": "x" * 1_000_000}]}
        ),
    )
    yield "a name of a megabyte", json.dumps({"type": "record", "name": "R" * 1_000_000, "fields": []})
    yield "a name with 100,000 dots", json.dumps({"type": "record", "name": "a." * 100_000 + "R", "fields": []})
    yield "an enum of 100,000 symbols", _enum([f"S{n}" for n in range(100_000)])
    yield (
        "a default that is a large number",
        '{"type":"record","name":"R","fields":[{"name":"f","type":"long","default":' + "9" * 4_000 + "}]}",
    )
    yield "3 MB that is no schema", "x" * 3_000_000
    yield "3 MB of brackets", "[" * 3_000_000


def _json() -> Iterator[tuple[str, str]]:
    yield "objects within each other", _nested(2_000, '{"properties":{"a":', "{}", "}}")
    yield (
        "a chain of 5,000 references",
        json.dumps({"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}, "$ref": "#/$defs/d0"}),
    )
    yield (
        "references that double",
        json.dumps(
            {
                "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)},
                "$ref": "#/$defs/d0",
            }
        ),
    )
    yield "a reference to itself", json.dumps({"$ref": "#"})
    yield "references to strangers", json.dumps({"anyOf": [{"$ref": f"http://127.0.0.1:1/{n}"} for n in range(2_000)]})
    yield "an enum of 100,000 objects", json.dumps({"enum": [{"a": n} for n in range(100_000)]})
    yield "unique items", json.dumps({"default": list(range(20_000)), "required": [f"r{n}" for n in range(30_000)]})
    yield "30,000 properties", json.dumps({"properties": {f"p{n}": {"type": "string"} for n in range(30_000)}})
    yield "a pattern that doubles", json.dumps({"pattern": "(a*)*" * 1_000, "default": "a" * 5_000})
    yield "a number of 4,000 digits", '{"multipleOf":' + "9" * 4_000 + "}"
    yield "a number of a megabyte", '{"maximum":' + "9" * 1_000_000 + "}"
    yield "anyOf within anyOf", _nested(900, '{"anyOf":[{},', "{}", "]}")
    yield "3 MB of brackets", "[" * 3_000_000
    yield "a draft that is not", json.dumps({"$schema": "http://x" * 10_000})


def _protobuf() -> Iterator[tuple[str, str]]:
    head = 'syntax = "proto3"; '
    yield "messages within each other", head + _nested(2_000, "message M { ", "", "}")
    yield "5,000 messages", head + "".join(f"message M{n} {{ int32 a = 1; }}" for n in range(5_000))
    yield "10,000 fields", head + "message M {" + "".join(f"int32 f{n} = {n + 1};" for n in range(10_000)) + "}"
    yield "5,000 imports", head + "".join(f'import "f{n}.proto";' for n in range(5_000))
    yield (
        "a map of maps",
        head + "message M { " + "".join(f"map<string, M> m{n} = {n + 1};" for n in range(2_000)) + "}",
    )
    yield "options within each other", head + "option (a) = " + "{a:" * 5_000 + "1" + "}" * 5_000 + ";"
    yield "a comment that does not end", head + "/*" * 500_000
    yield "a comment of stars", head + "/*" + "*" * 3_000_000 + "/"
    yield "a text that does not end", head + 'option java_package = "' + "\\" * 1_000_000
    yield "a name with 100,000 dots", head + "message M { " + ".a" * 100_000 + " f = 1; }"
    yield (
        "ranges of reserved numbers",
        head + "message M { reserved " + ",".join(f"{n} to {n}" for n in range(1, 10_000)) + "; }",
    )
    yield "an enum of 50,000", head + "enum E {" + "".join(f"V{n} = {n};" for n in range(50_000)) + "}"
    yield "a number of a megabyte", head + "message M { int32 a = " + "9" * 1_000_000 + "; }"
    yield "3 MB of brackets", head + "{" * 3_000_000


def registered(kind: str, text: str, **more: Any) -> bytes:
    return json.dumps({"schemaType": kind, "schema": text, **more}).encode()
