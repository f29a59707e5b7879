"""A cluster of which some brokers are Ottla's and some are Apache Kafka's, on one ZooKeeper, as processes.

    with MixedCluster(directory, [OTTLA, KAFKA, OTTLA], jars=find_jars("3.9")) as mixed:
        mixed.signal(1, signal.SIGTERM)
        mixed.sides[1] = OTTLA                      # the next process in this place is ours, with the same data
        mixed.start_broker(1)

1. A place is a number, a port and a data directory; `sides` says whose broker lives there when it is started next.
2. Everything else is as in a laboratory (cli/lab_cluster.py). What processes of a place said before is kept beside
   their log, and `faults` are the lines in it that tell of something broken.
3. `check_copies` compares the bytes of all copies of a partition on the disks.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from tests.conformance.kafka_broker import run_java
from tests.patience import HANG_S

import ottla
from ottla.cli.lab_cluster import LOOK_EVERY_S, LabCluster, LabFailed
from ottla.client.admin.topics import PartitionDescription
from ottla.cluster.store.zookeeper.server import ZooKeeperServer, tail
from ottla.errors import InvalidReplicationFactor, OttlaError

OTTLA: Final = "ottla"
KAFKA: Final = "kafka"
STARTED: Final = re.compile(rb"KafkaServer.* started")
SMALL_JVM: Final = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
KAFKAS_OWN: Final = {
    "log.cleaner.dedupe.buffer.size": 2_097_152,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "num.recovery.threads.per.data.dir": 1,
    "auto.create.topics.enable": "false",
}
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


class MixedCluster(LabCluster):
    """See the module. `jvm` are the options of Apache Kafka's processes."""

    listener = "PLAINTEXT"

    def __init__(
        self,
        directory: Path,
        sides: Sequence[str],
        *,
        jars: Path,
        settings: Mapping[str, object] | None = None,
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        zookeeper = ZooKeeperServer(directory / "zookeeper")
        super().__init__(directory, brokers=len(sides), settings=settings, zookeeper=zookeeper)
        self.sides = list(sides)
        self.jars = jars
        self._jvm = jvm
        self._before: dict[Path, str] = {}  # logs of processes that are over, and whose they were

    # --- processes ---

    def start(self, first: int | None = None) -> None:
        """Start everything; `first` is up before the others begin, and so is controller."""
        self.zookeeper.start()
        if first is not None:
            self.start_broker(first)
        others = [each.number for each in self.brokers if each.number != first]
        for number in others:
            self.begin(number)
        for number in others:
            self.wait_for(number)

    def begin(self, number: int) -> None:
        broker = self.brokers[number]
        if broker.log.exists():
            kept = broker.log.with_name(f"broker.{len(self._before)}.log")
            broker.log.rename(kept)
            self._before[kept] = self._before.pop(broker.log)
        self._before[broker.log] = self.sides[number]
        if self.sides[number] == OTTLA:
            super().begin(number)
        else:
            self._begin_kafka(number)

    def _begin_kafka(self, number: int) -> None:
        broker = self.brokers[number]
        broker.directory.mkdir(parents=True, exist_ok=True)
        common = {name: value for name, value in self._settings.items() if not name.startswith("ottla.")}
        settings = {
            **KAFKAS_OWN,
            **common,
            "broker.id": number,
            "listeners": f"{self.listener}://{broker.address}",
            "log.dirs": broker.directory / "data",
            "zookeeper.connect": self.zookeeper.connect,
        }
        properties = broker.directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = ["java", *self._jvm, "-cp", f"{self.jars}/*", "kafka.Kafka", str(properties)]
        with broker.log.open("wb") as log:
            broker.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def wait_for(self, number: int) -> None:
        if self.sides[number] == OTTLA:
            super().wait_for(number)
            return
        broker, end = self.brokers[number], time.monotonic() + HANG_S
        while not STARTED.search(broker.log.read_bytes()):
            if not broker.is_running or time.monotonic() > end:
                raise LabFailed(f"broker {number} of Apache Kafka did not start:\n{tail(broker.log)}")
            time.sleep(LOOK_EVERY_S)

    def faults(self) -> list[str]:
        """What any broker said of something that is broken."""
        found = []
        for log, side in self._before.items():
            lines = log.read_text(errors="replace").splitlines()
            for line, below in zip(lines, [*lines[1:], ""], strict=True):
                told = f"{line} | {below}" if JAVA_REASON.match(below) else line
                if BROKEN[side].search(told):
                    found.append(f"{log.parent.name} ({side}): {told}")
        return found

    # --- the controller ---

    @property
    def controller(self) -> int | None:
        with ottla.Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            return admin.describe_cluster(timeout=HANG_S).controller

    def elect_controller(self, side: str) -> int:
        """End the controller's term, as often as it takes until one of `side` wins."""
        client = KazooClient(self.zookeeper.connect)
        client.start(timeout=HANG_S)
        try:
            end = time.monotonic() + HANG_S
            while time.monotonic() < end:
                found = _controller_in(client)
                if found is not None and self.sides[found] == side:
                    return found
                if found is not None:
                    client.delete("/controller")
                time.sleep(0.3)
        finally:
            client.stop()
            client.close()
        raise AssertionError(f"no broker of {side} became controller")

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
        return sorted((self.brokers[number].directory / "data" / f"{topic}-{partition}").glob("*"))

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


def _controller_in(client: KazooClient) -> int | None:
    try:
        data, _ = client.get("/controller")
    except NoNodeError:
        return None
    found = re.search(rb'"brokerid":(\d+)', data)
    return None if found is None else int(found[1])
