"""Apache Kafka with a topic whose leader does not answer: transactions that touch it stay prepared.

    with kafka_with_away_topic(find_jars("4.3"), scratch) as address: ...

Two brokers are started, the second one gets the partition of AWAY and is killed. Its session lasts for a day, so the
first one goes on to believe that the partition is led there and tries to write its markers for ever. (A partition
without any leader would not do: Kafka 4.3.1 takes it for deleted and completes the transaction.)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.transaction_probes import AWAY, HERE, Wire, create_topic, prepare_coordinators

LONG_SESSION = "broker.session.timeout.ms=86400000\n"
JOIN_LIMIT_S = 60


@contextlib.contextmanager
def kafka_with_away_topic(jars: Path, scratch: Path) -> Iterator[str]:
    """The address of the first broker, when both topics are there and the second broker is dead."""
    first = _broker(jars, scratch / "first", LONG_SESSION)
    try:
        first.start()
        with Wire(first.bootstrap) as wire:
            prepare_coordinators(wire)  # before the second broker comes, so that everything else is on the first
            create_topic(wire, HERE, [[1], [1]])
            _create_away(wire, _broker(jars, scratch / "second", _as_second_of(first)))
        yield first.bootstrap
    finally:
        first.kill()  # a stop in order would wait for the markers


def _create_away(wire: Wire, second: KafkaBroker) -> None:
    try:
        second.start()
        _create_when_joined(wire)
    finally:
        second.kill()


def _broker(jars: Path, scratch: Path, settings: str) -> KafkaBroker:
    scratch.mkdir()
    broker = KafkaBroker(jars, scratch, scratch / "data", settings)
    if "process.roles=broker\n" in settings:  # its port is known only now
        with broker.properties.open("a") as properties:
            properties.write(f"listeners=PLAINTEXT://127.0.0.1:{broker.port}\n")
    broker.format()
    return broker


def _as_second_of(first: KafkaBroker) -> str:
    lines = first.properties.read_text().splitlines()
    voters = next(line for line in lines if line.startswith("controller.quorum.voters="))
    return f"node.id=2\nprocess.roles=broker\n{voters}\n"


def _create_when_joined(wire: Wire) -> None:
    deadline_s = time.monotonic() + JOIN_LIMIT_S
    while True:
        try:
            return create_topic(wire, AWAY, [[2]])
        except AssertionError:  # the controller does not know broker 2 yet
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.2)
