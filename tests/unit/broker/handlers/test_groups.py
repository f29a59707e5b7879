"""Classic groups through their handlers: who coordinates, joining, offsets, listing, deleting."""

import pytest

from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    InvalidRequest,
    MemberIdRequired,
    NonEmptyGroup,
    NotCoordinator,
    UnknownMemberId,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


@pytest.fixture
def grouped(broker):
    """A broker whose group coordinator is there, with the topic `orders`."""
    broker.topic_id = broker.create_topic("orders", 2)
    find(broker, "g")
    return broker


def find(broker, *keys, key_type=0, version=6):
    if version < 4:
        return broker.ask(FindCoordinatorRequest(key=keys[0], key_type=key_type), version)
    return broker.ask(FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type), version).coordinators


def join(broker, member_id="", group="g", version=9, begin=False):
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"me")],
    )
    return broker.begin(request, version) if begin else broker.ask(request, version)


def sync(broker, joined, assignment=b"all", group="g"):
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )
    return broker.ask(request)


def member(broker, group="g"):
    """One member in a stable group."""
    asked = join(broker, group=group)
    assert asked.error_code == MemberIdRequired.code
    joined = join(broker, asked.member_id, group)
    assert joined.error_code == 0, joined
    assert sync(broker, joined, group=group).assignment == b"all"
    return joined


def commit(broker, offset, group="g", version=9, generation=-1, member_id="", topic="orders", topic_id=b"\0" * 16):
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="note")
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[partition])],
    )
    return broker.ask(request, version).topics[0].partitions[0].error_code


def committed(broker, group="g", version=9, topic_id=b"\0" * 16):
    if version < 8:
        topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
        answer = broker.ask(OffsetFetchRequest(group_id=group, topics=topics), version)
        return answer.topics[0].partitions[0].committed_offset
    topics = [OffsetFetchRequestTopics(name="orders", topic_id=topic_id, partition_indexes=[0])]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    return broker.ask(asked, version).groups[0].topics[0].partitions[0].committed_offset


# -- FindCoordinator ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 1])
def test_this_broker_coordinates_everything(broker, version, key_type):
    if version == 0 and key_type == 1:
        pytest.skip("version 0 knows groups only")
    answer = find(broker, "one", key_type=key_type, version=version)
    found = answer[0] if version >= 4 else answer
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "localhost", 9092)


def test_keys_are_answered_each(broker):
    assert [(one.key, one.error_code) for one in find(broker, "a", "", "b")] == [
        ("a", 0),
        ("", InvalidGroupId.code),
        ("b", 0),
    ]


def test_a_kind_of_coordinator_that_is_not_here_is_refused(broker):
    assert find(broker, "g:AAAAAAAAAAAAAAAAAAAAAA:0", key_type=3)[0].error_code == InvalidRequest.code


def test_who_asks_before_there_is_a_coordinator_is_told_to_come_again(broker):
    broker.create_topic("orders")
    assert commit(broker, 1) == CoordinatorNotAvailable.code
    for version in range(10):
        assert join(broker, version=version).error_code == CoordinatorNotAvailable.code
    answer = broker.ask(DescribeGroupsRequest(groups=["g"]))
    assert answer.groups[0].error_code == CoordinatorNotAvailable.code


# -- members -----------------------------------------------------------------------------------------------------------


def test_a_member_joins_syncs_and_beats(grouped):
    joined = member(grouped)
    assert (joined.generation_id, joined.leader) == (1, joined.member_id)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert grouped.ask(beat).error_code == 0
    beat.generation_id = 7
    assert grouped.ask(beat).error_code == IllegalGeneration.code
    beat.group_id = "other"
    assert grouped.ask(beat).error_code == UnknownMemberId.code


def test_a_heartbeat_is_answered_blindly_while_the_coordinator_reads_what_it_took_over(grouped):
    joined = member(grouped)
    groups = grouped.broker.groups
    place = groups.runtime._places[groups.partition_of("g")]
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    place.is_loaded = False
    assert grouped.ask(beat).error_code == 0
    assert commit(grouped, 1) == CoordinatorLoadInProgress.code
    place.is_loaded = True
    assert grouped.ask(beat).error_code == 0


@pytest.mark.parametrize("version", range(4))
def test_an_old_client_joins_at_once(grouped, version):
    assert join(grouped, version=version).error_code == 0


def test_a_silent_member_is_removed_by_time(grouped):
    joined = member(grouped)
    grouped.later(10_100)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert grouped.ask(beat).error_code == UnknownMemberId.code


def test_a_second_member_starts_a_rebalance(grouped):
    first = member(grouped)
    asked = join(grouped)
    waiting = join(grouped, asked.member_id, begin=True)
    assert not waiting.is_answered
    again = join(grouped, first.member_id)
    assert again.generation_id == 2
    assert len(again.members) == 2
    assert waiting.answer.generation_id == 2


def test_a_member_that_leaves_empties_the_group(grouped):
    joined = member(grouped)
    leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)])
    assert grouped.ask(leaving).members[0].error_code == 0
    described = grouped.ask(DescribeGroupsRequest(groups=["g"])).groups[0]
    assert described.group_state == "Empty"


# -- offsets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_are_committed_and_fetched(grouped, version):
    assert commit(grouped, 42, version=version) == 0
    assert committed(grouped, version=min(version, 9)) == 42


def test_offsets_go_by_topic_id_from_version_10_on(grouped):
    assert commit(grouped, 5, version=10, topic_id=grouped.topic_id) == 0
    assert committed(grouped, version=10, topic_id=grouped.topic_id) == 5


def test_a_member_commits_in_its_generation_only(grouped):
    joined = member(grouped)
    assert commit(grouped, 1, generation=1, member_id=joined.member_id) == 0
    assert commit(grouped, 2, generation=9, member_id=joined.member_id) == IllegalGeneration.code
    assert commit(grouped, 3, generation=1, member_id="stranger") == UnknownMemberId.code
    assert committed(grouped) == 1


def test_several_groups_are_fetched_together(grouped):
    commit(grouped, 1, "g1")
    commit(grouped, 2, "g2")
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g1", "g2", "g3")]
    answer = grouped.ask(OffsetFetchRequest(groups=groups), 9)
    told = {one.group_id: [p.committed_offset for t in one.topics for p in t.partitions] for one in answer.groups}
    assert told == {"g1": [1], "g2": [2], "g3": []}


def test_offsets_are_deleted_on_demand_and_with_their_topic(grouped):
    commit(grouped, 1)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="orders", partitions=partitions)])
    assert grouped.ask(request).error_code == 0
    assert committed(grouped) == -1
    request.group_id = "missing"
    assert grouped.ask(request).error_code == GroupIdNotFound.code
    commit(grouped, 2)
    grouped.ask(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 5)
    groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
    assert grouped.ask(OffsetFetchRequest(groups=groups), 9).groups[0].topics == []


def test_offsets_and_groups_survive_a_restart(grouped):
    joined = member(grouped)
    commit(grouped, 7, "simple")
    grouped.restart()
    assert committed(grouped, "simple") == 7
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert grouped.ask(beat).error_code == 0


def test_an_offline_coordinator_sends_clients_away(grouped):
    grouped.files.fail(lambda operation: operation.kind == "sync", for_ever=True)
    assert commit(grouped, 1) != 0
    assert commit(grouped, 1) == NotCoordinator.code


# -- looking and deleting ----------------------------------------------------------------------------------------------


def test_groups_are_listed_and_filtered(grouped):
    member(grouped)
    commit(grouped, 1, "simple")

    def listed(**filters):
        return sorted(one.group_id for one in grouped.ask(ListGroupsRequest(**filters)).groups)

    assert listed() == ["g", "simple"]
    assert listed(states_filter=["Stable"]) == ["g"]
    assert listed(types_filter=["classic"]) == ["g", "simple"]
    assert listed(types_filter=["consumer"]) == []


def test_a_group_is_described(grouped):
    member(grouped)
    known, unknown = grouped.ask(
        DescribeGroupsRequest(groups=["g", "missing"], include_authorized_operations=True)
    ).groups
    assert (known.group_state, known.protocol_data, len(known.members)) == ("Stable", "range", 1)
    assert known.members[0].client_host == "/127.0.0.1"
    assert known.authorized_operations > 0
    assert (unknown.group_state, unknown.error_code) == ("Dead", GroupIdNotFound.code)


def test_only_empty_groups_are_deleted(grouped):
    member(grouped)
    commit(grouped, 1, "simple")
    answer = grouped.ask(DeleteGroupsRequest(groups_names=["g", "simple", "missing", "simple"]))
    assert {one.group_id: one.error_code for one in answer.results} == {
        "g": NonEmptyGroup.code,
        "simple": 0,
        "missing": GroupIdNotFound.code,
    }
