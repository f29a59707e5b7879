"""What a DescribeQuorum answer says of a quorum: who is there, and each thing that can be wrong, in words."""

from __future__ import annotations

import pytest

from ottla.errors import NotLeaderOrFollower
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.quorum_health import (
    QuorumEndpoint,
    QuorumInfo,
    QuorumReplica,
    Trouble,
    caught_up_ms,
    is_silent,
    lag,
    quorum_of,
    shown,
    silent_ms,
    soundness,
    troubles_of,
)
from ottla.values import ZERO_UUID, uuid_to_text

NOW_MS = 1_000_000
END = 5_000


def replica(
    node_id: int,
    *,
    silent: int | None = 200,
    behind: int = 0,
    had_all: int | None = 200,
    directory: int | None = 0,
) -> QuorumReplica:
    """A member that fetched so long ago; `directory` tells directories of one node apart, None is an old answer."""
    return QuorumReplica(
        node_id,
        END - behind,
        None if silent is None else NOW_MS - silent,
        None if had_all is None else NOW_MS - had_all,
        None if directory is None else bytes([node_id, directory]) * 8,
    )


def quorum(*others: QuorumReplica, observers: tuple[QuorumReplica, ...] = ()) -> QuorumInfo:
    """Node 1 leads, and these are the other voters."""
    voters = (replica(1, silent=0, had_all=0), *others)
    endpoints = {each.node_id: (QuorumEndpoint("CONTROLLER", f"host-{each.node_id}", 9093),) for each in voters}
    return QuorumInfo(1, 7, END - 1, voters, observers, endpoints)


def troubles(found: QuorumInfo, brokers: int = 3) -> list[Trouble]:
    return troubles_of(found, brokers=brokers)


def only(found: QuorumInfo, brokers: int = 3) -> Trouble:
    (trouble,) = troubles(found, brokers)
    return trouble


# --- reading an answer -----------------------------------------------------------------------------------------------


def answer(error: int = 0, **partition: object) -> DescribeQuorumResponse:
    state = ReplicaState(replica_id=1, log_end_offset=9)
    said = {
        "partition_index": 0,
        "error_code": error,
        "leader_id": 1,
        "leader_epoch": 3,
        "high_watermark": 9,
        "current_voters": [state],
        "observers": [],
        **partition,
    }
    topic = ResponseTopicData(topic_name="__cluster_metadata", partitions=[ResponsePartitionData(**said)])
    nodes = [Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="a", port=9093)])]
    return DescribeQuorumResponse(error_code=0, topics=[topic], nodes=nodes)


def test_an_answer_of_an_old_version_has_no_times_and_no_directories() -> None:
    found = quorum_of(answer())
    assert found.voters == (QuorumReplica(1, 9, None, None, None),)
    assert found.endpoints == {1: (QuorumEndpoint("CONTROLLER", "a", 9093),)}
    assert not found.has_times
    assert ZERO_UUID not in found.voters[0]


def test_an_answer_that_is_an_error_is_raised() -> None:
    with pytest.raises(NotLeaderOrFollower, match="not me"):
        quorum_of(answer(NotLeaderOrFollower.code, error_message="not me"))
    with pytest.raises(NotLeaderOrFollower):
        quorum_of(DescribeQuorumResponse(error_code=NotLeaderOrFollower.code, topics=[], nodes=[]))


def test_silence_and_lag_are_told_by_the_leaders_clock_alone() -> None:
    found = quorum(replica(2, silent=4_000, behind=7, had_all=9_000), replica(3, silent=None, had_all=None))
    leader, behind, unheard = found.voters
    assert [silent_ms(found, each) for each in found.voters] == [0, 4_000, None]
    assert [caught_up_ms(found, each) for each in found.voters] == [0, 9_000, None]
    assert [lag(found, each) for each in (leader, behind, unheard._replace(log_end_offset=-1))] == [0, 7, None]
    assert [is_silent(found, each) for each in found.voters] == [False, True, True]


# --- troubles --------------------------------------------------------------------------------------------------------


def test_three_voters_that_are_there_are_no_trouble() -> None:
    found = quorum(replica(2), replica(3, behind=3))
    assert troubles(found) == []
    assert soundness(found) == "3 voters (1, 2, 3), led by node 1 in epoch 7; the loss of 1 is borne"


def test_one_node_that_is_everything_is_no_trouble() -> None:
    assert troubles(quorum(), brokers=1) == []
    assert soundness(quorum()) == "node 1 alone votes and leads, in epoch 7"


def test_answers_without_times_tell_of_no_silence() -> None:
    voters = tuple(QuorumReplica(number, END, None, None) for number in (1, 2, 3))
    assert troubles(QuorumInfo(1, 7, END, voters, ())) == []


def test_a_silent_voter_is_named_with_what_the_next_loss_would_do() -> None:
    found = only(quorum(replica(2), replica(3, silent=42_000)))
    assert (found.node, found.is_bad) == (3, False)
    assert found.what == "voter 3 (host-3:9093) has not asked for the log for 42 s"
    assert "2 of 3 voters are there, and when one more is gone nothing can be decided" in found.still
    assert "reaches node 1 (host-1:9093)" in found.remedy
    assert "ottla cluster replace 3 --with" in found.remedy


def test_a_fixed_voter_has_no_directory_whose_vote_could_be_taken() -> None:
    found = only(quorum(replica(2), replica(3, silent=42_000, directory=None)))
    assert "cluster replace" not in found.remedy
    assert "start it anew, by its id and at its address" in found.remedy


def test_with_five_voters_the_loss_of_one_more_is_borne() -> None:
    found = only(quorum(replica(2), replica(3), replica(4), replica(5, silent=None)))
    assert found.what == "voter 5 (host-5:9093) has not asked for the log since node 1 leads"
    assert found.still == "Everything works, and the loss of 1 more is borne"
    whole = quorum(replica(2), replica(3), replica(4), replica(5, silent=None))
    assert soundness(whole).endswith("4 of them are there, led by node 1 in epoch 7; the loss of 1 more is borne")


def test_without_a_majority_the_worst_comes_first_with_what_works_and_what_does_not() -> None:
    lost, *rest = troubles(quorum(replica(2, silent=5_000), replica(3, silent=9_000)))
    assert (lost.node, lost.is_bad) == (-1, True)
    assert lost.what == "of 3 voters only 1 is heard of, and 2 are a majority"
    assert "partitions whose leaders live are written and read" in lost.still
    assert "no topic is created" in lost.still
    assert "in-sync set" in lost.still
    assert "more than half of the voters" in lost.remedy
    assert [each.node for each in rest] == [2, 3]
    assert {each.still for each in rest} == {"1 of 3 voters are there, which is no majority"}


def test_two_voters_stand_still_when_either_is_gone() -> None:
    found = only(quorum(replica(2)))
    assert found.what == "there are two voters: when either is gone, nothing can be decided"
    assert "Add a third" in found.remedy
    assert "go to one" in found.remedy


def test_an_even_number_bears_no_more_than_one_less() -> None:
    found = only(quorum(replica(2), replica(3), replica(4)))
    assert found.what == "there are 4 voters, which bear the loss of 1, as 3 do"
    assert "5 voters bear the loss of 2" in found.remedy


def test_one_voter_for_many_brokers_is_told() -> None:
    assert troubles(quorum(), brokers=2) == []
    assert "node 1 alone votes, for 3 brokers" in only(quorum()).what
    alone = QuorumInfo(1, 7, END, (QuorumReplica(1, END, NOW_MS, NOW_MS),), ())
    assert troubles(alone) == [], "without a directory id it may be a cluster on ZooKeeper"


def test_a_voter_that_does_not_keep_up_is_told() -> None:
    found = only(quorum(replica(2), replica(3, behind=309, had_all=42_000)))
    assert found.what == "voter 3 (host-3:9093) is 309 records behind, and has not had everything for 42 s"
    assert only(quorum(replica(2), replica(3, behind=1, had_all=None))).what.endswith(
        "is 1 record behind, and has not had everything since node 1 leads"
    )


def test_a_voter_that_lost_its_disk_is_told_by_both_directories() -> None:
    lost, back = replica(3, silent=60_000), replica(3, directory=1)
    found = only(quorum(replica(2), lost, observers=(replica(4), back)))
    assert lost.directory_id is not None
    assert back.directory_id is not None
    votes = uuid_to_text(lost.directory_id)
    assert found.what.startswith("voter 3 came back with another directory")
    assert votes in found.what
    assert uuid_to_text(back.directory_id) in found.what
    assert "lost its disk" in found.still
    assert "2 of 3 voters are there" in found.still
    assert f"--controller-id 3 --controller-directory-id {votes}" in found.remedy
    assert "ottla cluster replace 3 --with" in found.remedy


def test_an_old_directory_that_nobody_uses_any_more_is_no_trouble() -> None:
    """The leader remembers for minutes who followed."""
    assert troubles(quorum(replica(2), replica(3), observers=(replica(3, directory=1, silent=60_000),))) == []


@pytest.mark.parametrize(
    ("duration_ms", "text"), [(0, "0 ms"), (999, "999 ms"), (42_400, "42 s"), (600_000, "10 min"), (9_000_000, "2 h")]
)
def test_durations_are_for_people(duration_ms: int, text: str) -> None:
    assert shown(duration_ms) == text
