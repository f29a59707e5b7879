"""Deadlines, and conditions that are waited for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.waiting.deadlines import Deadlines
from ottla.broker.waiting.purgatory import Purgatory
from ottla.broker.waiting.timer_wheel import TimerWheel
from ottla.testing.clock import ManualClock


def test_a_timer_fires_at_its_tick_and_not_before() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=10)
    wheel.set("a", 95)
    assert wheel.pop_due(99) == []
    assert wheel.next_due_ms() == 100
    assert wheel.pop_due(100) == ["a"]
    assert wheel.next_due_ms() is None


def test_a_timer_set_again_replaces_the_first() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=10)
    wheel.set("a", 10)
    wheel.set("a", 50)
    assert (wheel.pop_due(40), wheel.pop_due(50), len(wheel)) == ([], ["a"], 0)


def test_a_timer_that_is_moved_on_for_ever_leaves_nothing_behind() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=10)
    for number in range(10_000):
        wheel.set("moved", 604_800_000 + number * 10)
    assert len(wheel._heap) == len(wheel._buckets) < 100
    assert wheel.next_due_ms() == 604_800_000 + 99_990


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 500), st.booleans()), max_size=60), st.sampled_from([0, 64])
)
def test_the_wheel_agrees_with_a_plain_dict(steps: list[tuple[int, int, bool]], empty_limit: int) -> None:
    wheel: TimerWheel[int] = TimerWheel(tick_ms=7, empty_limit=empty_limit)
    model: dict[int, int] = {}
    now = 0
    for key, at_ms, is_set in steps:
        if is_set:
            wheel.set(key, at_ms)
            model[key] = -(-at_ms // 7) * 7
        else:
            assert wheel.cancel(key) == (model.pop(key, None) is not None)
        now = max(now, at_ms // 2)
        due = wheel.pop_due(now)
        assert sorted(due) == sorted(key for key, due_ms in model.items() if due_ms <= now)
        for fired in due:
            del model[fired]
        assert len(wheel) == len(model)
        assert wheel.next_due_ms() == min(model.values(), default=None)


class Condition:
    def __init__(self, *, is_met: bool = False) -> None:
        self.is_met = is_met

    def __call__(self) -> bool:
        return self.is_met


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(test())


@on_a_loop
async def test_a_waiter_is_resolved_when_its_key_is_checked_and_only_once() -> None:
    purgatory, condition = Purgatory(), Condition()
    future = purgatory.wait(condition, ["a", "b"], deadline_ms=1000)
    assert purgatory.check("a") == 0
    condition.is_met = True
    assert purgatory.check("b") == 1
    assert purgatory.check("a") == 0
    assert purgatory.expire_due(2000) == 0
    assert await future is True
    assert len(purgatory) == 0


@on_a_loop
async def test_a_condition_that_is_met_is_not_waited_for() -> None:
    purgatory = Purgatory()
    assert purgatory.wait(Condition(is_met=True), ["a"], deadline_ms=1000).done()
    assert len(purgatory) == 0


@on_a_loop
async def test_at_its_deadline_a_waiter_hears_that_the_time_is_over() -> None:
    purgatory, condition = Purgatory(), Condition()
    future = purgatory.wait(condition, ["a"], deadline_ms=1000)
    assert purgatory.expire_due(999) == 0
    purgatory.expire_due(1000)
    condition.is_met = True
    assert purgatory.check("a") == 0
    assert await future is False


@on_a_loop
async def test_a_waiter_under_many_keys_hears_which_of_them_changed() -> None:
    purgatory, condition, seen = Purgatory(), Condition(), list[object]()

    def changed(key: object) -> bool:
        seen.append(key)
        return key == "b"

    future = purgatory.wait(condition, ["a", "b"], 1000, changed)
    condition.is_met = True
    assert [purgatory.check(key) for key in "abb"] == [0, 1, 0]
    assert (seen, await future, len(purgatory)) == (["a", "b"], True, 0)


@on_a_loop
async def test_what_a_condition_raises_reaches_its_own_waiter_only() -> None:
    purgatory, other = Purgatory(), Condition()
    asked: list[int] = []

    def fails() -> bool:
        asked.append(1)
        if len(asked) > 1:
            raise ValueError("the log is gone")
        return False

    broken = purgatory.wait(fails, ["a"], 1000)
    fine = purgatory.wait(other, ["a"], 1000)
    other.is_met = True
    assert purgatory.check("a") == 2
    with pytest.raises(ValueError, match="the log is gone"):
        await broken
    assert await fine is True


@on_a_loop
async def test_a_waiter_that_was_cancelled_is_forgotten() -> None:
    purgatory, condition = Purgatory(), Condition()
    purgatory.wait(condition, ["a"], 1000).cancel()
    condition.is_met = True
    purgatory.check("a")
    assert len(purgatory) == 0


@on_a_loop
async def test_at_shut_down_everybody_hears_that_the_time_is_over() -> None:
    purgatory = Purgatory()
    waiting = [purgatory.wait(Condition(), ["a"], deadline_ms=1000) for _ in range(2)]
    purgatory.close()
    late = purgatory.wait(Condition(), ["a"], deadline_ms=1000)
    assert [each.result() for each in (*waiting, late)] == [False] * 3


@on_a_loop
async def test_nothing_is_kept_of_whoever_was_resolved() -> None:
    purgatory, condition = Purgatory(), Condition()
    met = purgatory.wait(condition, ["a", "b"], 1000)
    late = purgatory.wait(Condition(), ["b", "c"], 2000)
    condition.is_met = True
    purgatory.check("a")
    purgatory.expire_due(2000)
    assert (await met, await late) == (True, False)
    assert (purgatory.watched, purgatory.next_due_ms()) == ({}, None)


@on_a_loop
async def test_whoever_comes_with_the_first_deadline_wakes_the_alarm() -> None:
    wakes: list[int | None] = []
    purgatory = Purgatory(lambda: wakes.append(purgatory.next_due_ms()))
    for deadline_ms in (1000, 2000, 500):
        purgatory.wait(Condition(), ["a"], deadline_ms)
    assert wakes == [1000, 500]


@asynccontextmanager
async def deadlines(*purgatories: Purgatory) -> AsyncIterator[tuple[ManualClock, Deadlines]]:
    clock = ManualClock()
    made = Deadlines(clock, lambda: purgatories)
    yield clock, made
    made.cancel()


@on_a_loop
async def test_one_alarm_rings_for_whoever_is_first() -> None:
    first, second = Purgatory(), Purgatory()
    async with deadlines(first, second) as (clock, alarm):
        late = first.wait(Condition(), ["a"], 500)
        alarm.arm()
        early = second.wait(Condition(), ["a"], 100)
        alarm.arm()
        await clock.advance(110)
        assert (early.done(), late.done()) == (True, False)
        await clock.advance(400)
        assert late.done()
