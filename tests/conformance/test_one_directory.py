"""One data directory, opened by Apache Kafka 4.3.1 and by us in turn, with the same server.properties.

Back and forth: Apache, Ottla, Apache, Ottla. In it are topics with settings, records of transactions that were
committed and aborted, offsets of groups, SCRAM users, access rules and quotas. After each turn everything is as it was,
and Apache's DumpLogSegments has nothing to say about the metadata log. Needs Java and Kafka's jars: run by
`make test-long`, with one turn of each in `make test`.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conformance.kafka_broker import CLUSTER_ID, KafkaBroker, run_java
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.patience import HANG_S

from ottla import Admin, Consumer, Producer, TopicPartition
from ottla.client.admin.access import AclBinding, AclFilter, ResourceType
from ottla.client.admin.configs import ConfigResource, ConfigResourceType, ConfigSource
from ottla.client.admin.credentials import ScramUpsertion
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.topics import NewTopic

ACCESS = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
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
        text = self.kafka.properties.read_text()
        if is_dynamic:
            lines = [line for line in text.splitlines() if not line.startswith("controller.quorum.voters")]
            lines.append(f"controller.quorum.bootstrap.servers=127.0.0.1:{self.kafka.controller_port}")
            text = "\n".join(lines) + "\n"
        self.kafka.properties.write_text(text)
        self._format = ("--standalone",) if is_dynamic else ()

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


def fill(bootstrap: str) -> None:
    """Everything there is to be kept."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 3, configs={"retention.ms": "86400000"})])
        admin.create_topics([NewTopic("clicks", 1, configs={"cleanup.policy": "compact"}), NewTopic("gone", 1)])
        admin.delete_topics(["gone"])
        admin.create_acls([rule("alice"), rule("bob")])
        admin.delete_acls([AclFilter(principal="User:bob")])
        admin.alter_client_quotas([({"user": "alice"}, {"producer_byte_rate": 1_000_000.0})])
        admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret")])
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


def picture(bootstrap: str) -> dict[str, object]:
    """All that clients can see."""
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
                fill(bootstrap)
            else:
                assert picture(bootstrap) == expected, f"turn {number}, {whose}"
                write(bootstrap, f"turn {number}")
            expected = picture(bootstrap)
            assert len(expected["records"]) == 10 * (number + 1)  # type: ignore[arg-type]
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


def test_apache_kafka_opens_a_directory_of_ours(jars: Path, tmp_path: Path) -> None:
    go(Node(jars, tmp_path, is_dynamic=True), ["ottla", "apache"])
