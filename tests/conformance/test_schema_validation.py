"""Topics that take only records with a known schema: confluent.value.schema.validation, by the clients of the field."""

import json

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("starlette", reason="the registry needs ottla[registry]")
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from tests.conformance.whole_topics import read_all
from tests.patience import HANG_S

from ottla.client.serializers import SerializationContext
from ottla.serializers import AvroSerializer, SchemaRegistry
from ottla.testing.broker import KafkaBroker

INVALID_RECORD = 87
CONTEXT = SerializationContext("checked", "value")


@pytest.fixture(scope="module")
def broker():
    with KafkaBroker({"ottla.schema.registry.listener": "127.0.0.1:0"}) as running:
        yield running


@pytest.fixture(scope="module")
def good(broker):
    """A record with a schema that is registered."""
    ((_, (host, port)),) = broker.info.http_parts
    return AvroSerializer('"string"', SchemaRegistry(f"http://{host}:{port}"))("hello", CONTEXT)


def make_topic(broker, name, **settings):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = {key.replace("_", "."): value for key, value in settings.items()}
    admin.create_topics([NewTopic(name, 1, config=wanted)])[name].result(HANG_S)
    return admin


def send(broker, topic, *values, key=None, **settings):
    """The code of each record's error, None where there is none."""
    found = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    for value in values:
        producer.produce(topic, value, key, on_delivery=lambda error, _: found.append(error and error.code()))
    assert producer.flush(HANG_S) == 0
    return found


def values_of(broker, topic):
    (found,) = read_all(broker.bootstrap_servers, topic, "read_committed")
    return [each.value for each in found]


def test_records_without_a_known_schema_are_refused(broker, good):
    make_topic(broker, "checked", confluent_value_schema_validation="true")
    alone = {"linger.ms": 0, "batch.num.messages": 1}
    assert send(broker, "checked", good, b"plain", good[:1] + b"\0\0\x7f\0" + good[5:], None, good, **alone) == [
        None,
        INVALID_RECORD,
        INVALID_RECORD,
        None,
        None,
    ]
    assert values_of(broker, "checked") == [good, None, good]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_a_batch_with_one_bad_record_is_refused(broker, good, compression, idempotent):
    topic = f"batches-{compression}-{idempotent}"
    make_topic(broker, topic, confluent_value_schema_validation="true")
    settings = {"linger.ms": 200, "compression.type": compression, "enable.idempotence": idempotent}
    assert send(broker, topic, good, good, **settings) == [None, None]
    assert INVALID_RECORD in send(broker, topic, good, b"bad", **settings)
    assert send(broker, topic, *[good] * 50, **settings) == [None] * 50


def test_keys_are_checked_on_their_own(broker, good):
    make_topic(broker, "keys", confluent_key_schema_validation="true")
    assert send(broker, "keys", b"anything", key=good) == [None]
    assert send(broker, "keys", good, key=b"plain") == [INVALID_RECORD]


def test_it_can_be_switched_on_and_off(broker, good):
    admin = make_topic(broker, "switched")
    assert send(broker, "switched", b"plain") == [None]
    for value, expected in (("true", INVALID_RECORD), ("false", None)):
        entry = ConfigEntry("confluent.value.schema.validation", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", "switched", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(HANG_S)
        assert send(broker, "switched", b"plain") == [expected]


def test_transactions_are_checked_too(broker, good):
    make_topic(broker, "in-transactions", confluent_value_schema_validation="true")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce("in-transactions", good)
    producer.commit_transaction(HANG_S)
    assert values_of(broker, "in-transactions") == [good]


def test_a_topic_without_it_takes_everything(broker):
    make_topic(broker, "free")
    assert send(broker, "free", b"plain", json.dumps({}).encode(), None) == [None, None, None]
