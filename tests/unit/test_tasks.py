"""The schedule decides by the numbers it is given; the runner acts, and nothing that fails stops the rest."""

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import LimitReached
from ottla.tasks import Schedule, TaskRunner
from ottla.testing.clock import ManualClock


def nothing() -> None:
    """An action without a trace."""


@pytest.fixture
def schedule() -> Schedule:
    return Schedule(lambda: 0.5)


def names(jobs):
    return [job.name for job in jobs]


# --- deciding --------------------------------------------------------------------------------------------------------


def test_jobs_are_due_in_order_of_time_and_then_of_scheduling(schedule):
    for name, delay_ms in [("late", 9), ("b", 5), ("c", 5), ("now", 0), ("past", -5)]:
        schedule.once(name, nothing, now_ms=100, delay_ms=delay_ms)
    assert schedule.next_due_ms() == 100
    assert names(schedule.take_due(105)) == ["now", "past", "b", "c"]
    assert schedule.next_due_ms() == 109
    assert schedule.take_due(108.9) == []


def test_a_job_that_runs_once_is_gone_when_it_ended(schedule):
    job = schedule.once("x", nothing, now_ms=0)
    assert schedule.take_due(0) == [job]
    assert len(schedule) == 1
    schedule.ended(job, 0)
    assert (len(schedule), schedule.next_due_ms()) == (0, None)


def test_a_period_counts_from_the_end_of_a_run_and_jitter_is_added(schedule):
    job = schedule.every("x", nothing, now_ms=0, period_ms=100, delay_ms=10, jitter_ms=8)
    assert schedule.next_due_ms() == 14
    schedule.take_due(14)
    assert schedule.next_due_ms() is None
    schedule.ended(job, 50)
    assert schedule.next_due_ms() == 154


def test_a_cancelled_job_does_not_start_and_does_not_come_again(schedule):
    waiting = schedule.once("waiting", nothing, now_ms=0)
    running = schedule.every("running", nothing, now_ms=0, period_ms=1)
    schedule.cancel(waiting)
    assert schedule.take_due(0) == [running]
    schedule.cancel(running)
    schedule.cancel(running)
    schedule.ended(running, 5)
    assert (len(schedule), schedule.next_due_ms()) == (0, None)


def test_cancelled_jobs_do_not_fill_the_schedule(schedule):
    for _ in range(10_000):
        schedule.cancel(schedule.once("x", nothing, now_ms=0, delay_ms=1000))
    assert len(schedule._waiting) <= 65


def test_a_full_schedule_refuses(schedule):
    small = Schedule(lambda: 0, limit=2)
    first = small.once("a", nothing, now_ms=0)
    small.once("b", nothing, now_ms=0)
    with pytest.raises(LimitReached, match="'c' is not scheduled, because 2 jobs are"):
        small.once("c", nothing, now_ms=0)
    small.cancel(first)
    small.once("c", nothing, now_ms=0)


def test_no_more_than_asked_for_are_taken(schedule):
    for name in "abc":
        schedule.once(name, nothing, now_ms=0)
    assert names(schedule.take_due(0, limit=2)) == ["a", "b"]
    assert names(schedule.take_due(0, limit=0)) == []
    assert names(schedule.take_due(0)) == ["c"]


@pytest.mark.parametrize(("period_ms", "jitter_ms"), [(0, 0), (-1, 0), (1, -1)])
def test_a_period_without_length_is_refused(schedule, period_ms, jitter_ms):
    with pytest.raises(ValueError, match="period"):
        schedule.every("x", nothing, now_ms=0, period_ms=period_ms, jitter_ms=jitter_ms)


@given(st.lists(st.tuples(st.sampled_from(["add", "cancel", "take"]), st.integers(0, 50)), max_size=60))
def test_the_schedule_agrees_with_a_sorted_list(steps):
    schedule, model, now_ms = Schedule(lambda: 0), [], 0
    for number, (step, amount) in enumerate(steps):
        if step == "add":
            job = schedule.once(str(number), nothing, now_ms=now_ms, delay_ms=amount)
            model.append((now_ms + amount, number, job))
        elif step == "cancel" and model:
            schedule.cancel(model.pop(amount % len(model))[2])
        elif step == "take":
            now_ms += amount
            due = sorted(entry for entry in model if entry[0] <= now_ms)
            model = [entry for entry in model if entry[0] > now_ms]
            taken = schedule.take_due(now_ms)
            assert taken == [job for _, _, job in due]
            for job in taken:
                schedule.ended(job, now_ms)
        assert schedule.next_due_ms() == min((due_ms for due_ms, _, _ in model), default=None)
        assert len(schedule) == len(model)


# --- acting ----------------------------------------------------------------------------------------------------------


class Story:
    """A runner on a manual clock, and what it did when."""

    def __init__(self, **options) -> None:
        self.clock = ManualClock()
        self.failures = []
        self.events = []
        options.setdefault("on_failure", lambda job, error: self.failures.append((job.name, str(error))))
        self.runner = TaskRunner(Schedule(lambda: 0), self.clock, **options)

    def note(self, name):
        return lambda: self.events.append((name, self.clock.monotonic_ms()))

    async def __aenter__(self):
        self.task = asyncio.create_task(self.runner.run())
        return self

    async def __aexit__(self, *exc_info):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def test_jobs_run_when_the_clock_says_so():
    async def story():
        async with Story() as s:
            s.runner.once("once", s.note("once"), delay_ms=15)
            s.runner.every("tick", s.note("tick"), period_ms=10, delay_ms=10)
            await s.clock.advance(35)
            return s.events

    assert asyncio.run(story()) == [("tick", 10), ("once", 15), ("tick", 20), ("tick", 30)]


def test_a_job_scheduled_while_the_runner_sleeps_is_not_late():
    async def story():
        async with Story() as s:
            s.runner.once("far", s.note("far"), delay_ms=1000)
            await s.clock.advance(10)
            s.runner.once("near", s.note("near"), delay_ms=5)
            await s.clock.advance(5)
            return s.events

    assert asyncio.run(story()) == [("near", 15)]


def test_a_failing_job_is_reported_comes_again_and_stops_nobody():
    def fail():
        raise OSError("disk")

    async def story():
        async with Story() as s:
            s.runner.every("bad", fail, period_ms=10)
            s.runner.every("good", s.note("good"), period_ms=10)
            await s.clock.advance(10)
            assert not s.task.done()
            return s.failures, s.events

    assert asyncio.run(story()) == ([("bad", "disk")] * 2, [("good", 0), ("good", 10)])


def test_a_failing_handler_is_logged_and_stops_nobody(caplog):
    def fail(*_):
        raise RuntimeError("handler")

    async def story():
        async with Story(on_failure=fail) as s:
            s.runner.once("bad", fail)
            s.runner.once("good", s.note("good"), delay_ms=5)
            await s.clock.advance(5)
            return s.events

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(story()) == [("good", 5)]
    assert "handler for failed jobs failed itself, on job 'bad'" in caplog.text


def test_without_a_handler_a_failure_is_in_the_log(caplog):
    async def story():
        clock = ManualClock()
        runner = TaskRunner(Schedule(lambda: 0), clock)
        task = asyncio.create_task(runner.run())
        runner.once("bad", lambda: 1 / 0)
        await clock.advance(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())
    assert "job 'bad' failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_slow_job_does_not_overtake_itself_and_does_not_hold_up_others():
    async def story():
        async with Story() as s:

            async def slow():
                s.note("slow begins")()
                await s.clock.sleep(25)

            s.runner.every("slow", slow, period_ms=10)
            s.runner.every("tick", s.note("tick"), period_ms=20, delay_ms=20)
            await s.clock.advance(40)
            return s.events

    assert asyncio.run(story()) == [("slow begins", 0), ("tick", 20), ("slow begins", 35), ("tick", 40)]


def test_jobs_over_the_limit_wait_their_turn():
    async def story():
        async with Story(at_once=1) as s:

            async def slow():
                s.note("first")()
                await s.clock.sleep(10)

            s.runner.once("first", slow)
            s.runner.once("second", s.note("second"))
            await s.clock.advance(5)
            assert s.events == [("first", 0)]
            await s.clock.advance(10)
            return s.events

    assert asyncio.run(story()) == [("first", 0), ("second", 10)]


def test_a_cancelled_job_does_not_run():
    async def story():
        async with Story() as s:
            job = s.runner.every("x", s.note("x"), period_ms=10)
            await s.clock.advance(10)
            s.runner.cancel(job)
            await s.clock.advance(50)
            return s.events

    assert asyncio.run(story()) == [("x", 0), ("x", 10)]


def test_cancelling_the_runner_ends_what_is_running_and_leaves_nothing_behind():
    async def story():
        ended = []
        async with Story() as s:

            async def slow():
                try:
                    await s.clock.sleep(1000)
                finally:
                    ended.append("cleaned up")

            s.runner.once("slow", slow)
            await s.clock.advance(1)
        assert s.task.cancelled()
        assert s.clock.sleeper_count == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return ended

    assert asyncio.run(story()) == ["cleaned up"]


def test_a_clock_that_fails_stops_the_runner_loudly():
    class Broken(ManualClock):
        def call_later(self, delay_ms, callback):
            raise RuntimeError("the clock is broken")

    async def story():
        runner = TaskRunner(Schedule(lambda: 0), Broken())
        runner.once("x", nothing, delay_ms=5)
        await runner.run()

    with pytest.raises(RuntimeError, match="clock is broken"):
        asyncio.run(story())
