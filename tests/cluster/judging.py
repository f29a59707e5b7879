"""What is asked of a cluster of which some brokers are Ottla's and some are Apache Kafka's, wherever its truth is kept.

A cluster has `brokers` by number, `bootstrap_servers`, `jars`, and `said_by`: whose process wrote a log. `faults` are
the lines in those logs that tell of something broken; `check_copies` compares the bytes of all copies of a partition on
the disks.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from tests.conformance.kafka_broker import run_java
from tests.patience import HANG_S

import ottla
from ottla.cli.lab_cluster import LOOK_EVERY_S
from ottla.client.admin.topics import PartitionDescription
from ottla.errors import InvalidReplicationFactor, OttlaError

OTTLA: Final = "ottla"
KAFKA: Final = "kafka"
# What is said of peers that were killed, or are not up yet, is no fault; nor is a batch that came out of its turn, nor
# what a broker says of its own threads when it is stopped. The reason may stand in the line below, as the name of a
# Java exception. Nor is a fetch whose records were cut off while the kernel was sending them from the file: the pages
# of a leader that steps down change under the answer, in Kafka as in ours, and the follower finds that by the CRC. Nor
# is a last request of a controller whose term a test ended.
NO_FAULTS: Final = (
    "Connection|disconnect|NotLeaderOrFollower|[Ee]xpired|Error processing append|InterruptedException"
    "|Found invalid messages during fetch|from an old controller|StaleControllerEpoch"
)
JAVA_REASON: Final = re.compile(r"^(?:[a-z]\w*\.)+[\w$]*(?:Exception|Error)\b")
BROKEN: Final = {
    OTTLA: re.compile(r"Traceback|\bERROR\b|\bCRITICAL\b"),
    KAFKA: re.compile(rf"\bERROR\b(?! state.change.logger)(?!.*(?:{NO_FAULTS}))"),
}


class Place(Protocol):
    """Where a broker lives: what stays when its process goes."""

    @property
    def directory(self) -> Path: ...


class Judging:
    """See the module."""

    jars: Path
    expected = r"(?!)"
    """What is no fault in this test, as a pattern."""
    said_by: dict[Path, str]

    @property
    def bootstrap_servers(self) -> str:
        raise NotImplementedError

    def place(self, number: int) -> Place:
        raise NotImplementedError

    def faults(self) -> list[str]:
        """What any broker said of something that is broken."""
        found = []
        for log, side in self.said_by.items():
            lines = log.read_text(errors="replace").splitlines()
            for line, below in zip(lines, [*lines[1:], ""], strict=True):
                told = f"{line} | {below}" if JAVA_REASON.match(below) else line
                if BROKEN[side].search(told) and not re.search(self.expected, told):
                    found.append(f"{log.parent.name} ({side}): {told}")
        return found

    # --- topics ---

    def create_topic(self, topic: str, partitions: int, copies: int = 3) -> None:
        """On a busy machine a broker may have lost its session when the topic is made; it comes back."""
        with ottla.Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            end = time.monotonic() + HANG_S
            while time.monotonic() < end:
                with contextlib.suppress(InvalidReplicationFactor):
                    admin.create_topics([ottla.NewTopic(topic, partitions, copies)], timeout=HANG_S)
                    return
                time.sleep(LOOK_EVERY_S)
        raise AssertionError(f"there never were {copies} brokers for {topic}")

    def partitions(self, topic: str) -> Sequence[PartitionDescription]:
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            with contextlib.suppress(OttlaError), ottla.Admin(bootstrap_servers=self.bootstrap_servers) as admin:
                return admin.describe_topics([topic], timeout=HANG_S)[topic].partitions
            time.sleep(LOOK_EVERY_S)
        raise AssertionError(f"nobody knows {topic}")

    def leaders(self, topic: str) -> list[int | None]:
        return [each.leader for each in self.partitions(topic)]

    def wait_for_leaders(self, topic: str, wanted: Sequence[int | None]) -> None:
        end = time.monotonic() + HANG_S
        while (found := self.leaders(topic)) != list(wanted):
            assert time.monotonic() < end, f"the leaders of {topic} are {found}, not {list(wanted)}"
            time.sleep(0.1)

    def wait_for_copies(self, topic: str, count: int | None = None) -> None:
        """Until all replicas, or so many, are in sync."""
        end = time.monotonic() + HANG_S
        while True:
            found = self.partitions(topic)
            if all(len(each.in_sync) == (count or len(each.replicas)) for each in found):
                return
            assert time.monotonic() < end, f"{topic} is not in sync: {found}"
            time.sleep(0.1)

    def check_copies(self, topic: str) -> None:
        """All copies become alike, byte for byte."""
        for each in self.partitions(topic):
            end = time.monotonic() + HANG_S
            while len(set(found := [self._bytes(number, topic, each.partition) for number in each.replicas])) > 1:
                sizes = dict(zip(each.replicas, map(len, found), strict=True))
                assert time.monotonic() < end, f"copies of {topic}-{each.partition} differ: {sizes}"
                time.sleep(0.2)

    def files(self, number: int, topic: str, partition: int) -> list[Path]:
        return sorted((self.place(number).directory / "data" / f"{topic}-{partition}").glob("*"))

    def _bytes(self, number: int, topic: str, partition: int) -> bytes:
        return b"".join(path.read_bytes() for path in self.files(number, topic, partition) if path.suffix == ".log")

    def check_group(self, group: str, topic: str) -> None:
        """Kafka's tool knows how far the group is in every partition of a topic."""
        words = ("--describe", "--group", group, "--timeout", "60000")
        said = self.asked("consumer.group.ConsumerGroupCommand", *words)
        rows = [words for line in said.splitlines() if len(words := line.split()) > 5 and words[1] == topic]
        assert {int(words[2]) for words in rows} == {each.partition for each in self.partitions(topic)}, said
        assert all(words[3].isdigit() for words in rows), said

    # --- Kafka's tools ---

    def tool(self, name: str, *arguments: str, limit_s: int = 120) -> str:
        """What a tool of Apache Kafka prints; a short name is one of org.apache.kafka.tools."""
        full = name if name.startswith(("kafka.", "org.")) else f"org.apache.kafka.tools.{name}"
        return run_java(self.jars, full, *arguments, limit_s=limit_s)

    def asked(self, name: str, *arguments: str, limit_s: int = 120) -> str:
        """The same for a tool that asks the cluster."""
        return self.tool(name, "--bootstrap-server", self.bootstrap_servers, *arguments, limit_s=limit_s)
