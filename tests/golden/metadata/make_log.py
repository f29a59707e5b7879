"""Makes the golden metadata logs: the files that one Apache controller and two Apache brokers leave.

    python -m tests.golden.metadata.make_log

kafka-4.3.1.tar.xz beside this file has

    controller/    the controller's directory: __cluster_metadata-0 with log, snapshots and quorum-state,
                   bootstrap.checkpoint, meta.properties
    broker/        the first of the two log directories of broker 2, without the logs of topics

What was done is in `drive`: topics, reassignments, settings, quotas, users, rules, tokens, and brokers that stop, die
and come back. Needs Java and the jars, which kafka_jars.py finds; takes about a minute.
"""

import contextlib
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.conformance.kafka_broker import free_ports, run_java
from tests.conformance.kafka_jars import RELEASES, find_jars, java_command

from ottla.client.admin.access import AclBinding, AclFilter, AclPermission, PatternType, ResourceType
from ottla.client.admin.admin import Admin
from ottla.client.admin.cluster import FeatureUpdate, UpgradeType
from ottla.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, ConfigResourceType
from ottla.client.admin.credentials import ScramDeletion, ScramMechanism, ScramUpsertion
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.topics import NewTopic
from ottla.values import TopicPartition

HERE = Path(__file__).parent
LINE = "4.3"
CLUSTER_ID = "b3R0bGEtZ29sZGVuLTAwMw"
START_LIMIT_S = 90
NOT_KEPT = (".index", ".timeindex")
SNAPSHOT_BYTES = 6_000
"""So many bytes of records, and the controller makes another snapshot."""

COMMON = """
node.id={node}
log.dirs={directories}
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
allow.everyone.if.no.acl.found=true
delegation.token.secret.key=golden-secret
metadata.log.max.record.bytes.between.snapshots={snapshot_bytes}
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
num.network.threads=1
num.io.threads=2
"""
CONTROLLER = """
process.roles=controller
listeners=CONTROLLER://127.0.0.1:{controller_port}
"""
BROKER = """
process.roles=broker
listeners=PLAINTEXT://127.0.0.1:{port},CLIENTS://127.0.0.1:{client_port}
broker.rack=rack-{node}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
 user_admin="golden-secret";
listener.name.clients.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"""


class Node:
    """One process of Apache Kafka."""

    def __init__(self, jars: Path, scratch: Path, node: int, directories: int, ports: list[int]) -> None:
        self._jars = jars
        self.directories = [scratch / f"node-{node}-{number}" for number in range(directories)]
        self.port, self.client_port = ports[node], ports[node + 3]
        self._properties = scratch / f"node-{node}.properties"
        self._log = scratch / f"node-{node}.log"
        self._process: subprocess.Popen[bytes] | None = None
        role = CONTROLLER if node == 1 else BROKER
        text = (COMMON + role).format(
            node=node,
            directories=",".join(map(str, self.directories)),
            controller_port=ports[1],
            port=self.port,
            client_port=self.client_port,
            snapshot_bytes=SNAPSHOT_BYTES,
        )
        self._properties.write_text(text)

    def format(self, *options: str) -> None:
        run_java(
            self._jars, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties), *options
        )

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = java_command(self._jars, "kafka.Kafka", str(self._properties))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(lambda: is_open(self.port), f"port {self.port}; see {self._log}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {START_LIMIT_S} s: {what}")
        time.sleep(0.2)


@contextlib.contextmanager
def cluster(scratch: Path) -> Iterator[list[Node]]:
    """One controller (node 1) and two brokers, formatted and started; killed at the end."""
    jars = find_jars(LINE)
    ports = [0, *free_ports(6)]
    nodes = [Node(jars, scratch, node, directories, ports) for node, directories in ((1, 1), (2, 2), (3, 1))]
    try:
        nodes[0].format("--standalone", "-S", "SCRAM-SHA-256=[name=alice,password=golden-secret,iterations=4096]")
        for node in nodes[1:]:
            node.format()
        for node in nodes:
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def drive(nodes: list[Node]) -> None:
    """A session of everything that an administrator does."""
    _, first, second = nodes
    with Admin(bootstrap_servers=f"127.0.0.1:{first.port}") as admin:
        wait_for(lambda: len(admin.describe_cluster().nodes) == 2, "two brokers")
        topics(admin)
        settings(admin)
        access(admin)
    with Admin(
        bootstrap_servers=f"127.0.0.1:{first.client_port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="admin",
        sasl_password="golden-secret",
    ) as admin:
        tokens(admin)
    with Admin(bootstrap_servers=f"127.0.0.1:{first.port}") as admin:
        second.stop()
        second.start()
        wait_for(lambda: in_sync(admin, "pairs"), "all in sync")
        admin.elect_leaders()
        second.kill()
        wait_for(lambda: not in_sync(admin, "pairs"), "broker 3 is fenced")
        second.start()
        wait_for(lambda: in_sync(admin, "pairs"), "all in sync again")
        admin.create_topics([NewTopic("last", 1, 1)])
    for node in (second, first):
        node.stop()
    time.sleep(1)  # some signs of life
    nodes[0].stop()


def in_sync(admin: Admin, topic: str) -> bool:
    found = admin.describe_topics([topic])[topic]
    return all(len(each.in_sync) == len(each.replicas) for each in found.partitions)


def topics(admin: Admin) -> None:
    admin.create_topics([NewTopic("pairs", 4, 2, {"min.insync.replicas": "2"}), NewTopic("gone", 2, 1)])
    admin.create_topics([NewTopic("moving", replica_assignments={0: [2], 1: [3]})])
    admin.create_partitions({"pairs": 6})
    admin.delete_topics(["gone"])
    admin.alter_partition_reassignments({TopicPartition("moving", 0): [3], TopicPartition("moving", 1): [2, 3]})
    wait_for(lambda: not admin.list_partition_reassignments(), "the reassignment")


def settings(admin: Admin) -> None:
    topic = ConfigResource(ConfigResourceType.TOPIC, "pairs")
    admin.incremental_alter_configs({topic: [AlterConfig("retention.ms", "86400000")]})
    admin.incremental_alter_configs({topic: [AlterConfig("retention.ms", operation=AlterOperation.DELETE)]})
    for kind, name, key, text in (
        (ConfigResourceType.BROKER, "", "log.cleaner.threads", "2"),
        (ConfigResourceType.BROKER, "2", "log.cleaner.backoff.ms", "20000"),
        (ConfigResourceType.CLIENT_METRICS, "watch", "interval.ms", "60000"),
        (ConfigResourceType.GROUP, "workers", "consumer.session.timeout.ms", "50000"),
    ):
        admin.incremental_alter_configs({ConfigResource(kind, name): [AlterConfig(key, text)]})
    admin.alter_client_quotas([({"user": "alice", "client-id": None}, {"producer_byte_rate": 1024.0})])
    admin.alter_client_quotas([({"ip": "127.0.0.9"}, {"connection_creation_rate": 10.0})])
    admin.alter_client_quotas([({"user": None}, {"request_percentage": 50.0, "consumer_byte_rate": 2048.0})])
    admin.alter_client_quotas([({"user": None}, {"request_percentage": None})])
    admin.update_features({"share.version": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)})


def access(admin: Admin) -> None:
    rules = [
        AclBinding(ResourceType.TOPIC, "pairs", "User:alice", AclOperation.READ),
        AclBinding(
            *(ResourceType.TOPIC, "pa", "User:bob", AclOperation.ALL),
            *(AclPermission.DENY, "127.0.0.1", PatternType.PREFIXED),
        ),
        AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:carol", AclOperation.ALTER),
    ]
    admin.create_acls(rules)
    admin.delete_acls([AclFilter(principal="User:bob")])
    for user in ("bob", "carol"):
        admin.alter_user_scram_credentials([ScramUpsertion(user, "golden-secret", iterations=4096)])
    admin.alter_user_scram_credentials([ScramDeletion("bob", ScramMechanism.SCRAM_SHA_512)])


def tokens(admin: Admin) -> None:
    kept = admin.create_delegation_token()
    gone = admin.create_delegation_token(max_lifetime_ms=60_000)
    wait_for(lambda: len(admin.describe_delegation_tokens()) == 2, "both tokens")
    admin.renew_delegation_token(kept.hmac)
    admin.expire_delegation_token(gone.hmac)


def keep(nodes: list[Node], archive: Path) -> None:
    """The files of the metadata log of the controller and of broker 2."""
    with tarfile.open(archive, "w:xz") as tar:
        for name, directory in (("controller", nodes[0].directories[0]), ("broker", nodes[1].directories[0])):
            for path in sorted(directory.rglob("*")):
                inside = path.relative_to(directory)
                is_metadata = len(inside.parts) == 1 or inside.parts[0] == "__cluster_metadata-0"
                if path.is_file() and is_metadata and path.suffix not in NOT_KEPT and path.name != ".lock":
                    tar.add(path, f"{name}/{inside}")


def make(directory: Path = HERE) -> Path:
    """The archive, in this directory."""
    archive = directory / f"kafka-{RELEASES[LINE]}.tar.xz"
    with tempfile.TemporaryDirectory() as name, cluster(Path(name)) as nodes:
        drive(nodes)
        keep(nodes, archive)
    return archive


if __name__ == "__main__":
    make()
