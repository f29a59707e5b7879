"""Group commit, from the append to the answer: nobody is answered before a sync that began after his write has ended.

Real logs on two disks in memory, the broker's own rounds and lines of waiters. Hypothesis says in which order things
happen: who appends, when a turn of the loop passes, when the disk does what it was asked, when it fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.observe.request_metrics import RequestMetrics
from ottla.broker.observe.topic_metrics import TopicMetrics
from ottla.broker.produce.answers import Answers
from ottla.broker.produce.writer import Writer
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.replication.progress import PartitionProgress
from ottla.broker.replication.writes import ProduceResult, Write
from ottla.cluster import model
from ottla.cluster.image import ClusterImage
from ottla.errors import KafkaStorageError, RequestTimedOut
from ottla.metrics import Registry
from ottla.records import BatchBuilder
from ottla.storage.directory.offline import FailStopFiles
from ottla.storage.log.partition_log import open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.clock import ManualClock
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DISKS = 2
PARTITIONS_PER_DISK = 4
TIMEOUT_MS = 1_000
TURNS = 4


class HandPool(Executor):
    """Threads that work when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, lambda: call(*args, **kwargs)))
        return future


class World:
    def __init__(self) -> None:
        self.pool = HandPool()
        self.clock = ManualClock()
        self.disks = [MemoryFiles(seed=number) for number in range(DISKS)]
        self.doors = [FailStopFiles(disk, Path("/data")) for disk in self.disks]
        self.partitions = [self._partition(number) for number in range(DISKS * PARTITIONS_PER_DISK)]
        self.synced_to = dict.fromkeys(range(len(self.partitions)), 0)
        self.progress = PartitionProgress(
            self.pool,
            clock=self.clock,
            wake=lambda: None,
            notify=lambda name: None,
            failed=self._failed,
            before_round=lambda: self.writer.append_all(),
        )
        registry = Registry()
        broker: Any = SimpleNamespace(
            clock=self.clock,
            progress=self.progress,
            image=ClusterImage("5L6g3nShT-eMCtK--X86sw"),
            topic_metrics=TopicMetrics(registry),
            request_metrics=RequestMetrics(registry),
        )
        self.writer = Writer(broker)
        self.requests: list[tuple[int, ProduceResult, Answers]] = []

    def _partition(self, number: int) -> Partition:
        name, door = TopicPartition("orders", number), self.doors[number % DISKS]
        door.make_directory(Path("/data"))
        log = open_log(
            Path(f"/data/{name}"), name, TopicSettings({}), files=door, now_ms=self.clock.now_ms(), is_clean=False
        )
        made = Partition(name, bytes(16), log, broker_id=1)
        made.update_state(model.Partition(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0))
        return made

    def _failed(self, partition: Partition, error: KafkaStorageError) -> None:
        partition.offline = error
        self.progress.flushed(partition)

    def produce(self, number: int) -> None:
        partition = self.partitions[number]
        if partition.offline is not None:
            return
        builder = BatchBuilder()
        builder.append(self.clock.now_ms(), None, b"a value")
        result = ProduceResult(number)
        answers = Answers([[("orders", [result])]], self.progress.next_turn)
        write = Write(answers, ACKS_ALL, TIMEOUT_MS, is_plain=True)
        write.add(memoryview(bytearray(builder.close())), result)
        answers.begun(1)
        self.writer.write(partition, write)
        answers.all_begun()
        self.requests.append((number, result, answers))

    def sync(self, at: int) -> None:
        """A thread of the pool does what it was asked."""
        if not self.pool.waiting:
            return
        future, call = self.pool.waiting.pop(at % len(self.pool.waiting))
        found = call()
        for flush in found:
            if flush.error is None:
                number = flush.partition.name.partition
                self.synced_to[number] = flush.partition.log_end_offset
        future.set_result(found)

    def fail_syncs(self, disk: int) -> None:
        self.disks[disk].fail(lambda each: each.kind == "sync", for_ever=True)

    async def turn(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def check(self) -> None:
        for number, result, answers in self.requests:
            if not answers.is_over:
                continue
            if result.error is None:
                assert result.base_offset < self.synced_to[number], "answered before it was on the disk"
            elif not isinstance(result.error, RequestTimedOut):
                assert self.doors[number % DISKS].failure is not None, "its own disk has not failed"

    async def finish(self) -> None:
        while not self.progress.is_idle:
            self.sync(0)
            await self.turn()
            self.check()


NUMBERS = st.integers(0, DISKS * PARTITIONS_PER_DISK - 1)
STEPS = st.one_of(
    st.tuples(st.just("produce"), NUMBERS),
    st.tuples(st.just("produce"), NUMBERS),
    st.tuples(st.just("sync"), NUMBERS),
    st.tuples(st.just("turn"), NUMBERS),
)


async def run(steps: list[tuple[str, int]], failing: tuple[int, int] | None) -> World:
    world = World()
    for at, (kind, number) in enumerate(steps):
        if failing is not None and failing[1] == at:
            world.fail_syncs(failing[0])
        if kind == "produce":
            world.produce(number)
        elif kind == "sync":
            world.sync(number)
        else:
            await world.turn()
        world.check()
    await world.finish()
    return world


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_nobody_is_answered_before_a_sync_that_began_after_his_write_has_ended(steps: list[tuple[str, int]]) -> None:
    world = asyncio.run(run(steps, None))
    assert all(answers.is_over and result.error is None for _, result, answers in world.requests)
    assert len(world.progress.commits) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=60), st.tuples(st.integers(0, DISKS - 1), st.integers(0, 30)))
def test_a_sync_that_fails_fails_those_who_wait_for_that_disk_and_nobody_else(
    steps: list[tuple[str, int]], failing: tuple[int, int]
) -> None:
    world = asyncio.run(run(steps, failing))
    for number, result, answers in world.requests:
        assert answers.is_over, "everybody is answered"
        if number % DISKS != failing[0]:
            assert result.error is None
        elif result.error is not None:
            assert isinstance(result.error, KafkaStorageError)


def test_a_slow_disk_holds_up_nobody_who_waits_for_another() -> None:
    async def test() -> None:
        world = World()
        for number in (0, 1):
            world.produce(number)
        await world.turn()
        assert len(world.pool.waiting) == 2, "each disk has a round of its own"
        world.sync(1)
        await world.turn()
        assert [answers.is_over for *_, answers in world.requests] == [False, True]
        await world.finish()

    asyncio.run(test())


def test_what_comes_while_the_disk_works_shares_the_next_round_and_the_loop_is_woken_once() -> None:
    async def test() -> None:
        world = World()
        world.produce(0)
        await world.turn()
        for number in (0, 2, 4, 6, 0, 2, 4, 6):
            world.produce(number)
        await world.turn()
        assert len(world.pool.waiting) == 1, "one round at a time"
        world.sync(0)
        await world.turn()
        shares = len(world.pool.waiting)
        assert 1 < shares <= 3, "files are synced side by side"
        for left in reversed(range(shares)):
            assert [answers.is_over for *_, answers in world.requests] == [True, *[False] * 8]
            world.sync(left)
            await world.turn()
        assert all(answers.is_over for *_, answers in world.requests)

    asyncio.run(test())


def test_requests_whose_time_is_over_are_told_so_and_those_who_came_later_wait_on() -> None:
    async def test() -> None:
        world = World()
        world.produce(0)
        await world.clock.advance(TIMEOUT_MS // 2)
        world.produce(0)
        due_ms = world.progress.commits.next_due_ms()
        assert due_ms is not None
        await world.clock.advance(TIMEOUT_MS // 2)
        assert world.progress.commits.expire_due(max(due_ms, world.clock.monotonic_ms())) == 1
        await world.turn()
        assert [answers.is_over for *_, answers in world.requests] == [True, False]
        assert isinstance(world.requests[0][1].error, RequestTimedOut)
        await world.finish()
        assert world.requests[1][1].error is None

    asyncio.run(test())


def test_requests_that_wait_when_the_broker_stops_are_answered_as_if_their_time_were_over() -> None:
    async def test() -> None:
        world = World()
        world.produce(0)
        world.progress.close()
        world.produce(2)
        await world.turn()
        assert [type(result.error) for _, result, _ in world.requests] == [RequestTimedOut] * 2

    asyncio.run(test())
