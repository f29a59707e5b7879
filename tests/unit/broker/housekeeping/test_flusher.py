"""Group commit: everybody who waits for a round hears how it ended, and the next round comes whatever happened."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.broker.housekeeping.flusher import RETRY_MS, Flusher
from ottla.errors import KafkaStorageError, TooManyOpenFiles
from ottla.testing.clock import ManualClock
from ottla.values import TopicPartition


class FakeJob:
    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run


class FakePartition:
    """A partition whose log has one record more than it has synced."""

    def __init__(self, number: int, run: Callable[[], None] = lambda: None, files: str = "disk") -> None:
        self.name = TopicPartition("t", number)
        self.offline: KafkaStorageError | None = None
        self.needs_flush = True
        self.log = self
        self.files = files
        self._run = run

    def flush_job(self) -> FakeJob:
        return FakeJob(self._run)

    def flushed(self, job: FakeJob, now_ms: int) -> None:
        self.needs_flush = False


class Round:
    """A flusher, and what it reported."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self.flushed: list[int] = []
        self.failed: dict[int, KafkaStorageError] = {}
        self.clock = ManualClock()
        self.flusher = Flusher(pool, clock=self.clock, flushed=self._flushed, failed=self._failed)
        self.heard = asyncio.Event()

    def _flushed(self, partition: Any) -> None:
        self.flushed.append(partition.name.partition)
        self.heard.set()

    def _failed(self, partition: Any, error: KafkaStorageError) -> None:
        self.failed[partition.name.partition] = error
        partition.offline = error
        self.heard.set()

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not is_so():
                self.heard.clear()
                if not is_so():
                    await self.heard.wait()


def raiser(error: Exception) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


@pytest.fixture(params=["pool", "loop"])
def pool(request: pytest.FixtureRequest) -> Any:
    if request.param == "loop":
        yield None
        return
    with ThreadPoolExecutor(1) as made:
        yield made


def test_what_is_marked_while_a_round_runs_shares_the_next_one() -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as pool:
            round_, may_end, is_running = Round(pool), threading.Event(), threading.Event()
            rounds: list[list[int]] = []
            begin = round_.flusher._begin

            def counted(lane: Any) -> None:
                rounds.append([name.partition for name in lane.marked])
                begin(lane)

            def wait() -> None:
                is_running.set()
                may_end.wait(30)

            round_.flusher._begin = counted  # type: ignore[method-assign]
            round_.flusher.mark(FakePartition(0, wait))  # type: ignore[arg-type]
            await asyncio.get_running_loop().run_in_executor(None, is_running.wait)
            for number in range(1, 100):
                round_.flusher.mark(FakePartition(number))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            assert round_.flushed == []
            may_end.set()
            await round_.wait_until(lambda: len(round_.flushed) == 100)
            assert rounds == [[0], list(range(1, 100))]

    asyncio.run(test())


@pytest.mark.parametrize("error", [KafkaStorageError("a bad disk"), ZeroDivisionError("a bug"), OSError("who knows")])
def test_a_job_that_raises_anything_is_reported_and_the_next_round_runs(pool: Any, error: Exception) -> None:
    async def test() -> None:
        round_ = Round(pool)
        for partition in (FakePartition(0), FakePartition(1, raiser(error)), FakePartition(2)):
            round_.flusher.mark(partition)  # type: ignore[arg-type]
        await round_.wait_until(lambda: len(round_.flushed) == 2 and len(round_.failed) == 1)
        assert str(error) in str(round_.failed[1])
        round_.flusher.mark(FakePartition(3))  # type: ignore[arg-type]
        await round_.wait_until(lambda: 3 in round_.flushed)
        assert round_.flusher.is_idle

    asyncio.run(test())


def test_a_log_that_cannot_be_asked_for_its_job_is_reported_and_the_others_are_synced(pool: Any) -> None:
    async def test() -> None:
        round_ = Round(pool)
        closed = FakePartition(0)
        closed.flush_job = raiser(ValueError("t-0 is closed"))  # type: ignore[assignment, method-assign]
        for partition in (closed, FakePartition(1)):
            round_.flusher.mark(partition)  # type: ignore[arg-type]
        await round_.wait_until(lambda: round_.flushed == [1] and 0 in round_.failed)
        assert round_.flusher.is_idle

    asyncio.run(test())


def test_a_pool_that_takes_no_work_any_more_is_reported_to_everybody() -> None:
    async def test() -> None:
        pool = ThreadPoolExecutor(1)
        pool.shutdown()
        round_ = Round(pool)
        for number in range(2):
            round_.flusher.mark(FakePartition(number))  # type: ignore[arg-type]
        await round_.wait_until(lambda: len(round_.failed) == 2)
        assert round_.flusher.is_idle

    asyncio.run(test())


def test_a_listener_that_raises_keeps_nobody_else_from_hearing(pool: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        round_ = Round(pool)
        report = round_._flushed

        def report_or_raise(partition: Any) -> None:
            report(partition)
            if partition.name.partition == 0:
                raise ZeroDivisionError("a bug in a waiter")

        round_.flusher._flushed = report_or_raise
        for number in range(2):
            round_.flusher.mark(FakePartition(number))  # type: ignore[arg-type]
        await round_.wait_until(lambda: round_.flushed == [0, 1])
        round_.flusher.mark(FakePartition(2))  # type: ignore[arg-type]
        await round_.wait_until(lambda: 2 in round_.flushed)

    asyncio.run(test())
    assert "a bug in a waiter" in caplog.text


def test_a_sync_that_found_no_number_for_its_file_is_tried_again_after_a_while(pool: Any) -> None:
    async def test() -> None:
        round_ = Round(pool)
        tries: list[int] = []

        def run() -> None:
            tries.append(1)
            if len(tries) == 1:
                raise TooManyOpenFiles("cannot open x")

        round_.flusher.mark(FakePartition(0, run))  # type: ignore[arg-type]
        round_.flusher.mark(FakePartition(1))  # type: ignore[arg-type]
        await round_.wait_until(lambda: round_.flushed == [1])
        assert not round_.failed
        assert not round_.flusher.is_idle
        await round_.clock.advance(RETRY_MS)
        await round_.wait_until(lambda: 0 in round_.flushed)
        assert round_.flusher.is_idle

    asyncio.run(test())
