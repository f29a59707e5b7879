"""gzip: RFC 1952 members, one after the other. We write one, without name or time: equal input, equal bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.records.codecs.codec import LEVELS, PIECE_BYTES, Bytes, Compression, broken, too_large

WINDOW_BITS: Final = 31  # the largest window (15), plus 16 for gzip's header and trailer instead of zlib's
PORTION_BYTES: Final = 16 * 1024


def compress(data: Bytes, level: int | None) -> bytes:
    import zlib

    return zlib.compress(data, LEVELS[Compression.GZIP].default if level is None else level, wbits=WINDOW_BITS)


def decompress(view: memoryview, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes
    position = 0
    while position < len(view) or not parts:
        position, content = _member(view, position, room, limit_bytes)
        parts += content
        room -= sum(map(len, content))
    return b"".join(parts)


def _member(view: memoryview, position: int, room: int, limit_bytes: int) -> tuple[int, list[bytes]]:
    """Where the member that begins at `position` ends, and its content in pieces."""
    import zlib

    member = zlib.decompressobj(wbits=WINDOW_BITS)
    parts: list[bytes] = []
    while not member.eof:
        # Small portions: what is left of a portion behind a member's end is copied, and a thousand tiny members
        # in a large buffer must not copy that buffer a thousand times.
        portion = view[position : position + PORTION_BYTES]
        if not len(portion):
            raise broken(Compression.GZIP, view, "it ends before its last block")
        try:
            # One byte more than there is room for, because zlib takes 0 for "no limit", and to see too much.
            part = member.decompress(portion, room + 1)
        except zlib.error as error:
            raise broken(Compression.GZIP, view, error) from None
        room -= len(part)
        if room < 0:
            raise too_large(Compression.GZIP, view, limit_bytes)
        parts.append(part)
        position += len(portion) - len(member.unused_data)
    return position, parts


def pieces(view: memoryview, limit_bytes: int) -> Iterator[Bytes]:
    import zlib

    room, position, member = limit_bytes, 0, None
    while position < len(view) or member is None:
        member = zlib.decompressobj(wbits=WINDOW_BITS)
        while not member.eof:
            rest: Bytes = member.unconsumed_tail
            if not rest:
                rest = view[position : position + PORTION_BYTES]
                position += len(rest)
            try:
                part = member.decompress(rest, PIECE_BYTES)
            except zlib.error as error:
                raise broken(Compression.GZIP, view, error) from None
            room -= len(part)
            if room < 0:
                raise too_large(Compression.GZIP, view, limit_bytes)
            if part:
                yield part
            elif not len(rest) and not member.eof:
                raise broken(Compression.GZIP, view, "it ends before its last block")
        position -= len(member.unused_data)
