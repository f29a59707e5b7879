"""Raft by hand: who votes for whom, when a leader leads, what is committed, and who may vote. Schedules with faults are
in tests/unit/simulation/test_quorum.py."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.cluster.raft import wire
from ottla.cluster.raft.fetching import Identity
from ottla.cluster.raft.format import write_first_voters
from ottla.cluster.raft.log import LogLimits, MetadataLog
from ottla.cluster.raft.log_answers import Difference, differs
from ottla.cluster.raft.node import RaftNode, RaftSettings, Sent
from ottla.cluster.raft.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.cluster.raft.raft import Raft, Role
from ottla.cluster.raft.snapshots import SnapshotId, Voters, write_snapshot
from ottla.cluster.raft.voters import VoterKey, VoterSet, voters_by_settings
from ottla.cluster.raft.wire import vote_request
from ottla.errors import InconsistentClusterId, InvalidRequest, InvalidUpdateVersion, NotController, UnsupportedVersion
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from ottla.protocol.messages.vote import VoteRequest
from ottla.protocol.metadata_log.control import LeaderChangeMessage, VotersRecord
from ottla.testing.files import MemoryFiles
from ottla.values import METADATA_TOPIC_UUID, Address

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
DATA = Path("/data")
LATER_MS = 10_000
NOBODY = VoterSet()


def directory_id(node_id: int) -> bytes:
    return bytes([node_id]) * 16


def address_of(node_id: int) -> Address:
    return Address(f"node-{node_id}", 9093)


def node_of(node_id: int, *, static: VoterSet = NOBODY, levels: tuple[int, int] = (0, 1)) -> RaftNode:
    """`static` are the voters that settings name."""
    identity, endpoints = Identity(CLUSTER, node_id, directory_id(node_id)), (("CONTROLLER", address_of(node_id)),)
    return RaftNode(identity, endpoints=endpoints, voters=static, kraft_versions=levels)


class Node:
    """A machine and its disk; time passes by hand, and messages are carried by `exchange`."""

    def __init__(
        self, node_id: int, voters: list[int], *, by_settings: bool = False, levels: tuple[int, int] = (0, 1)
    ) -> None:
        self.id = node_id
        static = voters_by_settings([(voter, address_of(voter)) for voter in voters], "CONTROLLER")
        self.node = node_of(node_id, static=static if by_settings else NOBODY, levels=levels)
        self.now_ms = 1_000
        self.files = MemoryFiles(seed=node_id)
        self.files.make_directory(DATA)
        self.files.sync_directory(DATA.parent)
        if not by_settings:
            first = Voters(1, VotersRecord(voters=[node_of(voter).as_voter() for voter in voters]))
            write_first_voters(self.files, DATA, first, lambda: 0)
        self.start()

    def start(self) -> None:
        log = MetadataLog.open(self.files, DATA, now_ms=0, limits=LogLimits())
        self.raft = Raft(self.files, log, self.node, RaftSettings(), Random(self.id), self.now_ms)

    def keep(self) -> None:
        raft = self.raft
        if not raft.is_saved:
            write_quorum_state(self.files, raft.log.directory, raft.state, raft.kraft_version)
            raft.saved(raft.state)
        job = raft.log.flush_job()
        job.run()
        raft.log.flushed(job, self.now_ms)
        raft.synced(self.now_ms)

    def requests(self) -> list[Sent]:
        self.raft.tick(self.now_ms)
        self.keep()
        return self.raft.requests(self.now_ms)

    def wait(self, ms: int) -> list[Sent]:
        self.now_ms += ms
        return self.requests()

    def asked(self, sent: Sent) -> object:
        request, raft = sent.request, self.raft
        match request:
            case VoteRequest():
                return raft.on_vote(request, self.now_ms)
            case BeginQuorumEpochRequest():
                return raft.on_begin_quorum_epoch(request, self.now_ms)
            case EndQuorumEpochRequest():
                return raft.on_end_quorum_epoch(request, self.now_ms)
            case FetchRequest():
                return raft.on_fetch(request, 18, self.now_ms)[0]
            case ApiVersionsRequest():
                level = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
                return ApiVersionsResponse(error_code=0, api_keys=[], supported_features=[level])
            case UpdateRaftVoterRequest():
                assert raft.changes is not None
                return UpdateRaftVoterResponse(error_code=raft.changes.update(request, self.now_ms))
        raise AssertionError(request)


class Quorum:
    def __init__(
        self,
        voters: int,
        *,
        others: int = 0,
        by_settings: bool = False,
        levels: dict[int, tuple[int, int]] | None = None,
    ) -> None:
        ids = list(range(1, voters + 1))
        self.nodes = {
            number: Node(number, ids, by_settings=by_settings, levels=(levels or {}).get(number, (0, 1)))
            for number in range(1, voters + others + 1)
        }

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def exchange(self, rounds: int = 8, *, without: tuple[int, ...] = (), refused_by: tuple[int, ...] = ()) -> None:
        """Everybody says what he has to say, and is answered at once. Who is gone is silent, or his machine refuses."""
        for _ in range(rounds):
            for node in self.nodes.values():
                if node.id not in (*without, *refused_by):
                    for sent in node.wait(25):
                        self.deliver(node, sent, without, refused_by=refused_by)

    def deliver(
        self, node: Node, sent: Sent, without: tuple[int, ...] = (), *, refused_by: tuple[int, ...] = ()
    ) -> None:
        target = self.nodes[int(sent.address.host.removeprefix("node-"))]
        if target.id in (*without, *refused_by):
            node.raft.unanswered(sent, node.now_ms, is_refused=target.id in refused_by)
            return
        target.now_ms = max(target.now_ms, node.now_ms)
        response = target.asked(sent)
        target.keep()
        node.raft.answered(sent, response, node.now_ms)  # type: ignore[arg-type]
        node.keep()

    def elect(self, node_id: int, *, without: tuple[int, ...] = ()) -> Raft:
        node = self.nodes[node_id]
        for other in self.nodes.values():
            other.now_ms = node.now_ms
        for sent in node.wait(LATER_MS):
            self.deliver(node, sent, without)
        for other in self.nodes.values():
            other.now_ms = node.now_ms
        self.exchange(without=without)
        assert node.raft.leads, node.raft.role
        return node.raft


def asked_for_vote(
    epoch: int, candidate: int, voter: int, *, end: int = 0, last: int = 0, pre: bool = False
) -> VoteRequest:
    return vote_request(
        CLUSTER,
        epoch=epoch,
        candidate=VoterKey(candidate, directory_id(candidate)),
        voter=VoterKey(voter, directory_id(voter)),
        last_epoch=last,
        end_offset=end,
        is_pre_vote=pre,
    )


def granted(node: Node, request: VoteRequest) -> tuple[int, bool]:
    found = node.raft.on_vote(request, node.now_ms).topics[0].partitions[0]
    return found.error_code, found.vote_granted


# --- elections -------------------------------------------------------------------------------------------------------


def test_the_only_voter_leads_at_once_and_everything_synced_is_committed() -> None:
    node = Quorum(1)[1]
    assert node.requests() == []
    assert node.raft.leads
    node.keep()
    assert node.raft.is_established
    (batch,) = node.raft.committed(0)
    assert isinstance(batch.controls[0], LeaderChangeMessage)
    assert [type(control).__name__ for control in batch.controls[1:]] == ["KRaftVersionRecord", "VotersRecord"]
    assert read_quorum_state(node.files, node.raft.log.directory) == QuorumState(1, 1, 1, directory_id(1))


def test_before_it_stands_a_node_asks_whether_it_would_be_elected() -> None:
    quorum = Quorum(3)
    sent = quorum[1].wait(LATER_MS)
    assert [request.request.topics[0].partitions[0].pre_vote for request in sent] == [True, True]
    assert quorum[1].raft.epoch == 0, "that changes nothing"
    quorum.deliver(quorum[1], sent[0])
    assert quorum[1].raft.role is Role.CANDIDATE
    assert quorum[1].raft.state == QuorumState(1, -1, 1, directory_id(1))


def test_nothing_is_said_before_the_vote_is_on_the_disk() -> None:
    quorum = Quorum(3)
    quorum.deliver(quorum[1], quorum[1].wait(LATER_MS)[0])
    raft = quorum[1].raft
    raft.saved(QuorumState())
    assert not raft.is_saved
    assert raft.requests(quorum[1].now_ms) == []
    raft.saved(raft.state)
    assert len(raft.requests(quorum[1].now_ms)) == 2


def test_one_vote_is_given_in_an_epoch_also_after_a_crash() -> None:
    node = Quorum(3)[1]
    assert granted(node, asked_for_vote(5, 2, 1)) == (0, True)
    node.keep()
    node.files.crash("nothing")
    node.start()
    assert granted(node, asked_for_vote(5, 3, 1)) == (0, False)
    assert granted(node, asked_for_vote(5, 2, 1)) == (0, True), "the same node may ask again"
    assert granted(node, asked_for_vote(6, 3, 1)) == (0, True)


def test_who_has_less_of_the_log_gets_no_vote() -> None:
    quorum = Quorum(3)
    leader = quorum.elect(1)
    leader.append([[b"\x01\x14\x00\x00"]], 0)
    quorum.exchange()
    end, epoch = leader.log.end_offset, leader.epoch
    quorum.exchange()
    voter = quorum[2]
    assert granted(voter, asked_for_vote(epoch + 1, 3, 2, end=end - 1, last=epoch)) == (0, False)
    assert granted(voter, asked_for_vote(epoch + 1, 3, 2, end=end + 5, last=epoch - 1)) == (0, False)
    assert granted(voter, asked_for_vote(epoch + 1, 3, 2, end=end, last=epoch)) == (0, True)


def test_a_follower_that_hears_of_its_leader_refuses_a_pre_vote_and_stays() -> None:
    quorum = Quorum(3)
    quorum.elect(1)
    raft = quorum[2].raft
    before = raft.state
    request = asked_for_vote(raft.epoch, 3, 2, end=99, last=raft.epoch, pre=True)
    assert granted(quorum[2], request) == (0, False)
    assert (raft.role, raft.state) == (Role.FOLLOWER, before)


def test_where_the_process_of_the_leader_has_ended_another_one_is_elected_at_once() -> None:
    quorum = Quorum(3)
    quorum.elect(1)
    quorum.exchange()
    began_ms = quorum[2].now_ms
    quorum.exchange(rounds=20, refused_by=(1,))
    assert quorum[2].now_ms - began_ms < 1_000, "half of the fetch timeout"
    assert quorum[2].raft.leads != quorum[3].raft.leads


def test_a_leader_that_is_only_silent_is_waited_for() -> None:
    quorum = Quorum(3)
    quorum.elect(1)
    quorum.exchange()
    quorum.exchange(rounds=20, without=(1,))
    assert [quorum[node].raft.role for node in (2, 3)] == [Role.FOLLOWER, Role.FOLLOWER]


def test_to_whom_alone_the_way_is_closed_stands_once_and_then_waits() -> None:
    quorum = Quorum(3)
    leader = quorum.elect(1)
    quorum.exchange()
    cut, roles = quorum[2], []
    for _ in range(60):
        quorum.exchange(rounds=1, without=(2,))
        for sent in cut.wait(0):
            quorum.deliver(cut, sent, refused_by=(1,))
        roles.append(cut.raft.role)
    assert leader.leads, "the others hear of it, and refuse"
    assert Role.PROSPECTIVE not in roles[20:]
    assert roles[-1] is Role.FOLLOWER


def test_who_has_no_vote_looks_for_the_next_leader_when_the_process_of_this_one_has_ended() -> None:
    quorum = Quorum(3, others=1)
    quorum.elect(1)
    quorum.exchange()
    quorum.exchange(rounds=30, refused_by=(1,))
    assert quorum[4].raft.state.leader_id in (2, 3)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (asked_for_vote(1, 2, 3), 125),
        (asked_for_vote(0, 2, 1), 42),
        (asked_for_vote(3, 2, 1, last=3), 42),
        (asked_for_vote(3, 2, 1, end=-1), 42),
    ],
    ids=["another voter is meant", "no epoch", "a record of the epoch itself", "no offset"],
)
def test_votes_that_make_no_sense_are_refused(request_: VoteRequest, code: int) -> None:
    assert granted(Quorum(3)[1], request_) == (code, False)


def test_another_cluster_and_other_partitions_are_refused() -> None:
    raft = Quorum(1)[1].raft
    request = asked_for_vote(1, 2, 1)
    request.cluster_id = "another"
    with pytest.raises(InconsistentClusterId):
        raft.on_vote(request, 0)
    request = asked_for_vote(1, 2, 1)
    request.topics[0].topic_name = "clicks"
    with pytest.raises(InvalidRequest):
        raft.on_vote(request, 0)


def test_a_leader_without_a_majority_resigns_after_one_and_a_half_fetch_timeouts() -> None:
    quorum = Quorum(3)
    raft = quorum.elect(1)
    quorum[1].wait(2_900)
    assert raft.leads
    quorum[1].wait(200)
    assert raft.role is Role.RESIGNED
    with pytest.raises(NotController):
        raft.append([[b"x"]], 0)


def test_when_a_leader_resigns_who_is_named_first_stands_at_once() -> None:
    quorum = Quorum(3)
    raft = quorum.elect(1)
    raft.resign(quorum[1].now_ms)
    for sent in quorum[1].requests():
        quorum.deliver(quorum[1], sent)
    first = raft._candidates[0].id
    quorum.exchange(4)
    assert quorum[first].raft.leads
    assert raft.role is Role.FOLLOWER


def test_a_leader_that_comes_back_does_not_lead_on() -> None:
    quorum = Quorum(3)
    epoch = quorum.elect(1).epoch
    quorum[1].files.kill()
    quorum[1].start()
    assert quorum[1].raft.role is Role.RESIGNED
    assert quorum[1].raft.leader_view == (-1, epoch, None)


# --- what is committed -----------------------------------------------------------------------------------------------


def test_the_high_watermark_moves_with_the_first_record_of_the_epoch_and_a_majority() -> None:
    quorum = Quorum(3)
    node = quorum[1]
    for sent in node.wait(LATER_MS):
        quorum.deliver(node, sent)
    for sent in node.requests():
        if isinstance(sent.request, VoteRequest):
            quorum.deliver(node, sent)
    raft = node.raft
    assert raft.leads
    node.keep()
    assert not raft.is_established, "nobody else has it"
    quorum.exchange(without=(3,))
    assert raft.is_established
    end = raft.append([[b"\x01\x14\x00\x00"]], 0)
    assert raft.log.high_watermark < end
    quorum.exchange(without=(3,))
    assert raft.log.high_watermark == end


def test_a_leader_does_not_count_itself_before_it_has_synced() -> None:
    quorum = Quorum(3)
    raft = quorum.elect(1)
    end = raft.append([[b"\x01\x14\x00\x00"]], 0)
    raft.leadership.fetched(VoterKey(2, directory_id(2)), raft.voters, end, end, 0)
    raft._advance(0)
    assert raft.log.high_watermark < end
    quorum[1].keep()
    assert raft.log.high_watermark == end


def test_a_follower_does_not_fetch_on_before_it_has_synced() -> None:
    quorum = Quorum(3)
    raft = quorum.elect(1)
    raft.append([[b"\x01\x14\x00\x00"]], 0)
    follower = quorum[2]
    (sent,) = follower.wait(25)
    response = quorum[1].asked(sent)
    follower.raft.answered(sent, response, follower.now_ms)  # type: ignore[arg-type]
    assert follower.raft.log.end_offset == raft.log.end_offset
    assert follower.raft.requests(follower.now_ms) == []
    follower.keep()
    assert len(follower.raft.requests(follower.now_ms)) == 1


def test_where_a_log_has_another_history_before_its_beginning_only_a_snapshot_tells() -> None:
    node = Quorum(1)[1]
    node.requests()
    node.keep()
    log = node.raft.log
    snapshot = SnapshotId(log.high_watermark, 1)
    list(
        write_snapshot(
            node.files, log.snapshot_path(snapshot), (), epoch=1, last_timestamp_ms=0, now_ms=int, voters=Voters()
        )
    )
    log.add_snapshot(snapshot)
    log._move_start(snapshot.end_offset)
    log._snapshots.remove(SnapshotId(0, 0))
    assert differs(log, snapshot.end_offset, 0) == Difference(snapshot=snapshot)
    assert differs(log, snapshot.end_offset, 1) == Difference()
    assert differs(log, 0, 0) == Difference(snapshot=snapshot)
    assert differs(log, snapshot.end_offset + 5, 1) == Difference(diverging=(1, snapshot.end_offset))


# --- who votes -------------------------------------------------------------------------------------------------------


def added(quorum: Quorum, leader: Raft, node_id: int):
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER,
        timeout_ms=5_000,
        voter_id=node_id,
        voter_directory_id=directory_id(node_id),
        listeners=[Listener(name="CONTROLLER", host=f"node-{node_id}", port=9093)],
    )
    change = leader.changes.add(request, quorum[1].now_ms)
    quorum.exchange()
    return change


def test_a_voter_that_has_caught_up_is_added_and_counts_at_once() -> None:
    quorum = Quorum(1, others=1)
    leader = quorum.elect(1)
    quorum.exchange()
    assert added(quorum, leader, 2).error_code == 0
    assert leader.voters.ids == quorum[2].raft.voters.ids == [1, 2]
    end = leader.append([[b"\x01\x14\x00\x00"]], 0)
    quorum[1].keep()
    assert leader.log.high_watermark < end, "two of two are needed now"
    assert added(quorum, leader, 2).error_code == 126


def test_a_voter_that_has_not_read_the_log_is_not_added() -> None:
    quorum = Quorum(1, others=1)
    leader = quorum.elect(1)
    leader.leadership.observers.clear()
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER,
        timeout_ms=5_000,
        voter_id=7,
        voter_directory_id=directory_id(7),
        listeners=[Listener(name="CONTROLLER", host="node-2", port=9093)],
    )
    change = leader.changes.add(request, quorum[1].now_ms)
    (sent,) = quorum[1].requests()
    quorum.deliver(quorum[1], sent)
    assert (change.error_code, leader.voters.ids) == (7, [1])


def test_one_change_at_a_time_and_never_the_last_voter() -> None:
    quorum = Quorum(3)
    leader = quorum.elect(1)

    def remove(node_id: int):
        request = RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=node_id, voter_directory_id=directory_id(node_id))
        return leader.changes.remove(request, quorum[1].now_ms)

    assert remove(9).error_code == 127
    first = remove(3)
    assert first.error_code is None
    assert remove(2).error_code == 7, "another change is not committed yet"
    quorum.exchange()
    assert (first.error_code, leader.voters.ids) == (0, [1, 2])
    second = remove(2)
    quorum.exchange()
    assert second.error_code == 0
    assert remove(1).error_code == InvalidRequest.code


def test_a_leader_that_was_taken_out_leads_until_that_is_committed() -> None:
    quorum = Quorum(3)
    leader = quorum.elect(1)
    request = RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=1, voter_directory_id=directory_id(1))
    change = leader.changes.remove(request, quorum[1].now_ms)
    assert leader.leads
    quorum.exchange(20)
    assert change.error_code == 0
    assert not leader.leads
    assert not leader.votes
    assert [node.id for node in quorum.nodes.values() if node.raft.leads] in ([2], [3])


def test_voters_of_settings_are_known_without_their_directories() -> None:
    voters = VoterSet([node_of(1).as_voter()])
    assert VoterKey(1, directory_id(1)) in voters
    assert VoterKey(1, directory_id(2)) not in voters, "a lost disk is another voter"


def joins(node: Node, voters_max: int) -> None:
    """From here on it is one that joins by itself."""
    identity, endpoints = node.raft.node.identity, node.raft.node.endpoints
    node.raft.node = RaftNode(identity, endpoints=endpoints, joins_by_itself=True, voters_max=voters_max)


def asks_to_vote(node: Node) -> bool:
    node.raft._update_ms = (
        node.now_ms
    )  # it looks at itself every six seconds, and is never without its leader for so long
    return any(isinstance(sent.request, AddRaftVoterRequest) for _ in range(8) for sent in node.wait(25))


@pytest.mark.parametrize(("voters_max", "asks"), [(0, True), (3, True), (2, False)])
def test_who_joins_by_itself_does_so_while_there_are_fewer_voters_than_wanted(voters_max: int, asks: bool) -> None:
    quorum = Quorum(2, others=1)
    quorum.elect(1)
    quorum.exchange()
    joins(quorum[3], voters_max)
    assert asks_to_vote(quorum[3]) is asks


@pytest.mark.parametrize(("voters_max", "asks"), [(0, True), (3, False)])
def test_whose_vote_was_taken_does_not_take_it_back_where_voters_are_counted(voters_max: int, asks: bool) -> None:
    quorum = Quorum(3)
    leader = quorum.elect(1)
    joins(quorum[3], voters_max)
    quorum.exchange()
    request = RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=3, voter_directory_id=directory_id(3))
    assert leader.changes is not None
    leader.changes.remove(request, quorum[1].now_ms)
    quorum.exchange()
    assert quorum[3].raft.voters.ids == [1, 2]
    assert asks_to_vote(quorum[3]) is asks


# --- kraft.version ---------------------------------------------------------------------------------------------------


def told(quorum: Quorum) -> None:
    """Time passes until every voter has told the leader about itself."""
    quorum.exchange(rounds=300)


def by_settings(voters: int = 3, **given: Any) -> tuple[Quorum, Raft]:
    quorum = Quorum(voters, by_settings=True, **given)
    leader = quorum.elect(1)
    told(quorum)
    return quorum, leader


def upgrade(quorum: Quorum, leader: Raft) -> int:
    assert leader.changes is not None
    end = leader.changes.upgrade(1, quorum[leader.node.key.id].now_ms)
    quorum.exchange()
    return end


def test_voters_of_settings_become_voters_of_the_log() -> None:
    quorum, leader = by_settings()
    assert (leader.kraft_version, list(leader.voters)) == (0, [VoterKey(number) for number in (1, 2, 3)])
    end = upgrade(quorum, leader)
    assert leader.leads
    assert leader.log.high_watermark >= end
    for node in quorum.nodes.values():
        assert node.raft.kraft_version == 1
        assert list(node.raft.voters) == [VoterKey(number, directory_id(number)) for number in (1, 2, 3)]
        assert node.raft.voters.address(node.id, "CONTROLLER") == address_of(node.id)
        assert node.raft.votes


def test_after_the_upgrade_voters_come_and_go() -> None:
    quorum, leader = by_settings(others=1)
    assert added(quorum, leader, 4).error_code == UnsupportedVersion.code
    upgrade(quorum, leader)
    assert added(quorum, leader, 4).error_code == 0
    assert leader.voters.ids == quorum[4].raft.voters.ids == [1, 2, 3, 4]
    request = RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=3, voter_directory_id=directory_id(3))
    assert leader.changes is not None
    change = leader.changes.remove(request, quorum[1].now_ms)
    quorum.exchange()
    assert (change.error_code, leader.voters.ids) == (0, [1, 2, 4])


def test_who_followed_before_the_upgrade_is_not_forgotten_by_it() -> None:
    """Else the leader would resign, because it had led for long and heard of nobody since."""
    quorum, leader = by_settings()
    assert leader.leadership is not None
    assert leader.changes is not None
    now_ms = quorum[1].now_ms
    before = {key.id: progress.end_offset for key, progress in leader.leadership.voters.items()}
    leader.changes.upgrade(1, now_ms)
    assert {key.id: progress.end_offset for key, progress in leader.leadership.voters.items()} == before
    assert all(key.directory_id == directory_id(key.id) for key in leader.leadership.voters)
    assert not leader.leadership.observers
    leader.tick(now_ms)
    assert leader.leads


def test_the_level_is_not_raised_before_all_voters_have_told_where_they_are() -> None:
    quorum = Quorum(3, by_settings=True)
    leader = quorum.elect(1)
    assert leader.changes is not None
    with pytest.raises(InvalidUpdateVersion, match="voters 2, 3 have not told"):
        leader.changes.upgrade(1, quorum[1].now_ms)
    quorum.exchange(rounds=300, without=(3,))
    with pytest.raises(InvalidUpdateVersion, match="voter 3 has not told"):
        leader.changes.upgrade(1, quorum[1].now_ms)
    told(quorum)
    upgrade(quorum, leader)
    assert leader.kraft_version == 1


def test_the_level_is_not_raised_while_a_voter_does_not_know_it() -> None:
    quorum, leader = by_settings(levels={2: (0, 0)})
    assert leader.changes is not None
    with pytest.raises(InvalidUpdateVersion, match="voter 2 has no software that knows this level"):
        leader.changes.upgrade(1, quorum[1].now_ms)
    assert leader.kraft_version == 0


def test_the_level_is_never_lowered() -> None:
    leader = Quorum(1).elect(1)
    assert leader.changes is not None
    with pytest.raises(InvalidUpdateVersion, match="from 1 to 0: it is never lowered"):
        leader.changes.known_voters().check_upgrade(0)
    leader.changes.known_voters().check_upgrade(1)


def test_a_new_leader_hears_again_of_the_voters_that_settings_name() -> None:
    quorum, leader = by_settings()
    leader.resign(quorum[1].now_ms)
    quorum.exchange(20)
    (second,) = (node.raft for node in quorum.nodes.values() if node.raft.leads)
    assert second.changes is not None
    with pytest.raises(InvalidUpdateVersion, match="not told"):
        second.changes.known_voters().check_upgrade(1)
    told(quorum)
    second.changes.known_voters().check_upgrade(1)


def test_an_upgrade_that_was_not_committed_is_undone_with_its_records() -> None:
    quorum, leader = by_settings()
    assert leader.changes is not None
    leader.changes.upgrade(1, quorum[1].now_ms)
    quorum[1].keep()
    assert leader.kraft_version == 1
    for number in (2, 3):  # in a life that has not heard of a leader they would vote for another one
        quorum[number].now_ms = quorum[1].now_ms
        quorum[number].start()
    quorum.elect(2, without=(1,))
    quorum.exchange(20)
    assert [node.raft.kraft_version for node in quorum.nodes.values()] == [0, 0, 0]
    assert list(leader.voters) == [VoterKey(number) for number in (1, 2, 3)]


def test_the_only_voter_of_settings_is_told_of_by_itself() -> None:
    quorum = Quorum(1, by_settings=True)
    leader = quorum.elect(1)
    upgrade(quorum, leader)
    assert list(leader.voters) == [VoterKey(1, directory_id(1))]


# --- what makes no sense ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["vote", "begin", "end"])
def test_an_epoch_after_which_nobody_could_be_elected_is_refused(ask: str) -> None:
    node = Node(1, [1, 2])
    epoch, now_ms = 2**31 - 1, node.now_ms
    if ask == "vote":
        code = granted(node, asked_for_vote(epoch, 2, 1))[0]
    elif ask == "begin":
        request = wire.begin_request(CLUSTER, epoch=epoch, leader_id=2, voter=VoterKey(1), endpoints=())
        code = node.raft.on_begin_quorum_epoch(request, now_ms).topics[0].partitions[0].error_code
    else:
        request = wire.end_request(CLUSTER, epoch=epoch, leader_id=2, candidates=(), endpoints=())
        code = node.raft.on_end_quorum_epoch(request, now_ms).topics[0].partitions[0].error_code
    assert (code, node.raft.epoch) == (InvalidRequest.code, 0)


def test_a_voter_that_cannot_be_asked_holds_others_up_for_a_minute_and_no_longer() -> None:
    quorum = Quorum(1)
    leader = quorum.elect(1)
    assert leader.changes is not None
    listeners = [Listener(name="CONTROLLER", host="nowhere", port=1)]
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER, timeout_ms=2**31 - 1, voter_id=7, voter_directory_id=directory_id(7), listeners=listeners
    )
    change = leader.changes.add(request, quorum[1].now_ms)
    leader.tick(quorum[1].now_ms + 59_000)
    assert change.error_code is None
    leader.tick(quorum[1].now_ms + 60_000)
    assert change.error_code == 7
    request.listeners = listeners * 101
    assert leader.changes.add(request, quorum[1].now_ms + 60_000).error_code == InvalidRequest.code


def test_of_a_long_log_no_more_is_read_at_once_than_a_batch_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Quorum(1).elect(1)
    asked: list[int] = []
    read = leader.log.read

    def measured(offset: int, max_bytes: int) -> Any:
        asked.append(max_bytes)
        return read(offset, max_bytes)

    monkeypatch.setattr(leader.log, "read", measured)
    partition = FetchPartition(
        partition=0, current_leader_epoch=1, fetch_offset=0, last_fetched_epoch=0, partition_max_bytes=0
    )
    topic = FetchTopic(topic_id=METADATA_TOPIC_UUID, partitions=[partition])
    request = FetchRequest(cluster_id=CLUSTER, max_wait_ms=0, min_bytes=0, max_bytes=2**31 - 1, topics=[topic])
    response, _ = leader.on_fetch(request, 18, 0)
    assert response.responses[0].partitions[0].records
    assert asked == [8 << 20]
