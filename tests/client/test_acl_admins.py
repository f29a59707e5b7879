"""Access rules by the admin clients that people have: confluent-kafka, kafka-python and ours, on one broker of ours."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka.admin as confluent
import kafka.admin as kafka_python
import pytest
from confluent_kafka.error import KafkaException
from tests.patience import HANG_S

from ottla.client.admin.access import AclBinding, AclFilter, AclPermission, PatternType, ResourceType
from ottla.client.admin.admin import Admin
from ottla.client.admin.operations import AclOperation
from ottla.testing import KafkaBroker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
RULES = {
    AclBinding(ResourceType.TOPIC, "orders", "User:confluent", AclOperation.READ),
    AclBinding(
        ResourceType.GROUP,
        "app-",
        "User:python",
        AclOperation.ALL,
        AclPermission.DENY,
        "10.0.0.1",
        PatternType.PREFIXED,
    ),
    AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:ours", AclOperation.ALTER),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with KafkaBroker(settings) as running:
        yield running


@pytest.fixture
def ours(broker: KafkaBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


def confluent_rule(
    name: str = "orders", resource: confluent.ResourceType = confluent.ResourceType.TOPIC
) -> confluent.AclBinding:
    return confluent.AclBinding(
        resource,
        name,
        confluent.ResourcePatternType.LITERAL,
        "User:confluent",
        "*",
        confluent.AclOperation.READ,
        confluent.AclPermissionType.ALLOW,
    )


def python_rule() -> kafka_python.ACL:
    return kafka_python.ACL(
        "User:python",
        "10.0.0.1",
        kafka_python.ACLOperation.ALL,
        kafka_python.ACLPermissionType.DENY,
        kafka_python.ResourcePattern(
            kafka_python.ResourceType.GROUP, "app-", kafka_python.ACLResourcePatternType.PREFIXED
        ),
    )


def test_each_client_creates_a_rule_that_all_of_them_see_and_delete(broker: KafkaBroker, ours: Admin) -> None:
    theirs = confluent.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    python = kafka_python.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        for future in theirs.create_acls([confluent_rule()]).values():
            future.result(HANG_S)
        assert len(python.create_acls([python_rule()])["succeeded"]) == 1
        ours.create_acls([AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:ours", AclOperation.ALTER)])

        assert set(ours.describe_acls(AclFilter())) == RULES
        everything = confluent.AclBindingFilter(
            confluent.ResourceType.ANY,
            None,
            confluent.ResourcePatternType.ANY,
            None,
            None,
            confluent.AclOperation.ANY,
            confluent.AclPermissionType.ANY,
        )
        assert {each.principal for each in theirs.describe_acls(everything).result(HANG_S)} == {
            rule.principal for rule in RULES
        }
        match = kafka_python.ACLFilter(
            None,
            None,
            kafka_python.ACLOperation.ANY,
            kafka_python.ACLPermissionType.ANY,
            kafka_python.ResourcePatternFilter(
                kafka_python.ResourceType.GROUP, "app-1", kafka_python.ACLResourcePatternType.MATCH
            ),
        )
        found, error = python.describe_acls(match)
        assert (found, error.errno) == ([python_rule()], 0)

        ((_, gone, error),) = python.delete_acls([match])
        assert (gone, error.errno) == ([python_rule()], 0)
        (deleted,) = theirs.delete_acls([everything]).values()
        assert {each.principal for each in deleted.result(HANG_S)} == {"User:confluent", "User:ours"}
        assert ours.describe_acls(AclFilter()) == []
    finally:
        python.close()


def test_a_rule_that_cannot_be_is_refused_by_the_broker(broker: KafkaBroker) -> None:
    theirs = confluent.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wrong = confluent_rule("another-cluster", confluent.ResourceType.BROKER)  # librdkafka's name for the cluster
    (future,) = theirs.create_acls([wrong]).values()
    with pytest.raises(KafkaException, match="CLUSTER"):
        future.result(HANG_S)


def test_without_an_authorizer_rules_are_refused(broker: KafkaBroker) -> None:
    with KafkaBroker() as open_to_all:
        theirs = confluent.AdminClient({"bootstrap.servers": open_to_all.bootstrap_servers})
        (future,) = theirs.create_acls([confluent_rule()]).values()
        with pytest.raises(KafkaException) as refused:
            future.result(HANG_S)
        assert refused.value.args[0].name() == "SECURITY_DISABLED"
