"""What the doctor makes of facts, without a cluster."""

from __future__ import annotations

import pytest

from ottla.client.admin.cluster import ClusterDescription
from ottla.client.admin.groups import GroupDescription, MemberDescription
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.topics import PartitionDescription, TopicDescription
from ottla.client.admin.transactions import ProducerState
from ottla.client.diagnosis import (
    Finding,
    Knock,
    judge_clock,
    judge_controller,
    judge_defaults,
    judge_group,
    judge_internal_topic,
    judge_no_quorum,
    judge_quorum,
    judge_stable,
    judge_topic,
    judge_voter,
    named,
)
from ottla.errors import (
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    NotConnected,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnsupportedVersion,
)
from ottla.quorum_health import QuorumInfo, QuorumReplica
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


# --- the quorum -------------------------------------------------------------------------------------------------------

NOW_MS = 1_000_000
HERE = Finding("voter 3", "ok", "somebody listens there")
NOBODY_HERE = Finding("voter 3", "failed", "nobody listens there", "Is the broker running?")


def voter(node_id: int, silent_ms: int = 200, behind: int = 0) -> QuorumReplica:
    seen_ms = NOW_MS - silent_ms
    return QuorumReplica(node_id, 500 - behind, seen_ms, seen_ms, bytes([node_id]) * 16)


def quorum_of(*others: QuorumReplica) -> QuorumInfo:
    """Led by node 1."""
    return QuorumInfo(1, 7, 500, (voter(1, silent_ms=0), *others), ())


def test_a_quorum_that_is_well_is_a_sentence():
    (found,) = judge_quorum(quorum_of(voter(2), voter(3)), broker_count=3)
    assert found == ("quorum", "ok", "3 voters (1, 2, 3), led by node 1 in epoch 7; the loss of 1 is borne", "")
    (alone,) = judge_quorum(quorum_of(), broker_count=1)
    assert alone.what == "node 1 alone votes and leads, in epoch 7"


def test_a_lost_majority_fails_with_what_works_what_does_not_and_what_to_do():
    (found,) = judge_quorum(quorum_of(voter(2, 60_000), voter(3, 60_000)), broker_count=3)
    assert (found.step, found.result) == ("quorum", "failed")
    assert found.what.startswith("of 3 voters only 1 is heard of, and 2 are a majority. What is led goes on")
    assert "Nothing is decided: no topic is created" in found.what
    assert found.remedy.startswith("Start controllers until more than half of the voters run")


@pytest.mark.parametrize("error", [NotLeaderOrFollower(), RequestTimedOut(), BrokerNotAvailable(), TimeoutError()])
def test_nobody_who_answers_as_leader_is_a_lost_majority_too(error: Exception):
    found = judge_no_quorum(error)
    assert found is not None
    assert (found.step, found.result) == ("quorum", "failed")
    assert "nobody leads the metadata log" in found.what
    assert "partitions whose leaders live are written and read" in found.what


def test_a_cluster_without_a_metadata_log_or_a_user_without_the_right_is_no_illness():
    old, refused = judge_no_quorum(UnsupportedVersion()), judge_no_quorum(ClusterAuthorizationFailed())
    assert old == ("quorum", "skipped", "this cluster has no metadata log", "")
    assert refused == ("quorum", "skipped", "this user may not see it", "")
    assert judge_no_quorum(NotConnected()) is None, "that is about the broker that was asked"


def test_the_number_of_voters_is_judged_beside_them():
    status, number = judge_quorum(quorum_of(voter(2)), broker_count=2)
    assert (status.result, status.what.endswith("no loss is borne")) == ("ok", True)
    assert (number.step, number.result) == ("number of voters", "warning")
    assert "there are two voters" in number.what
    (_, even) = judge_quorum(quorum_of(voter(2), voter(3), voter(4)), broker_count=4)
    assert "there are 4 voters" in even.what
    (_, alone) = judge_quorum(quorum_of(), broker_count=3)
    assert "node 1 alone votes" in alone.what


def test_a_voter_that_is_well_is_told_with_its_place_whoever_can_reach_that():
    well = quorum_of(voter(2), voter(3))
    assert judge_voter(well, well.voters[0], None, 3) == ("voter 1", "ok", "it leads", "")
    found = judge_voter(well, well.voters[2], Knock("c:9093", HERE), 3)
    assert found == ("voter 3", "ok", "it asked for the log 200 ms ago; somebody listens at c:9093", "")
    unreached = judge_voter(well, well.voters[2], Knock("c:9093", NOBODY_HERE), 3)
    assert (unreached.result, "cannot be reached from here" in unreached.what) == ("ok", True)


@pytest.mark.parametrize(
    ("knock", "said"),
    [
        (None, "for 42 s. Everything works; 2 of 3"),
        (Knock("c:9093", NOBODY_HERE), "for 42 s; nobody listens there. Everything works"),
        (Knock("c:9093", HERE, speaks_kafka=True), "; it answers there, so it runs, and does not reach the leader"),
        (Knock("c:9093", HERE), "for 42 s; somebody listens there. Everything works"),
    ],
)
def test_a_silent_voter_is_told_with_what_was_found_where_it_listens(knock: Knock | None, said: str):
    found = quorum_of(voter(2), voter(3, 42_000))
    silent = judge_voter(found, found.voters[2], knock, 3)
    assert (silent.step, silent.result) == ("voter 3", "warning")
    assert silent.what.startswith("it has not asked for the log for 42 s")
    assert said in silent.what
    assert "ottla cluster replace 3" in silent.remedy
    (status,) = judge_quorum(found, 3)
    assert (status.result, status.what) == (
        "ok",
        "3 voters (1, 2, 3), 2 of them are there, led by node 1 in epoch 7; no loss is borne",
    )


def test_a_voter_that_lost_its_disk_runs_and_is_not_said_to_be_cut_off():
    back = voter(3)._replace(directory_id=b"d" * 16)
    found = quorum_of(voter(2), voter(3, 42_000))
    found = QuorumInfo(1, 7, 500, found.voters, (back,))
    lost = judge_voter(found, found.voters[2], Knock("c:9093", HERE, speaks_kafka=True), 3)
    assert lost.what.startswith("it came back with another directory")
    assert "does not reach the leader" not in lost.what
    assert "remove-controller --controller-id 3" in lost.remedy


@pytest.mark.parametrize(
    ("before_ms", "after_ms", "result", "said"),
    [
        (NOW_MS - 10, NOW_MS + 10, "ok", "right"),
        (NOW_MS - 60_000, NOW_MS + 60_000, "ok", "right"),  # whoever answers late is not wrong
        (NOW_MS - 4_000, NOW_MS - 3_000, "ok", "right"),
        (NOW_MS - 43_000, NOW_MS - 42_000, "warning", "it is 42 s ahead of the clock here. Everything works"),
        (NOW_MS + 600_000, NOW_MS + 600_001, "warning", "it is 10 min behind the clock here"),
    ],
)
def test_the_clock_of_who_leads_is_compared_with_the_one_here(before_ms: int, after_ms: int, result: str, said: str):
    found = judge_clock(quorum_of(voter(2), voter(3)), before_ms, after_ms)
    assert found is not None
    assert (found.step, found.result) == ("clock of node 1", result)
    assert said in found.what


def test_a_clock_that_is_not_told_is_not_judged():
    old = QuorumInfo(1, 7, 500, (QuorumReplica(1, 500, None, None),), ())
    assert judge_clock(old, NOW_MS, NOW_MS) is None
