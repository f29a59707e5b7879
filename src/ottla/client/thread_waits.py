"""How a consumer of any kind lives and waits when its caller is a thread: the client has a thread of its own.

task_waits.py has the same names for a caller that is a task. What both callers want is one text: */async_calls.py.

1. The background thread fetches and keeps the membership; poll() takes what is there, in the caller's thread.
2. Ctrl-C ends every wait: a wait for news is an Event, a wait for the client's loop cancels what it waits for.
3. A start that fails ends what it began. In a forked child every call raises ForkedClient.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self, TypeVar

from ottla.client.deadline import Deadline
from ottla.client.loop import BackgroundLoop, ForkedClient

T = TypeVar("T")
log = logging.getLogger(__name__)

START_LIMIT_S: Final = 30.0


class ThreadWaits:
    """The part of a sync consumer that waits."""

    # The core and the settings of either kind: its own class says which.
    _core: Any
    _settings: Any
    _closed: bool

    def _prepare_to_wait(self) -> None:
        self._loop = BackgroundLoop(f"ottla-{self._settings.client_id}")
        self._news = threading.Event()
        self._polling = threading.Lock()
        self._woken = False

    def _check_usable(self) -> None:
        raise NotImplementedError

    # --- life ---

    def _begin(self, first: Callable[[], object] | None = None) -> None:
        """Start the core and do what comes first: read the topics of the constructor."""
        self._loop.start()
        try:
            self._loop.run(self._core.start(), START_LIMIT_S)
            if first is not None:
                first()
        except BaseException:
            self._give_up_starting()
            raise

    def _give_up_starting(self) -> None:
        """What was begun is ended: connections, too, or their sockets would be left open."""
        self._closed = True
        try:
            self._loop.run(self._core.close(0), START_LIMIT_S)
        except Exception as error:
            log.debug("a consumer that could not start was not ended in order: %s", error)
        finally:
            self._loop.close(START_LIMIT_S)

    def _ready(self) -> None:
        self._check_usable()
        self._loop.check_fork()

    def __enter__(self) -> Self:
        return self

    def _has_begun(self) -> bool:
        """Whether close() has something to end: in a forked child it is the parent's."""
        try:
            self._loop.check_fork()
        except ForkedClient:
            return False
        return True

    def _end(self, deadline: Deadline) -> None:
        try:
            self._loop.run(self._core.close(deadline.left_ms()), deadline.left_s() + 1.0)
        except TimeoutError:
            log.warning("%s was not closed in order within its time", self._settings.client_id)
        finally:
            self._loop.close(1.0)

    # --- waiting ---

    def _wake(self) -> None:
        self._loop.call_soon(self._core.wake)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the client's loop do it, and wait; whatever it does has a time limit of its own."""
        if self._closed:
            work.close()
            self._check_usable()
        return self._loop.run(work)

    def _soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Have the client's loop do it, without waiting."""
        self._loop.call_soon(call, *arguments)

    def _give_turn(self) -> None:
        """Other threads have their turns anyway."""

    def _wait_for_news(self, limit_ms: float) -> None:
        self._news.wait(limit_ms / 1000)

    def _finish(self, outcome: Any) -> None:
        """What a callback of the user's gave is nobody's: subscribe() refuses listeners with coroutines."""
