"""All limits of the options together, for one run of a query: limits.py decides, here they meet clock and cluster.

The smallest limit counts in each partition. A run that ends with what there was when it began is never held back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ottla.spark.source.limits import Delay, Pace, share_bytes, share_offsets, smallest
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.record_sizes import RecordSizes
from ottla.spark.source.survey import Survey
from ottla.values import TopicPartition

Counts = dict[TopicPartition, int]


class BatchLimits:
    """How much the next batch reads."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        sizes: RecordSizes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        least, time_ms = options.min_offsets_per_trigger, options.max_time_per_trigger_ms
        self._options = options
        self._now = monotonic
        self._wall = wall
        self._delay = None if least is None else Delay(least, options.max_trigger_delay_ms)
        self._pace = None if time_ms is None else Pace(time_ms)
        self._sizes = sizes or RecordSizes(options)

    def close(self) -> None:
        self._sizes.close()

    def log_in_anew(self, options: SourceOptions) -> None:
        self._options = options
        self._sizes.log_in_anew(options)

    def counts(self, found: Survey, *, is_run_to_an_end: bool) -> Counts | None:
        """Offsets of each partition, or None when the batch is to wait for more."""
        now_ms = self._now() * 1000
        waiting = {each: count for each, count in found.waiting.items() if count > 0}
        if self._pace is not None:
            self._pace.asked(now_ms, self._wall() * 1000)
        is_held_back = self._delay is not None and self._delay.holds_back(sum(waiting.values()), now_ms)
        if is_held_back and not is_run_to_an_end:
            return None
        counts = self._limited(found, waiting)
        if self._pace is not None:
            self._pace.planned(sum(counts.values()), self._now() * 1000)
        return counts

    def begins(self, offsets: int) -> None:
        """A batch of so many offsets begins that was planned by an earlier run."""
        if self._pace is not None:
            self._pace.planned(offsets, self._now() * 1000)

    def _limited(self, found: Survey, waiting: Counts) -> Counts:
        options, counts = self._options, waiting
        if options.max_offsets_per_trigger is not None:
            counts = share_offsets(waiting, options.max_offsets_per_trigger)
        if self._pace is not None:
            counts = smallest(counts, share_offsets(waiting, self._pace.allowed))
        if options.max_bytes_per_trigger is not None:
            means = self._sizes.means(found.begins, waiting)
            counts = smallest(counts, share_bytes(waiting, means, options.max_bytes_per_trigger))
        return counts
