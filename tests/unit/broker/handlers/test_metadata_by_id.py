"""Topics asked for by id, the way the Java admin client does it: the name is there, but empty."""

import pytest

from ottla.errors import InvalidRequest, UnknownTopicId
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def ask(broker, *wanted, version=None):
    topics = [MetadataRequestTopic(topic_id=topic_id, name=name) for topic_id, name in wanted]
    return broker.ask(MetadataRequest(topics=topics), version)


@pytest.mark.parametrize("name", [None, ""])
def test_an_id_counts_whatever_the_name_is(broker, name):
    topic_id = broker.create_topic("orders")
    answer = ask(broker, (topic_id, name), (b"y" * 16, name))
    found = [(one.name, one.topic_id, one.error_code) for one in answer.topics]
    assert found == [("orders", topic_id, 0), (None, b"y" * 16, UnknownTopicId.code)]


def test_names_are_not_looked_at_when_somebody_asks_by_id(broker):
    topic_id = broker.create_topic("orders")
    broker.create_topic("other")
    answer = ask(broker, (topic_id, None), (bytes(16), "other"))
    assert [one.name for one in answer.topics] == ["orders"]


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("wanted", [(b"y" * 16, "orders"), (bytes(16), None)])
def test_ids_and_null_names_are_refused_before_version_12(broker, version, wanted):
    broker.create_topic("orders")
    answer = ask(broker, wanted, version=version)
    assert [one.error_code for one in answer.topics] == [InvalidRequest.code]
