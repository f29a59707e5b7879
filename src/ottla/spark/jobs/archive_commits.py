"""Which batches of an archive are whole: the only ones that a replay may read.

The directories of a batch appear one after the other (topic by topic, day by day), so files that are there say nothing
about files that are still to come. Spark notes a batch in the commit log of the archive's checkpoint when all of it is
written:

    clicks-archive/_ottla/checkpoint/commits/12      batch 12 is whole

1. Batches are committed in the order of their numbers. So the greatest name in the log says it for all before it, and
   it does not matter that Spark removes old names (it keeps the last hundred).
2. A name appears at once, by a rename; what is being written begins with a dot.
3. Read the log before the files: what is committed does not change any more, what is listed later may be newer.
4. Without a checkpoint nobody can know what is whole: such a directory is refused, not guessed at.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.errors import OttlaError
from ottla.spark.jobs.archive_layout import STATE

CHECKPOINT: Final = f"{STATE}/checkpoint"
COMMITS: Final = f"{CHECKPOINT}/commits"
NONE_COMMITTED: Final = -1


class NotAnArchive(OttlaError):
    """There are no files here that `ottla job archive` wrote. Name the directory that the archive job was started
    with."""


class ArchiveUnfinished(OttlaError):
    """The archive has no finished batch yet. Let `ottla job archive` finish, then replay."""


def last_committed_batch(files: Any, root: str) -> int:
    """The number of the last batch that is whole; NONE_COMMITTED when the first is still being written."""
    from pyarrow import fs

    root = root.rstrip("/")
    if files.get_file_info(f"{root}/{CHECKPOINT}").type is not fs.FileType.Directory:
        raise NotAnArchive(f"{root} has no {CHECKPOINT}, which says what is whole; it belongs to the archive")
    listed = files.get_file_info(fs.FileSelector(f"{root}/{COMMITS}", allow_not_found=True))
    return max((int(each.base_name) for each in listed if each.base_name.isdecimal()), default=NONE_COMMITTED)
