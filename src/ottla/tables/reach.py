"""What of a topic can be read now, and what can never be read any more: a decision about offsets.

1. Read is [next offset, last stable offset): a table has no record of an open or an aborted transaction.
2. What was deleted before it was read is a Gap. It is told, in the commit and in the log, or it stops the table; it is
   never passed over in silence. What was deleted before a table began is none: the table begins behind it.
3. A topic with another id, fewer partitions, or an end before the table's is not the one that the table has rows of.
   Then the table stops: what has been written stays right, and a person has to choose.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.light_tuples import NamedTuple
from ottla.tables.marker import Marker


class PartitionOffsets(NamedTuple):
    """Where a partition begins, and where what is committed ends."""

    log_start: int
    last_stable: int


class TopicDescription(NamedTuple):
    """A topic as the cluster shows it."""

    topic_id: str
    partitions: Mapping[int, PartitionOffsets]


class Gap(NamedTuple):
    """Offsets that were deleted before they were read."""

    partition: int
    start: int
    end: int


class Reach(NamedTuple):
    """What can be read: from where to where, by partitions, behind these gaps."""

    ranges: Mapping[int, tuple[int, int]]
    gaps: tuple[Gap, ...]

    @property
    def offsets(self) -> int:
        return sum(end - start for start, end in self.ranges.values())


class Halt(NamedTuple):
    """Why a table cannot go on: what happened, and what to do; `is_final` when that is a person's."""

    reason: str
    is_final: bool = True


def beginning(topic: TopicDescription) -> Mapping[int, int]:
    """Where a new table begins."""
    return {partition: seen.log_start for partition, seen in topic.partitions.items()}


def other_topic(marker: Marker, topic: TopicDescription) -> Halt | None:
    """Why this is not the topic whose rows the table has; None when it is."""
    if marker.topic_id != topic.topic_id:
        return Halt(
            f"the table has rows of topic {marker.topic_id}, and the topic of this name is {topic.topic_id} now: "
            "it was made anew. Give the new one another table, or drop this one"
        )
    lost = sorted(marker.next_offsets.keys() - topic.partitions.keys())
    if lost:
        return Halt(
            f"the table has rows of partitions that the topic does not have: {lost[:10]}. See what became of it"
        )
    return None


def reach(positions: Mapping[int, int], topic: TopicDescription, *, stops_at_gaps: bool) -> Reach | Halt:
    """What can be read behind these positions. A partition that came later is read from its first offset."""
    ranges: dict[int, tuple[int, int]] = {}
    gaps: list[Gap] = []
    for partition, seen in sorted(topic.partitions.items()):
        start = positions.get(partition, 0)
        if start > seen.last_stable:
            return Halt(
                f"the table has partition {partition} up to offset {start}, and its log ends at {seen.last_stable}: "
                "it has lost its end. What the table has behind that is nowhere else; give the topic another table"
            )
        if start < seen.log_start:
            gaps.append(Gap(partition, start, seen.log_start))
            start = seen.log_start
        if start < seen.last_stable:
            ranges[partition] = (start, seen.last_stable)
    if gaps and stops_at_gaps:
        return Halt(f"{gap_sentence(gaps)}; ottla.table.gaps=report goes on behind that")
    return Reach(ranges, tuple(gaps))


def gap_sentence(gaps: list[Gap] | tuple[Gap, ...]) -> str:
    """Gaps as a sentence."""
    places = [f"partition {gap.partition} offsets {gap.start} to {gap.end - 1}" for gap in gaps[:10]]
    more = f" and {len(gaps) - 10} more" if len(gaps) > 10 else ""
    return f"records were deleted before the table had them: {', '.join(places)}{more}"
