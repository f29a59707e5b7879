"""The brokers that conformance tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.client_suite import ApacheKafka, apache_kafka
from tests.conformance.kafka_jars import RELEASES


@pytest.fixture(scope="session", params=list(RELEASES))
def apache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One Apache Kafka of each release line for all tests of our client."""
    with apache_kafka(request.param, tmp_path_factory.mktemp("apache")) as broker:
        yield broker
