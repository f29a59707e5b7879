"""commitGroupId: the progress of a streaming query, committed to a consumer group, so that lag tools see it.

1. Spark's checkpoint stays the truth; a restart goes on from there and not from the group. The group is for people
   and tools, and for another query that begins with startingGroupId.
2. When Spark asks what comes after an offset, everything before it is done and in the checkpoint: that is when the
   offset is committed. So no listener is needed, and the last batch of Trigger.AvailableNow is committed too, because
   Spark asks once more before it ends. What a query has done when it is stopped between two questions, and the one
   batch of Trigger.Once, is committed when it is started again.
3. The first commit of a run must succeed: a group that may not be used, or that has members, fails the query at once. A
   later commit that fails is a warning, and the next offset is committed instead: the query is more important than its
   display.
4. With every offset goes a note, "spark batch=12": how many batches this run of the query has finished. The console
   knows queries by it.
5. The group must have no members: consumers that read with it would fight with the query about its offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from ottla.errors import IllegalGeneration, OttlaError, UnknownMemberId
from ottla.spark.source.offsets import StreamOffset
from ottla.values import TopicPartition

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 10.0
NOTE: Final = "spark batch={}"


class GroupInUse(OttlaError):
    """Offsets cannot be committed to a consumer group that has members. Choose another commitGroupId, or stop them."""


class Commits(Protocol):
    """What is asked of the cluster; TopicPositions does it."""

    def commit(self, group_id: str, positions: Mapping[TopicPartition, int], note: str, timeout_s: float) -> None: ...


class GroupCommits:
    """Commits the offsets of one query, each once."""

    def __init__(self, group_id: str, commits: Commits) -> None:
        self._group_id = group_id
        self._commits = commits
        self._committed: Mapping[TopicPartition, int] | None = None
        self._is_proved = False
        self._last: Mapping[TopicPartition, int] = {}
        self._batch_count = -1  # the first offset is where the run begins

    def done_before(self, offset: StreamOffset) -> None:
        """Everything before this offset is done."""
        if offset.positions == self._committed or not offset.positions:
            return
        if offset.positions != self._last:
            self._last, self._batch_count = dict(offset.positions), self._batch_count + 1
        try:
            self._commits.commit(self._group_id, offset.positions, NOTE.format(self._batch_count), TIMEOUT_S)
        except OttlaError as error:
            self._failed(error)
        else:
            self._committed = dict(offset.positions)
            self._is_proved = True

    def _failed(self, error: OttlaError) -> None:
        if not self._is_proved and isinstance(error, UnknownMemberId | IllegalGeneration):
            raise GroupInUse(self._group_id) from error
        if not self._is_proved and not error.retriable:
            raise error
        log.warning("offsets were not committed to group %s, the next ones will be: %s", self._group_id, error)
