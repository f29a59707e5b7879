"""The same admin session on a node of Apache Kafka 4.3.1 and on ours gives the same records in the metadata log.

Registrations, blocks of producer ids, NoOpRecords and control records aside: they tell of lives, not of what was asked.
Ids that are drawn are called by the order in which they come, and offsets are left out. Needs Java and Kafka's jars.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.conformance.test_one_directory import Node, rule

from ottla import Admin, Producer
from ottla.client.admin.access import AclFilter
from ottla.client.admin.cluster import FeatureUpdate, UpgradeType
from ottla.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, ConfigResourceType
from ottla.client.admin.credentials import ScramDeletion, ScramMechanism, ScramUpsertion
from ottla.client.admin.topics import NewTopic
from ottla.protocol.metadata_log import decode_record
from ottla.protocol.schema import Struct
from ottla.records import RecordStream

OF_A_LIFE = {
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "BrokerRegistrationChangeRecord",
    "NoOpRecord",
    "ProducerIdsRecord",  # a broker of ours asks for its first block at its start
}
DRAWN = {"salt", "stored_key", "server_key", "broker_epoch"}
ZERO, UNASSIGNED = bytes(16), (1).to_bytes(16)


@pytest.fixture(scope="module")
def jars() -> Path:
    try:
        return find_jars("4.3")
    except JarsMissing as reason:
        pytest.skip(str(reason))


def session(bootstrap: str) -> None:
    """One thing after the other, so that there is one order."""
    topic = ConfigResource(ConfigResourceType.TOPIC, "orders")
    brokers = ConfigResource(ConfigResourceType.BROKER, "")
    group = ConfigResource(ConfigResourceType.GROUP, "readers")
    metrics = ConfigResource(ConfigResourceType.CLIENT_METRICS, "slow")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 2, configs={"retention.ms": "1000000", "segment.ms": "60000"})])
        admin.create_topics([NewTopic("gone", 1)])
        admin.create_partitions({"orders": 3})
        admin.incremental_alter_configs({topic: [AlterConfig("retention.ms", "2000000")]})
        admin.incremental_alter_configs({topic: [AlterConfig("segment.ms", operation=AlterOperation.DELETE)]})
        admin.incremental_alter_configs({brokers: [AlterConfig("message.max.bytes", "2000000")]})
        admin.incremental_alter_configs({group: [AlterConfig("consumer.session.timeout.ms", "50000")]})
        admin.incremental_alter_configs({metrics: [AlterConfig("interval.ms", "30000")]})
        admin.alter_client_quotas([({"user": "alice"}, {"producer_byte_rate": 1_000_000.0})])
        admin.alter_client_quotas([({"user": "alice", "client-id": None}, {"request_percentage": 5.5})])
        admin.alter_client_quotas([({"user": "alice"}, {"producer_byte_rate": None})])
        admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret")])
        admin.alter_user_scram_credentials([ScramUpsertion("bob", "secret", ScramMechanism.SCRAM_SHA_256)])
        admin.alter_user_scram_credentials([ScramDeletion("bob", ScramMechanism.SCRAM_SHA_256)])
        admin.create_acls([rule("alice")])
        admin.create_acls([rule("bob")])
        admin.create_acls([rule("bob")])
        admin.delete_acls([AclFilter(principal="User:bob")])
        admin.update_features({"transaction.version": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)})
        admin.update_features({"transaction.version": FeatureUpdate(2)})
        admin.delete_topics(["gone"])
    with Producer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        producer.send("orders", b"x", partition=0).result()


def records(node: Node) -> list[dict[str, Any]]:
    """What the log says of the session."""
    names: dict[bytes, str] = {}
    told = []
    for value in sorted_values(node):
        record, version = decode_record(value)
        if type(record).__name__ not in OF_A_LIFE:
            told.append({"record": type(record).__name__, "version": version, **plain(record, names)})
    return told


def sorted_values(node: Node) -> Iterator[bytes]:
    for path in sorted((node.data / "__cluster_metadata-0").glob("*.log")):
        for batch in RecordStream(path.read_bytes()):
            if not batch.is_control:
                yield from (bytes(value) for _, _, _, value, _ in batch.tuples())


def plain(value: Any, names: dict[bytes, str]) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        is_drawn = bytes(value) not in (ZERO, UNASSIGNED)
        return names.setdefault(bytes(value), f"id {len(names)}") if is_drawn else bytes(value)
    if isinstance(value, list | tuple):
        return [plain(item, names) for item in value]
    if isinstance(value, Struct):
        named = ((name, getattr(value, name)) for name in type(value).__slots__)
        return {name: "drawn" if name in DRAWN else plain(item, names) for name, item in named}
    return value


def test_a_session_gives_the_same_records(jars: Path, tmp_path: Path) -> None:
    told = {}
    for whose in ("apache", "ottla"):
        scratch = tmp_path / whose
        scratch.mkdir()
        node = Node(jars, scratch, is_dynamic=True)
        node.format()
        with node.running(whose) as bootstrap:
            session(bootstrap)
            told[whose] = records(node)  # before it stops: Apache's controller takes the leaders away then
    for number, (theirs, ours) in enumerate(zip(told["apache"], told["ottla"], strict=False)):
        assert ours == theirs, f"record {number}"
    assert len(told["ottla"]) == len(told["apache"])
