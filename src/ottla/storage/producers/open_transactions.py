"""Which transactions of a partition hold back its last stable offset.

A transaction is ongoing from its first record to its marker, and then unreplicated until the high watermark is past
that marker: a reader of committed records must not see the outcome of a transaction that a new leader may not know.

1. The first unstable offset is the first record of the oldest transaction that is ongoing or unreplicated.
2. The first undecided offset looks at ongoing ones only: what is decided is decided, known or not.
3. Both are kept sorted by first offset; asking costs nothing, because every fetch asks.
4. Their number is bounded by the number of producers with an open transaction and by what lies above the high
   watermark.
"""

from __future__ import annotations

from bisect import insort

from ottla.errors import IllegalMove
from ottla.light_tuples import NamedTuple


class CompletedTransaction(NamedTuple):
    """A transaction that its marker, at `last_offset`, has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class OpenTransactions:
    """The transactions of one partition that are not over for its readers."""

    def __init__(self) -> None:
        self._producers: dict[int, int] = {}
        self._ongoing: list[int] = []
        self._last_offsets: dict[int, int] = {}
        self._unreplicated: list[int] = []
        self.has_unreplicated = False  # every move of the high watermark asks

    @property
    def first_undecided_offset(self) -> int | None:
        return self._ongoing[0] if self._ongoing else None

    @property
    def first_unstable_offset(self) -> int | None:
        if not self._unreplicated:
            return self.first_undecided_offset
        if not self._ongoing:
            return self._unreplicated[0]
        return min(self._ongoing[0], self._unreplicated[0])

    @property
    def oldest_producer_id(self) -> int | None:
        """Whose ongoing transaction began first."""
        return self._producers[self._ongoing[0]] if self._ongoing else None

    def start(self, first_offset: int, producer_id: int) -> None:
        if first_offset not in self._producers:
            insort(self._ongoing, first_offset)
        self._producers[first_offset] = producer_id

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Where the last stable offset can go when this transaction is over: what the transaction index stores.

        Several batches may be booked at once, so transactions that began behind the marker may be known already, of
        the same producer too. They do not count: a reader would take them for the next that could have been aborted.
        """
        bound = completed.last_offset + 1
        others = (first_offset for first_offset in self._ongoing if first_offset != completed.first_offset)
        return min(next(others, bound), bound)

    def complete(self, completed: CompletedTransaction) -> None:
        """It is decided; only the high watermark is still to pass."""
        if self._producers.pop(completed.first_offset, None) is None:
            raise IllegalMove(f"{completed} cannot be completed: it was never started")
        self._ongoing.remove(completed.first_offset)
        insort(self._unreplicated, completed.first_offset)
        self.has_unreplicated = True
        self._last_offsets[completed.first_offset] = completed.last_offset

    def forget_before(self, offset: int) -> None:
        """Markers below `offset` are known to all who may become leader, or are deleted."""
        if not self._unreplicated:
            return
        self._unreplicated = [first for first in self._unreplicated if self._last_offsets[first] >= offset]
        self._last_offsets = {first: self._last_offsets[first] for first in self._unreplicated}
        self.has_unreplicated = bool(self._unreplicated)

    def clear(self) -> None:
        self._producers.clear()
        self._ongoing.clear()
        self._last_offsets.clear()
        self._unreplicated.clear()
        self.has_unreplicated = False
