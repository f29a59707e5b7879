"""Room on the disk ahead of a file that grows: ext4 finds a place for 4 MiB at once instead of for every block.

A file that is only written to makes the file system note each new block twice: that it must find a place for it, and
later where. With the place found before, a write of 256 KiB takes two thirds of the CPU (decision 0087).

1. The end of the file does not move: `size()` and readers see nothing of it, and what is reserved reads as nothing.
2. It is a wish. Where the system refuses, or is not known to gain from it, files grow as they did.
3. A file gets none before it has 8 MiB (segment/records_file.py), and never more than an eighth of what it has, or
   MOST_BYTES: many small partitions take no more of the disk than before. A segment that is complete gives the rest
   back; one whose broker was killed keeps it until it is cut or removed.

The native twin does the asking; this one, without a way to ask, says that there is none.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 8
MOST_BYTES: Final = 4_194_304


def room_ahead(size_bytes: int) -> int:
    """How much room a file of this size gets ahead of its end."""
    return min(size_bytes // SHARE, MOST_BYTES)


def reserve(number: int, position: int, size_bytes: int) -> bool:
    """Ask for room from `position` on, behind the end of a file; False when there is none to be had."""
    return False
