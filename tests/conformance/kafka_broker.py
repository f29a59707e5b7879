"""One Apache Kafka broker on loopback, with a data directory of its own: to write logs, or to judge ours.

    broker = KafkaBroker(find_jars("4.3"), scratch, data)
    broker.format()                                 # once, for a new data directory
    with broker: ...                                # started; stopped in order at the end

1. Controller and broker are one process, on two free ports of 127.0.0.1. Nothing of its identity depends on them, so
   a data directory can be opened again elsewhere.
2. `start` returns when clients are answered, or raises with the end of the broker's log.
3. `stop` is a stop in order, `kill` is kill -9. No process outlives the `with`.
"""

import contextlib
import re
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.conformance.kafka_jars import java_command

CLUSTER_ID = "b3R0bGEtZ29sZGVuLTAwMg"
START_LIMIT_S = 120
STOP_LIMIT_S = 60
LOG_TAIL_BYTES = 4000

PROPERTIES = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
transaction.max.timeout.ms=900000000
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=2097152
log.cleaner.backoff.ms=300
num.network.threads=1
num.io.threads=2
"""


class KafkaBroker:
    """A process, its properties file and its log, all in `scratch`."""

    def __init__(self, jars: Path, scratch: Path, data: Path, settings: str = "") -> None:
        self.jars = jars
        self.data = data
        self.log = scratch / "broker.log"
        self.properties = scratch / "broker.properties"
        self.port, self.controller_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        text = PROPERTIES.format(port=self.port, controller_port=self.controller_port, data=data)
        self.properties.write_text(text + settings)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def bootstrap_controller(self) -> str:
        return f"127.0.0.1:{self.controller_port}"

    def format(self) -> None:
        """Make the data directory one of our cluster."""
        self.run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.properties))

    def run(self, main_class: str, *arguments: str, limit_s: int = 300) -> str:
        """What another program of the same jars prints."""
        return run_java(self.jars, main_class, *arguments, limit_s=limit_s)

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = java_command(self.jars, "kafka.Kafka", str(self.properties))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_until_answering()

    def stop(self) -> None:
        """In order; killed if it does not come to an end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None

    def kill(self) -> None:
        """As if the power of the process had failed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def complaints(self) -> list[str]:
        """What the broker logged as a warning or an error about logs on its disk."""
        lines = self.log.read_text(errors="replace").splitlines()
        loud = [line for line in lines if re.search(r"\b(WARN|ERROR)\b", line) and "is deprecated" not in line]
        return [line for line in loud if re.search(ABOUT_LOGS, line)]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_until_answering(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.2)
        tail = self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        self.kill()
        raise AssertionError(f"Apache Kafka did not start:\n{tail}")


ABOUT_LOGS = r"(?i)corrupt|log(segment|loader|manager|cleaner)|unifiedlog|index|snapshot|checkpoint|recover"


def run_java(jars: Path, main_class: str, *arguments: str, limit_s: int = 300, with_errors: bool = False) -> str:
    """What a program of the jars prints, after what it prints as errors if wanted; AssertionError if it fails."""
    command = java_command(jars, main_class, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
    assert done.returncode == 0, f"{main_class} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-8000:]}"
    return done.stderr * with_errors + done.stdout


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
