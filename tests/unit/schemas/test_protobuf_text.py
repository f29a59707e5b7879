"""A .proto file is read into protobuf's own descriptors and written again; what is none is refused with its line."""

import base64

import pytest

pytest.importorskip("google.protobuf")
from google.protobuf import descriptor_pb2, timestamp_pb2

from ottla.schemas.model import InvalidSchema
from ottla.schemas.protobuf.format import ProtobufFormat
from ottla.schemas.protobuf.parser import parse_proto
from ottla.schemas.protobuf.printer import printed
from ottla.schemas.protobuf.tokens import quoted, string_bytes

PROTOBUF = ProtobufFormat()
WHOLE = """
// a comment; with signs {
syntax = "proto3";
package a.b;
import "google/protobuf/timestamp.proto";
import public "other.proto";
option java_package = "x.y";
option optimize_for = SPEED;
/* another
   one */
message M {
  reserved 5, 7 to 9, 100 to max;
  reserved "foo", 'bar';
  option deprecated = true;
  int32 id = 1 [deprecated = true, json_name = "ID"];
  optional string name = 2;
  repeated M kids = 3;
  map<string, Inner> by_name = 4;
  oneof pick { string s = 10; E e = 11; }
  enum E { option allow_alias = true; Z = 0; ONE = 1; UNO = 0x1; MINUS = -1; reserved 3 to 5; }
  message Inner { google.protobuf.Timestamp at = 1; }
  other.O o = 12 [(custom.thing).x = { a: 1 b: "q" }];
  message message { }
  message option = 013;
}
service S {
  rpc Get(M) returns (stream M) { option deprecated = true; }
  rpc Put(stream M) returns (M);
}
"""
OTHER = """
syntax = "proto2"; package other;
message O {
  required int32 a = 1 [default = -7];
  optional bytes d = 2 [default = "a\\001\\xff"];
  optional string q = 3 [default = "x\\"y"];
  optional double n = 4 [default = nan];
  repeated int32 packed = 5 [packed = true];
  extensions 100 to 200;
}
extend O { optional int32 ext = 101; }
"""
KNOWN = {"other.proto": OTHER}


def test_what_is_read_is_what_protoc_would_make():
    file = parse_proto(WHOLE, "whole.proto")
    message = file.message_type[0]
    assert [(each.name, each.number) for each in message.field][:3] == [("id", 1), ("name", 2), ("kids", 3)]
    assert (message.field[0].json_name, message.field[0].options.deprecated) == ("ID", True)
    assert [each.name for each in message.oneof_decl] == ["pick", "_name"]
    assert message.field[1].proto3_optional
    assert [(each.start, each.end) for each in message.reserved_range] == [(5, 6), (7, 10), (100, 536_870_912)]
    assert [each.name for each in message.nested_type] == ["ByNameEntry", "Inner", "message"]
    assert [(each.name, each.number) for each in message.enum_type[0].value][2:] == [("UNO", 1), ("MINUS", -1)]
    assert (message.field[-1].name, message.field[-1].type_name, message.field[-1].number) == ("option", "message", 11)
    assert file.options.optimize_for == descriptor_pb2.FileOptions.SPEED
    assert [each.server_streaming for each in file.service[0].method] == [True, False]


@pytest.mark.parametrize(
    ("text", "known"), [(WHOLE.replace("013", "13"), KNOWN), (OTHER, {})], ids=["proto3", "proto2"]
)
def test_what_is_written_is_read_as_the_same(text, known):
    parsed = PROTOBUF.parse(text, known)
    again = PROTOBUF.parse(printed(parsed.file), known)
    assert again.file == parsed.file
    assert PROTOBUF.normalized(again) == PROTOBUF.normalized(parsed)


def test_a_descriptor_in_base64_is_the_same_file():
    parsed = PROTOBUF.parse(OTHER, {})
    sent = PROTOBUF.parse(parsed.serialized, {})
    assert sent.file == parsed.file
    assert PROTOBUF.canonical(sent) == printed(parsed.file)


def test_a_file_that_a_library_made_is_written_and_read():
    text = printed(descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb))
    assert PROTOBUF.parse(text, {}).file.message_type[0].name == "Timestamp"
    whole = printed(descriptor_pb2.FileDescriptorProto.FromString(descriptor_pb2.DESCRIPTOR.serialized_pb))
    assert len(parse_proto(whole, "d.proto").message_type) == len(descriptor_pb2.DESCRIPTOR.message_types_by_name)


def test_comments_and_spaces_do_not_matter_and_are_kept():
    text = 'syntax = "proto3"; // why\nmessage M { }'
    assert PROTOBUF.canonical(PROTOBUF.parse(text, {})) == text + "\n"
    assert PROTOBUF.identity(text) == PROTOBUF.identity('syntax="proto3";message M{}')
    assert PROTOBUF.identity(text) == PROTOBUF.identity('/**/syntax /* a\n * b **/ ="proto3";/***/message M{}')
    assert PROTOBUF.identity(text) != PROTOBUF.identity('syntax="proto3";message N{}')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("message M {", "ends too early"),
        ('syntax = "proto4";', "proto4"),
        ('edition = "2023";', "editions"),
        ("what M { }", "no statement"),
        ('syntax = "proto3";\nmessage M {\n int32 a = x; }', "line 3"),
        ('syntax = "proto3"; message M { Unknown a = 1; }', "Unknown"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "linked"),
        ('syntax = "proto3"; message M { int32 a = 19000; } # no', "no Protobuf"),
        ('syntax = "proto3"; import "missing.proto";', r"missing\.proto"),
        ('syntax = "proto3"; import "schema.proto";', "itself"),
        ("message M { int32 a = 1; }", "optional, required or repeated"),
        ("message M { optional group G = 1 { } }", "groups"),
        ("message M { " * 100, "nested"),
        ('syntax = "proto3";\n\n/*/ message M { }', "line 3: the comment that begins here has no end"),
        ("AAAA", "neither"),
    ],
)
def test_what_is_none_is_refused_in_words(text, words):
    with pytest.raises(InvalidSchema, match=words):
        PROTOBUF.parse(text, {})


@pytest.mark.parametrize("content", [b"", b'a"b\\c', b"\x00\xff\n", "ä".encode(), b"\r\t"])
def test_strings_are_written_and_read(content):
    assert string_bytes(quoted(content)) == content


def test_files_that_everybody_knows_need_no_reference():
    text = 'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal d = 1; }'
    assert list(PROTOBUF.parse(text, {}).files) == ["confluent/type/decimal.proto"]
    meta = """syntax = "proto3"; import "confluent/meta.proto";
              message M { string s = 1 [(confluent.field_meta).tags = "PII"]; }"""
    assert base64.b64decode(PROTOBUF.parse(meta, {}).serialized)
