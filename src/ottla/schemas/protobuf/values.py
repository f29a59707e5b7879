"""Messages of Protobuf as plain values, and back.

    reader_of(message)(value)      a dict of all fields: those that may be missing and are, are None
    fill(value, {...})             the message, with the fields that a dict has

1. An enum is its name, a number without a name is its digits. google.protobuf.Timestamp and Duration are a datetime and
   a timedelta, wrappers (google.protobuf.StringValue, ...) what they wrap; unsigned numbers of 64 bits are decimals if
   `unsigned` says so. Maps are pairs, or what `maps` makes of pairs.
2. In the other direction None is not written, and a name that no field has is an error, not a loss.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

ENUM: Final = 14
REPEATED: Final = 3
UNSIGNED: Final = (4, 6)
TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Convert = Callable[[Any], Any]


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def is_repeated(field: Any) -> bool:
    found = getattr(field, "is_repeated", None)  # older releases of protobuf know labels only
    return bool(field.label == REPEATED if found is None else found)


# -- from messages -----------------------------------------------------------------------------------------------------


def reader_of(message: Any, *, maps: Convert = list, unsigned: Convert = Decimal) -> Convert:
    """A function that makes a dict of a message."""
    return _Readers(maps, unsigned).of(message)


class _Readers:
    def __init__(self, maps: Convert, unsigned: Convert) -> None:
        self._maps = maps
        self._unsigned = unsigned
        self._known: dict[str, Convert] = {}

    def of(self, message: Any) -> Convert:
        """A message may contain itself: its function is known before those of its fields are."""
        if message.full_name in self._known:
            return self._known[message.full_name]
        fields: list[tuple[str, Convert, bool]] = []

        def read(value: Any) -> dict[str, Any]:
            return {
                name: convert(getattr(value, name)) if not may_miss or value.HasField(name) else None
                for name, convert, may_miss in fields
            }

        self._known[message.full_name] = read
        fields.extend((each.name, self._field(each), each.has_presence) for each in message.fields)
        return read

    def _field(self, field: Any) -> Convert:
        if is_map(field):
            key, value = (self._single(each) for each in field.message_type.fields)
            return lambda found: self._maps([(key(name), value(found[name])) for name in found])
        single = self._single(field)
        return (lambda found: [single(each) for each in found]) if is_repeated(field) else single

    def _single(self, field: Any) -> Convert:
        if field.message_type is not None:
            return self._message(field.message_type)
        if field.type == ENUM:
            names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
            return lambda found: names.get(found, str(found))
        return self._unsigned if field.type in UNSIGNED else _same

    def _message(self, message: Any) -> Convert:
        name = message.full_name
        if name == TIMESTAMP:
            return _time_of
        if name == DURATION:
            return lambda found: datetime.timedelta(seconds=found.seconds, microseconds=found.nanos // 1000)
        if name in WRAPPERS:
            inner = self._single(message.fields[0])
            return lambda found: inner(found.value)
        return self.of(message)


def _same(found: Any) -> Any:
    return found


def _time_of(found: Any) -> datetime.datetime:
    return EPOCH + datetime.timedelta(seconds=found.seconds, microseconds=found.nanos // 1000)


# -- to messages -------------------------------------------------------------------------------------------------------


def fill(message: Any, values: dict[str, Any]) -> Any:
    """The message, with the fields that these values have."""
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        if name not in fields:
            raise ValueError(f"{message.DESCRIPTOR.full_name} has no field {name!r}")
        if value is not None:
            _fill_field(message, fields[name], value)
    return message


def _fill_field(message: Any, field: Any, value: Any) -> None:
    place = getattr(message, field.name)
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        for key, each in value.items() if isinstance(value, dict) else value:
            if inner.message_type is None:
                place[key] = _scalar(inner, each)
            else:
                _fill_message(place[key], each)
    elif is_repeated(field):
        for each in value:
            if field.message_type is None:
                place.append(_scalar(field, each))
            else:
                _fill_message(place.add(), each)
    elif field.message_type is None:
        setattr(message, field.name, _scalar(field, value))
    else:
        place.SetInParent()
        _fill_message(place, value)


def _fill_message(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name == TIMESTAMP:
        when = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        passed = when - EPOCH
        message.seconds, message.nanos = passed.days * 86_400 + passed.seconds, passed.microseconds * 1000
    elif name == DURATION:
        message.FromTimedelta(value)
    elif name in WRAPPERS:
        message.value = _scalar(message.DESCRIPTOR.fields[0], value)
    else:
        fill(message, value)


def _scalar(field: Any, value: Any) -> Any:
    if field.type == ENUM and isinstance(value, str):
        found = field.enum_type.values_by_name.get(value)
        if found is None and not value.lstrip("-").isdigit():
            raise ValueError(f"{field.enum_type.full_name} has no value {value!r}")
        return int(value) if found is None else found.number
    return int(value) if isinstance(value, Decimal) else value
