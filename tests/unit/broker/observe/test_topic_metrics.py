"""What goes into topics and comes out of them."""

import pytest

from ottla.broker.observe.topic_metrics import TopicMetrics
from ottla.metrics import OTHER, Registry


@pytest.fixture
def registry():
    return Registry()


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
        assert f"kafka_server_brokertopicmetrics_{name}_total {value}\n" in text


def test_topics_beyond_the_limit_are_counted_together(registry):
    topics = TopicMetrics(registry, topics_limit=2)
    for topic in ("a", "b", "c", "d"):
        topics.produced(topic, 10, 1)
    lines = [
        line for line in registry.text(0).splitlines() if line.startswith("kafka_server_brokertopicmetrics_bytesin")
    ]
    assert lines == [
        "kafka_server_brokertopicmetrics_bytesin_total 40",
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
    assert "kafka_server_brokertopicmetrics_bytesin_total 20\n" in text, "the sum of all topics never goes back"
