"""snappy: xerial's stream, 82 "SNAPPY" 00, int32 version 1, int32 compatible 1, then blocks of at most 32 KiB of input:
int32 size, raw snappy. Streams may be glued together. Without that header it is one raw block."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from ottla.records.codecs.codec import Bytes, Compression, broken, too_large

XERIAL_MAGIC: Final[bytes] = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES: Final = 32 * 1024
GROWTH_MAX: Final = 22  # the best a tag can do is a copy of 64 bytes written in 3

_int32 = struct.Struct(">i")


def compress(data: Bytes, level: int | None) -> bytes:
    import cramjam

    view = memoryview(data).cast("B")
    parts: list[bytes] = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts += (_int32.pack(len(block)), block)
    return b"".join(parts)


def decompress(view: memoryview, limit_bytes: int) -> bytes:
    parts = list(pieces(view, limit_bytes))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def pieces(view: memoryview, limit_bytes: int) -> Iterator[bytes]:
    """A block can only be had as a whole; it holds GROWTH_MAX times its size at most."""
    blocks = _xerial_blocks(view) if view[:8] == XERIAL_MAGIC else [view]
    room = limit_bytes
    for block in blocks:
        part = _block(block, view, room, limit_bytes)
        room -= len(part)
        yield part


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    position = 0
    while position < len(view):
        if view[position : position + 8] == XERIAL_MAGIC:
            # The two version numbers are not looked at: some writers have them in the wrong byte order, and
            # there has only ever been one version.
            position += len(XERIAL_HEADER)
            if position > len(view):
                raise broken(Compression.SNAPPY, view, "it ends inside a stream header")
            continue
        if position + 4 > len(view):
            raise broken(Compression.SNAPPY, view, "it ends inside a block size")
        (size,) = _int32.unpack_from(view, position)
        position += 4
        if not 0 <= size <= len(view) - position:
            raise broken(Compression.SNAPPY, view, f"a block says {size} bytes, {len(view) - position} are there")
        yield view[position : position + size]
        position += size


def _block(block: memoryview, view: memoryview, room: int, limit_bytes: int) -> bytes:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * GROWTH_MAX:
            raise broken(Compression.SNAPPY, view, f"a block of {len(block)} bytes claims to hold {size}")
        if size > room:
            raise too_large(Compression.SNAPPY, view, limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise broken(Compression.SNAPPY, view, error) from None
