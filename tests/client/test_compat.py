"""Programs written for confluent-kafka and kafka-python run on Ottla with another import, and see the same things."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
CASES = [("for_confluent_kafka.py", "confluent_kafka"), ("for_kafka_python.py", "kafka")]


def run(source, broker, name):
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", source, broker.bootstrap_servers, name],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize(("program", "library"), CASES, ids=[library for _, library in CASES])
def test_a_program_sees_the_same_when_only_its_import_changes(program, library, kafka_broker_fresh):
    source = (PROGRAMS / program).read_text()
    moved = source.replace(f"from {library}", f"from ottla.compat.{library}")
    assert moved != source
    theirs = run(source, kafka_broker_fresh, "theirs")
    ours = run(moved, kafka_broker_fresh, "ours")
    assert [line.replace("ours", "theirs") for line in ours] == theirs
