"""pytest fixtures: a real Kafka broker in the test process.

    def test_orders_are_sent(kafka_broker, unique_topic):
        send_order(bootstrap_servers=kafka_broker.bootstrap_servers, topic=unique_topic)

kafka_broker           one broker for the session; every test gets its own topics and groups by unique names, and what a
                       test left behind is rolled back after it
kafka_broker_fresh     a broker of its own for one test
kafka_bootstrap        the address, as text
unique_topic           a topic name nobody else uses; the topic is made when first used
unique_group           a group name nobody else uses
kafka_broker_settings  override this fixture (session scope) to change settings, with Kafka's names

Any client library works: the broker speaks Kafka on a loopback port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import KafkaBroker

_numbers = count(1)


@pytest.fixture(scope="session")
def kafka_broker_settings() -> Mapping[str, object]:
    """Settings of the broker, with Kafka's names; override it in your conftest.py."""
    return {}


@pytest.fixture(scope="session")
def _kafka_broker_session(kafka_broker_settings: Mapping[str, object]) -> Iterator[KafkaBroker]:
    from ottla.testing.broker import KafkaBroker

    with KafkaBroker(kafka_broker_settings) as broker:
        yield broker


@pytest.fixture
def kafka_broker(_kafka_broker_session: KafkaBroker) -> Iterator[KafkaBroker]:
    """The session's broker; what the test writes is gone after it."""
    snapshot = _kafka_broker_session.snapshot()
    yield _kafka_broker_session
    _kafka_broker_session.rollback(snapshot)


@pytest.fixture
def kafka_broker_fresh(kafka_broker_settings: Mapping[str, object]) -> Iterator[KafkaBroker]:
    """A broker that nobody else uses."""
    from ottla.testing.broker import KafkaBroker

    with KafkaBroker(kafka_broker_settings) as broker:
        yield broker


@pytest.fixture
def kafka_bootstrap(kafka_broker: KafkaBroker) -> str:
    return kafka_broker.bootstrap_servers


@pytest.fixture
def unique_topic(request: pytest.FixtureRequest) -> str:
    return _unique(request, "topic")


@pytest.fixture
def unique_group(request: pytest.FixtureRequest) -> str:
    return _unique(request, "group")


def _unique(request: pytest.FixtureRequest, kind: str) -> str:
    readable = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name)[:80].strip("-")
    return f"{readable}-{kind}-{next(_numbers)}"
