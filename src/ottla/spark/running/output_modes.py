"""start() of a stream in update mode fails at once, with a sentence that says what works.

Spark (4.3) has no update mode for sinks in Python. It finds out in the query's own thread: start() succeeds, and the
query is dead a moment later. Neither the mode nor a moment before that reaches the code of a sink, so the check stands
in the user's own line: a session made by ottla.spark.session() has a DataStreamWriter whose start() checks the mode.
In other sessions the query ends with Spark's own sentence, "ottla does not support Update mode".

    append      rows are written when they are final: no aggregation, or a window with a watermark
    complete    all rows of the result are written in every batch
    update      foreachBatch with df.write (docs/spark.md, "Update mode"), exactly once by jobName and batchId
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ottla.spark.option_table import InvalidOption

Start = TypeVar("Start", bound=Callable[..., Any])

FORMAT: Final = "ottla"
SENTENCE: Final = (
    "Spark has no update mode for sinks in Python. Use outputMode('append') with withWatermark and a window, which"
    " writes each result once when it is final; outputMode('complete'), which writes all results in every batch; or"
    " foreachBatch, which gets the updated rows (docs/spark.md, Update mode)"
)


def check_output_modes(writer: Any) -> None:
    """Make start() of a class of writers (Spark's own or Spark Connect's) refuse update mode for format("ottla")."""
    if getattr(writer.start, "checks_output_mode", False):
        return
    writer.format = _noting(writer.format, "ottla_format")
    writer.outputMode = _noting(writer.outputMode, "ottla_mode")
    writer.start = _checking(writer.start)


def _noting(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The same method, with its argument kept on the writer."""

    @functools.wraps(method)
    def noting(self: Any, value: str, *rest: Any) -> Any:
        setattr(self, name, value)
        return method(self, value, *rest)

    return noting


def _checking(start: Start) -> Start:
    @functools.wraps(start)
    def checking(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        *more: Any,
        **options: Any,
    ) -> Any:
        chosen = str(format or getattr(self, "ottla_format", ""))
        mode = str(outputMode or getattr(self, "ottla_mode", ""))
        if (chosen.lower(), mode.lower()) == (FORMAT, "update"):
            raise InvalidOption(SENTENCE)
        return start(self, path, format, outputMode, *more, **options)

    checking.checks_output_mode = True  # type: ignore[attr-defined]
    return checking  # type: ignore[return-value]
