"""Spark's Python processes end without a traceback when Spark closes their connection.

Closing the connection is how Spark (4.3) ends a Python process that it does not need any more: the process of a stream
source when its query stops, idle workers when the session stops or after a minute. PySpark takes it for an error, tries
to report it over the closed connection, fails, and prints up to three tracebacks to the terminal of the user who
stopped a query in good order.

1. exit_quietly_when_closed() is called when such a process imports our data source, or what its tasks are made of. In
   any other process, and for the second time, it does nothing. A worker imports it in the middle of its first task,
   and that task is quiet already.
2. Only the broken connection to Spark is silent, and only where it ends the process: nobody is left to tell. Every
   other error is printed as before, and errors of a task or a source reach Spark as before.
"""

from __future__ import annotations

import sys
from types import ModuleType, TracebackType
from typing import Any, Final

DAEMON: Final = "pyspark.daemon"
STREAM_SOURCE: Final = "pyspark.sql.streaming.python_streaming_source_runner"

_CLOSED: Final = (EOFError, BrokenPipeError, ConnectionResetError)


def exit_quietly_when_closed(program: ModuleType | None = None) -> None:
    """Prepare this process, if it is one of Spark's; `program` is its main module."""
    main = program or sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name == STREAM_SOURCE:
        sys.excepthook = _print_unless_closed
    elif name == DAEMON and isinstance(printing := getattr(main, "traceback", None), ModuleType):
        # Its loop around the tasks prints what ended it with this module, and ends the process.
        main.traceback = _QuietTraceback(printing)  # type: ignore[attr-defined]


class _QuietTraceback:
    """The module `traceback`, silent about a connection that was closed."""

    def __init__(self, printing: ModuleType) -> None:
        self._printing = printing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._printing, name)

    def print_exc(self, *arguments: Any, **options: Any) -> None:
        if not isinstance(sys.exc_info()[1], _CLOSED):
            self._printing.print_exc(*arguments, **options)


def _print_unless_closed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, _CLOSED):
        sys.__excepthook__(kind, error, trace)
