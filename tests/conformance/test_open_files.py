"""A broker that may have few files open: more partitions are refused, those it has are served and found again.

Two hundred files are 72 for logs; fifty partitions have 150.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.conformance.our_broker import BrokerProcess
from tests.patience import HANG_S

OPEN_FILES = 200
PARTITIONS = 50
POLICY_VIOLATION = 44


class LimitedBroker(BrokerProcess):
    def _command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {OPEN_FILES} && exec "$@"', "sh", *super()._command()]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with LimitedBroker(tmp_path) as process:
        yield process
        assert process.faults() == []


def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def produce_to_all(broker: BrokerProcess) -> None:
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(PARTITIONS):
        producer.produce("t", b"x", partition=number, on_delivery=lambda error, _: error and refused.append(str(error)))
    assert producer.flush(HANG_S) == 0
    assert refused == []


def records_by_partition(broker: BrokerProcess, count: int) -> Counter[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused", "log_level": 0})
    consumer.assign([TopicPartition("t", number, 0) for number in range(PARTITIONS)])
    found: Counter[int] = Counter()
    while found.total() < count:
        (message,) = consumer.consume(1, HANG_S)
        assert message.error() is None
        found[message.partition()] += 1
    consumer.close()
    return found


def test_a_broker_that_may_have_few_files_open_serves_its_partitions_and_refuses_more(broker: BrokerProcess) -> None:
    creator = admin(broker)
    creator.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(HANG_S)
    produce_to_all(broker)
    assert records_by_partition(broker, PARTITIONS) == Counter(dict.fromkeys(range(PARTITIONS), 1))
    broker.kill()
    broker.start()
    produce_to_all(broker)
    assert records_by_partition(broker, 2 * PARTITIONS) == Counter(dict.fromkeys(range(PARTITIONS), 2))
    asked = admin(broker)
    too_many = [
        asked.create_topics([NewTopic("more", 30, 1)])["more"],
        asked.create_partitions([NewPartitions("t", PARTITIONS + 30)])["t"],
    ]
    for each in too_many:
        with pytest.raises(KafkaException) as refused:
            each.result(HANG_S)
        assert refused.value.args[0].code() == POLICY_VIOLATION
        assert "30 more partitions are too many" in refused.value.args[0].str()
        assert f"the process may have {OPEN_FILES} files open" in refused.value.args[0].str()
        assert "ulimit -n" in refused.value.args[0].str()
    asked.create_topics([NewTopic("few", 5, 1)])["few"].result(HANG_S)
    broker.stop()
    broker.start()
    assert records_by_partition(broker, 2 * PARTITIONS) == Counter(dict.fromkeys(range(PARTITIONS), 2))
