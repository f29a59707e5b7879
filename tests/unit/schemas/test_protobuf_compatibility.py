"""Confluent's rules for Protobuf as a table. Where a row says that it fits, what was written is read by the new."""

import pytest

pytest.importorskip("google.protobuf")
from google.protobuf import descriptor_pool, message_factory
from tests.unit.schemas.steps import steps

from ottla.schemas.protobuf.format import ProtobufFormat

PROTOBUF = ProtobufFormat()
HEAD = 'syntax = "proto3"; package p; '
TWO = 'syntax = "proto2"; package p; '
LINE = "message Line { int32 x = 1; } "

# what it is about, the reader's file, the writer's file, why not (None: it fits)
CASES = [
    ("the same", HEAD + "message M { int32 a = 1; }", HEAD + "message M { int32 a = 1; }", None),
    ("a field comes", HEAD + "message M { int32 a = 1; int32 b = 2; }", HEAD + "message M { int32 a = 1; }", None),
    ("a field goes", HEAD + "message M { }", HEAD + "message M { int32 a = 1; }", None),
    ("a field has another name", HEAD + "message M { int32 b = 1; }", HEAD + "message M { int32 a = 1; }", None),
    ("a field has another number", HEAD + "message M { int32 a = 2; }", HEAD + "message M { int32 a = 1; }", None),
    ("int32 to int64", HEAD + "message M { int64 a = 1; }", HEAD + "message M { int32 a = 1; }", None),
    ("bool to uint64", HEAD + "message M { uint64 a = 1; }", HEAD + "message M { bool a = 1; }", None),
    ("sint32 to sint64", HEAD + "message M { sint64 a = 1; }", HEAD + "message M { sint32 a = 1; }", None),
    (
        "sint32 to int32",
        HEAD + "message M { int32 a = 1; }",
        HEAD + "message M { sint32 a = 1; }",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    ("string to bytes", HEAD + "message M { bytes a = 1; }", HEAD + "message M { string a = 1; }", None),
    ("fixed32 to sfixed32", HEAD + "message M { sfixed32 a = 1; }", HEAD + "message M { fixed32 a = 1; }", None),
    (
        "fixed32 to fixed64",
        HEAD + "message M { fixed64 a = 1; }",
        HEAD + "message M { fixed32 a = 1; }",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "int32 to string",
        HEAD + "message M { string a = 1; }",
        HEAD + "message M { int32 a = 1; }",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "float to double",
        HEAD + "message M { double a = 1; }",
        HEAD + "message M { float a = 1; }",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "an enum becomes a number",
        HEAD + "message M { int32 a = 1; } enum E { Z = 0; }",
        HEAD + "message M { E a = 1; } enum E { Z = 0; }",
        None,
    ),
    (
        "values of an enum come and go",
        HEAD + "message M { E a = 1; } enum E { Z = 0; B = 2; }",
        HEAD + "message M { E a = 1; } enum E { Z = 0; A = 1; }",
        None,
    ),
    ("an enum goes", HEAD + "message M { }", HEAD + "message M { } enum E { Z = 0; }", None),
    (
        "a number becomes a message",
        HEAD + LINE + "message M { Line a = 1; }",
        HEAD + LINE + "message M { int32 a = 1; }",
        "FIELD_KIND_CHANGED",
    ),
    (
        "another message",
        HEAD + LINE + "message O { } message M { O a = 1; }",
        HEAD + LINE + "message O { } message M { Line a = 1; }",
        "FIELD_NAMED_TYPE_CHANGED",
    ),
    (
        "the message of a field changed",
        HEAD + "message M { Line a = 1; } message Line { string x = 1; }",
        HEAD + LINE + "message M { Line a = 1; }",
        "FIELD_NAMED_TYPE_CHANGED",
    ),
    ("a message comes", HEAD + LINE + "message M { }", HEAD + "message M { }", None),
    ("a message goes", HEAD + "message M { }", HEAD + LINE + "message M { }", "MESSAGE_REMOVED"),
    ("messages in another order", HEAD + "message M { } " + LINE, HEAD + LINE + "message M { }", None),
    ("a nested message goes", HEAD + "message M { }", HEAD + "message M { message N { } }", "MESSAGE_REMOVED"),
    (
        "a nested message changes",
        HEAD + "message M { message N { string x = 1; } }",
        HEAD + "message M { message N { int32 x = 1; } }",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    ("another package", 'syntax = "proto3"; package q; message M { }', HEAD + "message M { }", "PACKAGE_CHANGED"),
    (
        "a required field comes",
        TWO + "message M { required int32 a = 1; }",
        TWO + "message M { }",
        "REQUIRED_FIELD_ADDED",
    ),
    (
        "a required field goes",
        TWO + "message M { }",
        TWO + "message M { required int32 a = 1; }",
        "REQUIRED_FIELD_REMOVED",
    ),
    ("an optional field comes", TWO + "message M { optional int32 a = 1; }", TWO + "message M { }", None),
    (
        "text becomes repeated",
        HEAD + "message M { repeated string a = 1; }",
        HEAD + "message M { string a = 1; }",
        None,
    ),
    (
        "a number becomes repeated",
        HEAD + "message M { repeated int32 a = 1; }",
        HEAD + "message M { int32 a = 1; }",
        "FIELD_NUMERIC_LABEL_CHANGED",
    ),
    (
        "proto3 optional",
        HEAD + "message M { optional int32 a = 1; optional int32 b = 2; }",
        HEAD + "message M { int32 a = 1; int32 b = 2; }",
        None,
    ),
    ("a oneof comes", HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }", HEAD + "message M { }", None),
    (
        "one field moves into a oneof",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        HEAD + "message M { int32 a = 1; }",
        None,
    ),
    (
        "two fields move into a oneof",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        HEAD + "message M { int32 a = 1; int32 b = 2; }",
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
    ),
    (
        "a field moves into a oneof that was there",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        HEAD + "message M { int32 a = 1; oneof o { int32 b = 2; } }",
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    (
        "a oneof grows",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        HEAD + "message M { oneof o { int32 a = 1; } }",
        None,
    ),
    (
        "a oneof shrinks",
        HEAD + "message M { oneof o { int32 a = 1; } }",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        "ONEOF_FIELD_REMOVED",
    ),
    (
        "a field moves from one oneof to another",
        HEAD + "message M { oneof o { int32 a = 1; } oneof p { int32 b = 2; int32 c = 3; } }",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } oneof p { int32 c = 3; } }",
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    (
        "two oneofs become a new one",
        HEAD + "message M { oneof q { int32 a = 1; int32 b = 2; } }",
        HEAD + "message M { oneof o { int32 a = 1; } oneof p { int32 b = 2; } }",
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    (
        "a oneof has another name",
        HEAD + "message M { oneof p { int32 a = 1; int32 b = 2; int32 c = 3; } }",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        None,
    ),
    (
        "a oneof has another name and a field less",
        HEAD + "message M { oneof p { int32 a = 1; } }",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        "ONEOF_FIELD_REMOVED",
    ),
    (
        "a oneof and its fields go",
        HEAD + "message M { int32 c = 3; }",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } int32 c = 3; }",
        None,
    ),
    (
        "a oneof splits",
        HEAD + "message M { oneof o { int32 a = 1; } oneof p { int32 b = 2; } }",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        None,
    ),
    (
        "a field of a oneof changes",
        HEAD + "message M { oneof o { string a = 1; } }",
        HEAD + "message M { oneof o { int32 a = 1; } }",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "a oneof goes, its fields stay",
        HEAD + "message M { int32 a = 1; int32 b = 2; }",
        HEAD + "message M { oneof o { int32 a = 1; int32 b = 2; } }",
        None,
    ),
    (
        "values of a map become wider",
        HEAD + "message M { map<string, int64> a = 1; }",
        HEAD + "message M { map<string, int32> a = 1; }",
        None,
    ),
    (
        "values of a map change",
        HEAD + "message M { map<string, string> a = 1; }",
        HEAD + "message M { map<string, int32> a = 1; }",
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (
        "a map becomes a message",
        HEAD + LINE + "message M { repeated Line a = 1; }",
        HEAD + LINE + "message M { map<string, int32> a = 1; }",
        "FIELD_KIND_CHANGED",
    ),
    (
        "a message inside itself",
        HEAD + "message M { M m = 1; int64 a = 2; }",
        HEAD + "message M { M m = 1; int32 a = 2; }",
        None,
    ),
]


@pytest.mark.parametrize(("reader", "writer", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_our_rules(reader, writer, why):
    found = PROTOBUF.problems(PROTOBUF.parse(reader, {}), PROTOBUF.parse(writer, {}), steps())
    names = [each.name for each in found]
    assert (why in names) if why else names == []


def message_of(text, name="p.M"):
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(PROTOBUF.parse(text, {}).file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[3] is None and "int32 a = 1" in case[2]], ids=lambda case: case[0]
)
def test_what_fits_is_read(case):
    written = message_of(case[2])(a=7)
    read = message_of(case[1]).FromString(written.SerializeToString())
    assert getattr(read, "a", getattr(read, "b", 7)) in (7, 0)


def test_a_type_of_a_reference_is_compared():
    user = HEAD + 'import "line.proto"; message M { Line a = 1; }'
    before, after = (HEAD + f"message Line {{ {kind} x = 1; }}" for kind in ("int32", "string"))
    old, new = (PROTOBUF.parse(user, {"line.proto": each}) for each in (before, after))
    assert [each.name for each in PROTOBUF.problems(new, old, steps())] == ["FIELD_NAMED_TYPE_CHANGED"]
    assert PROTOBUF.problems(old, old, steps()) == []


def test_a_type_may_move_between_packages_if_it_keeps_its_name():
    """Also into a file that has no package."""
    with_import = 'syntax = "proto3"; import "line.proto"; message M { q.Line a = 1; }'
    old = PROTOBUF.parse(with_import, {"line.proto": 'syntax = "proto3"; package q; message Line { int32 x = 1; }'})
    new = PROTOBUF.parse('syntax = "proto3"; message M { Line a = 1; } message Line { int32 x = 1; }', {})
    assert PROTOBUF.problems(new, old, steps()) == []
    assert [each.name for each in PROTOBUF.problems(old, new, steps())] == ["MESSAGE_REMOVED"]
