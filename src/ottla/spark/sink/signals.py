"""A worker process that is ended by a signal aborts the transaction it is writing.

Spark ends its Python workers with SIGHUP (when the session stops) or SIGTERM, which by default end a process on the
spot: its transaction would stay open and hold back readers until it times out. Inside `ended_by_signals` both raise
WorkerEnded instead, so that the writer's own clean-up runs. Only rows that are still being written are aborted: a
transaction that waits for the driver's commit may be decided already, and only the driver knows.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


class WorkerEnded(SystemExit):
    """The worker was asked to end; the exit code is the shell's for that signal."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Signals that end this process raise WorkerEnded in here. Only in a main thread: others get no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _end) for number in SIGNALS if signal.getsignal(number) is not None}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # the clean-up has a limit of its own
    raise WorkerEnded(128 + number)
