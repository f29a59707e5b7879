"""In-sync sets, directories of replicas, changes of administrators, periodic tasks, and what is written first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.unit.cluster.quorum_controller.conftest import CLUSTER, TOPIC_ID, Stage, a_broker, directory_of

from ottla.cluster.changes import AlterConfig, RegisterBroker, SetFeature, SetStoredValue, UnregisterBroker
from ottla.cluster.delegation_tokens import token_key
from ottla.cluster.features import first_features
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batch_plans import folded
from ottla.cluster.model import (
    ALL_BROKERS,
    NO_LEADER,
    ConfigResource,
    DelegationToken,
    ResourceType,
)
from ottla.cluster.quorum_controller.activation import abort_records, first_records, has_begun
from ottla.cluster.quorum_controller.admin_changes import admitted
from ottla.cluster.quorum_controller.directories import assign_replicas
from ottla.cluster.quorum_controller.isr_changes import alter_partitions
from ottla.cluster.quorum_controller.periodic import (
    expired_tokens,
    fence_broker,
    imbalanced,
    preferred_leaders,
    unclean_leaders,
)
from ottla.cluster.reassignments import alter_partition_reassignments
from ottla.cluster.token_text import token_text
from ottla.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.light_dataclasses import replace
from ottla.protocol.messages import assign_replicas_to_dirs as dirs
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

# --- in-sync sets ----------------------------------------------------------------------------------------------------


def propose(
    stage: Stage, isr: Iterable[int], *, sender: int = 1, topic_id: bytes = TOPIC_ID, index: int = 0, **said: Any
) -> ResponsePartitionData:
    values: dict[str, Any] = {"leader_epoch": 5, "partition_epoch": stage.partition().partition_epoch}
    members = [BrokerState(broker_id=each, broker_epoch=said.pop(f"epoch_{each}", 10 + each)) for each in isr]
    data = PartitionData(partition_index=index, new_isr_with_epochs=members, **{**values, **said})
    request = AlterPartitionRequest(
        broker_id=sender, broker_epoch=10 + sender, topics=[TopicData(topic_id=topic_id, partitions=[data])]
    )
    plan = alter_partitions(stage.image, request, stage.rules)
    stage.make(plan.changes)
    return plan.answers[0].partitions[0]


def test_a_leader_takes_somebody_out_of_its_in_sync_set(stage: Stage) -> None:
    answer = propose(stage, (1, 3))
    assert (answer.error_code, answer.isr, answer.partition_epoch, answer.leader_epoch) == (0, [1, 3], 8, 5)
    assert stage.partition().isr == (1, 3)


def test_what_is_so_already_is_answered_and_not_written(stage: Stage) -> None:
    assert propose(stage, (1, 2, 3)).partition_epoch == 7
    assert stage.partition().partition_epoch == 7


REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"isr": (1,), "topic_id": b"nobody knows it!"}, UnknownTopicId),
    ({"isr": (1,), "index": 9}, UnknownTopicOrPartition),
    ({"isr": (1,), "leader_epoch": 6}, NotController),
    ({"isr": (1,), "partition_epoch": 8}, NotController),
    ({"isr": (1,), "leader_epoch": 4, "partition_epoch": 1}, FencedLeaderEpoch),
    ({"isr": (2,), "sender": 2, "partition_epoch": 1}, InvalidRequest),
    ({"isr": (1,), "partition_epoch": 6}, InvalidUpdateVersion),
    ({"isr": (2, 3)}, InvalidRequest),
    ({"isr": (1, 4)}, InvalidRequest),
    ({"isr": (1, 2), "leader_recovery_state": 1}, InvalidRequest),
    ({"isr": (1,), "leader_recovery_state": 1}, InvalidRequest),
    ({"isr": (1, 2), "epoch_2": 77}, IneligibleReplica),
]


@pytest.mark.parametrize(("said", "error"), REFUSED)
def test_a_proposal_is_refused_in_kafkas_order(stage: Stage, said: dict[str, Any], error: Any) -> None:
    assert propose(stage, **said).error_code == error.code
    assert stage.partition().partition_epoch == 7


def test_who_is_fenced_or_stopping_is_not_in_sync(stage: Stage) -> None:
    propose(stage, (1,))
    stage.make(fence_broker(stage.image, 2, stage.rules))
    stage.make([RegisterBroker(replace(stage.image.brokers[3], in_controlled_shutdown=True))])
    for broker_id in (2, 3):
        assert propose(stage, (1, broker_id)).error_code == IneligibleReplica.code


def test_an_epoch_that_is_not_told_is_not_looked_at(stage: Stage) -> None:
    propose(stage, (1,))
    assert propose(stage, (1, 2), epoch_2=-1).error_code == 0


def test_a_broker_that_is_not_who_it_was_proposes_nothing(stage: Stage) -> None:
    with pytest.raises(StaleBrokerEpoch):
        alter_partitions(stage.image, AlterPartitionRequest(broker_id=1, broker_epoch=3, topics=[]), stage.rules)


def test_who_ends_a_reassignment_with_another_leader_hears_that(stage: Stage) -> None:
    stage.make([RegisterBroker(a_broker(4))])
    reassign(stage, [4])
    answer = propose(stage, (1, 2, 3, 4))
    assert answer.error_code == NewLeaderElected.code
    assert (stage.partition().replicas, stage.partition().isr, stage.partition().leader) == ((4,), (4,), 4)


# --- administrators --------------------------------------------------------------------------------------------------


def reassign(stage: Stage, replicas: list[int] | None) -> None:
    target = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="orders", partitions=[target])])
    plan = alter_partition_reassignments(stage.image, request)
    assert plan.answers[0].partitions[0].error_code == 0
    stage.make(admitted(stage.image, plan.changes, stage.rules))


def test_a_reassignment_begins_and_may_be_taken_back(stage: Stage) -> None:
    stage.make([RegisterBroker(a_broker(4))])
    reassign(stage, [1, 4])
    assert (stage.partition().replicas, stage.partition().adding) == ((1, 4, 2, 3), (4,))
    assert stage.partition().removing == (2, 3)
    assert stage.partition().leader_epoch == 5
    reassign(stage, None)
    assert (stage.partition().replicas, stage.partition().adding, stage.partition().removing) == ((1, 2, 3), (), ())


def test_replicas_that_only_go_are_gone_at_once_in_a_new_leader_epoch(stage: Stage) -> None:
    reassign(stage, [1, 2])
    assert (stage.partition().replicas, stage.partition().isr) == ((1, 2), (1, 2))
    assert (stage.partition().leader, stage.partition().leader_epoch) == (1, 6)


def test_another_order_of_replicas_costs_no_leader_epoch(stage: Stage) -> None:
    reassign(stage, [3, 2, 1])
    assert (stage.partition().replicas, stage.partition().leader, stage.partition().leader_epoch) == ((3, 2, 1), 1, 5)


def test_a_broker_that_is_forgotten_leads_nothing(stage: Stage) -> None:
    stage.make(admitted(stage.image, [UnregisterBroker(1)], stage.rules))
    assert 1 not in stage.image.brokers
    assert (stage.partition().leader, stage.partition().isr) == (2, (2, 3))


@pytest.mark.parametrize("resource", [ConfigResource(ResourceType.TOPIC, "orders"), ALL_BROKERS])
def test_another_min_insync_replicas_leaves_nobody_eligible(stage: Stage, resource: ConfigResource) -> None:
    for broker_id in (2, 3):
        stage.make(fence_broker(stage.image, broker_id, stage.rules))
    assert stage.partition().elr
    change = AlterConfig(resource, (("min.insync.replicas", "1"),))
    stage.make(admitted(stage.image, [change], stage.rules))
    assert (stage.partition().elr, stage.partition().leader_epoch) == ((), 5)


def test_eligible_replicas_that_are_switched_on_want_a_number_for_all(stage: Stage) -> None:
    own = ConfigResource(ResourceType.BROKER, "1")
    stage.make([SetFeature("eligible.leader.replicas.version", 0), AlterConfig(own, (("min.insync.replicas", "2"),))])
    on = SetFeature("eligible.leader.replicas.version", 1)
    stage.make(admitted(stage.image, [on], stage.rules, default_min_insync=2))
    assert stage.image.config(ALL_BROKERS) == {"min.insync.replicas": "2"}
    assert stage.image.config(own) == {}


# --- directories -----------------------------------------------------------------------------------------------------


def assign(stage: Stage, directory: bytes, *, broker_id: int = 1, topic_id: bytes = TOPIC_ID, index: int = 0) -> int:
    topic = dirs.TopicData(topic_id=topic_id, partitions=[dirs.PartitionData(partition_index=index)])
    request = dirs.AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=10 + broker_id,
        directories=[dirs.DirectoryData(id=directory, topics=[topic])],
    )
    plan = assign_replicas(stage.image, request, stage.rules)
    stage.make(plan.changes)
    answer: int = plan.answers[0].topics[0].partitions[0].error_code
    return answer


def test_a_replica_lies_where_its_broker_says(stage: Stage) -> None:
    other = (7777).to_bytes(16)
    stage.make([RegisterBroker(replace(stage.image.brokers[1], directories=(directory_of(1), other)))])
    assert assign(stage, other) == 0
    assert stage.partition().directories == (other, directory_of(2), directory_of(3))
    assert (stage.partition().leader, stage.partition().leader_epoch) == (1, 5)


def test_a_replica_in_a_directory_that_failed_is_lost(stage: Stage) -> None:
    assert assign(stage, (6666).to_bytes(16)) == 0
    assert (stage.partition().leader, stage.partition().isr) == (2, (2, 3))


def test_what_the_broker_does_not_have_is_refused(stage: Stage) -> None:
    assert assign(stage, directory_of(1), topic_id=b"nobody knows it!") == UnknownTopicId.code
    assert assign(stage, directory_of(1), index=9) == UnknownTopicOrPartition.code
    stage.make([RegisterBroker(a_broker(4))])
    assert assign(stage, directory_of(4), broker_id=4) == NotLeaderOrFollower.code


# --- again and again -------------------------------------------------------------------------------------------------


def test_a_broker_that_is_fenced_is_not_fenced_again(stage: Stage) -> None:
    stage.make(fence_broker(stage.image, 1, stage.rules))
    assert fence_broker(stage.image, 1, stage.rules) == []
    assert fence_broker(stage.image, 9, stage.rules) == []


def test_leaders_go_back_to_who_comes_first_a_bounded_number_at_once(stage: Stage) -> None:
    stage.make(fence_broker(stage.image, 1, stage.rules))
    stage.make(fence_broker(stage.image, 2, stage.rules))
    stage.make([RegisterBroker(replace(stage.image.brokers[each], fenced=False)) for each in (1, 2)])
    assert list(imbalanced(stage.image)) == [("orders", 0), ("orders", 1)]
    assert preferred_leaders(stage.image, stage.rules) == []  # nobody of them is in sync
    for index in (0, 1):
        topic = stage.image.topics_by_name["orders"]
        partition = replace(topic.partitions[index], isr=(1, 2, 3))
        stage.image = replace(
            stage.image,
            topics_by_name=stage.image.topics_by_name.put(
                "orders",
                replace(topic, partitions=(*topic.partitions[:index], partition, *topic.partitions[index + 1 :])),
            ),
        )
    assert len(preferred_leaders(stage.image, replace(stage.rules, elections_at_once=1))) == 1
    stage.make(preferred_leaders(stage.image, stage.rules))
    assert [stage.partition(index).leader for index in (0, 1)] == [1, 2]


def test_an_unclean_election_comes_by_itself_only_where_it_is_allowed(stage: Stage) -> None:
    stage.make([SetFeature("eligible.leader.replicas.version", 0)])
    for broker_id in (2, 3, 1):
        stage.make(fence_broker(stage.image, broker_id, stage.rules))
    stage.make([RegisterBroker(replace(stage.image.brokers[3], fenced=False))])
    assert stage.partition().leader == NO_LEADER
    assert unclean_leaders(stage.image, stage.rules) == []
    stage.make(unclean_leaders(stage.image, replace(stage.rules, unclean_allowed=lambda image, topic: True)))
    assert (stage.partition().leader, stage.partition().isr, stage.partition().recovering) == (3, (3,), True)


def test_a_token_whose_time_is_over_goes(stage: Stage) -> None:
    for number in (1, 2):
        token = DelegationToken(f"t{number}", "User:a", "User:a", (), 0, 1_000 * number, 9_000)
        stage.make([SetStoredValue(token_key(token.id), token_text(token))])
    stage.make(expired_tokens(stage.image, 1_001))
    assert list(stage.image.stored("delegation-token")) == ["t2"]


# --- what is written first -------------------------------------------------------------------------------------------


def test_an_empty_log_begins_with_what_was_formatted_in_one_transaction() -> None:
    records = first_records(ClusterImage(CLUSTER), first_features())
    assert [type(each.record).__name__ for each in (records[0], records[-1])] == [
        "BeginTransactionRecord",
        "EndTransactionRecord",
    ]
    image = folded(ClusterImage(CLUSTER), records, 0)
    assert image.feature("metadata.version") == 30
    assert has_begun(image)
    assert not has_begun(ClusterImage(CLUSTER))


def test_an_old_level_knows_no_transactions() -> None:
    records = first_records(ClusterImage(CLUSTER), [SetFeature("metadata.version", 7)])
    assert [type(each.record).__name__ for each in records] == ["FeatureLevelRecord"]


def test_a_transaction_that_is_open_is_aborted() -> None:
    assert [type(each.record).__name__ for each in abort_records()] == ["AbortTransactionRecord"]
