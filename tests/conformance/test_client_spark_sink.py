"""The Spark sink's own methods against Apache Kafka: the tests of tests/spark/test_sink_bad_weather.py on its brokers.

3.9 has transactions of the first kind, 4.x the ones whose end raises the epoch.
Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import pytest
from tests.conformance.client_suite import ApacheKafka, suite_of

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from tests.spark import test_sink_bad_weather

# The brokers of these tests allow the longest time-outs.
TOO_LONG = "test_a_time_out_that_brokers_do_not_allow_is_told_before_a_record"
globals().update(suite_of(test_sink_bad_weather, leave_out=[TOO_LONG]))
pytestmark = pytest.mark.long


@pytest.fixture
def server(apache: ApacheKafka) -> ApacheKafka:
    return apache
