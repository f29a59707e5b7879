"""A node without a vote in a quorum whose leaders change, whose answers are lost and whose node loses power."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.unit.cluster.raft.quorum import CLUSTER, NODES, Quorum

from ottla.cluster.raft.fetching import Identity
from ottla.cluster.raft.log import CommittedRecordsLost, LogLimits, MetadataLog
from ottla.cluster.raft.node import RaftNode, RaftSettings, Sent
from ottla.cluster.raft.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.cluster.raft.raft import Raft
from ottla.errors import InconsistentClusterId
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.testing.files import MemoryFiles
from ottla.values import Address

DATA = Path("/data")
DIRECTORY = b"d" * 16
NOBODY_THERE = Address("nobody", 9093)


class Node:
    """An observer with a disk; time passes by hand."""

    def __init__(self, quorum: Quorum, random: Random) -> None:
        self.quorum = quorum
        self.files = MemoryFiles(seed=random.randint(0, 1 << 30))
        self.files.make_directory(DATA)
        self.files.sync_directory(DATA.parent)
        self.now_ms = 0
        self.start()

    def start(self) -> None:
        log = MetadataLog.open(self.files, DATA, now_ms=0, limits=LogLimits())
        node = RaftNode(Identity(CLUSTER, 11, DIRECTORY), bootstrap=(NOBODY_THERE, *NODES.values()))
        self.raft = Raft(self.files, log, node, RaftSettings(), Random(7), self.now_ms)

    @property
    def log(self) -> MetadataLog:
        return self.raft.log

    def crash(self) -> None:
        self.files.crash("any")
        self.start()

    def ask(self) -> Sent | None:
        self.now_ms += 30
        self.raft.tick(self.now_ms)
        self.keep()
        sent = self.raft.requests(self.now_ms)
        assert len(sent) <= 1, "who has no vote asks one question at a time"
        return sent[0] if sent else None

    def keep(self) -> None:
        """quorum-state and the log are on the disk."""
        state = self.raft.state
        if not self.raft.is_saved:
            write_quorum_state(self.files, self.log.directory, state, self.raft.kraft_version)
            self.raft.saved(state)
        job = self.log.flush_job()
        job.run()
        self.log.flushed(job, self.now_ms)

    def step(self, *, is_lost: bool = False) -> None:
        """One question and what comes of it."""
        question = self.ask()
        if question is None:
            return
        response = None if is_lost else self.quorum.answer(question)
        if response is None:
            self.raft.unanswered(question, self.now_ms)
        else:
            self.raft.answered(question, response, self.now_ms)
            self.keep()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def check(self) -> None:
        """What is given out is what the quorum has committed, and it only grows."""
        assert self.log.high_watermark <= self.quorum.high_watermark
        assert self.raft.epoch <= self.quorum.epoch
        committed = self.log.high_watermark
        start = self.log.start_offset
        given = list(self.raft.committed(start))
        ends = [batch.end_offset for batch in self.quorum.batches if batch.base_offset >= start]
        assert [batch.last_offset + 1 for batch in given] == [end for end in ends if end <= committed]
        if given:
            content = self.log.read(start, 1 << 30).slice.read()
            expected = self.quorum.committed_bytes(start, given[-1].last_offset + 1)
            assert content[: len(expected)] == expected
        state = read_quorum_state(self.files, self.log.directory) or QuorumState()
        assert state == self.raft.state


@pytest.fixture
def node() -> Node:
    random = Random(7)
    return Node(Quorum(random), random)


@pytest.mark.parametrize("seed", range(150))
def test_what_is_given_out_is_what_was_committed_whatever_happens(seed: int) -> None:
    random = Random(seed)
    quorum = Quorum(random)
    node = Node(quorum, random)
    quorum.elect()
    for _ in range(120):
        move = random.choices(
            (quorum.append, quorum.commit, quorum.elect, quorum.vacate, quorum.make_snapshot, node.crash, node.step),
            (20, 20, 3, 1, 2, 1, 50),
        )[0]
        if move == node.step:
            node.step(is_lost=random.random() < 0.1)
        else:
            move()
        node.check()
    quorum.elect()
    quorum.append()
    quorum.commit()
    for _ in range(400):
        node.step()
    node.check()
    assert (node.log.end_offset, node.log.high_watermark) == (quorum.end_offset, quorum.high_watermark)
    assert node.raft.state == QuorumState(leader_epoch=quorum.epoch, leader_id=quorum.leader or -1)


def test_the_first_question_is_kafkas(node: Node) -> None:
    question = node.ask()
    assert question is not None
    assert question.address == NOBODY_THERE
    request = question.request
    assert isinstance(request, FetchRequest)
    assert (request.cluster_id, request.replica_state.replica_id, request.replica_state.replica_epoch) == (
        CLUSTER,
        11,
        -1,
    )
    partition = request.topics[0].partitions[0]
    assert request.topics[0].topic_id == bytes(15) + b"\1"
    assert (partition.current_leader_epoch, partition.fetch_offset, partition.last_fetched_epoch) == (0, 0, 0)
    assert (partition.partition_max_bytes, partition.high_watermark) == (0, -1)
    assert partition.replica_directory_id == DIRECTORY
    assert node.ask() is None


def test_the_leader_is_found_by_the_refusal_of_another_node(node: Node) -> None:
    node.quorum.elect()
    for _ in range(3):
        node.step()
    assert node.raft.state == QuorumState(leader_epoch=node.quorum.epoch, leader_id=node.quorum.leader or -1)
    question = node.ask()
    assert question is not None
    assert question.address == NODES[node.quorum.leader or 0]


def test_a_leader_that_is_silent_is_given_up_after_the_fetch_timeout(node: Node) -> None:
    node.quorum.elect()
    for _ in range(5):
        node.step()
    leader = NODES[node.quorum.leader or 0]
    asked = []
    for _ in range(80):
        question = node.ask()
        if question is not None:
            asked.append(question.address)
            node.raft.unanswered(question, node.now_ms)
    assert asked[0] == leader
    assert set(asked) == {leader, NOBODY_THERE, *NODES.values()}


def test_an_answer_to_a_question_that_is_not_open_any_more_is_passed_over(node: Node) -> None:
    node.quorum.elect()
    node.run(5)
    node.quorum.append()
    question = node.ask()
    assert question is not None
    late = node.quorum.answer(question)
    assert late is not None
    before = node.log.end_offset
    node.raft.unanswered(question, node.now_ms)
    node.raft.answered(question, late, node.now_ms)
    assert node.log.end_offset == before
    node.run(3)
    assert node.log.end_offset == node.quorum.end_offset > before


def test_an_answer_of_an_earlier_epoch_is_passed_over(node: Node) -> None:
    node.quorum.elect()
    node.run(5)
    node.quorum.append()
    question = node.ask()
    assert question is not None
    response = node.quorum.answer(question)
    assert isinstance(response, FetchResponse)
    response.responses[0].partitions[0].current_leader.leader_epoch -= 1
    before = node.log.end_offset
    node.raft.answered(question, response, node.now_ms)
    assert node.log.end_offset == before
    node.run(3)
    assert node.log.end_offset == node.quorum.end_offset


def test_another_cluster_is_refused(node: Node) -> None:
    question = node.ask()
    assert question is not None
    with pytest.raises(InconsistentClusterId, match="nobody:9093 is a controller of another cluster"):
        node.raft.answered(question, FetchResponse(error_code=104, responses=[]), 0)


def test_a_snapshot_comes_in_pieces_and_the_log_goes_on_behind_it(node: Node) -> None:
    quorum = node.quorum
    quorum.elect()
    for _ in range(5):
        quorum.append()
    quorum.commit()
    quorum.make_snapshot()
    kinds = []
    for _ in range(60):
        question = node.ask()
        if question is not None:
            kinds.append(type(question.request))
            response = quorum.answer(question)
            if response is None:
                node.raft.unanswered(question, node.now_ms)
            else:
                node.raft.answered(question, response, node.now_ms)
    assert kinds.count(FetchSnapshotRequest) >= 2
    (snapshot,) = node.log.snapshots
    assert node.files.read_bytes(node.log.snapshot_path(snapshot)) == quorum.snapshots[snapshot]
    assert node.log.start_offset == snapshot.end_offset
    assert node.log.end_offset == quorum.end_offset


def asking_for_a_snapshot(node: Node) -> Sent:
    """The second question about a snapshot."""
    quorum = node.quorum
    quorum.elect()
    quorum.append()
    quorum.commit()
    quorum.make_snapshot()
    for _ in range(20):
        question = node.ask()
        if question is None:
            continue
        request = question.request
        if isinstance(request, FetchSnapshotRequest) and request.topics[0].partitions[0].position:
            return question
        response = quorum.answer(question)
        if response is None:
            node.raft.unanswered(question, node.now_ms)
        else:
            node.raft.answered(question, response, node.now_ms)
    raise AssertionError("no snapshot was asked for")


def test_a_piece_from_another_position_begins_the_snapshot_anew(node: Node) -> None:
    question = asking_for_a_snapshot(node)
    response = node.quorum.answer(question)
    assert isinstance(response, FetchSnapshotResponse)
    response.topics[0].partitions[0].position += 1
    node.raft.answered(question, response, node.now_ms)
    again = node.ask()
    assert again is not None
    assert isinstance(again.request, FetchRequest)
    node.raft.unanswered(again, node.now_ms)
    node.run(60)
    node.check()
    assert node.log.end_offset == node.quorum.end_offset


def test_a_snapshot_that_the_leader_has_no_more_is_given_up(node: Node) -> None:
    question = asking_for_a_snapshot(node)
    node.quorum.snapshots.clear()
    node.quorum.log_start = 0
    response = node.quorum.answer(question)
    assert response is not None
    node.raft.answered(question, response, node.now_ms)
    again = node.ask()
    assert again is not None
    assert isinstance(again.request, FetchRequest)
    assert not [name for name in node.files.list_directory(node.log.directory) if name.endswith(".part")]


def test_a_leader_that_lost_what_was_committed_stops_the_node(node: Node) -> None:
    quorum = node.quorum
    quorum.elect()
    quorum.append()
    quorum.high_watermark = quorum.end_offset
    for _ in range(10):
        node.step()
    assert node.log.high_watermark == quorum.end_offset
    quorum.high_watermark = 0
    quorum.batches.clear()
    quorum.elect()
    with pytest.raises(CommittedRecordsLost):
        node.run(10)
