"""Which of two looks at a node in ZooKeeper is the newer one, also when one of them found nothing.

A node that is there has a version and a birth; one that is gone has neither. But every answer of ZooKeeper says how far
its server was (the zxid), and within a session that only grows. So a look lies between the zxid before its question and
the one after its answer.

1. A look that may have happened before another one that counted already, or before a write of our own, is old: it must
   not overwrite anything, and the node is read again.
2. At most LIMIT nodes are remembered, the ones that changed last: the order is about looks that cross each other.
"""

from __future__ import annotations

from typing import Final

LIMIT: Final = 10_000


class ReadOrder:
    """The newest zxid that something is known of each node at."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._newest: dict[str, int] = {}
        self._limit = limit

    def __len__(self) -> int:
        return len(self._newest)

    def note(self, path: str, zxid: int) -> None:
        """The node was read or written, at this zxid at the latest."""
        newest = max(zxid, self._newest.pop(path, 0))
        self._newest[path] = newest
        if len(self._newest) > self._limit:
            del self._newest[next(iter(self._newest))]

    def is_old(self, path: str, since: int) -> bool:
        """Whether a look that began at this zxid may be older than what is known."""
        return since < self._newest.get(path, 0)
