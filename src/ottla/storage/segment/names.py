"""The names of the files of a segment: the base offset in twenty digits, the kind, and what is being done to it.

00000000000000000042.log   .index   .timeindex   .txnindex
00000000000000000042.log.deleted    waits for its removal
00000000000000000042.log.cleaned    is being written by compaction
00000000000000000042.log.swap       is complete and replaces what it was made from
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

RECORDS_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
ABORTED_INDEX_SUFFIX: Final = ".txnindex"

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


def segment_path(directory: Path, base_offset: int, suffix: str) -> Path:
    """Where a file of a segment is; suffixes can be joined: ".index.deleted"."""
    return directory / f"{base_offset:020d}{suffix}"
