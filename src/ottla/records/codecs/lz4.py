"""lz4: one LZ4 frame, independent blocks of 64 KiB, no checksums but the header's, no content size.

Before message format v1 Kafka took the header checksum over the magic number too (KAFKA-3160): the old header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from ottla.records.codecs.codec import LEVELS, PIECE_BYTES, Bytes, Compression, broken, too_large

MAGIC: Final[bytes] = b"\x04\x22\x4d\x18"
BLOCK_CHECKSUMS, CONTENT_SIZE, CONTENT_CHECKSUM, DICTIONARY = 0x10, 0x08, 0x04, 0x01
STORED: Final = 0x80000000  # the bit of a block size that says: this block is not compressed
GROWTH_MAX: Final = 255

_uint32_le = struct.Struct("<I")


def compress(data: Bytes, level: int | None) -> bytes:
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
    return frame


def with_old_header(frame: bytes) -> bytes:
    """A frame of `compress` for who reads message format v0."""
    return _with_header_checksum(frame, 6, _header_checksum(frame[:6]))


def with_new_header(view: memoryview) -> memoryview:
    """The same frame, whichever header it has, for `decompress`."""
    header_end, _ = _walk(view)
    if view[header_end - 1] != _header_checksum(view[: header_end - 1]):
        return view
    return memoryview(_with_header_checksum(view, header_end - 1, _header_checksum(view[4 : header_end - 1])))


def decompress(view: memoryview, limit_bytes: int) -> bytes:
    import lz4.frame

    _, largest = _walk(view)
    context = lz4.frame.create_decompression_context()
    try:
        # One byte of room to spare: the library looks at the end mark only while it could still write.
        data, _, at_end = lz4.frame.decompress_chunk(context, view, max_length=min(largest, limit_bytes) + 1)
    except RuntimeError as error:
        raise broken(Compression.LZ4, view, error) from None
    if len(data) > limit_bytes:
        raise too_large(Compression.LZ4, view, limit_bytes)
    if not at_end:
        raise broken(Compression.LZ4, view, "its end mark was not reached")
    return bytes(data)


def pieces(view: memoryview, limit_bytes: int) -> Iterator[Bytes]:
    import lz4.frame

    _, largest = _walk(view)
    if largest <= PIECE_BYTES:
        yield decompress(view, limit_bytes)
        return
    # A megabyte at once is new memory from the system each time, and its page faults take three times as long as LZ4.
    context = lz4.frame.create_decompression_context()
    room, position, at_end = limit_bytes, 0, False
    while not at_end:
        try:
            part, read, at_end = lz4.frame.decompress_chunk(
                context, view[position : position + PIECE_BYTES], max_length=PIECE_BYTES
            )
        except RuntimeError as error:
            raise broken(Compression.LZ4, view, error) from None
        room -= len(part)
        position += read
        if room < 0:
            raise too_large(Compression.LZ4, view, limit_bytes)
        if not part and not read and not at_end:
            raise broken(Compression.LZ4, view, "its end mark was not reached")
        if part:
            yield part


def _walk(view: memoryview) -> tuple[int, int]:
    """Where the header ends, and how many bytes the frame can hold at most."""
    if len(view) < 7 or view[:4] != MAGIC:
        raise broken(Compression.LZ4, view, "it does not begin with an LZ4 frame header")
    flags, block_sizes = view[4], view[5] >> 4 & 7
    if flags & DICTIONARY:
        raise broken(Compression.LZ4, view, "it needs a dictionary, which Kafka has no way to pass on")
    if block_sizes < 4:
        raise broken(Compression.LZ4, view, f"block size code {block_sizes} does not exist")
    block_bytes_max = 1 << (2 * block_sizes + 8)
    header_end = 7 + (8 if flags & CONTENT_SIZE else 0)
    position, largest = header_end, 0
    while True:
        if position + 4 > len(view):
            raise broken(Compression.LZ4, view, "it ends before its end mark")
        (size,) = _uint32_le.unpack_from(view, position)
        position += 4
        if size == 0:
            break
        stored, size = size & STORED, size & ~STORED
        largest += size if stored else min(block_bytes_max, size * GROWTH_MAX)
        position += size + (4 if flags & BLOCK_CHECKSUMS else 0)
    position += 4 if flags & CONTENT_CHECKSUM else 0
    if position != len(view):
        raise broken(Compression.LZ4, view, f"its frame has {position} bytes")
    return header_end, largest


def _with_header_checksum(frame: Bytes, position: int, checksum: int) -> bytes:
    repaired = bytearray(frame)
    repaired[position] = checksum
    return bytes(repaired)


def _header_checksum(header: Bytes) -> int:
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
