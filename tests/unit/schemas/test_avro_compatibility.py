"""Avro's rules as a table: what a reader makes of what a writer wrote.

Each row is judged twice: by our rules, and by fastavro, which reads a record that was written with the writer's schema,
where the row has one. So a row that says "fits" was read.
"""

import io
import json

import pytest

pytest.importorskip("fastavro")
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from tests.unit.schemas.steps import steps

from ottla.budget import Budget, BudgetExceeded
from ottla.schemas.avro.format import AvroFormat
from ottla.schemas.model import InvalidSchema

AVRO = AvroFormat()


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size, name="F"):
    return {"type": "fixed", "name": name, "size": size}


LIST = record(field("next", ["null", "R"]), field("value", "int"))
WIDE_LIST = record(field("next", ["null", "R"]), field("value", "long"))
BAD_LIST = record(field("next", ["null", "R"]), field("value", "string"))

# what it is about, the reader's schema, the writer's schema, why not (None: it fits), something that was written
CASES = [
    ("the same", record(field("a", "int")), record(field("a", "int")), None, {"a": 1}),
    ("a new field with a default", record(field("a", "int", default=1)), record(), None, {}),
    ("a new field without", record(field("a", "int")), record(), "READER_FIELD_MISSING_DEFAULT_VALUE", {}),
    ("a null default", record(field("a", ["null", "int"], default=None)), record(), None, {}),
    (
        "optional without a default",
        record(field("a", ["null", "int"])),
        record(),
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        {},
    ),
    ("a field is gone", record(), record(field("a", "int")), None, {"a": 1}),
    (
        "a renamed field",
        record(field("b", "int")),
        record(field("a", "int")),
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        {"a": 1},
    ),
    ("renamed with an alias", record(field("b", "int", aliases=["a"])), record(field("a", "int")), None, {"a": 1}),
    (
        "an alias that is another field",
        record(field("b", "int", aliases=["a"])),
        record(field("a", "int"), field("b", "int")),
        "READER_FIELD_AMBIGUOUS",
        None,
    ),
    (
        "the default of an enum is none of its field",
        record(field("e", enum("A", default="A"))),
        record(),
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        {},
    ),
    ("another record", record(name="Q"), record(), "NAME_MISMATCH", None),
    ("a record with an alias", record(name="Q", aliases=["R"]), record(), None, None),
    ("another namespace", record(namespace="x"), record(namespace="y"), None, None),
    ("int to long", "long", "int", None, 3),
    ("int to float", "float", "int", None, 3),
    ("int to double", "double", "int", None, 3),
    ("long to float", "float", "long", None, 3),
    ("long to double", "double", "long", None, 3),
    ("float to double", "double", "float", None, 1.5),
    ("string to bytes", "bytes", "string", None, "a"),
    ("bytes to string", "string", "bytes", None, b"a"),
    ("long to int", "int", "long", "TYPE_MISMATCH", 3),
    ("double to float", "float", "double", "TYPE_MISMATCH", 1.5),
    ("double to long", "long", "double", "TYPE_MISMATCH", 1.5),
    ("int to string", "string", "int", "TYPE_MISMATCH", 3),
    ("int to boolean", "boolean", "int", "TYPE_MISMATCH", 3),
    ("a new symbol", enum("A"), enum("A", "B"), "MISSING_ENUM_SYMBOLS", "B"),
    ("a new symbol and a default", enum("A", default="A"), enum("A", "B"), None, "B"),
    ("a symbol less in what was written", enum("A", "B"), enum("A"), None, "A"),
    ("fixed of another size", fixed(4), fixed(8), "FIXED_SIZE_MISMATCH", None),
    ("fixed of another name", fixed(4, "G"), fixed(4), "NAME_MISMATCH", None),
    ("items become wider", {"type": "array", "items": "long"}, {"type": "array", "items": "int"}, None, [1]),
    (
        "items become tighter",
        {"type": "array", "items": "int"},
        {"type": "array", "items": "long"},
        "TYPE_MISMATCH",
        [1],
    ),
    ("values become wider", {"type": "map", "values": "double"}, {"type": "map", "values": "int"}, None, {"a": 1}),
    ("values change", {"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "TYPE_MISMATCH", None),
    ("array to map", {"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "TYPE_MISMATCH", [1]),
    ("a union grows", ["null", "int", "string"], ["null", "int"], None, 1),
    ("a union shrinks", ["null", "int"], ["null", "int", "string"], "MISSING_UNION_BRANCH", "a"),
    ("into a union", ["null", "int"], "int", None, 1),
    ("into a union that has no place", ["null", "int"], "string", "MISSING_UNION_BRANCH", "a"),
    ("into a union by promotion", ["null", "double"], "int", None, 1),
    ("out of a union that only fits in part", "int", ["null", "int"], "MISSING_UNION_BRANCH", None),
    ("out of a union of promotions", "double", ["int", "float"], None, 1),
    ("order of a union", ["int", "null"], ["null", "int"], None, 1),
    ("a record inside itself", WIDE_LIST, LIST, None, {"next": {"next": None, "value": 1}, "value": 2}),
    ("a record inside itself that changed", BAD_LIST, LIST, "TYPE_MISMATCH", None),
    ("a logical type is its type", {"type": "long", "logicalType": "timestamp-millis"}, "int", None, 5),
    ("null to a union", ["null", "int"], "null", None, None),
]


def parsed(value):
    return AVRO.parse(json.dumps(value), {})


@pytest.mark.parametrize(("reader", "writer", "why"), [case[1:4] for case in CASES], ids=[case[0] for case in CASES])
def test_our_rules(reader, writer, why):
    found = AVRO.problems(parsed(reader), parsed(writer), steps())
    assert [each.name for each in found] == ([why] if why else [])


READ = [case for case in CASES if case[4] is not None and case[3] in (None, "TYPE_MISMATCH")]


@pytest.mark.parametrize(
    ("reader", "writer", "why", "value"), [case[1:] for case in READ], ids=[case[0] for case in READ]
)
def test_what_fits_is_read(reader, writer, why, value):
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(writer), value)
    written.seek(0)
    if why is None:
        schemaless_reader(written, parse_schema(writer), parse_schema(reader))
    else:
        with pytest.raises(Exception, match=r".+"):
            schemaless_reader(written, parse_schema(writer), parse_schema(reader))


def test_a_problem_says_where_it_is():
    inner = record(field("x", "int"), name="I")
    found = AVRO.problems(
        parsed(record(field("a", "int"), field("i", inner))),
        parsed(record(field("a", "int"))),
        steps(),
    )
    assert [each.path for each in found] == ["/fields/1"]


@pytest.mark.parametrize(
    "text",
    ['{"type": "record"}', '{"type": "record", "name": "R"}', '{"type": "nothing"}', "[1]", "{", '"unknown.Type"', "12",
     '{"type": "enum", "name": "E", "symbols": "A"}', '{"type": "fixed", "name": "a b", "size": 1}'],
)  # fmt: skip
def test_what_is_no_schema_is_refused_in_words(text):
    with pytest.raises(InvalidSchema):
        AVRO.parse(text, {})


def test_types_of_references_are_known():
    address = json.dumps(record(field("city", "string"), name="Address", namespace="people"))
    person = json.dumps(record(field("home", "people.Address"), name="Person"))
    assert AVRO.parse(person, {"people.Address": address}).type.fields[0].type.name == "people.Address"
    with pytest.raises(InvalidSchema, match=r"people\.Address"):
        AVRO.parse(person, {})


def test_spaces_and_the_order_of_attributes_do_not_matter():
    one = AVRO.parse('{"type":"record","name":"a.b.R","doc":"d","fields":[{"name":"x","type":{"type":"int"}}]}', {})
    text = """{ "fields": [ {"type": "int", "name": "x"} ], "name": "R",
                "namespace": "a.b", "doc": "d", "type": "record" }"""
    other = AVRO.parse(text, {})
    stored = '{"type":"record","name":"R","namespace":"a.b","doc":"d","fields":[{"name":"x","type":"int"}]}'
    assert AVRO.canonical(one) == AVRO.canonical(other) == stored


def test_nothing_is_lost_in_what_is_stored():
    whole = {
        "type": "record", "name": "R", "namespace": "n", "doc": "d", "aliases": ["Old"], "own": [1, {"x": None}],
        "fields": [
            {"name": "a", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0, "order": "ignore",
             "aliases": ["b"], "own": True, "doc": "f"},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}},
            {"name": "m", "type": {"type": "map", "values": ["null", {"type": "fixed", "name": "x.F", "size": 3}]}},
            {"name": "again", "type": "n.E"},
        ],
    }  # fmt: skip
    text = AVRO.canonical(parsed(whole))
    assert AVRO.canonical(AVRO.parse(text, {})) == text
    stored = json.loads(text)
    assert stored["fields"][0] == whole["fields"][0]
    assert {name: stored[name] for name in ("doc", "aliases", "own", "namespace")} == {
        name: whole[name] for name in ("doc", "aliases", "own", "namespace")
    }
    assert stored["fields"][3]["type"] == "E"


def test_normalised_the_order_of_own_properties_does_not_matter():
    one, other = ({"type": "int", "a": 1, "b": 2}, {"type": "int", "b": 2, "a": 1})
    assert AVRO.canonical(parsed(one)) != AVRO.canonical(parsed(other))
    assert AVRO.normalized(parsed(one)) == AVRO.normalized(parsed(other))


def test_a_comparison_of_wide_unions_ends_with_its_budget():
    union = [{"type": "record", "name": f"R{each}", "fields": []} for each in range(300)]
    others = [{"type": "record", "name": f"S{each}", "fields": []} for each in range(300)]
    with pytest.raises(BudgetExceeded):
        AVRO.problems(parsed(union), parsed(others), Budget(100_000, "comparing"))


def test_large_enums_are_compared_in_steps_that_grow_with_their_size():
    def enum(first):
        return {"type": "enum", "name": "E", "symbols": [f"s{each}" for each in range(first, first + 20_000)]}

    (found,) = AVRO.problems(parsed(enum(0)), parsed(enum(1)), Budget(100_000, "comparing"))
    assert found.name == "MISSING_ENUM_SYMBOLS"
