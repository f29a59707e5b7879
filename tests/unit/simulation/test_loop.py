"""The loop of virtual time: order, time, processes that are killed and paused, and who waits for ever."""

from __future__ import annotations

import asyncio
import gc
import threading
from random import Random

import pytest

from ottla.simulation.clock import SimulatedClock
from ottla.simulation.executor import SimulatedExecutor
from ottla.simulation.loop import SimulationLoop, SimulationStuck


@pytest.fixture(autouse=True)
def _closed():
    yield
    while LOOPS:
        LOOPS.pop().close()


LOOPS = []


def make_loop(seed=7):
    LOOPS.append(SimulationLoop(Random(seed)))
    return LOOPS[-1]


def test_time_jumps_to_the_next_timer():
    loop = make_loop()
    asked = []

    async def main():
        await asyncio.sleep(3_600)
        asked.append(loop.time())

    loop.run(main(), limit_s=10_000)
    assert 3_600 <= asked[0] < 3_600.01


def test_callbacks_of_one_process_keep_their_order():
    loop = make_loop()
    seen = []

    async def main():
        for number in range(100):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(1)

    loop.run(main(), limit_s=10)
    assert seen == list(range(100))


def interleaving(seed):
    loop = make_loop(seed)
    seen = []

    async def work(name):
        for number in range(20):
            seen.append((name, number))
            await asyncio.sleep(0)

    for name in "abc":
        loop.start(loop.new_process(name), work(name))
    loop.run(asyncio.sleep(1), limit_s=10)
    return seen


def test_which_process_goes_next_is_drawn_from_the_seed():
    assert interleaving(1) == interleaving(1)
    assert interleaving(1) != interleaving(2)
    assert sorted(interleaving(1)) == sorted(interleaving(2))


def test_a_killed_process_takes_no_step_more():
    loop = make_loop()
    process, seen = loop.new_process("victim"), []

    async def victim():
        try:
            while True:
                seen.append(loop.time())
                await asyncio.sleep(0.010)
        finally:
            seen.append("finally")

    async def main():
        loop.start(process, victim())
        await asyncio.sleep(0.035)
        process.kill()
        await asyncio.sleep(1)

    loop.run(main(), limit_s=10)
    assert len(seen) == 4
    assert "finally" not in seen
    loop.close()


def test_a_paused_process_finds_its_timers_due_when_it_goes_on():
    loop = make_loop()
    process, seen = loop.new_process("paused"), []

    async def work():
        await asyncio.sleep(0.010)
        seen.append(loop.time())

    async def main():
        loop.start(process, work())
        await asyncio.sleep(0.005)
        process.pause()
        await asyncio.sleep(5)
        assert seen == []
        loop.resume(process)
        await asyncio.sleep(0.001)

    loop.run(main(), limit_s=10)
    assert seen[0] == pytest.approx(5.005, abs=0.001)


def test_who_waits_for_nothing_is_named():
    loop = make_loop()

    async def waits_for_ever():
        await loop.create_future()

    with pytest.raises(SimulationStuck, match="waits_for_ever"):
        loop.run(waits_for_ever(), limit_s=10)


def test_a_simulation_that_takes_too_long_ends():
    loop = make_loop()

    async def never_done():
        for _ in range(1_000):
            await asyncio.sleep(1)

    with pytest.raises(SimulationStuck, match="never_done"):
        loop.run(never_done(), limit_s=100)


def test_work_of_threads_is_done_later_and_in_one_step():
    loop = make_loop()
    pool = SimulatedExecutor(loop, Random(1), workers=2)
    done = []

    async def main():
        began = loop.time()
        answers = [loop.run_in_executor(pool, done.append, number) for number in range(10)]
        assert done == []
        await asyncio.gather(*answers)
        assert loop.time() > began
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(pool, lambda: 1 / 0)
        assert await asyncio.to_thread(lambda: 5) == 5

    loop.run(main(), limit_s=10)
    assert sorted(done) == list(range(10))


def test_a_killed_process_takes_its_threads_along():
    loop = make_loop()
    process, done = loop.new_process("victim"), []
    pool = SimulatedExecutor(loop, Random(1), workers=1)

    async def victim():
        await loop.run_in_executor(pool, done.append, 1)

    async def main():
        loop.start(process, victim())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        process.kill()
        await asyncio.sleep(1)

    loop.run(main(), limit_s=10)
    assert done == []


def test_threads_from_outside_are_refused():
    loop = make_loop()
    refused = []

    def call():
        try:
            loop.call_soon_threadsafe(print)
        except RuntimeError as error:
            refused.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "not be repeatable" in refused[0]


def test_what_a_callback_raises_is_kept():
    loop = make_loop()

    async def main():
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.1)

    loop.run(main(), limit_s=10)
    assert "ZeroDivisionError" in loop.failures[0]


def test_clocks_jump_and_drift_each_for_itself():
    loop = make_loop()
    right, fast = SimulatedClock(loop), SimulatedClock(loop, rate=2.0)

    async def main():
        first_ms = right.now_ms()
        await fast.sleep(1_000)
        assert right.now_ms() - first_ms == pytest.approx(500, abs=1)
        assert fast.monotonic_ms() == pytest.approx(1_000, abs=1)
        right.jump_wall(-10_000)
        assert right.now_ms() < first_ms
        with pytest.raises(TimeoutError):
            async with right.timeout(50):
                await right.sleep(60)

    loop.run(main(), limit_s=10)


def test_what_a_killed_process_begins_while_it_is_buried_leaves_no_warning_to_anybody(recwarn):
    loop = make_loop()
    process = loop.new_process("victim")

    async def never_begun():
        await asyncio.sleep(1)

    async def victim():
        try:
            await asyncio.sleep(100)
        finally:
            loop.create_task(never_begun())  # belongs to whoever is at work: at the end that is nobody's process

    async def main():
        loop.start(process, victim())
        await asyncio.sleep(0.01)
        process.kill()

    loop.run(main(), limit_s=10)
    loop.close()
    assert [each.tasks for each in loop.processes] == [[] for _ in loop.processes]
    gc.collect()
    assert [str(each.message) for each in recwarn.list] == []
