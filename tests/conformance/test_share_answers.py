"""Share groups, streams groups and client metrics: our broker answers bare requests as Apache Kafka 4.3.1 does.

tests/golden/sharing/kafka-4.3.1.tsv has Kafka's answers to every step of share_probes.py. `make test` asks our broker;
the long test asks Kafka again, so that the table stays what Kafka says. It is written anew by running the long test
with OTTLA_WRITE_SHARE_TABLE=1. What we answer otherwise on purpose is in OTHERWISE, and in docs/conformance.md.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.kafka_broker import KafkaBroker as ApacheBroker
from tests.conformance.share_probes import all_rows, prepare
from tests.conformance.test_api_versions import PLUG_IN, with_plug_in
from tests.conformance.transaction_probes import Wire

from ottla.testing.broker import KafkaBroker

TABLE = Path(__file__).parent.parent / "golden" / "sharing" / "kafka-4.3.1.tsv"
HEADER = ("story", "step", "answer")
KAFKA_SETTINGS = f"""
metric.reporters={PLUG_IN}
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
log.retention.ms=-1
"""  # the records of the probes are of 2023: half a minute after its start Kafka would delete them
OTHERWISE = {
    # Kafka has no word of its own for these: something in it fails.
    ("sessions", "no group"): "INVALID_REQUEST",
    ("sessions", "an unknown topic"): "NONE UNKNOWN_TOPIC_ID/NONE",
    ("limits", "an unknown mode"): "INVALID_REQUEST",
    # Kafka leaves it to its plug-in to look at them; ours looks.
    ("telemetry", "push what is no metrics"): "INVALID_RECORD",
}


def _answers_of(address: str) -> dict[tuple[str, str], str]:
    with Wire(address) as wire:
        prepare(wire)
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


def test_our_broker_answers_as_kafka_does() -> None:
    kafka = _golden()
    assert all(kafka[key] != answer for key, answer in OTHERWISE.items()), "what is the same needs no excuse"
    with KafkaBroker() as broker:
        assert _differences(_answers_of(broker.bootstrap_servers), kafka | OTHERWISE) == []


@pytest.mark.long
def test_the_table_is_what_kafka_answers(tmp_path: Path) -> None:
    jars = with_plug_in(jars_or_skip("4.3"), tmp_path)
    kafka = ApacheBroker(jars, tmp_path, tmp_path / "data", KAFKA_SETTINGS)
    kafka.format()
    with kafka:
        answers = _answers_of(kafka.bootstrap)
    if os.environ.get("OTTLA_WRITE_SHARE_TABLE"):
        TABLE.parent.mkdir(exist_ok=True)
        rows = [HEADER, *((*key, answer) for key, answer in answers.items())]
        TABLE.write_text("".join("\t".join(row) + "\n" for row in rows))
    assert _differences(answers, _golden()) == []
