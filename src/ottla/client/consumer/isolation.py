"""read_committed: which transactional batches of a fetch answer are for users.

A broker gives a reader of committed records nothing beyond the last stable offset, so every transaction it sees has
ended. What was aborted is named in the answer: (producer id, first offset) of each aborted transaction that reaches
into the bytes. The end of one is its ABORT marker, a control batch of the same producer.

1. A transactional batch is aborted when an aborted transaction of its producer began at or before its last offset
   and no ABORT marker of that producer came since.
2. COMMIT markers change nothing: a producer has one transaction at a time, and that one was not in the list.
3. Everything here is asked in the order of the log, once per batch; asking twice for the same batch is harmless.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Literal

from ottla.records.control import ControlType, marker_type_of_keys

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
LEVELS: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
IsolationLevel = Literal["read_uncommitted", "read_committed"]


class CommittedOnly:
    """The aborted transactions of one partition in one fetch answer."""

    __slots__ = ("_aborted", "_coming")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted` are pairs (producer id, first offset) in any order."""
        self._coming = deque(sorted(aborted, key=lambda pair: pair[1]))
        self._aborted: set[int] = set()

    def is_aborted(self, last_offset: int, producer_id: int) -> bool:
        """Whether the transactional batch that ends at `last_offset` belongs to an aborted transaction."""
        self._begin_up_to(last_offset)
        return producer_id in self._aborted

    def met_control_batch(self, last_offset: int, producer_id: int, keys: Iterable[bytes | None]) -> None:
        """A control batch stands here, with these keys; an ABORT ends what its producer had open."""
        self._begin_up_to(last_offset)
        if marker_type_of_keys(keys) == ControlType.ABORT:
            self._aborted.discard(producer_id)

    def _begin_up_to(self, last_offset: int) -> None:
        while self._coming and self._coming[0][1] <= last_offset:
            self._aborted.add(self._coming.popleft()[0])
