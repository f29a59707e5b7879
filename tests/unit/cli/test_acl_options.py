"""Which access rules the options of `ottla acl` mean: those that Kafka's kafka-acls would write."""

import pytest

from ottla.cli.acl_options import bindings_of, filters_to_list, filters_to_remove
from ottla.cli.main import make_parser
from ottla.cli.output import Failure
from ottla.client.admin.access import AclBinding, AclFilter, AclPermission, PatternType, ResourceType
from ottla.client.admin.operations import AclOperation as Op

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TXN = ResourceType.TRANSACTIONAL_ID


def parsed(text):
    words = ["acl", *text.split()]
    return make_parser(words).parse_args(words)


def added(text):
    return bindings_of(parsed(f"add {text}"))


def about(bindings):
    return {(each.resource_type, each.resource_name, each.operation) for each in bindings}


def test_a_rule_is_for_all_operations_and_every_host_unless_they_are_named():
    assert added("--allow alice --topic clicks") == [AclBinding(TOPIC, "clicks", "User:alice", Op.ALL)]
    (rule,) = added("--allow User:alice --topic clicks --operation read --host 10.0.0.7")
    assert rule == AclBinding(TOPIC, "clicks", "User:alice", Op.READ, host="10.0.0.7")


def test_a_producer_has_kafkas_rules():
    found = added("--allow alice --producer --topic clicks --transactional-id loader")
    assert about(found) == {
        (TOPIC, "clicks", Op.WRITE),
        (TOPIC, "clicks", Op.DESCRIBE),
        (TOPIC, "clicks", Op.CREATE),
        (TXN, "loader", Op.WRITE),
        (TXN, "loader", Op.DESCRIBE),
    }
    with_ids = added("--allow alice --producer --idempotent --topic clicks")
    assert (CLUSTER, "kafka-cluster", Op.IDEMPOTENT_WRITE) in about(with_ids)


def test_a_consumer_has_kafkas_rules():
    assert about(added("--allow bob --consumer --topic clicks --group billing")) == {
        (TOPIC, "clicks", Op.READ),
        (TOPIC, "clicks", Op.DESCRIBE),
        (GROUP, "billing", Op.READ),
    }


def test_a_pipeline_may_be_both():
    found = added("--allow bob --producer --consumer --topic clicks --group billing")
    assert {op for kind, _, op in about(found) if kind is TOPIC} == {Op.READ, Op.WRITE, Op.DESCRIBE, Op.CREATE}
    assert (GROUP, "billing", Op.READ) in about(found)


def test_prefixed_patterns_and_the_cluster():
    found = added("--allow alice --topic logs- --cluster --operation describe --prefixed")
    assert {(each.resource_type, each.pattern_type) for each in found} == {
        (TOPIC, PatternType.PREFIXED),
        (CLUSTER, PatternType.LITERAL),
    }


def test_allowed_and_denied_have_hosts_of_their_own():
    found = added("--allow * --deny mallory --deny-host 10.0.0.7 --topic clicks --operation read,write")
    assert {(each.principal, each.permission, each.host, each.operation) for each in found} == {
        ("User:*", AclPermission.ALLOW, "*", Op.READ),
        ("User:*", AclPermission.ALLOW, "*", Op.WRITE),
        ("User:mallory", AclPermission.DENY, "10.0.0.7", Op.READ),
        ("User:mallory", AclPermission.DENY, "10.0.0.7", Op.WRITE),
    }


@pytest.mark.parametrize("spelled", ["DescribeConfigs", "describe-configs", "DESCRIBE_CONFIGS", "describeconfigs"])
def test_operations_may_be_spelled_as_kafka_does_or_otherwise(spelled):
    (rule,) = added(f"--allow alice --topic clicks --operation {spelled}")
    assert rule.operation is Op.DESCRIBE_CONFIGS


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("--topic clicks", "nobody is named"),
        ("--allow alice", "nothing is named"),
        ("--allow alice --topic t --operation fly", "there is no operation 'fly'; there is All, Read,"),
        ("--allow alice --group g --operation write", "Write cannot be done with a group; it has All, AlterConfigs,"),
        ("--allow alice --topic t --resource-pattern-type match", "literal or prefixed"),
        ("--allow alice --topic t --prefixed --resource-pattern-type any", "contradict"),
        ("--allow alice --producer", "--producer needs a --topic"),
        ("--allow alice --consumer --topic t", "--consumer needs a --group"),
        ("--allow alice --consumer --topic t --group g --cluster", "nothing to do with --cluster"),
        ("--allow alice --producer --topic t --operation read", "leave --operation out"),
        ("--deny alice --producer --topic t", "leave --deny out"),
        ("--allow alice --topic t --idempotent", "--idempotent belongs to --producer"),
        ("--allow alice --topic t --deny-host 10.0.0.7", "a host is named and nobody"),
        ("--allow User: --topic t", "'User:' is no principal"),
    ],
)
def test_what_cannot_be_meant_is_told(text, sentence):
    with pytest.raises(Failure) as failure:
        added(text)
    assert sentence in str(failure.value)


def test_a_list_is_about_what_applies_to_a_name():
    assert filters_to_list(parsed("list")) == [AclFilter()]
    assert filters_to_list(parsed("list --topic clicks --principal alice")) == [
        AclFilter(TOPIC, "clicks", "User:alice", pattern_type=PatternType.MATCH)
    ]


def test_what_is_left_out_is_any_when_rules_are_removed():
    assert filters_to_remove(parsed("remove --topic clicks")) == [
        AclFilter(TOPIC, "clicks", pattern_type=PatternType.LITERAL)
    ]
    assert filters_to_remove(parsed("remove --allow alice --topic clicks --operation read")) == [
        AclFilter(TOPIC, "clicks", "User:alice", Op.READ, AclPermission.ALLOW, None, PatternType.LITERAL)
    ]
    assert filters_to_remove(parsed("remove --deny alice")) == [
        AclFilter(principal="User:alice", permission=AclPermission.DENY)
    ]


def test_shorthands_remove_what_they_add():
    rules = added("--allow bob --consumer --topic clicks --group billing")
    filters = filters_to_remove(parsed("remove --allow bob --consumer --topic clicks --group billing"))
    assert {(each.resource_type, each.resource_name, each.operation) for each in filters} == about(rules)


def test_rules_of_nobody_about_nothing_are_not_removed():
    with pytest.raises(Failure, match="say which rules"):
        filters_to_remove(parsed("remove"))
