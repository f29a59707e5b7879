"""`python -m tests.cluster.campaign`: clients of four kinds at work while brokers, controllers, ZooKeeper nodes and the
network between them fail, one after the other; and a report that can be read.

    python -m tests.cluster.campaign --minutes 10 --seed 7 --report campaign.md --history campaign.jsonl
    python -m tests.cluster.campaign --check campaign.jsonl          judge a history that was kept

1. Three brokers and three ZooKeeper nodes as processes; replication 3, min.insync.replicas 2, acks=all.
2. The loads: producers and readers of ours and of FOREIGN, all idempotent; a group of ours; our transactions, of which
   every third is aborted; Apache's VerifiableProducer and its TransactionalMessageCopier, when Java and its jars are
   there.
3. The faults: kill -9 and SIGSTOP of a leader, of the controller and of a ZooKeeper node, a stop in order, and where
   network namespaces are allowed a broker that is cut off, and two brokers that do not hear each other. The next one
   comes when all copies are in sync again.
4. All clients but Java's write one history (tests/histories), in the simulation's values, and the simulation's checker
   judges it, with the bytes of all copies: one anomaly fails the campaign. Java's loads check themselves.
5. The report tells of every fault how long it lasted, how long nobody was answered, and how long until all copies were
   in sync; and what was checked.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

from tests.cluster.java_loads import CopierLoad, VerifiableLoad, java_missing
from tests.cluster.namespace_lab import NamespaceLab, namespaces_missing
from tests.histories.loads import FollowingLoad, SendingLoad, final_read
from tests.histories.members import MemberLoad
from tests.histories.our_loads import TransferLoad
from tests.patience import HANG_S

import ottla
from ottla.cli.lab_cluster import LabCluster
from ottla.client.admin.topics import PartitionDescription
from ottla.cluster.store.zookeeper.server import ZooKeeperServer
from ottla.errors import OttlaError
from ottla.simulation.checker import check
from ottla.simulation.history import read_history
from ottla.simulation.real.recording import SharedHistory, read_everything

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
FOREIGN: Final = ("confluent-kafka", "kafka-python", "aiokafka")
TOPICS: Final = ("ottla", *FOREIGN, "transfers", "java", "copy-in", "copy-out")
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
SHOWN: Final = 20


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


class Lab(Protocol):
    """What loads and copies need to know of a cluster."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def brokers(self) -> Any: ...  # places by number, each with its directory


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

    def run(self, seconds: float, load: SendingLoad) -> None:
        began, names = time.monotonic(), []
        while time.monotonic() - began < seconds:
            if not names:  # every fault once, then again in another order
                names = list(self.faults())
                self.random.shuffle(names)
            self._one(names.pop(), began, load)

    def _one(self, name: str, began: float, load: SendingLoad) -> None:
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
        found = partitions_of(self.lab, ["ottla"])["ottla"][0].leader
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


def partitions_of(lab: Lab, topics: Sequence[str]) -> dict[str, Sequence[PartitionDescription]]:
    with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
        return {name: each.partitions for name, each in admin.describe_topics(list(topics), timeout=HANG_S).items()}


def wait_for_copies(lab: Lab, topics: Sequence[str]) -> None:
    end = time.monotonic() + HEAL_LIMIT_S
    while True:
        try:
            found = partitions_of(lab, topics)
            if all(len(each.in_sync) == len(each.replicas) for parts in found.values() for each in parts):
                return
        except OttlaError:
            found = {}  # who was asked knows nothing yet
        assert time.monotonic() < end, f"not all copies came in sync again: {found}"
        time.sleep(0.2)


def copies_of(lab: Lab, topics: Sequence[str]) -> dict[str, dict[int, bytes]]:
    """What every broker holds of every partition, when nobody writes any more; they get HEAL_LIMIT_S to be alike."""
    found = {}
    for topic, parts in partitions_of(lab, topics).items():
        for part in parts:
            name, end = f"{topic}-{part.partition}", time.monotonic() + HEAL_LIMIT_S
            while True:
                found[name] = {number: _bytes(lab, number, name) for number in part.replicas}
                if len(set(found[name].values())) == 1 or time.monotonic() > end:
                    break
                time.sleep(0.5)
    return found


def _bytes(lab: Lab, number: int, name: str) -> bytes:
    logs = sorted((lab.brokers[number].directory / "data" / name).glob("*.log"))
    return b"".join(path.read_bytes() for path in logs)


# --- the whole --------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """A report to read, and the history that it is about."""

    report: str
    history: SharedHistory


def run(directory: Path, seconds: float, seed: int) -> Outcome:
    """Raises what was broken."""
    why_no_cuts = namespaces_missing()
    if why_no_cuts is None:
        lab: LabCluster = NamespaceLab(directory, settings=SETTINGS)
    else:
        lab = LabCluster(directory, settings=SETTINGS, zookeeper=ZooKeeperServer(directory / "zookeeper", nodes=3))
    history = SharedHistory()
    with lab, ExitStack() as stack:
        with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
            parts = {"copy-in": 1, "copy-out": 1}
            new = [ottla.NewTopic(name, parts.get(name, PARTITIONS), 3) for name in TOPICS]
            admin.create_topics(new, timeout=HEAL_LIMIT_S)
        campaign = Campaign(lab, Random(seed))
        checked = under_load(lab, campaign, seconds, directory, stack, history)
        return Outcome(_report(campaign, checked, seed, why_no_cuts), history)


def under_load(
    lab: Lab, campaign: Campaign, seconds: float, scratch: Path, stack: ExitStack, history: SharedHistory
) -> dict[str, str]:
    servers, numbers = lab.bootstrap_servers, count(1)
    java: dict[str, Any] = {}
    checked: dict[str, str] = {}
    if (reason := java_missing()) is None:
        java["VerifiableProducer"] = stack.enter_context(VerifiableLoad(servers, "java", scratch))
        java["TransactionalMessageCopier"] = stack.enter_context(CopierLoad(servers, "copy-in", "copy-out", scratch))
    else:
        checked["Java clients"] = f"not run: {reason}"
    for each in java.values():
        each.start()
    with ExitStack() as loads:
        sending = {
            name: loads.enter_context(SendingLoad(name, servers, name, PARTITIONS, history, numbers))
            for name in ("ottla", *FOREIGN)
        }
        for name in sending:
            loads.enter_context(FollowingLoad(name, servers, name, PARTITIONS, history))
        transfers = loads.enter_context(TransferLoad(servers, "transfers", PARTITIONS, history, numbers))
        member = loads.enter_context(MemberLoad("ottla", servers, "ottla", "readers", history))
        campaign.run(seconds, sending["ottla"])
        history.note("faults", "healed")
        for each in (*sending.values(), transfers, *java.values()):
            each.end()
        member.wait_for(sending["ottla"].acknowledged)
    for name, load in sending.items():
        found = final_read(name, servers, name, PARTITIONS, history)
        checked[name] = f"{load.acknowledged} acknowledged, {len(load.unknown)} of unknown end, {found} read at the end"
    read_everything(history, servers, {"transfers": PARTITIONS, "ottla": PARTITIONS})
    checked["transactions"] = f"{transfers.ended['commit']} committed, {transfers.ended['abort']} aborted"
    checked["our group"] = f"{len(member.read)} records read and committed"
    checked |= {name: each.check(servers) for name, each in java.items()}
    wait_for_copies(lab, (*TOPICS, *INTERNAL))
    return checked | judge(history, copies_of(lab, (*TOPICS, *INTERNAL)))


def judge(history: SharedHistory, copies: dict[str, dict[int, bytes]]) -> dict[str, str]:
    """Raises when the simulation's checker finds an anomaly."""
    if anomalies := check(history.events, replicas=copies):
        shown = "\n".join(str(each) for each in anomalies[:SHOWN])
        raise AssertionError(f"{len(anomalies)} anomalies:\n{shown}")
    size_bytes = sum(len(next(iter(each.values()))) for each in copies.values())
    return {
        "history": f"{len(history.events)} events, no anomaly",
        "copies": f"{len(copies)} partitions, {size_bytes / 1e6:.1f} MB together, alike on all brokers",
    }


def _report(campaign: Campaign, checked: dict[str, str], seed: int, why_no_cuts: str | None) -> str:
    about = f"Three brokers, three ZooKeeper nodes, session time-out {SESSION_S:g} s. All checks passed."
    return report(about, campaign.happened, checked, seed, why_no_cuts)


def report(
    about: str, happened: Sequence[Happened], checked: dict[str, str], seed: int, why_no_cuts: str | None = None
) -> str:
    lines = [f"# Campaign of {time.strftime('%Y-%m-%d %H:%M')}, seed {seed}", "", about, ""]
    lines += [f"The network was not cut: {why_no_cuts}", ""] if why_no_cuts else []
    lines += ["| what was checked | result |", "| --- | --- |"]
    lines += [f"| {name} | {result} |" for name, result in checked.items()]
    lines += ["", "| at | fault | who | lasted | longest wait for an answer | in sync after its end |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for each in happened:
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
    parser.add_argument("--history", type=Path, help="where the history goes, a line of JSON for each event")
    parser.add_argument("--check", type=Path, metavar="HISTORY", help="run nothing: judge a history that was kept")
    arguments = parser.parse_args()
    if arguments.check is not None:
        return _judge_file(arguments.check)
    with tempfile.TemporaryDirectory(prefix="ottla-campaign-") as directory:
        outcome = run(Path(directory), arguments.minutes * 60, arguments.seed)
    arguments.report.write_text(outcome.report)
    if arguments.history is not None:
        arguments.history.write_text(outcome.history.text())
    print(outcome.report)
    return 0


def _judge_file(path: Path) -> int:
    anomalies = check(read_history(path.read_text().splitlines()))
    for each in anomalies:
        print(each)
    print(f"{len(anomalies)} anomalies")
    return 1 if anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
