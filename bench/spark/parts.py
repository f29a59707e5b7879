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
    return [*figures, Figure("write, exactly once / at least once", ratio(exact, again), detail, at_least=0.7)]


def _writing(both: Both, rows: DataFrame, side: str, guarantee: str) -> Callable[[], None]:
    writer = rows.write.format(side).mode("append").option("kafka.bootstrap.servers", both.servers)
    writer = writer.option("topic", both.new_topic())
    if side == OURS:
        writer = writer.option("deliveryGuarantee", guarantee)
    return writer.save


def micro_batches(both: Both) -> list[Figure]:
    """Small batches: what a batch costs before it does anything."""
    empty = both.turns(lambda side: _batch_ms(both, side, sink=False))
    through = both.turns(lambda side: _batch_ms(both, side, sink=True))
    return [
        _less_than_theirs("micro-batch of 1,000 rows, source to noop", empty),
        _less_than_theirs("micro-batch of 1,000 rows, source to sink (ours exactly once)", through),
    ]


def _batch_ms(both: Both, side: str, *, sink: bool) -> float:
    stream = both.spark.readStream.format(side).option("kafka.bootstrap.servers", both.servers)
    stream = stream.option("subscribe", TOPIC).option("maxOffsetsPerTrigger", str(BATCH_ROWS))
    last = {
        TOPIC: {
            str(number): both.rows // PARTITIONS - BATCH_ROWS * BATCHES // PARTITIONS for number in range(PARTITIONS)
        }
    }
    rows = stream.option("startingOffsets", json.dumps(last)).load().select("key", "value")
    writer = rows.writeStream.option("checkpointLocation", str(both.new_directory())).trigger(availableNow=True)
    if sink:
        writer = writer.format(side).option("kafka.bootstrap.servers", both.servers).option("topic", both.new_topic())
    else:
        writer = writer.format("noop")
    query = writer.start()
    query.awaitTermination()
    times = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
    return statistics.median(times[2:])


def _against_theirs(name: str, found: dict[str, list[float]], unit: str, bar: float) -> Figure:
    ours = found[OURS]
    if THEIRS not in found:
        return Figure(name, statistics.median(ours), f"{unit}; Spark's own connector is not here")
    theirs = found[THEIRS]
    detail = f"{statistics.median(ours):,.0f} / {statistics.median(theirs):,.0f} {unit}"
    return Figure(f"{name}: ours / JVM connector", ratio(ours, theirs), detail, at_least=bar)


def _less_than_theirs(name: str, found: dict[str, list[float]]) -> Figure:
    ours = found[OURS]
    if THEIRS not in found:
        return Figure(name, statistics.median(ours), "Spark's own connector is not here", unit=" ms")
    theirs = found[THEIRS]
    detail = f"{statistics.median(ours):,.0f} / {statistics.median(theirs):,.0f} ms"
    return Figure(f"{name}: ours / JVM connector", ratio(ours, theirs), detail, at_most=1.5)
