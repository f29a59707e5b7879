"""How many bytes of requests are in memory, in all connections together: queued.max.request.bytes.

Two kinds count. A request that waits for its answer (for a disk, for other brokers, for records to come) keeps its
bytes, and a thousand producers of megabytes could fill the memory with them; one that is answered at once does not
count. And large frames that are being received (large_frames.py).

1. When the limit is reached, a connection has one request at a time: it is not read while one of its requests waits.
   When half of the limit is free again, everybody is read as before. So the fetch of a follower, for which produce
   requests may be waiting, still comes through.
2. The limit asks, it does not refuse: what was already read is still worked on.
3. Every request that waits has a deadline, and large frames have one too, so it cannot stay full.
"""

from __future__ import annotations

from collections.abc import Callable


class WaitingRequests:
    """The bytes of all, and whether more may be read."""

    def __init__(self, limit_bytes: int, changed: Callable[[], None]) -> None:
        """A limit of 0 or less is none; `changed` is called when `is_full` has changed."""
        self.size_bytes = 0
        self.is_full = False
        self._limit_bytes = limit_bytes
        self._changed = changed

    def change(self, by_bytes: int) -> None:
        """So many bytes more wait, or less."""
        self.size_bytes += by_bytes
        if self._limit_bytes <= 0:
            return
        if self.size_bytes > self._limit_bytes // 2 and (self.is_full or self.size_bytes < self._limit_bytes):
            return
        is_full = self.size_bytes >= self._limit_bytes
        if is_full is not self.is_full:
            self.is_full = is_full
            self._changed()


NO_LIMIT = WaitingRequests(0, lambda: None)
"""For a connection that stands alone."""
