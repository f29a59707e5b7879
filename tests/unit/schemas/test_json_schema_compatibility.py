"""Confluent's rules for JSON Schema as a table: does a reader accept all that a writer accepted?

Rows have values that the writer's schema accepts. Where a row says that it fits, the reader's schema must accept them
all, unless a default makes up for what is missing; jsonschema is the judge.
"""

import json
import time

import pytest

pytest.importorskip("jsonschema")
from jsonschema import validate
from jsonschema.validators import Draft7Validator, validator_for
from tests.unit.schemas.steps import steps

from ottla.budget import Budget, BudgetExceeded
from ottla.schemas.json_schema.format import JsonSchemaFormat
from ottla.schemas.model import InvalidSchema

JSON = JsonSchemaFormat()
INT, NUMBER, STRING = {"type": "integer"}, {"type": "number"}, {"type": "string"}
ANYTHING = {}


def thing(required=(), more=None, patterns=None, **properties):
    made = {"type": "object", "properties": properties}
    if required:
        made["required"] = list(required)
    if more is not None:
        made["additionalProperties"] = more
    if patterns:
        made["patternProperties"] = patterns
    return made


def closed(required=(), patterns=None, **properties):
    return thing(required, False, patterns, **properties)


def items(*places, rest=None, **more):
    made = {"type": "array", "items": list(places), **more}
    return made if rest is None else made | {"additionalItems": rest}


NODE = {"$ref": "#/definitions/n", "definitions": {"n": thing(next={"$ref": "#/definitions/n"}, v=INT)}}
WIDE_NODE = {"$ref": "#/definitions/n", "definitions": {"n": thing(next={"$ref": "#/definitions/n"}, v=NUMBER)}}

MODERN = "https://json-schema.org/draft/2020-12/schema"


def modern(**keywords):
    return {"$schema": MODERN, **keywords}


def sealed(*parts, **properties):
    """Closed by a word that sees through allOf."""
    made = modern(type="object", properties=properties, unevaluatedProperties=False)
    return made | {"allOf": list(parts)} if parts else made


def pointing(more, target, **properties):
    """A $ref with something beside it."""
    return modern(**more) | {
        "$ref": "#/$defs/t",
        "$defs": {"t": {"type": "object", "properties": properties, **target}},
    }


# what it is about, the reader's schema, the writer's schema, why not (None: it fits), values that the writer accepts
CASES = [
    ("the same", thing(a=INT), thing(a=INT), None, [{"a": 1}]),
    ("everything is accepted", {}, thing(a=INT), None, [{"a": 1}]),
    ("true is everything", True, thing(a=INT), None, [{"a": 1}]),
    ("everything was accepted", thing(a=INT), {}, "TYPE_CHANGED", []),
    ("nothing was accepted", INT, False, None, []),
    ("words about it do not matter", {**INT, "title": "t", "description": "d"}, INT, None, [1]),
    # types
    ("integer to number", NUMBER, INT, None, [1]),
    ("number to integer", INT, NUMBER, "TYPE_CHANGED", []),
    ("string to number", NUMBER, STRING, "TYPE_CHANGED", []),
    ("one type more", {"type": ["string", "null"]}, STRING, None, ["a"]),
    ("one type less", STRING, {"type": ["string", "null"]}, "TYPE_NARROWED", []),
    ("no type any more", {"maxLength": 3}, {"type": "string", "maxLength": 3}, None, ["abc"]),
    # values
    ("enum grows", {"enum": [1, 2]}, {"enum": [1]}, None, [1]),
    ("enum shrinks", {"enum": [1]}, {"enum": [1, 2]}, "ENUM_ARRAY_NARROWED", []),
    ("enum changes", {"enum": [3]}, {"enum": [1, 2]}, "ENUM_ARRAY_CHANGED", []),
    ("enum comes", {"type": "string", "enum": ["a"]}, STRING, "ENUM_ARRAY_ADDED", []),
    ("enum goes", STRING, {"type": "string", "enum": ["a"]}, None, ["a"]),
    ("const becomes enum", {"enum": ["a", "b"]}, {"const": "a"}, None, ["a"]),
    ("true is not one", {"enum": [1]}, {"enum": [True]}, "ENUM_ARRAY_CHANGED", []),
    ("true in a list is not one", {"enum": [[1]]}, {"enum": [[True]]}, "ENUM_ARRAY_CHANGED", []),
    ("true in a keyword is not one", {"contains": {"const": 1}}, {"contains": {"const": True}}, "KEYWORD_CHANGED", []),
    (
        "true in a choice is not one",
        {"anyOf": [{"const": 1}]},
        {"anyOf": [{"const": 1}, {"const": True}]},
        "SUM_TYPE_NARROWED",
        [],
    ),
    ("one is 1.0", {"enum": [1.0]}, {"enum": [1]}, None, [1]),
    ("const beside an enum without it", {"const": 1, "enum": [2, 1.5, True]}, {"const": 1}, "ENUM_ARRAY_CHANGED", []),
    ("const beside an enum with it", {"const": 1, "enum": [2, 1]}, {"const": 1}, None, [1]),
    ("const beside an enum accepted nothing", {"type": "string", "enum": ["a"]}, {"const": 1, "enum": [2]}, None, []),
    # limits
    ("maxLength grows", {"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 3}, None, ["abc"]),
    (
        "maxLength shrinks",
        {"type": "string", "maxLength": 3},
        {"type": "string", "maxLength": 5},
        "MAX_LENGTH_DECREASED",
        [],
    ),
    ("maxLength comes", {"type": "string", "maxLength": 3}, STRING, "MAX_LENGTH_ADDED", []),
    (
        "minLength grows",
        {"type": "string", "minLength": 3},
        {"type": "string", "minLength": 1},
        "MIN_LENGTH_INCREASED",
        [],
    ),
    ("minLength 0 is none", {"type": "string", "minLength": 0}, STRING, None, [""]),
    ("minimum shrinks", {"type": "number", "minimum": 1}, {"type": "number", "minimum": 2}, None, [2]),
    ("minimum comes", {"type": "number", "minimum": 0}, NUMBER, "MINIMUM_ADDED", []),
    ("maximum goes", NUMBER, {"type": "number", "maximum": 2}, None, [2]),
    ("multipleOf divides", {"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 4}, None, [4]),
    (
        "multipleOf grows",
        {"type": "integer", "multipleOf": 4},
        {"type": "integer", "multipleOf": 2},
        "MULTIPLE_OF_EXPANDED",
        [],
    ),
    ("pattern goes", STRING, {"type": "string", "pattern": "a"}, None, ["a"]),
    ("pattern changes", {"type": "string", "pattern": "b"}, {"type": "string", "pattern": "a"}, "PATTERN_CHANGED", []),
    # open content models
    ("open: a property comes", thing(a=INT, b=INT), thing(a=INT), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", []),
    ("open: one of any type comes", thing(a=INT, b=ANYTHING), thing(a=INT), None, [{"a": 1, "b": "x"}]),
    ("open: a property goes", thing(a=INT), thing(a=INT, b=INT), None, [{"a": 1, "b": 2}]),
    ("open: a property changes", thing(a=STRING), thing(a=INT), "TYPE_CHANGED", []),
    ("open becomes closed", closed(a=INT), thing(a=INT), "ADDITIONAL_PROPERTIES_REMOVED", []),
    # closed content models
    ("closed: a property comes", closed(a=INT, b=INT), closed(a=INT), None, [{"a": 1}]),
    (
        "closed: a required one comes",
        closed(["b"], a=INT, b=INT),
        closed(a=INT),
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        [],
    ),
    ("closed: required with a default", closed(["b"], a=INT, b={**INT, "default": 0}), closed(a=INT), None, None),
    ("closed: a property goes", closed(a=INT), closed(a=INT, b=INT), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", []),
    ("closed: one that never was goes", closed(a=INT), closed(a=INT, b=False), None, [{"a": 1}]),
    ("closed becomes open", thing(a=INT), closed(a=INT), None, [{"a": 1}]),
    ("closed becomes open, and one comes", thing(a=INT, b=INT), closed(a=INT), None, [{"a": 1}]),
    # content models in between
    ("partly open: covered comes", thing(more=INT, a=INT, b=NUMBER), thing(more=INT, a=INT), None, [{"b": 1}]),
    (
        "partly open: not covered comes",
        thing(more=STRING, b=INT),
        thing(more=STRING),
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        [],
    ),
    ("partly open: covered goes", thing(more=NUMBER), thing(more=NUMBER, a=INT), None, [{"a": 1}]),
    (
        "partly open: not covered goes",
        thing(more=STRING),
        thing(more=STRING, a=INT),
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        [],
    ),
    ("a pattern covers", closed(patterns={"^s_": STRING}), closed(s_a=STRING), None, [{"s_a": "x"}]),
    ("a pattern changes", closed(patterns={"^s_": INT}), closed(patterns={"^s_": STRING}), "TYPE_CHANGED", []),
    ("a pattern comes", thing(patterns={"^s_": INT}), thing(), "PATTERN_PROPERTY_ADDED", []),
    (
        "a pattern comes beside another",
        closed(patterns={"^n_": INT, "^s_": STRING}),
        closed(patterns={"^s_": STRING}),
        None,
        [{"s_a": "x"}],
    ),
    (
        "a pattern comes across another",
        closed(patterns={"^s_a": INT, "^s_": STRING}),
        closed(patterns={"^s_": STRING}),
        "PATTERN_PROPERTY_ADDED",
        [],
    ),
    ("a pattern goes", closed(), closed(patterns={"^s_": STRING}), "PATTERN_PROPERTY_REMOVED", []),
    ("a pattern goes, nobody could use it", closed(), closed(patterns={"^s_": False}), None, [{}]),
    ("a pattern goes from an open object", thing(), thing(patterns={"^s_": STRING}), None, [{"s_a": "x"}]),
    (
        "a pattern goes, the rest has its type",
        thing(more=STRING),
        closed(patterns={"^s_": STRING}),
        None,
        [{"s_a": "x"}],
    ),
    (
        "a pattern goes, the rest has another type",
        thing(more=INT),
        thing(more=INT, patterns={"^s_": STRING}),
        "PATTERN_PROPERTY_REMOVED",
        [],
    ),
    (
        "a pattern becomes wider",
        closed(patterns={"^s": STRING}),
        closed(patterns={"^s_": STRING}),
        None,
        [{"s_a": "x"}],
    ),
    ("more properties become wider", thing(more=NUMBER), thing(more=INT), None, [{"x": 1}]),
    ("more properties become tighter", thing(more=INT), thing(more=NUMBER), "TYPE_CHANGED", []),
    ("more properties of one type only", thing(more=INT), thing(), "ADDITIONAL_PROPERTIES_NARROWED", []),
    # required
    ("becomes required", thing(["a"], a=INT), thing(a=INT), "REQUIRED_ATTRIBUTE_ADDED", []),
    ("becomes required with a default", thing(["a"], a={**INT, "default": 1}), thing(a=INT), None, None),
    ("is not required any more", thing(a=INT), thing(["a"], a=INT), None, [{"a": 1}]),
    (
        "required without being named",
        {"type": "object", "required": ["x"]},
        {"type": "object"},
        "REQUIRED_ATTRIBUTE_ADDED",
        [],
    ),
    (
        "a dependency comes",
        {"type": "object", "dependencies": {"a": ["b"]}},
        {"type": "object"},
        "DEPENDENCY_ARRAY_ADDED",
        [],
    ),
    (
        "a dependency demands less",
        {"type": "object", "dependencies": {"a": ["b"]}},
        {"type": "object", "dependencies": {"a": ["b", "c"]}},
        None,
        [{}],
    ),
    # arrays
    ("items become wider", {"type": "array", "items": NUMBER}, {"type": "array", "items": INT}, None, [[1]]),
    ("items become tighter", {"type": "array", "items": INT}, {"type": "array", "items": NUMBER}, "TYPE_CHANGED", []),
    ("items come", {"type": "array", "items": INT}, {"type": "array"}, "ADDITIONAL_ITEMS_NARROWED", []),
    ("open: a place comes", items(INT, INT), items(INT), "ITEM_ADDED_TO_OPEN_CONTENT_MODEL", []),
    ("closed: a place comes", items(INT, INT, rest=False), items(INT, rest=False), None, [[1]]),
    (
        "closed: a place goes",
        items(INT, rest=False),
        items(INT, INT, rest=False),
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        [],
    ),
    ("open: a place goes", items(INT), items(INT, INT), None, [[1, 2]]),
    ("no more items", items(INT, rest=False), items(INT), "ADDITIONAL_ITEMS_REMOVED", []),
    ("items must be unique", {"type": "array", "uniqueItems": True}, {"type": "array"}, "UNIQUE_ITEMS_ADDED", []),
    ("maxItems shrinks", {"type": "array", "maxItems": 1}, {"type": "array", "maxItems": 2}, "MAX_ITEMS_DECREASED", []),
    # combined
    ("oneOf grows", {"oneOf": [INT, STRING]}, {"oneOf": [INT]}, None, [1]),
    ("oneOf shrinks", {"oneOf": [INT]}, {"oneOf": [INT, STRING]}, "SUM_TYPE_NARROWED", []),
    ("oneOf in another order", {"oneOf": [STRING, INT]}, {"oneOf": [INT, STRING]}, None, [1, "a"]),
    ("a choice becomes wider", {"oneOf": [NUMBER, STRING]}, {"oneOf": [INT, STRING]}, None, [1, "a"]),
    (
        "a choice changes",
        {"oneOf": [STRING, {"type": "null"}]},
        {"oneOf": [STRING, INT]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        [],
    ),
    (
        "two choices want one place",
        {"oneOf": [NUMBER, {"type": "null"}]},
        {"oneOf": [INT, NUMBER]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        [],
    ),
    ("oneOf becomes anyOf", {"anyOf": [INT, STRING]}, {"oneOf": [INT, STRING]}, None, [1]),
    ("anyOf becomes oneOf", {"oneOf": [INT, STRING]}, {"anyOf": [INT, STRING]}, "COMBINED_TYPE_CHANGED", []),
    ("allOf demands less", {"allOf": [thing(a=INT)]}, {"allOf": [thing(a=INT), thing(b=INT)]}, None, [{"a": 1}]),
    (
        "allOf demands more",
        {"allOf": [thing(a=INT), thing(b=INT)]},
        {"allOf": [thing(a=INT)]},
        "PRODUCT_TYPE_EXTENDED",
        [],
    ),
    ("a product becomes a choice", {"anyOf": [STRING, NUMBER]}, {"allOf": [INT, {"minimum": 1}]}, None, [1]),
    ("a product becomes a choice of one", {"oneOf": [NUMBER]}, {"allOf": [INT, {"minimum": 1}]}, None, [1]),
    (
        "a product becomes a choice of two",
        {"oneOf": [NUMBER, INT]},
        {"allOf": [INT, {"minimum": 1}]},
        "COMBINED_TYPE_CHANGED",
        [],
    ),
    (
        "a product becomes another choice",
        {"anyOf": [STRING]},
        {"allOf": [INT, {"minimum": 1}]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
        [],
    ),
    ("becomes a choice", {"oneOf": [INT, STRING]}, INT, None, [1]),
    ("becomes another choice", {"oneOf": [{"type": "null"}, STRING]}, INT, "TYPE_CHANGED", []),
    ("choices become one that has them all", {"type": ["integer", "string"]}, {"oneOf": [INT, STRING]}, None, [1, "a"]),
    ("choices become one of them", INT, {"oneOf": [INT, STRING]}, "TYPE_CHANGED", []),
    (
        "a choice beside a type",
        {"type": "object", "oneOf": [thing(["a"]), thing(["b"])]},
        {"type": "object", "oneOf": [thing(["a"]), thing(["b"])]},
        None,
        [{"a": 1}],
    ),
    ("less is refused", {"not": {"type": "string", "maxLength": 1}}, {"not": STRING}, None, [1]),
    ("more is refused", {"not": STRING}, {"not": {"type": "string", "maxLength": 1}}, "NOT_TYPE_EXTENDED", []),
    # since 2019-09: what nobody named, and what stands beside a $ref
    ("sealed: a property comes", sealed(a=INT, b=INT), sealed(a=INT), None, [{"a": 1}]),
    ("sealed: a property goes", sealed(a=INT), sealed(a=INT, b=INT), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", []),
    ("open becomes sealed", sealed(a=INT), modern(**thing(a=INT)), "ADDITIONAL_PROPERTIES_REMOVED", []),
    ("sealed around a part that stays", sealed(thing(b=INT), a=INT), sealed(thing(b=INT), a=INT), None, [{"b": 1}]),
    ("sealed around a part that loses one", sealed(thing()), sealed(thing(b=INT)), "KEYWORD_CHANGED", []),
    ("sealed around a part is opened", thing(a=NUMBER), sealed(thing(b=INT), a=INT), None, [{"a": 1, "b": 1}]),
    (
        "sealed around a part, the part's property changes",
        modern(**thing(a=INT, b=STRING)),
        sealed(thing(b=INT), a=INT),
        "TYPE_CHANGED",
        [],
    ),
    (
        "in draft 7 the word means nothing",
        thing(a=INT, b=INT),
        {**thing(a=INT), "unevaluatedProperties": False},
        "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        [],
    ),
    (
        "items nobody named become tighter",
        modern(type="array", prefixItems=[INT], unevaluatedItems=INT),
        modern(type="array", prefixItems=[INT, STRING], unevaluatedItems=INT),
        "TYPE_CHANGED",
        [],
    ),
    ("beside a $ref less is demanded", pointing({}, {}, a=INT), pointing({"minProperties": 1}, {}, a=INT), None, []),
    (
        "beside a $ref more is demanded",
        pointing({"minProperties": 1}, {}, a=INT),
        pointing({}, {}, a=INT),
        "TYPE_CHANGED",
        [],
    ),
    (
        "in draft 7 nothing counts beside a $ref",
        {"$ref": "#/definitions/t", "minProperties": 1, "definitions": {"t": thing(a=INT)}},
        thing(a=INT),
        None,
        [{}],
    ),
    # references and rare words
    ("inside itself", WIDE_NODE, NODE, None, [{"next": {"v": 1}}]),
    ("inside itself, tighter", NODE, WIDE_NODE, "TYPE_CHANGED", []),
    (
        "a condition comes",
        {"type": "object", "if": thing(["a"]), "then": thing(["b"])},
        {"type": "object"},
        "KEYWORD_CHANGED",
        [],
    ),
    ("a condition goes", {"type": "object"}, {"type": "object", "if": thing(["a"]), "then": thing(["b"])}, None, [{}]),
]


def parsed(value):
    return JSON.parse(json.dumps(value), {})


@pytest.mark.parametrize(("reader", "writer", "why"), [case[1:4] for case in CASES], ids=[case[0] for case in CASES])
def test_our_rules(reader, writer, why):
    names = [each.name for each in JSON.problems(parsed(reader), parsed(writer), steps())]
    assert (why in names) if why else names == []


@pytest.mark.parametrize("case", [case for case in CASES if case[4]], ids=lambda case: case[0])
def test_what_fits_is_accepted(case):
    for value in case[4]:
        for schema in case[2], case[1]:
            validate(value, schema, validator_for(schema, Draft7Validator))


@pytest.mark.parametrize("schema", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_a_schema_is_compatible_with_itself(schema):
    assert JSON.problems(parsed(schema), parsed(schema), steps()) == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '"string"', '{"type": "thing"}', '{"required": "a"}', '{"$ref": "other.json"}']
)
def test_what_is_no_schema_is_refused_in_words(text):
    with pytest.raises(InvalidSchema):
        JSON.parse(text, {})


def test_a_ref_leads_into_a_reference():
    person = json.dumps(thing(home={"$ref": "address.json"}, work={"$ref": "address.json#/definitions/office"}))
    address = json.dumps({**thing(city=STRING), "definitions": {"office": thing(floor=INT)}})
    other = json.dumps({**thing(city=STRING), "definitions": {"office": thing(floor=STRING)}})
    one, changed = JSON.parse(person, {"address.json": address}), JSON.parse(person, {"address.json": other})
    assert JSON.problems(one, one, steps()) == []
    assert [each.path for each in JSON.problems(changed, one, steps())] == ["#/properties/work/properties/floor/type"]


def test_nothing_is_ever_fetched():
    with pytest.raises(InvalidSchema, match="leads nowhere"):
        JSON.parse('{"$ref": "http://127.0.0.1:1/schema.json"}', {})


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^a*a*a*a*$", "^(a|aa)+$", "a?" * 40 + "a" * 40])
def test_a_pattern_that_would_take_a_backtracking_matcher_for_ever_is_matched(pattern):
    long_name = "a" * 4_000
    evil = closed(patterns={pattern: STRING})
    assert JSON.problems(parsed(evil), parsed(closed(**{long_name: STRING})), Budget(200_000, "comparing")) == []
    refused = JSON.problems(parsed(evil), parsed(closed(**{"b" + "x" * 4_000: STRING})), Budget(200_000, "comparing"))
    assert [each.name for each in refused] == ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]


def test_a_pattern_that_looks_ahead_covers_nothing():
    found = JSON.problems(
        parsed(closed(patterns={"^(?=a)": STRING})), parsed(closed(a=STRING)), Budget(200_000, "comparing")
    )
    assert [each.name for each in found] == ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]


def ladder(rungs, **end):
    """Every rung names the next one twice, with something beside it, which makes a product of it since 2019-09."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    rung = {
        f"s{at}": {"anyOf": [{"$ref": f"#/$defs/s{at + 1}", "minLength": 1}, {"$ref": f"#/$defs/s{at + 1}", "x": at}]}
        for at in range(rungs)
    }
    return {"$schema": draft, "$ref": "#/$defs/s0", "$defs": {**rung, f"s{rungs}": {"type": "string", **end}}}


def wide(word):
    return {word: [{"type": "string", "maxLength": each} for each in range(800)]}


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (ladder(60), ladder(60, maxLength=1)),
        (ladder(60, maxLength=1), ladder(60)),
        (wide("anyOf"), wide("anyOf")),
        (wide("oneOf"), wide("oneOf")),
        ({"enum": [{"a": each} for each in range(900)]}, {"enum": [{"b": each} for each in range(900)]}),
    ],
)
def test_a_comparison_ends_with_its_budget(reader, writer):
    began = time.thread_time()
    with pytest.raises(BudgetExceeded, match="comparing takes more than 200000 steps"):
        JSON.problems(parsed(reader), parsed(writer), Budget(200_000, "comparing"))
    assert time.thread_time() - began < 10


def test_a_schema_whose_reading_takes_too_long_is_none():
    with pytest.raises(InvalidSchema, match="reading the schema takes more than"):
        parsed({"enum": [{"a": each} for each in range(2_000)]})


def test_spaces_do_not_matter_and_normalised_the_order_neither():
    one, other = JSON.parse('{"type": "object",  "title": "t"}', {}), JSON.parse('{"title":"t","type":"object"}', {})
    assert JSON.canonical(one) == '{"type":"object","title":"t"}'
    assert JSON.normalized(one) == JSON.normalized(other) == '{"title":"t","type":"object"}'
