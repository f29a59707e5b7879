"""Consumer groups of the new protocol (KIP-848): our broker answers bare heartbeats as Apache Kafka 4.3.1 does.

tests/golden/consumers/kafka-4.3.1.tsv has Kafka's answers to every step of heartbeat_probes.py. `make test` asks our
broker; the long test asks Kafka again, so that the table stays what Kafka says. It is written anew by running the long
test with OTTLA_WRITE_HEARTBEAT_TABLE=1. What we answer otherwise on purpose is in OTHERWISE (decision 0149).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.conformance.heartbeat_probes import all_rows
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.kafka_broker import KafkaBroker as ApacheBroker
from tests.conformance.transaction_probes import Wire

from ottla.testing.broker import KafkaBroker

TABLE = Path(__file__).parent.parent / "golden" / "consumers" / "kafka-4.3.1.tsv"
HEADER = ("story", "step", "answer")
SETTINGS = {"group.consumer.assignment.interval.ms": "0"}
OTHERWISE = {
    # Who begins to wait for partitions of others comes again after a fifth of the interval, once.
    ("two_members", "first waits"): "epoch 3 in 1000 -",
    # Partitions of a deleted topic need not be released: a client that never knew its name would not do it.
    ("deleted_topic", "it is gone"): "epoch 3 in 5000 a01",
    ("deleted_at_once", "it is gone"): "epoch 4 in 5000 a01",
    ("deleted_at_once", "nothing"): "epoch 4 in 5000 -",
    ("deleted_at_once", "nothing again"): "epoch 4 in 5000 -",
}


def _answers_of(address: str) -> dict[tuple[str, str], str]:
    with Wire(address) as wire:
        return {(story, step): answer for story, step, answer in all_rows(wire)}


def _golden() -> dict[tuple[str, str], str]:
    header, *rows = [tuple(line.split("\t")) for line in TABLE.read_text().splitlines()]
    assert header == HEADER
    return {(story, step): answer for story, step, answer in rows}


def _differences(answers: dict[tuple[str, str], str], expected: dict[tuple[str, str], str]) -> list[str]:
    return [
        f"{key}: {answers.get(key)}, expected {expected.get(key)}"
        for key in {**expected, **answers}
        if answers.get(key) != expected.get(key)
    ]


def test_our_broker_answers_heartbeats_as_kafka_does() -> None:
    kafka = _golden()
    assert all(kafka[key] != answer for key, answer in OTHERWISE.items()), "what is the same needs no excuse"
    with KafkaBroker(SETTINGS) as broker:
        assert _differences(_answers_of(broker.bootstrap_servers), kafka | OTHERWISE) == []


@pytest.mark.long
def test_the_table_is_what_kafka_answers(tmp_path: Path) -> None:
    settings = "".join(f"{name}={value}\n" for name, value in SETTINGS.items())
    kafka = ApacheBroker(jars_or_skip("4.3"), tmp_path, tmp_path / "data", settings)
    kafka.format()
    with kafka:
        answers = _answers_of(kafka.bootstrap)
    if os.environ.get("OTTLA_WRITE_HEARTBEAT_TABLE"):
        TABLE.parent.mkdir(exist_ok=True)
        rows = [HEADER, *((*key, answer) for key, answer in answers.items())]
        TABLE.write_text("".join("\t".join(row) + "\n" for row in rows))
    assert _differences(answers, _golden()) == []
