"""Avro as columns: types, writers' and readers' schemas, bad records."""

import datetime
import decimal
import io
import json
import uuid

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType
from tests.unit.spark.formats.fake_registry import Registry

from ottla.client.schema_registry.registry import RegistryFailed
from ottla.client.schema_registry.writers import WriterSchemas
from ottla.schemas.arrow.avro_rows import AvroRows
from ottla.schemas.arrow.avro_types import UnreadableAvroSchema
from ottla.schemas.model import Reference, SchemaText
from ottla.spark.formats import registered
from ottla.spark.formats.formats import RowFormats
from ottla.spark.formats.planned import avro_schema, avro_type
from ottla.spark.option_table import InvalidOption
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.schema import as_arrow, chosen_columns, row_schema

V1 = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "long"}]}
V2 = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "id", "type": "long"}, {"name": "page", "type": "string", "default": "none"}],
}


def options(**more):
    base = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "valueFormat": "avro"}
    return SourceOptions.parse({**base, **more}, streaming=False)


@pytest.fixture
def registry(monkeypatch):
    schemas = {
        1: SchemaText("AVRO", json.dumps(V1)),
        2: SchemaText("AVRO", json.dumps(V2)),
        3: SchemaText("JSON", "{}"),
    }
    made = Registry(schemas, {"t-value": 2})
    monkeypatch.setattr(registered, "registry_at", lambda url: made)
    return made


def named(registry):
    return WriterSchemas(registry, "AVRO").named


def arrow_type(schema):
    return as_arrow(StructType([StructField("value", avro_type(json.dumps(schema)))])).field(0).type


def written(schema, value, number=None):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    frame = b"" if number is None else b"\0" + number.to_bytes(4, "big")
    return frame + stream.getvalue()


def decode(rows, *contents):
    found = rows.decode(pa.array(contents, pa.binary()))
    found.column.validate(full=True)
    return found.column.to_pylist(), found.problems


# -- types ------------------------------------------------------------------------------------------------------------

EVERYTHING = {
    "type": "record",
    "name": "All",
    "namespace": "shop",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": ["null", "int"]},
        {"name": "ratio", "type": "float"},
        {"name": "raw", "type": "bytes"},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "other", "type": "Color"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]}},
        {"name": "wide", "type": ["int", "long"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "who", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
    ],
}
MOMENT = datetime.datetime(2026, 11, 15, 12, tzinfo=datetime.UTC)
WHO = uuid.UUID(int=7)
VALUE = {
    "flag": True,
    "small": None,
    "ratio": 0.5,
    "raw": b"r",
    "hash": b"ab",
    "color": "RED",
    "other": "BLUE",
    "tags": ["a"],
    "counts": {"x": 1},
    "inner": {"x": 1.5},
    "wide": 2**40,
    "day": MOMENT.date(),
    "at": MOMENT,
    "local": MOMENT.replace(tzinfo=None),
    "price": decimal.Decimal("12.34"),
    "who": WHO,
    "clock": datetime.time(0, 0, 1),
}


def test_every_type_has_its_column():
    kind = arrow_type(EVERYTHING)
    (found,), problems = decode(AvroRows(EVERYTHING, kind, None), written(EVERYTHING, VALUE))
    assert problems == {}
    assert found == {**VALUE, "counts": [("x", 1)], "who": str(WHO), "clock": 1000}
    assert avro_type(json.dumps(EVERYTHING)).simpleString() == (
        "struct<flag:boolean,small:int,ratio:float,raw:binary,hash:binary,color:string,other:string,"
        "tags:array<string>,counts:map<string,bigint>,inner:struct<x:double>,wide:bigint,day:date,at:timestamp,"
        "local:timestamp_ntz,price:decimal(6,2),who:string,clock:int>"
    )


def test_a_schema_need_not_be_a_record():
    assert avro_type('"string"').simpleString() == "string"
    assert decode(AvroRows("string", pa.string(), None), written("string", "hi"), None) == (["hi", None], {})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("no json", "no JSON"),
        ('["int", "string"]', "several types"),
        ('"nowhere.Known"', "not defined"),
        ('{"name": "x"}', "no Avro schema"),
        ('{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}', "contains itself"),
        ('{"type": "record", "name": "R"}', "no fields"),
    ],
)
def test_schemas_without_a_type_in_spark_are_refused(schema, words):
    with pytest.raises(UnreadableAvroSchema, match=words):
        avro_type(schema)


# -- which schema -----------------------------------------------------------------------------------------------------


def test_a_schema_is_inline_or_in_a_file(tmp_path):
    assert json.loads(avro_schema(options(valueSchema=json.dumps(V1)), "value")) == V1
    path = tmp_path / "click.avsc"
    path.write_text(json.dumps(V2))
    assert (
        row_schema(options(valueSchema=str(path)))["value"].dataType.simpleString() == "struct<id:bigint,page:string>"
    )


def test_without_a_schema_it_is_the_newest_of_the_topic_at_planning_time(registry):
    chosen = options(schemaRegistryUrl="http://r")
    planned = StructType.fromJson(json.loads(row_schema(chosen).json()))  # as it goes through the JVM
    registry.subjects["t-value"] = 1
    columns = chosen_columns(chosen, planned)
    rows = RowFormats(chosen, columns)
    assert columns.field("value").type == arrow_type(V2)
    assert registry.asked == []
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([written(V1, {"id": 1}, 1)], pa.binary()) if field.name == "value" else pa.nulls(1, field.type)
            for field in rows.raw_schema
        ],
        schema=rows.raw_schema,
    )
    assert rows.decoded(batch).column("value").to_pylist() == [{"id": 1, "page": "none"}]


def test_what_the_newest_schema_refers_to_is_written_into_it(registry):
    order = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "by", "type": "people.Click"}, {"name": "then", "type": ["null", "people.Click"]}],
    }
    references = (Reference("people.Click", "click", 3),)
    registry.all[4] = SchemaText("AVRO", json.dumps(order), references)
    registry.all[5] = SchemaText("AVRO", json.dumps({**V1, "namespace": "people"}))
    registry.subjects |= {"t-value": 4, "click": 5}
    found = avro_schema(options(schemaRegistryUrl="http://r"), "value")
    assert avro_type(found).simpleString() == "struct<by:struct<id:bigint>,then:struct<id:bigint>>"
    rows = AvroRows(json.loads(found), arrow_type(json.loads(found)), named(registry))
    assert decode(rows, b"\0\0\0\0\4\2\2\4") == ([{"by": {"id": 1}, "then": {"id": 2}}], {})


def test_a_bare_name_is_a_schema(registry):
    """Some registries leave out the quotes of "string"."""
    registry.all[4] = SchemaText("AVRO", "string")
    registry.subjects["t-value"] = 4
    assert avro_schema(options(schemaRegistryUrl="http://r"), "value") == '"string"'


def test_options_that_do_not_name_a_schema_are_refused(registry, tmp_path):
    with pytest.raises(InvalidOption, match="valueFormat=avro needs valueSchema"):
        avro_schema(options(), "value")
    with pytest.raises(InvalidOption, match="neither JSON nor a file"):
        avro_schema(options(valueSchema=str(tmp_path / "nothing.avsc")), "value")
    registry.subjects["u-value"] = 1
    with pytest.raises(InvalidOption, match="different schemas"):
        avro_schema(options(subscribe="t,u", schemaRegistryUrl="http://r"), "value")
    registry.subjects["t-value"] = 3
    with pytest.raises(InvalidOption, match="valueFormat=avro, and the newest schema of t-value is JSON"):
        avro_schema(options(schemaRegistryUrl="http://r"), "value")
    pattern = {"kafka.bootstrap.servers": "h:1", "subscribePattern": "t.*", "valueFormat": "avro"}
    with pytest.raises(InvalidOption, match="subscribePattern"):
        avro_schema(SourceOptions.parse({**pattern, "schemaRegistryUrl": "http://r"}, streaming=False), "value")


# -- records ----------------------------------------------------------------------------------------------------------


def test_records_of_old_and_new_writers_are_read_into_one_schema(registry):
    rows = AvroRows(V2, arrow_type(V2), named(registry))
    found, problems = decode(rows, written(V1, {"id": 1}, 1), written(V2, {"id": 2, "page": "p"}, 2), None)
    assert found == [{"id": 1, "page": "none"}, {"id": 2, "page": "p"}, None]
    assert problems == {}
    decode(rows, written(V1, {"id": 1}, 1))
    assert registry.asked == [1, 2]


def test_bad_records_are_told_apart(registry):
    rows = AvroRows(V2, arrow_type(V2), named(registry))
    good = written(V1, {"id": 1}, 1)
    found, problems = decode(
        rows,
        good,
        good + b"x",
        b"",
        b"{}json",
        written(V1, {"id": 1}, 9),
        b"\0\0\0\0\2\4\x7f",
        written(V1, {"id": 1}, 3),
        good,
    )
    assert [row is None for row in found] == [False, True, True, True, True, True, True, False]
    assert [problems[row].split(" (")[0] for row in (1, 2, 3, 4, 5, 6)] == [
        "1 bytes are left after the record",
        "it has 0 bytes, fewer than the 5 that name its schema",
        "it begins with byte 123, not with 0 and the id of a schema",
        "it names a schema that is not there: schema 9",
        "it does not decode",
        "it names schema 3, which is JSON",
    ]


def test_a_number_that_nobody_knows_is_asked_for_once(registry):
    rows = AvroRows(V2, arrow_type(V2), named(registry))
    _, problems = decode(rows, *[b"\0\0\0\0\x63"] * 5)
    assert len(problems) == 5
    assert registry.asked == [99]


def test_a_registry_that_fails_is_no_bad_record():
    class Broken:
        def schema(self, schema_id, form=""):
            raise RegistryFailed("it is down")

    with pytest.raises(RegistryFailed, match="it is down"):
        decode(AvroRows(V2, arrow_type(V2), named(Broken())), b"\0\0\0\0\1x")
