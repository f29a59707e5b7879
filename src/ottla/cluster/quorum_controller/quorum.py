"""What a controller needs of the quorum whose log it writes; Raft is behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class MetadataQuorum(Protocol):
    """The log, for as long as this node leads it."""

    epoch: int
    """Of the leadership; the LeaderChangeMessage of it is committed when a controller is activated."""

    @property
    def next_offset(self) -> int:
        """Where the next record that is appended lies."""

    def append(self, batches: Sequence[Sequence[bytes]]) -> int:
        """Append encoded records, each inner sequence as one batch; where the log ends then. NotController when this
        node does not lead any more; nothing is appended when it raises."""

    def raise_kraft_version(self, level: int) -> int:
        """Append the level of the quorum, and who votes; where the log ends then. InvalidUpdateVersion where the voters
        cannot work at it, NotController when this node does not lead any more."""

    async def committed(self, end_offset: int) -> None:
        """Return when everything before the offset is committed; NotController when the leadership ended before."""
