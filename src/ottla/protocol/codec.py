"""Reads and writes any message at any version by walking its declaration: slow, obvious, the reference.

1. decode() uses all bytes or raises MalformedMessage; the sentence names the field.
2. encode() returns a list of buffers: what was packed, and records as they came, uncopied. A message that cannot be
   written at that version raises Unwritable, and the sentence names the field.
3. compiled.py does the same in flat functions; the tests hold both together. When a compiled function fails it asks
   this module what was wrong, so the sentences are written once.

In flexible versions every struct ends with its tag section: uvarint count, then uvarint tag, uvarint size, bytes each.
"""

import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from ottla.errors import MalformedMessage, OttlaError, Unwritable
from ottla.protocol.primitives import (
    FIXED,
    NO_ENTRIES_LIMIT,
    STRING_BYTES_MAX,
    Reader,
    write_length,
    write_uvarint,
)
from ottla.protocol.schema import (
    BOOL,
    BYTES,
    INT8,
    RECORDS,
    STRING,
    UUID,
    ArrayOf,
    Buffer,
    Field,
    Message,
    Primitive,
    Struct,
    StructType,
    WireType,
    shown,
)

NO_TAGS: Final = b"\x00"
_NEW: Final[Any] = object.__new__

M = TypeVar("M", bound=Message)


def decode(message_class: type[M], version: int, buffer: Buffer) -> M:
    message, end = decode_prefix(message_class, version, buffer)
    if end != len(buffer):
        raise MalformedMessage(
            f"{message_class.__name__} version {version} ends at byte {end}, but {len(buffer) - end} bytes follow"
        )
    return message


def decode_prefix(
    message_class: type[M],
    version: int,
    buffer: Buffer,
    position: int = 0,
    entries_limit: int = NO_ENTRIES_LIMIT,
) -> tuple[M, int]:
    """Read a message that other things follow; returns it and the position after it."""
    check_version(message_class, version)
    reader = Reader(buffer, position, entries_limit)
    try:
        message = _read_struct(reader, message_class, version, flexible=version >= message_class.flexible_since)
    except MalformedMessage as error:
        raise MalformedMessage(f"{message_class.__name__} version {version}: {error.detail}") from None
    return message, reader.position


def encode(message: Message, version: int) -> list[Buffer]:
    check_version(type(message), version)
    writer = _Writer()
    try:
        _write_struct(writer, message, version, flexible=version >= message.flexible_since)
    except Unwritable as error:
        raise Unwritable(f"{type(message).__name__} version {version}: {error.detail}") from None
    return writer.finish()


def check_version(message_class: type[Message], version: int) -> None:
    if version not in message_class.versions:
        raise Unwritable(f"{message_class.__name__} has versions {message_class.versions}, not {version}")


# -- reading ---------------------------------------------------------------------------------------------------------


def _read_struct(reader: Reader, struct_class: StructType, version: int, *, flexible: bool) -> Any:
    made: Any = _NEW(struct_class)
    for field in struct_class.fields:
        if version in field.present and field.tag is None:
            value = _read_field(reader, field, version, flexible=flexible)
        else:
            value = field.make_default()
        setattr(made, field.name, value)
    tags: dict[str, Any] = {}
    made.unknown_tags = read_tags(reader, struct_class, version, tags) if flexible else None
    for name, value in tags.items():
        setattr(made, name, value)
    return made


def _read_field(reader: Reader, field: Field, version: int, *, flexible: bool) -> Any:
    try:
        value = _read_value(
            reader, field.type, version, flexible=flexible and field.compact, nullable=field.null_at(version)
        )
    except MalformedMessage as error:
        raise MalformedMessage(_path(field.name, error)) from None
    if value is None and not field.null_at(version):
        raise MalformedMessage(f"{field.name}: may not be null at version {version}")
    return value


def _read_value(reader: Reader, wire_type: WireType, version: int, *, flexible: bool, nullable: bool) -> Any:
    if isinstance(wire_type, ArrayOf):
        return _read_array(reader, wire_type.element, version, flexible=flexible)
    if isinstance(wire_type, StructType):
        if nullable and reader.fixed(INT8) < 0:
            return None
        return _read_struct(reader, wire_type, version, flexible=flexible)
    if wire_type is STRING:
        return reader.string(compact=flexible)
    if wire_type is RECORDS:
        return reader.bytes(compact=flexible)
    if wire_type is BYTES:
        content = reader.bytes(compact=flexible)
        return None if content is None else bytes(content)
    return reader.fixed(wire_type)


def _read_array(reader: Reader, element: WireType, version: int, *, flexible: bool) -> list[Any] | None:
    count = reader.length("i", compact=flexible)
    if count < 0:
        return None
    if count * least_bytes(element, version, flexible=flexible) > reader.bytes_left:
        raise MalformedMessage(f"{count} elements are announced, {reader.bytes_left} bytes are left")
    reader.count(count)
    read = []
    for index in range(count):
        try:
            value = _read_value(reader, element, version, flexible=flexible, nullable=False)
        except MalformedMessage as error:
            raise MalformedMessage(_path(f"[{index}]", error)) from None
        if value is None:
            raise MalformedMessage(f"[{index}]: may not be null")
        read.append(value)
    return read


def read_tags(
    reader: Reader, struct_class: StructType, version: int, values: dict[str, Any]
) -> dict[int, bytes] | None:
    known = tagged_fields(struct_class, version)
    unknown: dict[int, bytes] = {}
    for _ in range(reader.uvarint()):
        reader.count(1)
        tag = reader.uvarint()
        content = reader.take(reader.uvarint())
        field = known.get(tag)
        if field is None:
            unknown[tag] = bytes(content)
            continue
        inner = Reader(content, entries_left=reader.entries_left)
        values[field.name] = _read_field(inner, field, version, flexible=True)
        reader.entries_left = inner.entries_left
        if inner.bytes_left:
            raise MalformedMessage(f"{field.name}: {inner.bytes_left} bytes too many in tag {tag}")
    return unknown or None


@lru_cache(maxsize=1024)
def tagged_fields(struct_class: StructType, version: int) -> Mapping[int, Field]:
    """The fields that have a tag at this version, by their tags."""
    return {field.tag: field for field in struct_class.fields if field.tag is not None and version in field.present}


def least_bytes(wire_type: WireType, version: int, *, flexible: bool) -> int:
    """The fewest bytes a value can take; array counts are checked with it before a list is made.

    Never 0: elements without bytes would let a four-byte count make a list of billions.
    """
    if isinstance(wire_type, ArrayOf):
        return 1 if flexible else 4
    if isinstance(wire_type, Primitive):
        if wire_type.format is not None:
            return FIXED[wire_type.format].size
        return 1 if flexible else (2 if wire_type is STRING else 4)
    total = 1 if flexible else 0
    for field in wire_type.fields:
        if version in field.present and field.tag is None:
            is_optional_struct = field.null_at(version) and isinstance(field.type, StructType)
            total += 1 if is_optional_struct else least_bytes(field.type, version, flexible=flexible and field.compact)
    return max(total, 1)


# -- writing ---------------------------------------------------------------------------------------------------------


class _Writer:
    """Gathers packed bytes; records are kept apart so that nobody copies them."""

    def __init__(self) -> None:
        self.done: list[Buffer] = []
        self.open = bytearray()

    def pack(self, packed: Buffer) -> None:
        self.open += packed

    def pass_on(self, records: Any) -> None:
        self.done += [self.open, records]
        self.open = bytearray()

    def finish(self) -> list[Buffer]:
        if self.open or not self.done:
            self.done.append(self.open)
        return self.done


def _write_struct(writer: _Writer, value: Struct, version: int, *, flexible: bool) -> None:
    for field in value.fields:
        part = getattr(value, field.name)
        if version not in field.present:
            if not field.ignorable and part != field.make_default():
                raise Unwritable(f"{field.name}: cannot be told at this version, but is {shown(field, part)}")
        elif field.tag is None:
            _write_field(writer, field, part, version, flexible=flexible)
    if flexible:
        writer.pack(write_tags(value, version))
    elif value.unknown_tags:
        raise Unwritable("unknown_tags cannot be written: this version has no tagged fields")


def _write_field(writer: _Writer, field: Field, value: Any, version: int, *, flexible: bool) -> None:
    if value is None and not field.null_at(version):
        raise Unwritable(f"{field.name}: may not be null at this version")
    nullable = field.null_at(version)
    try:
        _write_value(writer, field.type, value, version, flexible=flexible and field.compact, nullable=nullable)
    except Unwritable as error:
        raise Unwritable(_path(field.name, error)) from None
    except (struct.error, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise Unwritable(f"{field.name}: cannot be {shown(field, value)}: {error}") from None


def _write_value(
    writer: _Writer, wire_type: WireType, value: Any, version: int, *, flexible: bool, nullable: bool
) -> None:
    if isinstance(wire_type, ArrayOf):
        _write_array(writer, wire_type.element, value, version, flexible=flexible)
    elif isinstance(wire_type, StructType):
        _write_nested(writer, wire_type, value, version, flexible=flexible, nullable=nullable)
    elif wire_type.format is None:
        _write_sized(writer, wire_type, value, flexible=flexible)
    else:
        writer.pack(_packed(wire_type, value))


def _write_array(writer: _Writer, element: WireType, value: Any, version: int, *, flexible: bool) -> None:
    if value is None:
        writer.pack(write_length(-1, "i", compact=flexible))
        return
    writer.pack(write_length(len(value), "i", compact=flexible))
    for index, item in enumerate(value):
        if item is None:
            raise Unwritable(f"[{index}]: may not be null")
        try:
            _write_value(writer, element, item, version, flexible=flexible, nullable=False)
        except Unwritable as error:
            raise Unwritable(_path(f"[{index}]", error)) from None


def _write_nested(
    writer: _Writer, struct_class: StructType, value: Any, version: int, *, flexible: bool, nullable: bool
) -> None:
    if nullable:
        writer.pack(FIXED["b"].pack(-1 if value is None else 1))
        if value is None:
            return
    found: type = type(value)
    if found is not struct_class:
        raise Unwritable(f"a {struct_class.__name__} is needed, not a {found.__name__}")
    _write_struct(writer, value, version, flexible=flexible)


def _write_sized(writer: _Writer, wire_type: Primitive, value: Any, *, flexible: bool) -> None:
    letter = "h" if wire_type is STRING else "i"
    if value is None:
        writer.pack(write_length(-1, letter, compact=flexible))
        return
    if wire_type is STRING:
        value = value.encode()
        if len(value) > STRING_BYTES_MAX:
            raise Unwritable(f"a string of {len(value)} bytes; the longest allowed has {STRING_BYTES_MAX}")
    writer.pack(write_length(len(value), letter, compact=flexible))
    if wire_type is RECORDS and len(value):
        writer.pass_on(value)
    else:
        writer.pack(bytes(value))


def _packed(primitive: Primitive, value: Any) -> bytes:
    assert primitive.format is not None
    if primitive is UUID and len(value) != 16:
        raise Unwritable(f"a uuid has 16 bytes, not {len(value)}")
    if primitive is BOOL:
        value = bool(value)
    return FIXED[primitive.format].pack(value)


def write_tags(value: Struct, version: int) -> bytes:
    """The tag section: known tags that differ from their default, and unknown ones, by rising number."""
    contents = dict(value.unknown_tags or {})
    for tag, field in tagged_fields(type(value), version).items():
        part = getattr(value, field.name)
        if part != field.make_default():
            inner = _Writer()
            _write_field(inner, field, part, version, flexible=True)
            contents[tag] = b"".join(inner.finish())
    if not contents:
        return NO_TAGS
    packed = write_uvarint(len(contents))
    for tag in sorted(contents):
        packed += write_uvarint(tag) + write_uvarint(len(contents[tag])) + contents[tag]
    return packed


def _path(step: str, error: OttlaError) -> str:
    """Puts `step` before the place that the sentence names already: topics[3].name: …"""
    said = error.detail or ""
    if said.startswith("["):
        return step + said
    return f"{step}.{said}" if re.match(_PLACE, said) else f"{step}: {said}"


_PLACE = r"[a-z0-9_]+(\[\d+\])*[:.]"
