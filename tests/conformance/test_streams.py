"""Apache's StreamsSmokeTest with exactly_once_v2 against a broker process of ours, left alone and killed meanwhile.

Two processes, as in Kafka's system tests: the driver produces 20,000 records and then compares what the topology's
topics hold with what they must hold, exactly; the application processes them in transactions. It is the hardest user
of transactions that Apache has: offsets, changelogs and results of many tasks in one transaction, ten times a second.
Needs Java and jars (kafka_jars.py) and takes minutes: run by `make test-long`, skipped where they are missing.
"""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.conformance.java_programs import JVM, QUIET, JavaPrograms
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.conformance.our_broker import BrokerProcess
from tests.patience import HANG_S

pytestmark = pytest.mark.long

SMOKE = "org.apache.kafka.streams.tests.StreamsSmokeTest"
TOPICS = (
    *("data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed"),
    *("cnt", "avg", "tagg", "fk"),
)
PARTITIONS = 5
LIMIT_S = 400
STOP_LIMIT_S = 60
FIRST_KILL_S = 25  # the application has joined and is at work
PROPERTIES = """
bootstrap.servers={servers}
state.dir={state}
processing.guarantee=exactly_once_v2
num.stream.threads=2
replication.factor=1
session.timeout.ms=10000
task.timeout.ms=300000
"""


@pytest.fixture
def jars() -> Path:
    try:
        return find_jars("4.3", "streams")
    except JarsMissing as reason:
        pytest.skip(str(reason))


@pytest.fixture
def broker(jars: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap_servers})
        for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS]).values():
            made.result(HANG_S)
        yield process
        assert process.faults() == []


@contextmanager
def application(jars: Path, properties: Path, log: Path) -> Iterator[None]:
    command = ["java", *JVM, QUIET, "-cp", f"{jars}/*", SMOKE, str(properties), "process"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.parametrize("kills", [0, 2])
def test_streams_process_everything_exactly_once(jars, broker, tmp_path, kills):
    properties = tmp_path / "streams.properties"
    properties.write_text(PROPERTIES.format(servers=broker.bootstrap_servers, state=tmp_path / "state"))
    over = threading.Event()

    def kill_now_and_then() -> None:
        for _ in range(kills):
            if over.wait(FIRST_KILL_S):
                return
            broker.kill()
            broker.start()

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        with application(jars, properties, tmp_path / "application.log"):
            printed = JavaPrograms(jars, tmp_path, broker.bootstrap_servers).run(
                SMOKE, str(properties), "run", limit_s=LIMIT_S
            )
    finally:
        over.set()
        killer.join()
    assert "ALL-RECORDS-DELIVERED" in printed
    assert "PROCESSED-MORE-THAN-GENERATED" not in printed
    assert printed.rstrip().endswith("SUCCESS")
    # Streams would recover from a broker that mixes up what it sent; we must not be one.
    assert "OutOfOrderSequenceException" not in (tmp_path / "application.log").read_text()
