"""Deadlines and operations that wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.requests.answers import Later
from ottla.broker.waiting.purgatory import Purgatory
from ottla.broker.waiting.timer_wheel import TimerWheel


class Waiter:
    def __init__(self) -> None:
        self.ready = False
        self.story: list[str] = []

    def try_complete(self) -> bool:
        if self.ready:
            self.story.append("completed")
        return self.ready

    def expire(self) -> None:
        self.story.append("expired")


def test_an_answer_reaches_its_taker_whoever_comes_first() -> None:
    early: Later[int] = Later()
    late: Later[int] = Later()
    taken: list[int] = []
    early.when_given(taken.append)
    early.give(1)
    late.give(2)
    late.when_given(taken.append)
    assert taken == [1, 2]


def test_an_answer_given_twice_is_a_fault() -> None:
    later: Later[int] = Later()
    later.give(1)
    with pytest.raises(RuntimeError, match="given twice"):
        later.give(1)


def test_a_timer_fires_at_its_tick_and_not_before() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=10)
    wheel.set("a", 95)
    assert wheel.take_due(99) == []
    assert wheel.next_due_ms() == 100
    assert wheel.take_due(100) == ["a"]
    assert wheel.next_due_ms() is None


def test_a_timer_set_again_replaces_the_first() -> None:
    wheel: TimerWheel[str] = TimerWheel(tick_ms=10)
    wheel.set("a", 10)
    wheel.set("a", 50)
    assert (wheel.take_due(40), wheel.take_due(50), len(wheel)) == ([], ["a"], 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 500), st.booleans()), max_size=60))
def test_the_wheel_agrees_with_a_plain_dict(steps: list[tuple[int, int, bool]]) -> None:
    wheel: TimerWheel[int] = TimerWheel(tick_ms=7)
    model: dict[int, int] = {}
    now = 0
    for key, at_ms, is_set in steps:
        if is_set:
            wheel.set(key, at_ms)
            model[key] = -(-at_ms // 7) * 7
        else:
            assert wheel.cancel(key) == (model.pop(key, None) is not None)
        now = max(now, at_ms // 2)
        due = wheel.take_due(now)
        assert sorted(due) == sorted(key for key, due_ms in model.items() if due_ms <= now)
        for fired in due:
            del model[fired]
        assert len(wheel) == len(model)
        assert wheel.next_due_ms() == min(model.values(), default=None)


def test_an_operation_completes_when_its_key_is_checked_and_only_once() -> None:
    purgatory, waiter = Purgatory(), Waiter()
    assert not purgatory.wait(waiter, ["a", "b"], deadline_ms=1000)
    assert purgatory.check("a") == 0
    waiter.ready = True
    assert purgatory.check("b") == 1
    assert purgatory.check("a") == 0
    assert purgatory.expire_due(2000) == 0
    assert waiter.story == ["completed"]
    assert len(purgatory) == 0


def test_an_operation_that_is_ready_does_not_wait() -> None:
    purgatory, waiter = Purgatory(), Waiter()
    waiter.ready = True
    assert purgatory.wait(waiter, ["a"], deadline_ms=1000)
    assert len(purgatory) == 0


def test_at_its_deadline_an_operation_is_answered_as_it_is() -> None:
    purgatory, waiter = Purgatory(), Waiter()
    purgatory.wait(waiter, ["a"], deadline_ms=1000)
    assert purgatory.expire_due(999) == 0
    purgatory.expire_due(1000)
    waiter.ready = True
    assert purgatory.check("a") == 0
    assert waiter.story == ["expired"]


def test_a_condition_that_comes_true_while_joining_the_line_is_noticed() -> None:
    class SecondTry(Waiter):
        def try_complete(self) -> bool:
            self.story.append("asked")
            return len(self.story) == 2

    purgatory = Purgatory()
    assert purgatory.wait(SecondTry(), ["a"], deadline_ms=1000)
    assert len(purgatory) == 0


def test_an_operation_under_many_keys_is_told_which_of_them_changed() -> None:
    purgatory, waiter, told = Purgatory(), Waiter(), list[object]()

    def changed(key: object) -> bool:
        told.append(key)
        return key == "b"

    purgatory.wait(waiter, ["a", "b"], 1000, changed)
    waiter.ready = True
    assert [purgatory.check(key) for key in "abb"] == [0, 1, 0]
    assert told == ["a", "b"]
    assert len(purgatory) == 0


def test_at_shut_down_everybody_is_answered() -> None:
    purgatory, waiters = Purgatory(), [Waiter(), Waiter()]
    for waiter in waiters:
        purgatory.wait(waiter, ["a"], deadline_ms=1000)
    purgatory.expire_all()
    assert [waiter.story for waiter in waiters] == [["expired"], ["expired"]]
