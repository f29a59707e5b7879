"""What a follower looks at before it writes what the leader sent.

1. Whole batches of format v2, sums right, offsets growing and not before the end of our log; nothing else, because the
   leader has checked the rest, and nothing is changed, because a follower's log must be the leader's, byte for byte.
2. A batch that is cut off at the end is left out: fetch answers end that way.
3. Everything from the first batch on whose leader epoch is newer than ours is left out as well: the broker we asked is
   no longer the leader we follow, and its log may have been cut while it answered (KAFKA-18723).
"""

from __future__ import annotations

import struct

from ottla.errors import CorruptMessage, OttlaError, UnsupportedForMessageFormat
from ottla.records.header import Buffer, view_of
from ottla.records.implementation import scan
from ottla.records.layout import LENGTH_AT, LOG_OVERHEAD_BYTES, MAGIC, MAGIC_KNOWN_BYTES, NO_TIMESTAMP
from ottla.storage.log.validation import ValidatedAppend

# Length, leader epoch and magic stand one behind the other.
_facts = struct.Struct(">iib")


class OffsetsOutOfOrder(OttlaError):
    """The leader sent batches whose offsets do not grow.
    Nothing was written; if it happens again, compare the logs of both brokers."""


class UnexpectedOffset(OttlaError):
    """The leader sent a batch that begins before the end of our log.
    An empty log may start at its first offset instead; any other must be truncated first."""

    def __init__(self, detail: str | None = None, first_offset: int = -1, last_offset: int = -1) -> None:
        super().__init__(detail)
        self.first_offset = first_offset
        self.last_offset = last_offset


def check_follower_append(buffer: Buffer, *, next_offset: int, leader_epoch: int) -> ValidatedAppend | None:
    """Check what the leader sent; None when there is no whole batch of a leader we know in it."""
    view = view_of(buffer)
    batches = scan(view, 0, _end_of_usable(view, leader_epoch))
    if not batches:
        return None
    newest, newest_ms, newest_epoch, last_offset = 0, batches[0].max_timestamp_ms, batches[0].leader_epoch, -1
    for index, batch in enumerate(batches):
        if index and batch.last_offset <= last_offset:
            raise OffsetsOutOfOrder(f"a batch that ends at {batch.last_offset} follows one at {last_offset}")
        last_offset = batch.last_offset
        if batch.max_timestamp_ms > newest_ms:
            newest, newest_ms = index, batch.max_timestamp_ms
        if batch.leader_epoch > newest_epoch:
            newest_epoch = batch.leader_epoch
    first_offset = batches[0].base_offset
    if first_offset < next_offset:
        raise UnexpectedOffset(
            f"the batch begins at offset {first_offset}, our log ends at {next_offset}", first_offset, last_offset
        )
    return ValidatedAppend(
        buffer=view[: batches[-1].position + batches[-1].size_bytes],
        batches=batches,
        first_offset=first_offset,
        last_offset=last_offset,
        max_timestamp_ms=newest_ms,
        offset_of_max_timestamp=batches[newest].last_offset,
        log_append_time_ms=NO_TIMESTAMP,
        leader_epoch=newest_epoch,
        is_rewritten=False,
    )


def _end_of_usable(view: memoryview, leader_epoch: int) -> int:
    """Where the batches end that are whole and from a leader we know."""
    position = 0
    while len(view) - position >= MAGIC_KNOWN_BYTES:
        length, batch_epoch, magic = _facts.unpack_from(view, position + LENGTH_AT)
        if length < MAGIC_KNOWN_BYTES - LOG_OVERHEAD_BYTES:
            raise CorruptMessage(f"the batch at position {position} claims a length of {length}")
        if length + LOG_OVERHEAD_BYTES > len(view) - position:
            break
        if 0 <= magic < MAGIC:
            raise UnsupportedForMessageFormat(f"the batch at position {position} has message format v{magic}")
        if batch_epoch > leader_epoch:
            break
        position += length + LOG_OVERHEAD_BYTES
    return position
