"""kafka-replica-verification: reads the same offsets from every replica, over and over, and tells where they differ.

1. It runs until it is stopped, and prints the largest lag between what is verified and what is committed in every
   --report-interval-ms. Apache's says that it is deprecated; `ottla verify replicas` ends and gives a verdict.
2. A broker that does not answer holds its partitions back until it does; the others go on.
3. Replicas are read as a consumer reads them (KIP-392), so the right to read is enough.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from ottla.cli.kafka.cluster import BOOTSTRAP_SETTING, admin_with, check_servers
from ottla.cli.kafka.ends import ToolEnded, fail
from ottla.cli.kafka.java_dates import java_date
from ottla.cli.kafka.java_errors import described
from ottla.cli.kafka.parser import Options, number, parse, value
from ottla.cli.kafka.topics import include_pattern
from ottla.cli.output import FAILED, INTERRUPTED
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.copies import Copy, CopyPart
    from ottla.clock import Clock
    from ottla.values import TopicPartition

SUMMARY: Final = "Validate that all replicas for a set of topics have the same data."
DATE: Final = "yyyy-MM-dd HH:mm:ss,SSS"
LATEST, EARLIEST = -1, -2
ANSWER_S: Final = 10.0
OPTIONS: Final = (
    value("broker-list", "REQUIRED: one or more brokers, HOST:PORT,HOST:PORT", "hostname:port,...,hostname:port"),
    number("fetch-size", "how much is read from a replica at once", "bytes", default=1 << 20),
    number("max-wait-ms", "how long to wait where there is nothing new", "ms", default=1000),
    value("topics-include", "a regular expression of topics", "Java regex (String)", default=".*"),
    number(
        "time", "where to begin: a time, -1 (latest) or -2 (earliest)", "timestamp/-1(latest)/-2(earliest)", default=-1
    ),
    number("report-interval-ms", "how often the lag is told", "ms", default=30_000),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-replica-verification", SUMMARY, OPTIONS, words)
    options.require("broker-list")
    check_servers(options, "broker-list")
    settings: dict[str, object] = {BOOTSTRAP_SETTING: options.text("broker-list"), "client.id": "ReplicaVerification"}
    try:
        with admin_with(settings) as admin:
            _Verification(admin, options).run()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (OttlaError, TimeoutError) as error:
        fail(described(error))


class _Verification:
    """Reads and compares, round by round, for ever."""

    def __init__(self, admin: Admin, options: Options) -> None:
        from ottla.clock import SystemClock

        self._admin = admin
        self._fetch_bytes = options.number("fetch-size") or 0
        self._wait_ms = options.number("max-wait-ms") or 0
        self._interval_ms = options.number("report-interval-ms") or 0
        self._time = options.number("time") or 0
        self._topics = _topics(options.text("topics-include"))
        self._clock: Clock = SystemClock()

    def run(self) -> NoReturn:
        from ottla.cli.kafka.replica_rounds import OffsetsDiffer, ReplicaRounds

        replicas, ids = self._chosen()
        counts = {partition: len(brokers) for partition, brokers in replicas.items()}
        rounds = ReplicaRounds(counts, self._begin(list(replicas)), self._interval_ms, self._clock.now_ms())
        self._print("verification process is started")
        try:
            while True:
                before = dict(rounds.offsets)
                for difference in rounds.compare(self._read(replicas, rounds.offsets, ids)):
                    self._print(difference)
                if (line := rounds.report(self._clock.now_ms())) is not None:
                    self._print(line)
                if rounds.offsets == before:
                    time.sleep(self._wait_ms / 1000)
        except OffsetsDiffer as difference:
            self._print(str(difference))
            raise ToolEnded(FAILED) from None

    def _chosen(self) -> tuple[dict[TopicPartition, list[int]], dict[str, bytes]]:
        """The brokers of every partition that is meant, and the ids of topics."""
        from ottla.values import TopicPartition

        names = [name for name in self._admin.list_topics(include_internal=True) if self._topics.fullmatch(name)]
        if not names:
            fail(
                "No topics found. [topics-include] if specified, is either filtering out all topics or there is no "
                "topic."
            )
        topics = self._admin.describe_topics(names)
        replicas = {
            TopicPartition(name, each.partition): list(each.replicas)
            for name, topic in topics.items()
            for each in topic.partitions
        }
        return replicas, {name: topic.topic_id or bytes(16) for name, topic in topics.items()}

    def _begin(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        from ottla.cli.operations.offsets import offsets_at
        from ottla.client.admin.offsets import OffsetSpec

        named = {LATEST: OffsetSpec.LATEST, EARLIEST: OffsetSpec.EARLIEST}
        return offsets_at(self._admin, dict.fromkeys(partitions, named.get(self._time, self._time)))

    def _read(
        self, replicas: Mapping[TopicPartition, list[int]], offsets: Mapping[TopicPartition, int], ids: dict[str, bytes]
    ) -> dict[TopicPartition, dict[int, CopyPart]]:
        """What each replica has from there on; nothing where it does not answer."""
        from ottla.client.admin.copies import Copy, CopyPart

        parts: dict[Copy, CopyPart] = {}
        for broker in sorted({each for brokers in replicas.values() for each in brokers}):
            wanted = {Copy(broker, each): offsets[each] for each, brokers in replicas.items() if broker in brokers}
            parts |= self._read_broker(wanted, ids)
        nothing = CopyPart(b"", -1, -1)
        return {
            each: {broker: parts.get(Copy(broker, each), nothing) for broker in brokers}
            for each, brokers in replicas.items()
        }

    def _read_broker(self, wanted: Mapping[Copy, int], ids: Mapping[str, bytes]) -> dict[Copy, CopyPart]:
        from ottla.client.admin.plans import PartlyFailed

        try:
            return self._admin.read_copies(wanted, ids, max_bytes=self._fetch_bytes, timeout=ANSWER_S)
        except PartlyFailed as error:
            return dict(error.succeeded)
        except (OttlaError, TimeoutError):
            return {}  # asked again in the next round; until then the lag tells of it

    def _print(self, text: str) -> None:
        print(f"{java_date(DATE, self._clock.now_ms())}: {text}", flush=True)


def _topics(text: str) -> re.Pattern[str]:
    try:
        return include_pattern(text)
    except ValueError:
        fail(f"{text} is an invalid regex")
