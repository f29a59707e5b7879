"""Topics made on demand: asked for once at a time, refused aloud once."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.internal_topics import internal_topic_request
from ottla.broker.cluster.topics_on_demand import TopicsOnDemand
from ottla.broker.settings import BrokerSettings
from ottla.errors import InvalidReplicationFactor, TopicAlreadyExists


def test_a_topic_on_its_way_is_not_asked_for_again_until_the_answer_is_there() -> None:
    topics = TopicsOnDemand()
    assert topics.begin("clicks")
    assert not topics.begin("clicks")
    assert topics.begin("orders")
    topics.ended("clicks", None)
    assert topics.begin("clicks")


def test_the_same_refusal_is_said_once_and_another_one_again(caplog: pytest.LogCaptureFixture) -> None:
    topics = TopicsOnDemand()
    for reason in (InvalidReplicationFactor("2 brokers"), InvalidReplicationFactor("2 brokers"), "something else"):
        topics.begin("clicks")
        topics.ended("clicks", reason)
    assert len(caplog.records) == 2


def test_that_somebody_else_made_it_is_no_refusal(caplog: pytest.LogCaptureFixture) -> None:
    topics = TopicsOnDemand()
    topics.begin("clicks")
    topics.ended("clicks", TopicAlreadyExists())
    assert not caplog.records


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_in_a_cluster_internal_topics_have_only_settings_that_apache_kafka_knows(name: str) -> None:
    asked = internal_topic_request(name, BrokerSettings({}), is_alone=False)
    assert not [each.name for each in asked.configs if each.name.startswith("ottla.")]
