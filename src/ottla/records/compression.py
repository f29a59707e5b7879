"""Compression of record batches: none, gzip, snappy, lz4, zstd, with the framing quirks Kafka's clients have.

The only file that knows compression libraries. Each is imported on first use, so importing this file is cheap.

1. What `compress` writes every Kafka client can read; what any Kafka client writes `decompress` can read.
2. `decompress` never returns more than `limit_bytes` and never allocates much more than that on the way. Where a
   format has a skeleton that can be walked (lz4, zstd, snappy), it is walked first: the walk proves that the
   bytes are complete and says how large the output can be at most, and no header is believed beyond that.
   `decompress_in_pieces` refuses the same, but gives large content piece by piece, for those who only look at it.
3. Broken bytes, wrong checksums, a missing end, anything behind the end, too much output: CorruptMessage.
   A codec id that Kafka does not have: UnsupportedCompressionType. No library's exception leaves this file.
4. No state is shared between calls running at the same time, and all libraries release the interpreter lock.

What the frames look like, and what is peculiar:

  gzip    RFC 1952 members, one after the other. We write one, without name or time: equal input, equal bytes.
  snappy  xerial's stream: 82 "SNAPPY" 00, int32 version 1, int32 compatible 1, then blocks of at most 32 KiB of
          input: int32 size, raw snappy. Streams may be glued together. Without that header it is one raw block.
  lz4     one LZ4 frame, independent blocks of 64 KiB, no checksums but the header's, no content size. Before
          message format v1 Kafka took the header checksum over the magic number too (KAFKA-3160); `old_lz4_header`
          reads and writes that.
  zstd    frames, one after the other. Java's have no content size, ours (and librdkafka's) do.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.errors import CorruptMessage, UnsupportedCompressionType
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    import zstandard

__all__ = ["Bytes", "Compression", "check_level", "compress", "decompress", "decompress_in_pieces"]

Bytes = bytes | bytearray | memoryview


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
    def named(cls, label: str) -> "Compression":
        """The codec with this name in settings."""
        for codec in cls:
            if codec.label == label:
                return codec
        raise ValueError(f"compression type {label!r} does not exist; use one of {', '.join(c.label for c in cls)}")


def compress(codec: int, data: Bytes, level: int | None = None, *, old_lz4_header: bool = False) -> bytes:
    """`data` compressed as a Kafka client does it; `level` None is Kafka's default for the codec."""
    codec = _known(codec)
    check_level(codec, level)
    if codec is Compression.LZ4:
        return _lz4_compress(data, level, old_lz4_header)
    return _COMPRESSORS[codec](data, level)


def decompress(codec: int, data: Bytes, limit_bytes: int, *, old_lz4_header: bool = False) -> bytes:
    """The bytes that were compressed, refused when they are broken or more than `limit_bytes`."""
    codec = _known(codec)
    view = memoryview(data).cast("B")
    if codec is Compression.LZ4:
        return _lz4_decompress(view, limit_bytes, old_lz4_header)
    return _DECOMPRESSORS[codec](view, limit_bytes)


PIECE_BYTES = 64 * 1024
WHOLE_BYTES = 1024 * 1024  # what can be no larger than this is one piece


def decompress_in_pieces(codec: int, data: Bytes, limit_bytes: int) -> Iterator[Bytes]:
    """The same bytes as `decompress` gives, one after the other. What is broken or too much is refused when it is
    met: whoever looks at the pieces before the last one has been given must be ready to forget what he saw."""
    codec = _known(codec)
    return _PIECES[codec](memoryview(data).cast("B"), limit_bytes)


def _known(codec: int) -> Compression:
    try:
        return Compression(codec)
    except ValueError:
        raise UnsupportedCompressionType(f"compression codec {codec} does not exist; known are 0 to 4") from None


# ---- levels (KIP-390) ----


class Levels(NamedTuple):
    lowest: int
    highest: int
    default: int


LEVELS = {
    Compression.GZIP: Levels(1, 9, -1),  # -1 lets zlib choose, which is 6
    Compression.LZ4: Levels(1, 17, 9),
    Compression.ZSTD: Levels(-131072, 22, 3),
}


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


# ---- what all formats share ----


def _broken(codec: Compression, view: memoryview, why: object) -> CorruptMessage:
    return CorruptMessage(f"{codec.label} data of {len(view)} bytes cannot be decompressed: {why}")


def _too_large(codec: Compression, view: memoryview, limit_bytes: int) -> CorruptMessage:
    return CorruptMessage(
        f"{codec.label} data of {len(view)} bytes holds more than the {limit_bytes} bytes allowed when decompressed"
    )


# ---- none ----


def _none_compress(data: Bytes, level: int | None) -> bytes:
    return bytes(data)


def _none_decompress(view: memoryview, limit_bytes: int) -> bytes:
    if len(view) > limit_bytes:
        raise _too_large(Compression.NONE, view, limit_bytes)
    return bytes(view)


def _none_pieces(view: memoryview, limit_bytes: int) -> Iterator[Bytes]:
    if len(view) > limit_bytes:
        raise _too_large(Compression.NONE, view, limit_bytes)
    yield view


# ---- gzip ----

GZIP_WINDOW_BITS = 31  # the largest window (15), plus 16 for gzip's header and trailer instead of zlib's
GZIP_PORTION_BYTES = 16 * 1024


def _gzip_compress(data: Bytes, level: int | None) -> bytes:
    import zlib

    return zlib.compress(data, LEVELS[Compression.GZIP].default if level is None else level, wbits=GZIP_WINDOW_BITS)


def _gzip_decompress(view: memoryview, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes
    position = 0
    while position < len(view) or not parts:
        position, content = _gzip_member(view, position, room, limit_bytes)
        parts += content
        room -= sum(map(len, content))
    return b"".join(parts)


def _gzip_member(view: memoryview, position: int, room: int, limit_bytes: int) -> tuple[int, list[bytes]]:
    """Where the member that begins at `position` ends, and its content in pieces."""
    import zlib

    member = zlib.decompressobj(wbits=GZIP_WINDOW_BITS)
    parts: list[bytes] = []
    while not member.eof:
        # Small portions: what is left of a portion behind a member's end is copied, and a thousand tiny members
        # in a large buffer must not copy that buffer a thousand times.
        portion = view[position : position + GZIP_PORTION_BYTES]
        if not len(portion):
            raise _broken(Compression.GZIP, view, "it ends before its last block")
        try:
            # One byte more than there is room for, because zlib takes 0 for "no limit", and to see too much.
            part = member.decompress(portion, room + 1)
        except zlib.error as error:
            raise _broken(Compression.GZIP, view, error) from None
        room -= len(part)
        if room < 0:
            raise _too_large(Compression.GZIP, view, limit_bytes)
        parts.append(part)
        position += len(portion) - len(member.unused_data)
    return position, parts


def _gzip_pieces(view: memoryview, limit_bytes: int) -> Iterator[Bytes]:
    import zlib

    room, position, member = limit_bytes, 0, None
    while position < len(view) or member is None:
        member = zlib.decompressobj(wbits=GZIP_WINDOW_BITS)
        while not member.eof:
            rest: Bytes = member.unconsumed_tail
            if not rest:
                rest = view[position : position + GZIP_PORTION_BYTES]
                position += len(rest)
            try:
                part = member.decompress(rest, PIECE_BYTES)
            except zlib.error as error:
                raise _broken(Compression.GZIP, view, error) from None
            room -= len(part)
            if room < 0:
                raise _too_large(Compression.GZIP, view, limit_bytes)
            if part:
                yield part
            elif not len(rest) and not member.eof:
                raise _broken(Compression.GZIP, view, "it ends before its last block")
        position -= len(member.unused_data)


# ---- snappy ----

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 * 1024
SNAPPY_GROWTH_MAX = 22  # the best a tag can do is a copy of 64 bytes written in 3

_int32 = struct.Struct(">i")


def _snappy_compress(data: Bytes, level: int | None) -> bytes:
    import cramjam

    view = memoryview(data).cast("B")
    parts: list[bytes] = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts += (_int32.pack(len(block)), block)
    return b"".join(parts)


def _snappy_decompress(view: memoryview, limit_bytes: int) -> bytes:
    parts = list(_snappy_pieces(view, limit_bytes))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_pieces(view: memoryview, limit_bytes: int) -> Iterator[bytes]:
    """A block can only be had as a whole; it holds SNAPPY_GROWTH_MAX times its size at most."""
    blocks = _xerial_blocks(view) if view[:8] == XERIAL_MAGIC else [view]
    room = limit_bytes
    for block in blocks:
        part = _snappy_block(block, view, room, limit_bytes)
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
                raise _broken(Compression.SNAPPY, view, "it ends inside a stream header")
            continue
        if position + 4 > len(view):
            raise _broken(Compression.SNAPPY, view, "it ends inside a block size")
        (size,) = _int32.unpack_from(view, position)
        position += 4
        if not 0 <= size <= len(view) - position:
            raise _broken(Compression.SNAPPY, view, f"a block says {size} bytes, {len(view) - position} are there")
        yield view[position : position + size]
        position += size


def _snappy_block(block: memoryview, view: memoryview, room: int, limit_bytes: int) -> bytes:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * SNAPPY_GROWTH_MAX:
            raise _broken(Compression.SNAPPY, view, f"a block of {len(block)} bytes claims to hold {size}")
        if size > room:
            raise _too_large(Compression.SNAPPY, view, limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _broken(Compression.SNAPPY, view, error) from None


# ---- lz4 ----

LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_BLOCK_CHECKSUMS, LZ4_CONTENT_SIZE, LZ4_CONTENT_CHECKSUM, LZ4_DICTIONARY = 0x10, 0x08, 0x04, 0x01
LZ4_STORED = 0x80000000  # the bit of a block size that says: this block is not compressed
LZ4_GROWTH_MAX = 255

_uint32_le = struct.Struct("<I")


def _lz4_compress(data: Bytes, level: int | None, old_header: bool) -> bytes:
    import lz4.frame

    # Java's rule, kept so that a level means the same here: the default level 9 is the fast compressor, any other
    # number is the thorough one at that level.
    fast = level is None or level == LEVELS[Compression.LZ4].default
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if fast else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return _with_header_checksum(frame, 6, _lz4_header_checksum(frame[:6])) if old_header else frame


def _lz4_decompress(view: memoryview, limit_bytes: int, old_header: bool) -> bytes:
    import lz4.frame

    header_end, largest = _walk_lz4(view)
    frame: Bytes = view
    if old_header and view[header_end - 1] == _lz4_header_checksum(view[: header_end - 1]):
        frame = _with_header_checksum(view, header_end - 1, _lz4_header_checksum(view[4 : header_end - 1]))
    context = lz4.frame.create_decompression_context()
    try:
        # One byte of room to spare: the library looks at the end mark only while it could still write.
        data, _, at_end = lz4.frame.decompress_chunk(context, frame, max_length=min(largest, limit_bytes) + 1)
    except RuntimeError as error:
        raise _broken(Compression.LZ4, view, error) from None
    if len(data) > limit_bytes:
        raise _too_large(Compression.LZ4, view, limit_bytes)
    if not at_end:
        raise _broken(Compression.LZ4, view, "its end mark was not reached")
    return bytes(data)


def _lz4_pieces(view: memoryview, limit_bytes: int) -> Iterator[Bytes]:
    import lz4.frame

    _, largest = _walk_lz4(view)
    if largest <= WHOLE_BYTES:
        yield _lz4_decompress(view, limit_bytes, False)
        return
    context = lz4.frame.create_decompression_context()
    room, position, at_end = limit_bytes, 0, False
    while not at_end:
        try:
            part, read, at_end = lz4.frame.decompress_chunk(
                context, view[position : position + PIECE_BYTES], max_length=PIECE_BYTES
            )
        except RuntimeError as error:
            raise _broken(Compression.LZ4, view, error) from None
        room -= len(part)
        position += read
        if room < 0:
            raise _too_large(Compression.LZ4, view, limit_bytes)
        if not part and not read and not at_end:
            raise _broken(Compression.LZ4, view, "its end mark was not reached")
        if part:
            yield part


def _walk_lz4(view: memoryview) -> tuple[int, int]:
    """Where the header ends, and how many bytes the frame can hold at most."""
    if len(view) < 7 or view[:4] != LZ4_MAGIC:
        raise _broken(Compression.LZ4, view, "it does not begin with an LZ4 frame header")
    flags, block_sizes = view[4], view[5] >> 4 & 7
    if flags & LZ4_DICTIONARY:
        raise _broken(Compression.LZ4, view, "it needs a dictionary, which Kafka has no way to pass on")
    if block_sizes < 4:
        raise _broken(Compression.LZ4, view, f"block size code {block_sizes} does not exist")
    block_bytes_max = 1 << (2 * block_sizes + 8)
    header_end = 7 + (8 if flags & LZ4_CONTENT_SIZE else 0)
    position, largest = header_end, 0
    while True:
        if position + 4 > len(view):
            raise _broken(Compression.LZ4, view, "it ends before its end mark")
        (size,) = _uint32_le.unpack_from(view, position)
        position += 4
        if size == 0:
            break
        stored, size = size & LZ4_STORED, size & ~LZ4_STORED
        largest += size if stored else min(block_bytes_max, size * LZ4_GROWTH_MAX)
        position += size + (4 if flags & LZ4_BLOCK_CHECKSUMS else 0)
    position += 4 if flags & LZ4_CONTENT_CHECKSUM else 0
    if position != len(view):
        raise _broken(Compression.LZ4, view, f"its frame has {position} bytes")
    return header_end, largest


def _with_header_checksum(frame: Bytes, position: int, checksum: int) -> bytes:
    repaired = bytearray(frame)
    repaired[position] = checksum
    return bytes(repaired)


def _lz4_header_checksum(header: Bytes) -> int:
    """The second byte of xxHash-32; a header is short, so the hash's loop over 16-byte stripes is never entered."""
    register = 0x165667B1 + len(header)
    whole = len(header) - len(header) % 4
    for (word,) in _uint32_le.iter_unpack(header[:whole]):
        register = _rotate(register + word * 0xC2B2AE3D, 17) * 0x27D4EB2F
    for byte in header[whole:]:
        register = _rotate(register + byte * 0x165667B1, 11) * 0x9E3779B1
    register &= 0xFFFFFFFF
    register = (register ^ register >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    register = (register ^ register >> 13) * 0xC2B2AE3D & 0xFFFFFFFF
    return (register ^ register >> 16) >> 8 & 0xFF


def _rotate(register: int, bits: int) -> int:
    register &= 0xFFFFFFFF
    return (register << bits | register >> (32 - bits)) & 0xFFFFFFFF


# ---- zstd ----

ZSTD_SKIPPABLE_MAGIC = 0x184D2A50  # 0 to F in the last digit
ZSTD_BLOCK_BYTES_MAX = 128 * 1024
SPARE_CONTEXTS_MAX = 4
SPARE_CONTEXT_BYTES_MAX = 8 << 20  # high levels, and frames with the largest window, want hundreds of MiB

# Contexts nobody is using. A context costs more to make than a small batch to compress, and must not be used by
# two threads at once: so a call takes one out and puts it back. Taking from a list and adding to it are atomic.
_spare_compressors: "dict[int, list[zstandard.ZstdCompressor]]" = {}
_spare_decompressors: "list[zstandard.ZstdDecompressor]" = []


class _ZstdFrame(NamedTuple):
    data: memoryview
    content_bytes: int | None
    content_bytes_max: int


def _zstd_compress(data: Bytes, level: int | None) -> bytes:
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


def _zstd_decompress(view: memoryview, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes
    for frame in _zstd_frames(view):
        part = _zstd_frame_content(frame, view, room, limit_bytes)
        parts.append(part)
        room -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd_frame_content(frame: _ZstdFrame, view: memoryview, room: int, limit_bytes: int) -> bytes:
    import zstandard

    _check_zstd_claim(frame, view)
    if (frame.content_bytes or 0) > room:
        raise _too_large(Compression.ZSTD, view, limit_bytes)
    try:
        decompressor = _spare_decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        part = decompressor.decompress(frame.data, max_output_size=min(frame.content_bytes_max, room) + 1)
    except zstandard.ZstdError as error:
        # The walk has shown that the frame is complete; so if it did not fit, it was too large.
        if frame.content_bytes_max > room and "did not decompress full frame" in str(error):
            raise _too_large(Compression.ZSTD, view, limit_bytes) from None
        raise _broken(Compression.ZSTD, view, error) from None
    finally:
        if len(_spare_decompressors) < SPARE_CONTEXTS_MAX and decompressor.memory_size() <= SPARE_CONTEXT_BYTES_MAX:
            _spare_decompressors.append(decompressor)
    if len(part) > room:
        raise _too_large(Compression.ZSTD, view, limit_bytes)
    return part


def _zstd_pieces(view: memoryview, limit_bytes: int) -> Iterator[Bytes]:
    room = limit_bytes
    for frame in _zstd_frames(view):
        if frame.content_bytes_max <= WHOLE_BYTES:
            parts: Iterable[bytes] = [_zstd_frame_content(frame, view, room, limit_bytes)]
        else:
            parts = _zstd_frame_pieces(frame, view)
        for part in parts:
            room -= len(part)
            if room < 0:
                raise _too_large(Compression.ZSTD, view, limit_bytes)
            yield part


def _zstd_frame_pieces(frame: _ZstdFrame, view: memoryview) -> Iterator[bytes]:
    import zstandard

    _check_zstd_claim(frame, view)
    total = 0
    with zstandard.ZstdDecompressor().stream_reader(frame.data, read_size=PIECE_BYTES) as reader:
        while True:
            try:
                part = reader.read(PIECE_BYTES)
            except zstandard.ZstdError as error:
                raise _broken(Compression.ZSTD, view, error) from None
            if not part:
                break
            total += len(part)
            yield part
    if frame.content_bytes not in (None, total):
        raise _broken(Compression.ZSTD, view, f"a frame claims {frame.content_bytes} bytes and holds {total}")


def _check_zstd_claim(frame: _ZstdFrame, view: memoryview) -> None:
    if frame.content_bytes is None:
        return
    # The library trusts a claim of 0 bytes without a look at the blocks.
    hidden = frame.content_bytes == 0 and frame.content_bytes_max > 0
    if hidden or frame.content_bytes > frame.content_bytes_max:
        claim = f"a frame of {len(frame.data)} bytes claims to hold {frame.content_bytes}"
        raise _broken(Compression.ZSTD, view, claim)


def _zstd_frames(view: memoryview) -> Iterator[_ZstdFrame]:
    rest = view
    while len(rest):
        if len(rest) >= 8 and _uint32_le.unpack_from(rest)[0] & 0xFFFFFFF0 == ZSTD_SKIPPABLE_MAGIC:
            end = 8 + _uint32_le.unpack_from(rest, 4)[0]
        else:
            frame, end = _walk_zstd(rest, view)
            yield frame
        if end > len(rest):
            raise _broken(Compression.ZSTD, view, "it ends inside a skippable frame")
        rest = rest[end:]
    if not len(view):
        raise _broken(Compression.ZSTD, view, "there is no frame")


def _walk_zstd(rest: memoryview, view: memoryview) -> tuple[_ZstdFrame, int]:
    import zstandard

    try:
        header = zstandard.get_frame_parameters(rest)
        position = zstandard.frame_header_size(rest)
    except zstandard.ZstdError as error:
        raise _broken(Compression.ZSTD, view, error) from None
    largest, last = 0, False
    while not last:
        if position + 3 > len(rest):
            raise _broken(Compression.ZSTD, view, "it ends before its last block")
        block = int.from_bytes(rest[position : position + 3], "little")
        last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        # Kinds: 0 stored, 1 one byte repeated, 2 compressed, 3 reserved (the library refuses it).
        largest += ZSTD_BLOCK_BYTES_MAX if kind == 2 else min(size, ZSTD_BLOCK_BYTES_MAX)
        position += 3 + (1 if kind == 1 else size)
    position += 4 if header.has_checksum else 0
    if position > len(rest):
        raise _broken(Compression.ZSTD, view, "it ends inside a block")
    known = header.content_size != zstandard.CONTENTSIZE_UNKNOWN
    return _ZstdFrame(rest[:position], header.content_size if known else None, largest), position


_COMPRESSORS: dict[Compression, Callable[[Bytes, int | None], bytes]] = {
    Compression.NONE: _none_compress,
    Compression.GZIP: _gzip_compress,
    Compression.SNAPPY: _snappy_compress,
    Compression.ZSTD: _zstd_compress,
}
_PIECES: dict[Compression, Callable[[memoryview, int], Iterator[Bytes]]] = {
    Compression.NONE: _none_pieces,
    Compression.GZIP: _gzip_pieces,
    Compression.SNAPPY: _snappy_pieces,
    Compression.LZ4: _lz4_pieces,
    Compression.ZSTD: _zstd_pieces,
}
_DECOMPRESSORS: dict[Compression, Callable[[memoryview, int], bytes]] = {
    Compression.NONE: _none_decompress,
    Compression.GZIP: _gzip_decompress,
    Compression.SNAPPY: _snappy_decompress,
    Compression.ZSTD: _zstd_decompress,
}
