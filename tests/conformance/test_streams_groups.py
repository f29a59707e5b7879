"""Kafka Streams 4.3 with group.protocol=streams and exactly_once_v2 against a broker process of ours.

The short one runs a word count in one process with two threads: the broker makes the repartition topic and the
changelog, assigns the tasks, and Apache's tool and our own client describe the group. The long ones kill processes of
the application and the broker meanwhile, and run Apache's StreamsSmokeTest. Needs Java and jars (kafka_jars.py).
"""

import itertools
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.conformance.java_programs import JVM, QUIET, JavaPrograms
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.test_streams import FIRST_KILL_S, LIMIT_S, SMOKE, STOP_LIMIT_S, TOPICS
from tests.conformance.word_count import APPLICATION, PARTITIONS, WordCounts, every_count_once
from tests.patience import HANG_S, wait_until

from ottla import Admin
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType

LINES = ["to be or not to be", "that is the question", "to sleep no more", "be not afraid"]
# Members hear of a change in half a second, and a dead one is found in six.
QUICK = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
}
KILLS = 2
SMOKE_PROPERTIES = """
bootstrap.servers={servers}
state.dir={state}
group.protocol=streams
processing.guarantee=exactly_once_v2
num.stream.threads=2
replication.factor=1
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
    with BrokerProcess(tmp_path, QUICK) as process:
        yield process
        assert process.faults() == []


def test_kafka_streams_counts_every_word_exactly_once(jars, broker, tmp_path):
    with (
        WordCounts(jars, tmp_path, broker.bootstrap_servers) as application,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        instance = application.start()
        application.write(*LINES)
        assert application.counted(len(" ".join(LINES).split())) == every_count_once(LINES)
        described = admin.describe_streams_groups([APPLICATION])[APPLICATION]
        assert described.state == "Stable"
        tasks = [task for member in described.members for task in member.assignment.active]
        assert sorted(tasks) == [(name, each) for name in "01" for each in range(PARTITIONS)]
        topics = admin.describe_topics([f"{APPLICATION}-words-repartition", f"{APPLICATION}-counts-changelog"])
        assert [len(each.partitions) for each in topics.values()] == [PARTITIONS, PARTITIONS]
        assert instance.stop() in (0, 143)
        wait_until(lambda: admin.describe_streams_groups([APPLICATION])[APPLICATION].state == "Empty", "all have left")


@pytest.mark.long
def test_counts_stay_exact_though_processes_and_broker_are_killed(jars, broker, tmp_path):
    lines = LINES * 20
    written = 0
    with WordCounts(jars, tmp_path, broker.bootstrap_servers) as application:
        instances = [application.start(), application.start()]
        for each in instances:
            each.wait_until_running()
        for step in ("process", "broker", "process", "broker"):
            application.write(*lines)
            written += 1
            if step == "process":
                instances.pop(0).kill()
                instances.append(application.start())
            else:
                broker.kill()
                broker.start()
        expected = every_count_once(lines * written)
        assert application.counted(sum(map(len, expected.values()))) == expected


@pytest.mark.long
def test_standby_tasks_are_kept_elsewhere_and_take_over(jars, broker, tmp_path):
    everyone = ConfigResource(ConfigResourceType.GROUP, APPLICATION)
    with (
        WordCounts(jars, tmp_path, broker.bootstrap_servers) as application,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        admin.incremental_alter_configs({everyone: [AlterConfig("streams.num.standby.replicas", "1")]})
        instances = [application.start(), application.start()]
        for each in instances:
            each.wait_until_running()
        application.write(*LINES)
        stateful = {("1", each) for each in range(PARTITIONS)}

        def copies() -> dict[tuple[str, int], set[str]]:
            """Every process that has a task of the store, active or standing by."""
            found: dict[tuple[str, int], set[str]] = {each: set() for each in stateful}
            for member in admin.describe_streams_groups([APPLICATION])[APPLICATION].members:
                for task in stateful & {*member.assignment.active, *member.assignment.standby}:
                    found[task].add(member.process_id)
            return found

        wait_until(lambda: all(len(each) == 2 for each in copies().values()), "every store has a copy elsewhere")
        instances.pop(0).kill()
        application.write(*LINES)
        expected = every_count_once(LINES * 2)
        assert application.counted(sum(map(len, expected.values()))) == expected
        wait_until(lambda: all(len(each) == 1 for each in copies().values()), "the survivor has every store")


@pytest.mark.long
def test_the_streams_tool_describes_resets_and_deletes(jars, broker, tmp_path):
    tools = JavaPrograms(find_jars("4.3"), tmp_path / "tools", broker.bootstrap_servers)
    command = "org.apache.kafka.tools.streams.StreamsGroupCommand"
    with WordCounts(jars, tmp_path, broker.bootstrap_servers) as application:
        instance = application.start()
        application.write(*LINES)
        application.counted(len(" ".join(LINES).split()))
        assert APPLICATION in tools.tool(command, "--list")
        assert "Stable" in tools.tool(command, "--describe", "--group", APPLICATION, "--state")
        members = tools.tool(command, "--describe", "--group", APPLICATION, "--members")
        assert "ACTIVE" in members.upper()
        offsets = tools.tool(command, "--describe", "--group", APPLICATION)
        assert f"{APPLICATION}-words-repartition" in offsets
        instance.stop()
    wait_until(lambda: "Empty" in tools.tool(command, "--describe", "--group", APPLICATION, "--state"), "all have left")
    # A topic by name must have offsets of all its partitions; few lines do not reach all of them.
    reset = ("--reset-offsets", "--group", APPLICATION, "--all-input-topics", "--to-earliest", "--execute")
    assert "lines" in tools.tool(command, *reset)
    tools.tool(command, "--delete", "--group", APPLICATION)
    assert APPLICATION not in tools.tool(command, "--list")


@pytest.mark.long
@pytest.mark.parametrize("victim", ["nobody", "application", "broker"])
def test_the_smoke_test_processes_everything_exactly_once(jars, broker, tmp_path, victim):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, 5, 1) for name in TOPICS]).values():
        made.result(HANG_S)
    over = threading.Event()
    started: list[subprocess.Popen[bytes]] = []
    numbers = itertools.count()

    def start() -> subprocess.Popen[bytes]:
        number = next(numbers)
        properties = tmp_path / f"smoke-{number}.properties"
        properties.write_text(
            SMOKE_PROPERTIES.format(servers=broker.bootstrap_servers, state=tmp_path / f"state-{number}")
        )
        command = ["java", *JVM, QUIET, "-cp", f"{jars}/*", SMOKE, str(properties), "process"]
        with (tmp_path / f"smoke-{number}.log").open("wb") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log))
        return started[-1]

    def kill_now_and_then() -> None:
        # Twice, while records are written: what is open when the driver judges would be waited for in vain.
        for _ in range(0 if victim == "nobody" else KILLS):
            if over.wait(FIRST_KILL_S):
                return
            if victim == "broker":
                broker.kill()
                broker.start()
            else:
                started[0].kill()
                started[0].wait()
                del started[0]
                start()

    start()
    start()
    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        printed = JavaPrograms(jars, tmp_path, broker.bootstrap_servers).run(
            SMOKE, str(tmp_path / "smoke-0.properties"), "run", limit_s=LIMIT_S
        )
    finally:
        over.set()
        killer.join()
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    assert "ALL-RECORDS-DELIVERED" in printed
    assert "PROCESSED-MORE-THAN-GENERATED" not in printed
    assert printed.rstrip().endswith("SUCCESS")
