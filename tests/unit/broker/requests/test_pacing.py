"""Large requests: short ones pay nothing, long ones take turns, and nobody works for a client that is gone."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import current_thread, main_thread
from typing import Any

import pytest

from ottla.broker.network.processor import CloseConnection
from ottla.broker.requests.pacing import SLICE_MS, Pacing
from ottla.broker.requests.running import Running


class Clock:
    """Every look costs a step of time."""

    def __init__(self, step_ms: float) -> None:
        self.step_ms = step_ms
        self.now_ms = 0.0

    def __call__(self) -> float:
        self.now_ms += self.step_ms
        return self.now_ms


class Client:
    def __init__(self) -> None:
        self.is_gone = False
        self.holds = 0

    def hold(self) -> None:
        self.holds += 1


SHORT, LONG = 0.01, SLICE_MS


async def work(pacing: Pacing, client: Client | None, steps: int, seen: list[Any], name: str, **how: bool) -> str:
    with pacing.turn(client, **how) as pace:
        for number in range(steps):
            seen.append((name, number))
            await pace.step()
    return name


def test_what_is_short_is_done_at_once_and_holds_nobody() -> None:
    async def run() -> None:
        pacing, client, seen = Pacing(Clock(SHORT), None), Client(), list[Any]()
        running = Running(work(pacing, client, 5, seen, "a"))
        assert running.is_done
        assert (len(seen), client.holds, pacing.is_idle) == (5, 0, True)

    asyncio.run(run())


def test_long_work_pauses_holds_its_client_once_and_others_go_in_between() -> None:
    async def run() -> None:
        pacing, client, seen = Pacing(Clock(LONG), None), Client(), list[Any]()
        running = Running(work(pacing, client, 3, seen, "a"))
        assert (seen, running.is_done, client.holds) == ([("a", 0)], False, 1)
        others = 0
        while not running.is_done:
            await asyncio.sleep(0)
            others += 1
        assert (len(seen), client.holds) == (3, 1)
        assert others >= 3
        assert pacing.is_idle

    asyncio.run(run())


def test_one_long_request_at_a_time_in_the_order_of_their_first_pause() -> None:
    async def run() -> None:
        pacing, seen = Pacing(Clock(LONG), None), list[Any]()
        first, second = (Running(work(pacing, None, 3, seen, name)) for name in "ab")
        await first.wait()
        await second.wait()
        assert seen == [("a", 0), ("b", 0), ("a", 1), ("a", 2), ("b", 1), ("b", 2)]

    asyncio.run(run())


def test_a_turn_that_is_released_is_free_for_others() -> None:
    async def run() -> None:
        pacing, seen = Pacing(Clock(LONG), None), list[Any]()
        may_go_on = asyncio.get_running_loop().create_future()

        async def wait_in_between() -> None:
            with pacing.turn() as pace:
                await pace.pause()
                pace.release()
                await may_go_on
                await pace.step()
                seen.append("last")

        waiting = Running(wait_in_between())
        await asyncio.sleep(0)
        await Running(work(pacing, None, 2, seen, "b")).wait()
        assert seen == [("b", 0), ("b", 1)]
        may_go_on.set_result(None)
        await waiting.wait()
        assert seen[-1] == "last"
        assert pacing.is_idle

    asyncio.run(run())


def test_a_failure_is_raised_where_the_work_was_asked_for_and_the_next_is_served() -> None:
    async def run() -> None:
        pacing, seen = Pacing(Clock(LONG), None), list[Any]()

        async def fail() -> None:
            with pacing.turn() as pace:
                await pace.pause()
                raise ValueError("broken")

        failing, after = Running(fail()), Running(work(pacing, None, 2, seen, "b"))
        with pytest.raises(ValueError, match="broken"):
            await failing.wait()
        assert await after.wait() == "b"

    asyncio.run(run())


@pytest.mark.parametrize("why", ["gone", "stopped"])
def test_work_for_a_client_that_is_gone_or_of_a_broker_that_stops_ends(why: str) -> None:
    async def run() -> None:
        pacing, client, seen = Pacing(Clock(LONG), None), Client(), list[Any]()
        dropped = Running(work(pacing, client, 9, seen, "a"))
        kept = Running(work(pacing, client, 9, seen, "b", always_finishes=True))
        for_nobody = Running(work(pacing, None, 9, seen, "c"))
        if why == "gone":
            client.is_gone = True
        else:
            pacing.stop()
        with pytest.raises(CloseConnection):
            await dropped.wait()
        assert (await kept.wait(), await for_nobody.wait()) == ("b", "c")
        assert len([each for each in seen if each[0] == "a"]) < 9
        assert pacing.is_idle

    asyncio.run(run())


def test_what_is_apart_runs_in_a_thread_where_there_are_some() -> None:
    async def run() -> None:
        assert await Pacing(Clock(SHORT), None).apart(current_thread) is main_thread()
        with ThreadPoolExecutor(1) as pool:
            assert await Pacing(Clock(SHORT), pool).apart(current_thread) is not main_thread()

    asyncio.run(run())


def test_a_generator_pauses_where_it_yields() -> None:
    async def run() -> None:
        pacing, seen = Pacing(Clock(LONG), None), list[int]()

        def pieces() -> Any:
            for number in range(3):
                seen.append(number)
                yield
            return "whole"

        async def check() -> str:
            with pacing.turn() as pace:
                return await pace.run(pieces())

        running = Running(check())
        assert seen == [0]
        assert await running.wait() == "whole"

    asyncio.run(run())
