"""Integers, varints, strings, bytes and uuids: how single values look on the wire.

    old string      int16 length, UTF-8            null: -1
    compact string  uvarint length + 1, UTF-8      null: 0
    old bytes       int32 length, bytes            null: -1
    compact bytes   uvarint length + 1, bytes      null: 0
    arrays          like bytes, counting elements
    struct          its fields; one that may be null is led by int8 1, or -1 for null
    uvarint         7 bits a byte, lowest first, the top bit says "more follows"; at most 5 bytes

A Reader walks one buffer. Whatever is wrong with the bytes, it raises MalformedMessage, and it never allocates more
than the bytes that are left can justify: lengths are compared with them before anything is made.

An entry of an array may be one byte on the wire and a hundred times that in memory, so whoever reads what strangers
wrote gives a limit of entries, too: of all arrays and tags of a message together.
"""

import struct
from typing import Any

from ottla.errors import MalformedMessage
from ottla.protocol.schema import Buffer, Primitive

NO_ENTRIES_LIMIT = 1 << 31
STRING_BYTES_MAX = 0x7FFF  # also in compact form: Kafka refuses longer ones in both

FIXED = {letter: struct.Struct(">" + letter) for letter in ("b", "h", "H", "i", "I", "q", "d", "?", "16s")}


class Reader:
    """A position in a buffer, and the ways to read on from there."""

    def __init__(self, buffer: Buffer, position: int = 0, entries_left: int = NO_ENTRIES_LIMIT) -> None:
        self.view = memoryview(buffer)
        self.position = position
        self.entries_left = entries_left

    @property
    def bytes_left(self) -> int:
        return len(self.view) - self.position

    def take(self, size_bytes: int) -> memoryview:
        if size_bytes > self.bytes_left:
            raise MalformedMessage(
                f"{size_bytes} bytes are announced at position {self.position}, {self.bytes_left} are left"
            )
        start = self.position
        self.position += size_bytes
        return self.view[start : self.position]

    def count(self, entries: int) -> None:
        """So many entries are about to be read."""
        self.entries_left -= entries
        if self.entries_left < 0:
            raise MalformedMessage(f"{entries} entries are {-self.entries_left} more than one message may have")

    def fixed(self, primitive: Primitive) -> Any:
        assert primitive.format is not None
        form = FIXED[primitive.format]
        return form.unpack(self.take(form.size))[0]

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value
        raise MalformedMessage(f"a varint before position {self.position} does not fit into 32 bits")

    def length(self, letter: str, *, compact: bool) -> int:
        """A length as it stands there; -1 is null in both forms."""
        if compact:
            return self.uvarint() - 1
        form = FIXED[letter]
        length: int = form.unpack(self.take(form.size))[0]
        if length < -1:
            raise MalformedMessage(f"a length of {length} before position {self.position}")
        return length

    def string(self, *, compact: bool) -> str | None:
        length = self.length("h", compact=compact)
        if length < 0:
            return None
        if length > STRING_BYTES_MAX:
            raise MalformedMessage(f"a string of {length} bytes; the longest allowed has {STRING_BYTES_MAX}")
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedMessage(f"a string before position {self.position} is not UTF-8: {error.reason}") from None

    def bytes(self, *, compact: bool) -> memoryview | None:
        length = self.length("i", compact=compact)
        return None if length < 0 else self.take(length)


def write_uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_length(length: int, letter: str, *, compact: bool) -> bytes:
    """A length, or -1 for null."""
    return write_uvarint(length + 1) if compact else FIXED[letter].pack(length)
