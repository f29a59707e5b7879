"""Records of Avro as columns: fastavro judges what they are, both twins agree, and no record harms another one."""

import datetime
import io
import itertools
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native import is_built
from ottla.schemas.arrow import avro_columns
from ottla.schemas.arrow.avro_columns import RECORD_VALUES_MAX
from ottla.schemas.arrow.avro_rows import AvroRows, _understood
from ottla.schemas.arrow.avro_steps import AvroPlan
from ottla.schemas.arrow.avro_types import UnreadableAvroSchema, arrow_type
from ottla.schemas.framing import UnframedRecord
from ottla.schemas.model import WholeSchema

LEAF = "ottla.schemas.arrow._avro_columns"
if is_built(LEAF):
    from ottla.schemas.arrow import _avro_columns as native
else:
    native = None
TWINS = [twin for twin in (avro_columns, native) if twin is not None]


def written(schema, value):
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def decode(writer, reader, *contents, unions_as_structs=False):
    """What each twin and the whole make of records of one writer, as values; None where one is bad."""
    column = pa.array(contents, pa.binary())
    kind = arrow_type(reader, unions_as_structs=unions_as_structs)
    plan = AvroPlan(_understood(writer), _understood(reader), kind)
    found = [twin.AvroColumns(plan).read(column) for twin in TWINS]
    for values in found:
        values.validate(full=True)
    rows = [values.to_pylist() for values in found]
    assert all(repr(values) == repr(rows[0]) for values in rows), rows  # NaN is not equal to itself
    framed = pa.array([None if content is None else b"\0\0\0\0\1" + content for content in contents], pa.binary())
    whole = AvroRows(reader, kind, lambda _: WholeSchema(json.dumps(writer), {})).decode(framed)
    assert repr(whole.column.to_pylist()) == repr(rows[0])
    assert sorted(whole.problems) == [
        row for row, value in enumerate(found[0]) if not value.is_valid and contents[row] is not None
    ]
    return rows[0]


# --- every pair of schemas that hypothesis makes, with fastavro as the judge ---

PROMOTED = {"int": ["int", "long", "float", "double"], "long": ["long", "double"], "float": ["float", "double"],
            "string": ["string", "bytes"], "bytes": ["bytes"]}  # fmt: skip
MOMENTS = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
LEAVES = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(codec="utf-8"), max_size=12),
    "bytes": st.binary(max_size=5),
    "date": st.dates(),
    "timestamp-millis": MOMENTS.map(lambda moment: moment.replace(tzinfo=datetime.UTC)),
    "local-timestamp-micros": MOMENTS,
    "decimal": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda digits: Decimal(digits).scaleb(-2)),
    "decimal-fixed": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda digits: Decimal(digits).scaleb(-2)),
    "enum": st.sampled_from(["A", "B"]),
    "fixed": st.binary(min_size=3, max_size=3),
}
ANNOTATED = {
    "date": {"type": "int", "logicalType": "date"},
    "timestamp-millis": {"type": "long", "logicalType": "timestamp-millis"},
    "local-timestamp-micros": {"type": "long", "logicalType": "local-timestamp-micros"},
    "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
}
DEFAULTS = [("int", 7), ("string", "none"), (["null", "string"], None), ({"type": "array", "items": "long"}, [1, 2])]


@st.composite
def pairs(draw, names, depth=0):
    """A writer's schema, a reader's that can read it, and a strategy of values."""
    choices = [*LEAVES, "null"] if depth == 3 else [*LEAVES, "null", "array", "map", "record", "record"]
    kind = draw(st.sampled_from(choices))
    if kind == "array" or kind == "map":
        writer, reader, values = draw(pairs(names, depth + 1))
        word = "items" if kind == "array" else "values"
        many = (
            st.lists(values, max_size=3)
            if kind == "array"
            else st.dictionaries(st.text(max_size=2), values, max_size=3)
        )
        return {"type": kind, word: writer}, {"type": kind, word: reader}, many
    if kind == "null":
        writer, reader, values = draw(pairs(names, 3))
        if isinstance(writer, list):
            return writer, reader, values
        order = draw(st.permutations(["null", writer]))
        return order, ["null", reader], st.none() | values
    if kind == "record":
        return draw(records(names, depth))
    if kind in ANNOTATED:
        return ANNOTATED[kind], ANNOTATED[kind], LEAVES[kind]
    if kind in ("enum", "fixed", "decimal-fixed"):
        more = {
            "enum": {"type": "enum", "symbols": ["A", "B"]},
            "fixed": {"type": "fixed", "size": 3},
            "decimal-fixed": {"type": "fixed", "size": 8, "logicalType": "decimal", "precision": 9, "scale": 2},
        }[kind]
        schema = {**more, "name": f"N{next(names)}"}
        return schema, schema, LEAVES[kind]
    return kind, draw(st.sampled_from(PROMOTED.get(kind, [kind]))), LEAVES[kind]


@st.composite
def records(draw, names, depth=0):
    inner = [draw(pairs(names, depth + 1)) for _ in range(draw(st.integers(1, 3)))]
    name = f"R{next(names)}"
    ours = [field(f"f{number}", reader) for number, (_, reader, _) in enumerate(inner)]
    kept = draw(st.lists(st.sampled_from(ours), unique_by=lambda one: one["name"], max_size=3))
    added = [field(f"new{number}", kind, default=default) for number, (kind, default) in enumerate(DEFAULTS)]
    kept += draw(st.lists(st.sampled_from(added), unique_by=lambda one: one["name"], max_size=2))
    values = st.fixed_dictionaries({f"f{number}": values for number, (_, _, values) in enumerate(inner)})
    writer = record(*(field(f"f{number}", writer) for number, (writer, _, _) in enumerate(inner)), name=name)
    return writer, record(*(kept or ours), name=name), values


def judged(writer, reader, content):
    return fastavro.schemaless_reader(io.BytesIO(content), fastavro.parse_schema(writer), fastavro.parse_schema(reader))


@settings(max_examples=120)
@given(st.data())
def test_columns_are_what_fastavro_reads(data):
    writer, reader, values = data.draw(records(itertools.count()))
    contents = [written(writer, value) for value in data.draw(st.lists(values, min_size=1, max_size=3))]
    expected = pa.array([judged(writer, reader, content) for content in contents], arrow_type(reader))
    assert repr(decode(writer, reader, *contents, None)) == repr([*expected.to_pylist(), None])


@settings(max_examples=120)
@given(st.data())
def test_the_twins_agree_about_damaged_records_and_the_neighbours_stay(data):
    writer, reader, values = data.draw(records(itertools.count()))
    good = written(writer, data.draw(values))
    damaged = bytearray(good or b"\0")
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged)[: data.draw(st.integers(0, len(damaged)))]
    first, _, _, last = decode(writer, reader, good, bytes(damaged), cut, good)
    assert repr(first) == repr(last)
    assert first is not None


# --- the rules one by one ---

CHAIN = record(field("next", ["null", "R"]), field("a", "int"))


@pytest.mark.parametrize(
    ("writer", "reader", "content", "expected"),
    [
        ("int", "int", b"\xff\xff\xff\xff\x0f", -(2**31)),
        ("int", "int", b"\x80\x80\x80\x80\x10", None),
        ("long", "long", b"\xff" * 9 + b"\x01", -(2**63)),
        ("long", "long", b"\xff" * 9 + b"\x02", None),
        ("long", "int", b"\x02", None),
        ("int", ["null", "long"], b"\x02", 1),
        ("int", ["int", "long"], b"\x02", 1),
        (["null", "int", "string"], ["null", "string"], b"\x04\x02a", "a"),
        (["null", "int", "string"], ["null", "string"], b"\x02\x02", None),
        ("string", "string", b"\x02\xff", None),
        ("bytes", "string", b"\x02\xff", None),
        ("boolean", "boolean", b"\x02", None),
        ({"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f", None),
        ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"},
         b"\x02", datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, datetime.UTC)),
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", b"\x02", 1),
        ("long", {"type": "long", "logicalType": "timestamp-micros"}, b"\xfe" + b"\xff" * 8 + b"\x01", None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
         {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, b"\x04\x03\xe7", Decimal("99.9")),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
         {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, b"\x04\x03\xe8", None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
         {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}, b"\x02\x01", None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, {"type": "bytes", "logicalType": "decimal",
         "precision": 38}, b"\x28" + b"\xff" * 19 + b"\x85", Decimal(-123)),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]},
         {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}, b"\x02", "A"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "enum", "name": "E", "symbols": ["A"]},
         b"\x02", None),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x00", [1, 2]),
        (record(field("old", "int")), record(field("new", "int", aliases=["old"])), b"\x02", {"new": 1}),
        (record(field("a", "int"), name="Old"), record(field("a", "int")) | {"aliases": ["Old"]}, b"\x02", {"a": 1}),
        (record(field("a", "int"), name="Other"), record(field("a", "int")), b"\x02", None),
        (record(field("a", "int")), record(field("b", "int")), b"\x02", None),
        (record(), record(), b"", {}),
        (record(field("a", "int")), record(field("b", {"type": "long", "logicalType": "timestamp-millis"}, default=1)),
         b"\x02", {"b": datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, datetime.UTC)}),
        (CHAIN, record(field("a", "int")), b"\x02\x02\x00\x02\x04", None),
        (CHAIN, record(field("a", "int")), b"\x02\x00\x04\x06", {"a": 3}),
    ],
)  # fmt: skip
def test_what_a_record_is_for_a_reader(writer, reader, content, expected):
    assert decode(writer, reader, content) == [expected]


def test_a_union_of_several_types_may_be_a_struct_of_them():
    order = record(field("x", "int"), name="shop.Order")
    reader = record(field("u", ["null", "long", "string", order, {"type": "array", "items": "int"}]))
    writer = record(field("u", ["string", "int", "null", order, "boolean"]))
    contents = [b"\0\2a", b"\2\4", b"\4", b"\6\6", b"\x08\1", b"\6"]
    nothing = {"long": None, "string": None, "shop_Order": None, "array": None}
    found = decode(writer, reader, *contents, unions_as_structs=True)
    assert found == [
        {"u": {**nothing, "string": "a"}},
        {"u": {**nothing, "long": 2}},
        {"u": None},
        {"u": {**nothing, "shop_Order": {"x": 3}}},
        None,
        None,
    ]
    assert decode(reader, reader, b"\x08\2\2\0", unions_as_structs=True) == [{"u": {**nothing, "array": [1]}}]
    with pytest.raises(UnreadableAvroSchema, match="several types"):
        arrow_type(reader)


def test_members_of_a_union_have_the_full_names_of_their_types():
    named = [record(name="A") | {"namespace": "x"}, record(name="A") | {"namespace": "y"}]
    schema = record(field("u", named), field("again", ["x.A", "A", "null"])) | {"namespace": "y"}
    kind = arrow_type(schema, unions_as_structs=True)
    assert [[member.name for member in column.type] for column in kind] == [["x_A", "y_A"], ["x_A", "y_A"]]
    empty = {"x_A": None, "y_A": None}
    union = field("u", [record(name="A") | {"namespace": space} for space in "xy"])
    found = decode(record(union), record(union), b"\0", b"\2", unions_as_structs=True)
    assert found == [{"u": {**empty, "x_A": {}}}, {"u": {**empty, "y_A": {}}}]
    with pytest.raises(UnreadableAvroSchema, match="one name"):
        arrow_type([record(name="x_A"), record(name="A") | {"namespace": "x"}], unions_as_structs=True)


def test_a_schema_without_end_is_refused():
    schema = "int"
    for _ in range(3_000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(UnreadableAvroSchema, match="too deeply"):
        arrow_type(schema)


def test_a_few_bytes_claim_no_billion_values():
    nulls = record(field("a", {"type": "array", "items": record(name="Empty")}))
    billion = b"\x80\x94\xeb\xdc\x03\x00"
    assert decode(nulls, nulls, billion, b"\x04\x00") == [None, {"a": [{}, {}]}]
    rows = AvroRows(nulls, arrow_type(nulls), None)
    assert "it has more than 1060 values in 6 bytes" in rows.decode(pa.array([billion])).problems[0]
    assert RECORD_VALUES_MAX == 2_000_000


def test_a_record_inside_itself_has_a_bottom():
    reader = record(field("x", "int", default=1))
    deep, deeper = (b"\x02" * links + b"\x00" + b"\x02" * (links + 1) for links in (40, 60))
    assert decode(CHAIN, reader, deep, deeper) == [{"x": 1}, None]
    rows = AvroRows(reader, arrow_type(reader), lambda _: WholeSchema(json.dumps(CHAIN), {}))
    assert "nested more than 100 deep" in rows.decode(pa.array([b"\0\0\0\0\1" + deeper])).problems[0]


def test_records_of_several_writers_keep_their_places():
    schemas = {
        1: record(field("a", "int")),
        2: record(field("b", "string"), field("a", "int")),
        3: {"type": "nothing"},
    }
    reader = record(field("a", "long"))

    def schema_of(schema_id):
        if schema_id not in schemas:
            raise UnframedRecord(f"nobody knows {schema_id}")
        return WholeSchema(json.dumps(schemas[schema_id]), {})

    rows = AvroRows(reader, arrow_type(reader), schema_of)
    column = pa.array(
        [b"\0\0\0\0\2\2x\4", None, b"\0\0\0\0\1\2", b"\0\0\0\0\7\2", b"", b"\0\0\0\0\3\2", b"\0\0\0\0\2\2y\6", b"{}"]
    )
    for start in range(len(column) + 1):
        found = rows.decode(column.slice(start))
        values = [2, None, 1, None, None, None, 3, None][start:]
        assert [None if value is None else value["a"] for value in found.column.to_pylist()] == values
        assert sorted(row + start for row in found.problems) == [row for row in (3, 4, 5, 7) if row >= start]
    problems = rows.decode(column).problems
    assert problems[3] == "nobody knows 7"
    assert problems[5].startswith("it names schema 3, which cannot be read: ")


def test_a_default_that_is_none_refuses_records_and_not_the_reader():
    reader = record(field("a", "int"), field("b", "int", default="x"))
    try:
        kind = arrow_type(reader)
        rows = AvroRows(reader, kind, lambda _: WholeSchema(json.dumps(record(field("a", "int"))), {}))
    except UnreadableAvroSchema:
        return
    assert "the default of b is none of its type" in rows.decode(pa.array([b"\0\0\0\0\1\2"])).problems[0]
