"""How many log files are open at once: a budget, and which files are closed when it is used up.

A partition has three files and a process may have a limited number (ulimit -n), which connections need too. So a file
that nobody has used for a while is closed, and opened again by its next use; only time is lost.

1. The budget is what the process may have, less a quarter (RESERVED_MIN at least) for connections, tables, snapshots
   and libraries. Without a limit nothing is ever closed.
2. Which file goes is decided by second chances: the one opened longest ago, unless it was used since it was
   checked last. A use costs one assignment, and finding a victim a constant number of steps on average.
3. Closing a file whose user is in the middle of a call does not disturb him: `File.detach` lets the kernel's number
   live until he is done.
4. When the system has no number left all the same (EMFILE, because connections took more than their share), victims
   are closed in advance (EVICTED_AT_ONCE) and the call is made once more.
5. Every partition must be able to have its active segment open: `partition_limit` is how many that are, and topics
   that would need more are refused. A broker that has more already still serves them, with more openings and closings.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Protocol

RESERVED_MIN: Final = 128
RESERVED_SHARE: Final = 4
BUDGET_MIN: Final = 16
EVICTED_AT_ONCE: Final = 8


class Evictable(Protocol):
    """An open file that is opened again by its next use."""

    is_recent: bool

    def detach(self) -> None: ...


class OpenFiles:
    """The files of all log directories of a broker that are open now; any thread may call."""

    def __init__(self, process_limit: int | None) -> None:
        """`process_limit` is how many files the process may have open; None is any number."""
        self.process_limit = process_limit
        self.limit = None if process_limit is None else budget_of(process_limit)
        self._open: OrderedDict[Evictable, None] = OrderedDict()
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def partition_limit(self) -> int | None:
        """How many partitions can have a file open each."""
        return self.limit

    def add(self, file: Evictable) -> None:
        """A file was opened; another one may be closed for it."""
        with self._guard:
            self._open[file] = None
            if self.limit is not None and len(self._open) > self.limit:
                self._evict(len(self._open) - self.limit)

    def discard(self, file: Evictable) -> None:
        """A file was closed by its owner."""
        with self._guard:
            self._open.pop(file, None)

    def shrink(self) -> bool:
        """Close a few, because the system has no number left; says whether any could be."""
        with self._guard:
            return self._evict(EVICTED_AT_ONCE) > 0

    def _evict(self, count: int) -> int:
        evicted = 0
        # Two rounds at most: in the first everybody may have a second chance, in the second nobody has.
        for _ in range(2 * len(self._open)):
            if evicted == count or not self._open:
                break
            file = next(iter(self._open))
            if file.is_recent:
                file.is_recent = False
                self._open.move_to_end(file)
            else:
                del self._open[file]
                file.detach()
                evicted += 1
        return evicted


def budget_of(process_limit: int) -> int:
    """How many of the files that a process may have open are for logs."""
    reserved = max(RESERVED_MIN, process_limit // RESERVED_SHARE)
    return max(BUDGET_MIN, process_limit - reserved)
