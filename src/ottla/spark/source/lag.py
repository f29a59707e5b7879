"""How far a streaming query is behind its topics, from the progress that Spark reports.

    lag = lag_of(query.lastProgress)          # Lag(total=120, least=0, most=80, mean=40.0), or None
    listener = watch_lag(spark)               # a line in the log for every batch; listener.lags by query

Spark lets no Python source report metrics of its own, so the numbers that its Kafka connector has (min-, max- and
avgOffsetsBehindLatest) are made from the two offsets that it does report: where the batch ended, and what there was.
Offsets are counted, not records.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.light_dataclasses import dataclass
from ottla.spark.source.offsets import StreamOffset, UnreadableOffset
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

QUERY_LIMIT: Final = 1_000


@dataclass(frozen=True, slots=True)
class Lag:
    """Offsets between where a batch ended and what there was."""

    total: int
    least: int
    most: int
    mean: float

    def as_metrics(self) -> dict[str, str]:
        """Under the names of Spark's Kafka connector."""
        return {
            "minOffsetsBehindLatest": str(self.least),
            "maxOffsetsBehindLatest": str(self.most),
            "avgOffsetsBehindLatest": str(self.mean),
        }


def lag_of(progress: Any) -> Lag | None:
    """The lag of all our sources in a query's progress; None when it has none, or nothing was read yet."""
    behind = [count for source in (progress.sources if progress is not None else ()) for count in _behind(source)]
    if not behind:
        return None
    return Lag(sum(behind), min(behind), max(behind), sum(behind) / len(behind))


def ends_of(progress: Any) -> dict[TopicPartition, int]:
    """Where a batch ended in all topics of a query; of two sources that read one partition the earlier place."""
    ends: dict[TopicPartition, int] = {}
    for source in progress.sources:
        found = _offset(source.endOffset)
        for partition, offset in found.positions.items() if found is not None else ():
            ends[partition] = min(offset, ends.get(partition, offset))
    return ends


def _behind(source: Any) -> Iterator[int]:
    end, latest = _offset(source.endOffset), _offset(source.latestOffset)
    if end is None or latest is None:
        return
    for partition, offset in latest.positions.items():
        yield max(0, offset - end.positions.get(partition, offset))


def _offset(text: str | None) -> StreamOffset | None:
    """One of our offsets; those of other sources are passed over."""
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(found, dict) or not {"version", "offsets", "topic_ids"} <= found.keys():
        return None
    try:
        return StreamOffset.from_json(found)
    except UnreadableOffset:
        return None


class LagListener(StreamingQueryListener):
    """Writes the lag of every query that reads topics to the log, and keeps the last one of each."""

    def __init__(self) -> None:
        self.lags: dict[str, Lag] = {}
        """By the id of the query; the ids stay the same when a query is started again."""

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        lag = lag_of(event.progress)
        if lag is None:
            return
        query = str(event.progress.id)
        if query in self.lags or len(self.lags) < QUERY_LIMIT:
            self.lags[query] = lag
        log.info(
            "query %s, batch %d: %d offsets behind latest (min %d, max %d, avg %.1f by partition)",
            event.progress.name or query,
            event.progress.batchId,
            lag.total,
            lag.least,
            lag.most,
            lag.mean,
        )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """An idle query has read everything it is allowed to; its last lag stands."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The last lag of a query is kept: it says what was left unread."""


def watch_lag(spark: SparkSession) -> LagListener:
    """Attach a listener to a session; spark.streams.removeListener takes it away."""
    listener = LagListener()
    spark.streams.addListener(listener)
    return listener
