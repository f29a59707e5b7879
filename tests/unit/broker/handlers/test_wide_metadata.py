"""Metadata about many topics: each is told once, and one request makes so many and no more."""

from ottla.broker.handlers.topics import metadata as handler
from ottla.errors import LeaderNotAvailable, UnknownTopicOrPartition
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def asked(*names):
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True)


def test_a_topic_that_is_named_twice_is_told_once(make_broker):
    broker = make_broker()
    broker.create_topic("a")
    answer = broker.ask(asked("a", "a", "a"), 12)
    assert [topic.name for topic in answer.topics] == ["a"]


def test_one_request_makes_so_many_topics_and_the_others_are_unknown_until_asked_again(make_broker, monkeypatch):
    monkeypatch.setattr(handler, "CREATED_LIMIT", 2)
    broker = make_broker()
    broker.create_topic("old")
    answer = broker.ask(asked("old", "a", "b", "c"), 12)
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes.pop("old") == 0
    assert codes.pop("c") == UnknownTopicOrPartition.code
    assert set(codes.values()) <= {0, LeaderNotAvailable.code}
    assert set(broker.image.topics()) >= {"old", "a", "b"}
    assert "c" not in set(broker.image.topics())
    broker.ask(asked("a", "b", "c"), 12)
    assert "c" in set(broker.image.topics())
