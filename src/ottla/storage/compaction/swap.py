"""How compaction puts new segments in the place of old ones, and what a start makes of a swap that was cut short.

    X.log.cleaned ...            new segments, written and synced
    X.log.cleaned -> X.log.swap  the last base offset first; when the first one is renamed there is no way back
    old -> .deleted              the first base offset first
    X.log.swap -> X.log          done

1. A start that finds a `.cleaned` file undoes: it removes it, and every `.swap` of the same or a larger base offset.
2. A start that finds only `.swap` files completes: it removes the segments whose offsets they cover, and renames them.
3. Either can be cut short again and does the same at the next start.
4. Readers of the old segments go on reading: their files are only set aside.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.storage.files import TEMPORARY_SUFFIX, Files
from ottla.storage.log.log_segments import LogSegments
from ottla.storage.log.partition_directory import PartitionDirectory
from ottla.storage.log.segment_limits import SegmentLimits
from ottla.storage.log.truncate import Removed
from ottla.storage.producers.replay import run, with_sound_indexes
from ottla.storage.producers.snapshot import mark_snapshot_deleted
from ottla.storage.segment.names import CLEANED_SUFFIX, DELETED_SUFFIX, RECORDS_SUFFIX, SWAP_SUFFIX
from ottla.storage.segment.segment import Segment

logger = logging.getLogger(__name__)

_FILE_NAME: Final = re.compile(r"([0-9]{20})(\.[a-z]+)(\.deleted|\.cleaned|\.swap)?")
_SEGMENT_KINDS: Final = frozenset({".log", ".index", ".timeindex", ".txnindex"})


class FileName(NamedTuple):
    """A file of a segment: its base offset, its kind and what is being done to it."""

    base_offset: int
    kind: str
    suffix: str

    def __str__(self) -> str:
        return f"{self.base_offset:020d}{self.kind}{self.suffix}"


def parse_file_name(name: str) -> FileName | None:
    """None for files that belong to no segment."""
    found = _FILE_NAME.fullmatch(name)
    return None if found is None else FileName(int(found[1]), found[2], found[3] or "")


def replace_segments(
    segments: LogSegments, directory: PartitionDirectory, new: Iterable[Segment], old: Iterable[Segment]
) -> Removed:
    """Put segments that are named `.cleaned` in the place of others; returns those that were replaced."""
    coming = sorted(new, key=lambda segment: segment.base_offset)
    going = sorted(old, key=lambda segment: segment.base_offset)
    _check(segments, directory.path, coming, going)
    for segment in reversed(coming):
        segment.on_roll()
        segment.flush()
        segment.rename(SWAP_SUFFIX)
    directory.files.sync_directory(directory.path)
    segments.replace(going, coming)
    segments.forget_positions()
    directory.forget_segments(going)
    kept = {segment.base_offset for segment in coming}
    snapshots = [_set_aside(directory, segment, keep_snapshot=segment.base_offset in kept) for segment in going]
    for segment in coming:
        segment.rename("")
    directory.files.sync_directory(directory.path)
    return Removed(tuple(going), tuple(path for path in snapshots if path is not None))


def _check(segments: LogSegments, path: Path, coming: list[Segment], going: list[Segment]) -> None:
    if not coming or not going or any(segments.get(each.base_offset) is not each for each in going):
        raise ValueError(f"{path.name} can only swap segments that it has for others")
    if segments.last in going:
        raise ValueError(f"{path.name} cannot swap its active segment")
    if any(each.suffix != CLEANED_SUFFIX for each in coming):
        raise ValueError(f"new segments of {path.name} must be named {CLEANED_SUFFIX}")
    following = segments.higher(going[-1].base_offset)
    assert following is not None, "the active segment is not swapped"
    if coming[0].base_offset < going[0].base_offset or coming[-1].next_offset() > following.base_offset:
        raise ValueError(f"new segments of {path.name} reach beyond those they are made from")


def _set_aside(directory: PartitionDirectory, segment: Segment, *, keep_snapshot: bool) -> Path | None:
    segment.rename(DELETED_SUFFIX)
    return None if keep_snapshot else mark_snapshot_deleted(directory.files, directory.path, segment.base_offset)


# --- at start --------------------------------------------------------------------------------------------------------


def resolve_leftovers(files: Files, directory: Path, limits: SegmentLimits, now_ms: int) -> list[FileName]:
    """Remove or complete what a crash left half done; returns the names of segment and snapshot files there are
    then."""
    names = files.list_directory(directory)
    parsed = [each for each in map(parse_file_name, names) if each is not None]
    temporary = [name for name in names if name.endswith(TEMPORARY_SUFFIX)]
    if not temporary and not any(each.suffix for each in parsed):
        return parsed
    for name in temporary:
        files.remove(directory / name)
    undone = _undone(parsed)
    for each in undone:
        logger.info("removing %s, left from before the last stop", directory / str(each))
        files.remove(directory / str(each))
    _complete(files, directory, [each for each in parsed if each not in undone], limits, now_ms)
    files.sync_directory(directory)
    return [each for each in map(parse_file_name, files.list_directory(directory)) if each is not None]


def _undone(names: list[FileName]) -> set[FileName]:
    """Deleted files, half-cleaned ones, and swaps of a replacement that did not come to its turning point."""
    cleaned = [each.base_offset for each in names if each.suffix == CLEANED_SUFFIX]
    return {
        each
        for each in names
        if each.suffix in (DELETED_SUFFIX, CLEANED_SUFFIX)
        or (each.suffix == SWAP_SUFFIX and cleaned and each.base_offset >= min(cleaned))
    }


def _complete(files: Files, directory: Path, names: list[FileName], limits: SegmentLimits, now_ms: int) -> None:
    swaps = sorted(each for each in names if each.suffix == SWAP_SUFFIX)
    bases = {each.base_offset for each in swaps if each.kind == RECORDS_SUFFIX}
    ends = [_next_offset(files, directory, base, limits, now_ms) for base in sorted(bases)]
    for each in names:
        is_covered = bool(bases) and min(bases) <= each.base_offset < max(ends)
        if each.suffix == "" and each.kind in _SEGMENT_KINDS and (is_covered or each.base_offset in bases):
            logger.info("removing %s, which compaction has replaced", directory / str(each))
            files.remove(directory / str(each))
    # Records first: once a .log has its name its old indexes are gone, and the next start only renames the rest.
    for each in sorted(swaps, key=lambda name: (name.base_offset, name.kind != RECORDS_SUFFIX)):
        files.rename(directory / str(each), directory / str(each._replace(suffix="")))


def _next_offset(files: Files, directory: Path, base_offset: int, limits: SegmentLimits, now_ms: int) -> int:
    segment = Segment.open(files, directory, base_offset, limits, now_ms=now_ms, suffix=SWAP_SUFFIX)
    try:
        return with_sound_indexes(
            segment, lambda doubtful: run(doubtful.rebuild_indexes()), lambda each: each.next_offset()
        )
    finally:
        segment.close()
