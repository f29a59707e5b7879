"""zstd: frames, one after the other. Java's have no content size, ours (and librdkafka's) do."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.light_tuples import NamedTuple
from ottla.records.codecs.codec import LEVELS, PIECE_BYTES, WHOLE_BYTES, Bytes, Compression, broken, too_large

if TYPE_CHECKING:
    import zstandard


SKIPPABLE_MAGIC: Final = 0x184D2A50  # 0 to F in the last digit
BLOCK_BYTES_MAX: Final = 128 * 1024
SPARE_CONTEXTS_MAX: Final = 4
SPARE_CONTEXT_BYTES_MAX: Final = 8 << 20  # high levels, and frames with the largest window, want hundreds of MiB

_uint32_le = struct.Struct("<I")

# Contexts nobody is using. A context costs more to make than a small batch to compress, and must not be used by
# two threads at once: so a call takes one out and puts it back. Taking from a list and adding to it are atomic.
_spare_compressors: dict[int, list[zstandard.ZstdCompressor]] = {}
_spare_decompressors: list[zstandard.ZstdDecompressor] = []


class _Frame(NamedTuple):
    data: memoryview
    content_bytes: int | None
    content_bytes_max: int


def compress(data: Bytes, level: int | None) -> bytes:
    import zstandard

    level = LEVELS[Compression.ZSTD].default if level is None else level
    spare = _spare_compressors.setdefault(level, [])
    try:
        compressor = spare.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level)
    try:
        return compressor.compress(data)
    finally:
        if len(spare) < SPARE_CONTEXTS_MAX and compressor.memory_size() <= SPARE_CONTEXT_BYTES_MAX:
            spare.append(compressor)


def decompress(view: memoryview, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes
    for frame in _frames(view):
        part = _frame_content(frame, view, room, limit_bytes)
        parts.append(part)
        room -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _frame_content(frame: _Frame, view: memoryview, room: int, limit_bytes: int) -> bytes:
    import zstandard

    _check_claim(frame, view)
    if (frame.content_bytes or 0) > room:
        raise too_large(Compression.ZSTD, view, limit_bytes)
    try:
        decompressor = _spare_decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        part = decompressor.decompress(frame.data, max_output_size=min(frame.content_bytes_max, room) + 1)
    except zstandard.ZstdError as error:
        # The walk has shown that the frame is complete; so if it did not fit, it was too large.
        if frame.content_bytes_max > room and "did not decompress full frame" in str(error):
            raise too_large(Compression.ZSTD, view, limit_bytes) from None
        raise broken(Compression.ZSTD, view, error) from None
    finally:
        if len(_spare_decompressors) < SPARE_CONTEXTS_MAX and decompressor.memory_size() <= SPARE_CONTEXT_BYTES_MAX:
            _spare_decompressors.append(decompressor)
    if len(part) > room:
        raise too_large(Compression.ZSTD, view, limit_bytes)
    return part


def pieces(view: memoryview, limit_bytes: int) -> Iterator[Bytes]:
    room = limit_bytes
    for frame in _frames(view):
        if frame.content_bytes_max <= WHOLE_BYTES:
            parts: Iterable[bytes] = [_frame_content(frame, view, room, limit_bytes)]
        else:
            parts = _frame_pieces(frame, view)
        for part in parts:
            room -= len(part)
            if room < 0:
                raise too_large(Compression.ZSTD, view, limit_bytes)
            yield part


def _frame_pieces(frame: _Frame, view: memoryview) -> Iterator[bytes]:
    import zstandard

    _check_claim(frame, view)
    total = 0
    with zstandard.ZstdDecompressor().stream_reader(frame.data, read_size=PIECE_BYTES) as reader:
        while True:
            try:
                part = reader.read(PIECE_BYTES)
            except zstandard.ZstdError as error:
                raise broken(Compression.ZSTD, view, error) from None
            if not part:
                break
            total += len(part)
            yield part
    if frame.content_bytes not in (None, total):
        raise broken(Compression.ZSTD, view, f"a frame claims {frame.content_bytes} bytes and holds {total}")


def _check_claim(frame: _Frame, view: memoryview) -> None:
    if frame.content_bytes is None:
        return
    # The library trusts a claim of 0 bytes without a look at the blocks.
    hidden = frame.content_bytes == 0 and frame.content_bytes_max > 0
    if hidden or frame.content_bytes > frame.content_bytes_max:
        claim = f"a frame of {len(frame.data)} bytes claims to hold {frame.content_bytes}"
        raise broken(Compression.ZSTD, view, claim)


def _frames(view: memoryview) -> Iterator[_Frame]:
    rest = view
    while len(rest):
        if len(rest) >= 8 and _uint32_le.unpack_from(rest)[0] & 0xFFFFFFF0 == SKIPPABLE_MAGIC:
            end = 8 + _uint32_le.unpack_from(rest, 4)[0]
        else:
            frame, end = _walk(rest, view)
            yield frame
        if end > len(rest):
            raise broken(Compression.ZSTD, view, "it ends inside a skippable frame")
        rest = rest[end:]
    if not len(view):
        raise broken(Compression.ZSTD, view, "there is no frame")


def _walk(rest: memoryview, view: memoryview) -> tuple[_Frame, int]:
    import zstandard

    try:
        header = zstandard.get_frame_parameters(rest)
        position = zstandard.frame_header_size(rest)
    except zstandard.ZstdError as error:
        raise broken(Compression.ZSTD, view, error) from None
    largest, last = 0, False
    while not last:
        if position + 3 > len(rest):
            raise broken(Compression.ZSTD, view, "it ends before its last block")
        block = int.from_bytes(rest[position : position + 3], "little")
        last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        # Kinds: 0 stored, 1 one byte repeated, 2 compressed, 3 reserved (the library refuses it).
        largest += BLOCK_BYTES_MAX if kind == 2 else min(size, BLOCK_BYTES_MAX)
        position += 3 + (1 if kind == 1 else size)
    position += 4 if header.has_checksum else 0
    if position > len(rest):
        raise broken(Compression.ZSTD, view, "it ends inside a block")
    known = header.content_size != zstandard.CONTENTSIZE_UNKNOWN
    return _Frame(rest[:position], header.content_size if known else None, largest), position
