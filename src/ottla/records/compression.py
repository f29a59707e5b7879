"""Compression of record batches: none, gzip, snappy, lz4, zstd, with the framing quirks Kafka's clients have.

The only door to compression libraries. codecs/ has a file for each format, which says what its frames look like; it and
its library are loaded on first use.

1. What `compress` writes every Kafka client can read; what any Kafka client writes `decompress` can read.
2. `decompress` never returns more than `limit_bytes` and never allocates much more than that on the way. Where a
   format has a skeleton that can be walked (lz4, zstd, snappy), it is walked first: the walk proves that the
   bytes are complete and says how large the output can be at most, and no header is believed beyond that.
   `decompress_in_pieces` refuses the same, but gives large content piece by piece, for those who only look at it.
3. Broken bytes, wrong checksums, a missing end, anything behind the end, too much output: CorruptMessage.
   A codec id that Kafka does not have: UnsupportedCompressionType. No library's exception leaves codecs/.
4. No state is shared between calls running at the same time, and all libraries release the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final, Protocol, cast

from ottla.errors import UnsupportedCompressionType
from ottla.records.codecs.codec import LEVELS, Bytes, Compression, too_large

__all__ = ["Bytes", "Compression", "check_level", "compress", "decompress", "decompress_in_pieces"]


class Codec(Protocol):
    """What a module of codecs/ has."""

    def compress(self, data: Bytes, level: int | None) -> bytes: ...
    def decompress(self, view: memoryview, limit_bytes: int) -> bytes: ...
    def pieces(self, view: memoryview, limit_bytes: int) -> Iterator[Bytes]: ...


_loaded: Final[dict[Compression, Codec]] = {}


def compress(codec: int, data: Bytes, level: int | None = None, *, old_lz4_header: bool = False) -> bytes:
    """`data` compressed as a Kafka client does it; `level` None is Kafka's default for the codec."""
    codec = _known(codec)
    check_level(codec, level)
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.LZ4 and old_lz4_header:
        from ottla.records.codecs import lz4

        return lz4.with_old_header(lz4.compress(data, level))
    return _load(codec).compress(data, level)


def decompress(codec: int, data: Bytes, limit_bytes: int, *, old_lz4_header: bool = False) -> bytes:
    """The bytes that were compressed, refused when they are broken or more than `limit_bytes`."""
    codec = _known(codec)
    view = memoryview(data).cast("B")
    if codec is Compression.NONE:
        return bytes(_whole(view, limit_bytes))
    if codec is Compression.LZ4 and old_lz4_header:
        from ottla.records.codecs import lz4

        return lz4.decompress(lz4.with_new_header(view), limit_bytes)
    return _load(codec).decompress(view, limit_bytes)


def decompress_in_pieces(codec: int, data: Bytes, limit_bytes: int) -> Iterator[Bytes]:
    """The same bytes as `decompress` gives, one after the other. What is broken or too much is refused when it is
    met: whoever looks at the pieces before the last one has been given must be ready to forget what he saw."""
    codec = _known(codec)
    view = memoryview(data).cast("B")
    if codec is Compression.NONE:
        return iter([_whole(view, limit_bytes)])
    return _load(codec).pieces(view, limit_bytes)


def _whole(view: memoryview, limit_bytes: int) -> memoryview:
    if len(view) > limit_bytes:
        raise too_large(Compression.NONE, view, limit_bytes)
    return view


def _load(codec: Compression) -> Codec:
    found = _loaded.get(codec)
    if found is None:
        found = _loaded[codec] = cast(Codec, import_module(f"ottla.records.codecs.{codec.label}"))
    return found


def _known(codec: int) -> Compression:
    try:
        return Compression(codec)
    except ValueError:
        raise UnsupportedCompressionType(f"compression codec {codec} does not exist; known are 0 to 4") from None


def check_level(codec: Compression, level: int | None) -> None:
    """Refuse a level that Kafka refuses for this codec."""
    if level is None:
        return
    if codec not in LEVELS:
        raise ValueError(f"{codec.label} has no compression levels; leave the level out")
    levels = LEVELS[codec]
    if not (levels.lowest <= level <= levels.highest or level == levels.default):
        raise ValueError(
            f"{codec.label} has no compression level {level};"
            f" use {levels.lowest} to {levels.highest}, or {levels.default}, which is the default"
        )
