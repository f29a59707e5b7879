"""Coroutines that run from their first step on."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ottla.broker.requests.running import Background, Running, awaited, next_turn


def test_what_needs_no_waiting_is_done_at_once() -> None:
    async def answer() -> int:
        return 7

    async def run() -> None:
        running = Running(answer())
        assert (running.is_done, running.result()) == (True, 7)
        assert await running.wait() == 7

    asyncio.run(run())


def test_the_first_step_runs_before_the_caller_goes_on_and_the_end_is_notified_once() -> None:
    async def run() -> None:
        steps: list[str] = []
        future = asyncio.get_running_loop().create_future()

        async def handle() -> str:
            steps.append("begun")
            steps.append(await future)
            await next_turn()
            return "answer"

        running = Running(handle())
        assert (steps, running.is_done) == (["begun"], False)
        running.on_done = lambda: steps.append(running.result())
        future.set_result("woken")
        for _ in range(3):
            await asyncio.sleep(0)
        assert steps == ["begun", "woken", "answer"]

    asyncio.run(run())


def test_what_is_raised_is_raised_by_the_result() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def run() -> None:
        with pytest.raises(ValueError, match="broken"):
            Running(fail()).result()

    asyncio.run(run())


def test_a_cancelled_one_hears_of_it_where_it_waits() -> None:
    async def run() -> None:
        seen: list[str] = []

        async def wait() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                seen.append("left")

        running = Running(wait())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running.wait()
        assert seen == ["left"]

    asyncio.run(run())


def test_locks_and_events_of_asyncio_work_in_it() -> None:
    async def run() -> None:
        lock, event, order = asyncio.Lock(), asyncio.Event(), list[int]()

        async def enter(number: int) -> None:
            async with lock:
                await event.wait()
                order.append(number)

        running = [Running(enter(number)) for number in range(3)]
        event.set()
        for each in running:
            await each.wait()
        assert order == [0, 1, 2]

    asyncio.run(run())


def test_background_work_is_kept_until_it_ends_and_its_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        background = Background()

        async def fail() -> None:
            await next_turn()
            raise ValueError("nobody waits for this")

        background.start(fail())
        assert not background.is_idle
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert background.is_idle

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "nobody waits for this" in caplog.text


def test_a_plain_value_is_its_own_answer() -> None:
    async def five() -> int:
        return 5

    async def run() -> None:
        assert (await awaited(4), await awaited(five())) == (4, 5)

    asyncio.run(run())
