"""An event loop on a thread of its own: how a client whose caller is not async does its waiting.

1. `run` gives a coroutine to the loop and waits for its end, at most for `timeout`. Ctrl-C, or the time-out, cancels
   the coroutine and leaves the loop as it was.
2. `submit` and `call_soon` do not wait. All three may be called from any thread but the loop's own, where waiting for
   oneself would never end; `call_soon` from anywhere.
3. `close` cancels what still runs, ends the thread and may be called twice; whatever is still waited for is cancelled.
   At the end of the process loops that nobody closed are closed, for at most a second each.
4. A fork copies the client and not its thread: in the child every call raises ForkedClient at once, nothing hangs.
5. It is uvloop if that is installed, else asyncio's own; a caller that asks little may have asyncio's at once, for
   which nothing is loaded.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from ottla.client.closed import ClientClosed, ForkedClient
from ottla.clock import SystemClock

__all__ = ["BackgroundLoop", "ClientClosed", "ForkedClient"]

T = TypeVar("T")

log = logging.getLogger(__name__)

START_LIMIT_S: Final = 10.0
EXIT_LIMIT_S: Final = 1.0
LAST_TURNS: Final = 5

_forks = 0
_running: Final[weakref.WeakSet[BackgroundLoop]] = weakref.WeakSet()


class BackgroundLoop:
    """One thread that runs one event loop, from `start` to `close`."""

    def __init__(self, name: str, new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._name = name
        self._new_event_loop = new_event_loop or _new_event_loop
        self._forks = _forks
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def start(self) -> None:
        """Start the thread; calling it again does nothing."""
        self.check_fork()
        with self._lock:
            if self._thread is not None or self._closed:
                return
            self._loop = self._new_event_loop()
            started = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._loop, started), name=self._name, daemon=True)
            self._thread.start()
            _running.add(self)
        started.wait(START_LIMIT_S)

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """What the coroutine gives or raises; TimeoutError after `timeout` seconds."""
        try:
            future = self.submit(coroutine)
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result(timeout)
        except concurrent.futures.CancelledError:
            raise ClientClosed(f"{self._name} was closed while a call was waiting") from None
        except BaseException as error:
            if not future.done():
                future.cancel()
                if isinstance(error, TimeoutError):
                    raise TimeoutError(f"{self._name} was not done within {timeout} s") from None
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Let the loop run it; cancelling the future cancels the coroutine."""
        loop = self._usable_loop()
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"{self._name} was asked to wait for itself; call it from another thread")
        return asyncio.run_coroutine_threadsafe(coroutine, loop)

    def call_soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Let the loop call a function in its next turn."""
        self._usable_loop().call_soon_threadsafe(call, *arguments)

    def check_fork(self) -> None:
        """Raise when this is a child process that has the client but not its thread."""
        if self._forks != _forks:
            raise ForkedClient(f"{self._name} in process {os.getpid()}")

    def close(self, timeout: float) -> None:
        """Cancel what runs and end the thread, waiting at most `timeout` seconds for it."""
        with self._lock:
            self._closed = True
            thread, loop = self._thread, self._loop
        if thread is None or loop is None or self._forks != _forks or thread is threading.current_thread():
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)
        if thread.is_alive():
            log.warning("%s did not end within %s s", self._name, timeout)

    def _usable_loop(self) -> asyncio.AbstractEventLoop:
        if self._forks != _forks:
            self.check_fork()
        if self._closed:
            raise ClientClosed(self._name)
        if self._loop is None:
            self.start()
        assert self._loop is not None, "start makes one"
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop, started: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(started.set)
        try:
            loop.run_forever()
        finally:
            _end(loop)
            asyncio.set_event_loop(None)
            loop.close()


def _end(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel every task and give them their turns, so that each `finally` is reached."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(_ended(tasks))
    loop.run_until_complete(loop.shutdown_asyncgens())
    for _ in range(LAST_TURNS):  # TLS tells that a connection is closed a few turns before its socket is
        loop.run_until_complete(_turn())


async def _turn() -> None:
    """What is due runs before this does."""


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    with contextlib.suppress(TimeoutError):
        async with SystemClock().timeout(EXIT_LIMIT_S * 1000):
            await asyncio.wait(tasks)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _forked() -> None:
    global _forks
    _forks += 1


def _close_all() -> None:
    for loop in list(_running):
        loop.close(EXIT_LIMIT_S)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
atexit.register(_close_all)
