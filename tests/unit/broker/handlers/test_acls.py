"""CreateAcls, DeleteAcls and DescribeAcls of a broker with an authorizer, and what the rules do from then on."""

from __future__ import annotations

import pytest

from ottla.broker.handlers.access import describe_acls as describing
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.access import AUTHORIZERS
from ottla.errors import ERRORS, TopicAuthorizationFailed
from ottla.protocol.access import AclOperation as Op
from ottla.protocol.access import AclPermission as Permission
from ottla.protocol.access import AclResource as Resource
from ottla.protocol.access import PatternType as Pattern
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.values import ZERO_UUID

ROOT = {"principal": "User:root"}
ALICE = RequestContext(0, "app", "10.0.0.1", principal="User:alice")
EVERYTHING = {
    "resource_type_filter": Resource.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": Pattern.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Op.ANY,
    "permission_type": Permission.ANY,
}


def creation(name, operation=Op.READ, principal="User:alice", resource=Resource.TOPIC):
    return AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=Pattern.LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )


def name_of(error_code):
    found = ERRORS[error_code]
    return "NONE" if found is None else found.name


@pytest.fixture
def secured(make_broker):
    return make_broker(**{"authorizer.class.name": AUTHORIZERS[1], "super.users": "User:root"})


def reads(broker, name="orders"):
    return broker.broker.access.allows(ALICE, Op.READ, Resource.TOPIC, name)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_rule_acts_when_it_is_answered_until_it_is_deleted(secured, version):
    assert not reads(secured)
    answer = secured.ask(CreateAclsRequest(creations=[creation("orders"), creation("")]), version, **ROOT)
    assert [name_of(each.error_code) for each in answer.results] == ["NONE", "INVALID_REQUEST"]
    assert reads(secured)
    (resource,) = secured.ask(DescribeAclsRequest(**EVERYTHING), version, **ROOT).resources
    assert (resource.resource_name, [each.principal for each in resource.acls]) == ("orders", ["User:alice"])
    answer = secured.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)]), version, **ROOT)
    assert [each.resource_name for each in answer.filter_results[0].matching_acls] == ["orders"]
    assert not reads(secured)


def test_rules_survive_a_restart(secured):
    secured.ask(CreateAclsRequest(creations=[creation("orders")]), **ROOT)
    secured.restart()
    assert reads(secured)
    assert not reads(secured, "salaries")


def test_who_may_not_alter_the_cluster_changes_no_rule(secured):
    answer = secured.ask(CreateAclsRequest(creations=[creation("a"), creation("b")]), principal="User:alice")
    assert [name_of(each.error_code) for each in answer.results] == ["CLUSTER_AUTHORIZATION_FAILED"] * 2
    answer = secured.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)]), principal="User:alice")
    assert name_of(answer.filter_results[0].error_code) == "CLUSTER_AUTHORIZATION_FAILED"
    answer = secured.ask(DescribeAclsRequest(**EVERYTHING), principal="User:alice")
    assert name_of(answer.error_code) == "CLUSTER_AUTHORIZATION_FAILED"
    assert not secured.image.acls


def test_who_may_describe_the_cluster_reads_the_rules(secured):
    allowed = creation("kafka-cluster", Op.DESCRIBE, resource=Resource.CLUSTER)
    secured.ask(CreateAclsRequest(creations=[allowed]), **ROOT)
    assert len(secured.ask(DescribeAclsRequest(**EVERYTHING), principal="User:alice").resources) == 1
    answer = secured.ask(CreateAclsRequest(creations=[creation("a")]), principal="User:alice")
    assert name_of(answer.results[0].error_code) == "CLUSTER_AUTHORIZATION_FAILED"


def test_many_rules_are_described_with_a_pause(secured, monkeypatch):
    monkeypatch.setattr(describing, "MANY_RESOURCES", 3)
    secured.ask(CreateAclsRequest(creations=[creation(f"t{number}") for number in range(20)]), **ROOT)
    assert len(secured.ask(DescribeAclsRequest(**EVERYTHING), **ROOT).resources) == 20


def test_the_id_of_a_topic_that_one_may_not_describe_is_not_told(secured):
    """DescribeShareGroupOffsets says zeros, as Kafka does, whether the topic is there or not."""
    topic = CreatableTopic(name="salaries", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    assert secured.ask(CreateTopicsRequest(topics=[topic]), **ROOT).topics[0].error_code == 0
    secured.ask(CreateAclsRequest(creations=[creation("g", Op.DESCRIBE, resource=Resource.GROUP)]), **ROOT)
    secured.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), **ROOT)
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in ("salaries", "none")]
    asked = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=topics)
    answer = secured.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), principal="User:alice")
    told = [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.groups[0].topics]
    assert told == [(ZERO_UUID, TopicAuthorizationFailed.code)] * 2
