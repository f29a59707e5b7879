"""The bytes of the metadata log: frames that are whole or not there.

    length      uint32, big-endian     bytes of the content; never 0
    checksum    uint32, big-endian     CRC-32C of length and content
    content     JSON in ASCII          so no byte of it is below 0x20, and none can pass for the start of a length

1. `read_frames` gives the content of the frames from the beginning on, and where the last whole one ends. What follows
   it is the half of a write that a crash cut off: nobody was told that it was done.
2. Only the end can be half: each frame is on the disk before the next one is written. So a damaged frame with a whole
   one after it is not a torn write but rot, and that is DamagedLog: dropping it would undo what was promised.
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any, Final

from ottla.errors import KafkaStorageError
from ottla.light_tuples import NamedTuple
from ottla.records import crc32c

HEADER: Final = struct.Struct(">II")
CONTENT_LIMIT_BYTES: Final = 256 << 20
"""Far more than a snapshot of a million partitions; a length above it is not a length."""

# Four bytes that are a length within the limit and not 0; found by the C of re, because a torn tail may be megabytes.
_POSSIBLE_LENGTH: Final = re.compile(rb"(?=[\x00-\x10])(?!\x00{4})", re.DOTALL)


class DamagedLog(KafkaStorageError):
    """The metadata of this broker is damaged on the disk, so the broker does not start.
    Restore the metadata folder from a copy; the topics beside it are untouched."""


class Frames(NamedTuple):
    """What a file holds: the content of its whole frames, and where the last of them ends."""

    contents: list[Any]
    end: int


def frame(content: Any) -> bytes:
    """The bytes of one frame."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    if len(text) > CONTENT_LIMIT_BYTES:
        raise KafkaStorageError(f"a change of {len(text)} bytes is above the limit of {CONTENT_LIMIT_BYTES}")
    length = len(text).to_bytes(4, "big")
    return HEADER.pack(len(text), crc32c(text, crc32c(length))) + text


def read_frames(data: bytes, what: str) -> Frames:
    """See promises 1 and 2; `what` names the file in errors."""
    contents: list[Any] = []
    position = 0
    while (content := _content_at(data, position)) is not None:
        contents.append(_parsed(content, what))
        position += HEADER.size + len(content)
    if _whole_frame_after(data, position):
        raise DamagedLog(f"{what} has a damaged frame at byte {position}, with whole ones after it")
    return Frames(contents, position)


def _content_at(data: bytes, position: int) -> bytes | None:
    if position + HEADER.size > len(data):
        return None
    length, checksum = HEADER.unpack_from(data, position)
    start = position + HEADER.size
    if not 0 < length <= min(CONTENT_LIMIT_BYTES, len(data) - start):
        return None
    content = data[start : start + length]
    return content if crc32c(content, crc32c(data[position : position + 4])) == checksum else None


def _whole_frame_after(data: bytes, position: int) -> bool:
    starts = _POSSIBLE_LENGTH.finditer(data, position + 1)
    return any(_content_at(data, each.start()) is not None for each in starts)


def _parsed(content: bytes, what: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise DamagedLog(f"{what} has a frame with the right checksum that is not JSON") from None
