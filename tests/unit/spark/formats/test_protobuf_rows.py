"""Protobuf as columns: types, messages of older and newer writers, bad records; and the same in the sink."""

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest

pytest.importorskip("google.protobuf")
pytest.importorskip("jsonschema")
pytest.importorskip("fastavro")
from pyspark.sql.types import StructField, StructType
from tests.unit.spark.formats.fake_registry import Registry

from ottla.client.schema_registry.registry import SchemaNotFound
from ottla.client.schema_registry.writers import WriterSchemas
from ottla.schemas.arrow.json_types import UnreadableJsonSchema, struct_of
from ottla.schemas.arrow.protobuf_rows import ProtobufRows
from ottla.schemas.arrow.protobuf_types import UnreadableProtobufSchema, arrow_type
from ottla.schemas.model import SchemaText
from ottla.schemas.protobuf.messages import class_of, linked_file, message_named
from ottla.schemas.protobuf.values import fill, reader_of
from ottla.spark.formats import registered
from ottla.spark.formats.formats import RowFormats, as_planned
from ottla.spark.formats.planned import protobuf_message, protobuf_schema, protobuf_type
from ottla.spark.option_table import InvalidOption
from ottla.spark.running.arrow_types import from_arrow
from ottla.spark.sink import formats as sink_formats
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.rows import UnfitColumns, chosen_columns
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.schema import as_arrow, row_schema
from ottla.spark.source.schema import chosen_columns as chosen_source_columns

V1 = 'syntax = "proto3"; package shop; message Other { } message Click { int64 id = 1; }'
V2 = 'syntax = "proto3"; package shop; message Other { } message Click { int64 id = 1; optional string page = 2; }'
EVERYTHING = """syntax = "proto3"; package all;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Colour { RED = 0; BLUE = 1; }
message Inner { string city = 1; }
message M {
  bool flag = 1; string word = 2; bytes raw = 3; double d = 4; float f = 5; sint32 small = 6; uint32 u32 = 7;
  fixed64 u64 = 8; Colour colour = 9; Inner inner = 10; repeated Inner many = 11; map<string, Inner> places = 12;
  repeated int32 numbers = 13; google.protobuf.Timestamp at = 14; google.protobuf.Duration took = 15;
  google.protobuf.StringValue note = 16; optional int32 maybe = 17; oneof choice { string a = 18; int32 b = 19; }
  map<int32, bool> bits = 20; repeated Colour colours = 21;
}"""
WHOLE = {
    "flag": True, "word": "w", "raw": b"\0\xff", "d": 1.5, "f": 0.5, "small": -3, "u32": 4_000_000_000,
    "u64": Decimal(18_000_000_000_000_000_000), "colour": "BLUE", "inner": {"city": "Rom"},
    "many": [{"city": "Wien"}, {"city": ""}], "places": [("home", {"city": "Bern"})], "numbers": [1, 2],
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC), "took": datetime.timedelta(seconds=-90),
    "note": "n", "maybe": 0, "a": "x", "b": None, "bits": [(1, True)], "colours": ["BLUE", "RED"],
}  # fmt: skip


def message(text, name=None):
    return message_named(linked_file(text, {}), name)


def options(**more):
    base = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "valueFormat": "protobuf"}
    return SourceOptions.parse({**base, **more}, streaming=False)


@pytest.fixture
def registry(monkeypatch):
    schemas = {1: SchemaText("PROTOBUF", V1), 2: SchemaText("PROTOBUF", V2), 3: SchemaText("AVRO", '"string"')}
    made = Registry(schemas, {"t-value": 2})
    monkeypatch.setattr(registered, "registry_at", lambda url: made)
    return made


def rows_of(planned, registry=None):
    kind = as_arrow(StructType([StructField("value", protobuf_type(planned))])).field(0).type
    schema_of = None if registry is None else WriterSchemas(registry, "PROTOBUF").named
    return ProtobufRows(protobuf_message(planned), kind, schema_of)


def framed(text, number, indexes, **values):
    made = class_of(message(text, "Click"))(**values).SerializeToString()
    return b"\0" + number.to_bytes(4, "big") + indexes + made


# -- types and values --------------------------------------------------------------------------------------------------


def test_every_type_has_its_column_and_comes_back():
    described = message(EVERYTHING, "M")
    kind = from_arrow(arrow_type(described))
    assert kind["u64"].dataType.simpleString() == "decimal(20,0)"
    assert kind["places"].dataType.simpleString() == "map<string,struct<city:string>>"
    written = fill(class_of(described)(), WHOLE).SerializeToString()
    assert reader_of(described)(class_of(described).FromString(written)) == WHOLE
    arrow = as_arrow(StructType([StructField("value", kind)])).field(0).type
    assert pa.array([WHOLE], type=arrow).to_pylist()[0]["inner"] == {"city": "Rom"}


def test_what_was_not_written_is_null_where_it_may_be_missing():
    described = message(EVERYTHING, "M")
    found = reader_of(described)(class_of(described)())
    assert {name for name, value in found.items() if value is None} == {
        "inner", "at", "took", "note", "maybe", "a", "b",
    }  # fmt: skip
    assert (found["flag"], found["colour"], found["many"]) == (False, "RED", [])


def test_a_number_without_a_name_is_kept():
    described = message(EVERYTHING, "M")
    assert reader_of(described)(class_of(described)(colour=7))["colour"] == "7"
    assert fill(class_of(described)(), {"colour": "7"}).colour == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('syntax = "proto3"; message M { M inner = 1; }', "M contains itself"),
        (
            'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Value v = 1; }',
            "itself",
        ),
    ],
)
def test_a_message_inside_itself_is_refused(text, words):
    with pytest.raises(UnreadableProtobufSchema, match=words):
        arrow_type(message(text))


@pytest.mark.parametrize(
    ("values", "words"), [({"nothing": 1}, "no field 'nothing'"), ({"colour": "GREEN"}, "no value 'GREEN'")]
)
def test_what_has_no_place_in_a_message_is_an_error(values, words):
    with pytest.raises(ValueError, match=words):
        fill(class_of(message(EVERYTHING, "M"))(), values)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_records_of_old_and_new_writers_are_read_with_one_message(registry):
    planned = protobuf_schema(options(schemaRegistryUrl="http://r", valueMessage="Click"), "value")
    content = [framed(V1, 1, b"\x02\x02", id=1), framed(V2, 2, b"\x02\x02", id=2, page="p"), None]
    found = rows_of(planned, registry).decode(pa.array(content, pa.binary()))
    assert found.column.to_pylist() == [{"id": 1, "page": None}, {"id": 2, "page": "p"}, None]
    assert found.problems == {}


def test_bad_records_are_told_apart(registry):
    planned = protobuf_schema(options(schemaRegistryUrl="http://r", valueMessage="shop.Click"), "value")
    bad = [
        framed(V1, 1, b"\0", id=1),
        framed(V1, 9, b"\x02\x02", id=1),
        framed(V1, 9, b"\x02\x02", id=1),
        framed(V1, 3, b"\x02\x02", id=1),
        framed(V1, 1, b"\x02\x09", id=1),
        framed(V1, 1, b"\x02\x02") + b"\x0a\xff",
        b"plain",
    ]
    found = rows_of(planned, registry).decode(pa.array(bad, pa.binary()))
    words = [
        "a message shop.Other",
        "not there",
        "not there",
        "is AVRO",
        "negative index",
        "does not decode",
        "byte 112",
    ]
    assert [word in found.problems[row] for row, word in enumerate(words)] == [True] * len(words), found.problems
    assert registry.asked.count(9) == 1


@pytest.mark.parametrize("kind", ["protobuf", "json"])
def test_a_query_that_was_planned_does_not_ask_the_registry_again(registry, kind):
    """As Spark does: the schema is made, handed back, and handed to the tasks."""
    registry.all[4] = SchemaText("JSON", '{"type": "object", "properties": {"id": {"type": "integer"}}}')
    registry.subjects["t-value"] = 2 if kind == "protobuf" else 4
    more = {"valueMessage": "Click"} if kind == "protobuf" else {}
    chosen = options(schemaRegistryUrl="http://r", valueFormat=kind, **more)
    planned = row_schema(chosen)
    registry.subjects["t-value"] = 3
    assert row_schema(as_planned(chosen, planned)).simpleString() == planned.simpleString()
    formats = RowFormats(chosen, chosen_source_columns(chosen, planned))
    content = framed(V1, 1, b"\x02\x02", id=7) if kind == "protobuf" else b'\0\0\0\0\4{"id": 7}'
    values = {"value": content, "topic": "t", "partition": 0, "offset": 0}
    rows = [[values.get(name)] for name in formats.raw_schema.names]
    arrays = [pa.array(row, each.type) for row, each in zip(rows, formats.raw_schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=formats.raw_schema)
    assert formats.decoded(batch).column("value").to_pylist()[0]["id"] == 7


def test_bare_messages_are_read_with_a_schema_of_the_user(tmp_path):
    path = tmp_path / "click.proto"
    path.write_text(V2)
    for text in (V2, str(path)):
        planned = protobuf_schema(options(valueSchema=text, valueMessage="Click"), "value")
        content = class_of(message(V2, "Click"))(id=5).SerializeToString()
        assert rows_of(planned).decode(pa.array([content], pa.binary())).column.to_pylist() == [{"id": 5, "page": None}]


def test_options_that_do_not_name_a_message_are_refused(registry):
    for more, words in (
        ({}, "needs valueSchema"),
        ({"valueSchema": "/no/such/file"}, "neither"),
        ({"schemaRegistryUrl": "http://r", "subscribe": "t,u"}, "subject u-value"),
    ):
        with pytest.raises((InvalidOption, SchemaNotFound), match=words):
            protobuf_schema(options(**more), "value")
    with pytest.raises(UnreadableProtobufSchema, match="no message 'Nobody'; it has Other, Click"):
        protobuf_schema(options(valueSchema=V1, valueMessage="Nobody"), "value")


# -- columns of JSON schemas -------------------------------------------------------------------------------------------

SHOP = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "home": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/place"}]},
        "work": {"$ref": "place.json"},
        "by_name": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
    "definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def test_a_json_schema_names_columns():
    place = json.dumps(SHOP["definitions"]["place"])
    found = from_arrow(struct_of(json.dumps(SHOP), {"place.json": place}))
    assert found.simpleString() == (
        "struct<id:bigint,price:double,tags:array<string>,home:struct<city:string>,work:struct<city:string>,"
        "by_name:map<string,boolean>>"
    )


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "rows are objects"),
        ({"type": "object"}, "no properties"),
        ({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}, "#/a has several types"),
        ({"type": "object", "properties": {"a": {}}}, "#/a has no type"),
        ({"type": "object", "properties": {"a": True}}, "anything may stand at #/a"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "contains itself"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, "not understood"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "no one type"),
    ],
)
def test_a_json_schema_without_a_type_in_spark_is_refused_by_its_path(schema, words):
    with pytest.raises(UnreadableJsonSchema, match=words):
        struct_of(json.dumps(schema), {})


# -- the sink ----------------------------------------------------------------------------------------------------------


def sink(**more):
    base = {"kafka.bootstrap.servers": "h:1", "schemaRegistryUrl": "http://r"}
    return SinkOptions.parse({**base, **more}, streaming=False)


@pytest.fixture
def sinks(monkeypatch):
    """Serializers of the sink that ask this registry."""
    avro = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"},
            {"name": "m", "type": {"type": "map", "values": "int"}}]}  # fmt: skip
    closed = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}
    schemas = {
        1: SchemaText("PROTOBUF", V2),
        2: SchemaText("AVRO", json.dumps(avro)),
        3: SchemaText("JSON", json.dumps(closed)),
    }
    made = Registry(schemas, {"p-value": 1, "a-value": 2, "j-value": 3})
    monkeypatch.setattr("ottla.client.schema_registry.serde.as_registry", lambda url: made)
    sink_formats.serializer_of.cache_clear()
    yield made
    sink_formats.serializer_of.cache_clear()


def test_rows_are_written_with_the_newest_schema_of_their_topic(sinks):
    values = [{"id": 1, "page": "x"}, None]
    batch = pa.RecordBatch.from_pydict({"value": values})
    (one, none) = (
        sink_formats.encoded(batch, sink(topic="p", valueFormat="protobuf", valueMessage="Click")).column(0).to_pylist()
    )
    assert (one, none) == (framed(V2, 1, b"\x02\x02", id=1, page="x"), None)
    kind = pa.struct([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int32()))])
    rows = pa.RecordBatch.from_arrays(
        [pa.array([{"id": 1, "m": [("a", 2)]}], kind), pa.array(["a"])], names=["value", "topic"]
    )
    (one,) = sink_formats.encoded(rows, sink(valueFormat="avro")).column(0).to_pylist()
    assert one == b"\0\0\0\0\2" + b"\x02\x02\x02a\x04\0"
    (one,) = (
        sink_formats.encoded(pa.RecordBatch.from_pydict({"value": [{"id": 1}]}), sink(topic="j", valueFormat="json"))
        .column(0)
        .to_pylist()
    )
    assert one == b'\0\0\0\0\3{"id":1}'


def test_a_row_that_does_not_fit_fails_with_the_reason(sinks):
    batch = pa.RecordBatch.from_pydict({"value": [{"other": 1}]})
    for chosen, topic, words in (
        ("protobuf", "p", "no field 'other'"),
        ("avro", "a", "a-value"),
        ("json", "j", "other"),
    ):
        with pytest.raises(Exception, match=words):
            sink_formats.encoded(batch, sink(topic=topic, valueFormat=chosen, valueMessage="Click"))


def test_columns_and_options_of_the_sink_are_checked_before_the_first_record():
    schema = StructType([StructField("value", from_arrow(arrow_type(message(V1, "Click"))))])
    assert chosen_columns(schema, sink(topic="t", valueFormat="avro")) == ("value",)
    with pytest.raises(UnfitColumns, match="string or binary"):
        chosen_columns(schema, sink(topic="t"))
    with pytest.raises(UnfitColumns, match="is a struct"):
        chosen_columns(
            StructType([StructField("value", schema["value"].dataType["id"].dataType)]),
            sink(topic="t", valueFormat="protobuf"),
        )
    with pytest.raises(InvalidOption, match="needs schemaRegistryUrl"):
        SinkOptions.parse({"kafka.bootstrap.servers": "h:1", "valueFormat": "avro"}, streaming=False)
