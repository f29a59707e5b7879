"""Access rules in one cluster of Apache Kafka 3.9 and Ottla: written by either side, they act on both.

Everybody is User:ANONYMOUS here, who may do what no rule speaks of; so the rules that act are those that deny. Needs
Java and Kafka's jars (tests/conformance/kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from tests.patience import HANG_S

import ottla
from ottla.client.admin.access import AclBinding, AclFilter, AclPermission, PatternType, ResourceType
from ottla.client.admin.admin import Admin
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.topics import NewTopic
from ottla.errors import TopicAuthorizationFailed
from ottla.testing.zookeeper import missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from kazoo.client import KazooClient
from tests.cluster.judging import KAFKA, OTTLA
from tests.cluster.mixed_cluster import MixedCluster
from tests.conformance.java_programs import jars_or_skip

pytestmark = pytest.mark.long

OURS, KAFKAS = 0, 1
ACLS = "kafka.admin.AclCommand"
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 2,
    "transaction.state.log.num.partitions": 2,
}
DENIAL = AclBinding(
    ResourceType.TOPIC,
    "by-ours",
    "User:ANONYMOUS",
    AclOperation.WRITE,
    AclPermission.DENY,
    pattern_type=PatternType.PREFIXED,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    jars = jars_or_skip("3.9")
    mixed = MixedCluster(tmp_path_factory.mktemp("mixed"), [OTTLA, KAFKA], jars=jars, settings=SETTINGS)
    try:
        mixed.start(first=KAFKAS)
        yield mixed
    finally:
        mixed.stop()


def admin_of(cluster: MixedCluster, number: int) -> Admin:
    return Admin(bootstrap_servers=cluster.brokers[number].address)


def make_topic(cluster: MixedCluster, name: str) -> None:
    """With a partition led by each side."""
    with admin_of(cluster, OURS) as admin:
        admin.create_topics(
            [NewTopic(name, replica_assignments={0: [OURS, KAFKAS], 1: [KAFKAS, OURS]})], timeout=HANG_S
        )
    cluster.wait_for_leaders(name, [OURS, KAFKAS])


def is_written(cluster: MixedCluster, topic: str, partition: int) -> bool:
    with ottla.Producer(bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=False) as producer:
        try:
            producer.send(topic, b"x", partition=partition).result(HANG_S)
        except TopicAuthorizationFailed:
            return False
    return True


def wait_until_written(cluster: MixedCluster, topic: str, wanted: bool) -> None:
    end = time.monotonic() + HANG_S
    for partition in (0, 1):
        while is_written(cluster, topic, partition) is not wanted:
            assert time.monotonic() < end, f"partition {partition}, led by {[OURS, KAFKAS][partition]}"
            time.sleep(0.1)


def test_what_kafkas_tool_writes_acts_on_both_sides(cluster: MixedCluster) -> None:
    make_topic(cluster, "by-kafka")
    assert is_written(cluster, "by-kafka", 0)
    denial = ("--deny-principal", "User:ANONYMOUS", "--operation", "Write", "--topic", "by-kafka")
    cluster.tool(ACLS, "--bootstrap-server", cluster.brokers[KAFKAS].address, "--add", *denial)
    wait_until_written(cluster, "by-kafka", wanted=False)
    with admin_of(cluster, OURS) as admin:
        (found,) = admin.describe_acls(AclFilter(resource_name="by-kafka"), timeout=HANG_S)
        assert (found.permission, found.operation) == (AclPermission.DENY, AclOperation.WRITE)
    cluster.tool(ACLS, "--bootstrap-server", cluster.brokers[KAFKAS].address, "--remove", "--force", *denial)
    wait_until_written(cluster, "by-kafka", wanted=True)


def test_what_we_write_acts_on_both_sides(cluster: MixedCluster) -> None:
    make_topic(cluster, "by-ours-too")
    with admin_of(cluster, OURS) as admin:
        admin.create_acls([DENIAL], timeout=HANG_S)
        wait_until_written(cluster, "by-ours-too", wanted=False)
        printed = cluster.tool(ACLS, "--bootstrap-server", cluster.brokers[KAFKAS].address, "--list")
        assert "resourceType=TOPIC, name=by-ours, patternType=PREFIXED" in printed
        assert "principal=User:ANONYMOUS, host=*, operation=WRITE, permissionType=DENY" in printed
        admin.delete_acls([AclFilter(resource_name="by-ours")], timeout=HANG_S)
    wait_until_written(cluster, "by-ours-too", wanted=True)


def test_both_sides_edit_the_rules_of_one_resource_and_none_is_lost(cluster: MixedCluster) -> None:
    with admin_of(cluster, OURS) as ours, admin_of(cluster, KAFKAS) as theirs:
        for number in range(20):
            for side, admin in (("ours", ours), ("theirs", theirs)):
                rule = AclBinding(ResourceType.GROUP, "shared", f"User:{side}{number}", AclOperation.READ)
                admin.create_acls([rule], timeout=HANG_S)
        wanted = {f"User:{side}{number}" for side in ("ours", "theirs") for number in range(20)}
        for admin in (ours, theirs):
            end = time.monotonic() + HANG_S
            while {each.principal for each in admin.describe_acls(AclFilter(resource_name="shared"))} != wanted:
                assert time.monotonic() < end
                time.sleep(0.1)
    client = KazooClient(cluster.zookeeper.connect)
    client.start(timeout=HANG_S)
    try:
        kept = json.loads(client.get("/kafka-acl/Group/shared")[0])
    finally:
        client.stop()
        client.close()
    assert {each["principal"] for each in kept["acls"]} == wanted
