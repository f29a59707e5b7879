"""What of a segment cannot be read: where it is, and where the records behind it begin.

    verification = SegmentVerification(records, entries, base_offset, end_offset=following.base_offset)
    for batches in verification: ...                      # proved, a list per chunk; also those behind damage
    verification.damages                                  # what is between them

1. A batch is damaged when its frame, its CRC or its offsets cannot be right. The stretch goes on to the next batch that
   can be trusted: where the frame of the damaged one leads to, if a sound batch begins there; else it is searched, byte
   by byte. A record may hold what looks like a batch: what is found must be sound and be followed by a sound one, by
   the end, or by a place to which the offset index points (decision 0166).
2. Neither the offsets of a batch nor its leader epoch are under its CRC. In a log without gaps an offset that does not
   follow is damage; in a compacted one only what goes back is.
3. It reads and changes nothing. Each chunk is one read and one native walk, so that any thread may take the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.records import BatchInfo
from ottla.records.layout import HEADER_BYTES, MAGIC, MAGIC_AT
from ottla.storage.index.offset_index import OffsetPosition
from ottla.storage.index.sparse_index import INT32_MAX
from ottla.storage.segment.records_file import RecordsFile, SoundBatches

NEVER_TORN: Final = 2**63 - 1
SEARCH_BYTES: Final = 4 << 20  # behind that the offset index is the only guide
MAGIC_BYTE: Final = bytes([MAGIC])


class Damage(NamedTuple):
    """Bytes of a records file that are no batches, and the offsets that are missing with them."""

    position: int
    end_position: int
    first_offset: int
    next_offset: int
    reason: str

    def __str__(self) -> str:
        where = f"bytes {self.position} to {self.end_position - 1}"
        return f"offsets {self.first_offset} to {self.next_offset - 1} ({where}): {self.reason}"


class Sound(NamedTuple):
    """Where a batch begins that can be trusted."""

    position: int
    base_offset: int


def next_sound(
    records: RecordsFile, entries: Sequence[OffsetPosition], position: int, offset_min: int, offset_max: int
) -> Sound | None:
    """The first batch behind a damaged one that can be trusted, promise 1."""
    header = records.file.read_at(position, HEADER_BYTES)
    if len(header) == HEADER_BYTES:
        batch = BatchInfo(header)
        end = position + batch.size_bytes
        if batch.magic == MAGIC and batch.size_bytes >= HEADER_BYTES and end < records.size_bytes:
            found = _sound_at(records, end, offset_min, offset_max)
            if found is not None:
                return found
    behind = [entry for entry in entries if entry.position > position and offset_min <= entry.offset <= offset_max]
    found = search_sound(records, position + 1, {entry.position for entry in behind}, offset_min, offset_max)
    if found is not None:
        return found
    for entry in behind:
        found = _sound_at(records, entry.position, offset_min, entry.offset)
        if found is not None:
            return found
    return None


def search_sound(
    records: RecordsFile, position: int, known: Set[int], offset_min: int, offset_max: int
) -> Sound | None:
    """The first position from which two sound batches follow each other, or one that ends where the file ends or where
    a batch is `known` to begin. None when there is none within SEARCH_BYTES."""
    content = records.file.read_at(position, min(SEARCH_BYTES, records.size_bytes - position))
    at = content.find(MAGIC_BYTE, MAGIC_AT) - MAGIC_AT
    while 0 <= at <= len(content) - HEADER_BYTES:
        batch = BatchInfo(content, at)
        if (
            HEADER_BYTES <= batch.size_bytes <= records.size_bytes - position - at
            and offset_min <= batch.base_offset <= batch.last_offset <= offset_max
            and _leads_on(records, position + at, known, offset_min)
        ):
            return Sound(position + at, batch.base_offset)
        at = content.find(MAGIC_BYTE, at + MAGIC_AT + 1) - MAGIC_AT
    return None


def _leads_on(records: RecordsFile, position: int, known: Set[int], offset_min: int) -> bool:
    sound = SoundBatches(records, offset_min, position=position)
    first = next(iter(sound), None)
    if not first:
        return False
    is_known = not known.isdisjoint((position, sound.valid_bytes))
    return len(first) > 1 or sound.valid_bytes == records.size_bytes or is_known


def _sound_at(records: RecordsFile, position: int, offset_min: int, offset_max: int) -> Sound | None:
    if position >= records.size_bytes:
        return None
    first = next(iter(SoundBatches(records, offset_min, position=position)), None)
    if not first or not offset_min <= first[0].base_offset <= offset_max:
        return None
    return Sound(position, first[0].base_offset)


class SegmentVerification:
    """Proves the batches of a segment to its end, also behind damage.

    `end_offset` is what follows when nothing sound does. Damage from `synced_up_to` on is a torn end: it is not passed,
    `torn` says what it is, and `position` where it begins.
    """

    def __init__(
        self,
        records: RecordsFile,
        entries: Sequence[OffsetPosition],
        base_offset: int,
        *,
        end_offset: int,
        has_gaps: bool,
        synced_up_to: int = NEVER_TORN,
    ) -> None:
        self.damages: list[Damage] = []
        self.torn: str | None = None
        self.position = 0
        self.next_offset = base_offset
        self._records = records
        self._entries = entries
        self._offset_max = base_offset + INT32_MAX
        self._end_offset = end_offset
        self._has_gaps = has_gaps
        self._synced_up_to = synced_up_to

    def __iter__(self) -> Iterator[list[BatchInfo]]:
        """`position` is where the batches begin while they are in the caller's hands."""
        while self.position < self._records.size_bytes and self.torn is None:
            sound = self._sound_from(self.position, has_gaps=self._has_gaps)
            for batches in sound:
                yield batches
                self.position, self.next_offset = sound.valid_bytes, sound.next_offset
            if sound.damage is None:
                return
            if self.next_offset >= self._synced_up_to:
                self.torn = sound.damage
            else:
                self._pass_damage(sound.damage)

    def _sound_from(self, position: int, *, has_gaps: bool = True) -> SoundBatches:
        return SoundBatches(
            self._records, self.next_offset, position=position, offset_max=self._offset_max, has_gaps=has_gaps
        )

    def _pass_damage(self, reason: str) -> None:
        missing = None if self._has_gaps else self._begins_later()
        if missing is not None:
            self.damages.append(Damage(self.position, self.position, self.next_offset, missing, "batches are missing"))
            self.next_offset = missing
            return
        found = next_sound(self._records, self._entries, self.position, self.next_offset, self._offset_max)
        end_position = self._records.size_bytes if found is None else found.position
        next_offset = max(self.next_offset, self._end_offset) if found is None else found.base_offset
        self.damages.append(Damage(self.position, end_position, self.next_offset, next_offset, reason))
        self.position, self.next_offset = end_position, next_offset

    def _begins_later(self) -> int | None:
        """Where the records go on, when the batch here is sound and only what should stand before it is not there: what
        follows it confirms its offsets."""
        first = next(iter(self._sound_from(self.position)), None)
        if not first:
            return None
        follows = first[1].base_offset if len(first) > 1 else self._offset_behind(first[0])
        return first[0].base_offset if follows == first[0].next_offset else None

    def _offset_behind(self, batch: BatchInfo) -> int | None:
        end = self.position + batch.size_bytes
        if end >= self._records.size_bytes:
            return self._end_offset
        found = _sound_at(self._records, end, batch.next_offset, self._offset_max)
        return None if found is None else found.base_offset
