"""How late the loop is, and for how long somebody looks."""

import asyncio

from ottla.broker.observe import loop_watch
from ottla.broker.observe.loop_watch import PERIOD_MS, SLEEP_AFTER_MS, WINDOW_MS, LoopWatch
from ottla.testing.clock import ManualClock


def test_lag_is_sampled_while_somebody_reads():
    async def run():
        clock = ManualClock()
        watch = LoopWatch(clock)
        await clock.advance(10 * PERIOD_MS)
        assert watch.lags.count == 0, "nobody has read"
        watch.read()
        await clock.advance(4 * PERIOD_MS)
        sampled = watch.lags.count
        assert sampled >= 3
        await clock.advance(SLEEP_AFTER_MS + 2 * PERIOD_MS)
        ended = watch.lags.count
        await clock.advance(100 * PERIOD_MS)
        assert watch.lags.count == ended, "nobody has read for long"
        watch.read()
        watch.stop()

    asyncio.run(run())


def test_idle_is_the_share_of_time_without_the_processor(monkeypatch):
    async def run():
        clock, used = ManualClock(), [0.0]
        monkeypatch.setattr(loop_watch, "thread_cpu_ms", lambda: used[0])
        watch = LoopWatch(clock)
        await clock.advance(WINDOW_MS)
        used[0] += WINDOW_MS / 4
        watch.read()
        assert watch.idle_share == 0.75
        assert watch.idle_ns == int(WINDOW_MS * 0.75 * 1_000_000)
        await clock.advance(1_000)
        used[0] += 1_000
        watch.read()
        assert watch.idle_share == 0, "of the time since the last mark"
        watch.stop()

    asyncio.run(run())
