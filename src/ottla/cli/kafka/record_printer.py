"""How Kafka's console consumers print records: Kafka's default formatter, its properties, and Java's deserializers.

    print.key=true print.partition=true     Partition:0<TAB>key<TAB>value

The epoch is NOT_PRESENT, as Apache's tools print it of every record that they read; so is the delivery but for share
groups.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final

from ottla.cli.kafka.java_numbers import java_double

SERIALIZATION: Final = "org.apache.kafka.common.serialization."
Deserializer = Callable[[bytes], bytes]


class UnreadableBytes(Exception):
    """A deserializer cannot read what a record has."""


def _number(form: str, what: str) -> Deserializer:
    size = struct.calcsize(form)

    def read(data: bytes) -> bytes:
        if len(data) != size:
            raise UnreadableBytes(f"Size of data received by {what}Deserializer is not {size}")
        number = struct.unpack(form, data)[0]
        return (java_double(number) if isinstance(number, float) else str(number)).encode()

    return read


def _text(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


def _boolean(data: bytes) -> bytes:
    if data not in (b"\x00", b"\x01"):
        raise UnreadableBytes("Unexpected byte received by BooleanDeserializer: must be 0 or 1")
    return b"true" if data == b"\x01" else b"false"


DESERIALIZERS: Final[Mapping[str, Deserializer]] = {
    "StringDeserializer": _text,
    "ByteArrayDeserializer": bytes,
    "UUIDDeserializer": _text,
    "BooleanDeserializer": _boolean,
    "LongDeserializer": _number(">q", "Long"),
    "IntegerDeserializer": _number(">i", "Integer"),
    "ShortDeserializer": _number(">h", "Short"),
    "DoubleDeserializer": _number(">d", "Double"),
    "FloatDeserializer": _number(">f", "Float"),
}


class RecordPrinter:
    """org.apache.kafka.tools.consumer.DefaultMessageFormatter."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._timestamp = _is_true(properties, "print.timestamp")
        self._partition = _is_true(properties, "print.partition")
        self._offset = _is_true(properties, "print.offset")
        self._delivery = _is_true(properties, "print.delivery")
        self._epoch = _is_true(properties, "print.epoch")
        self._headers = _is_true(properties, "print.headers")
        self._key = _is_true(properties, "print.key")
        self._value = _is_true(properties, "print.value", "true")
        self._between = properties.get("key.separator", "\t").encode()
        self._end = properties.get("line.separator", "\n").encode()
        self._between_headers = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._read_key = _deserializer(properties, "key.deserializer")
        self._read_value = _deserializer(properties, "value.deserializer")
        self._read_header = _deserializer(properties, "headers.deserializer")

    def __call__(self, record: Any, stream: BinaryIO) -> None:
        stream.write(self._between.join(self._parts(record)) + self._end)

    def _parts(self, record: Any) -> list[bytes]:
        parts = []
        if self._timestamp:
            parts.append(_timestamp(record))
        if self._partition:
            parts.append(b"Partition:%d" % record.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._delivery:
            count = getattr(record, "delivery_count", None)  # records of share groups have one
            parts.append(b"Delivery:NOT_PRESENT" if count is None else b"Delivery:%d" % count)
        if self._epoch:
            parts.append(b"Epoch:NOT_PRESENT")
        if self._headers:
            shown = [f"{name}:".encode() + self._shown(data, self._read_header) for name, data in record.headers]
            parts.append(self._between_headers.join(shown) if shown else b"NO_HEADERS")
        if self._key:
            parts.append(self._shown(record.key, self._read_key))
        if self._value:
            parts.append(self._shown(record.value, self._read_value))
        return parts

    def _shown(self, data: bytes | None, read: Deserializer) -> bytes:
        return read(self._null if data is None else data)


def _timestamp(record: Any) -> bytes:
    kind = {0: "CreateTime", 1: "LogAppendTime"}.get(int(record.timestamp_type))
    if kind is None or record.timestamp_ms < 0:
        return b"NO_TIMESTAMP"
    return f"{kind}:{record.timestamp_ms}".encode()


def _is_true(properties: Mapping[str, str], name: str, default: str = "") -> bool:
    return properties.get(name, default).strip().lower() == "true"


def _deserializer(properties: Mapping[str, str], name: str) -> Deserializer:
    """By Java's name; one that does not exist is told, and bytes are printed as they are, as Apache's tool does."""
    wanted = properties.get(name)
    if not wanted:
        return bytes
    known = DESERIALIZERS.get(wanted.removeprefix(SERIALIZATION))
    if known is None:
        from ottla.cli.kafka.ends import warn

        warn(f"Unable to instantiate a deserializer from {wanted}")
        return bytes
    return known
