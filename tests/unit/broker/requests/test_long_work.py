"""Long work: others have their turn, one at a time, nothing for who has left, faults are handed on."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ottla.broker.requests.long_work import STINT_MS, LongLater, LongWork, Steps
from ottla.errors import InvalidRequest


class Ticking:
    """A clock on which every look takes a millisecond."""

    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        self.ms += 1
        return self.ms


class Gone:
    is_gone = False


def run(test: Callable[[LongWork], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        work = LongWork(Ticking(), None)
        await test(work)
        work.stop()

    asyncio.run(begin())


def counting(count: int, seen: list[Any], name: str = "") -> Steps[str]:
    for number in range(count):
        seen.append((name, number))
        yield
    return f"{count} done"


async def until(later: LongLater[Any]) -> Any:
    for _ in range(10_000):
        if later.is_given:
            given: list[Any] = []
            later.when_given(given.append)
            return given[0]
        await asyncio.sleep(0)
    raise AssertionError("it is never given")


def test_what_is_short_is_given_at_once() -> None:
    async def test(work: LongWork) -> None:
        assert work.do(counting(2, [])) == "2 done"
        assert work.is_idle

    run(test)


def test_what_is_long_leaves_others_their_turn() -> None:
    async def test(work: LongWork) -> None:
        seen: list[Any] = []
        later = work.do(counting(100, seen))
        assert isinstance(later, LongLater)
        assert len(seen) <= STINT_MS + 1
        steps = 0
        while not later.is_given:
            before = len(seen)
            await asyncio.sleep(0)
            assert len(seen) - before <= STINT_MS + 1
            steps += 1
        assert steps > 100 / (STINT_MS + 1)
        assert await until(later) == "100 done"

    run(test)


def test_one_at_a_time_in_order_and_what_a_job_begins_comes_right_behind_it() -> None:
    async def test(work: LongWork) -> None:
        seen: list[Any] = []

        def outer() -> Steps[LongLater[str]]:
            yield
            return work.do_later(counting(9, seen, "inner"))

        first = work.do_later(outer())
        second = work.do_later(counting(9, seen, "second"))
        assert await until(second) == "9 done"
        assert await until(await until(first)) == "9 done"
        assert seen == [("inner", n) for n in range(9)] + [("second", n) for n in range(9)]

    run(test)


def test_a_fault_is_given_and_the_next_is_served() -> None:
    async def test(work: LongWork) -> None:
        def failing() -> Steps[None]:
            yield
            raise InvalidRequest("no")

        failed, other = work.do_later(failing()), work.do_later(counting(1, []))
        assert isinstance(await until(failed), InvalidRequest)
        assert await until(other) == "1 done"

    run(test)


def test_a_fault_in_the_first_stint_is_raised() -> None:
    def failing() -> Steps[None]:
        yield
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        LongWork(Ticking(), None).do(failing())


def test_work_for_who_has_left_is_dropped() -> None:
    async def test(work: LongWork) -> None:
        seen: list[Any] = []
        client = Gone()
        dropped = work.do_later(counting(1000, seen), client)
        other = work.do_later(counting(1, []))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        client.is_gone = True
        assert await until(other) == "1 done"
        assert not dropped.is_given
        assert len(seen) < 1000

    run(test)


def test_a_stop_drops_what_is_for_clients_and_nothing_else() -> None:
    async def test(work: LongWork) -> None:
        for_client, for_nobody = work.do_later(counting(9, []), Gone()), work.do_later(counting(9, []))
        work.stop()
        assert await until(for_nobody) == "9 done"
        assert not for_client.is_given

    run(test)


def test_what_runs_apart_runs_in_a_thread_and_gives_its_result() -> None:
    async def test() -> None:
        with ThreadPoolExecutor(1) as pool:
            work = LongWork(Ticking(), pool)

            def steps() -> Steps[int]:
                return (yield work.apart(sum, [1, 2, 3]))

            given: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            work.do_later(steps()).when_given(given.set_result)
            assert await given == 6

    asyncio.run(test())
