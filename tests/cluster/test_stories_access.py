"""Access rules in a cluster of ours: any broker takes them, all brokers go by them, whoever comes or goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S

import ottla
from ottla.broker.requests.context import RequestContext
from ottla.client.admin.access import AclBinding, ResourceType
from ottla.client.admin.operations import AclOperation
from ottla.protocol.access import AclOperation as Op
from ottla.protocol.access import AclPermission
from ottla.protocol.access import AclResource as Resource
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.testing import KafkaCluster

SECURED = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ALICE = RequestContext(0, "app", "10.0.0.1", principal="User:alice")
WHAT = {"operation": Op.READ, "permission_type": AclPermission.ALLOW}
CREATE = CreateAclsRequest(
    creations=[
        AclCreation(resource_type=Resource.TOPIC, resource_name="orders", principal="User:alice", host="*", **WHAT)
    ]
)
DELETE = DeleteAclsRequest(
    filters=[
        DeleteAclsFilter(
            resource_type_filter=Resource.TOPIC,
            resource_name_filter="orders",
            principal_filter=None,
            host_filter=None,
            **WHAT,
        )
    ]
)
RULE = AclBinding(ResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)


@pytest.fixture
def secured() -> Iterator[KafkaCluster]:
    with KafkaCluster(3, SECURED) as cluster:
        yield cluster


def reading_at(cluster: KafkaCluster, name: str = "orders") -> set[int]:
    """The brokers that let alice read."""
    return cluster.call(
        lambda: {
            each
            for each in cluster.running
            if cluster.server(each).broker.access.allows(ALICE, Op.READ, Resource.TOPIC, name)
        }
    )


def wire_to(cluster: KafkaCluster, number: int) -> Wire:
    endpoint = cluster.server(number).info.endpoints[0]
    return Wire(f"{endpoint.host}:{endpoint.port}")


def test_a_rule_that_any_broker_took_acts_soon_everywhere(secured: KafkaCluster) -> None:
    for number in secured.running:
        with wire_to(secured, number) as wire:
            assert [each.error_code for each in wire.ask(CREATE, 3).results] == [0]
            secured.wait_until(lambda: reading_at(secured) == {0, 1, 2}, HANG_S)
            assert len(wire.ask(DELETE, 3).filter_results[0].matching_acls) == 1
            secured.wait_until(lambda: not reading_at(secured), HANG_S)


def test_rules_outlive_controllers_and_are_there_for_whoever_joins(secured: KafkaCluster) -> None:
    with ottla.Admin(bootstrap_servers=secured.bootstrap_servers) as admin:
        admin.create_acls([RULE], timeout=HANG_S)
    secured.wait_until(lambda: reading_at(secured) == {0, 1, 2}, HANG_S)
    active = secured.controller()
    for gone in (active, 1):
        secured.crash(gone, session_stays=True)
    assert reading_at(secured) == {0, 2}
    for gone in (active, 1):
        secured.start_broker(gone)
    assert reading_at(secured) == {0, 1, 2}
    assert not reading_at(secured, "salaries")
