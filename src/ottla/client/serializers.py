"""Values to bytes and back: what a program may give as a serializer, and the one form it becomes.

A serializer here is called with the topic and the value and gives bytes or None, a deserializer with the topic and
the bytes. `as_serializer` and `as_deserializer` make one of whatever people bring:

    "json"                              a name of the tables below
    lambda value: ...                   one argument, as kafka-python has it
    def serialize(topic, value): ...    two arguments, the first is the topic
    object.serialize(topic, value)      kafka-python's Serializer, Java's
    object(value, ctx)                  confluent-kafka's, which wants a SerializationContext second

1. None is a value of its own on the wire (a tombstone): the named ones pass it on and never see it.
2. Numbers are big-endian and of fixed size, as Java's serializers write them; text is UTF-8.
3. Without a serializer, bytes and text are taken and everything else is refused with what to do.
4. What a serializer raises comes as SerializationFailed that names the topic and whether it was the key or the value,
   with its own error as the cause; so does what it gives when that is no bytes.
"""

from __future__ import annotations

import functools
import inspect
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

from ottla.errors import OttlaError
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    import uuid

T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)


class Serializer(Protocol[T_contra]):
    """Topic and value to bytes."""

    def __call__(self, topic: str, value: T_contra, /) -> bytes | None: ...


class Deserializer(Protocol[T_co]):
    """Topic and bytes to a value."""

    def __call__(self, topic: str, data: bytes | None, /) -> T_co: ...


class SerializationFailed(OttlaError, ValueError):
    """A key or value cannot become bytes, or bytes cannot become a value.
    Give the type that the serializer wants, or another serializer."""


class SerializationContext(NamedTuple):
    """What confluent-kafka's serializers are told besides the value."""

    topic: str
    field: Literal["key", "value"]
    headers: Any = None


# --- the named ones --------------------------------------------------------------------------------------------------


def serialize_plain(topic: str, value: object) -> bytes | None:
    """Bytes as they are, text as UTF-8: what is done when nothing was asked for."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    hint = 'give bytes, or set value.serializer, or key.serializer for a key (to "json", for example)'
    raise SerializationFailed(f"{type(value).__name__} for topic {topic} is neither bytes nor text; {hint}")


def serialize_bytes(topic: str, value: object) -> bytes | None:
    """Bytes as they are."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise SerializationFailed(f"{type(value).__name__} for topic {topic}, bytes are wanted")


def serialize_string(topic: str, value: object) -> bytes | None:
    """Text as UTF-8."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise SerializationFailed(f"{type(value).__name__} for topic {topic}, text is wanted")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise SerializationFailed(f"the text for topic {topic} is not valid Unicode: {error.reason}") from None


def serialize_json(topic: str, value: object) -> bytes | None:
    """Compact JSON as UTF-8."""
    if value is None:
        return None
    import json  # with uuid the heaviest of what a client loads, and few use them

    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise SerializationFailed(f"the value for topic {topic} is not possible in JSON: {error}") from None


def deserialize_bytes(topic: str, data: bytes | None) -> bytes | None:
    return data


def deserialize_string(topic: str, data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise SerializationFailed(f"the bytes from topic {topic} are not UTF-8 at {error.start}") from None


def deserialize_json(topic: str, data: bytes | None) -> Any:
    if data is None:
        return None
    import json

    try:
        return json.loads(data)
    except ValueError as error:
        raise SerializationFailed(f"the bytes from topic {topic} are not JSON: {error}") from None


def _number(layout: str, kind: type) -> tuple[Serializer[object], Deserializer[Any]]:
    form = struct.Struct(layout)

    def serialize(topic: str, value: object) -> bytes | None:
        if value is None:
            return None
        try:
            return form.pack(value)
        except (struct.error, OverflowError) as error:
            raise SerializationFailed(f"{type(value).__name__} for topic {topic}: {error}") from None

    def deserialize(topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        if len(data) != form.size:
            raise SerializationFailed(f"{len(data)} bytes from topic {topic}, {form.size} make a {kind.__name__}")
        return form.unpack(data)[0]

    return serialize, deserialize


def serialize_uuid(topic: str, value: object) -> bytes | None:
    if value is None:
        return None
    import uuid

    if not isinstance(value, uuid.UUID):
        raise SerializationFailed(f"{type(value).__name__} for topic {topic}, a uuid.UUID is wanted")
    return str(value).encode()


def deserialize_uuid(topic: str, data: bytes | None) -> uuid.UUID | None:
    if data is None:
        return None
    import uuid

    try:
        return uuid.UUID(str(data, "ascii"))
    except ValueError:
        raise SerializationFailed(f"the bytes from topic {topic} are not a UUID as text") from None


_SHORT, _INTEGER, _LONG = _number(">h", int), _number(">i", int), _number(">q", int)
_FLOAT, _DOUBLE = _number(">f", float), _number(">d", float)

SERIALIZERS: Final[Mapping[str, Serializer[Any]]] = {
    "bytes": serialize_bytes,
    "string": serialize_string,
    "json": serialize_json,
    "short": _SHORT[0],
    "integer": _INTEGER[0],
    "long": _LONG[0],
    "float": _FLOAT[0],
    "double": _DOUBLE[0],
    "uuid": serialize_uuid,
}
DESERIALIZERS: Final[Mapping[str, Deserializer[Any]]] = {
    "bytes": deserialize_bytes,
    "string": deserialize_string,
    "json": deserialize_json,
    "short": _SHORT[1],
    "integer": _INTEGER[1],
    "long": _LONG[1],
    "float": _FLOAT[1],
    "double": _DOUBLE[1],
    "uuid": deserialize_uuid,
}

# --- one form of many ------------------------------------------------------------------------------------------------

Field = Literal["key", "value"]


def as_serializer(value: object, field: Field = "value") -> Serializer[Any]:
    """A serializer of whatever was given; None gives `serialize_plain`. TypeError says what cannot be used."""
    if value is None:
        return serialize_plain
    return _guarded(_as_two_arguments(_named(value, SERIALIZERS), "serialize", field), field)


def as_deserializer(value: object, field: Field = "value") -> Deserializer[Any] | None:
    """A deserializer of whatever was given; None, and "bytes", give None: bytes stay bytes, and cost nothing."""
    if value is None:
        return None
    named = _named(value, DESERIALIZERS)
    return None if named is deserialize_bytes else _as_two_arguments(named, "deserialize", field)


def _named(value: object, table: Mapping[str, Any]) -> object:
    if not isinstance(value, str):
        return value
    if value not in table:
        raise TypeError(f"{value!r} is no serializer; there are {', '.join(table)}, or give a function")
    return table[value]


def _guarded(call: Callable[[str, Any], Any], field: Field) -> Serializer[Any]:
    """The same, with errors that say whose they are."""

    def serialize(topic: str, value: Any) -> bytes | None:
        try:
            data = call(topic, value)
        except SerializationFailed as error:
            raise SerializationFailed(f"{field}: {error.detail}") from error.__cause__
        except Exception as error:
            raise SerializationFailed(
                f"the {field} serializer raised {type(error).__name__} for topic {topic}: {error}"
            ) from error
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise SerializationFailed(f"the {field} serializer gave {type(data).__name__} for topic {topic}, not bytes")

    return serialize


def _as_two_arguments(value: object, method: str, field: Field) -> Callable[[str, Any], Any]:
    call = getattr(value, method, value)
    if isinstance(call, type) or not callable(call):
        raise TypeError(f"{value!r} cannot be called; give a function of the value, or of topic and value")
    places = _places(call)
    if len(places) == 1:
        return _without_topic(call)
    if places[1] in ("ctx", "context"):
        return _with_context(call, field)
    return call


def _places(call: Callable[..., Any]) -> list[str]:
    """The names of the positional arguments; a function that does not tell takes the value only (str.encode)."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return ["value"]
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return [each.name for each in places] + ["topic", "value"][len(places) :]
    required = [each for each in places if each.default is each.empty]
    if len(required) > 2 or not places:
        raise TypeError(f"{call!r} wants {len(required)} arguments; a serializer has the value, or topic and value")
    is_context = len(places) > 1 and places[1].name in ("ctx", "context")
    # json.dumps(obj, *, ...) and bytes.decode(self, encoding="utf-8") have a second one that is not for us.
    return [each.name for each in (places[:2] if is_context else required or places[:1])]


def _without_topic(call: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    @functools.wraps(call)
    def with_topic(topic: str, value: Any) -> Any:
        return call(value)

    return with_topic


def _with_context(call: Callable[[Any, Any], Any], field: Field) -> Callable[[str, Any], Any]:
    @functools.wraps(call)
    def with_topic(topic: str, value: Any) -> Any:
        return call(value, SerializationContext(topic, field))

    return with_topic
