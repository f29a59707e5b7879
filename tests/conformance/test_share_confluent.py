"""confluent-kafka's share consumer, the original beside ours, against our broker in a process of its own.

The original keeps Python's lock while it waits in poll() and commit_sync(): a broker in the same process would not get
its turn.
"""

from __future__ import annotations

import time

import confluent_kafka
import pytest
from tests.client.test_share_consumer import SETTINGS, configure, produce
from tests.conformance.our_broker import BrokerProcess
from tests.patience import HANG_S

import ottla
import ottla.compat.confluent_kafka

LIBRARIES = pytest.mark.parametrize(
    "library",
    [
        pytest.param(confluent_kafka, id="original", marks=pytest.mark.long),
        pytest.param(ottla.compat.confluent_kafka, id="ours"),
    ],
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    made = BrokerProcess(tmp_path_factory.mktemp("share"), {name: str(value) for name, value in SETTINGS.items()})
    made.start()
    yield made
    made.stop()


@pytest.fixture
def topic(broker, unique_topic):
    with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic(unique_topic, 1)])
    return unique_topic


@pytest.fixture
def group(broker, unique_group):
    configure(broker, unique_group, "share.auto.offset.reset", "earliest")
    return unique_group


def polled(consumer):
    deadline = time.monotonic() + HANG_S
    while not (found := consumer.poll(1.0)):
        assert time.monotonic() < deadline
    assert [each.error() for each in found] == [None] * len(found)
    return found


@LIBRARIES
def test_explicit_acknowledgements_of_confluent_kafka(library, broker, topic, group):
    produce(broker, topic, b"accept", b"release", b"reject", headers=[("h", b"1")])
    heard = []
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
    }
    with library.ShareConsumer(settings) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: heard.append((offsets, error)))
        consumer.subscribe([topic])
        assert consumer.subscription() == [topic]
        accept, release, reject = polled(consumer)
        assert (accept.topic(), accept.partition(), accept.offset()) == (topic, 0, 0)
        assert (accept.key(), accept.value(), accept.headers()) == (b"key", b"accept", [("h", b"1")])
        assert accept.delivery_count() == 1
        with pytest.raises(library.IllegalStateException):
            consumer.poll(0)
        consumer.acknowledge(accept)
        consumer.acknowledge(release, library.AcknowledgeType.RELEASE)
        consumer.acknowledge_offset(topic, 0, reject.offset(), library.AcknowledgeType.REJECT)
        assert consumer.commit_sync() == {library.TopicPartition(topic, 0): None}
        with pytest.raises(library.IllegalStateException):
            consumer.acknowledge(accept)
        (again,) = polled(consumer)
        assert (again.value(), again.delivery_count()) == (b"release", 2)
        consumer.acknowledge(again)
        consumer.commit_sync()
    assert {offset for offsets, _ in heard for each in offsets.values() for offset in each} == {0, 1, 2}
    assert {error for _, error in heard} == {None}
    with pytest.raises(library.IllegalStateException):
        consumer.poll(0)


@LIBRARIES
def test_implicit_acknowledgements_of_confluent_kafka(library, broker, topic, group):
    produce(broker, topic, b"1", b"x")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group}
    with library.ShareConsumer(settings) as consumer:
        with pytest.raises(library.IllegalStateException):
            consumer.poll(0)
        consumer.subscribe([topic])
        found = polled(consumer)
        with pytest.raises(library.IllegalStateException):
            consumer.acknowledge(found[0])
        assert consumer.commit_sync() == {library.TopicPartition(topic, 0): None}
        assert consumer.commit_sync() == {}
        assert len(consumer.poll(0)) == 0


@LIBRARIES
def test_a_message_that_cannot_be_deserialized_stays_in_the_list(library, broker, topic, group):
    produce(broker, topic, b"1", b"x")
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "value.deserializer": lambda data, context: int(data),
    }
    with library.DeserializingShareConsumer(settings) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + HANG_S
        while not (found := consumer.poll(1.0)):
            assert time.monotonic() < deadline
        assert [each.value() for each in found] == [1, b"x"]
        assert found[1].error().code() == library.KafkaError._VALUE_DESERIALIZATION


@LIBRARIES
@pytest.mark.parametrize(
    "name",
    ["auto.offset.reset", "enable.auto.commit", "group.instance.id", "isolation.level", "session.timeout.ms"],
)
def test_what_share_consumers_cannot_be_told_is_refused_as_there(library, name):
    value = {"enable.auto.commit": True, "session.timeout.ms": 6000}.get(name, "earliest")
    value = "read_committed" if name == "isolation.level" else value
    with pytest.raises(ValueError, match=f"Failed to create share consumer: `{name}`"):
        library.ShareConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", name: value})
