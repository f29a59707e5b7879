"""When a segment ends and the next one begins.

1. The indexes of the old segment are completed, the producers are written down as <base offset>.snapshot, then the
   files of the new segment are made. A roll that fails leaves the old segment active; at most a snapshot more is
   there, and it is true.
2. Nothing is synced here, because appends wait: old segment, snapshot and names go with the next flush. A snapshot
   that a crash tore is found by its sum, and the one before it is taken.
3. An empty segment is not rolled: the new one would have its name.
"""

from __future__ import annotations

from ottla.errors import DiskFull, IllegalMove
from ottla.storage.log.log_state import LogState
from ottla.storage.producers.snapshot import encode_snapshot, snapshot_path
from ottla.storage.segment.segment import Segment


def roll(log: LogState, now_ms: int, first_offset: int = 0) -> Segment:
    """Let the next append begin a new segment, at `first_offset` if the log ends before it; gives the new one."""
    base_offset = max(log.log_end_offset, first_offset)
    active = log.active
    if active.base_offset == base_offset:
        if active.size_bytes:
            raise IllegalMove(f"{log.topic_partition} cannot roll at {base_offset}, where {active.path} begins")
        return active
    active.on_roll()
    if log.settings.preallocate:
        active.records.file.truncate(active.size_bytes)
    log.producers.move_end(base_offset)
    write_snapshot(log)
    made = log.new_segment(base_offset, now_ms)
    log.segments.add(made)
    log.partition_directory.note_segment(active)
    return made


def write_snapshot(log: LogState) -> None:
    """Write down the producers as they are at the end of the log, unless that was done; the next flush syncs it."""
    producers = log.producers
    if producers.end_offset <= producers.snapshot_offset:
        return
    path = snapshot_path(log.directory, producers.end_offset)
    try:
        file = log.files.open(path, create=True)
        try:
            file.truncate(0)
            file.write_at(0, [encode_snapshot(producers.entries.values())])
        finally:
            file.close()
    except DiskFull:
        log.files.remove(path, missing_ok=True)
        raise
    producers.snapshot_offset = producers.end_offset
    log.partition_directory.note_file(path)
