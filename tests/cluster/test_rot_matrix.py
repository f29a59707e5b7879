"""One bit rots, in every kind of file a broker keeps: nobody reads a wrong value, and what has a good copy is repaired.

    24 places x {rots while the broker is stopped, after a kill, while it runs} x {one copy, all, the only copy}

1. `one copy`: three brokers, the bit rots at the one that leads. Everything that was written is read, committed offsets
   are what they were, all replicas are in sync, and their logs are equal byte for byte in the end.
2. `only copy`: a broker of its own. It starts; what it returns is what was written at that offset, or an error; only
   what shares a batch with the rotten bit may be lost, and no offset is given out twice.
3. `all copies`: three brokers, and the same bit rots at each of them: as with the only copy, and all of them start.
4. The bit is chosen so that the file still makes sense where that is possible: a digit becomes another digit.
5. Metadata of the whole broker is not one topic's sake: there a refusal to start, with the file named, is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.offsets import OffsetSpec
from ottla.errors import CorruptMessage, OttlaError
from ottla.light_tuples import NamedTuple
from ottla.records.layout import HEADER_BYTES
from ottla.simulation.for_tests import FaultyCluster
from ottla.values import TopicPartition

ORDERS, PAYMENTS, OFFSETS, TRANSACTIONS = "orders", "payments", "__consumer_offsets", "__transaction_state"
RECORDS = 30
CHECKPOINTED_S = 130.0  # all checkpoints that are written once a minute have been
FOUND_S = 30.0  # the pass over all records has been here
SETTINGS = {
    "ottla.verify.interval.ms": 5_000,
    "log.index.interval.bytes": 100,
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
}
Where = Callable[[Any, Any], tuple[Path, int]]  # of a log and the disk that it is on: which bit of which file
TOPIC = {"internal.segment.bytes": "1500"}


class Place(NamedTuple):
    """Where a bit rots."""

    name: str
    topic: str | None
    where: Where
    may_refuse: bool = False  # the only copy: the broker may refuse to start, with the file named
    loses: bool = False  # the only copy: a batch may be lost


def _closed(log: Any) -> Any:
    return next(iter(log.segments))


def _open(log: Any) -> Any:
    return log.segments.last


def _batch_byte(segment: Any, byte: int, *, last: bool = False) -> tuple[Path, int]:
    """A byte of the second batch of a segment, or of its last."""
    positions = [0]
    while True:
        header = segment.records.file.read_at(positions[-1] + 8, 4)
        following = positions[-1] + 12 + int.from_bytes(header, "big")
        if following >= segment.size_bytes:
            break
        positions.append(following)
    position = positions[-1] if last or len(positions) < 2 else positions[1]
    return segment.path, 8 * (position + byte) + 1


def records(which: Callable[[Any], Any], byte: int, *, last: bool = False) -> Where:
    return lambda log, disk: _batch_byte(which(log), byte, last=last)


def index(which: Callable[[Any], Any], suffix: str, byte: int) -> Where:
    return lambda log, disk: (which(log).path.with_suffix(suffix), 8 * byte + 2)


def newest(suffix: str, byte: int) -> Where:
    def where(log: Any, disk: Any) -> tuple[Path, int]:
        names = [name for name in disk.list_directory(log.directory) if name.endswith(suffix)]
        return log.directory / max(names), 8 * byte + 2

    return where


def last_digit(name: str, *, line: str | None = None) -> Where:
    """The last digit of the line of this partition in a table becomes another digit."""

    def where(log: Any, disk: Any) -> tuple[Path, int]:
        path = (log.directory if line is None else log.directory.parent) / name
        content: bytes = disk.read_bytes(path)
        at = len(content) - 2 if line is None else content.index(line.encode()) + len(line)
        while at + 1 < len(content) and content[at + 1 : at + 2].isdigit():
            at += 1
        assert content[at : at + 1].isdigit(), content
        return path, 8 * at + 1

    return where


def in_directory(name: str, byte: int, bit: int = 1) -> Where:
    return lambda log, disk: (log.directory.parent / name, 8 * byte + bit)


PAYLOAD, LENGTH, BASE_OFFSET, LEADER_EPOCH, COUNT = HEADER_BYTES + 9, 11, 7, 15, 60
PLACES = [
    Place("record of a closed segment", ORDERS, records(_closed, PAYLOAD), loses=True),
    Place("length in a closed segment", ORDERS, records(_closed, LENGTH), loses=True),
    Place("base offset in a closed segment", ORDERS, records(_closed, BASE_OFFSET), loses=True),
    Place("record count in a closed segment", ORDERS, records(_closed, COUNT), loses=True),
    Place("record of the open segment", ORDERS, records(_open, PAYLOAD), loses=True),
    Place("last length of the open segment", ORDERS, records(_open, LENGTH, last=True), loses=True),
    Place("record in a transaction", PAYMENTS, records(_closed, PAYLOAD), loses=True),
    Place("offset index of a closed segment", ORDERS, index(_closed, ".index", 7)),
    Place("time index of a closed segment", ORDERS, index(_closed, ".timeindex", 6)),
    Place("offset index of the open segment", ORDERS, index(_open, ".index", 7)),
    Place("time index of the open segment", ORDERS, index(_open, ".timeindex", 6)),
    Place("aborted index: producer id", PAYMENTS, index(_closed, ".txnindex", 9)),
    Place("aborted index: first offset", PAYMENTS, index(_closed, ".txnindex", 17)),
    Place("producer snapshot", PAYMENTS, newest(".snapshot", 20)),
    Place("leader epochs", ORDERS, last_digit("leader-epoch-checkpoint")),
    Place("partition.metadata", ORDERS, newest("partition.metadata", 25)),
    Place("recovery points", ORDERS, last_digit("recovery-point-offset-checkpoint", line="orders 0 ")),
    Place("log starts", ORDERS, last_digit("log-start-offset-checkpoint", line="orders 0 ")),
    Place("high watermarks", ORDERS, last_digit("replication-offset-checkpoint", line="orders 0 ")),
    Place("committed offset", OFFSETS, records(_open, PAYLOAD), loses=True),
    Place("state of a transaction", TRANSACTIONS, records(_open, PAYLOAD), loses=True),
    Place("meta.properties", ORDERS, in_directory("meta.properties", 12), may_refuse=True),
    Place("metadata of a lone broker", None, newest("", 0), may_refuse=True),
    Place("position of the verification", ORDERS, in_directory("ottla-verification.json", 12)),
]
assert len(PLACES) == 24


class Written(NamedTuple):
    """What clients were told is there."""

    orders: dict[int, bytes]
    times: dict[int, int]
    committed: dict[int, bytes]
    group_offset: int
    orders_end: int


async def _write(cluster: FaultyCluster) -> Written:
    await cluster.create_topic(ORDERS, **TOPIC)
    await cluster.create_topic(PAYMENTS, **TOPIC)
    orders: dict[int, bytes] = {}
    times: dict[int, int] = {}
    async with cluster.producer(linger_ms=0) as producer:
        for number in range(RECORDS):
            value, time_ms = b"order %05d " % number * 8, 1_700_000_000_000 + 1_000 * number
            sent = await producer.send_and_wait(ORDERS, value, timestamp_ms=time_ms)
            orders[sent.offset], times[time_ms] = value, sent.offset
    async with cluster.admin() as admin:
        await admin.delete_records({TopicPartition(ORDERS, 0): 1})
    del orders[0], times[1_700_000_000_000]
    committed = await _transact(cluster)
    async with cluster.consumer(ORDERS, auto_offset_reset="earliest", group_id="readers") as consumer:
        seen = 0
        while seen < len(orders):
            seen += len(await consumer.poll(5.0))
        await consumer.commit()
    await cluster.healed()
    return Written(orders, times, committed, RECORDS, RECORDS)


async def _transact(cluster: FaultyCluster, *, numbers: range = range(8)) -> dict[int, bytes]:
    """Every second transaction is aborted; what the others wrote."""
    committed: dict[int, bytes] = {}
    async with cluster.producer(linger_ms=0, transactional_id="payer") as producer:
        await producer.init_transactions()
        for number in numbers:
            await producer.begin_transaction()
            values = [b"payment %05d %d " % (number, part) * 6 for part in range(3)]
            offsets = [(await producer.send_and_wait(PAYMENTS, value)).offset for value in values]
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
                committed.update(zip(offsets, values, strict=True))
    return committed


async def _rot(cluster: FaultyCluster, place: Place, when: str, *, everywhere: bool) -> list[int]:
    """Let the bit rot at the broker that leads, or at all of them; which ones these are."""
    simulated = cluster._cluster
    copies = simulated.replicas(place.topic or ORDERS, 0)
    hit = sorted(copies) if everywhere else [next(iter(copies.values())).leader_id]
    logs = {number: copies[number].log for number in hit}
    disks = {number: simulated.seats[number].machine.disk.files for number in hit}
    if when == "stopped":
        for number in hit:
            await simulated.stop(number)
        logs = {number: _Closed(logs[number], disks[number]) for number in hit}
    spots = {number: _at(place, logs[number], disks[number]) for number in hit}
    if when == "killed":
        for number in hit:
            cluster.kill(number)
    for number in hit:
        disks[number].flip_bit(*spots[number])
    if when != "running":
        for number in hit:
            cluster.restart(number)
    return hit


class _Closed:
    """A log whose broker is stopped, as its files are: places are found the same way."""

    def __init__(self, log: Any, disk: Any) -> None:
        self.directory = log.directory
        names = disk.list_directory(log.directory)
        self.segments = _Segments(
            [_Segment(log.directory / name, disk) for name in sorted(names) if name.endswith(".log")]
        )


class _Segments(list[Any]):
    @property
    def last(self) -> Any:
        return self[-1]


class _Segment:
    def __init__(self, path: Path, disk: Any) -> None:
        self.path = path
        self.records = _Records(disk.open(path, read_only=True))
        self.size_bytes = disk.size(path)


class _Records(NamedTuple):
    file: Any


def _at(place: Place, log: Any, disk: Any) -> tuple[Path, int]:
    if place.topic is not None:
        return place.where(log, disk)
    folder = next(path for path in _folders(disk, log.directory.parent) if "metadata" in path.name)
    name = max(disk.list_directory(folder), key=lambda name: disk.size(folder / name))
    return folder / name, 8 * (disk.size(folder / name) // 2)


def _folders(disk: Any, directory: Path) -> list[Path]:
    return [directory / name for name in disk.list_directory(directory) if disk.is_directory(directory / name)]


async def _read(cluster: FaultyCluster, topic: str, end: int, **settings: Any) -> dict[int, bytes]:
    """Everything that can be read, by offset; damage is stepped over, as a user does who was told of it."""
    found: dict[int, bytes] = {}
    partition = TopicPartition(topic, 0)
    async with cluster.consumer(**settings) as consumer:
        await consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        quiet = 0
        while quiet < 8:
            try:
                polled = await consumer.poll(2.0)
            except OttlaError:
                consumer.seek(partition, await consumer.position(partition) + 1)
                continue
            for record in polled:
                assert record.offset not in found
                found[record.offset] = record.value
            quiet = 0 if polled else quiet + 1
            if await consumer.position(partition) >= end:
                break
    return found


async def _judge_reading(cluster: FaultyCluster, written: Written, place: Place, *, no_good: bool) -> set[int]:
    """At most the batch that rotted is missing; the offsets of orders that are."""
    missing = await _judge_values(cluster, written)
    for topic, offsets in missing.items():
        allowed = 1 if no_good and place.loses and place.topic == topic else 0
        assert len(offsets) <= allowed, f"{topic}: {sorted(offsets)} cannot be read"
    return missing[ORDERS]


async def _judge_values(cluster: FaultyCluster, written: Written) -> dict[str, set[int]]:
    """Whatever is read is what was written there; the offsets that cannot be read."""
    async with cluster.admin() as admin:
        ends = await admin.list_offsets({TopicPartition(PAYMENTS, 0): OffsetSpec.LATEST})
        payments_end = next(iter(ends.values())).offset
    orders = await _read(cluster, ORDERS, written.orders_end)
    payments = await _read(cluster, PAYMENTS, payments_end, isolation_level="read_committed")
    for read, truth, topic in ((orders, written.orders, ORDERS), (payments, written.committed, PAYMENTS)):
        wrong = {offset: value for offset, value in read.items() if truth.get(offset) != value}
        assert not wrong, f"{topic}: read what was not written there: {wrong}"
    return {ORDERS: written.orders.keys() - orders.keys(), PAYMENTS: written.committed.keys() - payments.keys()}


async def _judge_lookups(cluster: FaultyCluster, written: Written, *, lost: set[int]) -> None:
    async with cluster.admin() as admin:
        for time_ms, offset in list(written.times.items())[::3]:
            partition = TopicPartition(ORDERS, 0)
            try:
                found = (await admin.list_offsets({partition: time_ms}))[partition].offset
            except CorruptMessage:
                assert offset in lost
                continue
            assert found == offset or offset in lost, f"{time_ms} is at {offset}, answered was {found}"


async def _judge_group(cluster: FaultyCluster, written: Written, place: Place, *, no_good: bool) -> None:
    async with cluster.admin() as admin:
        found = await admin.list_consumer_group_offsets("readers")
    offsets = [committed.offset for committed in found.values() if committed is not None]
    may_be_lost = no_good and place.topic == OFFSETS
    assert offsets == [written.group_offset] or (may_be_lost and all(o <= written.group_offset for o in offsets))


async def _judge_writing(cluster: FaultyCluster, written: Written, place: Place, *, no_good: bool) -> None:
    async with cluster.producer(linger_ms=0) as producer:
        sent = await producer.send_and_wait(ORDERS, b"afterwards")
        assert sent.offset >= written.orders_end, "an offset was given out twice"
    if no_good and place.topic == TRANSACTIONS:
        return  # its transactional ids have no coordinator: decision 0150
    more = await asyncio.wait_for(_transact(cluster, numbers=range(100, 102)), 120)
    assert not more.keys() & written.committed.keys(), "an offset was given out twice"


def _run(place: Place, when: str, copies: str) -> None:
    no_good = copies != ONE

    async def scenario(cluster: FaultyCluster) -> None:
        simulated = cluster._cluster
        written = await _write(cluster)
        await asyncio.sleep(CHECKPOINTED_S)
        for number in await _rot(cluster, place, when, everywhere=copies != ONE):
            if not await _is_up(cluster, number):
                assert place.may_refuse, simulated.deaths[-1]
                assert "/data" in simulated.deaths[-1], f"which file it is must be said: {simulated.deaths[-1]}"
                return
        if copies == ALL:
            await _heal(cluster)  # all were away: nobody can be asked before
        await _judge_values(cluster, written)  # with one copy also before anybody has found out what rotted
        await (asyncio.sleep(FOUND_S) if copies == ONLY else _heal(cluster))
        lost = await _judge_reading(cluster, written, place, no_good=no_good)
        await _judge_lookups(cluster, written, lost=lost)
        await _judge_group(cluster, written, place, no_good=no_good)
        await _judge_writing(cluster, written, place, no_good=no_good)
        if copies == ONE:
            await _judge_copies(cluster)
        if copies == ALL:
            await _heal(cluster)  # nobody is left out of sync

    FaultyCluster(seed=27, brokers=1 if copies == ONLY else 3, settings=SETTINGS).run(scenario)


async def _is_up(cluster: FaultyCluster, number: int) -> bool:
    for _ in range(60):
        await asyncio.sleep(1.0)
        if number in cluster._cluster.servers():
            return True
    return False


async def _heal(cluster: FaultyCluster) -> None:
    await asyncio.wait_for(cluster.healed(), 300)
    await asyncio.wait_for(cluster._cluster.coordinators_in_sync(), 300)
    await asyncio.sleep(60)


async def _judge_copies(cluster: FaultyCluster) -> None:
    await _heal(cluster)
    for topic in (ORDERS, PAYMENTS):  # each broker compacts those of the coordinators at its own time
        copies = list(cluster._cluster.committed_bytes(topic, 0).values())
        assert copies == [copies[0]] * 3, f"{topic}: the copies differ"
    for number, server in cluster._cluster.servers().items():
        assert not server.broker.corruption.found, f"broker {number} still has damage"


ONE, ALL, ONLY = "one copy", "all copies", "only copy"
WAYS = [(when, copies) for when in ("stopped", "killed", "running") for copies in (ONE, ALL, ONLY)]


def _cases() -> Iterator[Any]:
    """All of them; every place has one way that is not long, another one than its neighbours."""
    for number, place in enumerate(PLACES):
        ways = [way for way in WAYS if place.topic is not None or way[1] == ONLY]  # three have their metadata elsewhere
        for when, copies in ways:
            marks = () if (when, copies) == ways[number % len(ways)] else (pytest.mark.long,)
            yield pytest.param(place, when, copies, id=f"{place.name}-{when}-{copies}", marks=marks)


@pytest.mark.parametrize(("place", "when", "copies"), list(_cases()))
def test_a_bit_that_rots_gives_nobody_a_wrong_value(place: Place, when: str, copies: str) -> None:
    _run(place, when, copies)
