"""All seven levels as tables: which of them let a schema follow its history, for each format.

A row has the versions that are there, the new one, and the levels that accept it: B, F and U are BACKWARD, FORWARD and
FULL, with a star TRANSITIVE. NONE accepts everything. What one schema makes of another is in tests/unit/schemas.
"""

import json

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("jsonschema")
pytest.importorskip("google.protobuf")
from tests.unit.broker.registry.test_operations import Registry, field, record

from ottla.broker.registry.levels import LEVELS

SHORT = {
    "BACKWARD": "B",
    "BACKWARD_TRANSITIVE": "B*",
    "FORWARD": "F",
    "FORWARD_TRANSITIVE": "F*",
    "FULL": "U",
    "FULL_TRANSITIVE": "U*",
}
ALL, BACK, FORTH, NONE = "B B* F F* U U*", "B B*", "F F*", ""


# -- Avro --------------------------------------------------------------------------------------------------------------


def enum(*symbols, **more):
    return field("e", {"type": "enum", "name": "E", "symbols": list(symbols), **more})


A, B, B_DEFAULT = field("a", "int"), field("b", "int"), field("b", "int", default=0)
OPTIONAL = field("b", ["null", "int"], default=None)
AVRO = [
    ("a field with a default comes", [record(A)], record(A, B_DEFAULT), ALL),
    ("a field with a default goes", [record(A, B_DEFAULT)], record(A), ALL),
    ("an optional field comes", [record(A)], record(A, OPTIONAL), ALL),
    ("a field without a default comes", [record(A)], record(A, B), FORTH),
    ("a field without a default goes", [record(A, B)], record(A), BACK),
    ("a field gets a default", [record(A, B)], record(A, B_DEFAULT), ALL),
    ("a field has another name", [record(A)], record(B), NONE),
    ("a field has another name and an alias", [record(A)], record(field("b", "int", aliases=["a"])), BACK),
    ("a type becomes wider", [record(A)], record(field("a", "long")), BACK),
    ("a type becomes tighter", [record(field("a", "long"))], record(A), FORTH),
    ("a type changes", [record(A)], record(field("a", "string")), NONE),
    ("string and bytes", [record(field("a", "string"))], record(field("a", "bytes")), ALL),
    ("a type becomes a union", [record(A)], record(field("a", ["null", "int"])), BACK),
    ("a union grows", [record(field("a", ["null", "int"]))], record(field("a", ["null", "int", "string"])), BACK),
    ("a union shrinks", [record(field("a", ["null", "int"]))], record(A), FORTH),
    ("a symbol comes", [record(enum("X"))], record(enum("X", "Y")), BACK),
    ("a symbol goes", [record(enum("X", "Y"))], record(enum("X")), FORTH),
    ("a symbol comes, with a default", [record(enum("X", default="X"))], record(enum("X", "Y", default="X")), ALL),
    ("a symbol goes, with a default", [record(enum("X", "Y", default="X"))], record(enum("X", default="X")), ALL),
    ("another record", [record(A)], record(A, name="Q"), NONE),
    ("a default comes and goes", [record(A), record(A, B_DEFAULT)], record(A, B), "B F F* U"),
    ("a default comes, and the field goes", [record(A, B), record(A, B_DEFAULT)], record(A), "B B* F U"),
    ("a field comes back as another", [record(B_DEFAULT), record()], record(field("b", "string", default="")), "B F U"),
    ("wider twice", [record(A), record(field("a", "long"))], record(field("a", "double")), BACK),
    ("a union had another branch", [record(field("a", ["int", "string"])), record(A)],
     record(field("a", ["int", "null"])), "B"),
]  # fmt: skip


# -- JSON Schema -------------------------------------------------------------------------------------------------------

INT, NUMBER, STRING = {"type": "integer"}, {"type": "number"}, {"type": "string"}


def thing(required=(), **properties):
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def closed(required=(), **properties):
    return {**thing(required, **properties), "additionalProperties": False}


def one_of(*choices):
    return {"enum": list(choices)}


JSON = [
    ("closed: a property comes", [closed(a=INT)], closed(a=INT, b=INT), BACK),
    ("closed: a property goes", [closed(a=INT, b=INT)], closed(a=INT), FORTH),
    ("closed: a required property comes", [closed(a=INT)], closed(["b"], a=INT, b=INT), NONE),
    ("closed: required with a default comes", [closed(a=INT)], closed(["b"], a=INT, b={**INT, "default": 0}), BACK),
    ("open: a property of any type comes", [thing(a=INT)], thing(a=INT, b={}), ALL),
    ("open: a property with a type comes", [thing(a=INT)], thing(a=INT, b=INT), FORTH),
    ("open: a property goes", [thing(a=INT, b=INT)], thing(a=INT), BACK),
    ("open becomes closed", [thing(a=INT)], closed(a=INT), FORTH),
    ("closed becomes open", [closed(a=INT)], thing(a=INT), BACK),
    ("becomes required", [thing(a=INT)], thing(["a"], a=INT), FORTH),
    ("becomes required with a default", [thing(a=INT)], thing(["a"], a={**INT, "default": 0}), ALL),
    ("is not required any more", [thing(["a"], a=INT)], thing(a=INT), BACK),
    ("a type becomes wider", [thing(a=INT)], thing(a=NUMBER), BACK),
    ("a type becomes tighter", [thing(a=NUMBER)], thing(a=INT), FORTH),
    ("a type changes", [thing(a=INT)], thing(a=STRING), NONE),
    ("a type becomes a choice of types", [thing(a=INT)], thing(a={"type": ["integer", "null"]}), BACK),
    ("a value comes", [one_of(1)], one_of(1, 2), BACK),
    ("a value goes", [one_of(1, 2)], one_of(1), FORTH),
    ("a limit goes up", [{**STRING, "maxLength": 3}], {**STRING, "maxLength": 5}, BACK),
    ("a limit goes down", [{**STRING, "maxLength": 5}], {**STRING, "maxLength": 3}, FORTH),
    ("oneOf grows", [{"oneOf": [INT, STRING]}], {"oneOf": [INT, STRING, {"type": "null"}]}, BACK),
    ("oneOf shrinks", [{"oneOf": [INT, STRING]}], {"oneOf": [INT]}, FORTH),
    ("allOf demands more", [{"allOf": [NUMBER]}], {"allOf": [NUMBER, {"minimum": 1}]}, FORTH),
    ("only the words are others", [{**STRING, "title": "a"}], {**STRING, "title": "b"}, ALL),
    ("a value went before", [one_of(1, 3), one_of(1)], one_of(1, 2), "B"),
    ("a value came before", [one_of(1), one_of(1, 2)], one_of(2), "F"),
    ("the last is the same", [one_of(1), one_of(1, 2)], one_of(2, 1), "B B* F U"),
    ("wider twice", [closed(a=INT), closed(a=NUMBER)], closed(a=NUMBER, b=INT), BACK),
]


# -- Protobuf ----------------------------------------------------------------------------------------------------------


def proto(body, more="", syntax="proto3", package="p"):
    return f'syntax = "{syntax}"; package {package}; message M {{ {body} }} {more}'


TWO_OF = "oneof o { int32 a = 1; int32 b = 2; }"
PROTOBUF = [
    ("a field comes", [proto("int32 a = 1;")], proto("int32 a = 1; int32 b = 2;"), ALL),
    ("a field goes", [proto("int32 a = 1; int32 b = 2;")], proto("int32 a = 1;"), ALL),
    ("a field has another name", [proto("int32 a = 1;")], proto("int32 b = 1;"), ALL),
    ("a type has the same form", [proto("int32 a = 1;")], proto("int64 a = 1;"), ALL),
    ("a type has another form", [proto("int32 a = 1;")], proto("string a = 1;"), NONE),
    ("text becomes repeated", [proto("string a = 1;")], proto("repeated string a = 1;"), ALL),
    ("a number becomes repeated", [proto("int32 a = 1;")], proto("repeated int32 a = 1;"), NONE),
    ("a default changes", [proto("optional int32 a = 1 [default = 1];", syntax="proto2")],
     proto("optional int32 a = 1 [default = 2];", syntax="proto2"), ALL),
    ("a required field comes", [proto("", syntax="proto2")], proto("required int32 a = 1;", syntax="proto2"), NONE),
    ("a required field goes", [proto("required int32 a = 1;", syntax="proto2")], proto("", syntax="proto2"), NONE),
    ("an optional field comes", [proto("", syntax="proto2")], proto("optional int32 a = 1;", syntax="proto2"), ALL),
    ("a message comes", [proto("")], proto("", "message N { }"), BACK),
    ("a message goes", [proto("", "message N { }")], proto(""), FORTH),
    ("a value of an enum comes", [proto("E e = 1;", "enum E { Z = 0; }")],
     proto("E e = 1;", "enum E { Z = 0; Y = 1; }"), ALL),
    ("an enum becomes a number", [proto("E e = 1;", "enum E { Z = 0; }")], proto("int32 e = 1;"), ALL),
    ("a oneof comes with new fields", [proto("")], proto(TWO_OF), ALL),
    ("a oneof grows", [proto("oneof o { int32 a = 1; }")], proto(TWO_OF), BACK),
    ("a oneof shrinks", [proto(TWO_OF)], proto("oneof o { int32 a = 1; }"), FORTH),
    ("one field moves into a oneof", [proto("int32 a = 1;")], proto("oneof o { int32 a = 1; }"), ALL),
    ("one field moves into a oneof beside a new one", [proto("int32 a = 1;")], proto(TWO_OF), BACK),
    ("two fields move into a oneof", [proto("int32 a = 1; int32 b = 2;")], proto(TWO_OF), FORTH),
    ("fields leave a oneof", [proto(TWO_OF)], proto("int32 a = 1; int32 b = 2;"), BACK),
    ("another package", [proto("")], proto("", package="q"), NONE),
    ("a map becomes wider", [proto("map<string, int32> a = 1;")], proto("map<string, int64> a = 1;"), ALL),
    ("a field comes back as something else", [proto("int32 a = 1;"), proto("")], proto("string a = 1;"), "B F U"),
    ("a message went before", [proto("", "message N { }"), proto("")], proto("int32 a = 1;"), "B F F* U"),
    ("a message came before", [proto(""), proto("", "message N { }")],
     proto("int32 a = 1;", "message N { }"), "B B* F U"),
]  # fmt: skip

ROWS = [
    *(("AVRO", name, before, new, accepted) for name, before, new, accepted in AVRO),
    *(
        ("JSON", name, [json.dumps(x) for x in before], json.dumps(new), accepted)
        for name, before, new, accepted in JSON
    ),
    *(("PROTOBUF", name, before, new, accepted) for name, before, new, accepted in PROTOBUF),
]


def accepting(kind, before, new):
    """The levels at which a registry takes the new version: its test says so, and registering does as the test says."""
    registry, body, found = Registry(), {"schema": new, "schemaType": kind}, []
    registry("PUT /config/{subject}", {"compatibility": "NONE"}, subject="s")
    for text in before:
        registry.register("s", text, kind)
    for level in LEVELS:
        registry("PUT /config/{subject}", {"compatibility": level}, subject="s")
        if registry("POST /compatibility/subjects/{subject}/versions", body, subject="s")["is_compatible"]:
            found.append(level)
        else:
            assert registry.code("POST /subjects/{subject}/versions", body, subject="s") == 409
    registry("PUT /config/{subject}", {"compatibility": found[-1]}, subject="s")
    registry.register("s", new, kind)
    return found


@pytest.mark.parametrize(
    ("kind", "before", "new", "accepted"),
    [(row[0], *row[2:]) for row in ROWS],
    ids=[f"{row[0].lower()}: {row[1]}" for row in ROWS],
)
def test_every_level(kind, before, new, accepted):
    found = accepting(kind, before, new)
    assert found[0] == "NONE"
    assert " ".join(SHORT[level] for level in found[1:]) == accepted


def test_no_level_is_left_out():
    assert {*SHORT, "NONE"} == LEVELS.keys()
