"""Calls of the next turn: in their order, by one callback of the loop, a few in each turn where that is asked for."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.waiting.next_turn import NextTurn
from ottla.broker.waiting.purgatory import PER_TURN, Purgatory


def turns(scenario, count=5):
    """What `seen` has after each turn of the loop, once scenario(seen) was called."""

    async def run():
        seen, after = [], []
        scenario(seen)
        after.append(list(seen))
        for _ in range(count):
            await asyncio.sleep(0)
            after.append(list(seen))
        return after

    return asyncio.run(run())


def test_nothing_is_called_in_the_turn_in_which_it_is_added():
    def scenario(seen):
        calls = NextTurn()
        for number in range(3):
            calls.add(lambda number=number: seen.append(number))

    assert turns(scenario)[:2] == [[], [0, 1, 2]]


def test_with_a_limit_so_many_are_called_in_each_turn():
    def scenario(seen):
        calls = NextTurn(per_turn=2)
        for number in range(5):
            calls.add(lambda number=number: seen.append(number))

    assert turns(scenario)[:4] == [[], [0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_what_is_added_by_a_call_comes_in_a_later_turn():
    def scenario(seen):
        calls = NextTurn()
        calls.add(lambda: (seen.append("first"), calls.add(lambda: seen.append("second"))))

    assert turns(scenario)[1:3] == [["first"], ["first", "second"]]


@pytest.mark.parametrize("per_turn", [None, 1])
def test_a_call_that_fails_keeps_no_other_from_being_called(per_turn, caplog):
    def scenario(seen):
        calls = NextTurn(per_turn)
        calls.add(lambda: 1 / 0)
        calls.add(lambda: seen.append("after"))

    assert turns(scenario)[-1] == ["after"]
    assert "cannot be answered" in caplog.text


def test_waiters_in_turn_go_on_a_few_in_each_turn_and_in_their_order():
    def scenario(seen):
        purgatory, is_there = Purgatory(), []
        for number in range(PER_TURN + 3):
            waiting = purgatory.wait(lambda: bool(is_there), ["orders"], 1_000, in_turn=True)
            waiting.add_done_callback(lambda _, number=number: seen.append(number))
        is_there.append(True)
        assert purgatory.check("orders") == PER_TURN + 3

    after = turns(scenario)
    assert after[-1] == list(range(PER_TURN + 3))
    assert list(range(PER_TURN)) in after


def test_a_waiter_in_turn_that_was_cancelled_meanwhile_harms_nobody():
    def scenario(seen):
        purgatory = Purgatory()
        waiting = [purgatory.wait(lambda: False, ["orders"], 1_000, lambda _: True, in_turn=True) for _ in range(2)]
        purgatory.check("orders")
        waiting[0].cancel()
        waiting[1].add_done_callback(lambda done: seen.append(done.result()))

    assert turns(scenario)[-1] == [True]


def test_there_is_room_for_so_many_in_a_turn_and_again_in_the_next():
    async def run():
        calls = NextTurn(per_turn=2)
        first = [calls.has_room() for _ in range(3)]
        await asyncio.sleep(0)
        return first, [calls.has_room() for _ in range(3)]

    assert asyncio.run(run()) == ([True, True, False], [True, True, False])


def test_whoever_waits_goes_before_those_who_ask_for_room():
    async def run():
        calls, seen = NextTurn(per_turn=2), []
        for number in range(3):
            calls.add(lambda number=number: seen.append(number))
        rooms = []
        for _ in range(4):
            rooms.append(calls.has_room())
            await asyncio.sleep(0)
        return seen, rooms

    # The third has the second turn, which has room for one more.
    assert asyncio.run(run()) == ([0, 1, 2], [False, False, True, True])


def test_nothing_is_planned_when_nothing_is_left():
    async def run():
        calls = NextTurn(per_turn=1)
        calls.add(lambda: None)
        for _ in range(4):
            await asyncio.sleep(0)
        return calls._is_planned

    assert asyncio.run(run()) is False
