"""How far a query is behind, from what Spark reports."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.spark.source.lag import Lag, LagListener, lag_of
from ottla.spark.source.offsets import StreamOffset
from ottla.values import TopicPartition


def offset(*numbers: int) -> str:
    positions = {TopicPartition("t", index): number for index, number in enumerate(numbers)}
    return json.dumps(StreamOffset(positions, {"t": "id"}).to_json())


def source(end: str | None, latest: str | None) -> Any:
    return SimpleNamespace(endOffset=end, latestOffset=latest)


def progress(*sources: Any) -> Any:
    return SimpleNamespace(sources=list(sources), id="q1", name=None, batchId=3)


def test_the_lag_is_what_the_batch_left() -> None:
    lag = lag_of(progress(source(offset(10, 20, 30), offset(10, 50, 40))))
    assert lag == Lag(total=40, least=0, most=30, mean=40 / 3)
    assert lag.as_metrics()["maxOffsetsBehindLatest"] == "30"


def test_sources_of_others_are_passed_over() -> None:
    others = [source("5", "7"), source(None, None), source('{"a": 1}', '{"a": 2}'), source("x", offset(1))]
    newer = source('{"version": 9, "offsets": {}, "topic_ids": {}}', offset(1))
    assert lag_of(progress(*others, newer)) is None
    assert lag_of(progress(*others, source(offset(1), offset(3)))) == Lag(2, 2, 2, 2.0)


def test_before_the_first_batch_there_is_no_lag() -> None:
    assert lag_of(None) is None
    assert lag_of(progress(source(None, offset(1)))) is None


def test_a_partition_that_the_batch_did_not_know_yet_is_not_behind() -> None:
    assert lag_of(progress(source(offset(5), offset(5, 9)))) == Lag(0, 0, 0, 0.0)


def test_a_listener_keeps_the_last_lag_and_writes_a_line(caplog: pytest.LogCaptureFixture) -> None:
    listener = LagListener()
    with caplog.at_level(logging.INFO):
        listener.onQueryProgress(SimpleNamespace(progress=progress(source(offset(1), offset(4)))))
        listener.onQueryProgress(SimpleNamespace(progress=progress(source("5", "7"))))
    assert listener.lags == {"q1": Lag(3, 3, 3, 3.0)}
    assert "query q1, batch 3: 3 offsets behind latest" in caplog.text
