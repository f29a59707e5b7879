"""Small batches at a trigger of 100 ms, source to sink: how long they take, beside Spark's own connector.

    python -m bench.spark --only trigger          p50 and p99 of a batch, ours exactly once, theirs at least once
    python -m bench.spark --only endurance        10,000 batches of one query: the last tenth beside the first

A thread writes FEED_ROWS records every FEED_EVERY_S all the while, so that each batch has some.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final

from bench.spark.both import OURS, Both
from bench.spark.realistic import beside
from bench.walk.figures import Figure

import ottla

TRIGGER: Final = "100 milliseconds"
FEED_EVERY_S: Final = 0.05
FEED_ROWS: Final = 500


def trigger(both: Both) -> list[Figure]:
    """Batches that come every 100 ms: how long each takes, source to sink."""
    found: dict[str, list[list[float]]] = {side: [] for side in both.sides}
    for number in range(both.rounds + 1):
        for side in both.sides if number % 2 else both.sides[::-1]:
            times = triggered(both, side, 200)
            if number:
                found[side].append(times)
    figures = []
    for name, part, bar in (("p50", 50, 1.0), ("p99", 99, 1.2)):
        of = {side: [percentile(times, part) for times in runs] for side, runs in found.items()}
        figures.append(
            beside(f"micro-batch at {TRIGGER}, {name}: ours exactly once / JVM connector", of, "ms", at_most=bar)
        )
    return figures


def endurance(both: Both) -> list[Figure]:
    """Many batches of one query: none of the last is slower than the first."""
    count = int(os.environ.get("BATCHES", "10000"))
    times = triggered(both, OURS, count)
    first, last = times[: count // 10], times[-count // 10 :]
    detail = f"{percentile(first, 50):.0f} and {percentile(last, 50):.0f} ms"
    return [
        Figure(
            f"{len(times):,} micro-batches: the last tenth over the first, p50",
            percentile(last, 50) / percentile(first, 50),
            detail,
            at_most=1.2,
        )
    ]


def triggered(both: Both, side: str, batches: int) -> list[float]:
    """What Spark says that each of so many batches took, without the first ten, in ms."""
    topic, out = both.new_topic(), both.new_topic()
    over = threading.Event()
    feeding = threading.Thread(target=_feed, args=(both.servers, topic, over))
    stream = both.spark.readStream.format(side).option("kafka.bootstrap.servers", both.servers)
    rows = stream.option("subscribe", topic).option("startingOffsets", "earliest").load().select("key", "value")
    writer = rows.writeStream.option("checkpointLocation", str(both.new_directory())).format(side)
    writer = writer.option("kafka.bootstrap.servers", both.servers).option("topic", out)
    taken: dict[int, float] = {}
    query = writer.trigger(processingTime=TRIGGER).start()
    feeding.start()
    try:
        while len(taken) < batches + 10:
            time.sleep(0.5)
            if (error := query.exception()) is not None:
                raise error
            for told in query.recentProgress:
                if told["numInputRows"]:
                    taken[told["batchId"]] = told["durationMs"]["triggerExecution"]
    finally:
        over.set()
        feeding.join()
        query.stop()
    return [taken[number] for number in sorted(taken)][10 : batches + 10]


def _feed(servers: str, topic: str, over: threading.Event) -> None:
    values = [os.urandom(100) for _ in range(FEED_ROWS)]
    with ottla.Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        while not over.wait(FEED_EVERY_S):
            producer.send_many(topic, values)


def percentile(times: list[float], part: int) -> float:
    return sorted(times)[min(len(times) - 1, len(times) * part // 100)]
