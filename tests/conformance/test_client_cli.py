"""The command line against Apache Kafka: the tests of tests/client/test_cli.py with another broker.

Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import pytest
from tests.client import test_cli
from tests.conformance.client_suite import ApacheKafka, skip_without_consumer_protocol, suite_of

# These know what our own broker is like: that its id is 0, and which settings it has beside those that are given.
OURS = {"test_settings_of_brokers_and_groups", "test_a_topic_is_made_described_changed_and_deleted"}

globals().update(suite_of(test_cli, leave_out=OURS))
pytestmark = pytest.mark.long


@pytest.fixture
def kafka_broker(apache: ApacheKafka, request: pytest.FixtureRequest) -> ApacheKafka:
    skip_without_consumer_protocol(request, apache)
    return apache
