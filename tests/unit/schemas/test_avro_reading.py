"""Avro records for somebody who looks at them: what fastavro wrote is read, and bytes that claim much cost little."""

import datetime
import io
import json
import random
import time
import uuid
from decimal import Decimal

import pytest

pytest.importorskip("fastavro")
from fastavro import parse_schema, schemaless_writer

from ottla.schemas.avro.format import AvroFormat
from ottla.schemas.avro.reading import read_avro_record, shown
from ottla.schemas.avro.record_bytes import NESTING_MAX, UnreadableRecord

EVERYTHING = {
    "type": "record", "name": "n.All", "fields": [
        {"name": "nothing", "type": "null"}, {"name": "flag", "type": "boolean"}, {"name": "i", "type": "int"},
        {"name": "l", "type": "long"}, {"name": "f", "type": "float"}, {"name": "d", "type": "double"},
        {"name": "b", "type": "bytes"}, {"name": "s", "type": "string"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 3}},
        {"name": "many", "type": {"type": "array", "items": ["null", "long", "E"]}},
        {"name": "named", "type": {"type": "map", "values": "int"}},
        {"name": "again", "type": ["null", "All"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
    ]}  # fmt: skip
VALUE = {
    "nothing": None, "flag": True, "i": -1, "l": 1 << 62, "f": 0.5, "d": 1.5, "b": b"\0\xff", "s": "č", "e": "B",
    "x": b"abc",
    "many": [None, 5, "A"], "named": {"a": 1}, "again": None, "day": datetime.date(2026, 1, 2),
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "local": datetime.datetime(2026, 1, 2, 3, 4, 5, 6), "clock": datetime.time(1, 2, 3), "price": Decimal("-12.50"),
    "id": uuid.UUID(int=7),
}  # fmt: skip
READ = VALUE | {
    "day": "2026-01-02", "at": "2026-01-02T03:04:05+00:00", "local": "2026-01-02T03:04:05.000006", "clock": "01:02:03",
    "price": "-12.50", "id": str(uuid.UUID(int=7)),
}  # fmt: skip


def kind_of(schema):
    return AvroFormat().parse(json.dumps(schema), {}).type


def written(schema, value):
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(schema), value)
    return stream.getvalue()


def test_every_type_is_read():
    inside = {**VALUE, "again": VALUE}
    assert read_avro_record(kind_of(EVERYTHING), written(EVERYTHING, inside)) == {**READ, "again": READ}


def test_dates_beyond_the_calendar_stay_numbers():
    schema = {"type": "int", "logicalType": "date"}
    assert read_avro_record(kind_of(schema), b"\xfe\xff\xff\xff\x0f") == (1 << 31) - 1


NULLS = {"type": "array", "items": "null"}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


@pytest.mark.parametrize(
    ("schema", "content", "words"),
    [
        (NULLS, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\0", "more than 1110 values in 11 bytes"),
        (NULLS, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0", "more than 1110 values in 11 bytes"),
        (LIST, b"\x02" * (NESTING_MAX + 5) + b"\0", f"more than {NESTING_MAX} deep"),
        ("string", b"\xfe\xff\xff\xff\x0fabc", "wants 2147483647 bytes more"),
        ("string", b"\x01abc", "wants -1 bytes"),
        ("string", b"\x02\xff", "not UTF-8"),
        ("bytes", b"\x02aa", "1 bytes are left"),
        ("long", b"\xff" * 11, "too long"),
        ("double", b"abc", "wants 8 bytes"),
        (["null", "int"], b"\x06", "chooses branch 3"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "chooses symbol 1"),
        ("int", b"", "wants 1 bytes more, and has 0"),
    ],
)
def test_bytes_that_are_no_record_are_refused_in_words(schema, content, words):
    with pytest.raises(UnreadableRecord, match=words):
        read_avro_record(kind_of(schema), content)


def test_random_bytes_do_no_harm():
    kind, making = kind_of(EVERYTHING), random.Random(1)
    sound = written(EVERYTHING, VALUE)
    for _ in range(300):
        content = bytearray(sound)
        for _ in range(making.randint(1, 4)):
            content[making.randrange(len(content))] = making.randrange(256)
        try:
            read_avro_record(kind, bytes(content))
        except UnreadableRecord:
            pass


@pytest.mark.parametrize("precision", [9, 0, 10**9])
def test_a_decimal_that_is_longer_than_its_precision_stays_bytes(precision):
    said = {"precision": precision} if precision else {}
    kind = AvroFormat().parse(json.dumps({"type": "bytes", "logicalType": "decimal", "scale": 2, **said}), {}).type
    began = time.thread_time()
    assert shown(kind, b"\x7f" * 262_144) == b"\x7f" * 262_144
    assert time.thread_time() - began < 1
    assert shown(kind, (12_345).to_bytes(4, "big")) == "123.45"
    assert shown(kind, (-(10**9) + 1).to_bytes(5, "big", signed=True)) == "-9999999.99"
