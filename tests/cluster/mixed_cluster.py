"""A cluster of which some brokers are Ottla's and some are Apache Kafka's, on one ZooKeeper, as processes.

    with MixedCluster(directory, [OTTLA, KAFKA, OTTLA], jars=find_jars("3.9")) as mixed:
        mixed.signal(1, signal.SIGTERM)
        mixed.sides[1] = OTTLA                      # the next process in this place is ours, with the same data
        mixed.start_broker(1)

1. A place is a number, a port and a data directory; `sides` says whose broker lives there when it is started next.
2. Everything else is as in a laboratory (cli/lab_cluster.py). What processes of a place said before is kept beside
   their log. What is asked of such a cluster is judging.py's.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from tests.cluster.judging import OTTLA, Judging
from tests.patience import HANG_S

import ottla
from ottla.cli.lab_cluster import LOOK_EVERY_S, LabBroker, LabCluster, LabFailed
from ottla.cluster.store.zookeeper.server import ZooKeeperServer, tail

STARTED: Final = re.compile(rb"KafkaServer.* started")
SMALL_JVM: Final = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
KAFKAS_OWN: Final = {
    "log.cleaner.dedupe.buffer.size": 2_097_152,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "num.recovery.threads.per.data.dir": 1,
    "auto.create.topics.enable": "false",
}


class MixedCluster(Judging, LabCluster):
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
        self.said_by: dict[Path, str] = {}

    def place(self, number: int) -> LabBroker:
        return self.brokers[number]

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
            kept = broker.log.with_name(f"broker.{len(self.said_by)}.log")
            broker.log.rename(kept)
            self.said_by[kept] = self.said_by.pop(broker.log)
        self.said_by[broker.log] = self.sides[number]
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


def _controller_in(client: KazooClient) -> int | None:
    try:
        data, _ = client.get("/controller")
    except NoNodeError:
        return None
    found = re.search(rb'"brokerid":(\d+)', data)
    return None if found is None else int(found[1])
