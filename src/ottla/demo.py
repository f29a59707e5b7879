"""`make demo`: the whole story on one machine, in about a minute.

    clicks ──▶ a broker ──▶ Spark: a window per page ──▶ clicks-per-page    (each click counted exactly once)
                                 └─ what is no click ──▶ clicks-rejected    (a dead-letter topic, with the reason)

1. A real broker with its files in a scratch folder, and a thread that writes click events as they would happen.
2. Two streaming queries through format("ottla"). In the middle the counting one is stopped and started again from its
   checkpoint, as after a crash.
3. The output is read back and added up: every good click is in exactly one window, every bad one in the dead letters.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import ottla
from ottla.testing.broker import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CLICKS, COUNTS, REJECTED = "clicks", "clicks-per-page", "clicks-rejected"
PAGES = ("/", "/cart", "/help", "/search", "/wool", "/tea")
EVENTS, ROUNDS = 60_000, 12
WINDOW_S = 20
FIRST_MS = 1_700_000_000_000
STEP_MS = 2  # of event time between two clicks
BAD_EVERY = 97


def main() -> None:
    logging.disable(logging.WARNING)
    folder = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    try:
        with KafkaBroker(directory=folder / "broker") as broker:
            run(broker.bootstrap_servers, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(servers: str, folder: Path) -> None:
    say(f"a broker is ready at {servers}; any Kafka client could use it")
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([ottla.NewTopic(CLICKS, 3), ottla.NewTopic(COUNTS, 2), ottla.NewTopic(REJECTED, 1)])
    began = time.monotonic()
    spark = started_spark()
    say(f"Spark {spark.version} is up after {time.monotonic() - began:.0f} s; no jar was added to it")
    try:
        clicks = Clicks(servers)
        clicks.start()
        stream(spark, servers, folder, clicks)
    finally:
        spark.stop()
    report(servers, clicks, time.monotonic() - began)


def started_spark() -> SparkSession:
    from ottla.spark import session

    return session("ottla demo", master="local[2]", settings={"spark.sql.shuffle.partitions": "2"}, quiet=True)


# -- the clicks --------------------------------------------------------------------------------------------------------


class Clicks(threading.Thread):
    """Writes click events round by round; knows afterwards what it wrote."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="clicks", daemon=True)
        self.servers = servers
        self.good = self.bad = 0
        self.halfway = threading.Event()

    def run(self) -> None:
        random = Random(7)
        with ottla.Producer(bootstrap_servers=self.servers, compression_type="lz4") as producer:
            for number in range(ROUNDS):
                share = range(number * EVENTS // ROUNDS, (number + 1) * EVENTS // ROUNDS)
                producer.send_many(CLICKS, list(self.events(share, random)))
                producer.flush()
                if number == ROUNDS // 2:
                    self.halfway.set()
                time.sleep(0.5)

    def events(self, numbers: range, random: Random) -> Iterator[tuple[bytes, bytes]]:
        """Pairs of key and value."""
        for number in numbers:
            user = f"user-{random.randrange(500)}"
            if number % BAD_EVERY == 5:
                self.bad += 1
                yield user.encode(), b'{"user": "' + user.encode() + b'", "page": '
                continue
            self.good += 1
            click = {"user": user, "page": random.choice(PAGES), "at_ms": FIRST_MS + number * STEP_MS}
            yield user.encode(), json.dumps(click).encode()


# -- the pipeline ------------------------------------------------------------------------------------------------------


def stream(spark: SparkSession, servers: str, folder: Path, clicks: Clicks) -> None:
    rejecting = write(rejected(read(spark, servers)), servers, REJECTED, folder)
    counting = write(counted(read(spark, servers)), servers, COUNTS, folder)
    say("two streaming queries are at work while clicks come in")
    clicks.halfway.wait()
    while counting.isActive and not counting.recentProgress:
        time.sleep(0.2)
    counting.stop()
    say("the counting query was stopped in the middle, and starts again from its checkpoint")
    counting = write(counted(read(spark, servers)), servers, COUNTS, folder)
    clicks.join()
    close_windows(servers)
    for query in (rejecting, counting):
        query.processAllAvailable()
        query.stop()


def read(spark: SparkSession, servers: str) -> DataFrame:
    from pyspark.sql.functions import col, from_json

    options = {"kafka.bootstrap.servers": servers, "subscribe": CLICKS, "startingOffsets": "earliest"}
    shape = "user string, page string, at_ms bigint"
    raw = spark.readStream.format("ottla").options(**options).load()
    return raw.withColumn("click", from_json(col("value").cast("string"), shape))


def counted(clicks: DataFrame) -> DataFrame:
    """How often each page was seen in each window, once the window is over."""
    from pyspark.sql.functions import window

    seen = clicks.where("click.page is not null").selectExpr(
        "click.page", "click.user", "timestamp_millis(click.at_ms) as at"
    )
    windows = seen.withWatermark("at", "1 second").groupBy(window("at", f"{WINDOW_S} seconds"), "page")
    return windows.count().selectExpr(
        "page as key", "to_json(struct(window.start as since, page, count as clicks)) as value"
    )


def rejected(clicks: DataFrame) -> DataFrame:
    return clicks.where("click.page is null").selectExpr(
        "key",
        "value",
        "array(named_struct('key', 'reason', 'value', cast('not a click: no page in it' as binary)),"
        " named_struct('key', 'from', 'value', cast(concat(topic, '-', partition, '@', offset) as binary))) as headers",
    )


def write(rows: DataFrame, servers: str, topic: str, folder: Path) -> StreamingQuery:
    writer = rows.writeStream.format("ottla").outputMode("append").trigger(processingTime="1 second")
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "includeHeaders": "true"}
    return writer.options(**options, checkpointLocation=str(folder / topic)).start()


def close_windows(servers: str) -> None:
    """A click long after the others moves the watermark over the end of every window."""
    late = {"user": "nobody", "page": "/", "at_ms": FIRST_MS + EVENTS * STEP_MS + 3_600_000}
    with ottla.Producer(bootstrap_servers=servers) as producer:
        for partition in range(3):
            producer.send(CLICKS, json.dumps(late).encode(), partition=partition)


# -- the result --------------------------------------------------------------------------------------------------------


def report(servers: str, clicks: Clicks, took_s: float) -> None:
    values = read_back(servers, COUNTS)
    rows = [json.loads(value) for value in values["value"].to_pylist()]
    rejected_rows = read_back(servers, REJECTED)
    say("")
    for line in table(rows):
        say(line)
    total = sum(row["clicks"] for row in rows)
    windows = len({(row["since"], row["page"]) for row in rows})
    say("")
    say(f"{clicks.good:,} good clicks were written, {total:,} are counted in {len(rows)} rows for {windows} windows")
    say(f"{clicks.bad:,} broken ones were written, {rejected_rows.num_rows:,} are in {REJECTED}")
    if (total, rejected_rows.num_rows, len(rows)) != (clicks.good, clicks.bad, windows):
        say("this is not exactly once: please tell us")
        raise SystemExit(1)
    say(f"exactly once, across a restart, in {took_s:.0f} s")
    say("\nNext: ottla broker start   ottla pipeline init   ottla --help")


def read_back(servers: str, topic: str) -> Any:
    return ottla.read_topic(topic, bootstrap_servers=servers, isolation_level="read_committed")


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Pages by windows."""
    windows = sorted({row["since"] for row in rows})
    clicks = {(row["since"], row["page"]): row["clicks"] for row in rows}
    heading = f"{'clicks per page, from':22}" + "".join(f"{since[11:19]:>10}" for since in windows)
    lines = [f"{page:22}" + "".join(f"{clicks.get((since, page), 0):>10,}" for since in windows) for page in PAGES]
    return [heading, "-" * len(heading), *lines]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
