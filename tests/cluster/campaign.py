"""`python -m tests.cluster.campaign`: clients of four kinds at work while brokers, controllers, ZooKeeper nodes and the
network between them fail, one after the other; and a report that can be read.

    python -m tests.cluster.campaign --minutes 10 --seed 7 --report campaign.md

1. Three brokers and three ZooKeeper nodes as processes; replication 3, min.insync.replicas 2, acks=all.
2. The loads: our idempotent producer with a group that reads; our transactions, of which every third is aborted;
   confluent-kafka; Apache's VerifiableProducer and its TransactionalMessageCopier, when Java and its jars are there.
3. The faults: kill -9 and SIGSTOP of a leader, of the controller and of a ZooKeeper node, a stop in order, and where
   network namespaces are allowed a broker that is cut off, and two brokers that do not hear each other. The next one
   comes when all copies are in sync again.
4. Afterwards: nothing acknowledged lost, nothing twice, order kept, no aborted record read, copies alike byte for byte,
   no committed offset of the group ever went back. The report tells of every fault how long it lasted, how long nobody
   was answered, and how long until all copies were in sync; and what was checked.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.cluster.java_loads import CopierLoad, VerifiableLoad, java_missing
from tests.cluster.namespace_lab import NamespaceLab, namespaces_missing
from tests.patience import HANG_S

import ottla
from ottla.cli.lab_cluster import LabCluster
from ottla.client.admin.topics import PartitionDescription
from ottla.cluster.store.zookeeper.server import ZooKeeperServer
from ottla.errors import OttlaError
from ottla.testing.promises import GroupReading, NumberedLoad, check_numbers, read_numbers

PARTITIONS: Final = 3
SESSION_S: Final = 4.0
HEAL_LIMIT_S: Final = 120.0
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": int(SESSION_S * 1000),
    "replica.lag.time.max.ms": 4_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "log.segment.bytes": 4_194_304,
}
TOPICS: Final = ("ours", "transfers", "confluent", "java", "copy-in", "copy-out")


# --- loads ------------------------------------------------------------------------------------------------------------


class Transfers(threading.Thread):
    """Transactions of one number to every partition; every third is aborted. An end that nobody knows is looked up."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True, name="transfers")
        self._servers = servers
        self._topic = topic
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.unknown: list[int] = []
        self._ending = threading.Event()
        self._number = 0

    def run(self) -> None:
        while not self._ending.is_set():
            try:
                with ottla.Producer(bootstrap_servers=self._servers, transactional_id=self._topic) as producer:
                    producer.init_transactions(HEAL_LIMIT_S)
                    while not self._ending.is_set():
                        self._transfer(producer)
            except OttlaError:
                time.sleep(0.2)  # a producer that met a fatal error is replaced, as its documentation says

    def _transfer(self, producer: Any) -> None:
        number, self._number = self._number, self._number + 1
        self.unknown.append(number)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send(self._topic, b"%d" % number, partition=partition)
        if number % 3 == 2:
            producer.abort_transaction(HEAL_LIMIT_S)
            self.aborted.append(number)
        else:
            producer.commit_transaction(HEAL_LIMIT_S)
            self.committed.append(number)
        self.unknown.remove(number)

    def end(self) -> None:
        self._ending.set()
        self.join(HEAL_LIMIT_S)
        assert not self.is_alive(), "the transactions did not come to an end"

    def check(self, servers: str) -> str:
        found = read_numbers(servers, self._topic, PARTITIONS, isolation_level="read_committed")
        for partition in range(PARTITIONS):
            check_numbers(f"{self._topic}-{partition}", set(self.committed), found[partition])
            assert not set(found[partition]) & set(self.aborted), "an aborted record was read"
            assert found[partition] == found[0], "a transaction is not whole"
        return (
            f"{len(self.committed)} committed, {len(self.aborted)} aborted, {len(self.unknown)} of unknown end; whole"
        )


class ConfluentLoad(threading.Thread):
    """Numbers by confluent-kafka, idempotent."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True, name="confluent")
        import confluent_kafka

        self._topic = topic
        settings = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "log_level": 2,
        }
        self._producer = confluent_kafka.Producer({**settings, "log_level": 2})
        self._acknowledged: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self._errors: list[str] = []
        self._ending = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._ending.is_set():
            for partition in range(PARTITIONS):
                self._send(number, partition)
            number += 1
            self._producer.poll(0.005)

    def _send(self, number: int, partition: int) -> None:
        def told(error: object, _: object) -> None:
            if error is None:
                self._acknowledged[partition].add(number)
            else:
                self._errors.append(str(error))

        self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=told)

    def end(self) -> None:
        self._ending.set()
        self.join(HANG_S)
        assert self._producer.flush(HEAL_LIMIT_S) == 0, "confluent-kafka still has records that it could not send"

    def check(self, servers: str) -> str:
        assert not self._errors, self._errors[0]
        found = read_numbers(servers, self._topic, PARTITIONS)
        for partition, numbers in enumerate(self._acknowledged):
            check_numbers(f"{self._topic}-{partition}", numbers, found[partition])
        return f"{sum(map(len, self._acknowledged))} acknowledged; all there, once, in order"


# --- faults -----------------------------------------------------------------------------------------------------------


@dataclass
class Happened:
    """One line of the report."""

    at_s: float
    what: str
    who: str
    held_s: float = 0.0
    silence_s: float = 0.0
    healed_s: float = 0.0


@dataclass
class Campaign:
    """Faults for a lab, in an order that a seed decides."""

    lab: LabCluster
    random: Random
    happened: list[Happened] = field(default_factory=list)

    def faults(self) -> dict[str, Callable[[], tuple[str, Callable[[], None]]]]:
        """By name: what begins it, and gives who it hit and what ends it."""
        found: dict[str, Callable[[], tuple[str, Callable[[], None]]]] = {
            "kill -9 of a leader": lambda: self._kill(self._leader(), signal.SIGKILL),
            "kill -9 of the controller": lambda: self._kill(self._controller(), signal.SIGKILL),
            "stop in order of a leader": lambda: self._kill(self._leader(), signal.SIGTERM),
            "pause of a leader": lambda: self._pause(self._leader()),
            "pause of the controller": lambda: self._pause(self._controller()),
            "kill -9 of a ZooKeeper node": lambda: self._zookeeper(signal.SIGKILL),
            "pause of a ZooKeeper node": lambda: self._zookeeper(signal.SIGSTOP),
        }
        if isinstance(lab := self.lab, NamespaceLab):
            found |= {
                "a leader is cut off from everybody": lambda: self._cut_off(lab, self._leader()),
                "the controller is cut off from everybody": lambda: self._cut_off(lab, self._controller()),
                "two brokers do not hear each other": lambda: self._two(lab, lab.cut),
                "one broker does not hear another": lambda: self._two(lab, lab.cut_one_way),
            }
        return found

    def run(self, seconds: float, load: NumberedLoad) -> None:
        began, names = time.monotonic(), []
        while time.monotonic() - began < seconds:
            if not names:  # every fault once, then again in another order
                names = list(self.faults())
                self.random.shuffle(names)
            self._one(names.pop(), began, load)

    def _one(self, name: str, began: float, load: NumberedLoad) -> None:
        load.wait_for(50, HEAL_LIMIT_S)
        load.longest_wait_s = 0.0
        who, end = self.faults()[name]()
        at = time.monotonic()
        row = Happened(at - began, name, who)
        self.happened.append(row)
        time.sleep(self.random.uniform(0.5, 2.0) * SESSION_S)
        end()
        row.held_s = time.monotonic() - at
        load.wait_for(50, HEAL_LIMIT_S)
        row.silence_s = load.longest_wait_s
        wait_for_copies(self.lab, TOPICS)
        row.healed_s = time.monotonic() - at - row.held_s
        print(f"{row.at_s:6.0f} s  {name} ({who}): in sync {row.healed_s:.1f} s after its end", flush=True)

    def _leader(self) -> int:
        found = _partitions(self.lab, ["ours"])["ours"][0].leader
        return self._controller() if found is None else found

    def _controller(self) -> int:
        with ottla.Admin(bootstrap_servers=self.lab.bootstrap_servers) as admin:
            found = admin.describe_cluster(timeout=HEAL_LIMIT_S).controller
        return 0 if found is None else found

    def _kill(self, victim: int, how: signal.Signals) -> tuple[str, Callable[[], None]]:
        self.lab.signal(victim, how)
        return f"broker {victim}", lambda: self.lab.start_broker(victim)

    def _pause(self, victim: int) -> tuple[str, Callable[[], None]]:
        self.lab.signal(victim, signal.SIGSTOP)
        return f"broker {victim}", lambda: self.lab.signal(victim, signal.SIGCONT)

    def _zookeeper(self, how: signal.Signals) -> tuple[str, Callable[[], None]]:
        node = self.random.choice(self.lab.zookeeper.nodes)
        self.lab.zookeeper.signal_node(node, how)

        def end() -> None:
            if how is signal.SIGSTOP:
                self.lab.zookeeper.signal_node(node, signal.SIGCONT)
            else:
                self.lab.zookeeper.start_node(node)
            self.lab.zookeeper.wait()

        return f"node {node.number}", end

    def _cut_off(self, lab: NamespaceLab, victim: int) -> tuple[str, Callable[[], None]]:
        lab.isolate(victim)
        return f"broker {victim}", lab.heal

    def _two(self, lab: NamespaceLab, cut: Callable[[int, int], None]) -> tuple[str, Callable[[], None]]:
        one, other = self.random.sample(range(len(lab.brokers)), 2)
        cut(one, other)
        return f"brokers {one} and {other}", lab.heal


def _partitions(lab: LabCluster, topics: Sequence[str]) -> dict[str, Sequence[PartitionDescription]]:
    with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
        return {name: each.partitions for name, each in admin.describe_topics(list(topics), timeout=HANG_S).items()}


def wait_for_copies(lab: LabCluster, topics: Sequence[str]) -> None:
    end = time.monotonic() + HEAL_LIMIT_S
    while True:
        try:
            found = _partitions(lab, topics)
            if all(len(each.in_sync) == len(each.replicas) for parts in found.values() for each in parts):
                return
        except OttlaError:
            found = {}  # who was asked knows nothing yet
        assert time.monotonic() < end, f"not all copies came in sync again: {found}"
        time.sleep(0.2)


def check_copies(lab: LabCluster, topics: Sequence[str]) -> str:
    """All brokers hold the same bytes of every partition, when nobody writes any more."""
    count, size_bytes = 0, 0
    for topic, parts in _partitions(lab, topics).items():
        for part in parts:
            end = time.monotonic() + HEAL_LIMIT_S
            while len(found := {_bytes(lab, number, f"{topic}-{part.partition}") for number in part.replicas}) > 1:
                assert time.monotonic() < end, f"the copies of {topic}-{part.partition} differ"
                time.sleep(0.5)
            count += 1
            size_bytes += len(found.pop())
    return f"{count} partitions, {size_bytes / 1e6:.1f} MB each, alike on all brokers"


def _bytes(lab: LabCluster, number: int, name: str) -> bytes:
    logs = sorted((lab.brokers[number].directory / "data" / name).glob("*.log"))
    return b"".join(path.read_bytes() for path in logs)


# --- the whole --------------------------------------------------------------------------------------------------------


def run(directory: Path, seconds: float, seed: int) -> str:
    """The report; raises what was broken."""
    why_no_cuts = namespaces_missing()
    if why_no_cuts is None:
        lab: LabCluster = NamespaceLab(directory, settings=SETTINGS)
    else:
        lab = LabCluster(directory, settings=SETTINGS, zookeeper=ZooKeeperServer(directory / "zookeeper", nodes=3))
    with lab, ExitStack() as stack:
        with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
            parts = {"copy-in": 1, "copy-out": 1}
            new = [ottla.NewTopic(name, parts.get(name, PARTITIONS), 3) for name in TOPICS]
            admin.create_topics(new, timeout=HEAL_LIMIT_S)
        campaign = Campaign(lab, Random(seed))
        checked = _under_load(lab, campaign, seconds, directory, stack)
        return _report(campaign, checked, seed, why_no_cuts)


def _under_load(lab: LabCluster, campaign: Campaign, seconds: float, scratch: Path, stack: ExitStack) -> dict[str, str]:
    servers = lab.bootstrap_servers
    others: dict[str, Any] = {
        "transactions": Transfers(servers, "transfers"),
        "confluent-kafka": ConfluentLoad(servers, "confluent"),
    }
    checked: dict[str, str] = {}
    if (reason := java_missing()) is None:
        others["VerifiableProducer"] = stack.enter_context(VerifiableLoad(servers, "java", scratch))
        others["TransactionalMessageCopier"] = stack.enter_context(CopierLoad(servers, "copy-in", "copy-out", scratch))
    else:
        checked["Java clients"] = f"not run: {reason}"
    for each in others.values():
        each.start()
    with (
        NumberedLoad(servers, "ours", PARTITIONS, pause_s=0.005, request_timeout_ms=6_000) as load,
        GroupReading(servers, "ours", "readers") as reading,
    ):
        campaign.run(seconds, load)
        load.end()
        for each in others.values():
            each.end()
        reading.wait_for(load.count, HEAL_LIMIT_S)
    assert not load.failures, load.failures[0]
    load.check(read_numbers(servers, "ours", PARTITIONS))
    checked["our producer"] = f"{load.count} acknowledged; all there, once, in order"
    checked["our group"] = f"{reading.count} read; its committed offsets never went back"
    checked |= {name: each.check(servers) for name, each in others.items()}
    wait_for_copies(lab, (*TOPICS, "__consumer_offsets", "__transaction_state"))
    checked["copies"] = check_copies(lab, (*TOPICS, "__consumer_offsets", "__transaction_state"))
    return checked


def _report(campaign: Campaign, checked: dict[str, str], seed: int, why_no_cuts: str | None) -> str:
    lines = [f"# Campaign of {time.strftime('%Y-%m-%d %H:%M')}, seed {seed}", ""]
    lines += [f"Three brokers, three ZooKeeper nodes, session time-out {SESSION_S:g} s. All checks passed.", ""]
    lines += [f"The network was not cut: {why_no_cuts}", ""] if why_no_cuts else []
    lines += ["| what was checked | result |", "| --- | --- |"]
    lines += [f"| {name} | {result} |" for name, result in checked.items()]
    lines += ["", "| at | fault | who | lasted | longest wait for an answer | in sync after its end |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for each in campaign.happened:
        lines.append(
            f"| {each.at_s:.0f} s | {each.what} | {each.who} | {each.held_s:.1f} s | {each.silence_s:.1f} s | "
            f"{each.healed_s:.1f} s |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="how long faults are made (default 10)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="decides the order of the faults")
    parser.add_argument("--report", type=Path, default=Path("campaign.md"), help="where the report goes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-campaign-") as directory:
        report = run(Path(directory), arguments.minutes * 60, arguments.seed)
    arguments.report.write_text(report)
    print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
