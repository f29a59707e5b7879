"""How a stream is followed, with a query that is not Spark's."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from ottla.spark.jobs.following import JobFailed, run_stream
from ottla.spark.jobs.tally import Totals


class Query:
    """Ends after so many looks, or fails, or does what it is told while it is looked at."""

    def __init__(self, looks: int, *, error: Exception | None = None, at_look: Any = None) -> None:
        self.looks = looks
        self.error = error
        self.at_look = at_look
        self.is_stopped = False
        self.status = {"message": "Waiting for next trigger"}
        self.recentProgress: list[Any] = []

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802
        self.looks -= 1
        number = len(self.recentProgress)
        self.recentProgress.append(
            SimpleNamespace(batchId=number, numInputRows=2, durationMs={"addBatch": 1}, observedMetrics={}, sources=[])
        )
        if self.at_look is not None:
            self.at_look()
        if self.error is not None:
            raise self.error
        return self.looks <= 0

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not self.is_stopped and self.looks > 0

    def stop(self) -> None:
        self.is_stopped = True


class Writer:
    def __init__(self, query: Query) -> None:
        self.query = query
        self.triggers: list[dict[str, Any]] = []

    def trigger(self, **options: Any) -> Writer:
        self.triggers.append(options)
        return self

    def start(self) -> Query:
        return self.query


def run(query: Query, every: str | None, seen: list[Totals] | None = None) -> tuple[Totals, Writer]:
    writer: Any = Writer(query)
    return run_stream(writer, every, (seen if seen is not None else []).append), writer


def test_without_a_period_a_job_reads_what_there_is_and_ends() -> None:
    query, seen = Query(3), []
    totals, writer = run(query, None, seen)
    assert (totals.rows, totals.batches) == (6, 3)
    assert [each.rows for each in seen] == [2, 4]
    assert writer.triggers == [{"availableNow": True}]
    assert query.is_stopped


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as in a program of one's own: the workers of pytest-xdist do not listen to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_is_how_a_job_with_a_period_ends() -> None:
    before = signal.getsignal(signal.SIGINT)
    query = Query(1000, at_look=lambda: signal.raise_signal(signal.SIGINT))
    totals, writer = run(query, "5 seconds")
    assert (totals.rows, query.is_stopped) == (2, True)
    assert writer.triggers == [{"processingTime": "5 seconds"}]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_breaks_a_job_that_would_have_ended_by_itself() -> None:
    query = Query(1000, at_look=lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run(query, None)
    assert query.is_stopped


def test_a_query_that_fails_is_stopped_and_told_in_a_sentence() -> None:
    query = Query(5, error=RuntimeError("Traceback (most recent call last):\nottla.errors.DataLost: t-0 is gone"))
    with pytest.raises(JobFailed, match="t-0 is gone") as caught:
        run(query, None)
    assert (caught.value.kind, caught.value.totals.batches) == ("DataLost", 0)
    assert query.is_stopped
