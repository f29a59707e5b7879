"""Records of several megabytes: every Python client sends and reads them once broker, topic and client allow it.

1. `message.max.bytes` of the broker, or `max.message.bytes` of the topic, is what decides; both may be changed while
   the broker runs.
2. A consumer whose fetch sizes are smaller than the record gets it nevertheless, as Kafka promises (KIP-74): it would
   never come further otherwise.
"""

from random import Random
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from tests.conformance.python_clients import CLIENTS, Confluent
from tests.patience import HANG_S

MEBIBYTE = 1 << 20
LIMIT_BYTES = 12 * MEBIBYTE
# Nothing that a codec could make small: the whole of it goes over the wire.
VALUES = [Random(size).randbytes(size * MEBIBYTE) for size in (3, 5, 10)]
SETTINGS: dict[str, dict[str, Any]] = {
    "confluent-kafka": {"message_max_bytes": LIMIT_BYTES},
    "kafka-python": {"max_request_size": LIMIT_BYTES},
    "aiokafka": {"max_request_size": LIMIT_BYTES, "max_batch_size": LIMIT_BYTES},
}


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def roomy_topic(kafka_bootstrap: str, unique_topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    made = NewTopic(unique_topic, 1, 1, config={"max.message.bytes": str(LIMIT_BYTES)})
    admin.create_topics([made])[unique_topic].result(HANG_S)
    return unique_topic


def test_records_of_megabytes_go_through(client, kafka_bootstrap, roomy_topic, unique_group):
    client.produce(kafka_bootstrap, roomy_topic, VALUES, **SETTINGS[client.name])
    assert client.consume(kafka_bootstrap, roomy_topic, unique_group, len(VALUES)) == VALUES


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_compressed_ones_too(client, codec, kafka_bootstrap, roomy_topic, unique_group):
    client.produce(kafka_bootstrap, roomy_topic, VALUES[:2], compression_type=codec, **SETTINGS[client.name])
    assert client.consume(kafka_bootstrap, roomy_topic, unique_group, 2) == VALUES[:2]


def test_a_consumer_with_small_fetches_comes_past_a_large_record(client, kafka_bootstrap, roomy_topic, unique_group):
    values = [b"before", VALUES[1], b"after"]
    client.produce(kafka_bootstrap, roomy_topic, values, **SETTINGS[client.name])
    small = {"max_partition_fetch_bytes": 4096}
    assert client.consume(kafka_bootstrap, roomy_topic, unique_group, 3, **small) == values


def test_a_limit_that_is_raised_counts_for_the_next_record(kafka_bootstrap, unique_topic, unique_group):
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_bootstrap, "message.max.bytes": LIMIT_BYTES})
    told: list[Any] = []

    def send() -> None:
        producer.produce(unique_topic, VALUES[0], on_delivery=lambda error, _: told.append(error and error.name()))
        producer.flush(HANG_S)

    send()
    entry = ConfigEntry("max.message.bytes", str(LIMIT_BYTES), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", unique_topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(HANG_S)
    send()
    assert told == ["MSG_SIZE_TOO_LARGE", None]
    assert Confluent().consume(kafka_bootstrap, unique_topic, unique_group, 1) == VALUES[:1]
