"""What the doctor makes of facts, without a cluster."""

from __future__ import annotations

import pytest

from ottla.client.admin.cluster import ClusterDescription
from ottla.client.admin.groups import GroupDescription, MemberDescription
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.topics import PartitionDescription, TopicDescription
from ottla.client.admin.transactions import ProducerState
from ottla.client.diagnosis import (
    judge_controller,
    judge_defaults,
    judge_group,
    judge_internal_topic,
    judge_stable,
    judge_topic,
    named,
)
from ottla.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition


def partition(index, leader=1, replicas=(1, 2), in_sync=(1, 2)):
    return PartitionDescription(partition=index, leader=leader, leader_epoch=0, replicas=replicas, in_sync=in_sync)


def topic(*partitions, operations=None):
    return TopicDescription("t", None, False, partitions, operations)


def results(findings):
    return [finding.result for finding in findings]


@pytest.mark.parametrize(
    ("replicas", "in_sync", "brokers", "result"),
    [(1, 1, 1, "ok"), (3, 2, 3, "ok"), (3, 1, 1, "failed"), (1, 2, 3, "warning"), (None, None, 1, "skipped")],
)
def test_replication_is_compared_with_the_number_of_brokers(replicas, in_sync, brokers, result):
    assert judge_defaults(replicas, in_sync, brokers).result == result


def test_an_internal_topic_must_be_there_or_possible_to_make():
    assert judge_internal_topic("__consumer_offsets", None, 1, 1).result == "ok"
    impossible = judge_internal_topic("__consumer_offsets", None, 3, 1)
    assert impossible.result == "failed"
    assert "offsets.topic.replication.factor=3" in impossible.what
    assert judge_internal_topic("__consumer_offsets", topic(partition(0)), 3, 1).result == "ok"
    assert judge_internal_topic("__consumer_offsets", topic(partition(0, leader=None)), 1, 1).result == "failed"


def test_a_cluster_without_a_controller_is_told():
    assert judge_controller(ClusterDescription("c", None, ())).result == "failed"
    assert judge_controller(ClusterDescription("c", 2, ())).result == "ok"


def test_leaders_replicas_and_rights_are_judged_apart():
    both = frozenset({AclOperation.READ, AclOperation.WRITE})
    assert results(judge_topic(topic(partition(0), operations=both), 2)) == ["ok", "ok", "ok", "ok"]
    assert results(judge_topic(topic(partition(0, leader=None), operations=both), 1))[0] == "failed"
    assert results(judge_topic(topic(partition(0, in_sync=(1,)), operations=both), 2))[1] == "failed"
    assert results(judge_topic(topic(partition(0, in_sync=(1,)), operations=both), 1))[1] == "warning"
    only_read = frozenset({AclOperation.READ})
    assert results(judge_topic(topic(partition(0), operations=only_read), 1))[2:] == ["warning", "ok"]
    assert results(judge_topic(topic(partition(0)), None))[2:] == ["skipped", "skipped"]


def test_who_holds_a_transaction_open_is_named():
    name = TopicPartition("t", 0)
    ends, stables = {name: OffsetAndTimestamp(10, -1, 0)}, {name: OffsetAndTimestamp(4, -1, 0)}
    holder = ProducerState(7, 0, 0, 0, None, 4)
    (finding,) = judge_stable(ends, stables, {name: [holder]}, {7: "bank"})
    assert finding.result == "warning"
    assert "6 records early" in finding.what
    assert "producer 7 (transactional.id bank)" in finding.what
    (finding,) = judge_stable(ends, stables, {}, {})
    assert "a producer has a transaction open" in finding.what
    assert results(judge_stable(ends, ends, {}, {})) == ["ok"]


@pytest.mark.parametrize(
    ("state", "members", "result"),
    [("Stable", 1, "ok"), ("Empty", 0, "warning"), ("PreparingRebalance", 2, "warning"), ("Dead", 0, "warning")],
)
def test_a_group_is_judged_by_its_state(state, members, result):
    name = TopicPartition("t", 0)
    people = tuple(MemberDescription(f"m{i}", "c", "h", assignment=frozenset({name})) for i in range(members))
    group = GroupDescription("g", "classic", state, "range", people)
    found = judge_group(group, {name: OffsetAndMetadata(3)}, {name: OffsetAndTimestamp(10, -1, 0)})
    assert found[0].result == result
    assert found[1].what.startswith("7 records in 1 partitions")


def test_long_lists_are_cut():
    assert named(range(3)) == "0, 1, 2"
    assert named(range(8)) == "0, 1, 2, 3, 4 and 3 more"
