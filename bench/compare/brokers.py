"""The two brokers: Apache Kafka from its jars as its own scripts start it, and `ottla broker start`.

    with ApacheKafka(jars, directory) as kafka, Ottla(directory) as ottla: ...

1. Apache Kafka is one KRaft node, controller and broker in one process, formatted before its time is taken. Its JVM
   gets what kafka-server-start.sh gives: a heap of 1 GB and the collector of kafka-run-class.sh. Its settings are those
   of the server.properties it ships with, which are its defaults for one node.
2. Ottla has its defaults too, but for `ottla.durability=replicated`: a produce is answered when the kernel has it, as
   in Apache Kafka, whose defaults never sync for a produce. Ottla's own default for one node would sync first.
3. Both write what they log to nowhere; WALK_VERBOSE=1 shows it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from bench.walk.processes import AnsweringServer, BrokerProcess, free_port

CLUSTER_ID: Final = "b3R0bGEtY29tcGFyZS0wMQ"
FORMAT_LIMIT_S: Final = 60.0
SERVER_HEAP: Final = ("-Xmx1G", "-Xms1G")
JVM: Final = (
    *("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    *("-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
)
PROPERTIES: Final = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class ApacheKafka(AnsweringServer):
    """One node of Apache Kafka with its data in `directory`."""

    name = "Apache Kafka"
    program = ("java",)

    def __init__(self, jars: Path, directory: Path, *settings: str, ports: tuple[int, int] | None = None) -> None:
        """`ports` of a node that was here before are those of its clients and of its controller."""
        port, controller_port = ports or (free_port(), free_port())
        properties = directory / "server.properties"
        text = PROPERTIES.format(port=port, controller_port=controller_port, data=directory / "data")
        properties.write_text("\n".join((text, *settings)))
        path = ("-cp", f"{jars}/*")
        if not (directory / "data").exists():
            what = ("format", "-t", CLUSTER_ID, "-c", str(properties))
            command = ["java", *path, "kafka.tools.StorageTool", *what]
            subprocess.run(command, check=True, capture_output=True, timeout=FORMAT_LIMIT_S)
        super().__init__(port, *SERVER_HEAP, *JVM, *path, "kafka.Kafka", str(properties))


class Ottla(BrokerProcess):
    """Our broker with its data in `directory`."""

    name = "Ottla"

    def __init__(self, directory: Path, *settings: str) -> None:
        super().__init__(directory / "data", settings=("ottla.admin.listener=127.0.0.1:0", *settings))


Broker = ApacheKafka | Ottla
