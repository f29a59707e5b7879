"""With acks=1, too, whoever is answered can read it (decision 0038): the same program on our broker and on Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.acknowledged import TOPIC, find_lags
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.kafka_broker import KafkaBroker as ApacheBroker
from tests.conformance.transaction_probes import Wire, create_topic

from ottla.testing.broker import KafkaBroker

TRIES, LONG_TRIES = 25, 200  # before acks=1 waited for the sync, nine of ten tries lagged
APACHE_ID = 1


def test_our_broker_shows_what_it_has_acknowledged(tmp_path: Path) -> None:
    assert _our_lags(tmp_path, TRIES) == []


@pytest.mark.long
def test_our_broker_shows_what_it_has_acknowledged_many_times(tmp_path: Path) -> None:
    assert _our_lags(tmp_path, LONG_TRIES) == []


def _our_lags(directory: Path, tries: int) -> list[str]:
    """With a real disk and worker threads; one replica is durable by default."""
    with KafkaBroker(directory=directory) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, TOPIC, [[broker.call(lambda server: server.broker.id)]])
        return find_lags(wire, tries)


@pytest.mark.long
def test_apache_kafka_shows_what_it_has_acknowledged(tmp_path: Path) -> None:
    broker = ApacheBroker(jars_or_skip("4.3"), tmp_path, tmp_path / "data")
    broker.format()
    with broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, TOPIC, [[APACHE_ID]])
        assert find_lags(wire, LONG_TRIES) == []
