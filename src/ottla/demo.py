"""`make demo`: the whole story on one machine, in about a minute, told while it happens.

    clicks ──▶ a broker ──▶ Spark: a window per page ──▶ clicks-per-page    (each click counted exactly once)
                                 └─ what is no click ──▶ clicks-rejected    (a dead-letter topic, with the reason)

1. A real broker with its files in a scratch folder, and a thread that writes click events as they would happen.
2. Two streaming queries through format("ottla"); their code is shown as it is run. In the middle the counting one is
   stopped, clicks go on coming in, and it is started again from its checkpoint.
3. The output is read back and added up: every good click is in exactly one window, every bad one in the dead letters.
4. No step is silent for long (`Reminder`), and nothing is printed that is no part of the story: the test of this file
   reads all of its output, stderr too.
5. With --stay the broker goes on running in the end, with commands to try on it, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
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
REPORT_EVERY_S = 5.0
REMIND_AFTER_S = 7.0  # longer, so that nobody is reminded of what is reported

_began_s = _spoke_s = time.monotonic()
_doing = "at work"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m ottla.demo", description="The whole story on one machine.")
    parser.add_argument("--stay", action="store_true", help="leave the broker running in the end, until Ctrl-C")
    options = parser.parse_args(words)
    logging.disable(logging.WARNING)
    folder = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    try:
        with KafkaBroker({"ottla.admin.listener": "127.0.0.1:0"}, directory=folder / "broker") as broker:
            with Reminder():
                run(broker.bootstrap_servers, folder)
            say_next(broker, stays=options.stay)
            if options.stay:
                wait_for_the_end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(servers: str, folder: Path) -> None:
    step("1. A broker; any Kafka client can use it. In a shell of yours:")
    show(f"$ ottla broker start --listen {servers} --data {folder / 'broker'}")
    step("2. Three topics:")
    with ottla.Admin(bootstrap_servers=servers) as admin:
        for topic, partitions in ((CLICKS, 3), (COUNTS, 2), (REJECTED, 1)):
            show(f"$ ottla topic create {topic} -p {partitions}")
            admin.create_topics([ottla.NewTopic(topic, partitions)])
    step("3. Spark starts: a Java process, 10 seconds, up to a minute on a busy machine", doing="starting Spark")
    spark = started_spark()
    step(f"   Spark {spark.version} is up; no jar was added to it")
    clicks = Clicks(servers)
    try:
        clicks.start()
        stream(spark, servers, folder, clicks)
    finally:
        clicks.resume.set()
        spark.stop()
    report(servers, clicks)


def started_spark() -> SparkSession:
    from ottla.spark import session
    from ottla.spark.datasource import OttlaSource
    from ottla.spark.running.session import prefer_quick_start

    prefer_quick_start()
    settings = {"spark.sql.shuffle.partitions": "2"}
    spark = session("ottla demo", master="local[2]", settings=settings, quiet=True)
    # Spark finds the source by itself, unless some other pyspark_* module on the path cannot be imported: then it
    # passes over all Python sources without a word, and the first query ends with a page of Java.
    spark.dataSource.register(OttlaSource)
    return spark


# -- the clicks --------------------------------------------------------------------------------------------------------


class Clicks(threading.Thread):
    """Writes click events round by round, with a pause at half time until `resume` is set; counts what it wrote."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="clicks", daemon=True)
        self.servers = servers
        self.good = self.bad = 0
        self.halfway, self.resume = threading.Event(), threading.Event()

    @property
    def written(self) -> int:
        return self.good + self.bad

    def run(self) -> None:
        random = Random(7)
        with ottla.Producer(bootstrap_servers=self.servers, compression_type="lz4") as producer:
            for number in range(ROUNDS):
                share = range(number * EVENTS // ROUNDS, (number + 1) * EVENTS // ROUNDS)
                producer.send_many(CLICKS, list(self.events(share, random)))
                producer.flush()
                if number + 1 == ROUNDS // 2:
                    self.halfway.set()
                    self.resume.wait()
                time.sleep(0.3)

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
    from ottla.spark.running.stopping import stop_between_batches

    step("4. Two streaming queries, while clicks come in. This is the code of the one that counts:")
    show_code(read, counted, write)
    doing("starting the queries")
    rejecting = write(rejected(read(spark, servers, "reject-clicks")), servers, REJECTED, folder)
    counting = write(counted(read(spark, servers, "count-clicks")), servers, COUNTS, folder)
    clicks.halfway.wait()
    follow(counting, clicks.written)
    doing("stopping the counting query")
    stop_between_batches(counting)
    again = "5. The counting query is stopped. Clicks go on coming in; it starts again from its checkpoint"
    step(again, doing="starting the counting query again")
    before = clicks.written
    clicks.resume.set()
    counting = write(counted(read(spark, servers, "count-clicks")), servers, COUNTS, folder)
    clicks.join()
    close_windows(servers)
    follow(counting, clicks.written - before)
    doing("ending both queries")
    for query in (rejecting, counting):
        query.processAllAvailable()
        stop_between_batches(query)


def read(spark: SparkSession, servers: str, group: str) -> DataFrame:
    from pyspark.sql.functions import col, from_json

    options = {"kafka.bootstrap.servers": servers, "subscribe": CLICKS, "startingOffsets": "earliest"}
    shape = "user string, page string, at_ms bigint"
    raw = spark.readStream.format("ottla").options(**options, commitGroupId=group).load()
    return raw.withColumn("click", from_json(col("value").cast("string"), shape))


def counted(clicks: DataFrame) -> DataFrame:
    """How often each page was seen in each window, once the window is over."""
    from pyspark.sql.functions import window

    seen = clicks.where("click.page is not null").selectExpr("click.page", "timestamp_millis(click.at_ms) as at")
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


def follow(query: StreamingQuery, expected: int) -> None:
    """Report how far the query is, until it has read so many rows and is idle. Raises its error."""
    reported, next_report_s, rows = "", 0.0, 0
    while rows < expected:
        rows = sum(each.numInputRows for each in query.recentProgress)
        line = f"   the counting query has read {rows:,} clicks. Spark: {readable(query.status['message'])}"
        if line != reported or time.monotonic() > next_report_s:
            step(line)
            reported, next_report_s = line, time.monotonic() + REPORT_EVERY_S
        if query.awaitTermination(1):
            break
    query.processAllAvailable()


def readable(status: str) -> str:
    """What Spark says that it does, with the topic in place of the object in Java that reads it."""
    return re.sub(r"[\w.$]+(?:\[[^\]]*\])?@[0-9a-f]+", f"the topic {CLICKS}", status)


def close_windows(servers: str) -> None:
    """A click long after the others moves the watermark over the end of every window."""
    late = {"user": "nobody", "page": "/", "at_ms": FIRST_MS + EVENTS * STEP_MS + 3_600_000}
    with ottla.Producer(bootstrap_servers=servers) as producer:
        for partition in range(3):
            producer.send(CLICKS, json.dumps(late).encode(), partition=partition)


# -- the result --------------------------------------------------------------------------------------------------------


def report(servers: str, clicks: Clicks) -> None:
    rows = [json.loads(value) for value in read_back(servers, COUNTS)["value"].to_pylist()]
    rejected_count = read_back(servers, REJECTED).num_rows
    step(f"6. What is in {COUNTS} now, each window once:")
    show("\n".join(table(rows)))
    step(f"7. Two of the dead letters, with the reason and where they came from ({REJECTED}):")
    run_command(servers, "consume", REJECTED, "-n", "2", "-q", "--read-committed", "-f", r"%s   %h\n")
    total = sum(row["clicks"] for row in rows)
    windows = len({(row["since"], row["page"]) for row in rows})
    step("8. The proof:")
    show(f"{clicks.good:,} good clicks were written, {total:,} are counted in {len(rows)} rows for {windows} windows")
    show(f"{clicks.bad:,} broken ones were written, {rejected_count:,} are in {REJECTED}")
    if (total, rejected_count, len(rows)) != (clicks.good, clicks.bad, windows):
        show("this is not exactly once: please report it")
        raise SystemExit(1)
    step("Exactly once, across a restart.")


def say_next(broker: KafkaBroker, *, stays: bool) -> None:
    """Where to look next: commands that work as they stand."""
    ottla_command = typed_command(Path(sys.executable).with_name("ottla"))
    if not stays:
        say("\nNext (the broker of this demo is gone; make demo STAY=1 leaves it running):")
        say_commands(
            (f"{ottla_command} broker start", "a broker of your own, at 127.0.0.1:9092"),
            (f"{ottla_command} pipeline init clicks", "a pipeline like this one, as a YAML file"),
            (f"{ottla_command} --help", "everything else; README.md has the tour"),
        )
        return
    servers = broker.bootstrap_servers
    commands = [
        (f"export OTTLA_BOOTSTRAP_SERVERS={servers}", ""),
        (f"{ottla_command} topic describe {COUNTS}", "what is in a topic, and where"),
        (f"{ottla_command} consume {REJECTED} -n 3", "read records"),
        (f"{ottla_command} top", "the cluster, live"),
    ]
    if broker.info.admin_address is not None:
        host, port = broker.info.admin_address
        commands.append((f"curl http://{host}:{port}/metrics", "metrics for Prometheus"))
        if broker.info.http_parts:
            commands.append((f"http://{host}:{port}", "the console, in a browser"))
    say(f"\nThe broker goes on running at {servers}, until Ctrl-C. In another terminal, in this folder:")
    say_commands(*commands)


def say_commands(*commands: tuple[str, str]) -> None:
    width = max(len(command) for command, what in commands if what) + 3
    for command, what in commands:
        say(f"    {command:{width}}{what}".rstrip())


def typed_command(program: Path) -> str:
    """How a program is called from here: by its name where the shell finds it, else by its path."""
    if (found := shutil.which(program.name)) is not None and Path(found).resolve() == program.resolve():
        return program.name
    try:
        return str(program.relative_to(Path.cwd()))
    except ValueError:
        return str(program)


def wait_for_the_end() -> None:
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        say("\nThe broker is stopped and its scratch folder removed.")


def read_back(servers: str, topic: str) -> Any:
    return ottla.read_topic(topic, bootstrap_servers=servers, isolation_level="read_committed")


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Pages by windows."""
    windows = sorted({row["since"] for row in rows})
    clicks = {(row["since"], row["page"]): row["clicks"] for row in rows}
    heading = f"{'clicks per page, from':22}" + "".join(f"{since[11:19]:>10}" for since in windows)
    lines = [f"{page:22}" + "".join(f"{clicks.get((since, page), 0):>10,}" for since in windows) for page in PAGES]
    return [heading, "-" * len(heading), *lines]


# -- what is printed ---------------------------------------------------------------------------------------------------


def step(text: str, doing: str = "at work") -> None:
    """A line with the seconds since the beginning, and what goes on from then on."""
    global _doing
    _doing = doing
    say(f"[{time.monotonic() - _began_s:3.0f} s] {text}")


def doing(what: str) -> None:
    """What goes on from now on; only whoever waits long hears of it."""
    global _doing
    _doing = what


def show(text: str) -> None:
    say(textwrap.indent(text, " " * 11))


def show_code(*functions: Callable[..., Any]) -> None:
    for function in functions:
        show(inspect.getsource(function))


def run_command(servers: str, *words: str) -> None:
    """Run `ottla ...` and show the command with what it prints."""
    quoted = [f"'{word}'" if " " in word else word for word in words]
    show(f"$ ottla {' '.join(quoted)} -b {servers}")
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *words, "-b", servers], check=True, text=True, stdout=subprocess.PIPE
    )
    show(done.stdout.rstrip())


def say(text: str) -> None:
    global _spoke_s
    _spoke_s = time.monotonic()
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Reminder:
    """Says what is still going on, whenever nothing was said for REMIND_AFTER_S."""

    def __enter__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._remind, name="reminder", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _remind(self) -> None:
        while not self._ended.wait(max(_spoke_s + REMIND_AFTER_S - time.monotonic(), 0.1)):
            if time.monotonic() >= _spoke_s + REMIND_AFTER_S:
                step(f"   ... still {_doing}", doing=_doing)


if __name__ == "__main__":
    main()
