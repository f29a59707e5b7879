"""What happens in a cluster, told as stories: brokers come and go, and the controller keeps the books."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.group_level import GroupLevelSettings
from ottla.cluster.changes import AlterConfig, ChangePartition, CreateTopic, SetStoredValue
from ottla.cluster.config_layers import ConfigRules
from ottla.cluster.controller.events import (
    BrokerFellBehind,
    ProducerIdsAsked,
    RebalanceDue,
    SettingsChanged,
    ShutdownAsked,
)
from ottla.cluster.model import NO_LEADER, ConfigResource, Partition, ResourceType, Topic
from ottla.cluster.store.events import (
    REASSIGNMENT_ASKED,
    BrokersChanged,
    DeletionsAsked,
    ElectionAsked,
    LogDirFailed,
    PartitionStatesChanged,
    ReassignmentAsked,
    TopicsChanged,
    deletion_asked,
)
from ottla.cluster.topics import TopicRules
from ottla.errors import (
    BrokerIdNotRegistered,
    BrokerNotAvailable,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import BrokerState
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.values import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def rules() -> TopicRules:
    return TopicRules(configs=ConfigRules(broker_id=1, broker=BrokerSettings(), group=GroupLevelSettings))


@pytest.fixture
def orders(stage: Any) -> Any:
    """A topic with one partition on all three brokers, led by 1; everybody knows."""
    stage.create("orders", (1, 2, 3))
    stage.quiet()
    return stage


# --- topics ----------------------------------------------------------------------------------------------------------


def test_a_new_topic_is_led_by_its_first_replica_and_everybody_knows(stage: Any) -> None:
    stage.create("orders", (2, 3))
    stage.quiet()
    partition = stage.partition(ORDERS)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 0)
    assert stage.brokers[2].replicas[ORDERS].is_new
    assert ORDERS not in stage.brokers[1].replicas
    stage.check_told()


def test_replicas_of_a_new_topic_on_brokers_that_are_away_are_not_in_sync(stage: Any) -> None:
    stage.crash(2)
    stage.quiet()
    stage.model.change([])
    stage.create("orders", (3, 1))
    stage.quiet()
    assert stage.partition(ORDERS).isr == (3, 1)


def test_more_partitions_are_led_as_new_ones(orders: Any, rules: TopicRules) -> None:
    orders.grow("orders", 3, rules, Random(5))
    orders.quiet()
    assert orders.image.partition_count("orders") == 3
    orders.check_told()


def test_a_topic_that_a_tool_wrote_gets_its_first_leader(stage: Any) -> None:
    new = Partition((3, 2), (), NO_LEADER, leader_epoch=-1, partition_epoch=-1)
    stage.model.change([CreateTopic(Topic("orders", b"o" * 16, (new,)))])
    stage.quiet()
    assert stage.partition(ORDERS).leader == 3
    assert stage.partition(ORDERS).isr == (3, 2)
    stage.check_told()


def test_a_topic_that_somebody_removed_past_the_controller_is_forgotten(orders: Any) -> None:
    orders.do(TopicsChanged((), ("orders",)))
    assert orders.image.topic("orders") is None


# --- brokers come and go ---------------------------------------------------------------------------------------------


def test_when_a_leader_dies_the_next_in_sync_leads_in_a_new_epoch(orders: Any) -> None:
    orders.create("other", (2, 1, 3))
    orders.quiet()
    orders.crash(2)
    orders.quiet()
    partition = orders.partition(TopicPartition("other", 0))
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 3), 1)
    assert orders.partition(ORDERS).isr == (1, 3)
    orders.check_told()


def test_a_replica_that_is_not_in_sync_does_not_lead(orders: Any) -> None:
    orders.create("other", (2, 3))
    other = TopicPartition("other", 0)
    orders.quiet()
    orders.alter_isr(other, [2])
    orders.crash(2)
    orders.quiet()
    assert (orders.partition(other).leader, orders.partition(other).isr) == (-1, (2,))
    orders.check_told()


def test_the_last_one_in_sync_leads_again_when_it_comes_back(orders: Any) -> None:
    other = TopicPartition("other", 0)
    orders.create("other", (2, 3))
    orders.quiet()
    orders.alter_isr(other, [2])
    orders.crash(2)
    orders.quiet()
    orders.start(2)
    orders.quiet()
    assert orders.partition(other).leader == 2
    assert orders.partition(other).leader_epoch == 2
    orders.check_told()


def test_an_unclean_leader_is_elected_where_that_is_allowed(orders: Any) -> None:
    other = TopicPartition("other", 0)
    orders.create("other", (2, 3))
    orders.quiet()
    orders.alter_isr(other, [2])
    orders.crash(2)
    orders.quiet()
    orders.unclean = True
    orders.set_config("other", "unclean.leader.election.enable", "true")
    orders.quiet()
    partition = orders.partition(other)
    assert (partition.leader, partition.isr, partition.recovering) == (3, (3,), True)
    assert orders.brokers[3].replicas[other].leader_recovery_state == 1


def test_a_broker_that_came_back_unseen_is_gone_and_new_in_one_decision(orders: Any) -> None:
    other = TopicPartition("other", 0)
    orders.create("other", (2, 3))
    orders.create("alone", (2,))
    orders.quiet()
    orders.crash(2)
    orders.start(2)  # before the controller looked
    orders.members[1].queue.take()
    orders.do(BrokersChanged(tuple(orders.model.truth.brokers.values())))
    assert orders.partition(other).leader == 3
    assert orders.partition(other).isr == (3,)
    alone = orders.partition(TopicPartition("alone", 0))
    assert (alone.leader, alone.leader_epoch) == (2, 1)
    orders.quiet()
    assert orders.brokers[2].heard[:2] == ["UpdateMetadata", "LeaderAndIsr"]
    orders.check_told()


def test_news_of_an_older_registration_changes_nothing(orders: Any) -> None:
    old = tuple(orders.image.brokers.values())
    orders.crash(2)
    orders.start(2)
    orders.quiet()
    known = orders.image
    orders.do(BrokersChanged(old))
    assert orders.image.brokers == known.brokers


def test_a_new_broker_hears_of_everything_before_it_has_to_do_anything(orders: Any) -> None:
    orders.start(4)
    orders.quiet()
    assert orders.brokers[4].heard == ["UpdateMetadata", "StopReplica"]
    assert orders.brokers[4].view[ORDERS].leader == 1
    orders.check_told()


def test_nothing_is_ordered_where_nothing_changed(orders: Any) -> None:
    for broker in orders.brokers.values():
        broker.heard.clear()
    orders.do(BrokersChanged(tuple(orders.image.brokers.values())))
    orders.quiet()
    assert [broker.heard for broker in orders.brokers.values()] == [[], [], []]


def test_a_broker_that_fell_behind_is_told_everything_again(orders: Any) -> None:
    orders.brokers[2].view.clear()
    orders.brokers[2].heard.clear()
    orders.do(BrokerFellBehind(2, orders.brokers[2].epoch))
    orders.quiet()
    assert orders.brokers[2].heard == ["UpdateMetadata", "LeaderAndIsr"]
    orders.check_told()


# --- in-sync sets ----------------------------------------------------------------------------------------------------


def test_a_leader_may_shrink_and_grow_the_in_sync_set(orders: Any) -> None:
    assert orders.alter_isr(ORDERS, [1, 2]).error_code == 0
    assert orders.partition(ORDERS).isr == (1, 2)
    assert orders.partition(ORDERS).leader_epoch == 0
    assert orders.alter_isr(ORDERS, [1, 2, 3]).partition_epoch == 2
    orders.quiet()
    orders.check_told()


def test_brokers_hear_of_another_in_sync_set_by_metadata_only(orders: Any) -> None:
    orders.brokers[3].heard.clear()
    orders.alter_isr(ORDERS, [1, 2])
    orders.quiet()
    assert orders.brokers[3].heard == ["UpdateMetadata"]


@pytest.mark.parametrize(
    ("isr", "other", "error"),
    [
        ([1], {"leader_epoch": 5}, NotController),
        ([1], {"partition_epoch": 5}, NotController),
        ([1], {"leader_epoch": -1}, FencedLeaderEpoch),
        ([1], {"partition_epoch": -1}, InvalidUpdateVersion),
        ([1, 2], {"leader_recovery_state": 1}, InvalidRequest),
        ([1], {"leader_recovery_state": 1}, InvalidRequest),
        ([2, 3], {}, InvalidRequest),
        ([1, 4], {}, InvalidRequest),
        ([1], {"partition_index": 7}, UnknownTopicOrPartition),
    ],
)
def test_a_proposal_that_cannot_be_is_refused(orders: Any, isr: list[int], other: Any, error: Any) -> None:
    before = orders.partition(ORDERS)
    assert orders.alter_isr(ORDERS, isr, **other).error_code == error.code
    assert orders.partition(ORDERS) == before


def test_an_older_partition_epoch_is_fine_when_nothing_would_change(orders: Any) -> None:
    answer = orders.alter_isr(ORDERS, [1, 2, 3], partition_epoch=-1)
    assert (answer.error_code, answer.partition_epoch) == (0, 0)


def test_a_broker_that_is_away_or_came_back_since_cannot_be_in_sync(orders: Any) -> None:
    orders.crash(3)
    orders.quiet()
    assert orders.alter_isr(ORDERS, [1, 2, 3]).error_code == IneligibleReplica.code
    orders.start(3)
    orders.quiet()
    old = [BrokerState(broker_id=1, broker_epoch=-1), BrokerState(broker_id=3, broker_epoch=3)]
    assert orders.alter_isr(ORDERS, [], new_isr_with_epochs=old).error_code == IneligibleReplica.code
    assert orders.alter_isr(ORDERS, [1, 2, 3]).error_code == 0


def test_a_broker_of_an_older_registration_cannot_propose(orders: Any) -> None:
    leader = orders.brokers[1]
    leader.epoch -= 1
    assert orders.alter_isr(ORDERS, [1]).error_code == StaleBrokerEpoch.code


def test_a_leader_of_a_topic_that_is_gone_is_told_so(orders: Any) -> None:
    orders.brokers[1].disk.logs[ORDERS] = b"x" * 16
    assert orders.alter_isr(ORDERS, [1]).error_code == UnknownTopicId.code


def test_a_leader_of_old_that_wrote_the_in_sync_set_itself_is_heard(orders: Any) -> None:
    partition = orders.partition(ORDERS)
    changed = replace(partition, isr=(1, 3), partition_epoch=1)
    orders.model.change([ChangePartition(orders.image.topic_id("orders"), 0, changed)])
    orders.quiet()
    assert orders.partition(ORDERS).isr == (1, 3)
    orders.check_told()
    orders.do(PartitionStatesChanged(((ORDERS, partition),)))  # late news
    assert orders.partition(ORDERS).isr == (1, 3)


# --- eligible leader replicas ----------------------------------------------------------------------------------------


def test_a_replica_that_lost_its_memory_does_not_lead_by_membership_alone(new_stage: Any) -> None:
    """KIP-966: T0 in sync {1,2,3}; T1 3 and 2 drop out; T2 1 loses power, alone in sync; T3 1 is back, with less."""
    stage = new_stage(min_insync=2)
    stage.start(9)
    stage.start(1, 2, 3)
    stage.take_events()
    stage.create("orders", (1, 2, 3))
    stage.quiet()
    stage.crash(3)
    stage.quiet()
    stage.crash(2)
    stage.quiet()
    partition = stage.partition(ORDERS)
    assert (partition.isr, partition.elr) == ((1,), (2,))
    stage.crash(1, loses_memory=True)
    stage.quiet()
    assert stage.partition(ORDERS).leader == -1
    stage.start(1)
    stage.quiet()
    assert stage.partition(ORDERS).leader == -1, "2 may have what 1 lost"
    stage.start(3)
    stage.quiet()
    assert stage.partition(ORDERS).leader == -1, "3 dropped out when there were enough others"
    stage.start(2)
    stage.quiet()
    partition = stage.partition(ORDERS)
    assert (partition.leader, partition.isr, partition.recovering) == (2, (2,), False)
    stage.check_told()


def test_a_replica_that_lost_its_memory_leads_when_nobody_can_know_better(new_stage: Any) -> None:
    stage = new_stage()
    stage.start(9)
    stage.start(1)
    stage.take_events()
    stage.create("orders", (1,))
    stage.quiet()
    stage.crash(1, loses_memory=True)
    stage.quiet()
    stage.start(1)
    stage.quiet()
    assert stage.partition(ORDERS).leader == 1


def test_a_new_controller_trusts_nobody_who_lost_its_memory_together_with_the_leader(new_stage: Any) -> None:
    """Short seed 33250: all were away, and the leader and a follower came back first, both with less than they had."""
    stage = new_stage()
    stage.start(9)
    stage.start(1, 2, 3)
    stage.take_events()
    stage.create("orders", (1, 2, 3))
    stage.quiet()
    stage.crash(9)
    stage.crash(1, 2, loses_memory=True)
    stage.crash(3)
    stage.start(1, 2)
    stage.quiet()
    assert stage.partition(ORDERS).leader == -1, "3 has what both lost"
    stage.start(3)
    stage.quiet()
    assert stage.partition(ORDERS).leader == 3


def test_an_eligible_replica_leads_when_all_in_sync_are_away(new_stage: Any) -> None:
    stage = new_stage(min_insync=2)
    stage.start(9)
    stage.start(1, 2)
    stage.take_events()
    stage.create("orders", (1, 2))
    stage.quiet()
    stage.alter_isr(ORDERS, [1])
    assert stage.partition(ORDERS).elr == (2,)
    stage.crash(1)
    stage.quiet()
    partition = stage.partition(ORDERS)
    assert (partition.leader, partition.isr, partition.elr) == (2, (2,), (1,))
    stage.start(1)
    stage.quiet()
    stage.alter_isr(ORDERS, [2, 1])
    assert stage.partition(ORDERS).elr == ()


def test_nobody_is_eligible_any_more_when_fewer_replicas_may_acknowledge(new_stage: Any) -> None:
    """2 left a set that was too small to acknowledge anything; now 1 acknowledges alone, and 2 misses it."""
    stage = new_stage(min_insync=2)
    stage.start(9)
    stage.start(1, 2)
    stage.take_events()
    stage.create("orders", (1, 2))
    stage.quiet()
    stage.alter_isr(ORDERS, [1])
    assert stage.partition(ORDERS).elr == (2,)
    stage.min_insync = 1
    stage.set_config("orders", "min.insync.replicas", "1")
    assert stage.partition(ORDERS).elr == ()
    stage.crash(1)
    stage.quiet()
    assert stage.partition(ORDERS).leader == -1
    stage.check_told()


def test_settings_that_another_broker_changed_take_trust_away_too(new_stage: Any) -> None:
    stage = new_stage(min_insync=2)
    stage.start(1, 2)
    stage.create("orders", (1, 2))
    stage.quiet()
    stage.alter_isr(ORDERS, [1])
    names = (("min.insync.replicas", "1"), ("unclean.leader.election.enable", "true"))
    stage.do(SettingsChanged((AlterConfig(ConfigResource(ResourceType.BROKER, ""), names),)))
    assert stage.partition(ORDERS).elr == ()
    stage.quiet()
    stage.check_told()


# --- stopping in order -----------------------------------------------------------------------------------------------


def test_a_broker_that_shuts_down_hands_over_what_it_leads(orders: Any) -> None:
    orders.create("other", (2, 1, 3))
    orders.quiet()
    answer = orders.shut_down(2)
    assert (answer.error_code, answer.remaining_partitions) == (0, [])
    other = orders.partition(TopicPartition("other", 0))
    assert (other.leader, other.isr) == (1, (1, 3))
    assert orders.partition(ORDERS).isr == (1, 3)
    orders.quiet()
    assert ORDERS not in orders.brokers[2].replicas, "it stopped following"
    assert orders.brokers[2].replicas[TopicPartition("other", 0)].leader == 1
    assert orders.brokers[2].disk.logs[ORDERS]
    orders.check_told()


def test_what_nobody_else_can_lead_remains(orders: Any) -> None:
    other = TopicPartition("other", 0)
    orders.create("other", (2, 3))
    orders.create("alone", (2,))
    orders.quiet()
    orders.alter_isr(other, [2])
    answer = orders.shut_down(2)
    assert [(each.topic_name, each.partition_index) for each in answer.remaining_partitions] == [("other", 0)]
    assert orders.partition(other).leader == 2
    assert orders.alter_isr(other, [2, 3]).error_code == 0
    assert orders.shut_down(2).remaining_partitions == []
    assert orders.partition(TopicPartition("alone", 0)).leader == 2
    orders.quiet()
    orders.check_told()


def test_a_broker_that_shuts_down_gets_nothing_new_and_joins_no_in_sync_set(orders: Any) -> None:
    orders.shut_down(2)
    orders.quiet()
    assert orders.alter_isr(ORDERS, [1, 2, 3]).error_code == IneligibleReplica.code
    orders.crash(1, 3)
    orders.elect()
    assert orders.partition(ORDERS).leader == -1


def test_a_broker_that_shut_down_and_came_back_is_as_before(orders: Any) -> None:
    orders.shut_down(2)
    orders.crash(2)
    orders.start(2)
    orders.quiet()
    assert orders.alter_isr(ORDERS, [1, 2, 3]).error_code == 0
    orders.quiet()
    orders.check_told()


def test_only_who_is_there_can_shut_down(orders: Any) -> None:
    unknown = orders.do(ShutdownAsked(ControlledShutdownRequest(broker_id=8, broker_epoch=-1)))
    assert unknown.error_code == BrokerNotAvailable.code
    stale = orders.do(ShutdownAsked(ControlledShutdownRequest(broker_id=2, broker_epoch=0)))
    assert stale.error_code == StaleBrokerEpoch.code


# --- deleting --------------------------------------------------------------------------------------------------------


def test_a_deleted_topic_goes_when_all_its_replicas_are_gone(orders: Any, rules: TopicRules) -> None:
    orders.delete("orders", rules)
    assert orders.image.topic("orders") is not None
    orders.deliver(1)
    orders.deliver(2)
    orders.take_answers()
    assert orders.image.topic("orders") is not None, "3 has it still"
    assert ORDERS not in orders.brokers[2].view
    orders.quiet()
    assert orders.image.topic("orders") is None
    assert not orders.image.stored_values
    assert [disk.logs for disk in orders.disks.values()] == [{}, {}, {}]
    orders.check_told()


def test_the_deletion_of_a_topic_waits_for_a_broker_that_is_away(orders: Any, rules: TopicRules) -> None:
    orders.crash(3)
    orders.quiet()
    orders.delete("orders", rules)
    orders.quiet()
    assert orders.image.topic("orders") is not None
    orders.start(3)
    orders.quiet()
    assert orders.image.topic("orders") is None
    assert orders.disks[3].logs == {}
    orders.check_told()


def test_a_broker_that_dies_while_it_deletes_is_told_again(orders: Any, rules: TopicRules) -> None:
    orders.delete("orders", rules)
    orders.crash(3)
    orders.quiet()
    assert orders.image.topic("orders") is not None
    orders.start(3)
    orders.quiet()
    assert orders.image.topic("orders") is None


def test_a_new_controller_goes_on_with_a_deletion(orders: Any, rules: TopicRules) -> None:
    orders.delete("orders", rules)
    orders.deliver(2)
    orders.elect(2)
    orders.quiet()
    assert orders.image.topic("orders") is None
    assert not orders.model.truth.stored_values
    orders.check_told()


def test_a_topic_that_moves_is_deleted_when_it_has_arrived(orders: Any, rules: TopicRules) -> None:
    orders.start(4)
    orders.quiet()
    orders.reassign(ORDERS, (1, 2, 4))
    orders.quiet()
    orders.delete("orders", rules)
    orders.quiet()
    assert orders.partition(ORDERS).leader == 1, "it serves while it moves"
    orders.alter_isr(ORDERS, [1, 2, 3, 4])
    orders.quiet()
    assert orders.image.topic("orders") is None


def test_a_failed_disk_stops_a_deletion_until_the_broker_is_back(orders: Any, rules: TopicRules) -> None:
    orders.disks[2].failed.add(ORDERS)
    orders.delete("orders", rules)
    orders.quiet()
    assert orders.image.topic("orders") is not None
    orders.disks[2].failed.clear()
    orders.crash(2)
    orders.start(2)
    orders.quiet()
    assert orders.image.topic("orders") is None


@pytest.mark.parametrize("fails_before", [True, False])
def test_a_deletion_goes_on_when_a_broker_says_that_its_disk_has_room(
    orders: Any, rules: TopicRules, fails_before: bool
) -> None:
    """A broker whose disk was full asks for its orders again, and does not start again for that."""
    orders.disks[2].failed.add(ORDERS)
    if fails_before:
        orders.do(LogDirFailed((2,)))
        orders.quiet()
    orders.delete("orders", rules)
    orders.quiet()
    orders.do(LogDirFailed((2,)))
    orders.quiet()
    assert orders.image.topic("orders") is not None, "it failed again"
    orders.disks[2].failed.clear()
    orders.do(LogDirFailed((2,)))
    orders.quiet()
    assert orders.image.topic("orders") is None
    assert orders.disks[2].logs == {}
    orders.check_told()


def test_where_topics_may_not_be_deleted_the_note_is_taken_away(new_stage: Any) -> None:
    stage = new_stage(deletion_enabled=False)
    stage.start(1)
    stage.create("orders", (1,))
    stage.model.change([SetStoredValue(deletion_asked("orders"), "")])
    stage.quiet()
    assert stage.image.topic("orders") is not None
    assert not stage.model.truth.stored_values
    stage.model.change([SetStoredValue(deletion_asked("orders"), "")])
    stage.elect(1)
    stage.quiet()
    assert stage.partition(ORDERS).leader == 1
    assert not stage.model.truth.stored_values


def test_a_note_about_a_topic_that_is_not_there_is_taken_away(stage: Any) -> None:
    stage.model.change([SetStoredValue(deletion_asked("orders"), "")])
    stage.do(DeletionsAsked(("orders",)))
    assert not stage.model.truth.stored_values


def test_a_topic_of_the_same_name_can_be_made_again(orders: Any, rules: TopicRules) -> None:
    orders.delete("orders", rules)
    orders.quiet()
    orders.create("orders", (3, 2))
    orders.quiet()
    assert orders.partition(ORDERS).leader == 3
    orders.check_told()


# --- moving ----------------------------------------------------------------------------------------------------------


def test_a_partition_moves_step_by_step(orders: Any) -> None:
    orders.start(4)
    orders.quiet()
    assert orders.reassign(ORDERS, (4, 2)) == 0
    moving = orders.partition(ORDERS)
    assert (moving.replicas, moving.adding, moving.removing) == ((4, 2, 1, 3), (4,), (1, 3))
    assert (moving.leader, moving.leader_epoch) == (1, 1)
    orders.quiet()
    assert orders.brokers[4].replicas[ORDERS].is_new
    assert orders.brokers[1].replicas[ORDERS].adding_replicas == [4]
    orders.alter_isr(ORDERS, [1, 2, 3, 4])
    arrived = orders.partition(ORDERS)
    assert (arrived.replicas, arrived.isr, arrived.leader) == ((4, 2), (2, 4), 4)
    assert not arrived.is_reassigning
    orders.quiet()
    assert orders.disks[1].logs == {}
    assert orders.disks[3].logs == {}
    orders.check_told()


def test_a_move_waits_for_the_last_of_its_new_replicas(orders: Any) -> None:
    orders.start(4, 5)
    orders.quiet()
    orders.reassign(ORDERS, (4, 5))
    orders.quiet()
    orders.alter_isr(ORDERS, [1, 2, 3, 4])
    assert orders.partition(ORDERS).is_reassigning
    orders.alter_isr(ORDERS, [1, 4, 5])
    assert orders.partition(ORDERS).replicas == (4, 5)


def test_a_leader_that_stays_keeps_leading_after_a_move(orders: Any) -> None:
    orders.start(4)
    orders.quiet()
    orders.reassign(ORDERS, (4, 1))
    orders.quiet()
    orders.alter_isr(ORDERS, [1, 2, 3, 4])
    assert orders.partition(ORDERS).leader == 1
    orders.quiet()
    orders.check_told()


def test_a_move_can_be_given_up(orders: Any) -> None:
    orders.start(4)
    orders.quiet()
    orders.reassign(ORDERS, (4, 2))
    orders.quiet()
    assert orders.reassign(ORDERS, None) == 0
    assert orders.partition(ORDERS).replicas == (2, 1, 3)
    orders.quiet()
    assert orders.disks[4].logs == {}
    orders.check_told()


def test_a_new_controller_ends_a_move_that_is_done(orders: Any) -> None:
    orders.start(4)
    orders.quiet()
    orders.reassign(ORDERS, (4, 2))
    orders.quiet()
    # The in-sync set was written, and the controller died before it looked at the move.
    partition = orders.partition(ORDERS)
    written = replace(partition, isr=(1, 2, 3, 4), partition_epoch=partition.partition_epoch + 1)
    orders.model.change([ChangePartition(orders.image.topic_id("orders"), 0, written)])
    orders.elect(3)
    orders.quiet()
    assert orders.partition(ORDERS).replicas == (4, 2)
    orders.check_told()


def test_a_replica_that_moved_away_while_its_broker_was_away_is_deleted_when_it_is_back(orders: Any) -> None:
    orders.crash(3)
    orders.quiet()
    orders.reassign(ORDERS, (1, 2))
    orders.quiet()
    assert ORDERS in orders.disks[3].logs
    orders.start(3)
    orders.quiet()
    assert orders.disks[3].logs == {}
    orders.check_told()


def test_a_replica_that_moved_away_is_deleted_though_the_controller_died_before_it_said_so(
    orders: Any, died: Any
) -> None:
    orders.dies_after = 1
    with pytest.raises(died):
        orders.reassign(ORDERS, (1, 2))
    orders.quiet()
    assert orders.partition(ORDERS).replicas == (1, 2)
    assert orders.disks[3].logs == {}
    orders.check_told()


def test_a_move_does_not_end_without_somebody_to_lead(orders: Any) -> None:
    orders.start(4)
    orders.quiet()
    orders.reassign(ORDERS, (4,))
    orders.quiet()
    orders.shut_down(4)
    assert orders.alter_isr(ORDERS, [1, 2, 3, 4]).error_code == IneligibleReplica.code
    assert orders.partition(ORDERS).replicas == (4, 1, 2, 3)
    orders.crash(4)
    orders.start(4)
    orders.quiet()
    orders.alter_isr(ORDERS, [1, 2, 3, 4])
    assert orders.partition(ORDERS).replicas == (4,)


def test_a_move_that_a_tool_of_old_wrote_is_made_and_its_node_goes_at_the_end(orders: Any) -> None:
    orders.start(4)
    orders.quiet()
    orders.do(ReassignmentAsked(((ORDERS, (4, 2)),)))
    assert REASSIGNMENT_ASKED in orders.image.stored_values
    orders.quiet()
    orders.alter_isr(ORDERS, [1, 2, 3, 4])
    assert orders.partition(ORDERS).replicas == (4, 2)
    assert REASSIGNMENT_ASKED not in orders.image.stored_values


# --- preferred leaders -----------------------------------------------------------------------------------------------


def test_leaders_go_back_to_those_who_are_preferred(orders: Any) -> None:
    orders.create("other", (2, 1, 3))
    orders.quiet()
    orders.crash(2)
    orders.quiet()
    orders.start(2)
    orders.quiet()
    other = TopicPartition("other", 0)
    orders.do(RebalanceDue())
    assert orders.partition(other).leader == 1, "2 is not in sync yet"
    orders.alter_isr(other, [1, 3, 2])
    orders.do(RebalanceDue())
    assert orders.partition(other).leader == 2
    orders.quiet()
    orders.check_told()


def test_a_small_imbalance_stays(new_stage: Any) -> None:
    stage = new_stage(imbalance_percentage=50)
    stage.start(1, 2)
    stage.create("orders", (1, 2), (1, 2))
    stage.quiet()
    names = [TopicPartition("orders", index) for index in (0, 1)]
    stage.do(ElectionAsked(()))

    def lead_elsewhere(name: TopicPartition) -> None:
        partition = stage.partition(name)
        after = replace(partition, leader=2, leader_epoch=1, partition_epoch=partition.partition_epoch + 1)
        stage.model.change([ChangePartition(stage.image.topic_id("orders"), name.partition, after)])
        stage.quiet()

    lead_elsewhere(names[0])
    stage.do(RebalanceDue())
    assert stage.partition(names[0]).leader == 2
    lead_elsewhere(names[1])
    stage.do(RebalanceDue())
    assert [stage.partition(name).leader for name in names] == [1, 1]


def test_preferred_leaders_are_elected_on_request_and_the_request_is_done(orders: Any) -> None:
    other = TopicPartition("other", 0)
    orders.create("other", (2, 1, 3))
    orders.quiet()
    orders.crash(2)
    orders.start(2)
    orders.quiet()
    orders.alter_isr(other, [1, 3, 2])
    orders.do(ElectionAsked((other, TopicPartition("missing", 0))))
    assert orders.partition(other).leader == 2


# --- directories, producer ids ---------------------------------------------------------------------------------------


def test_a_failed_directory_moves_the_leaders_on_it(orders: Any) -> None:
    orders.disks[1].failed.add(ORDERS)
    orders.do(LogDirFailed((1,)))
    orders.quiet()
    partition = orders.partition(ORDERS)
    assert (partition.leader, partition.isr) == (2, (2, 3))
    assert orders.brokers[3].view[ORDERS].offline_replicas == [1]
    orders.disks[1].failed.clear()
    orders.crash(1)
    orders.start(1)
    orders.quiet()
    assert orders.brokers[3].view[ORDERS].offline_replicas == []
    assert orders.alter_isr(ORDERS, [2, 3, 1]).error_code == 0


def test_blocks_of_producer_ids_follow_each_other(stage: Any) -> None:
    given = [stage.producer_ids(each) for each in (1, 2, 1)]
    assert [(each.producer_id_start, each.producer_id_len) for each in given] == [(0, 1000), (1000, 1000), (2000, 1000)]
    stage.elect(2)
    assert stage.producer_ids(3).producer_id_start == 3000


def test_a_stranger_gets_no_producer_ids(stage: Any) -> None:
    assert stage.producer_ids(1, epoch=99).error_code == StaleBrokerEpoch.code
    refused = stage.do(ProducerIdsAsked(AllocateProducerIdsRequest(broker_id=8, broker_epoch=1)))
    assert refused.error_code == BrokerIdNotRegistered.code


# --- fail-over -------------------------------------------------------------------------------------------------------


def test_a_new_controller_says_first_how_things_are_and_then_what_to_do(orders: Any) -> None:
    for broker in orders.brokers.values():
        broker.heard.clear()
    orders.elect(2)
    orders.quiet()
    assert orders.brokers[3].heard == ["UpdateMetadata", "LeaderAndIsr"]
    assert orders.brokers[3].controller_id == 2
    orders.check_told()


def test_what_died_with_the_controller_is_found_out_by_the_next(orders: Any) -> None:
    orders.crash(1)
    orders.elect()
    orders.quiet()
    partition = orders.partition(ORDERS)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 1)
    orders.check_told()


def test_a_controller_of_yesterday_writes_nothing(orders: Any, moved: Any) -> None:
    yesterday, member = orders.state, orders.members[1]
    orders.model.depose()
    orders.members[2].stand(2)
    orders.state, before = yesterday, orders.model.truth
    member.take_events()
    with pytest.raises(moved):
        orders.shut_down(3)
    assert orders.model.truth == before
