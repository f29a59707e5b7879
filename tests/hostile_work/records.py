"""Records that are hard on whoever looks at them: a broker that takes them in, a console that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache

from ottla.records import BatchBuilder
from ottla.records.compression import Compression

TIME_MS = 1_700_000_000_000
VALUE_BYTES = 1_000_000  # message.max.bytes leaves a little more
TINY_RECORDS = 1_200_000
AVRO_DECIMAL = json.dumps(
    {
        "type": "record",
        "name": "Money",
        "fields": [
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}},
            {"name": "texts", "type": {"type": "array", "items": "string"}},
        ],
    }
)
AVRO_TREE = json.dumps(
    {
        "type": "record",
        "name": "Tree",
        "fields": [
            {"name": "left", "type": ["null", "Tree"]},
            {"name": "nothing", "type": {"type": "array", "items": "null"}},
        ],
    }
)
JSON_ANYTHING = json.dumps({"type": ["object", "array", "string", "number"]})
PROTOBUF_TREE = (
    'syntax = "proto3"; message Tree { Tree left = 1; repeated int32 numbers = 2; map<string, Tree> by = 3; }'
)


def nested(opening: bytes, closing: bytes, depth: int) -> bytes:
    return opening * depth + closing * depth


def varint(value: int) -> bytes:
    """Avro's and Protobuf's, of a number that is not negative."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def avro_length(value: int) -> bytes:
    return varint(value << 1)


def framed(schema_id: int, content: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + content


def deep_protobuf(size_bytes: int) -> bytes:
    """A tree of nodes within each other."""
    content = b""
    while len(content) < size_bytes:
        content = b"\x0a" + varint(len(content)) + content
        if len(content) > 20_000:  # each level copies all below it
            break
    return content


@lru_cache(maxsize=32)
def hostile_values(ids: tuple[tuple[str, int], ...]) -> tuple[tuple[str, bytes], ...]:
    by_subject = dict(ids)
    decimal, tree = by_subject.get("bob-records-value", 1), by_subject.get("bob-tree-value", 2)
    anything, proto = by_subject.get("bob-json-value", 3), by_subject.get("bob-proto-value", 4)
    long = b"9" * VALUE_BYTES
    return (
        ("a decimal of a megabyte", framed(decimal, avro_length(VALUE_BYTES) + b"\x7f" * VALUE_BYTES + b"\0")),
        (
            "a text of a megabyte in Avro",
            framed(decimal, b"\0" + avro_length(1) + avro_length(VALUE_BYTES) + b"x" * VALUE_BYTES + b"\0"),
        ),
        (
            "a million empty texts in Avro",
            framed(decimal, b"\0" + avro_length(VALUE_BYTES) + b"\0" * VALUE_BYTES + b"\0"),
        ),
        ("a deep tree in Avro", framed(tree, b"\x02" * (VALUE_BYTES - 10))),
        ("2**40 nulls in Avro", framed(tree, b"\0" + avro_length(1 << 40) + b"\0")),
        ("JSON nested deeply, by a schema", framed(anything, nested(b"[", b"]", VALUE_BYTES // 2))),
        ("JSON of half a million lists, by a schema", framed(anything, b"[" + b"[]," * 300_000 + b"[]]")),
        ("a number of a megabyte, by a schema", framed(anything, long)),
        ("a deep tree in Protobuf", framed(proto, b"\0" + deep_protobuf(VALUE_BYTES))),
        ("half a million numbers in Protobuf", framed(proto, b"\0" + b"\x12" + varint(900_000) + b"\x01" * 900_000)),
        ("200,000 entries of a map in Protobuf", framed(proto, b"\0" + b"\x1a\x00" * 400_000)),
        ("JSON nested deeply", nested(b'{"a":', b"}", VALUE_BYTES // 6).replace(b":}", b":1}", 1)),
        ("JSON of 300,000 lists", b"[" + b"[]," * 300_000 + b"[]]"),
        ("JSON of 80,000 names", b"{" + b",".join(b'"k%d":1' % number for number in range(80_000)) + b"}"),
        ("a number of a megabyte", b"[" + long[2:] + b"]"),
        ("a number with a large exponent", b'{"a": 1e999999999}'),
        ("a text of a megabyte", b"a" * VALUE_BYTES),
        ("control characters", b"\x01" * VALUE_BYTES),
        ("surrogates", json.dumps("\ud800" * 100_000).encode()),
        ("not UTF-8", b"\xff" * VALUE_BYTES),
    )


def hostile_batches(ids: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Batches that a broker takes in."""
    for name, value in hostile_values(tuple(ids.items())):
        yield name, batch(value)
    yield "one record with 60,000 headers", with_headers(60_000)
    for codec in (Compression.ZSTD,):
        yield f"{TINY_RECORDS} tiny records in {codec.label}", tiny_records(codec)
    yield "15 MB of zeros in gzip", batch(bytes(15_000_000), Compression.GZIP)
    yield "a thousand small JSON values in one batch", many_values(b'{"a": {"b": [1, 2, 3]}}', 1_000)


def batch(value: bytes, compression: Compression = Compression.NONE) -> bytes:
    made = BatchBuilder(compression=compression, size_limit_bytes=len(value) + 10_000)
    made.append(TIME_MS, b"k", value)
    return bytes(made.close())


def many_values(value: bytes, count: int, compression: Compression = Compression.NONE) -> bytes:
    made = BatchBuilder(compression=compression, size_limit_bytes=1 << 30)
    for _ in range(count):
        made.append(TIME_MS, None, value)
    return bytes(made.close())


@lru_cache(maxsize=8)
def tiny_records(codec: Compression, count: int = TINY_RECORDS) -> bytes:
    made = BatchBuilder(compression=codec, size_limit_bytes=1 << 30)
    for _ in range(count):
        made.append(TIME_MS, None, None)
    return bytes(made.close())


def with_headers(count: int) -> bytes:
    made = BatchBuilder(size_limit_bytes=1 << 30)
    made.append(TIME_MS, None, None, [(f"h{number}", b"") for number in range(count)])
    return bytes(made.close())
