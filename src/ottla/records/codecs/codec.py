"""What all codecs share: their ids, the sizes of pieces, and how they refuse."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple

Bytes = bytes | bytearray | memoryview

PIECE_BYTES: Final = 64 * 1024
WHOLE_BYTES: Final = 1024 * 1024  # what can be no larger than this is one piece


class Compression(IntEnum):
    """The codec ids of a batch's attributes, bits 0 to 2."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name in settings: "none", "gzip", "snappy", "lz4", "zstd"."""
        return self.name.lower()

    @classmethod
    def named(cls, label: str) -> Compression:
        """The codec with this name in settings."""
        for codec in cls:
            if codec.label == label:
                return codec
        raise ValueError(f"compression type {label!r} does not exist; use one of {', '.join(c.label for c in cls)}")


class Levels(NamedTuple):
    """Of a codec (KIP-390)."""

    lowest: int
    highest: int
    default: int


LEVELS: Final = {
    Compression.GZIP: Levels(1, 9, -1),  # -1 lets zlib choose, which is 6
    Compression.LZ4: Levels(1, 17, 9),
    Compression.ZSTD: Levels(-131072, 22, 3),
}


def broken(codec: Compression, view: memoryview, why: object) -> CorruptMessage:
    return CorruptMessage(f"{codec.label} data of {len(view)} bytes cannot be decompressed: {why}")


def too_large(codec: Compression, view: memoryview, limit_bytes: int) -> CorruptMessage:
    return CorruptMessage(
        f"{codec.label} data of {len(view)} bytes holds more than the {limit_bytes} bytes allowed when decompressed"
    )
