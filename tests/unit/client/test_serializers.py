"""Serializers: the named ones, and every shape that people bring."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.serializers import (
    DESERIALIZERS,
    SERIALIZERS,
    SerializationContext,
    SerializationFailed,
    as_deserializer,
    as_serializer,
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(),
    "string": st.text(),
    "json": st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists),
    "short": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "uuid": st.uuids(),
}


@pytest.mark.parametrize("name", VALUES)
def test_what_goes_in_comes_out(name: str) -> None:
    @given(VALUES[name])
    def there_and_back(value: Any) -> None:
        assert DESERIALIZERS[name]("t", SERIALIZERS[name]("t", value)) == value

    there_and_back()


@pytest.mark.parametrize("name", VALUES)
def test_no_value_stays_no_value(name: str) -> None:
    assert SERIALIZERS[name]("t", None) is None
    assert DESERIALIZERS[name]("t", None) is None


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("integer", 1, b"\0\0\0\1"),
        ("long", -1, b"\xff" * 8),
        ("double", 1.0, b"\x3f\xf0" + bytes(6)),
        ("string", "ä", b"\xc3\xa4"),
    ],
)
def test_the_bytes_are_javas(name: str, value: Any, data: bytes) -> None:
    assert SERIALIZERS[name]("t", value) == data


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bytes", "x"),
        ("string", b"x"),
        ("json", {1, 2}),
        ("integer", 2**31),
        ("uuid", "x"),
        ("long", "x"),
        ("string", "\ud800"),
    ],
)
def test_a_wrong_value_is_refused_with_its_topic(name: str, value: Any) -> None:
    with pytest.raises(SerializationFailed, match="topic orders"):
        SERIALIZERS[name]("orders", value)


@pytest.mark.parametrize(("name", "data"), [("string", b"\xff"), ("json", b"{"), ("integer", b"123"), ("uuid", b"x")])
def test_wrong_bytes_are_refused_with_their_topic(name: str, data: bytes) -> None:
    with pytest.raises(SerializationFailed, match="topic orders"):
        DESERIALIZERS[name]("orders", data)


def test_without_a_serializer_bytes_and_text_are_taken() -> None:
    plain = as_serializer(None)
    assert plain("t", b"x") == b"x"
    assert plain("t", "ä") == "ä".encode()
    assert plain("t", bytearray(b"x")) == b"x"
    assert plain("t", None) is None
    with pytest.raises(SerializationFailed, match=r"value\.serializer"):
        plain("t", {"a": 1})


def test_bytes_need_no_deserializer() -> None:
    assert as_deserializer(None) is None
    assert as_deserializer("bytes") is None


def test_one_argument_is_the_value() -> None:
    assert as_serializer(lambda value: json.dumps(value).encode())("t", {"a": 1}) == b'{"a": 1}'
    assert as_serializer(str.encode)("t", "x") == b"x"
    assert as_deserializer(json.loads)("t", b"[1]") == [1]  # type: ignore[misc]


def test_two_arguments_are_topic_and_value() -> None:
    assert as_serializer(lambda topic, value: f"{topic}:{value}".encode())("t", 1) == b"t:1"


def test_an_object_with_a_method_is_kafka_pythons() -> None:
    class Both:
        def serialize(self, topic: str, value: str) -> bytes:
            return f"{topic}/{value}".encode()

        def deserialize(self, topic: str, data: bytes) -> str:
            return f"{topic}={data!r}"

    assert as_serializer(Both())("t", "v") == b"t/v"
    assert as_deserializer(Both())("t", b"v") == "t=b'v'"  # type: ignore[misc]


@pytest.mark.parametrize("field", ["key", "value"])
def test_a_second_argument_called_ctx_is_confluents(field: Any) -> None:
    seen: list[SerializationContext] = []

    class Upper:
        def __call__(self, obj: str, ctx: SerializationContext | None = None) -> bytes:
            assert ctx is not None
            seen.append(ctx)
            return obj.upper().encode()

    assert as_serializer(Upper(), field)("t", "v") == b"V"
    assert seen == [SerializationContext("t", field)]


@pytest.mark.parametrize("given", ["yaml", 7, uuid.UUID, lambda: 1, lambda a, b, c: 1])
def test_what_cannot_be_used_is_refused_at_once(given: object) -> None:
    with pytest.raises(TypeError):
        as_serializer(given)


@pytest.mark.parametrize("field", ["key", "value"])
def test_what_a_serializer_raises_names_the_topic_and_the_field_and_keeps_its_cause(field: Any) -> None:
    with pytest.raises(SerializationFailed, match=f"the {field} serializer raised KeyError for topic orders") as raised:
        as_serializer(lambda value: value["amount"], field)("orders", {})
    assert isinstance(raised.value.__cause__, KeyError)


def test_what_a_named_serializer_refuses_names_the_field() -> None:
    with pytest.raises(SerializationFailed, match="key: int for topic orders, text is wanted"):
        as_serializer("string", "key")("orders", 5)


def test_a_serializer_that_gives_no_bytes_is_told_so() -> None:
    with pytest.raises(SerializationFailed, match="the value serializer gave str for topic orders, not bytes"):
        as_serializer(lambda value: str(value))("orders", 5)
    assert as_serializer(bytearray.copy)("orders", bytearray(b"x")) == b"x"
