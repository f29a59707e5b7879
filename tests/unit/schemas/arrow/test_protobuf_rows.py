"""Messages of Protobuf as columns: the library judges what they are, both twins agree, odd ones are left to it."""

import datetime
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native import is_built
from ottla.schemas.arrow import protobuf_columns
from ottla.schemas.arrow.decoded import decode_each
from ottla.schemas.arrow.protobuf_columns import ENUM_MAX, ProtobufPlan
from ottla.schemas.arrow.protobuf_rows import ProtobufRows, message_of
from ottla.schemas.arrow.protobuf_types import arrow_type
from ottla.schemas.model import WholeSchema
from ottla.schemas.protobuf.messages import class_of
from ottla.schemas.protobuf.values import fill

LEAF = "ottla.schemas.arrow._protobuf_columns"
if is_built(LEAF):
    from ottla.schemas.arrow import _protobuf_columns as native
else:
    native = None
TWINS = [twin for twin in (protobuf_columns, native) if twin is not None]

EVERYTHING = """syntax = "proto3"; package all;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Colour { RED = 0; BLUE = 1; GREEN = 7; FAR = 5000; BELOW = -1; }
message Inner { string city = 1; repeated sint64 steps = 2; Colour colour = 3; }
message Empty { }
message M {
  bool flag = 1; string word = 2; bytes raw = 3; double d = 4; float f = 5; sint32 s32 = 6; uint32 u32 = 7;
  fixed64 f64 = 8; Colour colour = 9; Inner inner = 10; repeated Inner many = 11; map<string, Inner> places = 12;
  repeated int32 numbers = 13; google.protobuf.Timestamp at = 14; google.protobuf.Duration took = 15;
  google.protobuf.StringValue note = 16; optional int32 maybe = 17; oneof choice { string a = 18; int32 b = 19; }
  int64 i64 = 20; repeated Colour colours = 21; uint64 u64 = 22; sint64 s64 = 23; fixed32 f32 = 24; sfixed32 sf32 = 25;
  sfixed64 sf64 = 26; repeated string words = 27; repeated google.protobuf.Timestamp times = 28; Empty empty = 29;
  repeated double doubles = 30 [packed = false]; repeated google.protobuf.Duration waits = 31; int32 i32 = 2000;
}"""
NEWER = EVERYTHING.replace("message M {", "message M { string more = 99; Inner else = 100;")


def message(text, name=None):
    return message_of(WholeSchema(text, {}), name)


MESSAGE = message(EVERYTHING, "M")
WRITTEN = class_of(message(NEWER, "M"))
KIND = arrow_type(MESSAGE)
PLAN = ProtobufPlan(MESSAGE, KIND)
ROWS = ProtobufRows(MESSAGE, KIND, None)


def decode(*contents):
    """What the library reads, after the twins were seen to agree with it wherever they read at all."""
    column = pa.array(contents, pa.binary())
    expected = decode_each(column, KIND, ROWS._read)
    values = expected.column.to_pylist()
    found = [twin.ProtobufColumns(PLAN).read(column) for twin in TWINS]
    for quick in found:
        quick.validate(full=True)
        rows = quick.to_pylist()
        assert repr(rows) == repr(found[0].to_pylist())
        assert all(row is None or repr(row) == repr(value) for row, value in zip(rows, values, strict=True)), rows
    whole = ROWS.decode(column)
    assert (repr(whole.column.to_pylist()), whole.problems) == (repr(values), expected.problems)
    return found[0].to_pylist(), values


def bits(count, *, signed=True):
    return st.integers(-(1 << (count - 1)), (1 << (count - 1)) - 1) if signed else st.integers(0, (1 << count) - 1)


texts = st.text(st.characters(codec="utf-8"), max_size=6)
colours = st.sampled_from(["RED", "BLUE", "GREEN"])
moments = st.datetimes(timezones=st.just(datetime.UTC))
inner = st.fixed_dictionaries({}, optional={"city": texts, "steps": st.lists(bits(64), max_size=3), "colour": colours})
PLAIN_FIELDS = {
    "flag": st.booleans(), "word": texts, "raw": st.binary(max_size=5), "d": st.floats(allow_nan=False),
    "f": st.floats(width=32, allow_nan=False), "s32": bits(32), "u32": bits(32, signed=False),
    "f64": bits(64, signed=False), "colour": colours, "inner": inner, "many": st.lists(inner, max_size=3),
    "numbers": st.lists(bits(32), max_size=3), "at": moments, "maybe": bits(32), "a": texts, "i64": bits(64),
    "colours": st.lists(colours, max_size=3), "u64": bits(64, signed=False), "s64": bits(64),
    "f32": bits(32, signed=False), "sf32": bits(32), "sf64": bits(64), "words": st.lists(texts, max_size=3),
    "times": st.lists(moments, max_size=2), "empty": st.just({}),
    "doubles": st.lists(st.floats(allow_nan=False), max_size=3),
    "i32": bits(32), "more": texts, "else": inner,
}  # fmt: skip
ODD_FIELDS = {
    "places": st.dictionaries(texts, inner, max_size=2), "took": st.timedeltas(), "note": texts,
    "colour": st.sampled_from(["FAR", "BELOW", "77"]), "waits": st.lists(st.timedeltas(), max_size=2),
}  # fmt: skip
plain = st.fixed_dictionaries({}, optional=PLAIN_FIELDS)
odd = st.fixed_dictionaries({}, optional={**PLAIN_FIELDS, **ODD_FIELDS})


def written(values):
    return fill(WRITTEN(), values).SerializeToString()


@settings(max_examples=150)
@given(st.lists(plain, min_size=1, max_size=3))
def test_plain_messages_are_what_the_library_reads(values):
    quick, whole = decode(*map(written, values), None)
    assert repr(quick) == repr(whole)
    assert None not in quick[:-1]


@settings(max_examples=150)
@given(plain, odd)
def test_odd_messages_are_left_to_the_library(one, other):
    decode(written(one), written(other), written(one) + written(other))


@settings(max_examples=300)
@given(st.data())
def test_damaged_messages_are_what_the_library_says_and_the_neighbours_stay(data):
    good = written(data.draw(plain))
    damaged = bytearray(good or b"\0")
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged)[: data.draw(st.integers(0, len(damaged)))]
    quick, _ = decode(good, bytes(damaged), cut, good)
    assert repr(quick[0]) == repr(quick[3])
    assert quick[0] is not None


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


def tag(number, wire_type):
    return varint(number << 3 | wire_type)


@pytest.mark.parametrize(
    ("content", "is_plain"),
    [
        (b"", True),
        (tag(13, 2) + b"\2\1\2" + tag(13, 0) + b"\3", True),  # packed, and one by one
        (tag(30, 2) + b"\x08" + struct.pack("<d", 1.5), True),
        (tag(1, 0) + b"\1" + tag(1, 0) + b"\0", False),  # the last one counts
        (tag(18, 2) + b"\1x" + tag(19, 0) + b"\1", False),
        (tag(10, 2) + b"\3\x0a\1x" + tag(10, 2) + b"\2\x10\2", False),  # put together
        (tag(1, 0) + b"\2", False),
        (tag(9, 0) + b"\7", True),
        (tag(9, 0) + b"\6", False),
        (tag(2, 2) + b"\1\xff", False),
        (tag(1, 2) + b"\1\1", False),
        (tag(7, 0) + b"\xff\xff\xff\xff\x0f", True),
        (tag(7, 0) + b"\xff\xff\xff\xff\x1f", False),
        (tag(20, 0) + b"\xff" * 9 + b"\x01", True),
        (tag(20, 0) + b"\xff" * 9 + b"\x02", False),
        (tag(98, 3) + tag(98, 4), False),  # a group
        (tag(98, 0) + b"\1" + tag(98, 1) + b"8" * 8 + tag(98, 5) + b"4" * 4 + tag(98, 2) + b"\1x", True),
        (b"\0\0", False),
        (b"\7", False),
        (tag(14, 2) + b"\5\x10\xe8\x07\x18\0", True),
        (tag(14, 2) + b"\2\x08\1" + tag(14, 2) + b"\2\x10\1", False),
        (tag(14, 2) + b"\x0b\x08" + b"\xff" * 9 + b"\x01", True),  # a second before 1970
        (tag(14, 2) + b"\x0b\x10" + b"\xff" * 9 + b"\x01", False),
        (tag(16, 2) + b"\0", False),
        (tag(12, 2) + b"\0", False),
        (tag(11, 2) + b"\0" + tag(2, 2) + b"\1x" + tag(11, 2) + b"\3\x0a\1y", True),
    ],
)
def test_what_is_plain(content, is_plain):
    quick, _ = decode(content)
    assert (quick[0] is not None) is is_plain


def test_a_message_in_another_is_not_deeper_than_its_columns():
    text = 'syntax = "proto3"; ' + " ".join(f"message M{n} {{ M{n + 1} m = 1; int32 x = 2; }}" for n in range(70))
    described = message(text + " message M70 { int32 x = 1; }", "M0")
    plan = ProtobufPlan(described, arrow_type(described))

    def nested(depth):
        content = b"\x10\1"
        for _ in range(depth):
            content = tag(1, 2) + varint(len(content)) + content
        return content

    for twin in TWINS:
        found = twin.ProtobufColumns(plan).read(pa.array([nested(64), nested(65)]))
        assert found.is_valid().to_pylist() == [True, False]


def test_messages_with_required_fields_are_left_to_the_library():
    described = message('syntax = "proto2"; message M { required int32 x = 1; }')
    plan = ProtobufPlan(described, arrow_type(described))
    for twin in TWINS:
        assert twin.ProtobufColumns(plan).read(pa.array([b"", b"\x08\1"])).null_count == 2


def test_old_messages_know_what_was_written():
    fields = "optional int32 x = 1 [default = 5]; optional E e = 2; repeated E es = 3;"
    described = message(f'syntax = "proto2"; enum E {{ B = 3; A = 1; }} message M {{ {fields} }}')
    rows = ProtobufRows(described, arrow_type(described), None)
    column = pa.array([b"", b"\x08\0\x10\1\x18\3\x18\1", b"\x10\2", b"\x18\2"])
    found = rows.decode(column)
    assert found == decode_each(column, rows._kind, rows._read)
    assert found.column.to_pylist()[:2] == [{"x": None, "e": None, "es": []}, {"x": 0, "e": "A", "es": ["B", "A"]}]


@pytest.mark.parametrize("name", ["First", "Second"])
def test_framed_messages_of_one_kind_are_read_and_others_are_bad(name):
    text = (
        'syntax = "proto3"; message First { int32 x = 1; } message Second { int32 x = 1; message In { int32 x = 1; } }'
    )
    described = message(text, name)
    rows = ProtobufRows(described, arrow_type(described), lambda _: WholeSchema(text, {}))
    first, second, inside = (b"\0\0\0\0\1" + indexes + b"\x08\5" for indexes in (b"\0", b"\2\2", b"\4\2\0"))
    again = b"\0\0\0\0\2" + (b"\0" if name == "First" else b"\2\2") + b"\x08\6"
    mine, other = (first, second) if name == "First" else (second, first)
    values = [mine, None, other, b"", again, inside, b"\0\0\0\0\1", mine, b"\0\0\0\0\1\2"]
    for start in range(len(values)):
        found = rows.decode(pa.array(values, pa.binary()).slice(start))
        expected = [{"x": 5}, None, None, None, {"x": 6}, None, None, {"x": 5}, None][start:]
        assert found.column.to_pylist() == expected
        assert sorted(row + start for row in found.problems) == [row for row in (2, 3, 5, 6, 8) if row >= start]


def test_an_enum_may_have_many_names():
    names = " ".join(f"N{number} = {number};" for number in range(ENUM_MAX + 2))
    described = message(f'syntax = "proto3"; enum E {{ {names} }} message M {{ E e = 1; }}')
    rows = ProtobufRows(described, arrow_type(described), None)
    contents = [
        class_of(described)(e=number).SerializeToString() for number in (0, ENUM_MAX - 1, ENUM_MAX, ENUM_MAX + 9)
    ]
    found = rows.decode(pa.array(contents)).column.to_pylist()
    assert [value["e"] for value in found] == ["N0", f"N{ENUM_MAX - 1}", f"N{ENUM_MAX}", str(ENUM_MAX + 9)]
