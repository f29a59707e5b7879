"""How long an input holds a broker's loop, in processor time, and how much memory it takes: measured in its process.

1. `loop_ms` is the longest callback of the loop: processor time of the loop's thread for one call, which nobody else
   can interrupt. A busy machine makes it no longer.
2. `others_ms` is what other threads used while the loop began nothing, although something was due every TICK_S. Python
   in a thread gives way; a call into C that keeps the interpreter's lock (`int`, `json.loads`, `re`) does not. Whoever
   waits for the lock sleeps, so the time in which the loop's thread was ready and had no processor does not count.
   Both have the garbage collections that fell into them; `collection_ms` is the longest of those.
3. `peak_bytes` is by how much the resident memory was larger at its highest point, `total_ms` all processor time of the
   process until it was quiet again.
4. A thread looks at what runs too long: `where` has the lines. It cannot look while a call into C keeps the lock, and
   then sees the lines around it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from asyncio import events
from pathlib import Path
from typing import Any

TICK_S = 0.005
LOOK_S = 0.02
LOOKED_AT_S = 0.03
QUIET_WINDOW_S = 0.02
QUIET_CPU_S = 0.004
QUIET_WINDOWS = 3
QUIET_LIMIT_S = 60.0
FRAMES = 12
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _memory_bytes(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def _lines(frame: Any) -> list[str]:
    found: list[str] = []
    while frame is not None and len(found) < FRAMES:
        found.append(f"{frame.f_code.co_filename.rpartition('/src/')[2]}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return found


class Meter:
    """Belongs to one loop, which it makes tick while it measures."""

    def __init__(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        self._loop, self._loop_thread = loop, loop_thread
        self._clock_id = time.pthread_getcpuclockid(loop_thread)
        self._is_on = False
        self._running_since_s: float | None = None
        self._seen: list[str] = []
        self._mark_s = (0.0, 0.0, 0.0)
        self._schedule = -1
        self._reset()
        self._wrap_callbacks()
        gc.callbacks.append(self._note_collection)
        self._looking = threading.Thread(target=self._look, name="meter", daemon=True)
        self._looking.start()

    # -- what is measured --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Call it in another thread than the loop's."""
        self._reset()
        self._before_bytes = _memory_bytes("VmRSS")
        _CLEAR.write_text("5")  # the highest point from now on
        self._before_s = time.process_time()
        started = threading.Event()
        self._loop.call_soon_threadsafe(self._start, started)
        started.wait()

    def end(self) -> dict[str, object]:
        """What was measured since `begin`, when the process is quiet."""
        self._wait_for_quiet()
        total_ms = (time.process_time() - self._before_s) * 1000
        self._is_on = False
        return {
            "loop_ms": self._loop_s * 1000,
            "loop_by": self._loop_by,
            "others_ms": self._others_s * 1000,
            "collection_ms": self._collection_s * 1000,
            "where": self._where or self._others_where,
            "peak_bytes": max(0, _memory_bytes("VmHWM") - self._before_bytes),
            "total_ms": total_ms,
        }

    def _reset(self) -> None:
        self._loop_s = self._others_s = 0.0
        self._collection_s = self._collecting_since_s = 0.0
        self._loop_by = ""
        self._where: list[str] = []
        self._others_where: list[str] = []

    def _note_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_since_s = time.thread_time()
        elif (took_s := time.thread_time() - self._collecting_since_s) > self._collection_s:
            self._collection_s = took_s

    def _start(self, started: threading.Event) -> None:
        if self._schedule < 0:
            self._schedule = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        self._mark_s = (time.process_time(), time.thread_time(), self._without_processor_s())
        self._is_on = True
        self._tick()
        started.set()

    def _tick(self) -> None:
        if self._is_on:
            self._loop.call_later(TICK_S, self._tick)

    def _wrap_callbacks(self) -> None:
        run = events.Handle._run
        meter = self

        def measured(handle: events.Handle) -> None:
            if not meter._is_on or threading.get_ident() != meter._loop_thread:
                run(handle)
                return
            before_s = meter._note_others()
            meter._seen, meter._running_since_s = [], before_s
            try:
                run(handle)
            finally:
                meter._running_since_s = None
                took_s = time.thread_time() - before_s
                if took_s > meter._loop_s:
                    meter._loop_s, meter._loop_by, meter._where = took_s, repr(handle)[:300], meter._seen
                meter._note_others()

        events.Handle._run = measured  # type: ignore[method-assign]

    def _note_others(self) -> float:
        """How much others used since the loop last had a turn; gives the loop's own time."""
        process_s, thread_s, waited_s = time.process_time(), time.thread_time(), self._without_processor_s()
        others_s = (process_s - self._mark_s[0]) - (thread_s - self._mark_s[1]) - (waited_s - self._mark_s[2])
        self._mark_s = (process_s, thread_s, waited_s)
        self._others_s = max(self._others_s, others_s)
        return thread_s

    def _without_processor_s(self) -> float:
        """How long the loop's thread was ready to run and did not."""
        return int(os.pread(self._schedule, 80, 0).split()[1]) / 1e9

    # -- where it is -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        own, main = threading.get_ident(), threading.main_thread().ident
        while True:
            time.sleep(LOOK_S)
            if not self._is_on:
                continue
            since_s, frames = self._running_since_s, sys._current_frames()
            if since_s is not None and time.clock_gettime(self._clock_id) - since_s > LOOKED_AT_S:
                self._seen = _lines(frames.get(self._loop_thread))
            if self._others_s > LOOKED_AT_S and not self._others_where:
                for thread, frame in frames.items():
                    lines = _lines(frame)
                    if thread not in (own, main, self._loop_thread) and "_worker" not in lines[0]:
                        self._others_where = lines

    def _wait_for_quiet(self) -> None:
        windows, limit_s = 0, time.monotonic() + QUIET_LIMIT_S
        while windows < QUIET_WINDOWS and time.monotonic() < limit_s:
            before_s = time.process_time()
            time.sleep(QUIET_WINDOW_S)
            windows = windows + 1 if time.process_time() - before_s < QUIET_CPU_S else 0
