"""The transaction coordinator answers every request in every state as Apache Kafka 4.3.1 does.

tests/golden/transactions/kafka-4.3.1.tsv has Kafka's answers to all probes of transaction_probes.py. `make test` sends
them to our broker; the long tests send them to Kafka again, so that the table stays what Kafka says. It is written anew
by running the long test with OTTLA_WRITE_TRANSACTION_TABLE=1.

Not in the table, because they take 32,766 requests each: ids whose epochs are used up (unit tests have them).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.java_programs import JavaPrograms, jars_or_skip
from tests.conformance.transaction_probes import (
    AWAY,
    HERE,
    Wire,
    all_probes,
    create_topic,
    end_quickly,
    prepare_coordinators,
)
from tests.conformance.two_kafkas import kafka_with_away_topic

from ottla.testing.broker import KafkaBroker

TABLE = Path(__file__).parent.parent / "golden" / "transactions" / "kafka-4.3.1.tsv"
HEADER = ("state", "transactions", "producer", "request", "answer", "afterwards")
ROUNDS, LONG_ROUNDS = 100, 200  # before the pending transition was looked at first, it took 2 to 76
JAVA_LIMIT_S = 300


@pytest.fixture
def our_address(tmp_path: Path) -> Iterator[str]:
    """On a disk, so that markers take their time."""
    with _our_broker(tmp_path / "data") as address:
        yield address


@contextlib.contextmanager
def _our_broker(directory: Path | None = None) -> Iterator[str]:
    """Our broker with the two topics; nobody writes the markers of AWAY."""
    with KafkaBroker(directory=directory) as broker:
        own_id = broker.call(lambda server: server.broker.id)
        broker.call(_hold_markers_of_away)
        with Wire(broker.bootstrap_servers) as wire:
            prepare_coordinators(wire)
            create_topic(wire, HERE, [[own_id], [own_id]])
            create_topic(wire, AWAY, [[own_id]])
        yield broker.bootstrap_servers


def _hold_markers_of_away(server) -> None:
    transactions = server.broker.transactions
    write_marker = transactions._write_marker

    async def write_unless_away(index, markers, partition):
        if partition.topic != AWAY:
            await write_marker(index, markers, partition)

    transactions._write_marker = write_unless_away


@pytest.fixture(scope="module")
def apache_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jars = jars_or_skip("4.3")
    with kafka_with_away_topic(jars, tmp_path_factory.mktemp("kafkas")) as address:
        yield address


def _answers_of(address: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    with Wire(address) as wire:
        rows = [probe.row(wire, f"probe-{number}") for number, probe in enumerate(all_probes())]
    return {row[:4]: row[4:] for row in rows}


def _golden() -> dict[tuple[str, ...], tuple[str, ...]]:
    header, *rows = [tuple(line.split("\t")) for line in TABLE.read_text().splitlines()]
    assert header == HEADER
    return {row[:4]: row[4:] for row in rows}


def _differences(answers: dict, expected: dict) -> list[str]:
    return [f"{key}: {answers.get(key)}, expected {expected.get(key)}" for key in {**expected, **answers}
            if answers.get(key) != expected.get(key)]  # fmt: skip


def test_our_broker_answers_every_transactional_request_as_kafka_does() -> None:
    with _our_broker() as address:
        assert _differences(_answers_of(address), _golden()) == []


def test_a_producer_may_end_transactions_of_ours_in_quick_succession(our_address: str) -> None:
    with Wire(our_address) as wire:
        assert end_quickly(wire, ROUNDS) == {"NONE"}


@pytest.mark.long
def test_the_table_is_what_kafka_answers(apache_address: str) -> None:
    answers = _answers_of(apache_address)
    if os.environ.get("OTTLA_WRITE_TRANSACTION_TABLE"):
        rows = [HEADER, *((*key, *value) for key, value in answers.items())]
        TABLE.write_text("".join("\t".join(row) + "\n" for row in rows))
    assert _differences(answers, _golden()) == []


@pytest.mark.long
@pytest.mark.parametrize("whose", ["our", "apache"])
def test_kafkas_own_producer_may_end_transactions_in_quick_succession(
    whose: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    address = request.getfixturevalue(f"{whose}_address")
    jars = jars_or_skip("4.3")
    source = Path(__file__).with_name("QuickEnds.java")
    java = JavaPrograms(jars, tmp_path, address)
    classes = tmp_path / f"classes-{jars.name}"
    subprocess.run(["javac", "-nowarn", "-d", classes, "-cp", f"{jars}/*", source], check=True, timeout=JAVA_LIMIT_S)
    assert f"rounds={LONG_ROUNDS}" in java.run("QuickEnds", address, HERE, str(LONG_ROUNDS), limit_s=JAVA_LIMIT_S)
    with Wire(address) as wire:
        assert end_quickly(wire, LONG_ROUNDS) == {"NONE"}
