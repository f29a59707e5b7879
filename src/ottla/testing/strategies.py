"""Hypothesis strategies for messages and records, for our tests and for yours.

    @given(messages(ProduceRequest, 9))
    def test_the_broker_survives_any_produce_request(request): ...

`modest=True` keeps numbers small and positive, for comparisons with libraries that give meaning to them (an error code
must exist, a time must be a date).
"""

import math
from functools import cache
from typing import Any

from hypothesis import strategies as st

from ottla.protocol.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UUID,
    ArrayOf,
    Field,
    Message,
    Primitive,
    StructType,
    WireType,
)

_INTEGER_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
_MODEST_MAX = {"b": 100, "h": 100, "H": 100, "i": 1_000_000, "I": 1_000_000, "q": 1_000_000_000_000}
_UNKNOWN_TAG_MIN = 10_000  # far above every tag in use


@cache
def messages(message_class: type[Message], version: int, *, modest: bool = False) -> st.SearchStrategy[Any]:
    """Any message of this class that can be written at this version."""
    return _structs(message_class, version, modest, flexible=version >= message_class.flexible_since)


@cache
def records() -> st.SearchStrategy[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    """(timestamp_ms, key, value, headers) of one record."""
    small = st.none() | st.binary(max_size=40)
    headers = st.lists(st.tuples(st.text(max_size=8), small), max_size=3).map(tuple)
    return st.tuples(st.integers(0, 1 << 45), small, small, headers)


def _structs(struct_class: StructType, version: int, modest: bool, *, flexible: bool) -> st.SearchStrategy[Any]:
    parts = {
        field.name: _field(field, version, modest, flexible=flexible)
        for field in struct_class.fields
        if version in field.present
    }
    made = st.builds(struct_class, **parts)
    if not flexible or modest:
        return made
    tags = st.dictionaries(st.integers(_UNKNOWN_TAG_MIN, (1 << 31) - 1), st.binary(max_size=8), max_size=2)
    return st.builds(_with_unknown_tags, made, st.one_of(st.none(), st.none(), tags))


def _with_unknown_tags(made: Any, tags: dict[int, bytes] | None) -> Any:
    made.unknown_tags = tags or None
    return made


def _field(field: Field, version: int, modest: bool, *, flexible: bool) -> st.SearchStrategy[Any]:
    values = _values(field.type, version, modest, flexible=flexible)
    return st.none() | values if field.null_at(version) else values


def _values(wire_type: WireType, version: int, modest: bool, *, flexible: bool) -> st.SearchStrategy[Any]:
    if isinstance(wire_type, ArrayOf):
        return st.lists(_values(wire_type.element, version, modest, flexible=flexible), max_size=3)
    if isinstance(wire_type, StructType):
        return _structs(wire_type, version, modest, flexible=flexible)
    return _primitives(wire_type, modest)


@cache
def _primitives(primitive: Primitive, modest: bool) -> st.SearchStrategy[Any]:
    if primitive is BOOL:
        return st.booleans()
    if primitive is STRING:
        # Now and then long enough for a length of two bytes.
        return st.text(max_size=12) | st.integers(120, 140).map(lambda size: "s" * size)
    if primitive is BYTES or primitive is RECORDS:
        return st.binary(max_size=12) | st.integers(120, 140).map(bytes)
    if primitive is UUID:
        return st.binary(min_size=16, max_size=16)
    if primitive is FLOAT64:
        return st.floats(allow_nan=False, min_value=0 if modest else -math.inf)
    return _integers(primitive, modest)


def _integers(primitive: Primitive, modest: bool) -> st.SearchStrategy[int]:
    letter = primitive.format
    assert letter is not None
    if modest:
        return st.integers(0, _MODEST_MAX[letter])
    if letter.isupper():
        return st.integers(0, (1 << _INTEGER_BITS[letter.lower()]) - 1)
    half = 1 << (_INTEGER_BITS[letter] - 1)
    return st.integers(-half, half - 1)
