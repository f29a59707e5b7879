"""Runs a stream to its end, or until it is interrupted, and reports its progress.

1. Without a period a query reads what there was when it began and ends; with one it goes on, a batch each period.
2. `watch` is called with the totals after every batch and about five times a second. It must be quick.
3. However the waiting ends, the query is stopped, after the batch at work: nothing runs on after the job. Ctrl-C
   ends a job with a period, and is no failure of such a job; a second one cuts the batch off.
4. What Spark makes of an error (forty lines of Java around one line of Python) becomes JobFailed with that line.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.errors import OttlaError
from ottla.spark.jobs.record_size import size_of_record
from ottla.spark.jobs.tally import OBSERVED, Tally, Totals
from ottla.spark.running.stopping import stop_between_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_S: Final[Any] = 0.2
"""Spark takes parts of seconds, though it declares whole ones."""
STOPPED_LIMIT: Final = 1_000
"""So many characters of an error are shown when no line of it is the reason."""

Watch: TypeAlias = Callable[[Totals], None]

_ERROR_LINE: Final = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?(?!SQLSTATE\b)([A-Z]\w*): (.+?)(?:\.? SQLSTATE: \w+)?$")


class JobFailed(OttlaError):
    """The job did not end well. What it had finished stays; start it again to go on."""

    kind = ""
    """The class of the Python error that ended it, where there was one."""
    totals = Totals()
    """What it had done until then."""

    @classmethod
    def of(cls, error: BaseException, totals: Totals) -> JobFailed:
        kind, sentence = _blamed(error)
        made = cls(sentence)
        made.kind, made.totals = kind, totals
        return made


def unwatched(_: Totals) -> None:
    """A watch that does nothing."""


def observed(frame: DataFrame) -> DataFrame:
    """The same rows, counted while they pass."""
    from pyspark.sql import functions as f

    size = f.sum(size_of_record(frame.columns))
    return frame.observe(OBSERVED, f.count(f.lit(1)).alias("rows"), size.alias("bytes"))


def run_stream(writer: DataStreamWriter, every: str | None, watch: Watch = unwatched) -> Totals:
    """Start what was prepared, and follow it; `every` is a period in Spark's words, such as "5 seconds"."""
    timed = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    started_s = time.monotonic()
    try:
        query = timed.start()
    except Exception as error:
        raise JobFailed.of(error, Totals()) from error
    return _follow(query, every is not None, watch, started_s)


def _follow(query: StreamingQuery, has_period: bool, watch: Watch, started_s: float) -> Totals:
    tally = Tally()
    with _interruptions(has_period) as interrupted:
        try:
            while not interrupted.is_set() and not query.awaitTermination(POLL_S):
                tally.add(query.recentProgress)
                watch(tally.totals(time.monotonic() - started_s))
        except Exception as error:
            raise JobFailed.of(error, tally.totals(time.monotonic() - started_s)) from error
        finally:
            stop_between_batches(query)
    tally.add(query.recentProgress)
    return tally.totals(time.monotonic() - started_s)


@contextmanager
def _interruptions(has_period: bool) -> Iterator[threading.Event]:
    """Set by Ctrl-C, for a job that ends with it. An exception would come in the middle of a talk with Spark, and that
    would be complained of at length; a second Ctrl-C is one, in case the end takes too long."""
    pressed = threading.Event()

    def press(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    if not has_period or threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def reason_of(error: BaseException) -> str:
    """The line of an error that says what happened."""
    return _blamed(error)[1]


def _blamed(error: BaseException) -> tuple[str, str]:
    """The class of the Python error, if there was one, and the line."""
    text = _text_of(error)
    lines = [line.strip() for line in text.splitlines()]
    ours = [found for line in lines if (found := _ERROR_LINE.match(line)) and "py4j" not in line]
    if "Traceback" in text and ours:
        kind, sentence = ours[-1].groups()
        return kind, f"{kind}: {sentence}" if kind.endswith(("Error", "Exception")) else sentence
    return "", next((line for line in lines if line), type(error).__name__)[:STOPPED_LIMIT]


def _text_of(error: Any) -> str:
    """Spark's own text where there is one: it does not repeat itself in Java."""
    get = getattr(error, "getMessage", None)
    found = get() if callable(get) else None
    return str(found or error)
