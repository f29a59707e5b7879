"""Elections, reassignments, and what concerns single brokers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.cluster.brokers import allocate_producer_ids, fence
from ottla.cluster.changes import AllocateProducerIds, ChangePartition, CreateTopic, RegisterBroker, apply_all
from ottla.cluster.elections import elect_leaders
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, Partition, Topic
from ottla.cluster.reassignments import alter_partition_reassignments, list_partition_reassignments
from ottla.errors import ERRORS, BrokerIdNotRegistered, InvalidRequest, StaleBrokerEpoch, UnknownServerError
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

PREFERRED, UNCLEAN = 0, 1


def cluster(*partitions: Partition, fenced: tuple[int, ...] = ()) -> ClusterImage:
    brokers = [RegisterBroker(Broker(id, (), epoch=5, fenced=id in fenced)) for id in (1, 2, 3)]
    return apply_all(ClusterImage("c"), [*brokers, CreateTopic(Topic("t", b"\1" * 16, partitions))])


def code(answer: Any) -> str:
    found = ERRORS[answer.error_code]
    return "NONE" if found is None else found.name


def elect(image: ClusterImage, kind: int, *indexes: int, topic: str = "t") -> tuple[list[str], list[Partition]]:
    asked = [TopicPartitions(topic=topic, partitions=list(indexes))] if indexes else None
    plan = elect_leaders(image, ElectLeadersRequest(election_type=kind, topic_partitions=asked))
    codes = [code(each) for answer in plan.answers for each in answer.partition_result]
    return codes, [each.partition for each in plan.changes if isinstance(each, ChangePartition)]


def test_on_one_broker_no_election_is_needed() -> None:
    image = cluster(Partition((1,), (1,), 1))
    assert elect(image, PREFERRED, 0) == (["ELECTION_NOT_NEEDED"], [])
    assert elect(image, UNCLEAN, 0) == (["ELECTION_NOT_NEEDED"], [])
    assert elect(image, PREFERRED) == ([], [])
    assert elect(image, PREFERRED, 7) == (["UNKNOWN_TOPIC_OR_PARTITION"], [])
    assert elect(image, PREFERRED, 0, topic="x") == (["UNKNOWN_TOPIC_OR_PARTITION"], [])
    with pytest.raises(InvalidRequest):
        elect(image, 2, 0)


def test_the_first_replica_leads_again_when_it_is_alive_and_in_sync() -> None:
    away = Partition((1, 2), (2, 1), 2, leader_epoch=3, partition_epoch=7)
    assert elect(cluster(away), PREFERRED) == (["NONE"], [replace(away, leader=1, leader_epoch=4, partition_epoch=8)])
    assert elect(cluster(away, fenced=(1,)), PREFERRED, 0) == (["PREFERRED_LEADER_NOT_AVAILABLE"], [])
    assert elect(cluster(replace(away, isr=(2,))), PREFERRED, 0) == (["PREFERRED_LEADER_NOT_AVAILABLE"], [])


def test_an_unclean_election_takes_who_has_most_to_offer() -> None:
    alone = Partition((1, 2, 3), (1,), -1, elr=(3,))
    assert elect(cluster(alone), UNCLEAN, 0)[1] == [replace(alone, leader=1, leader_epoch=1, partition_epoch=1)]
    (eligible,) = elect(cluster(alone, fenced=(1,)), UNCLEAN, 0)[1]
    assert (eligible.leader, eligible.isr, eligible.recovering) == (3, (3,), False)
    (any_other,) = elect(cluster(alone, fenced=(1, 3)), UNCLEAN, 0)[1]
    assert (any_other.leader, any_other.isr, any_other.recovering) == (2, (2,), True)
    assert elect(cluster(alone, fenced=(1, 2, 3)), UNCLEAN, 0) == (["ELIGIBLE_LEADERS_NOT_AVAILABLE"], [])


def move(image: ClusterImage, replicas: list[int] | None, index: int = 0, **more: Any) -> tuple[str, list[Partition]]:
    target = ReassignablePartition(partition_index=index, replicas=replicas)
    topics = [ReassignableTopic(name="t", partitions=[target])]
    plan = alter_partition_reassignments(image, AlterPartitionReassignmentsRequest(topics=topics, **more))
    changed = [each.partition for each in plan.changes if isinstance(each, ChangePartition)]
    return code(plan.answers[0].partitions[0]), changed


def test_on_one_broker_a_reassignment_changes_nothing_or_is_refused() -> None:
    image = cluster(Partition((1,), (1,), 1))
    assert move(image, [1]) == ("NONE", [])
    assert move(image, [9]) == ("INVALID_REPLICA_ASSIGNMENT", [])
    assert move(image, [1, 1]) == ("INVALID_REPLICA_ASSIGNMENT", [])
    assert move(image, []) == ("INVALID_REPLICA_ASSIGNMENT", [])
    assert move(image, None) == ("NO_REASSIGNMENT_IN_PROGRESS", [])
    assert move(image, [1], index=4) == ("UNKNOWN_TOPIC_OR_PARTITION", [])
    assert move(image, [1, 2], allow_replication_factor_change=False) == ("INVALID_REPLICATION_FACTOR", [])
    assert list_partition_reassignments(image, ListPartitionReassignmentsRequest()) == []


def test_a_target_without_new_brokers_is_reached_at_once() -> None:
    image = cluster(Partition((1, 2, 3), (1, 2), 1))
    assert move(image, [2, 1, 3])[1] == [Partition((2, 1, 3), (1, 2), 1, partition_epoch=1)]
    assert move(image, [2])[1] == [Partition((2,), (2,), 2, leader_epoch=1, partition_epoch=1)]


def test_a_target_with_new_brokers_begins_is_listed_and_can_be_cancelled() -> None:
    image = cluster(Partition((1, 2), (1, 2), 1))
    _, (moving,) = move(image, [1, 3])
    assert moving == Partition((1, 3, 2), (1, 2), 1, adding=(3,), removing=(2,), partition_epoch=1)
    image = cluster(moving)
    for topics in (None, [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 9])]):
        (told,) = list_partition_reassignments(image, ListPartitionReassignmentsRequest(topics=topics))
        (ongoing,) = told.partitions
        assert (ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas) == ([1, 3, 2], [3], [2])
    outcome, (back,) = move(image, None)
    assert outcome == "NONE"
    assert (set(back.replicas), back.is_reassigning, back.leader) == ({1, 2}, False, 1)
    unclean = cluster(replace(moving, isr=(3,), leader=3))
    assert move(unclean, None) == ("INVALID_REPLICA_ASSIGNMENT", [])


def test_producer_ids_are_given_in_blocks_to_who_really_is_that_broker() -> None:
    image = cluster(Partition((1,), (1,), 1))
    change, block = allocate_producer_ids(image, 1, 5)
    assert (change, block) == (AllocateProducerIds(1, 5, 1000), (0, 1000))
    assert allocate_producer_ids(apply_all(image, [change]), 2, 5)[1] == (1000, 1000)
    with pytest.raises(StaleBrokerEpoch):
        allocate_producer_ids(image, 1, 4)
    with pytest.raises(BrokerIdNotRegistered):
        allocate_producer_ids(image, 9, 5)
    with pytest.raises(UnknownServerError, match="given away"):
        allocate_producer_ids(apply_all(image, [AllocateProducerIds(1, 5, 2**63 - 900)]), 1, 5)


def test_a_broker_is_fenced_and_comes_back() -> None:
    image = cluster(Partition((1,), (1,), 1))
    out = apply_all(image, [fence(image, 2, fenced=True)])
    assert [each.id for each in out.active_brokers()] == [1, 3]
    assert apply_all(out, [fence(out, 2, fenced=False)]).is_active(2)
    with pytest.raises(BrokerIdNotRegistered):
        fence(image, 9, fenced=True)
