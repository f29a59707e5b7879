"""Members of streams groups: joining, tasks, statuses, epochs, leaving, and what the log keeps."""

from __future__ import annotations

import pytest
from tests.unit.broker.coordinators.groups.streams.topologies import counting, sub, topic, topology

from ottla.broker.coordinators.groups.streams.state import Status
from ottla.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    NotEnoughReplicas,
    StreamsInvalidTopology,
    UnknownMemberId,
)
from ottla.protocol.messages import streams_group_heartbeat as wire

ALL = {("0", each) for each in range(4)}


def test_the_first_member_gets_every_task(streams):
    client = streams.client("A")
    answer = client.beat()
    assert (answer.member_epoch, answer.heartbeat_interval_ms, answer.status) == (2, 5_000, [])
    assert client.active == ALL
    assert not client.standby
    assert answer.warmup_tasks == []
    assert streams.streams_group().state_name == "Stable"
    assert [(each.group_type, each.protocol_type) for each in streams.listed(types=["streams"])] == [
        ("streams", "streams")
    ]
    streams.check_replay()


def test_a_second_member_gets_its_share_after_the_first_has_given_it_up(streams):
    a, b = streams.client("A"), streams.client("B")
    a.beat()
    b.beat()
    assert not b.active
    assert streams.streams_group().state_name == "Reconciling"
    a.beat()
    assert len(a.active) == 2, "half is revoked"
    b.beat()
    assert not b.active, "and not yet released"
    a.beat()
    b.beat()
    assert a.active | b.active == ALL
    assert not a.active & b.active
    streams.settle_beating(a, b, beats=2)
    assert streams.streams_group().state_name == "Stable"
    streams.check_replay()


def test_tasks_are_told_again_only_when_they_changed(streams):
    client = streams.client("A")
    client.beat()
    answer = client.beat()
    assert answer.active_tasks is answer.standby_tasks is answer.warmup_tasks is None
    assert not streams.uncommitted
    assert len(streams.log) == 6


def test_members_of_a_group_that_was_empty_are_waited_for(make_streams):
    streams = make_streams(group_streams_initial_rebalance_delay_ms=3_000)
    a, b = streams.client("A"), streams.client("B")
    a.beat()
    assert (a.statuses, a.active, a.epoch) == ([Status.ASSIGNMENT_DELAYED], set(), 1)
    streams.advance(2_000)
    b.beat()
    streams.advance(1_000)
    assert {len(each.active["0"]) for each in streams.streams_group().targets.values()} == {2}
    a.beat()
    b.beat()
    assert (len(a.active), len(b.active), a.statuses) == (2, 2, [])
    streams.check_replay()


def test_a_group_may_set_its_own_delay_session_and_standbys(make_streams):
    streams = make_streams(group_streams_initial_rebalance_delay_ms=3_000)
    streams.own_settings["g"] = {"streams.initial.rebalance.delay.ms": "0", "streams.heartbeat.interval.ms": "7000"}
    client = streams.client("A")
    assert client.beat().heartbeat_interval_ms == 7_000
    assert client.active == ALL


def test_the_next_assignment_waits_for_the_interval(make_streams):
    streams = make_streams(group_streams_assignment_interval_ms=1_000)
    a, b = streams.client("A"), streams.client("B")
    a.beat()
    b.beat()
    assert b.statuses == [Status.ASSIGNMENT_DELAYED]
    streams.advance(1_000)
    streams.settle_beating(a, b)
    assert len(a.active) == len(b.active) == 2


def test_missing_source_topics_are_a_status_until_they_are_made(streams):
    client = streams.client("A", sent=topology(sub("0", ["later"])))
    client.beat()
    assert client.statuses == [Status.MISSING_SOURCE_TOPICS]
    assert client.epoch == 2
    assert streams.streams_group().state_name == "NotReady"
    streams.make_topic("later", 3)
    client.beat()
    assert client.statuses == []
    assert client.active == {("0", 0), ("0", 1), ("0", 2)}
    streams.delete_topic("later")
    client.beat()
    assert client.statuses == [Status.MISSING_SOURCE_TOPICS]
    assert not client.active
    streams.check_replay()


def test_internal_topics_are_asked_for_with_the_right_partitions(streams):
    client = streams.client("A", sent=counting())
    client.beat()
    assert client.statuses == [Status.MISSING_INTERNAL_TOPICS]
    assert not client.active
    made = streams.make_missing_topics()
    assert {name: each.num_partitions for name, each in made.items()} == {"r": 4, "log": 4}
    client.beat()
    assert client.statuses == []
    assert len(client.active) == 8
    assert not streams.shard.missing_streams_topics("g")


def test_standby_tasks_are_in_other_processes(make_streams):
    streams = make_streams(group_streams_num_standby_replicas=1)
    clients = [streams.client(name, process=process, sent=counting()) for name, process in ("Ap", "Bp", "Cq")]
    clients[0].beat()
    streams.make_missing_topics()
    streams.settle_beating(*clients)
    by_process = {"p": clients[0].active | clients[1].active, "q": clients[2].active}
    kept = {"p": clients[0].standby | clients[1].standby, "q": clients[2].standby}
    assert {each for each in by_process["p"] if each[0] == "1"} == kept["q"]
    assert {each for each in by_process["q"] if each[0] == "1"} == kept["p"]
    assert not any(name == "0" for each in kept.values() for name, _ in each), "stateless tasks need none"
    streams.check_replay()


def test_a_task_becomes_active_where_it_stood_by_with_one_more_heartbeat(make_streams):
    streams = make_streams(group_streams_num_standby_replicas=1)
    a, b = streams.client("A", sent=counting()), streams.client("B", sent=counting())
    a.beat()
    streams.make_missing_topics()
    streams.settle_beating(a, b)
    stood_by = set(b.standby)
    a.leave()
    b.beat()
    b.beat()
    assert stood_by <= b.active
    assert not b.standby


def test_a_change_of_the_standby_setting_moves_the_group(streams):
    a, b = streams.client("A", sent=counting()), streams.client("B", sent=counting())
    a.beat()
    streams.make_missing_topics()
    streams.settle_beating(a, b)
    assert not a.standby
    streams.own_settings["g"] = {"streams.num.standby.replicas": "1"}
    streams.settle_beating(a, b)
    assert a.standby
    assert b.standby


def test_a_member_with_another_topology_is_refused_and_with_an_older_one_told(streams):
    streams.client("A", sent=topology(sub("0", ["t"]), epoch=3)).beat()
    other = streams.client("B", sent=topology(sub("0", ["u"]), epoch=3))
    other.beat()
    assert other.code == InvalidRequest.code
    old = streams.client("C", sent=topology(sub("0", ["u"]), epoch=2))
    old.beat()
    assert old.code == 0
    assert old.statuses == [Status.STALE_TOPOLOGY]


def test_one_member_stops_the_whole_application(streams):
    a, b = streams.client("A"), streams.client("B")
    streams.settle_beating(a, b)
    a.beat(shutdown_application=True)
    assert a.statuses == [Status.SHUTDOWN_APPLICATION]
    answer = b.beat()
    assert answer.status[0].status_detail.startswith("Streams group member A encountered a fatal error")
    a.leave()
    b.leave()
    b.beat()
    assert b.statuses == [], "it holds until the group is empty"


def test_endpoints_are_told_to_everybody_when_they_changed(streams):
    endpoint = wire.Endpoint(host="app-1", port=8080)
    a, b = streams.client("A", endpoint=endpoint), streams.client("B")
    streams.settle_beating(a, b)
    for client in (a, b):
        (entry,) = client.endpoints
        assert (entry.user_endpoint.host, entry.user_endpoint.port) == ("app-1", 8080)
        (partitions,) = entry.active_partitions
        assert (partitions.topic, {("0", each) for each in partitions.partitions}) == ("t", a.active)
    assert b.beat().partitions_by_user_endpoint is None


def test_a_member_one_epoch_behind_lost_our_answer(streams):
    a, b = streams.client("A"), streams.client("B")
    a.beat()
    b.beat()
    a.beat()
    before = a.epoch, set(a.active)
    a.beat()
    assert a.epoch == before[0] + 1
    a.epoch = before[0]
    a.beat()
    assert (a.code, a.epoch, a.active) == (0, before[0] + 1, before[1])


@pytest.mark.parametrize("epoch", [1, 7])
def test_every_other_epoch_is_fenced(streams, epoch):
    client = streams.client("A")
    streams.settle_beating(client, beats=3)
    assert client.beat(
        member_epoch=epoch, active_tasks=[wire.TaskIds(subtopology_id="0", partitions=[0])]
    ).error_code == (FencedMemberEpoch.code)


def test_a_member_that_is_silent_is_put_out(streams):
    a, b = streams.client("A"), streams.client("B")
    streams.settle_beating(a, b)
    for _ in range(10):
        streams.advance(5_000)
        b.beat()
    assert b.active == ALL
    assert set(streams.streams_group().members) == {"B"}
    a.beat(member_epoch=3, topology=None)
    assert a.code == UnknownMemberId.code


def test_a_member_that_does_not_give_up_its_tasks_is_put_out(streams):
    a, b = streams.client("A"), streams.client("B")
    a.beat()
    b.beat()
    a.beat()
    for _ in range(13):
        streams.advance(5_000)
        b.beat()
        a.beat(active_tasks=[wire.TaskIds(subtopology_id="0", partitions=[0, 1, 2, 3])], member_epoch=2, topology=None)
    assert a.code == UnknownMemberId.code
    b.beat()
    assert b.active == ALL


def test_who_leaves_frees_its_tasks(streams):
    a, b = streams.client("A"), streams.client("B")
    streams.settle_beating(a, b)
    answer = a.leave()
    assert (answer.error_code, answer.member_epoch) == (0, -1)
    b.beat()
    assert b.active == ALL
    b.leave()
    assert streams.streams_group().state_name == "Empty"
    assert streams.delete_groups("g") == {"g": 0}
    assert "g" not in streams.shard.groups
    streams.check_replay()


def test_a_group_takes_only_so_many_members(make_streams):
    streams = make_streams(group_streams_max_size=1)
    a, b = streams.client("A"), streams.client("B")
    a.beat()
    b.beat()
    assert b.code == GroupMaxSizeReached.code
    a.epoch = 0
    a.active = set()
    a.beat()
    assert a.code == 0, "one that is a member already may begin again"


def test_an_empty_classic_group_becomes_a_streams_group_and_back(streams):
    member = streams.new_id()
    streams.settle(member)
    refused = streams.client("A")
    refused.beat()
    assert refused.code == GroupIdNotFound.code
    streams.leave(member)
    client = streams.client("A")
    client.beat()
    assert client.active == ALL
    assert streams.answer(streams.join()).error_code == 23  # INCONSISTENT_GROUP_PROTOCOL
    client.leave()
    assert streams.new_id()
    streams.advance(60_000)
    streams.check_replay()


def test_a_restart_keeps_everything_and_goes_on(streams):
    a, b = streams.client("A", sent=counting()), streams.client("B", sent=counting())
    a.beat()
    streams.make_missing_topics()
    streams.settle_beating(a, b)
    before = a.epoch, set(a.active), set(b.active)
    streams.restart()
    streams.settle_beating(a, b)
    assert (a.epoch, a.active, b.active) == before
    assert streams.streams_group().state_name == "Stable"


def test_a_group_whose_first_records_cannot_be_written_never_was(streams):
    streams.append_error = NotEnoughReplicas()
    client = streams.client("A")
    client.beat()
    assert client.code == 15
    assert "g" not in streams.shard.groups
    streams.append_error = None
    client.beat()
    assert client.active == ALL
    streams.check_replay()


def test_the_epochs_of_requests_and_topologies_are_checked_before_anything_else(streams):
    client = streams.client("A")
    for wrong, why in [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"member_epoch": -3, "topology": None}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"member_epoch": 4}, "Topology can only be provided when (re-)joining."),
        ({"task_offsets": []}, "TaskOffsets are not supported yet."),
    ]:
        answer = client.beat(**wrong)
        assert (answer.error_code, answer.error_message) == (InvalidRequest.code, why), wrong
    client.sent = topology(sub("0", ["t"], [topic("log", 3)]))
    assert client.beat().error_code == StreamsInvalidTopology.code
    assert "g" not in streams.shard.groups
    missing = client.beat(member_epoch=4, topology=None)
    assert (missing.error_code, missing.error_message) == (GroupIdNotFound.code, "Streams group g not found.")


def test_tasks_that_the_topology_does_not_have_are_refused(streams):
    client = streams.client("A")
    client.beat()
    for wrong in ({"subtopology_id": "9", "partitions": [0]}, {"subtopology_id": "0", "partitions": [4]}):
        assert client.beat(active_tasks=[wire.TaskIds(**wrong)]).error_code == InvalidRequest.code


def test_a_group_is_described_with_its_topology_and_tasks(streams):
    client = streams.client("A", sent=counting(), endpoint=wire.Endpoint(host="h", port=1))
    client.beat()
    described = streams.streams_described()
    assert described.group_state == "NotReady"
    assert [each.partitions for each in described.topology.subtopologies[1].state_changelog_topics] == [0]
    streams.make_missing_topics()
    streams.settle_beating(client, beats=2)
    described = streams.streams_described()
    assert (described.group_state, described.error_code) == ("Stable", 0)
    assert [each.subtopology_id for each in described.topology.subtopologies] == ["0", "1"]
    assert [each.partitions for each in described.topology.subtopologies[1].repartition_source_topics] == [4]
    (member,) = described.members
    assert (member.member_id, member.process_id, member.user_endpoint.host) == ("A", "A", "h")
    assert member.assignment == member.target_assignment
    assert streams.streams_described("nobody").error_message == "Group nobody not found."
