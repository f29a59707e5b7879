"""keyFormat and valueFormat around a batch: which bytes are asked for, what becomes of bad records."""

import logging

import pyarrow as pa
import pytest

from ottla.schemas.arrow.decoded import decode_text
from ottla.spark.formats.formats import BadRecord, RowFormats, column_field
from ottla.spark.option_table import InvalidOption
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.schema import arrow_schema


def options(**more):
    return SourceOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **more}, streaming=False)


def raw(formats, values, first_offset=10):
    columns = {
        "key": pa.array([None] * len(values), pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array(["t"] * len(values)),
        "partition": pa.array([3] * len(values), pa.int32()),
        "offset": pa.array(range(first_offset, first_offset + len(values)), pa.int64()),
        "timestamp": pa.array([0] * len(values), pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0] * len(values), pa.int32()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in formats.raw_schema.names], schema=formats.raw_schema)


def test_binary_is_handed_through_untouched():
    schema = arrow_schema(options())
    formats = RowFormats(options(), schema)
    assert formats.raw_schema == schema
    batch = raw(formats, [b"a"])
    assert formats.decoded(batch) is batch


def test_text_keeps_the_schema_that_spark_checks():
    chosen = options(valueFormat="string", keyFormat="string")
    formats = RowFormats(chosen, arrow_schema(chosen))
    found = formats.decoded(raw(formats, [b"a", None, "ü".encode()]))
    assert found.schema.equals(arrow_schema(chosen), check_metadata=True)
    assert found.column("value").to_pylist() == ["a", None, "ü"]


def test_columns_that_only_errors_need_are_asked_for_and_not_given():
    chosen = options(valueFormat="string")
    formats = RowFormats(chosen, pa.schema([("value", pa.string())]))
    assert formats.raw_schema.names == ["value", "topic", "partition", "offset"]
    assert formats.decoded(raw(formats, [b"a"])).schema.names == ["value"]


def test_a_format_of_a_column_that_nobody_wants_is_not_decoded():
    chosen = options(valueFormat="json", valueSchema="a INT")
    formats = RowFormats(chosen, pa.schema([("offset", pa.int64())]))
    assert formats.raw_schema.names == ["offset"]


def test_a_bad_record_fails_with_its_place_and_its_beginning():
    chosen = options(valueFormat="json", valueSchema="a INT")
    formats = RowFormats(chosen, arrow_schema(chosen))
    with pytest.raises(BadRecord, match=r"the value of t-3 at offset 11 \(b'oops'\): it is no JSON"):
        formats.decoded(raw(formats, [b'{"a": 1}', b"oops"]))


def test_a_bad_record_becomes_null_when_that_is_asked_for_and_is_told_once(caplog):
    chosen = options(valueFormat="string", badRecords="null")
    formats = RowFormats(chosen, arrow_schema(chosen))
    with caplog.at_level(logging.WARNING):
        found = formats.decoded(raw(formats, [b"\xff", b"ok", b"\xfe"]))
    assert found.column("value").to_pylist() == [None, "ok", None]
    (told,) = [record.message for record in caplog.records]
    assert told.startswith("2 bad records became NULL; the value of t-3 at offset 10 (b'\\xff'): it is not UTF-8")


def test_text_is_not_copied_when_all_of_it_is_sound():
    column = pa.array([b"a", b"b"], pa.binary())
    found = decode_text(column)
    assert found.column.buffers()[2].address == column.buffers()[2].address


def test_json_without_a_schema_is_refused_in_words():
    with pytest.raises(InvalidOption, match="valueFormat=json needs valueSchema"):
        column_field(options(valueFormat="json"), "value")


def test_json_of_records_that_name_a_schema_is_read_with_a_registry():
    url = {"schemaRegistryUrl": "http://127.0.0.1:1"}
    chosen = options(valueFormat="json", valueSchema="a INT", **url)
    formats = RowFormats(chosen, arrow_schema(chosen))
    values = [b'\0\0\0\0\7{"a":1}', b'{"a":2}', None]
    assert formats.decoded(raw(formats, values)).column("value").to_pylist() == [{"a": 1}, {"a": 2}, None]
    plain = options(valueFormat="json", valueSchema="a INT")
    formats = RowFormats(plain, arrow_schema(plain))
    with pytest.raises(BadRecord):
        formats.decoded(raw(formats, values))
