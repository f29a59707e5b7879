"""A segment with damaged batches becomes a sound one, with the bytes of another copy of the partition.

    repair = SegmentRepair(log, segment, patches, now_ms)
    for _ in repair.steps(): ...               # any thread; writes a new segment beside the old one
    removed = repair.swap()                    # the owner of the log; files to be removed later

1. Nothing that is sound is asked for again: batches of the old segment are copied, and only what stood in a damaged
   stretch comes from the patch. Every batch of the new segment is proved by its CRC before it is written.
2. A patch has to fill its stretch: all offsets, one after the other, in a log without gaps; nothing beyond it in any.
   What does not is refused, and the old segment stays as it is.
3. The new segment takes the place of the old one as a compacted one does (compaction/swap.py), so a crash leaves one of
   the two. Readers of the old one go on reading it.
4. A log that was cut, deleted or compacted meanwhile is not touched: `swap` says so and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.errors import OttlaError
from ottla.records import BatchInfo, scan
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.truncate import Removed
from ottla.storage.segment.damage import Damage
from ottla.storage.segment.names import CLEANED_SUFFIX
from ottla.storage.segment.records_file import CHUNK_BYTES, SoundBatches
from ottla.storage.segment.segment import Segment


class RepairRefused(OttlaError):
    """What another replica sent cannot take the place of damaged records. It is tried again, with another replica if
    there is one; if it fails every time, look at both copies with `ottla verify`."""


def fitting(damage: Damage, content: bytes, *, has_gaps: bool, log_start_offset: int = 0) -> bytes:
    """The batches of `content` that belong into the stretch; RepairRefused unless they fill it."""
    batches = [batch for batch in scan(content, 0, len(content)) if _is_within(damage, batch)]
    expected = max(damage.first_offset, log_start_offset)
    for batch in batches:
        if not has_gaps and batch.base_offset > expected:
            raise RepairRefused(f"offsets {expected} to {batch.base_offset - 1} are missing in the other copy")
        expected = batch.next_offset
    if not has_gaps and expected < damage.next_offset:
        raise RepairRefused(f"offsets {expected} to {damage.next_offset - 1} are missing in the other copy")
    return b"".join(content[batch.position : batch.position + batch.size_bytes] for batch in batches)


def _is_within(damage: Damage, batch: BatchInfo) -> bool:
    if batch.last_offset < damage.first_offset or batch.base_offset >= damage.next_offset:
        return False
    if batch.base_offset < damage.first_offset or batch.last_offset >= damage.next_offset:
        raise RepairRefused(f"{batch} of the other copy reaches beyond {damage}")
    return True


class SegmentRepair:
    """See the module. `patches` has the batches for every damage of the segment."""

    def __init__(self, log: PartitionLog, segment: Segment, patches: Mapping[Damage, bytes], now_ms: int) -> None:
        self._log = log
        self._old = segment
        self._patches = dict(patches)
        self._now_ms = now_ms
        self._new: Segment | None = None

    def steps(self) -> Iterator[None]:
        """Write the new segment; it is on the disk at the end."""
        log, old = self._log, self._old
        new = self._new = Segment.create(
            *(log.files, log.directory, old.base_offset, log.limits),
            now_ms=self._now_ms,
            jitter_ms=old.jitter_ms,
            suffix=CLEANED_SUFFIX,
        )
        position = 0
        for damage in sorted(self._patches):
            yield from self._copy(new, position, damage.position)
            if patch := self._patches[damage]:
                _append(new, scan(patch, 0, len(patch)), patch)
            position = damage.end_position
            yield
        yield from self._copy(new, position, old.size_bytes)
        for transaction in old.aborted_index.transactions():
            new.aborted_index.append(transaction)
        new.on_roll()
        new.flush()
        log.files.set_modified_ms(new.path, log.files.modified_ms(old.path))

    def _copy(self, new: Segment, position: int, end: int) -> Iterator[None]:
        records = self._old.records
        while position < end:
            chunk = records.file.read_at(position, min(CHUNK_BYTES, end - position))
            batches = self._whole_batches(position, end)
            size_bytes = sum(batch.size_bytes for batch in batches)
            if len(chunk) < size_bytes:
                chunk = records.file.read_at(position, size_bytes)
            _append(new, batches, chunk[:size_bytes])
            position += size_bytes
            yield

    def _whole_batches(self, position: int, end: int) -> list[BatchInfo]:
        found = next(iter(SoundBatches(self._old.records, self._old.base_offset, position=position)), None)
        batches: list[BatchInfo] = []
        for batch in found or ():
            if position + batch.size_bytes > end:
                break
            batches.append(batch)
            position += batch.size_bytes
        if not batches:
            raise RepairRefused(f"{self._old.path} has more damage, at position {position}")
        return batches

    def swap(self) -> Removed | None:
        """Put it in place; None when the log has changed too much meanwhile."""
        new, log = self._new, self._log
        assert new is not None, "steps come first"
        segments = log.segments
        if segments.get(self._old.base_offset) is not self._old or segments.last is self._old:
            self.give_up()
            return None
        removed = log.replace_segments([new], [self._old])
        self._new = None
        return removed

    def give_up(self) -> None:
        """Remove what was written so far, if it was not put in place."""
        if self._new is not None and self._log.segments.last is not None:
            self._new.delete()
        self._new = None


def _append(segment: Segment, batches: list[BatchInfo], content: bytes) -> None:
    segment.append(batches[-1].last_offset, batches, [content])
    segment.indexes.write_pending()
