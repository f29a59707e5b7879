"""What administrators see and set of share groups: where they are, how far behind, and their end."""

from __future__ import annotations

import pytest
from tests.unit.broker.sharing.share_member import ACCEPT, GROUP, RELEASE, Member, acquired, later, set_group

from ottla.errors import NONE, GroupIdNotFound, InvalidGroupId, InvalidRequest, NonEmptyGroup, UnknownTopicOrPartition
from ottla.protocol.messages import alter_share_group_offsets as altering
from ottla.protocol.messages import delete_share_group_offsets as deleting
from ottla.protocol.messages import describe_share_group_offsets as describing
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.values import uuid_to_text


@pytest.fixture
def orders(make_broker, batch):
    """A broker with five records in `orders`, and a member that has done three of them."""
    broker = make_broker(**{"share.coordinator.state.topic.num.partitions": "3"})
    broker.topic_id = broker.create_topic("orders")
    set_group(broker, share_auto_offset_reset="earliest")
    broker.produce("orders", batch("a", "b", "c", "d", "e"))
    broker.member = Member(broker).join("orders")
    broker.member.fetch_one()
    broker.member.acknowledge(broker.topic_id, (0, 1, [ACCEPT]), (2, 2, [RELEASE]), (3, 3, [ACCEPT]))
    return broker


def offsets_of(broker, group_id=GROUP, topics=None):
    asked = describing.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)
    return broker.ask(describing.DescribeShareGroupOffsetsRequest(groups=[asked])).groups[0]


def only(group):
    (partition,) = (each for topic in group.topics for each in topic.partitions)
    return partition.error_code, partition.start_offset, partition.lag


def end(broker):
    """The member leaves its session and its group."""
    broker.member.acknowledge(broker.topic_id, (4, 4, [RELEASE]), is_end=True)
    assert broker.member.leave().member_epoch == -1


def set_start(broker, offset, topic="orders", partition=0, group_id=GROUP):
    place = altering.AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    topics = [altering.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[place])]
    answer = broker.ask(altering.AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics))
    return answer.error_code or answer.responses[0].partitions[0].error_code


def forget(broker, topic="orders"):
    topics = [deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
    answer = broker.ask(deleting.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics))
    return answer.error_code or answer.responses[0].error_code


def test_the_start_and_the_lag_say_how_far_a_group_is(orders):
    assert only(offsets_of(orders)) == (0, 2, 2), "two of the three records behind the start are not done"
    named = describing.DescribeShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[0])
    assert only(offsets_of(orders, topics=[named])) == (0, 2, 2)
    unknown = describing.DescribeShareGroupOffsetsRequestTopic(topic_name="none", partitions=[0])
    assert only(offsets_of(orders, topics=[unknown]))[:2] == (NONE, -1)
    nobody = offsets_of(orders, "nobody")
    assert (nobody.error_code, nobody.topics) == (NONE, []), "as Kafka says it"
    beyond = describing.DescribeShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[7])
    assert only(offsets_of(orders, topics=[beyond])) == (NONE, -1, -1)


def test_where_a_group_begins_is_set_when_it_is_empty(orders):
    assert set_start(orders, 1) == NonEmptyGroup.code
    end(orders)
    assert set_start(orders, -5) == InvalidRequest.code
    assert set_start(orders, 1, "none") == UnknownTopicOrPartition.code
    assert set_start(orders, 1) == 0
    assert only(offsets_of(orders)) == (0, 1, 4), "all behind it is still to be done"
    assert acquired(Member(orders, 2).join("orders").fetch_one()) == [(1, 4, 1)]


def test_a_group_may_be_told_where_it_begins_before_anybody_joins(orders):
    assert set_start(orders, 3, group_id="early") == 0
    assert only(offsets_of(orders, "early")) == (0, 3, 2)
    assert acquired(Member(orders, 2, "early").join("orders").fetch_one()) == [(3, 4, 1)]
    assert set_start(orders, 3, group_id="") == InvalidGroupId.code


def test_a_leader_with_the_old_state_is_refused_and_reads_the_new_one(orders):
    """A member that vanished from its group may still hold its session."""
    assert orders.member.leave().member_epoch == -1
    assert set_start(orders, 1) == 0
    assert orders.member.acknowledge(orders.topic_id, (4, 4, [ACCEPT])) != 0
    assert acquired(Member(orders, 2).join("orders").fetch_one()) == [(1, 4, 1)]


def test_what_is_forgotten_begins_anew(orders):
    assert forget(orders) == NonEmptyGroup.code
    end(orders)
    assert forget(orders, "none") == UnknownTopicOrPartition.code
    assert forget(orders) == 0
    assert offsets_of(orders).topics == []
    assert forget(orders) == UnknownTopicOrPartition.code, "it has no state of it any more"
    assert acquired(Member(orders, 2).join("orders").fetch_one()) == [(0, 4, 1)]


def test_a_group_is_deleted_with_its_state(orders):
    def delete():
        return orders.ask(DeleteGroupsRequest(groups_names=[GROUP])).results[0].error_code

    assert delete() == NonEmptyGroup.code
    end(orders)
    assert delete() == 0
    assert not orders.broker.coordinators.share_state.runtime.shard_of(0).states
    assert offsets_of(orders).topics == []
    assert acquired(Member(orders, 2).join("orders").fetch_one()) == [(0, 4, 1)]


def test_a_topic_that_is_deleted_leaves_no_state(orders):
    from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    orders.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=bytes(16))], timeout_ms=1000))
    later(orders, 100)
    shards = [shard for _, shard in orders.broker.coordinators.share_state.runtime.shards()]
    assert not any(shard.states for shard in shards)
    assert offsets_of(orders).topics == []


def test_tools_know_the_type_and_the_members(orders):
    listed = orders.ask(ListGroupsRequest(states_filter=[], types_filter=["share"])).groups
    assert [(each.group_id, each.group_type, each.group_state, each.protocol_type) for each in listed] == [
        (GROUP, "share", "Stable", "share")
    ]
    described = orders.ask(ShareGroupDescribeRequest(group_ids=[GROUP, "nobody"], include_authorized_operations=True))
    group, nobody = described.groups
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    assert [each.topic_name for each in group.members[0].assignment.topic_partitions] == ["orders"]
    assert (nobody.error_code, nobody.group_state) == (GroupIdNotFound.code, "")
    classic = orders.ask(DescribeGroupsRequest(groups=[GROUP])).groups[0]
    assert classic.error_code == GroupIdNotFound.code


def test_brokers_find_the_share_coordinator_of_a_share_partition(orders):
    def find(key):
        return orders.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key])).coordinators[0].error_code

    assert find(f"{GROUP}:{uuid_to_text(orders.topic_id)}:0") == 0
    for wrong in (GROUP, f"{GROUP}:x:0", f"{GROUP}:{uuid_to_text(orders.topic_id)}:x", f":{'A' * 22}:0"):
        assert find(wrong) == InvalidRequest.code
