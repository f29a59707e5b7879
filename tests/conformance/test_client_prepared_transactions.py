"""Prepared transactions against Apache Kafka: the tests of tests/client/test_prepared_transactions.py on its brokers.

3.9 has transactions of the first kind, 4.x the ones whose end raises the epoch.
Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import pytest
from tests.client import test_prepared_transactions
from tests.conformance.client_suite import ApacheKafka, suite_of

globals().update(suite_of(test_prepared_transactions, leave_out=["test_what_passes_is_asked_again"]))
pytestmark = pytest.mark.long


@pytest.fixture
def cluster(apache: ApacheKafka) -> ApacheKafka:
    return apache
