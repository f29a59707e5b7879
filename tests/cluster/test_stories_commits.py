"""Offsets that cannot be committed, because a follower is down and still in the in-sync set.

The commit is refused after offsets.commit.timeout.ms with an error that clients retry, as Apache Kafka does it; what
waits behind it on the same connection is answered, and the member keeps its place. Every other clock is far away, so
that nothing else can end the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.conformance.transaction_probes import Wire
from tests.patience import FAR_MS, HANG_S, bounded

import ottla
from ottla.broker.coordinators.placement import partition_for_name
from ottla.broker.replication.roles import Moves
from ottla.errors import NONE, CoordinatorNotAvailable, MemberIdRequired
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.testing import KafkaCluster

GROUP, TOPIC, OFFSETS = "readers", "clicks", "__consumer_offsets"
SESSION_MS = HANG_S * 1_000
COMMIT_TIMEOUT_MS = 300
SETTINGS = {"offsets.commit.timeout.ms": COMMIT_TIMEOUT_MS, "replica.lag.time.max.ms": FAR_MS}


@pytest.fixture
def cluster(make_cluster: Callable[..., KafkaCluster]) -> Iterator[KafkaCluster]:
    with make_cluster(3, SETTINGS) as cluster:
        with ottla.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([ottla.NewTopic(TOPIC, 1, 3)], timeout=HANG_S)
        yield cluster


class Member:
    """The only member of a classic group, on one connection to its coordinator."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.member_id, self.generation = "", -1

    def join(self) -> None:
        while (code := self._joined()) == CoordinatorNotAvailable.code:
            pass  # the followers have not begun to fetch yet
        assert code == NONE

    def _joined(self) -> int:
        """One try; its error code."""
        answer = self.wire.ask(self._join_request(), 7)
        if answer.error_code == MemberIdRequired.code:
            self.member_id = answer.member_id
            answer = self.wire.ask(self._join_request(), 7)
        if answer.error_code:
            return int(answer.error_code)
        self.generation = answer.generation_id
        mine = SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all")
        request = SyncGroupRequest(assignments=[mine], protocol_type="consumer", protocol_name="range", **self._who)
        return int(self.wire.ask(request, 5).error_code)

    def _join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )

    @property
    def _who(self) -> dict[str, Any]:
        return {"group_id": GROUP, "generation_id": self.generation, "member_id": self.member_id}

    def send_commit(self, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        self.wire.send(request, 8)

    def send_heartbeat(self) -> None:
        self.wire.send(HeartbeatRequest(**self._who), 4)

    def committed(self) -> int:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        answer = self.wire.ask(OffsetFetchRequest(groups=[group], require_stable=True), 8)
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def find_coordinator(cluster: KafkaCluster) -> tuple[int, int]:
    """The partition that keeps the group, and the broker that leads it; all replicas are in sync."""
    place = partition_for_name(GROUP, 5)
    request = FindCoordinatorRequest(coordinator_keys=[GROUP], key_type=0)
    with Wire(cluster.bootstrap_servers.partition(",")[0]) as wire:
        cluster.wait_until(lambda: not wire.ask(request, 4).coordinators[0].error_code, HANG_S)
    cluster.wait_for_copies(OFFSETS, 5)
    return place, cluster.leader_of(OFFSETS, place)


def follow_again(cluster: KafkaCluster, follower: int, place: int) -> None:
    def follow() -> None:
        broker = cluster.server(follower).broker
        partition = broker.replicas.get((OFFSETS, place))
        assert partition is not None
        broker.link.replication.apply(Moves([], [], [], [partition], [], {}))

    cluster.call(follow)


@pytest.mark.parametrize("is_dead", [False, True], ids=["stopped", "dead"])
def test_a_commit_that_a_follower_holds_back_is_refused_in_time(cluster: KafkaCluster, is_dead: bool) -> None:
    place, leader = find_coordinator(cluster)
    follower = (leader + 1) % 3
    address = cluster.call(lambda: cluster.server(leader).info.bootstrap_servers)
    with Wire(address) as wire:
        member = Member(wire)
        member.join()
        member.send_commit(1)
        assert wire.receive().topics[0].partitions[0].error_code == NONE
        if is_dead:
            cluster.crash(follower, session_stays=True)
        else:
            cluster.stop_following(follower, OFFSETS, place)
        with bounded():
            member.send_commit(2)
            member.send_heartbeat()
            refused, alive = wire.receive(), wire.receive()
        assert refused.topics[0].partitions[0].error_code == CoordinatorNotAvailable.code
        assert CoordinatorNotAvailable.retriable
        assert alive.error_code == NONE, "the member has its place"
        assert follower in cluster.in_sync(OFFSETS, place), "it was the time-out that ended the wait"
        if is_dead:
            cluster.end_session(follower)
            cluster.start_broker(follower)
        else:
            follow_again(cluster, follower, place)
        cluster.wait_for_copies(OFFSETS, 5)
        member.send_commit(3)
        member.send_heartbeat()
        assert wire.receive().topics[0].partitions[0].error_code == NONE
        assert wire.receive().error_code == NONE
        assert member.committed() == 3
