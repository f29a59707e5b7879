"""Begin and end of every partition of a batch query: when Spark plans it, and again where that plan has grown old.

Spark plans a `spark.read` once, however often it is used. In one query that is right: every action reads the same. The
static side of a stream is used by every micro-batch, and read by that plan it would never show a new record. So a task
of a micro-batch asks the cluster itself, as Spark's own connector does on the driver:

1. The number of tasks stays that of the plan. Each reads whole partitions, chosen by their names alone (`Share`), so a
   partition is read by one task, whatever has changed meanwhile: new partitions, topics that a pattern matches since,
   topics that were made again, beginnings that retention has moved.
2. A partition is read up to the end that it has when its task begins: after the batch was planned, and the same for all
   its rows. A task that is tried again may see more, and so may a batch that is repeated.
3. Offsets that are all named one by one are no question: their plan does not grow old.
"""

from __future__ import annotations

from typing import Final

from ottla.spark.running.cores import core_count
from ottla.spark.source import data_loss
from ottla.spark.source.bounds import ending_positions, starting_positions
from ottla.spark.source.kept import KeptForTasks
from ottla.spark.source.offsets import Packing, StreamOffset
from ottla.spark.source.option_rows import Bound
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import EVERYTHING, OffsetRange, Share, ranges_between
from ottla.spark.source.survey import begin_with, steadily, within
from ottla.spark.source.topic_positions import TopicPositions


def snapshot(
    options: SourceOptions, positions: TopicPositions, share: Share = EVERYTHING
) -> tuple[StreamOffset, StreamOffset]:
    """Begin and end of what is to be read, as it is now."""

    def read() -> tuple[StreamOffset, StreamOffset]:
        listed = begin_with(options, positions)
        wanted = frozenset(filter(share.has, listed.partitions))
        begin = starting_positions(options, listed.partitions, positions, wanted)
        ends = ending_positions(options, listed.partitions, positions, wanted)
        topic_ids = listed.known_ids()
        begins, ends, losses = within(begin, topic_ids, ends, positions)
        data_loss.report_losses(losses, fails=options.fail_on_data_loss)
        packing = Packing(core_count(), options.min_partitions, options.max_records_per_partition)
        return StreamOffset(begins, topic_ids), StreamOffset(ends, topic_ids, packing)

    return steadily(read, positions)


def is_fixed(options: SourceOptions) -> bool:
    """Whether the options say the same offsets whenever they are asked."""
    return options.starting_group_id is None and all(map(_is_exact, (options.starting, options.ending)))


def _is_exact(bound: Bound) -> bool:
    return bound.offsets is not None and all(offset >= 0 for offset in bound.offsets.values())


def ranges_of_now(options: SourceOptions, share: Share) -> tuple[OffsetRange, ...]:
    """What a task of a micro-batch reads of a static side."""
    positions = _kept.take(options)
    try:
        start, end = snapshot(options, positions, share)
    except BaseException:
        positions.close()
        raise
    _kept.give_back(options, positions)
    return tuple(ranges_between(start, end))


_kept: Final = KeptForTasks(TopicPositions)
