"""The topics that were deleted last, as far as they are remembered.

A crash may come between a deletion and the removal of its logs, and only a log of a topic that this cluster deleted may
be removed. Any other is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.cluster.changes import Change, RemoveTopic

REMEMBERED_DELETIONS: Final = 1_000


class Deletions:
    """The ids of the topics that were deleted last, oldest first."""

    def __init__(self) -> None:
        self._topic_ids: dict[bytes, None] = {}

    def __contains__(self, topic_id: bytes) -> bool:
        return topic_id in self._topic_ids

    def note(self, changes: Iterable[Change]) -> None:
        """Remember what these changes delete."""
        for change in changes:
            if isinstance(change, RemoveTopic):
                self.add(change.topic_id)

    def add(self, topic_id: bytes) -> None:
        """Remember a deletion; the oldest is forgotten at the limit."""
        self._topic_ids[topic_id] = None
        if len(self._topic_ids) > REMEMBERED_DELETIONS:
            del self._topic_ids[next(iter(self._topic_ids))]
