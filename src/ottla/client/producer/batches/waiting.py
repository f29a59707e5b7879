"""How somebody waits for a delivery: a thread by a lock, a task by a future of its own loop.

Nobody polls. A wait by a thread can be interrupted by Ctrl-C and ends at its time-out; a wait by a task works in any
loop, also one that is not the producer's, and may be cancelled. Callables that wait are called on the client's loop;
what they raise is logged and harms nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Protocol

from ottla.errors import OttlaError

log = logging.getLogger(__name__)

Waiter = tuple[int, Callable[[], object]]


class Awaited(Protocol):
    """The part of a delivery that waiting needs."""

    def add_waiter(self, index: int, call: Callable[[], object]) -> bool:
        """False when the record is done already; then `call` is not kept."""


@contextlib.contextmanager
def time_out_explained(last_error: Callable[[], OttlaError | None]) -> Iterator[None]:
    """A TimeoutError leaves with the reason why records are still being tried again; that is also its cause."""
    try:
        yield
    except TimeoutError as error:
        reason = last_error()
        if reason is None:
            raise
        what = str(error) or "the records were not delivered in time; they may still be"
        raise TimeoutError(f"{what}. The last try ended with {reason}") from reason


def wait_until_done(delivery: Awaited, index: int, timeout: float | None) -> None:
    """Block this thread until the record is done; TimeoutError after `timeout` seconds."""
    gate = threading.Lock()
    gate.acquire()
    if delivery.add_waiter(index, gate.release) and not gate.acquire(
        timeout=-1 if timeout is None else max(0, timeout)
    ):
        raise TimeoutError(f"the record was not delivered within {timeout:.3g} s; it may still be")


def await_done(delivery: Awaited, index: int) -> Generator[Any, None, None]:
    """The inside of an `await`: give the loop back until the record is done."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def notify() -> None:
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(finish)

    if delivery.add_waiter(index, notify):
        yield from done


def call_waiters(waiters: Sequence[Waiter], delivery: object) -> None:
    """Tell everybody, in the order of the records."""
    for _, call in sorted(waiters, key=_index) if len(waiters) > 1 else waiters:
        try:
            call()
        except Exception:
            log.exception("a callback of %s failed; the others are called all the same", delivery)


def _index(waiter: Waiter) -> int:
    return waiter[0]


def again(error: OttlaError) -> OttlaError:
    """The same error once more: one exception raised in many places would mix up their tracebacks."""
    return copy.copy(error)
