"""Counts per request and per topic."""

import pytest

from ottla.broker.observe.request_metrics import RequestMetrics, TopicMetrics
from ottla.metrics import OTHER, Registry
from ottla.protocol.api import APIS

PRODUCE, FETCH = APIS[0], APIS[1]


@pytest.fixture
def registry():
    return Registry()


def answer(metrics, api, version, took_ms, now_ms=0.0):
    requests, times = metrics.of(api, version)
    requests.value += 1
    times.record(took_ms, now_ms)


def test_requests_are_counted_by_api_and_version_with_their_times(registry):
    metrics = RequestMetrics(registry)
    for _ in range(3):
        answer(metrics, PRODUCE, 9, 2)
    answer(metrics, PRODUCE, 10, 2)
    answer(metrics, FETCH, 12, 500)
    text = registry.text(0)
    assert 'kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 3' in text
    assert 'kafka_network_requestmetrics_requests_total{request="Produce",version="10"} 1' in text
    assert 'kafka_network_requestmetrics_totaltimems_count{request="Produce"} 4' in text
    assert 'kafka_network_requestmetrics_totaltimems_sum{request="Fetch"} 500' in text
    assert 'kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"}' in text


def test_errors_are_counted_by_kafkas_name(registry):
    metrics = RequestMetrics(registry)
    metrics.failed(PRODUCE, 6)
    metrics.failed(PRODUCE, 6)
    lines = [line for line in registry.text(0).splitlines() if line.startswith("kafka_network_requestmetrics_errors")]
    assert lines == [
        'kafka_network_requestmetrics_errors_total{request="Produce",error="NOT_LEADER_OR_FOLLOWER"} 2',
    ]


def test_quantiles_are_of_the_recent_past(registry):
    metrics = RequestMetrics(registry)
    answer(metrics, FETCH, 12, 5_000.0)
    answer(metrics, FETCH, 12, 1.0, now_ms=3_600_000.0)
    recent = {line for line in registry.text(3_600_000.0).splitlines() if 'quantile="0.999"' in line}
    assert all(float(line.split()[-1]) < 2 for line in recent)


def test_topics_count_what_goes_in_and_out(registry):
    topics = TopicMetrics(registry)
    topics.produced("orders", 4096, 10)
    topics.produced("orders", 4, 1)
    topics.fetched("orders", 7)
    topics.produce_failed("orders", 5)
    topics.fetch_failed("orders")
    text = registry.text(0)
    for name, value in {
        "messagesin": 11,
        "bytesin": 4100,
        "bytesout": 7,
        "bytesrejected": 5,
        "totalproducerequests": 3,
        "totalfetchrequests": 2,
        "failedproducerequests": 1,
        "failedfetchrequests": 1,
    }.items():
        assert f'kafka_server_brokertopicmetrics_{name}_total{{topic="orders"}} {value}\n' in text


def test_topics_beyond_the_limit_are_counted_together(registry):
    topics = TopicMetrics(registry, topics_limit=2)
    for topic in ("a", "b", "c", "d"):
        topics.produced(topic, 10, 1)
    lines = [
        line for line in registry.text(0).splitlines() if line.startswith("kafka_server_brokertopicmetrics_bytesin")
    ]
    assert lines == [
        'kafka_server_brokertopicmetrics_bytesin_total{topic="a"} 10',
        'kafka_server_brokertopicmetrics_bytesin_total{topic="b"} 10',
        f'kafka_server_brokertopicmetrics_bytesin_total{{topic="{OTHER}"}} 20',
    ]


def test_a_deleted_topic_is_forgotten_and_leaves_its_place(registry):
    topics = TopicMetrics(registry, topics_limit=1)
    topics.produced("a", 10, 1)
    topics.forget("a")
    topics.forget("never-there")
    topics.produced("b", 10, 1)
    text = registry.text(0)
    assert 'topic="a"' not in text
    assert 'topic="b"' in text
    assert OTHER not in text
