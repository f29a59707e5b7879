"""What `ottla cluster remove | replace` does, in which order; an admin that remembers what it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.cli.output import Failure
from ottla.cli.quorum import departure
from ottla.cli.quorum.departure import depart, members
from ottla.cli.quorum.leaving import removal, replacement
from ottla.client.admin.admin import Admin
from ottla.client.admin.cluster import ClusterDescription
from ottla.errors import RequestTimedOut
from ottla.light_tuples import NamedTuple
from ottla.quorum_health import QuorumInfo, QuorumReplica
from ottla.values import Node, TopicPartition

NOW_MS = 100_000
CLICKS = TopicPartition("clicks", 0)


class Part(NamedTuple):
    replicas: Sequence[int]
    in_sync: Sequence[int]


class Cluster:
    """Four brokers, three votes; node 4 votes soon after there is room, copies move while they are looked at."""

    def __init__(self, *, fenced: Sequence[int] = (), joins: bool = True) -> None:
        self.asked: list[str] = []
        self.votes = [1, 2, 3]
        self.fenced = set(fenced)
        self._brokers = [1, 2, 3, 4]
        self._joins = joins
        self._moving: dict[TopicPartition, int] = {}
        self._looks = 0

    @property
    def admin(self) -> Admin:
        return cast(Admin, self)

    def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        assert include_fenced_brokers
        self._looks += 1
        if self._looks > 3 and "unregister 3" not in self.asked:
            self.fenced |= {3}  # somebody has stopped it
        nodes = tuple(Node(each, f"host-{each}", 9092) for each in self._brokers)
        return ClusterDescription("c", 1, nodes, frozenset(self.fenced))

    def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumInfo:
        def replica(node_id: int) -> QuorumReplica:
            silent_ms = 60_000 if node_id in self.fenced else 0
            return QuorumReplica(node_id, 9, NOW_MS - silent_ms, None, bytes([node_id]) * 16)

        seen = tuple(map(replica, self.votes))
        if self._joins and len(self.votes) < 3 and 4 not in self.votes:
            self.votes.append(4)
        return QuorumInfo(1, 4, 9, seen, tuple(replica(each) for each in self._brokers if each not in self.votes))

    def remove_raft_voter(self, voter: int, directory_id: bytes) -> None:
        assert directory_id == bytes([voter]) * 16
        self.asked.append(f"remove voter {voter}")
        self.votes.remove(voter)

    def alter_partition_reassignments(self, moves: Mapping[TopicPartition, Sequence[int]]) -> None:
        self.asked.append(f"move {', '.join(f'{key} to {list(replicas)}' for key, replicas in moves.items())}")
        self._moving = dict.fromkeys(moves, 2)

    def list_partition_reassignments(self, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self._moving = {key: left - 1 for key, left in self._moving.items() if left and key in keys}
        return self._moving

    def unregister_broker(self, broker: int) -> None:
        self.asked.append(f"unregister {broker}")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departure, "LOOK_EVERY_S", 0.0)


def test_a_lost_node_is_replaced_in_order() -> None:
    cluster, said = Cluster(fenced=[3]), []
    plan = replacement(members(cluster.admin), 3, 4, {CLICKS: Part([3, 1], [1])})
    depart(cluster.admin, plan, said.append)
    assert cluster.asked == ["remove voter 3", "move clicks-0 to [4, 1]", "unregister 3"]
    assert said == ["node 3 does not vote any more", "node 4 votes", "1 partition moved", "broker 3 is forgotten"]


def test_who_only_serves_does_not_get_the_vote_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departure, "VOTES_WITHIN_MS", 0)
    cluster, said = Cluster(fenced=[3], joins=False), []
    depart(cluster.admin, replacement(members(cluster.admin), 3, 4, {}), said.append)
    assert cluster.asked == ["remove voter 3", "unregister 3"]
    assert said[1].startswith("node 4 does not vote: it is a broker only")


def test_a_node_that_lives_is_forgotten_when_it_was_stopped() -> None:
    cluster, said = Cluster(), []
    depart(cluster.admin, removal(members(cluster.admin), 3, {CLICKS: Part([1, 3], [1, 3])}), said.append)
    assert cluster.asked == ["remove voter 3", "move clicks-0 to [1, 2]", "unregister 3"]
    assert said[-2].startswith("now stop node 3")
    assert 3 in cluster.fenced


def test_where_nobody_leads_it_is_said_what_that_means_and_not_that_time_is_over() -> None:
    def asked(timeout: float) -> None:
        raise RequestTimedOut("no answer to DescribeQuorum")

    admin: Any = SimpleNamespace(describe_cluster=lambda include_fenced_brokers: None, describe_metadata_quorum=asked)
    with pytest.raises(Failure, match=r"nobody leads the metadata log.*more than half of the voters.*ottla doctor"):
        members(admin)
