"""Records become rows by the modes of their topic."""

import io
import json

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.schema_registry.registry import SchemaNotFound
from ottla.errors import InvalidSetting
from ottla.schemas.model import AVRO, PROTOBUF, SchemaText
from ottla.schemas.model import JSON as JSON_KIND
from ottla.table_settings import TableSettings
from ottla.tables.columns import BASE_SCHEMA, READ_SCHEMA
from ottla.tables.decoding import RecordDecoder
from ottla.tables.finding import column_of

USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}
MORE = {"type": "record", "name": "User", "fields": [{"name": "at", "type": "string"}, *USER["fields"]]}
OTHER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "string"}]}


class Registry:
    """Schemas by hand."""

    def __init__(self, *schemas):
        self.schemas = dict(enumerate(schemas, 1))

    def schema(self, schema_id):
        if schema_id not in self.schemas:
            raise SchemaNotFound("no such schema")
        return self.schemas[schema_id]

    def latest(self, subject):
        assert subject == "t-value"
        if not self.schemas:
            raise SchemaNotFound("no such subject")
        return len(self.schemas), self.schemas[len(self.schemas)]

    def imports(self, schema):
        return {}


def avro(schema):
    return SchemaText(AVRO, json.dumps(schema))


def written(schema_id, schema, value):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def batch(*values, keys=None):
    count = len(values)
    columns = [
        pa.array([0] * count, pa.int32()),
        pa.array(range(10, 10 + count), pa.int64()),
        pa.array(range(count), READ_SCHEMA.field("timestamp").type),
        pa.array([[]] * count, READ_SCHEMA.field("headers").type),
        pa.array(keys or [None] * count, pa.binary()),
        pa.array(values, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=READ_SCHEMA)


def decoder(mode, registry=None, known=None, **more):
    made = RecordDecoder("t", TableSettings({"ottla.table.mode": mode, **more}), registry)
    made.begin(known)
    return made


def values(rows):
    """The columns of values, as rows."""
    return [
        {name: value for name, value in row.items() if name not in (*BASE_SCHEMA.names, "key")}
        for row in rows.batch.to_pylist()
    ]


def test_raw_and_string_have_one_column():
    rows = decoder("raw").decode(batch(b"a", None, keys=[b"k", None]))
    assert rows.batch.schema.names == ["partition", "offset", "timestamp", "headers", "key", "value"]
    assert (values(rows), rows.bad) == ([{"value": b"a"}, {"value": None}], ())
    rows = decoder("string").decode(batch(b"a", b"\xff", b"c"))
    assert values(rows) == [{"value": "a"}, {"value": "c"}]
    assert [(bad.row, bad.offset) for bad in rows.bad] == [(1, 11)]
    assert "it is not UTF-8" in rows.bad[0].reason


def test_keys_have_a_mode_of_their_own():
    rows = decoder("raw", **{"ottla.table.key.mode": "json"}).decode(batch(b"a", b"b", keys=[b'{"id": 5}', b"{"]))
    assert rows.batch.column("key").to_pylist() == [{"id": 5}]
    assert rows.bad[0].reason.startswith("its key: it is no JSON")


def test_json_has_the_fields_that_its_records_have():
    made = decoder("json")
    rows = made.decode(batch(b'{"id": 1, "at": 5}', b'{"id": 2, "at": 5.5, "timestamp": "x"}', None, b"{"))
    assert values(rows) == [
        {"id": 1, "at": 5.0, "value_timestamp": None},
        {"id": 2, "at": 5.5, "value_timestamp": "x"},
        {"id": None, "at": None, "value_timestamp": None},
    ]
    rows = made.decode(batch(b'{"id": 3, "more": {"x": [1, 2]}, "none": null}', b'{"id": 4, "at": 7}', b'{"id": "5"}'))
    assert [row["more"] for row in values(rows)] == [{"x": [1, 2]}, None]
    assert [bad.reason for bad in rows.bad] == ['id: "5" is no whole number of 64 bits']


def test_json_goes_on_with_the_columns_of_the_table():
    known = pa.schema([*BASE_SCHEMA, ("key", pa.binary()), ("id", pa.float64()), ("value_key", pa.string())])
    rows = decoder("json", known=known).decode(batch(b'{"id": 1, "key": "k", "new": true}', b'{"id": 1.5}'))
    assert values(rows) == [{"id": 1.0, "value_key": "k", "new": True}, {"id": 1.5, "value_key": None, "new": None}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"a b": 1}', "'a b' cannot be the name of a column"),
        (b'{"": 1}', "cannot be the name of a column"),
        (b'{"Id": 1}', "differ only in case"),
        (b"[1]", "is [1] and no object"),
        (b'{"x": [1, "a"]}', "a field is int64 here and string there"),
        (b'{"x": ' + b"[" * 50 + b"1" + b"]" * 50 + b"}", "nested deeper than 32"),
    ],
)
def test_json_that_has_no_columns_is_a_bad_record_and_its_neighbours_are_rows(text, words):
    known = pa.schema([*BASE_SCHEMA, ("id", pa.int64())])
    rows = decoder("json", known=known).decode(batch(b'{"id": 1}', text, b'{"id": 2}'))
    assert values(rows) == [{"id": 1}, {"id": 2}]
    assert words in rows.bad[0].reason


def test_the_newest_schema_has_the_columns():
    registry = Registry(avro(USER))
    made = decoder("schema_latest", registry)
    assert values(made.decode(batch(written(1, USER, {"id": 7}), None))) == [{"id": 7}, {"id": None}]
    registry.schemas[2] = avro(MORE | {"fields": [{"name": "at", "type": "string", "default": "-"}, *USER["fields"]]})
    made.begin(None)
    rows = made.decode(batch(written(1, USER, {"id": 7}), written(2, MORE, {"id": 8, "at": "now"}), b"{}"))
    assert values(rows) == [{"at": "-", "id": 7}, {"at": "now", "id": 8}]
    assert len(rows.bad) == 1


def test_each_record_is_read_by_the_schema_that_it_names():
    registry = Registry(avro(USER), avro(MORE), avro(OTHER), SchemaText(JSON_KIND, '{"type": "object"}'))
    records = [
        written(1, USER, {"id": 1}),
        written(2, MORE, {"id": 2, "at": "now"}),
        None,
        written(3, OTHER, {"id": "3"}),
        b"\0\0\0\0\4{}",
        b"\0\0\0\0\x09",
        b"text",
        written(1, USER, {"id": 4}),
    ]
    rows = decoder("schema_id", registry).decode(batch(*records))
    expected = [{"id": 1, "at": None}, {"id": 2, "at": "now"}, {"id": None, "at": None}, {"id": 4, "at": None}]
    assert values(rows) == expected
    reasons = {bad.offset: bad.reason for bad in rows.bad}
    assert "schema 3, which does not fit: column id is int64 in the table and string" in reasons[13]
    assert "schema 4, which cannot be read" in reasons[14]
    assert "names a schema that is not there" in reasons[15]
    assert reasons[16] == "it does not begin with the id of a schema"


def test_protobuf_and_json_schemas_have_columns_too():
    proto = 'syntax = "proto3"; message Click { int64 id = 1; optional string page = 2; }'
    schema = '{"type": "object", "properties": {"id": {"type": "integer"}, "offset": {"type": "string"}}}'
    registry = Registry(SchemaText(PROTOBUF, proto), SchemaText(JSON_KIND, schema))
    rows = decoder("schema_id", registry).decode(batch(b"\0\0\0\0\1\0\x08\x05", b'\0\0\0\0\2{"id": 6, "offset": "x"}'))
    assert values(rows) == [{"id": 5, "page": None, "value_offset": None}, {"id": 6, "page": None, "value_offset": "x"}]


def test_schemas_want_a_registry_and_one_of_the_topic():
    with pytest.raises(InvalidSetting, match="--schema-registry"):
        decoder("schema_id")
    with pytest.raises(SchemaNotFound, match="no schema of t-value"):
        decoder("schema_latest", Registry())


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "key"]), inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c", "key", "value"]), JSON_VALUES, max_size=3)


@given(st.lists(st.lists(OBJECTS, max_size=4), max_size=3))
def test_every_field_of_json_is_in_its_row_or_the_record_is_bad(portions):
    """Nothing is lost in silence, whatever comes in which order."""
    made = decoder("json")
    for objects in portions:
        texts = [json.dumps(each).encode() for each in objects]
        rows = made.decode(batch(*texts))
        bad = {each.row for each in rows.bad}
        kept = [each for number, each in enumerate(objects) if number not in bad]
        assert rows.batch.num_rows == len(kept)
        for row, each in zip(rows.batch.to_pylist(), kept, strict=True):
            for name, value in each.items():
                assert same(row.get(column_of(name)), value)


def same(found, value):
    """Whether a row has what a record says; nulls in objects may be left out."""
    if isinstance(value, dict):
        return all(same((found or {}).get(name), inner) for name, inner in value.items())
    if isinstance(value, list):
        inside = found if found is not None else [None] * len(value)
        return not any(x is not None for x in flat(value)) if found is None else all(map(same, inside, value))
    return found == value


def flat(value):
    if isinstance(value, list):
        return [x for each in value for x in flat(each)]
    if isinstance(value, dict):
        return [x for each in value.values() for x in flat(each)]
    return [value]
