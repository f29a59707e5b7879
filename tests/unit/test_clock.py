"""The machine's clock keeps its promises, and its twin moves only when told."""

import asyncio

import pytest

from ottla.clock import Clock, SystemClock
from ottla.testing.clock import ManualClock


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
def test_both_clocks_can_do_what_a_clock_can_do(clock):
    assert isinstance(clock, Clock)
    assert isinstance(clock.now_ms(), int)
    assert isinstance(clock.monotonic_ms(), float)


def test_the_system_clock_counts_from_1970_and_its_monotonic_time_does_not_go_back():
    clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000
    readings = [clock.monotonic_ms() for _ in range(100)]
    assert readings == sorted(readings)


def test_the_system_clock_sleeps_in_milliseconds_and_takes_negative_time_for_none(monkeypatch):
    slept_s = []

    async def sleep(duration_s: float) -> None:
        slept_s.append(duration_s)

    monkeypatch.setattr("asyncio.sleep", sleep)
    for duration_ms in (-5, 0, 2.5):
        asyncio.run(SystemClock().sleep(duration_ms))
    assert slept_s == [0, 0, 0.0025]


def test_a_manual_clock_stands_still_until_moved():
    clock = ManualClock(now_ms=1000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1000, 0.0)
    clock.move(2.5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1002, 2.5)


def test_sleepers_wake_in_order_of_deadline_and_then_of_falling_asleep():
    async def story() -> list[tuple[str, float]]:
        clock, woken = ManualClock(), []

        async def sleeper(name: str, duration_ms: float) -> None:
            await clock.sleep(duration_ms)
            woken.append((name, clock.monotonic_ms()))

        async with asyncio.TaskGroup() as tasks:
            for name, duration_ms in [("late", 30), ("b", 10), ("c", 10), ("early", 5)]:
                tasks.create_task(sleeper(name, duration_ms))
            await clock.advance(10)
            assert clock.sleeper_count == 1
            await clock.advance(20)
        return woken

    assert asyncio.run(story()) == [("early", 5), ("b", 10), ("c", 10), ("late", 30)]


def test_a_task_that_sleeps_again_and_again_sees_every_tick_of_one_advance():
    async def story() -> list[float]:
        clock, ticks = ManualClock(), []

        async def ticker() -> None:
            while True:
                await clock.sleep(10)
                ticks.append(clock.monotonic_ms())

        task = asyncio.create_task(ticker())
        await clock.advance(100)
        task.cancel()
        return ticks

    assert asyncio.run(story()) == [10.0 * n for n in range(1, 11)]


def test_a_cancelled_sleeper_is_forgotten():
    async def story() -> None:
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep(10))
        await clock.advance(0)
        assert (clock.sleeper_count, clock.next_wake_ms) == (1, 10.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (clock.sleeper_count, clock.next_wake_ms) == (0, None)
        await clock.advance(20)
        assert clock.monotonic_ms() == 20

    asyncio.run(story())


def test_zero_sleep_gives_others_a_turn_without_moving_time():
    async def story() -> list[str]:
        clock, order = ManualClock(), []

        async def other() -> None:
            order.append("other")

        task = asyncio.create_task(other())
        await clock.sleep(0)
        order.append("me")
        await task
        assert clock.monotonic_ms() == 0
        return order

    assert asyncio.run(story()) == ["other", "me"]


def test_wall_time_may_jump_while_monotonic_time_and_sleepers_do_not_notice():
    async def story() -> None:
        clock = ManualClock(now_ms=1000)
        task = asyncio.create_task(clock.sleep(10))
        await clock.advance(1)
        clock.jump_wall(-500)
        assert (clock.now_ms(), clock.monotonic_ms()) == (501, 1.0)
        assert not task.done()
        await clock.advance(9)
        assert task.done()

    asyncio.run(story())


def test_time_does_not_go_back_and_nobody_is_passed_asleep():
    async def story() -> None:
        clock = ManualClock()
        with pytest.raises(ValueError, match="jump_wall"):
            await clock.advance(-1)
        with pytest.raises(ValueError, match="go back"):
            clock.move(-1)
        task = asyncio.create_task(clock.sleep(10))
        await clock.advance(0)
        with pytest.raises(ValueError, match="sleeps"):
            clock.move(10)
        task.cancel()

    asyncio.run(story())


def test_tasks_that_sleep_for_almost_no_time_are_noticed(monkeypatch):
    monkeypatch.setattr("ottla.testing.clock.WAKES_PER_ADVANCE", 50)

    async def story() -> None:
        clock = ManualClock()

        async def restless() -> None:
            while True:
                await clock.sleep(0.001)

        task = asyncio.create_task(restless())
        with pytest.raises(RuntimeError, match="almost no time"):
            await clock.advance(1)
        task.cancel()

    asyncio.run(story())


def test_timers_and_time_outs_run_on_the_clock_of_a_test() -> None:
    async def run() -> list[object]:
        clock, seen = ManualClock(), list[object]()
        clock.call_later(30, lambda: seen.append(("late", clock.monotonic_ms())))
        clock.call_later(10, lambda: seen.append(("early", clock.monotonic_ms())))
        clock.call_later(20, lambda: seen.append("never")).cancel()

        async def limited() -> None:
            try:
                async with clock.timeout(25):
                    await clock.sleep(1_000)
            except TimeoutError:
                seen.append(("over", clock.monotonic_ms()))

        task = asyncio.create_task(limited())
        await clock.advance(100)
        await task
        return seen

    assert asyncio.run(run()) == [("early", 10.0), ("over", 25.0), ("late", 30.0)]
