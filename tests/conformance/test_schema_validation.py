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

INVALID_RECORD = 87
CONTEXT = SerializationContext("checked", "value")


@pytest.fixture(scope="module")
def good(registry_url):
    """A record with a schema that is registered."""
    return AvroSerializer('"string"', SchemaRegistry(registry_url))("hello", CONTEXT)


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


def test_records_without_a_known_schema_are_refused(registry_broker, good):
    make_topic(registry_broker, "checked", confluent_value_schema_validation="true")
    alone = {"linger.ms": 0, "batch.num.messages": 1}
    assert send(
        registry_broker, "checked", good, b"plain", good[:1] + b"\0\0\x7f\0" + good[5:], None, good, **alone
    ) == [
        None,
        INVALID_RECORD,
        INVALID_RECORD,
        None,
        None,
    ]
    assert values_of(registry_broker, "checked") == [good, None, good]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_a_batch_with_one_bad_record_is_refused(registry_broker, good, compression, idempotent):
    topic = f"batches-{compression}-{idempotent}"
    make_topic(registry_broker, topic, confluent_value_schema_validation="true")
    settings = {"linger.ms": 200, "compression.type": compression, "enable.idempotence": idempotent}
    assert send(registry_broker, topic, good, good, **settings) == [None, None]
    assert INVALID_RECORD in send(registry_broker, topic, good, b"bad", **settings)
    assert send(registry_broker, topic, *[good] * 50, **settings) == [None] * 50


def test_keys_are_checked_on_their_own(registry_broker, good):
    make_topic(registry_broker, "keys", confluent_key_schema_validation="true")
    assert send(registry_broker, "keys", b"anything", key=good) == [None]
    assert send(registry_broker, "keys", good, key=b"plain") == [INVALID_RECORD]


def test_it_can_be_switched_on_and_off(registry_broker, good):
    admin = make_topic(registry_broker, "switched")
    assert send(registry_broker, "switched", b"plain") == [None]
    for value, expected in (("true", INVALID_RECORD), ("false", None)):
        entry = ConfigEntry("confluent.value.schema.validation", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", "switched", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(HANG_S)
        assert send(registry_broker, "switched", b"plain") == [expected]


def test_transactions_are_checked_too(registry_broker, good):
    make_topic(registry_broker, "in-transactions", confluent_value_schema_validation="true")
    producer = Producer({"bootstrap.servers": registry_broker.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce("in-transactions", good)
    producer.commit_transaction(HANG_S)
    assert values_of(registry_broker, "in-transactions") == [good]


def test_a_topic_without_it_takes_everything(registry_broker):
    make_topic(registry_broker, "free")
    assert send(registry_broker, "free", b"plain", json.dumps({}).encode(), None) == [None, None, None]
