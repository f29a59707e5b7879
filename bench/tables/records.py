"""The records of the bench: the same seven fields in every format, filled up with random letters."""

from __future__ import annotations

import io
import json
import random
import string
from datetime import UTC, datetime
from typing import Any

import fastavro

FIRST = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
AVRO = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "page", "type": ["null", "string"]},
        {"name": "ok", "type": "boolean"},
        {"name": "ratio", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "country", "type": {"type": "enum", "name": "Country", "symbols": ["DE", "AT", "CH"]}},
    ],
}
PROTOBUF = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; enum Country { DE = 0; AT = 1; CH = 2; }
message Click { int64 id = 1; string user = 2; optional string page = 3; bool ok = 4; double ratio = 5;
google.protobuf.Timestamp at = 6; Country country = 7; }"""


def clicks(count: int, padding: int) -> list[dict[str, Any]]:
    letters = "".join(random.Random(1).choices(string.ascii_letters, k=60_000))
    return [
        {
            "id": 1_000_000 + number,
            "user": f"user-{number % 997}",
            "page": "/page/" + letters[number * 37 % 50_000 :][:padding],
            "ok": number % 2 == 0,
            "ratio": number / 7,
            "at": datetime.fromtimestamp(FIRST + number / 1_000, UTC),
            "country": ("DE", "AT", "CH")[number % 3],
        }
        for number in range(count)
    ]


def as_json(click: dict[str, Any]) -> bytes:
    return json.dumps({**click, "at": click["at"].isoformat()}, separators=(",", ":")).encode()


def as_avro(schema: Any, click: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, click)
    return stream.getvalue()
