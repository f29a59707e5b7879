"""The doctor against Apache Kafka: the tests of tests/client/test_doctor.py with another broker.

Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import pytest
from tests.client import test_doctor
from tests.conformance.client_suite import ApacheKafka, skip_without_consumer_protocol, suite_of

globals().update(suite_of(test_doctor))
pytestmark = pytest.mark.long


@pytest.fixture
def kafka_broker(apache: ApacheKafka, request: pytest.FixtureRequest) -> ApacheKafka:
    skip_without_consumer_protocol(request, apache)
    return apache
