"""Coordinators are loaded in slices: others go in between, and what happens meanwhile is done once."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.coordinators.effects import Reply, SetTimer, StoredRecord
from ottla.broker.coordinators.loads import AT_ONCE, SLICE_STEPS, Loads
from ottla.broker.coordinators.runtime import Runtime
from ottla.broker.requests.pacing import SLICE_MS
from ottla.broker.requests.running import Background
from ottla.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.stored import encode_key
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue
from ottla.records import BatchBuilder, RecordBatch
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.log.whole_log import Rotten
from ottla.storage.producers.check import VerificationGuard

LARGE = 3 * SLICE_STEPS
ROTTEN = Rotten(Path("/data/0.log"), 4096, 17, 18, "its CRC is wrong")


def batch_of(name: str) -> bytes:
    builder = BatchBuilder(size_limit_bytes=1 << 20)
    builder.append(0, encode_key(TransactionLogKey(transactional_id=name)), None)
    return bytes(builder.close())


def marker(producer_id: int) -> bytes:
    end = EndTransactionMarker(True, 0)
    return bytes(end_transaction_batch(end, producer_id=producer_id, producer_epoch=0, timestamp_ms=0))


class GrowingPartition:
    """A log in memory; a batch counts as one offset."""

    leader_epoch = 0

    def __init__(self, batches: Sequence[bytes | Rotten]) -> None:
        self.batches = list(batches)
        self.read = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.batches)

    high_watermark = log_end_offset

    def append_internal(self, batch: bytearray, now_ms: int, guard: VerificationGuard | None) -> int:
        self.batches.append(bytes(batch))
        return self.log_end_offset

    def read_batches(self) -> Iterator[RecordBatch | Rotten]:
        at = 0
        while at < len(self.batches):
            found = self.batches[at]
            at += 1
            self.read += 1
            yield found if isinstance(found, Rotten) else RecordBatch(found)


class CountingShard:
    pieces = LARGE

    def __init__(self) -> None:
        self.names: list[str] = []
        self.ended: list[int] = []
        self.events: list[str] = []
        self.is_unloaded = False

    def replay(self, record: StoredRecord, *, offset: int, producer_id: int = -1, producer_epoch: int = -1) -> None:
        assert isinstance(record.key, TransactionLogKey)
        if record.key.transactional_id == "unheard of":
            raise KeyError(record.key.transactional_id)
        self.names.append(record.key.transactional_id)

    def replay_end_of_transaction(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self.ended.append(producer_id)

    def loaded(self, now_ms: int) -> Iterator[Sequence[Any]]:
        self.events.append("loaded")
        for number in range(self.pieces):
            yield [SetTimer(number, now_ms)]

    def timer_fired(self, key: Any, now_ms: int) -> Sequence[Any]:
        self.events.append(f"timer {key}")
        return []

    def unload(self) -> Sequence[Any]:
        self.is_unloaded = True
        return []


class Bench:
    def __init__(self) -> None:
        self.now_ms = 0
        self.goes_on = True
        self.rotten: list[Rotten] = []
        self.shards: list[CountingShard] = []
        self.loads = Loads(Background(), lambda: self.now_ms)
        self.runtime: Runtime[CountingShard] = Runtime(
            "__transaction_state",
            make_shard=self._make_shard,
            kinds={TransactionLogKey: TransactionLogValue},
            now_ms=lambda: self.now_ms,
            monotonic_ms=lambda: self.now_ms,
            write_timeout_ms=lambda: 5_000,
            loads=self.loads,
            unreadable=self._unreadable,
        )

    def _make_shard(self, index: int, partition: object) -> CountingShard:
        self.shards.append(CountingShard())
        return self.shards[-1]

    def _unreadable(self, index: int, rotten: Rotten) -> bool:
        self.rotten.append(rotten)
        return self.goes_on

    def event(self, index: int, name: str) -> None:
        self.runtime.notify(index, lambda shard, now_ms: shard.events.append(name) or [])

    def append_marker(self, index: int, partition: GrowingPartition, producer_id: int) -> None:
        """As replication/markers.py does."""
        partition.batches.append(marker(producer_id))
        self.runtime.replay_marker(index, producer_id=producer_id, producer_epoch=0, committed=True)


def names(count: int, word: str = "t") -> list[bytes]:
    return [batch_of(f"{word}-{number}") for number in range(count)]


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until(is_so: Callable[[], object]) -> None:
    for _ in range(1_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never was")


def test_a_small_partition_is_loaded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountingShard, "pieces", 1)

    async def story() -> None:
        bench = Bench()
        bench.runtime.load(0, GrowingPartition(names(3)))
        assert len(bench.runtime.shard_of(0).names) == 3

    asyncio.run(story())


def test_others_go_between_the_slices_of_a_large_load_and_are_told_to_come_again() -> None:
    async def story() -> None:
        bench = Bench()
        partition = GrowingPartition(names(LARGE))
        bench.runtime.load(0, partition)
        seen = []
        while not bench.loads.is_idle:
            seen.append(partition.read)
            with pytest.raises(CoordinatorLoadInProgress):
                bench.runtime.shard_of(0)
            assert bench.runtime.is_loading
            await asyncio.sleep(0)
        assert len(bench.runtime.shard_of(0).names) == LARGE
        assert len(seen) >= 5
        assert max(b - a for a, b in pairwise(seen)) <= SLICE_STEPS
        assert bench.runtime.load_ms[0] == 1

    asyncio.run(story())


@pytest.mark.parametrize("after_turns", range(8))
def test_a_marker_that_is_appended_while_its_partition_is_loaded_is_replayed_once(after_turns: int) -> None:
    async def story() -> None:
        bench = Bench()
        partition = GrowingPartition(names(LARGE))
        bench.runtime.load(0, partition)
        await turns(after_turns)
        bench.append_marker(0, partition, producer_id=7)
        await bench.loads.wait()
        bench.append_marker(0, partition, producer_id=8)
        assert bench.runtime.shard_of(0).ended == [7, 8]

    asyncio.run(story())


def test_events_of_a_load_are_kept_and_timers_wait_for_its_end() -> None:
    async def story() -> None:
        bench = Bench()
        bench.runtime.load(0, GrowingPartition(names(LARGE)))
        bench.event(0, "a topic is deleted")
        await until(lambda: bench.shards[0].events)
        bench.now_ms += 10
        bench.runtime.expire_due(bench.now_ms)
        assert bench.shards[0].events == ["loaded"], "no timer fires in a shard that is not ready"
        await bench.loads.wait()
        assert bench.shards[0].events == ["loaded", "a topic is deleted"]
        bench.now_ms += 1_000
        bench.runtime.expire_due(bench.now_ms)
        assert len(bench.shards[0].events) == 2 + LARGE

    asyncio.run(story())


@pytest.mark.parametrize("after_turns", range(7))
def test_a_load_that_is_overtaken_ends_without_effect(after_turns: int) -> None:
    async def story() -> None:
        bench = Bench()
        old, new = GrowingPartition(names(LARGE, "old")), GrowingPartition(names(2, "new"))
        bench.runtime.load(0, old)
        await turns(after_turns)
        bench.runtime.unload(0)
        bench.runtime.load(0, new)
        await bench.loads.wait()
        assert bench.runtime.shard_of(0).names == ["new-0", "new-1"]
        assert bench.runtime.load_ms[0] == 1
        assert not bench.shards[0].is_unloaded
        bench.runtime.unload(0)
        with pytest.raises(NotCoordinator):
            bench.runtime.shard_of(0)

    asyncio.run(story())


def test_a_large_partition_does_not_keep_small_ones_waiting() -> None:
    async def story() -> None:
        bench = Bench()
        for index in range(AT_ONCE - 1):
            bench.runtime.load(index, GrowingPartition(names(40 * SLICE_STEPS)))
        for index in range(AT_ONCE, 3 * AT_ONCE):
            bench.runtime.load(index, GrowingPartition(names(1)))
        await until(lambda: len(list(bench.runtime.shards())) == 2 * AT_ONCE)
        assert bench.runtime.partition_states()["loading"] == AT_ONCE - 1
        bench.loads.stop()

    asyncio.run(story())


def test_a_broker_that_stops_reads_no_further() -> None:
    async def story() -> None:
        bench = Bench()
        partition = GrowingPartition(names(LARGE))
        bench.runtime.load(0, partition)
        waiting = asyncio.ensure_future(bench.loads.wait())
        await turns(1)
        bench.loads.stop()
        read = partition.read
        await turns(5)
        assert waiting.done()
        assert partition.read == read < LARGE
        bench.runtime.load(1, GrowingPartition([]))
        assert not list(bench.runtime.shards())

    asyncio.run(story())


def test_what_cannot_be_read_is_passed_over_where_the_rest_may_be_served(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        bench = Bench()
        bench.runtime.load(0, GrowingPartition([batch_of("a"), ROTTEN, batch_of("unheard of"), batch_of("b")]))
        await bench.loads.wait()
        assert bench.rotten == [ROTTEN]
        assert bench.runtime.shard_of(0).names == ["a", "b"]
        assert bench.runtime.partition_states() == {"active": 1}

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    assert "__transaction_state-0: the record at offset" in caplog.text


def test_where_the_rest_may_not_be_served_the_partition_alone_has_no_coordinator() -> None:
    async def story() -> None:
        bench = Bench()
        bench.goes_on = False
        sick = GrowingPartition([batch_of("a"), ROTTEN, batch_of("b")])
        bench.runtime.load(0, sick)
        bench.runtime.load(1, GrowingPartition([batch_of("c")]))
        await bench.loads.wait()
        with pytest.raises(CoordinatorNotAvailable, match=r"__transaction_state-0 cannot be read from offset 17"):
            bench.runtime.shard_of(0)
        assert bench.runtime.shard_of(1).names == ["c"]
        assert not bench.runtime.is_loading
        assert bench.runtime.partition_states() == {"failed": 1, "active": 1}
        bench.event(0, "nobody hears it")
        bench.append_marker(0, sick, producer_id=7)
        bench.runtime.unload(0)
        assert bench.shards[0].events == []
        assert bench.shards[0].ended == []

    asyncio.run(story())


def test_a_load_that_fails_stays_with_its_partition(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        bench = Bench()
        bench.runtime.load(0, GrowingPartition([batch_of("unheard of")]))
        bench.runtime.load(1, GrowingPartition([batch_of("a")]))
        await bench.loads.wait()
        with pytest.raises(CoordinatorNotAvailable):
            bench.runtime.call(0, lambda shard, token, now_ms: [Reply(token, EndTxnResponse(error_code=0))])
        assert bench.runtime.shard_of(1).names == ["a"]

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    assert [each.message for each in caplog.records if "__transaction_state-0 could not be loaded" in each.message]


class SlowSteps:
    """Loads whose every step takes a millisecond; `steps` says how many each has taken."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.steps: list[int] = []
        self.closed = 0
        self.loads = Loads(Background(), lambda: self.now_ms)

    def load(self, count: int) -> None:
        number = len(self.steps)
        self.steps.append(0)

        def steps() -> Iterator[None]:
            try:
                for _ in range(count):
                    self.now_ms += 1
                    self.steps[number] += 1
                    yield
            finally:
                self.closed += 1

        self.loads.start(steps())  # type: ignore[arg-type]


def test_a_slice_ends_when_its_time_is_over_however_few_steps_it_had() -> None:
    async def story() -> None:
        slow = SlowSteps()
        slow.load(SLICE_STEPS - 1)
        assert 0 < slow.steps[0] <= SLICE_MS + 1
        await until(lambda: slow.loads.is_idle)
        assert slow.steps == [SLICE_STEPS - 1]

    asyncio.run(story())


def test_only_a_few_partitions_are_loaded_at_once_and_the_others_are_in_line() -> None:
    async def story() -> None:
        slow = SlowSteps()
        for _ in range(3 * AT_ONCE):
            slow.load(100)
        await turns(2 * AT_ONCE)
        assert sum(1 for each in slow.steps if each) == AT_ONCE
        await until(lambda: slow.loads.count == 0)
        assert slow.steps == [100] * (3 * AT_ONCE)

    asyncio.run(story())


def test_a_stop_closes_what_is_being_loaded_and_lets_go_of_what_it_reads() -> None:
    async def story() -> None:
        slow = SlowSteps()
        for _ in range(2):
            slow.load(100)
        await turns(4)
        begun = sum(1 for each in slow.steps if each)
        slow.loads.stop()
        assert slow.closed == begun

    asyncio.run(story())
