"""`ottla cluster members | remove | replace`: who is there, what is to be done, what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.cli.output import Failure
from ottla.cli.quorum.leaving import moves_away, removal, replacement
from ottla.cli.quorum.members import Member, members_of
from ottla.client.admin.cluster import ClusterDescription
from ottla.light_tuples import NamedTuple
from ottla.quorum_health import QuorumEndpoint, QuorumInfo, QuorumReplica
from ottla.values import Node, TopicPartition

NOW_MS = 100_000


class Part(NamedTuple):
    replicas: Sequence[int]
    in_sync: Sequence[int]


def replica(node_id: int, *, silent_ms: int = 0, end: int = 50) -> QuorumReplica:
    return QuorumReplica(node_id, end, NOW_MS - silent_ms, None, bytes([node_id]) * 16)


def cluster(
    *,
    brokers: Sequence[int] = (1, 2, 3, 4),
    fenced: Sequence[int] = (),
    voters: Sequence[QuorumReplica] = (),
    controllers: Sequence[int] = (),
    forgotten: Sequence[int] = (),
) -> list[Member]:
    """`controllers` are registered and do not vote yet; `forgotten` are brokers that run on."""
    votes = tuple(voters) or (replica(1), replica(2), replica(3))
    voting = [voter.node_id for voter in votes]
    others = [replica(node_id) for node_id in (*brokers, *controllers, *forgotten) if node_id not in voting]
    described = ClusterDescription(
        "c",
        1,
        tuple(Node(node_id, f"host-{node_id}", 9092) for node_id in brokers),
        frozenset(fenced),
    )
    at = (QuorumEndpoint("CONTROLLER", "10.0.0.1", 9093),)
    endpoints = dict.fromkeys([*voting, *controllers], at)
    return members_of(described, QuorumInfo(1, 4, 50, votes, tuple(others), endpoints))


def parts(**named: tuple[Sequence[int], Sequence[int]]) -> dict[TopicPartition, Part]:
    return {TopicPartition(name, 0): Part(*each) for name, each in named.items()}


LOST_3 = (replica(1), replica(2), replica(3, silent_ms=12_000, end=20))


def test_members_are_brokers_and_voters_and_who_follows() -> None:
    found = cluster(
        brokers=(1, 2, 4), fenced=(2,), voters=(replica(1), replica(2, silent_ms=4_000, end=20), replica(3))
    )
    shown = [(each.id, ",".join(each.roles), each.vote, each.lag, each.state) for each in found]
    assert shown == [
        (1, "broker,controller", "leader", 0, "ok"),
        (2, "broker,controller", "voter", 30, "fenced, silent for 4.0 s"),
        (3, "controller", "voter", 0, "ok"),
        (4, "broker", "observer", 0, "ok"),
    ]
    assert [each.is_alive for each in found] == [True, False, True, True]


def test_who_followed_once_and_is_no_broker_is_not_shown() -> None:
    described = ClusterDescription("c", 1, (Node(1, "host-1", 9092),))
    observers = (replica(7, silent_ms=60_000), replica(8, silent_ms=400))
    found = members_of(described, QuorumInfo(1, 4, 50, (replica(1),), observers))
    assert [(each.id, each.roles) for each in found] == [(1, ("broker", "controller")), (8, ())]


def test_who_follows_is_a_controller_or_a_broker_or_forgotten() -> None:
    found = cluster(brokers=(1, 2, 3, 6), controllers=(5, 6), forgotten=(7,))
    assert [(member.id, ",".join(member.roles), member.vote, member.state) for member in found[3:]] == [
        (5, "controller", "observer", "ok"),
        (6, "broker,controller", "observer", "ok"),
        (7, "", "observer", "not registered"),
    ]
    assert [(member.id, member.is_registered) for member in found[3:]] == [(5, True), (6, True), (7, False)]


def test_a_node_that_lives_hands_over_and_is_then_to_be_stopped() -> None:
    plan = removal(cluster(), 3, parts(a=((1, 3), (1, 3)), b=((1, 2), (1, 2))))
    assert dict(plan.moves) == {TopicPartition("a", 0): [1, 4]}
    assert plan.steps() == [
        "take the vote of node 3; voters are then 1, 2",
        "move its copies of 1 partition to other brokers",
        "wait until you have stopped node 3",
        "forget broker 3",
    ]


def test_another_node_takes_the_place_of_one_that_is_lost() -> None:
    plan = replacement(cluster(fenced=(3,), voters=LOST_3), 3, 4, parts(a=((3, 1), (1,)), b=((1, 2), (1, 2))))
    assert dict(plan.moves) == {TopicPartition("a", 0): [4, 1]}
    assert plan.steps() == [
        "take the vote of node 3; voters are then 1, 2",
        "wait until node 4 votes",
        "move its copies of 1 partition to node 4",
        "forget broker 3",
    ]
    assert plan.as_value()["moves"] == [{"topic": "a", "partition": 0, "replicas": [4, 1]}]


def test_a_controller_takes_the_place_of_a_controller() -> None:
    found = cluster(brokers=(1, 2), voters=LOST_3, controllers=(5,))
    plan = replacement(found, 3, 5, parts(a=((1, 2), (1, 2))))
    assert plan.steps() == ["take the vote of node 3; voters are then 1, 2", "wait until node 5 votes"]


def test_a_controller_takes_the_vote_of_a_broker_that_has_no_copies() -> None:
    found = cluster(brokers=(1, 2, 3), fenced=(3,), voters=LOST_3, controllers=(5,))
    assert replacement(found, 3, 5, parts(a=((1, 2), (1, 2)))).steps()[-1] == "forget broker 3"
    with pytest.raises(Failure, match="has copies of a-0, and node 5 is a controller only"):
        replacement(found, 3, 5, parts(a=((3, 1), (1,))))


def test_a_broker_takes_no_vote_of_a_controller() -> None:
    found = cluster(brokers=(1, 2, 4), voters=LOST_3)
    with pytest.raises(Failure, match="node 3 is a controller only, and node 4 a broker only"):
        replacement(found, 3, 4, {})


def test_what_is_done_already_is_left_out() -> None:
    plan = removal(cluster(fenced=(4,)), 4, parts(a=((1, 2), (1, 2))))
    assert plan.steps() == ["forget broker 4"]


def test_copies_go_to_who_has_few_and_to_another_rack() -> None:
    current = {
        TopicPartition("t", number): replicas for number, replicas in enumerate([[9, 1], [9, 1], [2, 9], [2, 3]])
    }
    no_racks = moves_away(9, current, {1: None, 2: None, 3: None})
    assert list(no_racks.values()) == [[3, 1], [2, 1], [2, 1]]
    racks = moves_away(9, current, {1: "a", 2: "a", 3: "b"})
    assert list(racks.values()) == [[3, 1], [3, 1], [2, 3]]


@pytest.mark.parametrize(
    ("node", "partitions", "sentence"),
    [
        (7, {}, "there is no node 7; there is 1, 2, 3"),
        (3, parts(a=((1, 2, 3), (1, 2))), r"a-0 would have no broker .* ottla cluster replace 3 --with ID"),
        (3, parts(a=((3,), (3,))), r"only node 3 has the newest records of a-0"),
    ],
)
def test_what_cannot_work_is_refused(node: int, partitions: dict[TopicPartition, Part], sentence: str) -> None:
    found = cluster(brokers=(1, 2, 3), fenced=(3,), voters=LOST_3)
    with pytest.raises(Failure, match=f"(?s){sentence.replace(' .* ', '.*')}"):
        removal(found, node, partitions)


def test_the_only_voter_stays() -> None:
    with pytest.raises(Failure, match="node 1 is the only voter"):
        removal(cluster(brokers=(1, 2), voters=(replica(1),)), 1, {})


@pytest.mark.parametrize(
    ("lost", "new", "sentence"), [(3, 3, "its own place"), (2, 4, "node 2 lives"), (3, 5, "node 5 is fenced")]
)
def test_a_replacement_is_of_a_lost_node_by_one_that_serves(lost: int, new: int, sentence: str) -> None:
    found = cluster(brokers=(1, 2, 3, 4, 5), fenced=(3, 5), voters=LOST_3)
    with pytest.raises(Failure, match=sentence):
        replacement(found, lost, new, {})
