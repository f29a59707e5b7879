"""What is measured: reads, writes, small batches, and how much of a read is ours."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bench.spark.both import OURS, PARTITIONS, THEIRS, TOPIC, Both, ratio, seconds
from bench.walk.figures import Figure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITTEN_ROWS = 500_000
BATCH_ROWS = 1_000
BATCHES = 20
EXACTLY_ONCE = "exactly-once"


def read(both: Both) -> list[Figure]:
    def once(side: str) -> float:
        return both.rows / seconds(lambda: both.reading(side).write.format("noop").mode("overwrite").save())

    return [_against_theirs("read to noop, 100 B values", both.turns(once), "rows/s", 1.5)]


def decode(both: Both) -> list[Figure]:
    """Fetch and decode alone, in this process, against the whole read; both as seconds of one core."""
    whole_s = statistics.median(
        seconds(lambda: both.reading(OURS).write.format("noop").mode("overwrite").save()) for _ in range(both.rounds)
    )
    alone_s = statistics.median(_decode_alone(both) for _ in range(both.rounds))
    detail = f"{alone_s:.2f} s of CPU to fetch and decode, {whole_s:.2f} s on 2 cores for the whole read"
    return [Figure("our fetch and decode / whole read", alone_s / (whole_s * 2), detail, at_most=1 / 3)]


def _decode_alone(both: Both) -> float:
    from ottla.spark.source.options import SourceOptions
    from ottla.spark.source.range_reading import read_ranges
    from ottla.spark.source.ranges import OffsetRange
    from ottla.spark.source.schema import arrow_schema

    given = {"kafka.bootstrap.servers": both.servers, "subscribe": TOPIC}
    options = SourceOptions.parse(given, streaming=False)
    ranges = [OffsetRange(TOPIC, number, 0, both.rows // PARTITIONS) for number in range(PARTITIONS)]
    schema: Any = arrow_schema(options)
    before = time.process_time()
    rows = sum(batch.num_rows for batch in read_ranges(options, ranges, schema))
    spent = time.process_time() - before
    assert rows == both.rows, f"{rows} of {both.rows} rows were read"
    return spent


def write(both: Both) -> list[Figure]:
    rows = both.spark.range(WRITTEN_ROWS, numPartitions=2).selectExpr(
        "cast(id as string) key", "cast(repeat(cast(id % 10 as string), 100) as binary) value"
    )
    kept = rows.cache()
    kept.count()

    def once(side: str) -> float:
        return WRITTEN_ROWS / seconds(_writing(both, kept, side, "at-least-once"))

    def exactly_once() -> float:
        return WRITTEN_ROWS / seconds(_writing(both, kept, OURS, "exactly-once"))

    plain = both.turns(once)
    figures = [_against_theirs("write, at least once", plain, "rows/s", 1.0)]
    pairs = [(exactly_once(), once(OURS)) for _ in range(both.rounds + 1)][1:]
    exact, again = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    detail = f"{statistics.median(exact):,.0f} / {statistics.median(again):,.0f} rows/s"
    return [*figures, Figure("write, exactly once / at least once", ratio(exact, again), detail, at_least=0.9)]


def _writing(both: Both, rows: DataFrame, side: str, guarantee: str) -> Callable[[], None]:
    writer = rows.write.format(side).mode("append").option("kafka.bootstrap.servers", both.servers)
    writer = writer.option("topic", both.new_topic())
    if side == OURS:
        writer = writer.option("deliveryGuarantee", guarantee)
    return writer.save


def micro_batches(both: Both) -> list[Figure]:
    """Small batches: what a batch costs before it does anything."""
    empty = both.turns(lambda side: _batch_ms(_batch(both, side, sink=None)))
    through = both.turns(lambda side: _batch_ms(_batch(both, side, sink=EXACTLY_ONCE)))
    return [
        _less_than_theirs("micro-batch of 1,000 rows, source to noop", empty, at_most=1.5),
        _less_than_theirs("micro-batch of 1,000 rows, source to sink (ours exactly once)", through, at_most=1.3),
    ]


def phases(both: Both) -> list[Figure]:
    """What a micro-batch from source to sink is made of, as Spark counts it: medians of each phase."""
    kinds = {"ours exactly once": (OURS, EXACTLY_ONCE), "ours at least once": (OURS, "at-least-once")}
    if THEIRS in both.sides:
        kinds["JVM connector"] = (THEIRS, EXACTLY_ONCE)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    for _ in range(both.rounds + 1):
        for name, (side, guarantee) in kinds.items():
            found[name].append(_batch(both, side, sink=guarantee))
    names = sorted({phase for each in found.values() for phase in each[-1]})
    return [
        Figure(
            f"{phase}, ours exactly once",
            statistics.median(each.get(phase, 0.0) for each in found["ours exactly once"][1:]),
            "; ".join(
                f"{name} {statistics.median(each.get(phase, 0.0) for each in runs[1:]):.0f} ms"
                for name, runs in found.items()
            ),
            unit=" ms",
        )
        for phase in names
    ]


def _batch_ms(durations: dict[str, float]) -> float:
    return durations["triggerExecution"]


def _batch(both: Both, side: str, *, sink: str | None) -> dict[str, float]:
    """A run of small batches: the median of each duration that Spark tells, in ms."""
    told = [each["durationMs"] for each in run_batches(both, side, sink=sink)]
    return {phase: statistics.median(each[phase] for each in told) for phase in told[0]}


def run_batches(both: Both, side: str, *, sink: str | None) -> list[dict[str, Any]]:
    """What Spark tells of each batch of a run of small ones, but for the first two."""
    stream = both.spark.readStream.format(side).option("kafka.bootstrap.servers", both.servers)
    stream = stream.option("subscribe", TOPIC).option("maxOffsetsPerTrigger", str(BATCH_ROWS))
    last = {
        TOPIC: {
            str(number): both.rows // PARTITIONS - BATCH_ROWS * BATCHES // PARTITIONS for number in range(PARTITIONS)
        }
    }
    rows = stream.option("startingOffsets", json.dumps(last)).load().select("key", "value")
    writer = rows.writeStream.option("checkpointLocation", str(both.new_directory())).trigger(availableNow=True)
    if sink is None:
        writer = writer.format("noop")
    else:
        writer = writer.format(side).option("kafka.bootstrap.servers", both.servers).option("topic", both.new_topic())
        writer = writer.option("deliveryGuarantee", sink) if side == OURS else writer
    query = writer.start()
    query.awaitTermination()
    return [dict(json.loads(each.json)) for each in query.recentProgress if each["numInputRows"]][2:]


def _against_theirs(name: str, found: dict[str, list[float]], unit: str, bar: float) -> Figure:
    ours = found[OURS]
    if THEIRS not in found:
        return Figure(name, statistics.median(ours), f"{unit}; Spark's own connector is not here")
    theirs = found[THEIRS]
    detail = f"{statistics.median(ours):,.0f} / {statistics.median(theirs):,.0f} {unit}"
    return Figure(f"{name}: ours / JVM connector", ratio(ours, theirs), detail, at_least=bar)


def _less_than_theirs(name: str, found: dict[str, list[float]], *, at_most: float) -> Figure:
    ours = found[OURS]
    if THEIRS not in found:
        return Figure(name, statistics.median(ours), "Spark's own connector is not here", unit=" ms")
    theirs = found[THEIRS]
    detail = f"{statistics.median(ours):,.0f} / {statistics.median(theirs):,.0f} ms"
    return Figure(f"{name}: ours / JVM connector", ratio(ours, theirs), detail, at_most=at_most)
