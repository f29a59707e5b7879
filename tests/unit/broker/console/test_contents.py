"""What is shown of keys and values."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.console.contents import HEX_LIMIT_BYTES, SHOWN_LIMIT_BYTES, shown, shown_read
from ottla.broker.registry.readers import ReadRecord, SchemaReader


def test_kinds():
    assert shown(None)["kind"] == "null"
    assert shown(b"hello") == {"kind": "text", "text": "hello", "size": 5, "is_cut": False}
    assert shown(b'{"a": 1}')["kind"] == "json"
    assert shown(b"{broken")["kind"] == "text"
    assert shown("příliš".encode())["text"] == "příliš"
    assert shown(b"\xff\xfe") == {"kind": "bytes", "text": "ff fe", "is_cut": False, "size": 2}
    assert shown(b"a\x01b")["kind"] == "bytes"
    framed = shown(b"\x00\x00\x00\x00\x07\x02")
    assert (framed["kind"], framed["schema_id"], framed["text"], framed["size"]) == ("schema", 7, "02", 6)
    framed = shown(b"\x00\x00\x00\x00\x07" + b'{"a": 1}')
    assert (framed["kind"], framed["schema_id"], framed["text"], framed["size"]) == ("json", 7, '{"a": 1}', 13)


def test_a_value_nested_without_end_does_no_harm():
    value = []
    for _ in range(100_000):
        value = [value]
    found = shown_read(b"\x00\x00\x00\x00\x07[", ReadRecord(7, SchemaReader("JSON", {"t-value": 1}), value), "t-value")
    assert (found["kind"], found["problem"]) == ("schema", "it is nested too deeply to be shown")
    while value:  # taken apart, not all at once: the interpreter would recurse
        value = value.pop()


def test_what_is_long_is_cut_between_characters():
    text = "é" * SHOWN_LIMIT_BYTES
    found = shown(b"x" + text.encode())
    assert (found["kind"], found["is_cut"]) == ("text", True)
    assert ("x" + text).startswith(found["text"])
    found = shown(b"\xff" * (HEX_LIMIT_BYTES + 1))
    assert (found["is_cut"], len(found["text"])) == (True, 3 * HEX_LIMIT_BYTES - 1)


@given(st.binary(max_size=200), st.integers(1, 64))
def test_any_bytes_can_be_shown(content, limit):
    found = shown(content, limit)
    assert found["size"] == len(content)
    found["text"].encode()
