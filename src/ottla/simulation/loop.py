"""An asyncio event loop of virtual time: nobody waits, the clock jumps to the next timer.

    loop = SimulationLoop(Random(7))
    broker = loop.new_process("broker 0")
    loop.run(main(), limit_s=600)                     # 600 seconds of virtual time

1. Within one process callbacks run in the order in which they were made, as asyncio promises. Which process takes the
   next step is drawn from the seed: processes of a machine do not wait for each other.
2. Every step takes STEP_S, so that time passes also for who never waits. Timers that are due at the same moment are
   called in the order in which they were set.
3. Work for threads is a step of its process that begins and ends after drawn times (executor.py). There is no thread,
   and no socket: what asks for them fails.
4. Nothing is ready and no timer is set: `SimulationStuck`, with everybody who waits. `limit_s` bounds everything else.
5. What a callback raises, and what a task raises that nobody awaits, is kept in `failures`.
6. `digest` is a number over all steps so far; two runs of one seed have the same.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import heapq
import logging
import struct
import sys
import threading
import warnings
import zlib
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, Final, TypeVar

from ottla.simulation import gathering
from ottla.simulation.process import PROCESS, Life, Process, SimulatedHandle

T = TypeVar("T")

STEP_S: Final = 0.000_005
_DEAD: Final = Life.DEAD
_RUNNING: Final = Life.RUNNING
_MOMENT: Final = struct.Struct("<qd")
FAILURES_LIMIT: Final = 100
TASKS_LIMIT: Final = 1_000  # a process with more forgets those that are done
BURIALS: Final = 3  # what a `finally` begins is closed in the next round, and no more comes of that


class SimulationStuck(RuntimeError):
    """Nothing can happen any more, or it takes longer than it may."""


class SimulationLoop(asyncio.AbstractEventLoop):
    """See the module."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.now_s = 0.0  # what `time` says, for who asks at every step
        self._listed: list[Process] = []
        self._timers: list[tuple[float, int, SimulatedHandle]] = []
        self._timer_count = 0
        self._is_running = False
        self._is_closed = False
        self._is_stopping = False
        self._thread_id = threading.get_ident()
        self.processes: list[Process] = []
        self.outside = self.new_process("outside")
        self.failures: list[str] = []
        self.steps = 0
        self.digest = 0

    # --- processes ---

    def new_process(self, name: str) -> Process:
        process = Process(name)
        self.processes.append(process)
        return process

    def start(self, process: Process, coroutine: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine as a task of this process."""
        return self.create_task(coroutine, name=name, context=process.context.copy())

    def resume(self, process: Process) -> None:
        if process.life is Life.PAUSED:
            process.life = Life.RUNNING
            self._list(process)

    def current_process(self) -> Process:
        """Whose step this is."""
        return PROCESS.get(self.outside)

    # --- time and turns ---

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None) -> Any:  # type: ignore[override]
        # Half of all steps come through here, so what `_push` and `_list` do is written out.
        if context is None:
            context = contextvars.copy_context()
        process = context.get(PROCESS, self.outside)
        handle = SimulatedHandle(callback, args, context, process)
        if process.life is not _DEAD:
            process.queue.append(handle)
            if not process.is_listed and process.life is _RUNNING:
                process.is_listed = True
                self._listed.append(process)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        if threading.get_ident() != self._thread_id:
            raise RuntimeError("a thread outside the simulation called into it; its history would not be repeatable")
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        if context is None:
            context = contextvars.copy_context()
        handle = SimulatedHandle(callback, args, context, context.get(PROCESS, self.outside), when)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, handle))
        return handle

    def _push(self, handle: SimulatedHandle) -> None:
        process = handle.process
        if process.life is _DEAD:
            return
        process.queue.append(handle)
        if not process.is_listed:
            self._list(process)

    def _list(self, process: Process) -> None:
        if process.queue and process.life is Life.RUNNING and not process.is_listed:
            process.is_listed = True
            self._listed.append(process)

    def _next(self) -> SimulatedHandle | None:
        """The next step, or None when everybody waits for a timer."""
        listed = self._listed
        while listed:
            index = int(self._random.random() * len(listed)) if len(listed) > 1 else 0
            process = listed[index]
            if process.queue and process.life is _RUNNING:
                return process.queue.popleft()
            process.is_listed = False
            listed[index] = listed[-1]
            listed.pop()
        return None

    def _fire_due(self) -> None:
        timers, now_s = self._timers, self.now_s
        while timers and timers[0][0] <= now_s:
            handle = heapq.heappop(timers)[2]
            if not handle.is_cancelled:
                self._push(handle)

    def _jump(self) -> bool:
        """Move time to the next timer that somebody still wants."""
        timers = self._timers
        while timers:
            when, _, handle = timers[0]
            if not handle.is_cancelled and not handle.process.is_dead:
                self.now_s = max(self.now_s, when)
                return True
            heapq.heappop(timers)
        return False

    def _run_once(self) -> bool:
        if self._timers and self._timers[0][0] <= self.now_s:
            self._fire_due()
        handle = self._next()
        if handle is None:
            return self._jump()
        if not handle.is_cancelled:
            self.steps += 1
            self.now_s += STEP_S
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                if handle.process.is_dead:  # it was killed in this very step
                    return True
                self.call_exception_handler({"message": f"a callback failed: {handle.callback}", "exception": error})
        return True

    # --- running ---

    def run(self, coroutine: Coroutine[Any, Any, T], *, limit_s: float, process: Process | None = None) -> T:
        """Run until the coroutine is done; SimulationStuck when it never will be, or not within `limit_s`."""
        main = self.start(process or self.outside, coroutine, "main")
        end_s = self.now_s + limit_s
        self._enter()
        try:
            while not main.done():
                if not self._run_once():
                    raise SimulationStuck(f"nothing can happen any more at {self.now_s:.3f} s\n{self.waiting()}")
                if self.now_s > end_s:
                    raise SimulationStuck(f"not done after {limit_s:g} s of virtual time\n{self.waiting()}")
        finally:
            self._leave()
        return main.result()

    def _enter(self) -> None:
        if self._is_running or self._is_closed:
            raise RuntimeError("this loop runs already, or is closed")
        self._is_running = True
        self._hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=None)
        events._set_running_loop(self)
        asyncio.gather = gathering.gather  # type: ignore[assignment]

    def _leave(self) -> None:
        self._is_running = False
        asyncio.gather = gathering.real_gather
        events._set_running_loop(None)
        sys.set_asyncgen_hooks(*self._hooks)

    def waiting(self) -> str:
        """Everybody who waits, for the message of SimulationStuck."""
        return "\n".join(line for process in self.processes if not process.is_dead for line in process.waiting_for())

    def run_until_complete(self, future: Any) -> Any:
        return self.run(future, limit_s=float("inf"))

    def run_forever(self) -> None:
        raise NotImplementedError("a simulation has an end: use run()")

    def stop(self) -> None:
        self._is_stopping = True

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Nothing runs any more. Only now what was killed is taken apart: Python runs its `finally` blocks, whose doors
        are dead, and nobody hears what they raise."""
        if self._is_closed:
            return
        for process in self.processes:
            process.kill()
        self._enter()
        self._is_closed = True
        hook, sys.unraisablehook = sys.unraisablehook, _say_nothing
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of coroutines that were made and never begun
                for _ in range(BURIALS):
                    for process in self.processes:
                        process.bury()
                self._timers.clear()
                gc.collect()
        finally:
            logging.disable(level)
            sys.unraisablehook = hook
            self._leave()

    # --- futures, tasks, threads ---

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> asyncio.Task[T]:
        if context is None:
            context = contextvars.copy_context()
        process = context.get(PROCESS, self.outside)
        task: asyncio.Task[T] = asyncio.Task(
            coro, loop=self, name=name or f"task {process.name} {len(process.tasks)}", context=context
        )
        process.tasks.append(task)
        if len(process.tasks) > TASKS_LIMIT:
            process.tasks = [each for each in process.tasks if not each.done()]
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Threads are steps: see executor.py. Without an executor every call has a thread of its own."""
        from ottla.simulation.executor import SimulatedExecutor

        if executor is None:
            executor = SimulatedExecutor(self, self._random, workers=1)
        if not isinstance(executor, SimulatedExecutor):
            raise TypeError(f"{executor} has real threads; whoever made it should take the pool of its World")
        return executor.start(func, *args)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        raise OSError(f"the simulation has no names; {host} must be an address")

    async def shutdown_asyncgens(self) -> None: ...

    async def shutdown_default_executor(self, timeout: float | None = None) -> None: ...

    # --- failures ---

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None: ...

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if len(self.failures) < FAILURES_LIMIT:
            self.failures.append(f"{self.now_s:.6f} {context.get('message')}: {error!r}{_origin(error)}")

    def note(self, data: bytes) -> None:
        """Let the digest depend on this."""
        self.digest = zlib.crc32(data, zlib.crc32(_MOMENT.pack(self.steps, self.now_s), self.digest))


def new_loop(random: Random) -> SimulationLoop:
    """A loop. What asyncio's loops do with sockets, signals and processes raises NotImplementedError here."""
    return SimulationLoop(random)  # type: ignore[abstract]


def _say_nothing(unraisable: object) -> None: ...


def _origin(error: BaseException | None) -> str:
    """Where it was raised: the last file and line."""
    trace = None if error is None else error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
