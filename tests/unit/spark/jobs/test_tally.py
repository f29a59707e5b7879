"""What Spark reports, added up; and its errors, made short."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from pyspark.sql import Row

from ottla.spark.jobs.following import reason_of
from ottla.spark.jobs.tally import OBSERVED, Tally, Totals


def progress(batch: int, rows: int, *, end: int = 0, latest: int = 0, done: bool = True, size: int = 0) -> Any:
    def offset(position: int) -> str:
        return f'{{"version":1,"offsets":{{"t":{{"0":{position}}}}},"topic_ids":{{}},"tasks":1}}'

    return SimpleNamespace(
        batchId=batch,
        numInputRows=rows,
        durationMs={"addBatch": 5} if done else {"latestOffset": 1},
        observedMetrics={OBSERVED: Row(rows=rows, bytes=size)} if size else {},
        sources=[SimpleNamespace(endOffset=offset(end), latestOffset=offset(latest))],
    )


def test_a_batch_counts_once_however_often_it_is_seen() -> None:
    tally = Tally()
    reports = [progress(0, 5, end=5, latest=9, size=50), progress(1, 3, end=8, latest=9, size=30)]
    assert tally.add(reports[:1])
    assert tally.add(reports)
    assert not tally.add(reports)
    assert tally.totals(2.0) == Totals(rows=8, size_bytes=80, batches=2, elapsed_s=2.0, lag=1)


def test_a_report_that_nothing_happened_is_no_batch() -> None:
    tally = Tally()
    assert not tally.add([progress(0, 0, done=False)])
    assert tally.add([progress(0, 4)])
    assert tally.totals(1.0).rows == 4


def test_numbers_that_spark_connect_leaves_out_are_the_input_rows() -> None:
    tally = Tally()
    report = progress(0, 4)
    report.observedMetrics = {OBSERVED: Row()}
    tally.add([report])
    found = tally.totals(1.0)
    assert (found.rows, found.size_bytes, found.bytes_per_s) == (4, None, None)
    assert (found + Totals(rows=1, size_bytes=5)).as_json()["bytes"] is None


def test_the_row_within_a_row_of_spark_connect_is_read() -> None:
    tally = Tally()
    report = progress(0, 4)
    schema = {"type": "struct", "fields": [{"name": "rows", "type": "long"}, {"name": "bytes", "type": "long"}]}
    report.observedMetrics = {OBSERVED: Row(values=[3, 70], schema=schema)}
    tally.add([report])
    assert (tally.totals(1.0).rows, tally.totals(1.0).size_bytes) == (3, 70)


def test_rates_need_time() -> None:
    assert Totals(rows=5).rows_per_s == 0.0
    assert Totals(rows=5, size_bytes=50, elapsed_s=2.0).as_json() == {
        "rows": 5,
        "bytes": 50,
        "batches": 0,
        "seconds": 2.0,
        "rows_per_second": 2.5,
        "bytes_per_second": 25.0,
        "lag": None,
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[STREAM_FAILED] Query terminated\nTraceback (most recent call last):\n  File x\n"
            "ottla.spark.source.data_loss.DataLost: records of t-0 are gone\n\tat org.apache.spark.X(Y.scala:1)",
            "records of t-0 are gone",
        ),
        ("Traceback (most recent call last):\n  File x\nValueError: no number\n", "ValueError: no number"),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed when it ran: Traceback (most recent call last):\n  File x\n"
            "ottla.errors.UnknownTopicOrPartition: there is no topic t. Make it. SQLSTATE: 38000\n SQLSTATE: 38000",
            "there is no topic t. Make it",
        ),
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find it. SQLSTATE: 1\n\tat x",
            "[DATA_SOURCE_NOT_FOUND] Failed to find it. SQLSTATE: 1",
        ),
        ("", "RuntimeError"),
    ],
)
def test_of_an_error_the_line_is_told_that_says_what_happened(text: str, sentence: str) -> None:
    assert reason_of(RuntimeError(text)) == sentence
