"""Spark's own connector for Kafka (a jar) reads and writes our broker, batch and stream, and sees the rows we see."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.kafka_jars import JarsMissing, find_jars

import ottla
from ottla.testing import KafkaBroker

ROOT = Path(__file__).parents[2]
LIMIT_S = 300
RECORDS = 500


@pytest.mark.matrix("Spark's own connector 4.2 on 4.3 with our broker: batch and stream")
@pytest.mark.long
def test_the_jvm_connector_reads_and_writes_our_broker(tmp_path: Path) -> None:
    try:
        find_jars("spark-4.3", "spark")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    with KafkaBroker() as broker:
        written = fill(broker.bootstrap_servers)
        found = run("jvm_connector.py", broker.bootstrap_servers, str(tmp_path))
    assert found["batch"] == written
    assert found["batch copy, read by ours"] == written
    assert found["stream copy"] == written
    assert found["rows that differ"] == 0
    ours, theirs = found["schemas"]
    assert ours == theirs


@pytest.mark.matrix("Spark's own connector 4.2 on 4.3 with our broker: real-time mode")
@pytest.mark.long
def test_the_jvm_connector_in_real_time_mode(tmp_path: Path) -> None:
    try:
        find_jars("spark-4.3", "spark")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    with KafkaBroker() as broker:
        found = run("real_time.py", broker.bootstrap_servers, str(tmp_path))
    assert found["values"] == [f"VALUE {number}" for number in range(20)]
    assert found["before the end of the batch"] is True


@pytest.mark.long
def test_the_static_side_of_a_stream_is_as_new_as_the_jvm_connectors() -> None:
    try:
        find_jars("spark-4.3", "spark")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    with KafkaBroker() as broker:
        found = run("static_side.py", broker.bootstrap_servers)
    assert found["kafka"] == [[f"customer {each}" for each in range(batch + 1)] for batch in range(4)]
    assert found["ottla"] == found["kafka"]


def fill(servers: str) -> list[str]:
    with ottla.Admin(bootstrap_servers=servers) as admin:
        topics = [ottla.NewTopic(name, 3, 1) for name in ("source", "batch-copy", "stream-copy")]
        admin.create_topics(topics)
    values = [f"value {number:04}" for number in range(RECORDS)]
    with ottla.Producer(bootstrap_servers=servers, transactional_id="fill") as producer:
        producer.init_transactions()
        for half in (values[::2], values[1::2]):
            with producer.transaction():
                for value in half:
                    key = None if value.endswith("7") else value[-2:].encode()
                    producer.send("source", value.encode(), key=key, headers=[("h", b"1")] if key else None)
    return values


def run(program: str, *arguments: str) -> dict[str, object]:
    command = [sys.executable, str(Path(__file__).parent / "programs" / program), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer
