"""A laboratory whose brokers live in network namespaces of their own, so that the network between them can be cut.

    if (reason := namespaces_missing()) is None:
        with NamespaceLab(directory) as lab:
            lab.isolate(0); lab.cut(1, 2); lab.heal()

1. Each broker has an address of its own on a bridge of this machine; ZooKeeper and clients are outside, at the bridge.
2. A cut is silent, as a broken switch is: packets go to a hardware address that nobody has, connections stay open and
   nothing arrives. It can be one way. `isolate` takes a broker's cable out.
3. Needs root and the program ip; nothing of it is left when the laboratory is closed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.cli.lab_cluster import LabBroker, LabCluster
from ottla.cluster.store.zookeeper.server import ZooKeeperServer

PORT: Final = 9092
NOBODY: Final = "02:00:00:00:00:99"


def namespaces_missing() -> str | None:
    """Why there can be none here; None when there can."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return "needs root and the program ip"
    name = f"ottla-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces are not allowed here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


class NamespaceLab(LabCluster):
    """See the module."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        zookeeper_nodes: int = 3,
    ) -> None:
        zookeeper = ZooKeeperServer(
            directory / "zookeeper", nodes=zookeeper_nodes, extra=["clientPortAddress=0.0.0.0"], durable=False
        )
        super().__init__(directory, brokers=brokers, settings=settings, zookeeper=zookeeper)
        number = os.getpid() % 250 + 1
        self._bridge = f"ottla{number}"
        self._subnet = f"10.77.{number}"
        self.brokers = [
            LabBroker(each.number, each.directory, PORT, f"{self._subnet}.{10 + each.number}") for each in self.brokers
        ]
        self._cuts: list[tuple[int, int]] = []
        self._isolated: set[int] = set()

    def start(self) -> None:
        ip(f"link add {self._bridge} type bridge")
        ip(f"addr add {self._subnet}.1/24 dev {self._bridge}")
        ip(f"link set {self._bridge} up")
        for broker in self.brokers:
            name = self._namespace(broker.number)
            ip(f"netns add {name}")
            ip(f"link add {name}v type veth peer name eth0 netns {name}")
            ip(f"link set {name}v master {self._bridge} up")
            ip(f"-n {name} addr add {broker.host}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
            ip(f"-n {name} link set lo up")
        super().start()

    def command(self, broker: LabBroker) -> list[str]:
        words = super().command(broker)
        connect = self.zookeeper.connect
        words[words.index(connect)] = connect.replace("127.0.0.1", f"{self._subnet}.1")
        return ["ip", "netns", "exec", self._namespace(broker.number), *words, "--insecure"]

    def stop(self) -> None:
        self.heal()
        super().stop()
        for broker in self.brokers:
            subprocess.run(["ip", "netns", "del", self._namespace(broker.number)], capture_output=True)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True)

    # --- the network ---

    def isolate(self, number: int) -> None:
        """Nobody reaches the broker, and it reaches nobody; not even ZooKeeper."""
        ip(f"link set {self._namespace(number)}v down")
        self._isolated.add(number)

    def cut_one_way(self, sender: int, receiver: int) -> None:
        """What `sender` says does not arrive at `receiver`."""
        host = self.brokers[receiver].host
        ip(f"-n {self._namespace(sender)} neigh replace {host} lladdr {NOBODY} nud permanent dev eth0")
        self._cuts.append((sender, receiver))

    def cut(self, one: int, other: int) -> None:
        """Two brokers do not hear each other; both have all others, and ZooKeeper."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def heal(self) -> None:
        """The network is as it was."""
        for number in self._isolated:
            ip(f"link set {self._namespace(number)}v up")
        for sender, receiver in self._cuts:
            ip(f"-n {self._namespace(sender)} neigh del {self.brokers[receiver].host} dev eth0")
        self._isolated.clear()
        self._cuts.clear()

    def _namespace(self, number: int) -> str:
        return f"{self._bridge}n{number}"


def ip(words: str) -> None:
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {words}: {done.stderr.strip()}")
