"""One data directory, opened by Apache Kafka 4.3.1 and by us in turn, with the same server.properties.

Back and forth: Apache, Ottla, Apache, Ottla. In it are topics with settings, records of transactions that were
committed and aborted, offsets of groups, SCRAM users, access rules, quotas and a delegation token. After each turn
everything is as it was, and Apache's StorageTool, DumpLogSegments and MetadataShell have nothing to say against it.
Needs Java and Kafka's jars: run by
`make test-long`, with one turn of each in `make test`.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conformance.kafka_broker import CLUSTER_ID, KafkaBroker, free_ports, run_java
from tests.conformance.kafka_jars import JarsMissing, find_jars, java_command
from tests.patience import HANG_S

from ottla import Admin, Consumer, Producer, TopicPartition
from ottla.client.admin.access import AclBinding, AclFilter, ResourceType
from ottla.client.admin.configs import ConfigResource, ConfigResourceType, ConfigSource
from ottla.client.admin.credentials import Principal, ScramMechanism, ScramUpsertion
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.topics import NewTopic

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
ACCESS = f"""
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={LOGIN}
delegation.token.secret.key=a key that both have
metadata.log.max.record.bytes.between.snapshots=1500
"""
ALICE = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "secret",
}
SHELL = "org.apache.kafka.shell.MetadataShell"
FROM_THE_BEGINNING = {"auto_offset_reset": "earliest"}


@pytest.fixture(scope="module")
def jars() -> Path:
    try:
        return find_jars("4.3")
    except JarsMissing as reason:
        pytest.skip(str(reason))


class Node:
    """One node of one cluster: its directory and its settings."""

    def __init__(self, jars: Path, scratch: Path, *, is_dynamic: bool) -> None:
        self.data = scratch / "data"
        self.log = scratch / "ottla.log"
        self.kafka = KafkaBroker(jars, scratch, self.data, ACCESS)
        (self._port,) = free_ports(1)
        text = self.kafka.properties.read_text().replace(
            f"listeners=PLAINTEXT://127.0.0.1:{self.kafka.port}",
            f"listeners=SASL_PLAINTEXT://{self.for_users},PLAINTEXT://127.0.0.1:{self.kafka.port}",
        )
        text = text.replace("CONTROLLER:PLAINTEXT\n", "CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n")
        if is_dynamic:
            lines = [line for line in text.splitlines() if not line.startswith("controller.quorum.voters")]
            lines.append(f"controller.quorum.bootstrap.servers=127.0.0.1:{self.kafka.controller_port}")
            text = "\n".join(lines) + "\n"
        self.kafka.properties.write_text(text)
        self._format = ("--standalone",) if is_dynamic else ()

    @property
    def for_users(self) -> str:
        """Where one logs in."""
        return f"127.0.0.1:{self._port}"

    def format(self) -> None:
        words = ("format", "-t", CLUSTER_ID, "-c", str(self.kafka.properties), *self._format)
        self.kafka.run("kafka.tools.StorageTool", *words)

    @contextmanager
    def running(self, whose: str) -> Iterator[str]:
        """A broker on the directory; gives where it is."""
        if whose == "apache":
            with self.kafka:
                yield self.kafka.bootstrap
            return
        command = [sys.executable, "-m", "ottla", "broker", "start", "--config", str(self.kafka.properties)]
        with self.log.open("ab") as log:
            process = subprocess.Popen([*command, "--set", "ottla.admin.listener="], stdout=subprocess.PIPE, stderr=log)
        assert process.stdout is not None
        try:
            ready = process.stdout.readline().decode()
            assert "is ready at" in ready, self.log.read_text()[-4000:]
            yield self.kafka.bootstrap
            process.terminate()
            assert process.wait(HANG_S) == 0, self.log.read_text()[-4000:]
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def info(self) -> str:
        """What Apache's StorageTool says of the directory; it fails when that has a problem."""
        return self.kafka.run("kafka.tools.StorageTool", "info", "-c", str(self.kafka.properties))

    def snapshots(self) -> list[Path]:
        return sorted((self.data / "__cluster_metadata-0").glob("0*.checkpoint"))

    def dump(self) -> str:
        """What Apache's tool says of the metadata log."""
        folder = self.data / "__cluster_metadata-0"
        files = ",".join(str(path) for path in sorted(folder.iterdir()) if path.suffix in (".log", ".checkpoint"))
        return run_java(
            self.kafka.jars,
            "org.apache.kafka.tools.DumpLogSegments",
            "--cluster-metadata-decoder",
            "--files",
            files,
            with_errors=True,
        )


def fill(bootstrap: str, for_users: str) -> None:
    """Everything there is to be kept."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 3, configs={"retention.ms": "86400000"})])
        admin.create_topics([NewTopic("clicks", 1, configs={"cleanup.policy": "compact"}), NewTopic("gone", 1)])
        admin.delete_topics(["gone"])
        admin.create_acls([rule("alice"), rule("bob")])
        admin.delete_acls([AclFilter(principal="User:bob")])
        admin.alter_client_quotas([({"user": "alice"}, {"producer_byte_rate": 1_000_000.0})])
        admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret", ScramMechanism.SCRAM_SHA_256)])
    with Admin(bootstrap_servers=for_users, **ALICE) as admin:
        admin.create_delegation_token(renewers=[Principal("User", "bob")], max_lifetime_ms=86_400_000)
    write(bootstrap, "first")


def rule(user: str) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, "orders", f"User:{user}", AclOperation.READ)


def write(bootstrap: str, what: str) -> None:
    """A transaction that counts, one that does not, and a group's offsets."""
    with Producer(bootstrap_servers=bootstrap, transactional_id="writer") as producer:
        producer.init_transactions()
        for commits in (True, False):
            producer.begin_transaction()
            for number in range(10):
                producer.send("orders", f"{what} {number} {commits}".encode(), partition=number % 3)
            producer.commit_transaction() if commits else producer.abort_transaction()
    with Consumer("orders", bootstrap_servers=bootstrap, group_id=f"readers of {what}", **FROM_THE_BEGINNING) as reader:
        end_s, seen = time.monotonic() + HANG_S, 0
        while seen < 10 and time.monotonic() < end_s:
            seen += len(reader.poll(1.0))
        reader.commit()


def picture(bootstrap: str, for_users: str) -> dict[str, object]:
    """All that clients can see."""
    with Admin(bootstrap_servers=for_users, **ALICE) as admin:
        (token,) = admin.describe_delegation_tokens()
    login = {"security.protocol": "SASL_PLAINTEXT", **token.login_settings(ScramMechanism.SCRAM_SHA_256)}
    with Admin(login, bootstrap_servers=for_users) as admin:
        assert admin.describe_cluster().cluster_id == CLUSTER_ID, "the token is a password"
    with Admin(bootstrap_servers=bootstrap) as admin:
        topics = admin.describe_topics(sorted(admin.list_topics()))
        configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics])
        groups = sorted(listing.group_id for listing in admin.list_consumer_groups())
        return {
            "topics": {
                name: (topic.topic_id, [(part.leader, part.replicas, part.in_sync) for part in topic.partitions])
                for name, topic in topics.items()
            },
            "settings": {
                resource.name: {
                    name: entry.value
                    for name, entry in entries.items()
                    if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
                }
                for resource, entries in configs.items()
            },
            "rules": sorted(map(str, admin.describe_acls())),
            "quotas": admin.describe_client_quotas(),
            "users": admin.describe_user_scram_credentials(),
            "features": dict(admin.describe_features().finalized),
            "groups": {
                group: {name: found.offset for name, found in admin.list_consumer_group_offsets(group).items() if found}
                for group in groups
            },
            "token": (token, token.hmac),
            "records": records(bootstrap),
        }


def records(bootstrap: str) -> list[tuple[int, int, bytes | None]]:
    """What a reader of committed records gets, by partition and offset."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed", **FROM_THE_BEGINNING) as reader:
        partitions = [TopicPartition("orders", partition) for partition in range(3)]
        reader.assign(partitions)
        ends = reader.end_offsets(partitions)
        end_s = time.monotonic() + HANG_S
        found: list[tuple[int, int, bytes | None]] = []
        while any(reader.position(name) < ends[name] for name in partitions) and time.monotonic() < end_s:
            found += [(record.partition, record.offset, record.value) for record in reader.poll(1.0)]
        return sorted(found)


def go(node: Node, turns: list[str]) -> None:
    node.format()
    expected: dict[str, object] = {}
    for number, whose in enumerate(turns):
        with node.running(whose) as bootstrap:
            if not number:
                fill(bootstrap, node.for_users)
            else:
                assert picture(bootstrap, node.for_users) == expected, f"turn {number}, {whose}"
                write(bootstrap, f"turn {number}")
            expected = picture(bootstrap, node.for_users)
            assert len(expected["records"]) == 10 * (number + 1)  # type: ignore[arg-type]
        assert "Found problem" not in (said := node.info()), said
        assert CLUSTER_ID in said
        said = node.dump()
        assert "REGISTER_BROKER_RECORD" in said
        assert not [line for line in said.splitlines() if "rror" in line or "orrupt" in line or "kipping" in line], said


@pytest.mark.long
@pytest.mark.parametrize("is_dynamic", [True, False])
def test_a_directory_of_apache_kafka_is_ours_and_theirs_again(jars: Path, tmp_path: Path, is_dynamic: bool) -> None:
    go(Node(jars, tmp_path, is_dynamic=is_dynamic), ["apache", "ottla", "apache", "ottla"])


@pytest.mark.long
def test_a_directory_that_begins_with_us_is_theirs_and_ours_again(jars: Path, tmp_path: Path) -> None:
    go(Node(jars, tmp_path, is_dynamic=True), ["ottla", "apache", "ottla", "apache"])


@pytest.mark.long
def test_apaches_metadata_shell_reads_a_snapshot_of_a_node_of_ours(jars: Path, tmp_path: Path) -> None:
    try:
        shell_jars = find_jars("4.3", "shell")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    node = Node(jars, tmp_path, is_dynamic=True)
    node.format()
    with node.running("ottla") as bootstrap:
        fill(bootstrap, node.for_users)
    assert len(node.snapshots()) > 1, "one is made when the log has grown, beside the bootstrap one"
    commands = "ls /image/topics/byName\ncat /image/cluster/1\ntree /image\nexit\n"
    shell = java_command(shell_jars, SHELL, "--snapshot", str(node.snapshots()[-1]))
    theirs = subprocess.run(shell, input=commands, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    ours = subprocess.run(
        [sys.executable, "-m", "ottla.cli.kafka", "kafka-metadata-shell", "--snapshot", str(node.snapshots()[-1])],
        input=commands,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    ).stdout
    assert "clicks" in theirs
    assert "alice" in theirs
    assert ours == theirs


def test_apache_kafka_opens_a_directory_of_ours(jars: Path, tmp_path: Path) -> None:
    go(Node(jars, tmp_path, is_dynamic=True), ["ottla", "apache"])
