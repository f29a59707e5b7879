"""kafka-consumer-perf-test: how fast records are read, with the columns that people parse.

As Apache's tool it ends with 0 when too few records came, and says so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import file_settings, pairs_of
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_dates import java_date
from ottla.cli.kafka.java_errors import described
from ottla.cli.kafka.parser import BOOTSTRAP, Options, flag, number, parse, value
from ottla.cli.operations.load import COLUMNS, MEGABYTE, consumed, consumed_cells
from ottla.cli.output import OK
from ottla.clock import SystemClock
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer
    from ottla.values import TopicPartition

SUMMARY: Final = "This tool is used to verify the consumer performance."
POLL_S: Final = 0.1
OPTIONS: Final = (
    BOOTSTRAP,
    value("topic", "the topic to read", "topic"),
    value("include", "a regular expression of topics to read", "Java regex (String)"),
    value("group", "a group to be in (a new one)", "gid"),
    number("fetch-size", "bytes of one partition in an answer", "size", default=1024 * 1024),
    value("command-property", "a setting of the consumer; may be repeated", "prop1=val1"),
    flag("from-latest", "begin at the end"),
    number("socket-buffer-size", "bytes of the socket's buffer", "size", default=2 * 1024 * 1024),
    value("consumer.config", "old name of --command-config", "config file"),
    value("command-config", "a file with settings of the consumer", "config file"),
    flag("print-metrics", "print metrics at the end"),
    flag("show-detailed-stats", "a line for each interval instead of one at the end"),
    number("timeout", "milliseconds without a record before it gives up", "milliseconds", default=10_000),
    number("messages", "old name of --num-records", "count"),
    number("num-records", "REQUIRED: how many records to read", "count"),
    number("reporting-interval", "milliseconds between lines", "interval_ms", default=5000),
    value("date-format", "how times are written", "date format", default="yyyy-MM-dd HH:mm:ss:SSS"),
    flag("hide-header", "without the line of headings"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-consumer-perf-test", SUMMARY, OPTIONS, words)
    options.require("bootstrap-server")
    options.one_of("topic", "include")
    options.one_of("messages", "num-records")
    options.exclude("consumer.config", ["command-config"])
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if options.has(old):
            print(f"Warning: --{old} is deprecated. Use --{new} instead.")
    try:
        _read(options)
    except (OttlaError, TimeoutError, ValueError) as error:
        fail(described(error))
    return OK


def _settings(options: Options) -> dict[str, object]:
    settings: dict[str, object] = {}
    if (path := options.value("consumer.config") or options.value("command-config")) is not None:
        settings |= file_settings(path)
    settings |= pairs_of(options.values("command-property"))
    settings |= {
        "bootstrap.servers": options.text("bootstrap-server"),
        "group.id": options.value("group") or f"perf-consumer-{int.from_bytes(os.urandom(4), 'big') % 100_000}",
        "receive.buffer.bytes": options.text("socket-buffer-size"),
        "max.partition.fetch.bytes": options.text("fetch-size"),
        "auto.offset.reset": "latest" if options.has("from-latest") else "earliest",
        "check.crcs": "false",
    }
    for deserializer in ("key.deserializer", "value.deserializer"):
        settings.pop(deserializer, None)  # only sizes count
    settings.setdefault("client.id", "perf-consumer-client")
    return settings


def _read(options: Options) -> None:
    from ottla.client.consumer.consumer import Consumer

    detailed = options.has("show-detailed-stats")
    if not options.has("hide-header"):
        print(f"{'time, threadId' if detailed else 'start.time, end.time'}, {COLUMNS}")
    interval_ms = options.number("reporting-interval") or 0
    if interval_ms <= 0:
        raise ValueError("Reporting interval must be greater than 0.")
    with Consumer(_settings(options)) as consumer:
        reading = _Reading(options, interval_ms, detailed)
        reading.run(consumer)
        if options.has("print-metrics"):
            from ottla.cli.kafka.metric_table import print_metrics

            print_metrics(consumer.metrics())


class _Joining:
    """How long the group took to share out partitions: from the start, and whenever all were taken away."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._since_ms = clock.now_ms()
        self._assigned: set[TopicPartition] = set()
        self.total_ms = 0
        self.round_ms = 0

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._assigned -= set(partitions)
        if not self._assigned:
            self._since_ms = self._clock.now_ms()

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if not self._assigned:
            elapsed_ms = self._clock.now_ms() - self._since_ms
            self.total_ms += elapsed_ms
            self.round_ms += elapsed_ms
        self._assigned |= set(partitions)


class _Reading:
    """Reads and counts."""

    def __init__(self, options: Options, interval_ms: int, detailed: bool) -> None:
        self._options = options
        self._interval_ms = interval_ms
        self._detailed = detailed
        self._dates = options.text("date-format")
        self._wanted = options.number("messages") or options.number("num-records") or 0
        self._timeout_ms = options.number("timeout") or 0
        self._clock = SystemClock()
        self._joining = _Joining(self._clock)
        self._count = self._bytes = 0
        self._last = (self._clock.now_ms(), 0, 0)
        """When the last line was printed, and the counts of then."""

    def run(self, consumer: Consumer) -> None:
        started_ms = self._clock.now_ms()
        java_date(self._dates, started_ms)  # a wrong format is told before the work
        self._subscribe(consumer)
        self._poll(consumer)
        if self._count < self._wanted:
            print(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({self._timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
            )
        if not self._detailed:
            self._print_result(started_ms, self._clock.now_ms())

    def _subscribe(self, consumer: Consumer) -> None:
        if self._options.has("topic"):
            consumer.subscribe([self._options.text("topic")], listener=self._joining)
        else:
            consumer.subscribe(pattern=self._options.text("include"), listener=self._joining)

    def _poll(self, consumer: Consumer) -> None:
        now_ms = last_ms = self._clock.now_ms()
        self._last = (now_ms, 0, 0)
        while self._count < self._wanted and now_ms - last_ms <= self._timeout_ms:
            records = consumer.poll(POLL_S)
            now_ms = self._clock.now_ms()
            if records:
                last_ms = now_ms
                self._count += len(records)
                self._bytes += sum(len(each.key or b"") + len(each.value or b"") for each in records)
            if records and now_ms - self._last[0] >= self._interval_ms:
                self._report(now_ms)

    def _report(self, now_ms: int) -> None:
        since_ms, count, size = self._last
        elapsed_ms = now_ms - since_ms
        megabytes, records = (self._bytes - size) / MEGABYTE, self._count - count
        joined_ms, fetch_ms = self._joining.round_ms, elapsed_ms - self._joining.round_ms
        per_fetch = 1000 / fetch_ms if fetch_ms > 0 else 0.0
        if self._detailed:
            print(
                f"{java_date(self._dates, now_ms)}, 0, {self._bytes / MEGABYTE:.4f}, "
                f"{megabytes * 1000 / elapsed_ms:.4f}, {self._count}, {records * 1000 / elapsed_ms:.4f}, "
                f"{joined_ms}, {fetch_ms}, {megabytes * per_fetch:.4f}, {records * per_fetch:.4f}",
                flush=True,
            )
        self._joining.round_ms = 0
        self._last = (now_ms, self._count, self._bytes)

    def _print_result(self, started_ms: int, ended_ms: int) -> None:
        figures = consumed(self._count, self._bytes, max(ended_ms - started_ms, 1), self._joining.total_ms)
        times = f"{java_date(self._dates, started_ms)}, {java_date(self._dates, ended_ms)}"
        print(f"{times}, {consumed_cells(figures)}")
