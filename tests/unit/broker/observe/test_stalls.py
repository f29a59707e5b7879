"""What held the loop is known, with its cause."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ottla.broker.network.processor import Connection
from ottla.broker.observe import stalls as stalls_module
from ottla.broker.observe.stalls import CAUSES_LIMIT, OTHER, QUIET_MS, TICK_MS, Stalls
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.running import Running, awaited, next_turn
from ottla.broker.requests.served import SERVED_APIS
from ottla.broker.requests.timing import FirstWait, noted
from ottla.protocol.header import encode_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.tasks import Job, Schedule, TaskRunner
from ottla.testing.clock import ManualClock


class HeldClock(ManualClock):
    """`held_ms` is time in which nobody was called."""

    held_ms = 0.0

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() + self.held_ms


def test_a_long_step_is_a_warning_with_its_cause_and_a_short_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    stalls = Stalls(clock)
    stalls.note("Fetch", 60.0)
    assert not caplog.records
    stalls.note("Metadata", 312.0, " of client 'reports'")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Metadata of client 'reports' held the loop for 312 ms" in caplog.text
    assert stalls.longest_ms == {"Fetch": 60.0, "Metadata": 312.0}
    assert stalls.counts == {"Metadata": 1}


def test_one_cause_does_not_fill_the_log_and_causes_have_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    stalls = Stalls(clock)
    for _ in range(3):
        stalls.note("Fetch", 300.0)
    assert (len(caplog.records), stalls.counts["Fetch"]) == (1, 3)
    clock.move(QUIET_MS)
    stalls.note("Fetch", 250.0)
    assert (len(caplog.records), stalls.longest_ms["Fetch"]) == (2, 300.0)
    for number in range(2 * CAUSES_LIMIT):
        stalls.note(f"cause {number}", 60.0)
    assert len(stalls.longest_ms) == CAUSES_LIMIT + 1
    assert OTHER in stalls.longest_ms


def test_what_nobody_measures_is_found_by_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        clock = HeldClock()
        stalls = Stalls(clock)
        monkeypatch.setattr(stalls_module, "thread_cpu_ms", lambda: 0.0)
        stalls.watch()
        await clock.advance(10 * TICK_MS)
        assert not stalls.longest_ms
        clock.held_ms += 500
        await clock.advance(TICK_MS)
        assert stalls.longest_ms[OTHER] >= 400
        clock.held_ms += 500
        stalls.note("Produce", 480.0)
        await clock.advance(TICK_MS)
        assert stalls.counts == {OTHER: 1, "Produce": 1}, "it has a cause, and is not counted twice"
        stalls.stop()

    asyncio.run(story())


def test_every_step_of_a_request_is_measured() -> None:
    clock = HeldClock()
    slow: list[float] = []

    async def handler() -> str:
        clock.held_ms += 70
        await next_turn()
        clock.held_ms += 10
        await next_turn()
        clock.held_ms += 90
        return "done"

    async def story() -> str:
        wait = FirstWait(clock.monotonic_ms, slow.append)

        async def run() -> str:
            return await noted(handler(), wait)

        result = await Running(run()).wait()
        assert wait.since_ms == 70
        return result

    assert asyncio.run(story()) == "done"
    assert slow == [70, 90]


def test_jobs_are_measured_step_by_step() -> None:
    async def story() -> list[tuple[str, float]]:
        clock = HeldClock()
        took: list[tuple[str, float]] = []

        def note(job: Job, took_ms: float) -> None:
            took.append((job.name, took_ms))

        runner = TaskRunner(Schedule(lambda: 0.0), clock, took=note)

        def at_once() -> None:
            clock.held_ms += 30

        async def in_steps() -> None:
            clock.held_ms += 40
            await asyncio.sleep(0)
            clock.held_ms += 50

        runner.once("at once", at_once)
        runner.once("in steps", in_steps)
        running = asyncio.ensure_future(runner.run())
        for _ in range(10):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return [each for each in took if each[1]]

    assert asyncio.run(story()) == [("at once", 30), ("in steps", 40), ("in steps", 50)]


def test_a_cancelled_job_is_told_where_it_waits() -> None:
    async def story() -> list[str]:
        clock = ManualClock()
        seen: list[str] = []
        runner = TaskRunner(Schedule(lambda: 0.0), clock, took=lambda job, took_ms: None)

        async def waits() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                seen.append("ended")

        runner.once("waits", waits)
        running = asyncio.ensure_future(runner.run())
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return seen

    assert asyncio.run(story()) == ["ended"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_request_that_holds_the_loop_is_named_with_its_client(
    make_broker: Any, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    memory = make_broker()
    dispatch = Dispatch(memory.broker, SERVED_APIS, Gate(memory.broker))
    dispatch._monotonic_ms = clock = HeldClock().monotonic_ms
    parts = encode_request(ApiVersionsRequest(), version=2, correlation_id=1, client_id="reports")
    frame = memoryview(bytearray(b"".join(map(bytes, parts))))
    lane = dispatch._new_lane(18, 2)
    assert lane is not None
    answer = lane.handler

    def slow(*asked: Any) -> Any:
        clock.__self__.held_ms += 230  # type: ignore[attr-defined]
        return answer(*asked)

    async def slow_later(*asked: Any) -> Any:
        await next_turn()
        return slow(*asked)

    lane.handler = slow_later if is_async else slow
    connection = Connection(1, "PLAINTEXT", dispatch, lambda _: None)

    async def answered() -> object:
        return await awaited(dispatch.dispatch(frame, connection))

    memory.loop.run_until_complete(answered())
    assert memory.broker.stalls.longest_ms == {"ApiVersions": 230}
    assert "ApiVersions of client 'reports'" in caplog.text


def test_background_work_is_named_by_its_function(make_broker: Any) -> None:
    memory = make_broker()
    memory.broker.clock = clock = HeldClock()

    async def load_everything() -> None:
        clock.held_ms += 60

    memory.do(lambda: memory.broker.background.start(load_everything()))
    (cause,) = memory.broker.stalls.longest_ms
    assert cause.endswith("load_everything")


def test_a_warning_says_how_much_of_it_was_processor_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any it was the disk or the machine, and whoever looks for a slow request looks in vain."""
    cpu_ms = iter([1_000.0, 1_040.0, 9_000.0])
    monkeypatch.setattr(stalls_module, "thread_cpu_ms", lambda: next(cpu_ms))

    async def story() -> None:
        stalls = Stalls(ManualClock())
        stalls.watch()
        stalls.note("Fetch", 312.0)
        stalls.note("Produce", 250.0)
        stalls.stop()

    asyncio.run(story())
    assert "Fetch held the loop for 312 ms (40 ms of CPU)" in caplog.text
    assert "Produce held the loop for 250 ms (250 ms of CPU)" in caplog.text
