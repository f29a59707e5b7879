"""Texts of JSON objects as columns: which are plain, what their values are, and that both twins say the same."""

from __future__ import annotations

import json
import struct
from array import array

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.schemas.arrow import json_columns
from ottla.schemas.arrow.json_columns import DEPTH_MAX, NUMBER_BYTES_MAX, TEXT_BYTES_MAX, JsonField, JsonKind

try:
    from ottla.schemas.arrow import _json_columns as native
except ImportError:
    native = None

FIELDS = [
    JsonField("id", JsonKind.INT64),
    JsonField("small", JsonKind.INT8),
    JsonField("user", JsonKind.STRING),
    JsonField("ok", JsonKind.BOOLEAN),
    JsonField("at", JsonKind.TIMESTAMP),
    JsonField("day", JsonKind.DATE),
    JsonField("ratio", JsonKind.DOUBLE),
    JsonField("tags", JsonKind.LIST, (JsonField("item", JsonKind.STRING),)),
    JsonField(
        "place",
        JsonKind.STRUCT,
        (JsonField("x", JsonKind.INT32), JsonField("list", JsonKind.LIST, (JsonField("item", JsonKind.INT16),))),
    ),
    JsonField("é", JsonKind.OTHER),
]
NAMES = [field.name for field in FIELDS]


@pytest.fixture(params=["python", "native"])
def twin(request):
    if request.param == "python":
        return json_columns
    if native is None:
        pytest.skip("ottla.schemas.arrow._json_columns is not built: that needs a C compiler")
    return native


def column_of(texts):
    data = b"".join(text or b"" for text in texts)
    ends = array("i", [0])
    for text in texts:
        ends.append(ends[-1] + len(text or b""))
    valid = sum(1 << row for row, text in enumerate(texts) if text is not None)
    return ends.tobytes(), data, valid.to_bytes(len(texts) // 8 + 1, "little")


def read(twin, texts, fields=FIELDS):
    ends, data, valid = column_of(texts)
    return twin.JsonColumns(fields).read(len(texts), ends, data, valid)


def values(column, field):
    """A column as Python values."""
    bits = column.validity
    there = [bits is None or bits[row >> 3] >> (row & 7) & 1 for row in range(column.row_count)]
    ends = array("i", bytes(column.offsets))
    data = bytes(column.data)
    match field.kind:
        case JsonKind.STRUCT:
            inner = [values(child, each) for child, each in zip(column.children, field.children, strict=True)]
            names = [each.name for each in field.children]
            found = [dict(zip(names, row, strict=True)) for row in zip(*inner, strict=True)]
        case JsonKind.LIST:
            items = values(column.children[0], field.children[0])
            found = [items[ends[row] : ends[row + 1]] for row in range(column.row_count)]
        case JsonKind.STRING:
            found = [data[ends[row] : ends[row + 1]].decode() for row in range(column.row_count)]
        case JsonKind.BOOLEAN:
            found = [bool(data[row >> 3] >> (row & 7) & 1) for row in range(column.row_count)]
        case JsonKind.OTHER:
            found = [None] * column.row_count
        case _:
            found = list(array(json_columns.CODES[field.kind], data))
    return [value if is_there else None for value, is_there in zip(found, there, strict=True)]


def rows(twin, texts, fields=FIELDS):
    return values(read(twin, texts, fields), JsonField("", JsonKind.STRUCT, tuple(fields)))


def one(twin, text):
    """The fields that the text has; None if it is not plain."""
    (row,) = rows(twin, [text.encode() if isinstance(text, str) else text])
    return row and {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", {}),
        (' \t\r\n{ "id" : 1 }\n', {"id": 1}),
        ('{"id":-9223372036854775808,"small":127}', {"id": -(2**63), "small": 127}),
        ('{"id":null,"user":null,"place":null,"tags":null,"é":null}', {}),
        ('{"id":-0}', {"id": 0}),
        ('{"user":"aé\\n\\u00e9\\ud83d\\ude00\\/"}', {"user": "aé\né\U0001f600/"}),
        ('{"\\u0069d":3}', {"id": 3}),
        ('{"ok":true}', {"ok": True}),
        ('{"ok":false}', {"ok": False}),
        ('{"ratio":0.1}', {"ratio": 0.1}),
        ('{"ratio":-1.5e3}', {"ratio": -1500.0}),
        ('{"ratio":17976931348623157e292}', {"ratio": 1.7976931348623157e308}),
        ('{"ratio":3}', {"ratio": 3.0}),
        ('{"ratio":0.30000000000000004}', {"ratio": 0.30000000000000004}),
        ('{"ratio":123456789012345678901234567890}', {"ratio": 1.2345678901234568e29}),
        ('{"day":"1970-01-02"}', {"day": 1}),
        ('{"day":"2000-02-29"}', {"day": 11016}),
        ('{"day":"1900-01-01"}', {"day": -25567}),
        ('{"day":"9999-12-31"}', {"day": 2932896}),
        ('{"at":"1970-01-01T00:00:01Z"}', {"at": 1_000_000}),
        ('{"at":"1970-01-01 02:00:00.5+02:00"}', {"at": 500_000}),
        ('{"at":"1969-12-31T23:59:59.999999-00:00"}', {"at": -1}),
        ('{"tags":["a",null,"b"]}', {"tags": ["a", None, "b"]}),
        ('{"place":{"x":1,"list":[1,2]}}', {"place": {"x": 1, "list": [1, 2]}}),
        ('{"tags":[],"place":{}}', {"tags": [], "place": {"x": None, "list": None}}),
        ('{"other":[{"a":[1,"\\\\u",{}]},true,false,null,1e5,"x"],"id":5}', {"id": 5}),
    ],
)  # fmt: skip
def test_plain_texts_become_values(twin, text, found):
    assert one(twin, text) == found


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "null", "[]", '"a"', "1", "{", "}",
        '{"id":1', '{"id":1}}', '{"id":1} x', '{"id":1}{"id":2}', '{"id":1,}',
        '{,"id":1}', "{id:1}", "{'id':1}", '{"id" 1}', '{"id":1 "ok":true}', '{"id":01}', '{"id":+1}', '{"id":1.}',
        '{"id":1.0}', '{"id":1e2}', '{"id":"1"}', '{"id":true}', '{"id":9223372036854775808}', '{"small":128}',
        '{"small":-129}', '{"id":99999999999999999999}', '{"id":1,"id":1}', '{"id":null,"id":null}', '{"id":-}',
        '{"user":1}', '{"user":{}}', '{"user":"a', '{"user":"\n"}', '{"user":"\\x"}', '{"user":"\\u12"}',
        '{"user":"\\ud800"}', '{"user":"\\udc00\\ud800"}', '{"user":"\\ud800\\n"}', '{"other":"\\udfff"}',
        '{"\\ud800":1}', '{"ok":1}', '{"ok":"true"}', '{"ok":True}', '{"ratio":"1"}', '{"ratio":NaN}', '{"other":NaN}',
        '{"ratio":Infinity}', '{"ratio":1e999}', '{"ratio":-0}', '{"ratio":.5}', '{"ratio":1e}', '{"day":"1899-12-31"}',
        '{"day":"2001-02-29"}', '{"day":"2100-02-29"}', '{"day":"2026-13-01"}', '{"day":"2026-00-01"}',
        '{"day":"2026-1-01"}', '{"day":"2026-01-01T"}', '{"day":20260101}', '{"day":"2026-01-0\\u0031x"}',
        '{"at":"2026-01-01T00:00:00"}', '{"at":"2026-01-01T24:00:00Z"}', '{"at":"2026-01-01T00:60:00Z"}',
        '{"at":"2026-01-01T00:00:60Z"}', '{"at":"2026-01-01T00:00:00.Z"}', '{"at":"2026-01-01T00:00:00.1234567Z"}',
        '{"at":"2026-01-01T00:00:00+15:00"}', '{"at":"2026-01-01T00:00:00+1:00"}', '{"at":"2026-01-01T00:00:00z"}',
        '{"at":"2026-01-01t00:00:00Z"}', '{"at":1}', '{"tags":"a"}', '{"tags":[1]}', '{"tags":["a",]}', '{"tags":{}}',
        '{"tags":["a"', '{"place":[]}', '{"place":{"x":1,"x":2}}', '{"place":{"x":1.5}}', '{"é":1}', '{"é":"a"}',
        '{"other":01}', '{"other":[1,]}', '{"other":{"a"}}', '{"other":tru}', '{"other":"\t"}', "\ufeff{}", "{}\x00",
        '{"id":\u00a01}',
    ],
)  # fmt: skip
def test_what_readers_may_read_otherwise_is_not_plain(twin, text):
    assert one(twin, text) is None


@pytest.mark.parametrize(
    "bytes_",
    [
        b"\xff",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\xaf",
        b"\xf4\x90\x80\x80",
        b"\xc3",
        b"\x80",
    ],
)
def test_bytes_that_are_no_utf8_are_not_plain_wherever_they_stand(twin, bytes_):
    assert one(twin, b'{"user":"' + bytes_ + b'"}') is None
    assert one(twin, b'{"other":"' + bytes_ + b'"}') is None
    assert one(twin, b'{"' + bytes_ + b'":1}') is None
    assert one(twin, b'{"user":"12345678' + bytes_ + b'"}') is None


def test_limits_are_the_same(twin):
    assert one(twin, f'{{"user":"{"a" * (TEXT_BYTES_MAX - 11)}"}}') is not None
    assert one(twin, f'{{"user":"{"a" * (TEXT_BYTES_MAX - 10)}"}}') is None
    nested = DEPTH_MAX - 1
    assert one(twin, f'{{"id":1,"other":{"[" * nested}{"]" * nested}}}') == {"id": 1}
    assert one(twin, f'{{"id":1,"other":{"[" * (nested + 1)}{"]" * (nested + 1)}}}') is None
    assert one(twin, f'{{"id":1,"other":{"[" * 20_000}') is None
    assert one(twin, f'{{"other":{"1" * NUMBER_BYTES_MAX}}}') == {}
    assert one(twin, f'{{"other":{"1" * (NUMBER_BYTES_MAX + 1)}}}') is None


def test_a_text_that_is_not_plain_leaves_its_neighbours_alone(twin):
    texts = [
        b'{"id":1,"user":"a","tags":["x"]}',
        b'{"id":2,"user":"b","tags":["y","z"],"place":{"x":1,"list":[1,',
        None,
    ]
    texts += [b'{"id":3,"user":"c","tags":["w"]}', b"no"]
    found = rows(twin, texts)
    assert [row and (row["id"], row["user"], row["tags"]) for row in found] == [
        (1, "a", ["x"]), None, None, (3, "c", ["w"]), None,
    ]  # fmt: skip


def test_a_part_of_a_column_is_read(twin):
    ends, data, valid = column_of([b"{", b'{"id":1}', None, b'{"id":2}'])
    reader = twin.JsonColumns(FIELDS[:1])
    root = JsonField("", JsonKind.STRUCT, tuple(FIELDS[:1]))
    assert values(reader.read(2, ends, data, valid, 2), root) == [None, {"id": 2}]
    assert values(reader.read(2, ends, data, None, 0), root) == [None, {"id": 1}]
    assert values(reader.read(0, ends, data), root) == []


def test_buffers_that_are_too_short_are_refused():
    if native is None:
        pytest.skip("ottla.schemas.arrow._json_columns is not built: that needs a C compiler")
    ends, data, _ = column_of([b"{}", b"{}"])
    reader = native.JsonColumns(FIELDS)
    for arguments in ((3, ends, data), (2, ends, data[:3]), (2, ends, data, b""), (1, struct.pack("ii", 2, 0), data)):
        with pytest.raises(ValueError, match=r"fewer rows|not in the data"):
            reader.read(*arguments)


def test_fields_may_be_many(twin):
    fields = [JsonField(f"f{number}", JsonKind.INT32) for number in range(200)]
    text = json.dumps({field.name: number for number, field in reversed(list(enumerate(fields)))})
    assert rows(twin, [text.encode()], fields) == [{field.name: number for number, field in enumerate(fields)}]


def test_a_strict_reader_leaves_what_has_more_than_its_fields(twin):
    place = JsonField("place", JsonKind.STRUCT, (JsonField("x", JsonKind.INT32),))
    fields = [JsonField("id", JsonKind.INT64), place]
    texts = [
        b'{"id":1,"other":null}', b'{"id":1,"other":0}', b'{"place":{"x":1}}', b'{"place":{"y":1}}', b'{"o":{}}', b"{}",
    ]  # fmt: skip
    ends, data, valid = column_of(texts)
    found = twin.JsonColumns(fields, is_strict=True).read(len(texts), ends, data, valid)
    root = JsonField("", JsonKind.STRUCT, tuple(fields))
    there = [row is not None for row in values(found, root)]
    assert there == [True, False, True, False, False, True]


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.integers(-200, 200),
    st.sampled_from(["2026-11-19T08:00:00Z", "2026-02-29", "2024-02-29", "1969-07-20 20:17:40.25-04:00", "-0", "é"]),
    st.datetimes().map(lambda moment: f"{moment.isoformat()}Z"), st.dates().map(str),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "x", "list"]), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from([*NAMES, "other"]), VALUES)
TEXTS = OBJECTS.flatmap(
    lambda value: st.sampled_from(
        [json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=1), json.dumps(value)[:-1]]
    )
).map(lambda text: text.encode("utf-8", "surrogatepass"))
PIECES = st.lists(
    st.sampled_from(
        [b"{", b"}", b"[", b"]", b",", b":", b'"', b'"id"', b'"user":"', b'"tags":[', b'"place":{', b'"x":', b"1", b"-",
         b".", b"e", b"0", b"null", b"true", b"\\", b"\\u", b"d83d", b" ", b"\n", b"\xc3\xa9", b"\xff", b'"ratio":',
         b'"at":"2026-01-01T00:00:00', b"Z", b'"day":"2024-02-29"']
    ),
    max_size=14,
).map(b"".join)  # fmt: skip


@given(st.lists(st.one_of(st.none(), TEXTS, PIECES, st.binary(max_size=20)), max_size=12))
@example([b'{"ratio":-0.0}', b'{"ratio":5e-324}', b'{"ratio":0e500}', b'{"ratio":1e23}'])
def test_both_twins_say_the_same(texts):
    if native is None:
        pytest.skip("ottla.schemas.arrow._json_columns is not built: that needs a C compiler")
    assert read(native, texts) == read(json_columns, texts)
    ends, data, valid = column_of(texts)
    strict = [each.JsonColumns(FIELDS, is_strict=True) for each in (native, json_columns)]
    assert strict[0].read(len(texts), ends, data, valid) == strict[1].read(len(texts), ends, data, valid)
