"""A cluster of processes on ZooKeeper is stopped, taken over to the metadata log by `ottla storage migrate`, and
started on the directories it has: whatever a client can ask is as it was, and every record is there.

Brokers of Ottla go over to Ottla's controllers; with Java and Kafka's jars (`make test-long`) those of Apache Kafka 3.9
go over to Ottla's and to Apache Kafka 4.3's.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.patience import HANG_S, wait_until

import ottla
from ottla.client.admin.access import AclBinding, AclFilter, AclOperation, PatternType, ResourceType
from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.client.admin.credentials import DelegationToken, ScramMechanism, ScramUpsertion
from ottla.errors import AuthenticationFailed, OttlaError
from ottla.testing.zookeeper import ZooKeeperServer, missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from tests.cluster.judging import KAFKA, OTTLA
from tests.cluster.mixed_cluster import SMALL_JVM
from tests.conformance.java_programs import jars_or_skip

from ottla.cli.lab_cluster import LOOK_EVERY_S, LabFailed, free_ports
from ottla.cluster.store.zookeeper.server import tail
from ottla.storage.directory.checkpoints import META_PROPERTIES_BEFORE, read_meta_properties
from ottla.storage.files import DiskFiles

IDS: Final = (1, 2, 3)
STARTED: Final = {OTTLA: re.compile(rb" is ready at "), KAFKA: re.compile(rb"Kafka ?Server.* started")}
MODULE: Final = "org.apache.kafka.common.security"
USERS: Final = 'username="admin" password="a" user_admin="a" user_alice="pencil"'
COMMON: Final = {
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.login.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required {USERS};",
    "listener.name.login.scram-sha-256.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    "listener.name.login.scram-sha-512.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    "delegation.token.secret.key": "shared by all",
    "super.users": "User:ANONYMOUS;User:alice",
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    "controlled.shutdown.retry.backoff.ms": 200,
    "log.cleaner.dedupe.buffer.size": 2_097_152,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "num.recovery.threads.per.data.dir": 1,
}
ON_ZOOKEEPER: Final = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "password.encoder.secret": "of the old cluster",
    "zookeeper.session.timeout.ms": 6_000,
}
ON_THE_LOG: Final = {
    "process.roles": "broker,controller",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.auto.join.enable": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


class Node:
    """One node's place: its ports, its directories, and the file that it is started with next."""

    def __init__(self, number: int, directory: Path) -> None:
        self.number, self.directory = number, directory
        self.plain, self.login, self.controller = free_ports(3)
        self.data = [directory / "data", directory / "more"]
        self.log = directory / "node.log"
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, name: str, settings: dict[str, object]) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path


class Moving:
    """The cluster, before and after."""

    def __init__(self, directory: Path) -> None:
        self.zookeeper = ZooKeeperServer(directory / "zookeeper")
        self.nodes = {number: Node(number, directory / f"node-{number}") for number in IDS}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{node.plain}" for node in self.nodes.values())

    @property
    def logins(self) -> str:
        return ",".join(f"127.0.0.1:{node.login}" for node in self.nodes.values())

    def old_file(self, number: int) -> Path:
        node = self.nodes[number]
        return node.write(
            "old.properties",
            {
                **COMMON,
                **ON_ZOOKEEPER,
                "broker.id": number,
                "listeners": f"PLAINTEXT://127.0.0.1:{node.plain},LOGIN://127.0.0.1:{node.login}",
                "log.dirs": ",".join(map(str, node.data)),
                "zookeeper.connect": f"{self.zookeeper.connect}/moving",
            },
        )

    def new_file(self, number: int) -> Path:
        node = self.nodes[number]
        listeners = f"PLAINTEXT://127.0.0.1:{node.plain},LOGIN://127.0.0.1:{node.login}"
        return node.write(
            "server.properties",
            {
                **COMMON,
                **ON_THE_LOG,
                "node.id": number,
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{node.controller}",
                "log.dirs": ",".join(map(str, node.data)),
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.nodes[1].controller}",
            },
        )

    def start(self, number: int, file: Path, side: str, jars: Path | None) -> None:
        node = self.nodes[number]
        with node.log.open("wb") as log:
            command = [sys.executable, "-m", "ottla", "broker", "start", "--config", str(file)]
            command += ["--set", "ottla.admin.listener="]
            if side == KAFKA:
                command = ["java", *SMALL_JVM, "-cp", f"{jars}/*", "kafka.Kafka", str(file)]
            node.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        end = time.monotonic() + HANG_S
        while not STARTED[side].search(node.log.read_bytes()):
            if node.process.poll() is not None or time.monotonic() > end:
                raise LabFailed(f"node {number} did not start:\n{tail(node.log)}")
            time.sleep(LOOK_EVERY_S)

    def stop_nodes(self, what: signal.Signals = signal.SIGTERM) -> None:
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is None:
                node.process.send_signal(what)
                try:
                    node.process.wait(60)
                except subprocess.TimeoutExpired:
                    node.process.kill()
                    node.process.wait()

    def migrate(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ottla", "storage", "migrate", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, stdin=subprocess.DEVNULL)


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[Moving]:
    cluster = Moving(tmp_path)
    with cluster.zookeeper:
        try:
            yield cluster
        finally:
            cluster.stop_nodes(signal.SIGKILL)


class Facts(NamedTuple):
    """What clients can ask of it."""

    topics: dict[str, tuple[str, list[tuple[int, ...]]]]
    epochs: dict[str, list[int]]
    settings: dict[str, dict[str, str | None]]
    users: Any
    rules: list[AclBinding]
    quotas: Any
    tokens: list[DelegationToken]
    offsets: Any
    transaction: tuple[int, int]


def facts(admin: Admin) -> Facts:
    names = sorted(admin.list_topics(include_internal=True, timeout=HANG_S))
    found = admin.describe_topics(names, timeout=HANG_S)
    topics = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    brokers = [ConfigResource(ConfigResourceType.BROKER, name) for name in ("", "2")]
    settings = admin.describe_configs([*topics, *brokers], timeout=HANG_S)
    transaction = admin.describe_transactions(["pay"], timeout=HANG_S)["pay"]
    return Facts(
        {name: (str(found[name].topic_id), [each.replicas for each in found[name].partitions]) for name in names},
        {name: [each.leader_epoch or 0 for each in found[name].partitions] for name in names},
        {
            f"{resource.type.name} {resource.name}": {
                name: entry.value for name, entry in entries.items() if "DYNAMIC" in entry.source.name
            }
            for resource, entries in settings.items()
        },
        {user: set(infos) for user, infos in admin.describe_user_scram_credentials(timeout=HANG_S).items()},
        sorted(admin.describe_acls(AclFilter(), timeout=HANG_S)),
        admin.describe_client_quotas(timeout=HANG_S),
        [],
        dict(admin.list_consumer_group_offsets("readers", timeout=HANG_S)),
        (transaction.producer_id, transaction.producer_epoch),
    )


def patiently(ask: Any) -> Any:
    """What a cluster answers that has just been started: coordinators may still be loading."""
    end = time.monotonic() + HANG_S
    while True:
        try:
            return ask()
        except OttlaError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def fill(moving: Moving) -> DelegationToken:
    """Something of everything."""
    with ottla.Admin(bootstrap_servers=moving.bootstrap_servers) as admin:
        topics = [ottla.NewTopic("clicks", 3, 3), ottla.NewTopic("paid", 2, 2), ottla.NewTopic("kept", 1, 1)]
        admin.create_topics(topics, timeout=HANG_S)
        admin.create_topics([ottla.NewTopic("gone", 1, 1)], timeout=HANG_S)
        admin.delete_topics(["gone"], timeout=HANG_S)
        admin.incremental_alter_configs(
            {
                ConfigResource(ConfigResourceType.TOPIC, "clicks"): [AlterConfig("retention.ms", "99000000")],
                ConfigResource(ConfigResourceType.BROKER, ""): [AlterConfig("message.max.bytes", "2000000")],
                ConfigResource(ConfigResourceType.BROKER, "2"): [
                    AlterConfig("leader.replication.throttled.rate", "1000000"),
                ],
            },
            timeout=HANG_S,
        )
        for mechanism in ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512:
            admin.alter_user_scram_credentials([ScramUpsertion("bob", "crayon", mechanism)], timeout=HANG_S)
        admin.create_acls(
            [
                AclBinding(ResourceType.TOPIC, "clicks", "User:bob", AclOperation.READ),
                AclBinding(
                    ResourceType.GROUP, "app-", "User:bob", AclOperation.READ, pattern_type=PatternType.PREFIXED
                ),
                AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:bob", AclOperation.DESCRIBE),
            ],
            timeout=HANG_S,
        )
        quotas = [({"user": "bob"}, {"producer_byte_rate": 1e6}), ({"client-id": None}, {"request_percentage": 150.0})]
        admin.alter_client_quotas([*quotas, ({"ip": "10.1.2.3"}, {"connection_creation_rate": 7.0})], timeout=HANG_S)
    with ottla.Producer(bootstrap_servers=moving.bootstrap_servers) as producer:
        for number in range(300):
            producer.send("clicks", str(number), partition=number % 3)
            producer.send("kept", str(number), partition=0)
    with ottla.Producer(bootstrap_servers=moving.bootstrap_servers, transactional_id="pay") as producer:
        producer.init_transactions()
        for number in range(2):
            with producer.transaction():
                producer.send("paid", f"paid {number}", partition=number)
        producer.begin_transaction()
        producer.send("paid", "never paid", partition=0)
        producer.flush()
        producer.abort_transaction()
    with ottla.Consumer(
        "clicks", group_id="readers", bootstrap_servers=moving.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        seen = 0
        while seen < 100:
            seen += len(consumer.poll(timeout=1.0))
        consumer.commit()
    with alice(moving) as admin:
        return admin.create_delegation_token(timeout=HANG_S)


def alice(moving: Moving) -> Admin:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "pencil"}
    return Admin({"bootstrap.servers": moving.logins, "security.protocol": "SASL_PLAINTEXT", **login})


def told(moving: Moving) -> Facts:
    """What holds when everybody serves and every replica is in sync."""

    def ask() -> Facts:
        with ottla.Admin(bootstrap_servers=moving.bootstrap_servers) as admin, alice(moving) as owner:
            return facts(admin)._replace(tokens=owner.describe_delegation_tokens(timeout=HANG_S))

    found: Facts = patiently(ask)
    return found


def values(moving: Moving, topic: str, count: int) -> list[tuple[int, bytes]]:
    """What committed readers read, in the order of offsets by partition."""
    found: list[tuple[int, int, bytes]] = []
    with ottla.Consumer(
        topic,
        bootstrap_servers=moving.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        group_id=f"all of {topic} {time.monotonic()}",
    ) as consumer:
        end = time.monotonic() + HANG_S
        while len(found) < count and time.monotonic() < end:
            found += [(each.partition, each.offset, each.value or b"") for each in consumer.poll(timeout=1.0)]
    return [(partition, value) for partition, _, value in sorted(found)]


def can_log_in(moving: Moving, login: dict[str, str]) -> bool:
    try:
        with Admin({"bootstrap.servers": moving.logins, "security.protocol": "SASL_PLAINTEXT", **login}) as admin:
            admin.describe_cluster(timeout=HANG_S)
    except AuthenticationFailed:
        return False
    return True


BOB: Final = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "bob", "sasl.password": "crayon"}


def _first(moving: Moving) -> list[str]:
    """How the first voter is taken over."""
    return ["--config", str(moving.new_file(1)), "--standalone", "--zookeeper-config", str(moving.old_file(1))]


def take_over(moving: Moving) -> dict[str, Any]:
    """Every machine, the first one with ZooKeeper; gives what that said."""
    done = moving.migrate(*_first(moving), "--yes", "--json")
    assert done.returncode == 0, done.stderr
    for number in IDS[1:]:
        rest = moving.migrate("--config", str(moving.new_file(number)), "--no-initial-controllers", "--yes")
        assert rest.returncode == 0, rest.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def check_same(before: Facts, after: Facts) -> None:
    for name, of in before._asdict().items():
        if name == "epochs":
            for topic, epochs in of.items():
                assert all(map(int.__le__, epochs, after.epochs[topic])), topic
        else:
            assert getattr(after, name) == of, name


def go_over(moving: Moving, old: tuple[str, Path | None], new: tuple[str, Path | None]) -> None:
    """The whole story, whoever runs before and after."""
    for number in IDS:
        moving.start(number, moving.old_file(number), *old)
    token = fill(moving)
    before = told(moving)
    read = {topic: values(moving, topic, count) for topic, count in (("clicks", 300), ("kept", 300), ("paid", 2))}
    assert [len(each) for each in read.values()] == [300, 300, 2]
    refused = moving.migrate("--config", str(moving.new_file(1)), "--standalone", "--zookeeper", zookeeper(moving))
    assert refused.returncode == 1
    assert "brokers 1, 2, 3 of the cluster are registered" in refused.stderr
    moving.stop_nodes()
    if new[0] == OTTLA:
        with pytest.raises(LabFailed, match="ottla storage migrate"):
            moving.start(1, moving.new_file(1), *new)
    said = take_over(moving)
    assert said["left"] == []
    assert said["taken"]["access_rules"] == 3
    assert said["taken"]["passwords_of_users"] == 2
    assert said["taken"]["delegation_tokens"] == 1
    moving.zookeeper.stop()
    for number in IDS:
        moving.start(number, moving.new_file(number), *new)
    check_same(before, told(moving))
    assert {topic: values(moving, topic, len(of)) for topic, of in read.items()} == read
    assert can_log_in(moving, BOB)
    assert not can_log_in(moving, {**BOB, "sasl.password": "chalk"})
    assert can_log_in(moving, token.login_settings())
    check_producer_ids(moving, said["next_producer_id"], before.transaction[0])
    with ottla.Admin(bootstrap_servers=moving.bootstrap_servers) as admin:
        wait_until(lambda: len(admin.describe_metadata_quorum(timeout=HANG_S).voters) == 3, "three voters")
        wait_until(
            lambda: all(len(each.in_sync) == 3 for each in admin.describe_topics(["clicks"])["clicks"].partitions),
            "every copy is in sync",
        )


def zookeeper(moving: Moving) -> str:
    return f"{moving.zookeeper.connect}/moving"


def check_producer_ids(moving: Moving, following: int, pays: int) -> None:
    """The old transactional id goes on with its producer id, a new one gets one that nobody ever had."""

    def begin(name: str) -> int:
        with ottla.Producer(bootstrap_servers=moving.bootstrap_servers, transactional_id=name) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("paid", name, partition=1)
        with ottla.Admin(bootstrap_servers=moving.bootstrap_servers) as admin:
            found: int = admin.describe_transactions([name], timeout=HANG_S)[name].producer_id
            return found

    assert begin("pay") == pays < following
    assert begin("somebody new") >= following


def test_brokers_of_ours_go_over_with_everything_they_have(moving: Moving) -> None:
    go_over(moving, (OTTLA, None), (OTTLA, None))


@pytest.mark.long
@pytest.mark.parametrize("new", [OTTLA, KAFKA])
def test_brokers_of_kafka_3_9_go_over_with_everything_they_have(moving: Moving, new: str) -> None:
    after = (KAFKA, jars_or_skip("4.3")) if new == KAFKA else (OTTLA, None)
    go_over(moving, (KAFKA, jars_or_skip("3.9")), after)


def test_after_a_power_cut_of_all_everything_comes_back_when_all_come_back(moving: Moving) -> None:
    for number in IDS:
        moving.start(number, moving.old_file(number), OTTLA, None)
    with ottla.Admin(bootstrap_servers=moving.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("clicks", 3, 3)], timeout=HANG_S)
    with ottla.Producer(bootstrap_servers=moving.bootstrap_servers) as producer:
        for number in range(300):
            producer.send("clicks", str(number), partition=number % 3)
    moving.stop_nodes(signal.SIGKILL)
    wait_until(lambda: len(moving.migrate(*_first(moving), "--dry-run").stdout) > 0, "their sessions end", step_s=1)
    said = take_over(moving)
    assert any("several brokers in sync" in each for each in said["otherwise"])
    for number in IDS:
        moving.start(number, moving.new_file(number), OTTLA, None)
    assert len(values(moving, "clicks", 300)) == 300


def test_a_broker_that_was_the_whole_cluster_becomes_a_cluster_of_its_own(moving: Moving) -> None:
    moving.start(1, moving.old_file(1), OTTLA, None)
    with ottla.Admin(bootstrap_servers=moving.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("clicks", 3, 1)], timeout=HANG_S)
        cluster_id = admin.describe_cluster(timeout=HANG_S).cluster_id
        epochs = [each.leader_epoch or 0 for each in admin.describe_topics(["clicks"])["clicks"].partitions]
    with ottla.Producer(bootstrap_servers=moving.bootstrap_servers) as producer:
        for number in range(300):
            producer.send("clicks", str(number), partition=number % 3)
    moving.stop_nodes()
    node = moving.nodes[1]
    settings: dict[str, object] = {"listeners": f"PLAINTEXT://127.0.0.1:{node.plain}"}
    alone = node.write("alone.properties", {**settings, "log.dirs": ",".join(map(str, node.data))})
    done = moving.migrate("--config", str(alone), "--zookeeper", zookeeper(moving), "--yes")
    assert done.returncode == 0, done.stderr
    moving.start(1, alone, OTTLA, None)
    with ottla.Admin(bootstrap_servers=moving.bootstrap_servers) as admin:
        found = admin.describe_cluster(timeout=HANG_S)
        assert (found.cluster_id, [each.id for each in found.nodes]) == (cluster_id, [1])
        later = [each.leader_epoch or 0 for each in admin.describe_topics(["clicks"])["clicks"].partitions]
        assert all(map(int.__lt__, epochs, later))
    assert len(values(moving, "clicks", 300)) == 300


def test_until_somebody_has_started_the_way_back_is_open(moving: Moving) -> None:
    for number in IDS:
        moving.start(number, moving.old_file(number), OTTLA, None)
    with ottla.Admin(bootstrap_servers=moving.bootstrap_servers) as admin:
        admin.create_topics([ottla.NewTopic("clicks", 3, 3)], timeout=HANG_S)
    moving.stop_nodes()
    planned = moving.migrate(*_first(moving), "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "3 partitions" in planned.stdout
    data = moving.nodes[1].data[0]
    assert not (data / "__cluster_metadata-0").exists(), "a plan writes nothing"
    take_over(moving)
    take_over(moving)  # again, as after a crash
    assert (data / META_PROPERTIES_BEFORE).exists()
    for number in IDS:
        back = moving.migrate("--config", str(moving.new_file(number)), "--back", "--yes")
        assert back.returncode == 0, back.stderr
    meta = read_meta_properties(DiskFiles(), data)
    assert meta is not None
    assert (meta.version, meta.node_id) == (0, 1)
    for number in IDS:
        moving.start(number, moving.old_file(number), OTTLA, None)
    with ottla.Admin(bootstrap_servers=moving.bootstrap_servers) as admin:
        assert list(admin.list_topics(timeout=HANG_S)) == ["clicks"]
    moving.stop_nodes()
    take_over(moving)
    moving.start(1, moving.new_file(1), OTTLA, None)
    moving.stop_nodes()
    with pytest.raises(LabFailed, match="taken over to the metadata log"):
        moving.start(1, moving.old_file(1), OTTLA, None)
    back = moving.migrate("--config", str(moving.new_file(1)), "--back", "--yes")
    assert back.returncode == 1
    assert "has started" in back.stderr
