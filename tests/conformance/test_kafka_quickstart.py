"""Kafka's quickstart with our commands of Kafka's names, all of it, with the settings that Kafka ships.

Only the ports (any that are free) and the directory differ from Kafka's config/server.properties.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import HANG_S

SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:0,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,\
SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data}
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
ottla.admin.listener=
"""


def kafka(*words: str, typed: str = "") -> str:
    """What a command prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli.kafka", *words],
        input=typed,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


class RunningServer:
    def __init__(self, config: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.kafka", "kafka-server-start", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.bootstrap = self._bootstrap()

    def _bootstrap(self) -> str:
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if found := re.search(r"localhost:(\d+)", line):
                return found[0]
        raise AssertionError("".join(seen))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=HANG_S)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(SERVER_PROPERTIES.format(data=tmp_path / "kraft-combined-logs"))
    return path


def test_kafkas_quickstart_runs_to_its_end_and_the_broker_starts_again(config: Path) -> None:
    cluster_id = kafka("kafka-storage", "random-uuid").strip()
    kafka("kafka-storage", "format", "--standalone", "-t", cluster_id, "-c", str(config))
    server = RunningServer(config)
    try:
        where = ("--bootstrap-server", server.bootstrap)
        assert "Created topic quickstart-events." in kafka(
            "kafka-topics", "--create", "--topic", "quickstart-events", *where
        )
        assert "PartitionCount: 1" in kafka("kafka-topics", "--describe", "--topic", "quickstart-events", *where)
        events = "This is my first event\nThis is my second event\n"
        kafka("kafka-console-producer", "--topic", "quickstart-events", *where, typed=events)
        read = ("kafka-console-consumer", "--topic", "quickstart-events", "--from-beginning", "--max-messages", "2")
        assert kafka(*read, *where) == events
        assert re.search(r"kraft.version .*FinalizedVersionLevel: 1", kafka("kafka-features", *where, "describe"))
        status = kafka("kafka-metadata-quorum", *where, "describe", "--status")
        assert re.search(r"LeaderId: +1\n", status)
        kafka("kafka-features", *where, "upgrade", "--release-version", "4.3")
        assert cluster_id in kafka("kafka-cluster", "cluster-id", *where)
    finally:
        server.stop()
    server = RunningServer(config)
    try:
        assert kafka(*read, "--bootstrap-server", server.bootstrap) == events
    finally:
        server.stop()
