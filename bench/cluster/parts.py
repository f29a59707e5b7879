"""What is measured: copying against one broker, fail-over of a leader, and a thousand partitions.

1. All brokers, which are a quorum, and the client share one machine, so three brokers have the processors of one.
2. Fail-over is by kill -9, which says nothing to anybody: the controller fences a broker when its session is over, and
   the time until then is part of the figure. For many partitions it is taken off, to show what the controller does.
3. The single broker acknowledges without a sync (ottla.durability=replicated), as the copies do: otherwise the disk
   would be compared, not the copying.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.walk.figures import Figure

import ottla
from ottla.cli.lab_cluster import LabCluster
from ottla.client.admin.topics import PartitionDescription
from ottla.errors import UnknownTopicOrPartition

RECORDS = 60_000
VALUE = bytes(1_000)
PARTITIONS = 6
MANY = 1_000
SESSION_S = 3.0
LIMIT_S = 60.0
SETTINGS = {
    "broker.session.timeout.ms": int(SESSION_S * 1_000),
    "broker.heartbeat.interval.ms": 500,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
}


def _lab(directory: Path, brokers: int) -> LabCluster:
    return LabCluster(directory, brokers=brokers, settings=SETTINGS)


def _make(lab: LabCluster, name: str, partitions: int, **configs: str) -> None:
    with ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:
        admin.create_topics(
            [ottla.NewTopic(name, partitions, min(3, len(lab.brokers)), configs=configs)], timeout=LIMIT_S
        )


def _partitions(admin: ottla.Admin, topic: str) -> list[PartitionDescription]:
    """None yet when the broker that is asked has not heard of the topic, as in Kafka."""
    try:
        return list(admin.describe_topics([topic], timeout=LIMIT_S)[topic].partitions)
    except UnknownTopicOrPartition:
        return []


def _are_copied(admin: ottla.Admin, topic: str, count: int) -> bool:
    found = _partitions(admin, topic)
    return len(found) == count and all(len(each.in_sync) == 3 for each in found)


# --- copying ----------------------------------------------------------------------------------------------------------


class Copied(NamedTuple):
    """What a load did to a cluster."""

    mb_per_s: float
    cpu_ms_per_mb: float  # of all its brokers together


def produce(directory: Path, rounds: int) -> list[Figure]:
    with _lab(directory / "one", 1) as one, _lab(directory / "three", 3) as three:
        _make(one, "load", PARTITIONS, **{"ottla.durability": "replicated", "min.insync.replicas": "1"})
        _make(three, "load", PARTITIONS)
        for lab in (one, three):
            _load(lab)
        pairs = [(_load(one), _load(three)) for _ in range(rounds)]
    single, copied = (statistics.median(each.mb_per_s for each in column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(with_copies.mb_per_s / alone.mb_per_s for alone, with_copies in pairs)
    detail = f"{copied:.0f} MB/s with three copies, {single:.0f} MB/s with one; acks=all, records of 1 kB"
    cpu = [statistics.median(each.cpu_ms_per_mb for each in column) for column in zip(*pairs, strict=True)]
    cpu_ratio = statistics.median(with_copies.cpu_ms_per_mb / alone.cpu_ms_per_mb for alone, with_copies in pairs)
    cpu_detail = f"{cpu[1]:.2f} ms of the three brokers for a MB, {cpu[0]:.2f} of the one; the same load"
    return [
        Figure("produce, three copies against one", ratio, detail, at_least=0.35),
        Figure("CPU per MB, three copies against one", cpu_ratio, cpu_detail, at_most=3.2),
    ]


def _load(lab: LabCluster) -> Copied:
    before_s = _cpu_s(lab)
    rate = _megabytes_per_s(lab)
    return Copied(rate, (_cpu_s(lab) - before_s) * 1e3 / (RECORDS * len(VALUE) / 1e6))


def _cpu_s(lab: LabCluster) -> float:
    """What the brokers have used, to the microsecond: the threads that a load keeps busy live as long as the broker."""
    tasks = [
        task
        for each in lab.brokers
        if each.process
        for task in Path(f"/proc/{each.process.pid}/task").glob("*/schedstat")
    ]
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _megabytes_per_s(lab: LabCluster) -> float:
    with ottla.Producer(bootstrap_servers=lab.bootstrap_servers, acks="all", linger_ms=5) as producer:
        producer.partitions_for("load")
        began = time.perf_counter()
        for number in range(RECORDS):
            producer.send("load", VALUE, partition=number % PARTITIONS)
        producer.flush(LIMIT_S)
        return RECORDS * len(VALUE) / (time.perf_counter() - began) / 1e6


# --- fail-over --------------------------------------------------------------------------------------------------------


def failover(directory: Path, rounds: int) -> list[Figure]:
    with _lab(directory, 3) as lab:
        _make(lab, "clicks", 1)
        times = [_failover_s(lab) for _ in range(rounds)]
    detail = f"kill -9 of a leader to the next acknowledged write; session time-out {SESSION_S:g} s; {_span(times)}"
    return [Figure("fail-over", statistics.median(times), detail, unit=" s", at_most=SESSION_S + 1)]


def _failover_s(lab: LabCluster) -> float:
    with (
        ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin,
        ottla.Producer(bootstrap_servers=lab.bootstrap_servers, acks="all") as producer,
    ):
        _wait(lambda: _are_copied(admin, "clicks", 1))
        producer.send("clicks", b"before").result(LIMIT_S)
        victim = _partitions(admin, "clicks")[0].leader
        assert victim is not None, "all copies are in sync"
        lab.signal(victim, signal.SIGKILL)
        began = time.perf_counter()
        producer.send("clicks", b"after").result(LIMIT_S)
        took_s = time.perf_counter() - began
        lab.start_broker(victim)
    return took_s


# --- many partitions --------------------------------------------------------------------------------------------------


def many_partitions(directory: Path, rounds: int) -> list[Figure]:
    """Once, whatever `rounds` says: a thousand partitions are many enough."""
    with _lab(directory, 3) as lab, ottla.Admin(bootstrap_servers=lab.bootstrap_servers) as admin:

        def leaders() -> list[int | None]:
            return [each.leader for each in _partitions(admin, "many")]

        began = time.perf_counter()
        _make(lab, "many", MANY)
        _wait(lambda: len(now := leaders()) == MANY and None not in now)
        created_s = time.perf_counter() - began
        _wait(lambda: _are_copied(admin, "many", MANY))
        controller = admin.describe_cluster(timeout=LIMIT_S).controller
        victim = next(each.number for each in lab.brokers if each.number != controller)
        led = leaders().count(victim)
        lab.signal(victim, signal.SIGKILL)
        began = time.perf_counter()
        _wait(lambda: len(now := leaders()) == MANY and not {victim, None} & set(now))
        moved_s = max(0.0, time.perf_counter() - began - SESSION_S)
    return [
        Figure("1,000 partitions made", created_s, "3 copies each, until all have leaders", unit=" s", at_most=10),
        Figure("their fail-over", moved_s, f"{led} led by the broker that was killed", unit=" s", at_most=5),
    ]


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not become so within {LIMIT_S:g} s")
        time.sleep(0.02)


def _span(times: list[float]) -> str:
    return f"{min(times):.2f} to {max(times):.2f} s in {len(times)} rounds"
