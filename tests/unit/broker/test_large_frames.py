"""Large frames share one memory: who is read while it is full, and who is closed."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.network.large_frames import (
    ORDINARY_BYTES,
    SLOW_BYTES_PER_MS,
    SLOW_LIMIT_MS,
    STALL_LIMIT_MS,
    LargeFrames,
)
from ottla.broker.network.waiting_requests import WaitingRequests
from ottla.testing.clock import ManualClock

LIMIT_BYTES = 64_000_000
GIANT_BYTES = 100_000_000
ORDINARY = 1_000_000


class FakeLink:
    """A link by which a large frame comes; `arrive` does nothing while it is not read."""

    remote_address = ("10.0.0.1", 1234)

    def __init__(self, memory: "Memory", size_bytes: int) -> None:
        self._memory = memory
        self.big_frame_bytes, self.big_frame_missing_bytes = 0, size_bytes
        self.is_paused, self.waits, self.end = False, False, ""

    def arrive(self, size_bytes: int) -> None:
        if self.waits or self.end:
            return
        arrived_bytes = min(size_bytes, self.big_frame_missing_bytes)
        self.big_frame_bytes += arrived_bytes
        self.big_frame_missing_bytes -= arrived_bytes
        if self.big_frame_missing_bytes:
            self._memory.frames.receiving(self)
        else:
            self.finish("whole")

    def finish(self, end: str) -> None:
        self.end = end
        self._memory.frames.received(self)

    def wait_for_memory(self, waits: bool) -> None:
        self.waits = waits

    def abort(self, reason: Any = None) -> None:
        self.finish(str(reason))


class Timer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Ticking(ManualClock):
    """A clock without a loop: `tick` is a second, and calls whoever waits."""

    timers: tuple[Timer, ...] = ()

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Any:
        assert delay_ms <= 1000
        self.timers += (Timer(callback),)
        return self.timers[-1]

    def tick(self) -> None:
        self.move(1000)
        due, self.timers = self.timers, ()
        for timer in due:
            if timer.callback is not None:
                timer.callback()


class Memory:
    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.clock = Ticking()
        self.requests = WaitingRequests(limit_bytes, lambda: self.frames.schedule())
        self.frames = LargeFrames(self.requests, limit_bytes, self.clock)
        self.links: list[FakeLink] = []

    def begin(self, size_bytes: int, arrived_bytes: int) -> FakeLink:
        link = FakeLink(self, size_bytes)
        self.links.append(link)
        link.arrive(arrived_bytes)
        return link

    def pass_time(self, duration_ms: float) -> None:
        for _ in range(int(duration_ms // 1000)):
            self.clock.tick()

    def reading(self) -> list[FakeLink]:
        return [link for link in self.links if not link.waits and not link.end]


def test_eight_unfinished_giants_hold_little_more_than_the_limit() -> None:
    memory = Memory()
    giants = [memory.begin(GIANT_BYTES, 65_536) for _ in range(8)]
    for _ in range(99):
        for giant in giants:
            giant.arrive(1_000_000)
    assert memory.reading() == [giants[0]], "the first one may be finished, the others wait"
    assert memory.frames.size_bytes < LIMIT_BYTES + GIANT_BYTES
    assert [giant.big_frame_bytes < 9_000_000 for giant in giants] == [False] + [True] * 7


def test_giants_are_finished_one_after_the_other_in_the_order_in_which_they_began() -> None:
    memory = Memory()
    giants = [memory.begin(GIANT_BYTES, 20_000_000) for _ in range(5)]
    finished = []
    while unfinished := [giant for giant in giants if not giant.end]:
        for giant in reversed(unfinished):
            giant.arrive(1_000_000)
            if giant.end:
                finished.append(giants.index(giant))
    assert finished[:2] == [0, 1]
    assert sorted(finished) == [0, 1, 2, 3, 4]
    assert (memory.requests.size_bytes, memory.requests.is_full) == (0, False)


def test_an_ordinary_request_does_not_wait_behind_giants() -> None:
    memory = Memory()
    for _ in range(4):
        memory.begin(GIANT_BYTES, 20_000_000)
    one, another = memory.begin(ORDINARY, 70_000), memory.begin(ORDINARY_BYTES, 70_000)
    assert memory.reading() == [memory.links[0], one]
    one.arrive(ORDINARY)
    assert one.end == "whole"
    assert memory.reading() == [memory.links[0], another]


def test_a_frame_that_is_larger_than_the_whole_memory_is_received() -> None:
    memory = Memory(limit_bytes=1000)
    giant = memory.begin(GIANT_BYTES, 70_000)
    giant.arrive(GIANT_BYTES)
    assert giant.end == "whole"


def test_everybody_goes_on_when_half_of_the_memory_is_free() -> None:
    memory = Memory()
    giants = [memory.begin(GIANT_BYTES, 17_000_000) for _ in range(4)]
    giants[3].finish("gone")
    assert memory.reading() == giants[:1], "51 of 64 are held"
    giants[2].finish("gone")
    giants[1].finish("gone")
    assert memory.reading() == giants[:1]
    later = memory.begin(GIANT_BYTES, 1_000_000)
    assert memory.reading() == [giants[0], later]


def test_no_large_frame_is_read_while_whole_requests_fill_the_memory() -> None:
    memory = Memory()
    giant = memory.begin(GIANT_BYTES, 70_000)
    memory.requests.change(LIMIT_BYTES)
    assert memory.reading() == []
    memory.requests.change(-LIMIT_BYTES)
    assert memory.reading() == [giant]


def test_who_does_not_want_to_read_now_is_passed_over() -> None:
    """Its requests wait for their answers; others must not wait for it."""
    memory = Memory()
    giants = [memory.begin(GIANT_BYTES, 30_000_000) for _ in range(3)]
    giants[0].is_paused = True
    memory.frames.check()
    assert memory.reading() == [giants[1]]


def test_a_client_that_stops_in_the_middle_of_a_large_frame_is_closed() -> None:
    memory = Memory()
    silent, steady = memory.begin(ORDINARY, 70_000), memory.begin(GIANT_BYTES, 70_000)
    for _ in range(STALL_LIMIT_MS // 1000):
        steady.arrive(1)
        memory.pass_time(1000)
    assert "in the middle of a request" in silent.end
    assert steady.end == ""
    assert memory.requests.size_bytes == steady.big_frame_bytes


def test_who_is_not_read_is_not_closed_for_sending_nothing() -> None:
    memory = Memory()
    link = memory.begin(ORDINARY, 70_000)
    link.is_paused = True
    memory.pass_time(STALL_LIMIT_MS * 3)
    link.is_paused = False
    memory.pass_time(STALL_LIMIT_MS - 2000)
    assert link.end == ""


@pytest.mark.parametrize("drip_bytes", [0, 1000])
def test_a_client_for_whom_others_wait_must_be_quick(drip_bytes: int) -> None:
    memory = Memory()
    slow, waiting = memory.begin(GIANT_BYTES, 40_000_000), memory.begin(GIANT_BYTES, 30_000_000)
    allowed_ms = SLOW_LIMIT_MS + 60_000_000 / SLOW_BYTES_PER_MS
    while not slow.end and memory.clock.monotonic_ms() < 2 * allowed_ms:
        slow.arrive(drip_bytes)
        memory.pass_time(1000)
    assert slow.end
    assert memory.clock.monotonic_ms() <= allowed_ms + 2000
    assert memory.reading() == [waiting]


def test_without_a_limit_nobody_waits_but_who_stalls_is_closed() -> None:
    memory = Memory(limit_bytes=-1)
    giants = [memory.begin(GIANT_BYTES, 90_000_000) for _ in range(5)]
    assert memory.reading() == giants
    memory.pass_time(STALL_LIMIT_MS)
    assert memory.reading() == []


def test_the_timer_runs_only_while_large_frames_are_being_created() -> None:
    memory = Memory()
    link = memory.begin(ORDINARY, 70_000)
    memory.pass_time(3000)
    assert len(memory.clock.timers) == 1
    link.arrive(ORDINARY)
    memory.pass_time(1000)
    assert (memory.clock.timers, memory.frames.size_bytes) == ((), 0)
    memory.begin(ORDINARY, 70_000)
    memory.frames.close()
    assert [timer.callback for timer in memory.clock.timers] == [None]
