"""Making, changing, describing and removing topics."""

import pytest

from ottla.errors import (
    DiskFull,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.values import TopicPartition


def create(broker, name, partitions=-1, replicas=-1, version=None, **request):
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=[]
    )
    return broker.ask(CreateTopicsRequest(topics=[topic], **request), version).topics[0]


def describe(broker, *names, cursor=None, limit=2000):
    topics = [TopicRequest(name=name) for name in names]
    request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
    return broker.ask(request)


def pages(answer):
    return [(topic.name, [one.partition_index for one in topic.partitions]) for topic in answer.topics]


# -- CreateTopics, CreatePartitions, DeleteTopics ----------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_a_new_topic_has_its_partitions_on_the_disk(broker, version):
    answer = create(broker, "orders", 2, 1, version)
    assert answer.error_code == 0
    assert broker.image.partition_count("orders") == 2
    assert broker.partition("orders", 1).is_leader


def test_a_topic_that_is_only_checked_is_not_made(broker):
    assert create(broker, "orders", validate_only=True).error_code == 0
    assert broker.image.topic("orders") is None


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "error"),
    [
        ("a b", 1, 1, InvalidTopicException),
        ("orders", 0, 1, InvalidPartitions),
        ("orders", 1, 3, InvalidReplicationFactor),
        ("there", 1, 1, TopicAlreadyExists),
    ],
)
def test_a_topic_that_cannot_be_is_refused(broker, name, partitions, replicas, error):
    broker.create_topic("there")
    answer = create(broker, name, partitions, replicas)
    assert answer.error_code == error.code
    assert answer.error_message


def test_more_partitions_are_made_and_fewer_refused(broker):
    broker.create_topic("orders", 2)

    def resize(count):
        topic = CreatePartitionsTopic(name="orders", count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
        return broker.ask(request).results[0].error_code

    assert resize(3) == 0
    assert broker.partition("orders", 2) is not None
    assert resize(2) == InvalidPartitions.code


def test_a_topic_is_removed_by_name_and_by_id(broker):
    topic_id = broker.create_topic("orders")
    broker.create_topic("old")
    named = DeleteTopicsRequest(topic_names=["old", "missing"], timeout_ms=1000)
    assert [one.error_code for one in broker.ask(named, 5).responses] == [0, UnknownTopicOrPartition.code]
    states = [DeleteTopicState(name=None, topic_id=topic_id), DeleteTopicState(name=None, topic_id=b"x" * 16)]
    answer = broker.ask(DeleteTopicsRequest(topics=states, timeout_ms=1000))
    assert [one.error_code for one in answer.responses] == [0, UnknownTopicId.code]
    assert list(broker.image.topics()) == []
    assert broker.partition("orders") is None
    assert broker.logs.log(TopicPartition("orders", 0)) is None


def test_a_topic_made_again_under_its_name_is_empty(broker, batch):
    broker.create_topic("orders")
    broker.produce("orders", batch("old"))
    broker.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
    broker.create_topic("orders")
    assert broker.fetch("orders").high_watermark == 0


def test_a_produce_that_waits_is_answered_when_its_topic_goes(broker, batch):
    from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    broker.create_topic("orders")
    broker.broker.progress._flusher.mark = lambda partition: None  # the disk never answers
    data = PartitionProduceData(index=0, records=batch("a"))
    topics = [TopicProduceData(name="orders", partition_data=[data])]
    waiting = broker.begin(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics), 12)
    assert not waiting.is_answered
    broker.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
    assert waiting.answer.responses[0].partition_responses[0].error_code != 0


# -- Metadata ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(14))
def test_metadata_tells_brokers_and_leaders_at_every_version(broker, version):
    broker.create_topic("orders", 2)
    answer = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]), version)
    assert [(one.node_id, one.host, one.port) for one in answer.brokers] == [(1, "localhost", 9092)]
    assert answer.topics[0].error_code == 0
    assert [(one.partition_index, one.leader_id) for one in answer.topics[0].partitions] == [(0, 1), (1, 1)]


def test_null_topics_ask_for_all_and_no_topics_for_none(broker):
    broker.create_topic("b")
    broker.create_topic("a")
    assert [topic.name for topic in broker.ask(MetadataRequest(topics=None)).topics] == ["a", "b"]
    assert broker.ask(MetadataRequest(topics=[])).topics == []
    assert len(broker.ask(MetadataRequest(topics=[]), 0).topics) == 2


def test_a_missing_topic_is_made_if_settings_and_request_allow_it(make_broker):
    wanted = [MetadataRequestTopic(name="new")]
    broker = make_broker()
    refused = broker.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False)).topics[0]
    assert refused.error_code == UnknownTopicOrPartition.code
    broker.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=True))
    assert broker.ask(MetadataRequest(topics=wanted)).topics[0].error_code == 0
    strict = make_broker(**{"auto.create.topics.enable": "false"})
    assert strict.ask(MetadataRequest(topics=wanted)).topics[0].error_code == UnknownTopicOrPartition.code


def test_a_topic_is_asked_for_by_its_id(broker):
    topic_id = broker.create_topic("orders")
    wanted = [MetadataRequestTopic(topic_id=topic_id, name=None), MetadataRequestTopic(topic_id=b"y" * 16, name=None)]
    answer = broker.ask(MetadataRequest(topics=wanted))
    assert [(one.name, one.error_code) for one in answer.topics] == [("orders", 0), (None, UnknownTopicId.code)]


def test_an_illegal_name_is_not_made(broker):
    answer = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name="a b")]))
    assert answer.topics[0].error_code == InvalidTopicException.code


def test_a_listener_that_nobody_has_has_no_leaders(broker):
    broker.create_topic("orders")
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    new = broker.ask(wanted, 12, listener="OTHER").topics[0].partitions[0]
    old = broker.ask(wanted, 5, listener="OTHER").topics[0].partitions[0]
    assert (new.error_code, new.leader_id) == (72, -1)
    assert (old.error_code, old.leader_id) == (5, -1)


# -- DescribeTopicPartitions -------------------------------------------------------------------------------------------


def test_all_topics_are_described_in_order(broker):
    broker.create_topic("b", 2)
    broker.create_topic("a")
    answer = describe(broker)
    assert pages(answer) == [("a", [0]), ("b", [0, 1])]
    assert answer.next_cursor is None
    assert answer.topics[0].partitions[0].leader_id == 1
    assert answer.topics[0].topic_authorized_operations > 0


def test_pages_follow_each_other_without_gap_or_overlap(broker):
    broker.create_topic("a", 3)
    broker.create_topic("b", 2)
    broker.create_topic("c", 1)
    seen, cursor, rounds = [], None, 0
    while rounds == 0 or cursor is not None:
        answer = describe(broker, cursor=cursor, limit=2)
        found = [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
        assert len(found) <= 2
        seen += found
        cursor, rounds = answer.next_cursor, rounds + 1
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]
    assert rounds == 3


def test_the_broker_limits_a_page_too(make_broker):
    broker = make_broker(**{"max.request.partition.size.limit": "1"})
    broker.create_topic("a", 2)
    answer = describe(broker)
    assert pages(answer) == [("a", [0])]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("a", 1)


def test_a_limit_of_nothing_still_gives_one_partition(broker):
    broker.create_topic("a", 2)
    assert pages(describe(broker, limit=0)) == [("a", [0])]


def test_named_topics_have_errors_of_their_own(broker):
    broker.create_topic("a")
    answer = describe(broker, "a", "missing", "not legal")
    assert [(one.name, one.error_code) for one in answer.topics] == [
        ("a", 0),
        ("missing", UnknownTopicOrPartition.code),
        ("not legal", InvalidTopicException.code),
    ]


def test_a_cursor_that_makes_no_sense_is_refused_at_every_topic(broker):
    broker.create_topic("a")
    outside = describe(broker, "a", cursor=Cursor(topic_name="b", partition_index=0))
    negative = describe(broker, "a", cursor=Cursor(topic_name="a", partition_index=-1))
    assert [one.error_code for one in outside.topics + negative.topics] == [InvalidRequest.code] * 2


def test_a_cursor_behind_the_last_partition_goes_on_with_the_next_topic(broker):
    broker.create_topic("a")
    broker.create_topic("b")
    assert pages(describe(broker, cursor=Cursor(topic_name="a", partition_index=9))) == [("a", []), ("b", [0])]


def a_second_later(broker):
    broker.loop.run_until_complete(broker.clock.advance(1_000))


def test_a_topic_that_a_full_disk_had_no_room_for_is_there_when_it_has(broker):
    """Its name is the cluster's truth by then. It had no leader until the next start of the broker."""
    broker.files.fill(free_bytes=0)
    assert create(broker, "full", 2).error_code == DiskFull.code
    a_second_later(broker)
    assert broker.partition("full") is None
    broker.files.mend()
    broker.create_topic("other")
    a_second_later(broker)
    assert all(broker.partition("full", index).is_leader for index in range(2))
    assert broker.broker.background.is_idle


def test_a_broker_that_starts_makes_what_it_had_no_room_for(broker):
    broker.files.fill(free_bytes=0)
    create(broker, "full", 1)
    broker.restart()
    assert broker.partition("full") is None
    broker.files.mend()
    a_second_later(broker)
    assert broker.partition("full").is_leader
