"""Share consumers against Apache Kafka 4.3: the tests of tests/client/test_share_*.py with another broker,
and those of confluent-kafka's names.

Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client import test_share_commands, test_share_consumer
from tests.conformance import test_share_confluent
from tests.conformance.client_suite import ApacheKafka, apache_kafka, suite_of

globals().update(suite_of(test_share_confluent) | suite_of(test_share_commands) | suite_of(test_share_consumer))
pytestmark = pytest.mark.long

SHARE_SETTINGS = """
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
""" + "".join(f"{name}={value}\n" for name, value in test_share_consumer.SETTINGS.items())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with apache_kafka("4.3", tmp_path_factory.mktemp("apache"), SHARE_SETTINGS) as made:
        yield made
