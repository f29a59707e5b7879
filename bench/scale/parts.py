"""Many of everything on one broker: partitions, connections, groups, consumers, and a large topic.

Each part is a function of one side and the sheet; a side works alone on the machine, in a directory of its own that is
removed. Every step has a bound (sides.bounded).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from bench.scale.sheet import Sheet
from bench.scale.sides import Running, Side, Topics, bounded, wait_for
from bench.walk import processes, requests

GIBIBYTE: Final = 1 << 30
PARTITIONS_PER_TOPIC: Final = 1_000  # Kafka's controller refuses 10,000 in one request
BIG_PARTITIONS: Final = 4
PACE: Final = 500
PACE_TASK: Final = {"batch_bytes": 0, "acks": -1, "rate": PACE, "warm_s": 1.0}
CREATE_TIMEOUT_MS: Final = 120_000
MEMBERS_PER_GROUP: Final = 10
PARTITIONS_PER_MEMBER: Final = 5


@dataclass(frozen=True)
class Sizes:
    """How many of everything, and how long nothing happens while idle CPU is counted."""

    partitions: int = 10_000
    connections: int = 5_000
    groups: int = 1_000
    topic_bytes: int = 10 * GIBIBYTE
    consumers: int = 100
    members: int = 10_000
    rebalanced: int = 100
    idle_members: int = 500
    idle_s: float = 20.0


def load(kind: str, port: int, **task: Any) -> processes.Child:
    return processes.Child("bench.scale.load", json.dumps({"kind": kind, "port": port, **task}))


def result(kind: str, port: int, **task: Any) -> dict[str, Any]:
    with bounded(kind), load(kind, port, **task) as child:
        return dict(json.loads(child.line()))


def create(broker: Running, topics: Topics) -> None:
    """Make the topics, and wait until all of them take records."""
    with bounded("creating topics"):
        for name, count in topics.items():
            processes.ask(broker.port, requests.create_topic(count, name, CREATE_TIMEOUT_MS))
        wait_for(broker.port, topics)


def idle_cpu(broker: Running, seconds: float) -> float:
    """Percent of a core while nobody asks for anything new."""
    before_s, started = broker.cpu_s, time.perf_counter()
    time.sleep(seconds)
    return 100 * (broker.cpu_s - before_s) / (time.perf_counter() - started)


def restarts(side: Side, sheet: Sheet, broker: Running, topics: Topics, what: str) -> Running:
    """Stop and start, kill -9 and start; returns the broker that runs then."""
    started = time.perf_counter()
    with bounded("the stop"):
        broker.stop()
    sheet.less(side, f"{what}: stop", time.perf_counter() - started, "s")
    os.sync()
    broker = side.start(topics)
    sheet.less(side, f"{what}: start", broker.ready_s, "s")
    sheet.less(side, f"{what}: start, CPU", broker.ready_cpu_s, "s")
    broker.kill()
    broker = side.start(topics)
    sheet.less(side, f"{what}: start after kill -9", broker.ready_s, "s")
    sheet.less(side, f"{what}: start after kill -9, CPU", broker.ready_cpu_s, "s")
    return broker


def partitions(side: Side, sheet: Sheet, sizes: Sizes) -> None:
    left = divmod(sizes.partitions, PARTITIONS_PER_TOPIC)
    counts = [PARTITIONS_PER_TOPIC] * left[0] + [left[1]] * bool(left[1])
    topics = {f"scale-{number}": count for number, count in enumerate(counts)}
    what = f"{sizes.partitions:,} partitions"
    broker = side.start({})
    try:
        empty_mb, empty_files, started = broker.rss_mb, broker.open_files, time.perf_counter()
        create(broker, topics)
        sheet.less(side, f"{what}: created", time.perf_counter() - started, "s")
        _spread(side, sheet, broker, topics, what)
        sheet.less(side, f"{what}: memory added", broker.rss_mb - empty_mb, "MB")
        sheet.less(side, f"{what}: files open", broker.open_files - empty_files, "files")
        sheet.less(side, f"{what}: idle CPU", idle_cpu(broker, sizes.idle_s), "% CPU")
        broker = restarts(side, sheet, broker, topics, what)
    finally:
        broker.kill()


def _spread(side: Side, sheet: Sheet, broker: Running, topics: Topics, what: str) -> None:
    """One record to every partition, twice: the first time finds files that were never written."""
    with bounded("a record to every partition"), load("spread", broker.port, topics=topics, passes=2) as child:
        for name in ("first record to each", "second record to each"):
            before_s = broker.cpu_s
            found = json.loads(child.line())
            sheet.more(side, f"{what}: {name}", found["requests"] / found["seconds"], "requests/s")
            cpu_us = 1e6 * (broker.cpu_s - before_s) / found["requests"]
            sheet.less(side, f"{what}: {name}, CPU", cpu_us, "us per request")


def p99_ms(broker: Running, seconds: float) -> float:
    with bounded("single requests"):
        times_s = processes.load("pace", broker.port, **PACE_TASK, seconds=seconds)["times_s"]
    return 1e3 * sorted(times_s)[int(0.99 * len(times_s))]


@contextmanager
def _with_walk(side: Side, partitions: int = 1) -> Iterator[Running]:
    """A broker with the topic of bench.walk's canned requests."""
    broker = side.start({})
    try:
        create(broker, {requests.TOPIC: partitions})
        yield broker
    finally:
        broker.kill()


def connections(side: Side, sheet: Sheet, sizes: Sizes) -> None:
    what = f"{sizes.connections:,} connections"
    with _with_walk(side) as broker:
        alone_ms, before_mb = p99_ms(broker, sizes.idle_s), broker.rss_mb
        with processes.start_load("idle", broker.port, connections=sizes.connections) as held:
            with bounded("opening connections"):
                held.line()
            sheet.less(side, f"{what}: memory added", broker.rss_mb - before_mb, "MB")
            sheet.less(side, f"{what}: idle CPU", idle_cpu(broker, sizes.idle_s), "% CPU")
            sheet.less(side, f"{what}: p99 of a produce beside them", p99_ms(broker, sizes.idle_s), "ms")
        sheet.less(side, "one connection: p99 of a produce", alone_ms, "ms")


def groups(side: Side, sheet: Sheet, sizes: Sizes) -> None:
    what = f"{sizes.groups:,} groups"
    with _with_walk(side) as broker:
        before_mb, before_s = broker.rss_mb, broker.cpu_s
        with load("groups", broker.port, groups=sizes.groups) as members:
            with bounded("joining groups"):
                found = json.loads(members.line())
            sheet.less(side, f"{what}: all have joined", found["join_s"], "s")
            sheet.less(side, f"{what}: all have committed", found["commit_s"], "s")
            sheet.less(side, f"{what}: CPU of that", broker.cpu_s - before_s, "s")
            sheet.less(side, f"{what}: memory added", broker.rss_mb - before_mb, "MB")
            sheet.less(side, f"{what}: CPU of heartbeats", idle_cpu(broker, sizes.idle_s), "% CPU")
            assert members.end()["groups"] == sizes.groups


def rebalance(side: Side, sheet: Sheet, sizes: Sizes) -> None:
    """One group of the consumer protocol (KIP-848) that shares out many partitions."""
    partitions = sizes.rebalanced * PARTITIONS_PER_MEMBER
    what = f"{sizes.rebalanced} members, {partitions} partitions"
    _modern(side, sheet, sizes, what, sizes.rebalanced, 1, partitions)


def idle_group(side: Side, sheet: Sheet, sizes: Sizes) -> None:
    """One group of the consumer protocol in which nothing happens."""
    what = f"a group of {sizes.idle_members} members"
    _modern(side, sheet, sizes, what, sizes.idle_members, 1, sizes.idle_members)


def members(side: Side, sheet: Sheet, sizes: Sizes) -> None:
    """Very many members in many groups of the consumer protocol."""
    groups = max(1, sizes.members // MEMBERS_PER_GROUP)
    what = f"{sizes.members:,} members in {groups:,} groups"
    _modern(side, sheet, sizes, what, groups * MEMBERS_PER_GROUP, groups, MEMBERS_PER_GROUP)


def _modern(side: Side, sheet: Sheet, sizes: Sizes, what: str, members: int, groups: int, partitions: int) -> None:
    task = {"members": members, "groups": groups, "topic": requests.TOPIC, "partitions": partitions, "spread_s": 2.0}
    with _with_walk(side, partitions) as broker:
        before_mb, before_s = broker.rss_mb, broker.cpu_s
        with load("modern", broker.port, **task) as living:
            with bounded(what):
                found = json.loads(living.line())
            sheet.less(side, f"{what}: all have their share", found["shared_s"], "s")
            sheet.less(side, f"{what}: CPU of that", broker.cpu_s - before_s, "s")
            sheet.less(side, f"{what}: memory added", broker.rss_mb - before_mb, "MB")
            sheet.less(side, f"{what}: CPU of heartbeats", idle_cpu(broker, sizes.idle_s), "% CPU")
            assert living.end()["members"] == members


def topic(side: Side, sheet: Sheet, sizes: Sizes) -> None:
    what = f"topic of {sizes.topic_bytes / GIBIBYTE:.3g} GB"
    task = {"topic": requests.TOPIC, "partitions": BIG_PARTITIONS}
    topics = {requests.TOPIC: BIG_PARTITIONS}
    broker = side.start({})
    try:
        create(broker, topics)
        filled = result("fill", broker.port, **task, bytes=sizes.topic_bytes)
        sheet.more(side, f"{what}: written", filled["bytes"] / filled["seconds"] / 1e6, "MB/s")
        broker = restarts(side, sheet, broker, topics, what)
        before_s = broker.cpu_s
        read = result("scan", broker.port, **task)
        assert read["bytes"] >= filled["bytes"] * 0.95, f"{read} of {filled}"
        sheet.more(side, f"{what}: read from its beginning", read["bytes"] / read["seconds"] / 1e6, "MB/s")
        sheet.less(side, f"{what}: the same, CPU", 1e9 * (broker.cpu_s - before_s) / read["bytes"], "ms per MB")
    finally:
        broker.kill()


def consumers(side: Side, sheet: Sheet, sizes: Sizes) -> None:
    what = f"{sizes.consumers} consumers of a topic"
    with _with_walk(side, BIG_PARTITIONS) as broker:
        task = {"topic": requests.TOPIC, "partitions": BIG_PARTITIONS, "readers": sizes.consumers}
        with load("readers", broker.port, **task) as readers:
            with bounded("starting consumers"):
                readers.line()
            sheet.less(side, f"{what}: idle CPU", idle_cpu(broker, sizes.idle_s), "% CPU")
            before_s = broker.cpu_s
            p99 = p99_ms(broker, sizes.idle_s)
            found = readers.end()
        sheet.less(side, f"{what}: p99 of a produce at {PACE} a second", p99, "ms")
        records = found["bytes"] / len(requests.batch_of(0))
        sheet.less(side, f"{what}: CPU of a record to each", 1e6 * (broker.cpu_s - before_s) / records, "us")
        sheet.more(side, f"{what}: least / mean", found["least"] * sizes.consumers / max(1, found["bytes"]), "")
