"""The client's own tests once more, with Apache Kafka in the place of our broker: the same suite passes on both.

    globals().update(suite_of(tests.client.test_producer_sync))

gives a test module the tests and fixtures of another one; what it defines afterwards (its broker) takes precedence.
Tests that start a broker of their own, stop it or look inside it say nothing about Kafka and are left out.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.kafka_jars import JarsMissing, find_jars

OF_THEIR_OWN = {"kafka_broker_fresh", "tmp_path"}
SINCE_4 = {
    "test_a_pattern_can_be_matched_by_the_broker",
    "test_a_group_reads_commits_lags_and_is_reset",
    "test_perf_prints_kafkas_lines_and_json",
}
# As in a test broker of ours: topics are made by asking, and short times are allowed.
SETTINGS = """
auto.create.topics.enable=true
group.min.session.timeout.ms=200
group.consumer.min.heartbeat.interval.ms=50
group.consumer.heartbeat.interval.ms=50
group.consumer.min.session.timeout.ms=200
"""


class ApacheKafka:
    """A broker with the face of ottla.testing.KafkaBroker, as far as clients see it."""

    def __init__(self, release: str, bootstrap_servers: str) -> None:
        self.release = release
        self.bootstrap_servers = bootstrap_servers

    @property
    def has_consumer_protocol(self) -> bool:
        """KIP-848 is ready for use since 4.0."""
        return not self.release.startswith("3.")


def suite_of(module: ModuleType, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """Tests, fixtures and everything they need of a module."""
    found = {}
    for name, value in vars(module).items():
        if name.startswith("__") or name in leave_out:
            continue
        if name.startswith("test_") and OF_THEIR_OWN & set(inspect.signature(value).parameters):
            continue
        found[name] = value
    return found


@contextlib.contextmanager
def apache_kafka(release: str, scratch: Path, more_settings: str = "") -> Iterator[ApacheKafka]:
    """A broker of that release line, or a test that is skipped with the reason."""
    try:
        jars = find_jars(release)
    except JarsMissing as reason:
        pytest.skip(str(reason))
    broker = KafkaBroker(jars, scratch, scratch / "data", SETTINGS + more_settings)
    broker.format()
    with broker:
        yield ApacheKafka(release, broker.bootstrap)


def skip_without_consumer_protocol(request: pytest.FixtureRequest, broker: ApacheKafka) -> None:
    wanted = getattr(request.node, "callspec", None)
    names = set() if wanted is None else set(map(str, wanted.params.values()))
    if ("consumer" in names or request.node.originalname in SINCE_4) and not broker.has_consumer_protocol:
        pytest.skip(f"{broker.release} has no consumer protocol")
