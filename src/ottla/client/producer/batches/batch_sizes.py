"""How much memory a batch begins with, how it grows, and how large it may become.

1. A batch begins small (FIRST_BYTES) and grows by GROWTH up to batch.size while records come, so a large batch.size
   costs memory only where there is something to send: a thousand partitions with a record each hold a thousand small
   buffers.
2. A partition begins with as much as its last batch needed. One that fills its batches begins with all of it and never
   copies; one whose batches leave half empty begins smaller again.
3. A batch that will be compressed may gather more than batch.size before it is, at most GROWN_LIMIT_FACTOR times.
4. A topic that refused a batch as too large (its max.message.bytes is lower than batch.size) gets batches of half that
   size from then on: otherwise each one would be refused, split and sent again.
"""

from __future__ import annotations

from typing import Final

FIRST_BYTES: Final = 16_384
GROWTH: Final = 4
GROWN_LIMIT_FACTOR: Final = 16


class BatchSizes:
    """The sizes of one producer's batches; the accumulator's lock covers it."""

    def __init__(self, batch_bytes: int) -> None:
        self.batch_bytes = batch_bytes
        self.refused_topics: dict[str, int] = {}  # by topic: where brokers refused larger ones

    def limit_bytes(self, topic: str, needed_bytes: int) -> int:
        """How large a batch of this topic may become; one record always fits."""
        limit_bytes = self.refused_topics.get(topic, self.batch_bytes) if self.refused_topics else self.batch_bytes
        return limit_bytes if limit_bytes >= needed_bytes else needed_bytes

    def first_bytes(self, last_bytes: int, limit_bytes: int, needed_bytes: int) -> int:
        """The first buffer of a batch whose predecessor was as large as `last_bytes`."""
        size = FIRST_BYTES
        while size < last_bytes or size < needed_bytes:
            size *= GROWTH
        return size if size < limit_bytes else limit_bytes

    def grown_bytes(self, accounted_bytes: int, limit_bytes: int, needed_bytes: int, *, is_compressed: bool) -> int:
        """The next buffer of a batch that needs more than the one it has; 0 when it may not grow that far."""
        wanted_bytes = accounted_bytes + needed_bytes
        if accounted_bytes < limit_bytes:
            return min(max(GROWTH * accounted_bytes, wanted_bytes), max(limit_bytes, needed_bytes))
        if not is_compressed:
            return 0
        wanted_bytes = max(2 * accounted_bytes, wanted_bytes)
        return wanted_bytes if wanted_bytes <= GROWN_LIMIT_FACTOR * limit_bytes else 0

    def refused(self, topic: str, size_bytes: int) -> None:
        """A broker would not take a batch of several records and this size for the topic."""
        self.refused_topics[topic] = max(1, min(self.refused_topics.get(topic, self.batch_bytes), size_bytes // 2))
