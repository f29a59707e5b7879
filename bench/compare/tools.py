"""The load: Apache's own programs, unchanged, and how their words become figures.

    tools = Tools(jars, scratch)
    tools.produce(port, topic, Amount(records=4_000_000, warm_records=2_000_000, record_bytes=100))   # MB/s

1. Clients have their defaults (acks=all and idempotence among them), but where a function says otherwise.
2. A JVM that has just begun is slow. Every figure leaves out its first part: ProducerPerformance does so itself
   (--warmup-records); of what consumers do the reports of the first third are dropped; EndToEndLatency has no such
   option, so it sends enough that its slow beginning lies beyond the 99th percentile.
3. ProducerPerformance would make up each record byte by byte, a core's work at 100 MB/s; it is given PAYLOADS of them.
4. The tools tell percentiles in whole milliseconds, cut off. They are compared by what they may be at most (`+ 1`).
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random
from string import ascii_uppercase
from typing import Final

from bench.compare.brokers import JVM

LIMIT_S: Final = 300.0
HEAP: Final = "-Xmx512M"  # as kafka-producer-perf-test.sh gives
QUIET: Final = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
PACKAGE: Final = "org.apache.kafka.tools."
REPORT_MS: Final = 100
PAYLOADS: Final = 1_000
WARM_SHARE: Final = 1 / 3
DATE_FORMAT: Final = "%Y-%m-%d %H:%M:%S:%f"
STEADY: Final = re.compile(r"^\d+ steady state records sent.*?\(([\d.]+) MB/sec\).*? (\d+) ms 99th", re.MULTILINE)
SHARE_REPORT: Final = re.compile(r"[^,]+, ([^,]+), [^,]+, [^,]+, [^,]+, (\d+), \d+ for (share consumer \d+)$")
END_TO_END: Final = re.compile(r"Avg latency: ([\d.]+) ms\s+Percentiles: 50th = (\d+), 99th = (\d+)")


@dataclass(frozen=True)
class Amount:
    """How much is sent."""

    records: int
    warm_records: int
    record_bytes: int


class ToolFailed(Exception):
    """A program of Apache's ended with a fault, or said something unexpected."""


class Tools:
    """The programs of one release."""

    def __init__(self, jars: Path, scratch: Path) -> None:
        self._jars = jars
        self._scratch = scratch

    def create_topic(self, port: int, topic: str, partitions: int) -> None:
        self._run("TopicCommand", port, "--create", "--topic", topic, "--partitions", str(partitions))

    def delete_topic(self, port: int, topic: str) -> None:
        self._run("TopicCommand", port, "--delete", "--topic", topic)

    def produce(self, port: int, topic: str, amount: Amount) -> float:
        """MB/s as fast as one producer can."""
        return self._produce(port, topic, amount, -1)[0]

    def paced_p99_ms(self, port: int, topic: str, amount: Amount, rate: int) -> int:
        """The 99th percentile until a record is acknowledged, at `rate` records a second, each sent at once."""
        return self._produce(port, topic, amount, rate, "linger.ms=0")[1]

    def _produce(self, port: int, topic: str, amount: Amount, rate: int, *settings: str) -> tuple[float, int]:
        total = amount.records + amount.warm_records
        printed = self._run(
            "ProducerPerformance",
            port,
            *("--topic", topic, "--num-records", str(total), "--warmup-records", str(amount.warm_records)),
            *("--payload-file", str(self._payloads(amount.record_bytes)), "--throughput", str(rate)),
            *(("--command-property", *settings) if settings else ()),
        )
        return steady_state(printed)

    def _payloads(self, record_bytes: int) -> Path:
        path = self._scratch / f"payloads-{record_bytes}.txt"
        if not path.exists():
            letters = Random(record_bytes)
            lines = ("".join(letters.choices(ascii_uppercase, k=record_bytes)) for _ in range(PAYLOADS))
            path.write_text("\n".join(lines))
        return path

    def consume(self, port: int, topic: str, records: int) -> float:
        """MB/s as fast as one consumer can, from the beginning of the topic."""
        printed = self._run(
            "ConsumerPerformance",
            port,
            *("--topic", topic, "--num-records", str(records)),
            *("--show-detailed-stats", "--hide-header", "--reporting-interval", str(REPORT_MS)),
        )
        return steady_rate(printed)

    def share(self, port: int, topic: str, group: str, records: int, consumers: int) -> float:
        """Records/s that share consumers of a group acquire and accept together."""
        printed = self._run(
            "ShareConsumerPerformance",
            port,
            *("--topic", topic, "--group", group, "--num-records", str(records), "--threads", str(consumers)),
            *("--timeout", str(int(LIMIT_S * 1e3))),
            *("--show-detailed-stats", "--hide-header", "--reporting-interval", str(REPORT_MS)),
        )
        return steady_share_rate(printed)

    def end_to_end(self, port: int, topic: str, records: int, record_bytes: int) -> tuple[float, int]:
        """Mean and 99th percentile, in ms, from send to received, one record at a time, acks=all."""
        size = ("--num-records", str(records), "--record-size", str(record_bytes))
        printed = self._run("EndToEndLatency", port, "--topic", topic, "--producer-acks", "all", *size)
        found = END_TO_END.search(printed)
        if found is None:
            raise ToolFailed(f"EndToEndLatency told no percentiles: {printed[-1000:]}")
        return float(found[1]), int(found[3])

    def _run(self, name: str, port: int, *arguments: str) -> str:
        server = ("--bootstrap-server", f"127.0.0.1:{port}")
        command = ["java", HEAP, *JVM, QUIET, "-cp", f"{self._jars}/*", PACKAGE + name, *server, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode:
            raise ToolFailed(f"{name} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout


def steady_state(printed: str) -> tuple[float, int]:
    """MB/s and the 99th percentile in ms, of what ProducerPerformance counts after its warm-up."""
    found = STEADY.search(printed)
    if found is None:
        raise ToolFailed(f"ProducerPerformance told no steady state: {printed[-1000:]}")
    return float(found[1]), int(found[2])


def steady_share_rate(printed: str) -> float:
    """Records/s of all share consumers together, between the first report after a third of them and the last one."""
    reports = [found.groups() for line in printed.splitlines() if (found := SHARE_REPORT.match(line))]
    counts: dict[str, int] = {}
    seen: list[tuple[float, float]] = []
    for until, count, consumer in sorted(reports):
        counts[consumer] = int(count)
        seen.append((datetime.strptime(until, DATE_FORMAT).timestamp(), sum(counts.values())))
    return _rate_after_a_third(seen, printed)


def steady_rate(printed: str) -> float:
    """MB/s between the first report after a third of the bytes and the last report."""
    reports = [line.split(", ") for line in printed.splitlines() if line.count(", ") == 9]
    seen = [(datetime.strptime(report[0], DATE_FORMAT).timestamp(), float(report[2])) for report in reports]
    return _rate_after_a_third(seen, printed)


def _rate_after_a_third(seen: list[tuple[float, float]], printed: str) -> float:
    """Of what was counted until when, as a program reported it."""
    warm = [each for each in seen if each[1] >= seen[-1][1] * WARM_SHARE]
    if len(warm) < 2 or warm[-1][0] <= warm[0][0]:
        raise ToolFailed(f"the program reported too seldom; give it more records: {printed[-1000:]}")
    return (warm[-1][1] - warm[0][1]) / (warm[-1][0] - warm[0][0])
