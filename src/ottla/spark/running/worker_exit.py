"""Spark's Python processes end without a traceback when Spark closes their connection.

Closing the connection is how Spark (4.3) ends a Python process that it does not need any more: the process of a stream
source when its query stops, idle workers when the session stops or after a minute. PySpark takes it for an error, tries
to report it over the closed connection, fails, and prints up to three tracebacks to the terminal of the user who
stopped a query in good order.

1. exit_quietly_when_closed() is called when such a process imports our data source. In any other process it does
   nothing.
2. Only the broken connection to Spark is silent, and only where it ends the process: nobody is left to tell. Every
   other error is printed as before, and errors of a task or a source reach Spark as before.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Final

DAEMON: Final = "pyspark.daemon"
STREAM_SOURCE: Final = "pyspark.sql.streaming.python_streaming_source_runner"

Worker = Callable[[socket.socket, bool], int]

_CLOSED: Final = (EOFError, BrokenPipeError, ConnectionResetError)


def exit_quietly_when_closed(program: ModuleType | None = None) -> None:
    """Prepare this process, if it is one of Spark's; `program` is its main module."""
    main = program or sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name == STREAM_SOURCE:
        sys.excepthook = _print_unless_closed
    elif name == DAEMON and (worker := getattr(main, "worker", None)) is not None:
        # A worker runs tasks in a loop around this function, so from its next task on it is ours.
        main.worker = _quiet(worker)  # type: ignore[attr-defined]


def _quiet(worker: Worker) -> Worker:
    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except _CLOSED:
            return 1  # the daemon's sign for: end this process

    return run


def _print_unless_closed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, _CLOSED):
        sys.__excepthook__(kind, error, trace)
