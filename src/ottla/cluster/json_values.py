"""Frozen values as JSON and back, by their type hints.

1. A dataclass is an object of its fields, without those that have their default; a tuple or named tuple is a list;
   bytes are base64; texts, numbers and null are themselves. What is written reads back equal.
2. Reading is strict: a field that is missing and has no default, a field that is unknown, a value of another type are
   MalformedValue with the path to it. A default fills in for what an older version did not write.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ottla.errors import OttlaError
from ottla.light_dataclasses import MISSING, fields, is_dataclass

Reader = Callable[[Any], Any]
Writer = Callable[[Any], Any]


class MalformedValue(OttlaError):
    """A stored value does not have the form that this version of Ottla knows."""


def to_json(value: Any) -> Any:
    """What json.dumps takes."""
    return writer(value.__class__)(value)


@cache
def writer(hint: Any) -> Writer:
    """The function that writes values of that type; made once, because a snapshot has ten thousands of them."""
    if is_dataclass(hint):
        return _dataclass_writer(hint)
    if hint is bytes:
        return _write_bytes
    if get_origin(hint) in (Union, UnionType):
        return _optional_writer(hint)
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _row_writer(tuple(get_type_hints(hint).values()))
    if get_origin(hint) is tuple:
        return _tuple_writer(get_args(hint))
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _optional_writer(hint: Any) -> Writer:
    write = writer(_present(hint))
    return lambda value: None if value is None else write(value)


def _tuple_writer(items: tuple[Any, ...]) -> Writer:
    if items[-1] is not Ellipsis:
        return _row_writer(items)
    write = writer(items[0])
    return list if write is _as_it_is else lambda value: [write(each) for each in value]


def _row_writer(items: tuple[Any, ...]) -> Writer:
    writers = tuple(map(writer, items))
    return lambda value: [write(each) for write, each in zip(writers, value, strict=True)]


def _dataclass_writer(of: Any) -> Writer:
    hints = get_type_hints(of)
    rows = tuple((each.name, each.default, writer(hints[each.name])) for each in fields(of))

    def write(value: Any) -> dict[str, Any]:
        return {
            name: write_field(present)
            for name, default, write_field in rows
            if (present := getattr(value, name)) != default
        }

    return write


def from_json(hint: Any, data: Any) -> Any:
    """The value of that type; MalformedValue when `data` is not one."""
    return reader(hint)(data)


@cache
def reader(hint: Any) -> Reader:
    """The function that reads values of that type."""
    if is_dataclass(hint):
        return _dataclass_reader(hint)
    if hint is bytes:
        return _read_bytes
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return lambda data: _number_of(hint, data)
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _row_reader(tuple(get_type_hints(hint).values()), hint._make)  # type: ignore[attr-defined]
    if get_origin(hint) in (Union, UnionType):
        return _optional_reader(hint)
    if get_origin(hint) is tuple:
        return _tuple_reader(get_args(hint))
    return _plain_reader(hint)


def _plain_reader(hint: Any) -> Reader:
    # JSON has one kind of number: 5 may be a float, but true is no number and 5.0 no int.
    accepted = (float, int) if hint is float else (hint,)

    def read(data: Any) -> Any:
        if type(data) is hint:
            return data
        if type(data) not in accepted:
            raise MalformedValue(f"expected {hint.__name__}, found {type(data).__name__}")
        return hint(data)

    return read


def _read_bytes(data: Any) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise MalformedValue("expected base64 text") from None


def _number_of(hint: type[IntEnum], data: Any) -> IntEnum:
    try:
        return hint(data)
    except ValueError:
        raise MalformedValue(f"{data!r} is no {hint.__name__}") from None


def _optional_reader(hint: Any) -> Reader:
    read = reader(_present(hint))
    return lambda data: None if data is None else read(data)


def _present(hint: Any) -> Any:
    return next(each for each in get_args(hint) if each is not NoneType)


def _tuple_reader(items: tuple[Any, ...]) -> Reader:
    if items[-1] is not Ellipsis:
        return _row_reader(items, tuple)
    read = reader(items[0])

    def read_all(data: Any) -> tuple[Any, ...]:
        if type(data) is not list:
            raise MalformedValue(f"expected a list, found {type(data).__name__}")
        return tuple(map(read, data))

    return read_all


def _row_reader(items: tuple[Any, ...], make: Callable[[Any], Any]) -> Reader:
    readers = tuple(map(reader, items))

    def read(data: Any) -> Any:
        if type(data) is not list or len(data) != len(readers):
            raise MalformedValue(f"expected a list of {len(readers)}")
        return make([each(item) for each, item in zip(readers, data, strict=True)])

    return read


def _dataclass_reader(of: Any) -> Reader:
    hints = get_type_hints(of)
    readers = {each.name: reader(hints[each.name]) for each in fields(of)}
    required = {each.name for each in fields(of) if each.default is MISSING}

    def read(data: Any) -> Any:
        if type(data) is not dict:
            raise MalformedValue(f"expected an object, found {type(data).__name__}")
        if not data.keys() <= readers.keys() or not required <= data.keys():
            wrong = (data.keys() - readers.keys()) | (required - data.keys())
            raise MalformedValue(f"{of.__name__} has unknown or lacks required fields: {', '.join(sorted(wrong))}")
        try:
            return of(**{name: readers[name](item) for name, item in data.items()})
        except MalformedValue:
            for name, item in data.items():
                _read_field(of, name, readers[name], item)  # again, to say where
            raise

    return read


def _read_field(of: Any, name: str, read: Reader, item: Any) -> Any:
    try:
        return read(item)
    except MalformedValue as problem:
        raise MalformedValue(f"{of.__name__}.{name}: {problem.detail}") from None
