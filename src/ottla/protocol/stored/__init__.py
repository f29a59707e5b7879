"""Messages that are never sent, only kept: in internal topics, in files, inside other messages.

Each is led by an int16. In a key of an internal topic that number says what kind of record this is (`record_type`), in
everything else it is the version:

    key    int16 record type, then the key at version 0
    value  int16 version, then the value at that version

A record type that we do not know comes from a newer broker: decode_key gives None and the replay passes it over.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.errors import MalformedMessage
from ottla.protocol import first_uses
from ottla.protocol.schema import Buffer, Message

M = TypeVar("M", bound=Message)

_LEAD = struct.Struct(">h")


def encode_key(key: Message) -> bytes:
    if key.record_type is None:
        raise TypeError(f"{type(key).__name__} is not the key of a stored record")
    return _LEAD.pack(key.record_type) + b"".join(first_uses.encode(key, 0))


def decode_key(kinds: Iterable[type[Message]], buffer: Buffer) -> Message | None:
    """The key as one of `kinds`, None when its record type is none of them."""
    record_type, body = split_lead(buffer)
    for kind in kinds:
        if kind.record_type == record_type:
            return first_uses.decode(kind, 0, body)
    return None


class StoredKinds:
    """The kinds of records of one internal topic, for who reads many."""

    def __init__(self, kinds: Mapping[type[Message], type[Message]]) -> None:
        """The class of every key, with the class of its value."""
        self._by_type = {key.record_type: (key, value) for key, value in kinds.items()}

    def read(self, key: bytes, value: bytes | None) -> tuple[Message, Message | None, int] | None:
        """The key, the value and its version; a value of None has version 0. None when we do not know the kind."""
        record_type, body = split_lead(key)
        found = self._by_type.get(record_type)
        if found is None:
            return None
        stored_key = first_uses.decode(found[0], 0, body)
        if value is None:
            return stored_key, None, 0
        version, body = split_lead(value)
        if version not in found[1].versions:
            raise MalformedMessage(f"{found[1].__name__} of version {version}; known are {found[1].versions}")
        return stored_key, first_uses.decode(found[1], version, body), version


def encode_value(value: Message, version: int) -> bytes:
    return _LEAD.pack(version) + b"".join(first_uses.encode(value, version))


def decode_value(kind: type[M], buffer: Buffer) -> M:
    version, body = split_lead(buffer)
    if version not in kind.versions:
        raise MalformedMessage(f"{kind.__name__} of version {version}; known are {kind.versions}")
    return first_uses.decode(kind, version, body)


def decode_newer_value(kind: type[M], buffer: Buffer) -> M:
    """Like decode_value, but a newer version is read as our newest and what follows is passed over.

    Only for what classic consumers tell each other: they agreed that versions only ever append.
    """
    version, body = split_lead(buffer)
    if version < kind.versions.min:
        raise MalformedMessage(f"{kind.__name__} of version {version}; known are {kind.versions}")
    return first_uses.decode_prefix(kind, min(version, kind.versions.max), body)[0]


def split_lead(buffer: Buffer) -> tuple[int, memoryview]:
    if len(buffer) < _LEAD.size:
        raise MalformedMessage(f"{len(buffer)} bytes have no room for the number that leads a stored message")
    return _LEAD.unpack_from(buffer)[0], memoryview(buffer)[_LEAD.size :]
