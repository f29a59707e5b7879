"""Simple fetches of followers are a short cut: answers, sessions and known progress are as in the usual way."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.broker.fetch import simple as simple_fetch
from ottla.broker.handlers.records import fetch as fetch_handler
from ottla.broker.replication.in_sync import Progress
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

TOPIC_ID = bytes(range(16))
VERSION = 17


class Copying:
    """A broker that leads, and two followers whose fetches the test makes up."""

    def __init__(self, world):
        self.world = world
        self.broker = world.nodes[0].broker
        self.sessions = {}
        self.ends = {1: 0, 2: 0}
        self.answers = []
        self.produced = 0

    def fetch(
        self,
        replica,
        *,
        ahead=0,
        epoch=0,
        last_epoch=0,
        is_named=True,
        max_bytes=1 << 20,
        wait_ms=0,
        limit=1 << 20,
        registration=1,
    ):
        """The next fetch of a session, or a whole one that opens it."""
        partition = self.world.nodes[0].partition
        session_id, session_epoch = self.sessions.get(replica, (0, 0))
        asked = FetchPartition(
            partition=0,
            current_leader_epoch=partition.leader_epoch + epoch,
            fetch_offset=max(0, self.ends[replica] + ahead),
            last_fetched_epoch=partition.leader_epoch + last_epoch,
            log_start_offset=0,
            partition_max_bytes=max_bytes,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=replica, replica_epoch=registration),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=limit,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[asked])] if is_named or not session_epoch else [],
        )
        self.world.do(lambda: self.world.ask(0, request, VERSION, lambda answer: self._answered(replica, answer)))

    def _answered(self, replica, answer):
        self.answers.append((replica, answer))
        if answer.error_code or not answer.session_id:
            self.sessions.pop(replica, None)
            return
        before = self.sessions.get(replica, (0, 0))[1]
        self.sessions[replica] = answer.session_id, before + 1
        for topic in answer.responses:
            for data in topic.partitions:
                if data.records:
                    self.ends[replica] = self.world.nodes[0].partition.log_end_offset

    def produce(self):
        self.produced += 1
        self.world.produce(0, f"record {self.produced}", acks=1)

    def state(self):
        partition = self.world.nodes[0].partition
        followers = {
            broker_id: [getattr(progress, name) for name in Progress.__slots__]
            for broker_id, progress in partition.in_sync.followers.items()
        }
        sessions = {
            number: (each.epoch, list(each.wanted.items()), each.last_sent, each.last_used_ms)
            for number, each in self.broker.fetch_sessions._sessions.items()
        }
        sent = self.broker.topic_metrics.replicated_out.value
        ends = (
            partition.high_watermark,
            partition.log_end_offset,
            partition.in_sync.bound,
            sorted(partition.in_sync.isr),
        )
        return self.answers, followers, sessions, ends, sent


@pytest.fixture
def taken(monkeypatch):
    """Whether each fetch that might be simple was."""
    seen = []

    def counted(*arguments):
        found = simple_fetch.answer_follower(*arguments)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(fetch_handler, "answer_follower", counted)
    return seen


FETCHES = st.fixed_dictionaries(
    {"replica": st.sampled_from([1, 1, 2])},
    optional={
        "ahead": st.sampled_from([0, 0, 0, -1, 1, 5]),
        "epoch": st.sampled_from([0, 0, 0, -1, 1]),
        "last_epoch": st.sampled_from([0, 0, 0, -1, 1]),
        "is_named": st.booleans(),
        "max_bytes": st.sampled_from([1 << 20, 100, 0, -1]),
        "limit": st.sampled_from([1 << 20, 50, 0]),
        "wait_ms": st.sampled_from([0, 0, 100]),
        "registration": st.sampled_from([1, 1, 2]),
    },
)
STEPS = st.one_of(
    st.tuples(st.just("produce"), st.none()),
    st.tuples(st.just("fetch"), FETCHES),
    st.tuples(st.just("fetch"), st.sampled_from([{"replica": 1}, {"replica": 2}, {"replica": 1, "wait_ms": 100}])),
    st.tuples(st.just("later"), st.sampled_from([1, 150, 20_000])),
    st.tuples(st.just("elect"), st.none()),
)


def run(make_world, steps, monkeypatch, *, is_simple):
    world = make_world()
    copying = Copying(world)
    with monkeypatch.context() as patch:
        if not is_simple:
            patch.setattr(fetch_handler, "answer_follower", lambda *_: None)
        for what, how in steps:
            if what == "produce":
                copying.produce()
            elif what == "fetch":
                copying.fetch(**how)
            elif what == "later":
                world.later(how)
            else:
                world.elect(0)
                world.obey()
        world.later(200)  # whoever waits is answered
        return copying.state()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=12))
def test_drawn_fetches_are_answered_as_in_the_usual_way(make_world, monkeypatch, steps):
    steps = [("fetch", {"replica": 1}), ("fetch", {"replica": 2}), ("produce", None), *steps]
    short, usual = (run(make_world, steps, monkeypatch, is_simple=each) for each in (True, False))
    assert short == usual


def test_a_follower_that_goes_on_is_simple_and_moves_the_high_watermark(world, taken):
    copying = Copying(world)
    copying.fetch(1)
    copying.fetch(2)
    copying.produce()
    for replica in (1, 2, 1, 2):
        copying.fetch(replica)
    assert taken == [True] * 4
    assert world.nodes[0].partition.high_watermark == 1
    records = [bool(answer.responses and answer.responses[0].partitions[0].records) for _, answer in copying.answers]
    assert records == [False, False, True, True, False, False]


@pytest.mark.parametrize("is_simple", [True, False])
def test_another_registration_of_a_follower_is_heard_where_nothing_else_is_new(world, monkeypatch, is_simple):
    """Short seed 61099: with the old one the controller refused every in-sync set that the follower was in."""
    if not is_simple:
        monkeypatch.setattr(fetch_handler, "answer_follower", lambda *_: None)
    copying = Copying(world)
    for registration in (1, 1, 2):
        copying.fetch(1, is_named=False, registration=registration)
    assert world.nodes[0].partition.in_sync.followers[1].broker_epoch == 2


def test_a_follower_that_waits_gets_what_comes(world, taken):
    copying = Copying(world)
    copying.fetch(1)
    copying.fetch(1, wait_ms=100)
    assert len(copying.answers) == 1
    copying.produce()
    assert taken == [True]
    assert copying.answers[1][1].responses[0].partitions[0].records


def test_a_leader_that_lost_its_office_says_so_to_who_waits(world, taken):
    copying = Copying(world)
    copying.fetch(1)
    copying.fetch(1, wait_ms=100)
    world.elect(1)
    world.obey()
    assert taken == [True]
    assert copying.answers[1][1].responses[0].partitions[0].error_code


@pytest.mark.parametrize(
    "how", [{"epoch": 1}, {"epoch": -1}, {"ahead": 9}, {"max_bytes": -1}, {"last_epoch": 1}], ids=lambda how: str(how)
)
def test_what_is_unusual_is_left_to_the_usual_way(world, taken, how):
    copying = Copying(world)
    copying.fetch(1)
    copying.fetch(1, **how)
    assert taken == [False]
