"""Counts and times per request."""

import pytest

from ottla.broker.observe.request_metrics import RequestMetrics
from ottla.metrics import Registry
from ottla.protocol.api import APIS

PRODUCE, FETCH = APIS[0], APIS[1]
PREFIX = "kafka_network_requestmetrics_"


@pytest.fixture
def registry():
    return Registry()


def read(registry, now_ms=0.0):
    lines = [line for line in registry.text(now_ms).splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_requests_are_counted_by_api_and_version_with_their_times(registry):
    metrics = RequestMetrics(registry)
    metrics.of(PRODUCE, 9).answered.record(2, 3)
    metrics.of(PRODUCE, 10).answered.record(2)
    metrics.of(FETCH, 12).answered.record(500)
    found = read(registry)
    assert found[f'{PREFIX}requests_total{{request="Produce",version="9"}}'] == 3
    assert found[f'{PREFIX}requests_total{{request="Produce",version="10"}}'] == 1
    assert found[f'{PREFIX}totaltimems_count{{request="Produce"}}'] == 4
    assert found[f'{PREFIX}totaltimems_sum{{request="Fetch"}}'] == 500
    assert found[f'{PREFIX}totaltimems{{request="Fetch",quantile="0.50"}}'] == pytest.approx(500, rel=1 / 16)


def test_what_is_answered_at_once_took_its_time_here_and_none_elsewhere(registry):
    RequestMetrics(registry).of(FETCH, 12).answered.record(8)
    found = read(registry)
    for part, at_least in {"localtimems": 7.5, "remotetimems": 0, "responsesendtimems": 0, "throttletimems": 0}.items():
        assert found[f'{PREFIX}{part}_count{{request="Fetch"}}'] == 1
        assert at_least <= found[f'{PREFIX}{part}{{request="Fetch",quantile="0.99"}}'] <= at_least * 1.2


def test_a_request_that_waited_has_a_time_here_and_one_elsewhere(registry):
    lane = RequestMetrics(registry).of(FETCH, 12)
    lane.waited(100.0, 102.0, 502.0)
    lane.queued(16.0)
    lane.sent(64.0)
    lane.throttled(1_000.0)
    found = read(registry)
    sums = {"totaltimems": 402, "localtimems": 2, "remotetimems": 400, "responsequeuetimems": 16}
    for part, expected in (sums | {"responsesendtimems": 64, "throttletimems": 1000}).items():
        assert found[f'{PREFIX}{part}_sum{{request="Fetch"}}'] == expected
        assert found[f'{PREFIX}{part}_count{{request="Fetch"}}'] == 1


def test_parts_that_few_requests_have_are_zero_for_the_others(registry):
    lane = RequestMetrics(registry).of(PRODUCE, 9)
    lane.answered.record(1, 98)
    lane.waited(0.0, 1.0, 9.0)
    lane.waited(0.0, 1.0, 9.0)
    found = read(registry)
    assert found[f'{PREFIX}remotetimems_count{{request="Produce"}}'] == 100
    assert found[f'{PREFIX}remotetimems{{request="Produce",quantile="0.98"}}'] == 0
    assert found[f'{PREFIX}remotetimems{{request="Produce",quantile="0.99"}}'] == pytest.approx(8, rel=1 / 16)


def test_errors_are_counted_by_kafkas_name_and_the_rest_has_none(registry):
    metrics = RequestMetrics(registry)
    metrics.of(PRODUCE, 9).answered.record(1, 5)
    metrics.failed(PRODUCE, 6)
    metrics.failed(PRODUCE, 6)
    found = {name: value for name, value in read(registry).items() if name.startswith(f"{PREFIX}errors")}
    assert found == {
        f'{PREFIX}errors_total{{request="Produce",error="NONE"}}': 3,
        f'{PREFIX}errors_total{{request="Produce",error="NOT_LEADER_OR_FOLLOWER"}}': 2,
    }


def test_quantiles_are_of_the_recent_past(registry):
    lane = RequestMetrics(registry).of(FETCH, 12)
    lane.answered.record(5_000.0)
    name = f'{PREFIX}totaltimems{{request="Fetch",quantile="0.999"}}'
    assert read(registry, 0.0)[name] > 4_000
    lane.answered.record(1.0)
    assert read(registry, 299_000.0)[name] > 4_000, "one window is not over"
    read(registry, 300_000.0)
    read(registry, 600_000.0)
    lane.answered.record(1.0)
    assert read(registry, 900_000.0)[name] < 2
    assert read(registry, 900_000.0)[f'{PREFIX}totaltimems_count{{request="Fetch"}}'] == 3
