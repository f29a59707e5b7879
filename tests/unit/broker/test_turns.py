"""Turns: one at a time, in order, and nothing is kept."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.requests.running import Running
from ottla.broker.waiting.turns import Turns


class Line:
    """Somebody who takes a turn and keeps it until told."""

    def __init__(self, turns, key, name, begun):
        self.may_leave = asyncio.get_running_loop().create_future()
        self.running = Running(self._take(turns, key, name, begun))

    async def _take(self, turns, key, name, begun):
        async with turns.acquire(key):
            begun.append(name)
            await self.may_leave

    async def leave(self):
        self.may_leave.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def test_a_free_turn_is_taken_in_the_same_turn_of_the_loop_and_others_follow_in_order():
    async def run():
        turns, begun = Turns(), []
        lines = [Line(turns, "a", number, begun) for number in range(3)]
        assert begun == [0]
        assert turns.is_held("a")
        for number, line in enumerate(lines):
            assert begun == list(range(number + 1))
            await line.leave()
        assert not turns.is_held("a")

    asyncio.run(run())


def test_whoever_raises_lets_the_next_one_in():
    async def run():
        turns, begun = Turns(), []

        async def fail():
            async with turns.acquire("a"):
                await asyncio.sleep(0)
                raise ValueError("the holder fails")

        failing = Running(fail())
        after = Line(turns, "a", "after", begun)
        for _ in range(3):
            await asyncio.sleep(0)
        with pytest.raises(ValueError, match="the holder fails"):
            failing.result()
        assert begun == ["after"]
        await after.leave()
        assert not turns.is_held("a")

    asyncio.run(run())


def test_whoever_is_cancelled_in_the_line_is_passed_over():
    async def run():
        turns, begun = Turns(), []
        first, second, third = (Line(turns, "a", number, begun) for number in range(3))
        second.running.cancel()
        await first.leave()
        assert begun == [0, 2]
        await third.leave()
        assert not turns.is_held("a")

    asyncio.run(run())


@given(st.lists(st.sampled_from("ab"), max_size=12))
def test_keys_have_lines_of_their_own_in_the_order_of_arrival(keys):
    async def run():
        turns, begun = Turns(), {"a": [], "b": []}
        lines = [(key, Line(turns, key, number, begun[key])) for number, key in enumerate(keys)]
        for _, line in lines:
            await line.leave()
        assert begun == {name: [number for number, key in enumerate(keys) if key == name] for name in "ab"}
        assert not turns.is_held("a")
        assert not turns.is_held("b")

    asyncio.run(run())
