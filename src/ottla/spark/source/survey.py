"""What the driver asks the cluster before a batch, in as few questions as the answer needs.

    list the partitions → their ends → and only where something is new or odd: their beginnings, their true ends

1. When nothing has changed, that is two questions. A trigger without news costs no more.
2. A run that ends with what was there when it began (Trigger.AvailableNow) keeps the ends of then; everything else,
   deleted topics and deleted records, is of now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ottla.light_dataclasses import dataclass
from ottla.spark.source.bounds import Begin
from ottla.spark.source.data_loss import Kind, Loss, Seen, resolve_start
from ottla.spark.source.offsets import StreamOffset
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.topic_positions import Listed, NothingToRead, TopicPositions, TopicsChanged
from ottla.values import TopicPartition

T = TypeVar("T")
Positions = dict[TopicPartition, int]

ATTEMPTS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Survey:
    """Where partitions can be read: from `begins` to `latest`, and what is lost before that."""

    begins: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    losses: tuple[Loss, ...] = ()
    missing: frozenset[str] = frozenset()
    """Topics that were named and are not there."""

    @property
    def waiting(self) -> Positions:
        """How many offsets there are to read."""
        return {each: self.latest[each] - begin for each, begin in self.begins.items()}


@dataclass(frozen=True, slots=True)
class Frozen:
    """What there was when a run began that is to end with it."""

    topic_ids: Mapping[str, str | None]
    latest: Mapping[TopicPartition, int]


def begin_with(options: SourceOptions, positions: TopicPositions) -> Listed:
    """The partitions of a new query. A topic that was named must be there, else a typing error would read nothing."""
    listed = positions.listed()
    for _ in range(options.retry_limit):
        if not listed.missing:
            break
        # One that was made just now is not known to every broker yet.
        positions.wait_to_ask_again()
        listed = positions.listed()
    if listed.missing:
        raise NothingToRead(f"{', '.join(sorted(listed.missing))} does not exist")
    forgotten = sorted(set(options.topics.assigned or ()) - listed.partitions)
    if forgotten:
        raise NothingToRead(f"there is no partition {', '.join(map(str, forgotten))}, which assign names")
    return listed


def freeze(positions: TopicPositions) -> Frozen:
    """What there is now."""

    def read() -> Frozen:
        listed = positions.listed()
        return Frozen(listed.topic_ids, positions.latest(listed.partitions))

    return steadily(read, positions)


def survey(start: StreamOffset, positions: TopicPositions, frozen: Frozen | None = None) -> Survey:
    """What can be read after `start`."""
    return steadily(lambda: _survey(start, positions, frozen), positions)


def steadily(read: Callable[[], T], positions: TopicPositions) -> T:
    """Read again when topics were deleted between two questions: then the answers do not fit together."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return read()
        except TopicsChanged:
            positions.wait_to_ask_again()
    return read()


def _survey(start: StreamOffset, positions: TopicPositions, frozen: Frozen | None) -> Survey:
    listed = positions.listed()
    partitions = listed.partitions if frozen is None else listed.partitions & frozen.latest.keys()
    latest = positions.latest(partitions) if frozen is None else _as_frozen(frozen, listed, partitions)
    seen = _seen(start, listed, partitions, latest, positions)
    begins, losses = resolve_start(start, seen)
    # Records may have been deleted, or a position be ahead of what can be seen, between and beside the questions.
    ends = {each: max(begin, latest.get(each, begin)) for each, begin in begins.items()}
    return Survey(begins, ends, listed.known_ids(), tuple(losses), listed.missing)


def _as_frozen(frozen: Frozen, listed: Listed, partitions: frozenset[TopicPartition]) -> Positions:
    """The ends of then; a topic that was made again since has nothing of then."""
    same = {topic for topic, each in frozen.topic_ids.items() if listed.topic_ids.get(topic) == each}
    return {each: frozen.latest[each] if each.topic in same else 0 for each in partitions}


def _seen(
    start: StreamOffset,
    listed: Listed,
    partitions: frozenset[TopicPartition],
    latest: Mapping[TopicPartition, int],
    positions: TopicPositions,
) -> Seen:
    known = start.positions
    checked = partitions | (listed.partitions & known.keys())
    brief = Seen(listed.topic_ids, checked)
    recreated = {each for each in checked if brief.is_another(each.topic, start.topic_ids)}
    ahead = {each for each in checked & known.keys() if known[each] > latest.get(each, known[each])} - recreated
    moved = {each for each in checked if known.get(each) != latest.get(each, known.get(each))} | recreated
    return Seen(listed.topic_ids, checked, positions.earliest(moved - ahead), positions.ends(ahead))


def within(
    begin: Begin, topic_ids: Mapping[str, str], wanted: Mapping[TopicPartition, int], positions: TopicPositions
) -> tuple[Positions, Positions, list[Loss]]:
    """For a query with a fixed begin and end: both moved to where there are records, and what is lost."""
    firsts, ends = positions.earliest(wanted), positions.ends(wanted)
    start = StreamOffset(begin.positions, topic_ids)
    begins, losses = resolve_start(start, Seen({each.topic: None for each in wanted}, frozenset(wanted), firsts, ends))
    losses = [each for each in losses if each.partition in begin.exact]
    beyond = [each for each, end in sorted(wanted.items()) if end > ends[each]]
    losses += [Loss(Kind.TRUNCATED, each, wanted[each], ends[each]) for each in beyond]
    return begins, {each: min(end, ends[each]) for each, end in wanted.items()}, losses
