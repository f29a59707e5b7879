"""Records in flight: every record is in one state, nothing is acknowledged twice, and a lost session leaves nothing."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.client.share.batches import Run, runs_of
from ottla.client.share.in_flight import GAP, AcknowledgeType, InFlight, NotHeld, State
from ottla.errors import CoordinatorLoadInProgress, InvalidRecordState, NotLeaderOrFollower, ShareSessionNotFound
from ottla.values import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
LOCK_MS = 1000.0


def delivered(flight, *offsets, name=A, node=1, now=0.0, count=1):
    """These records with the application."""
    ranges = [(offset, offset, count) for offset in offsets]
    found = list(flight.acquire(name, node, ranges, now, LOCK_MS).values())
    assert all(flight.deliver(held, now) for held in found)
    return found


def test_an_acknowledgement_is_sent_once_and_its_answer_ends_the_record():
    flight = InFlight()
    (held,) = delivered(flight, 5)
    flight.acknowledge(held, ACCEPT)
    assert flight.take(1, 0.0) == [held]
    assert flight.take(1, 0.0) == []
    with pytest.raises(NotHeld, match="acknowledged already"):
        flight.acknowledge(held, RELEASE)
    ((ended, ack, error),) = flight.answered([held], None, 1.0, retry_ms=100)
    assert (ended, ack, error) == (held, ACCEPT, None)
    assert held.state is State.GONE
    assert len(flight) == 0
    with pytest.raises(NotHeld):
        flight.acknowledge(held, ACCEPT)


def test_an_acknowledgement_may_be_changed_until_it_is_on_its_way():
    flight = InFlight()
    (held,) = delivered(flight, 5)
    flight.acknowledge(held, ACCEPT)
    flight.acknowledge(held, REJECT)
    assert [each.ack for each in flight.take(1, 0.0)] == [REJECT]


def test_acknowledgements_go_to_the_broker_that_gave_the_record():
    flight = InFlight()
    (first,), (second,) = delivered(flight, 5, node=1), delivered(flight, 7, name=B, node=2)
    flight.acknowledge(first, ACCEPT)
    flight.acknowledge(second, ACCEPT)
    assert flight.take(2, 0.0) == [second]
    assert flight.nodes_with_acks() == [1]


def test_a_renewed_record_stays_with_the_application_under_a_new_lock():
    flight = InFlight()
    (held,) = delivered(flight, 5)
    flight.acknowledge(held, RENEW)
    flight.take(1, 600.0)
    flight.answered([held], None, 700.0, retry_ms=100, lock_ms=2000.0)
    assert held.state is State.DELIVERED
    assert held.locked_until_ms == 2700.0
    flight.accept_delivered()
    assert held.state is State.DELIVERED, "who renewed it has more to say"
    flight.acknowledge(held, ACCEPT)
    assert [each.ack for each in flight.take(1, 800.0)] == [ACCEPT]


def test_the_final_acknowledgement_waits_for_the_answer_to_a_renewal():
    flight = InFlight()
    (held,) = delivered(flight, 5)
    flight.acknowledge(held, RENEW)
    flight.take(1, 0.0)
    flight.acknowledge(held, ACCEPT)
    assert flight.take(1, 0.0) == []
    flight.answered([held], None, 1.0, retry_ms=100)
    assert [each.ack for each in flight.take(1, 1.0)] == [ACCEPT]


def test_kept_records_are_renewed_when_half_of_the_lock_is_over():
    flight = InFlight()
    kept, other = delivered(flight, 5, 6)
    flight.keep(kept, 10_000.0)
    assert flight.renew_due(0.0) == 500.0
    flight.renew_due(500.0)
    assert [(each, each.ack) for each in flight.take(1, 500.0)] == [(kept, RENEW)]
    flight.answered([kept], None, 501.0, retry_ms=100, lock_ms=LOCK_MS)
    assert flight.renew_due(501.0) == 1001.0
    assert flight.unacknowledged() == [other]
    flight.renew_due(10_000.0)
    assert set(flight.unacknowledged()) == {kept, other}, "its time is over"


def test_a_refusal_that_may_pass_is_tried_again_until_the_lock_is_over():
    flight = InFlight()
    (held,) = delivered(flight, 5)
    flight.acknowledge(held, ACCEPT)
    sent = flight.take(1, 0.0)
    assert flight.answered(sent, CoordinatorLoadInProgress(), 0.0, retry_ms=100) == []
    assert flight.take(1, 50.0) == []
    assert flight.next_ack_ms(1, 50.0) == 100.0
    assert flight.take(1, 100.0) == [held]
    ((_, ack, error),) = flight.answered([held], CoordinatorLoadInProgress(), 950.0, retry_ms=100)
    assert ack == ACCEPT
    assert isinstance(error, CoordinatorLoadInProgress)


@pytest.mark.parametrize("error", [InvalidRecordState(), NotLeaderOrFollower()])
def test_a_refusal_that_means_the_lock_is_lost_ends_the_record(error):
    flight = InFlight()
    (held,) = delivered(flight, 5)
    flight.acknowledge(held, ACCEPT)
    outcomes = flight.answered(flight.take(1, 0.0), error, 0.0, retry_ms=100)
    assert [each.error for each in outcomes] == [error]
    assert held.state is State.GONE


def test_a_lost_session_takes_its_records_with_it_and_no_others():
    flight = InFlight()
    acknowledged, silent = delivered(flight, 5, 6, node=1)
    (other,) = delivered(flight, 7, name=B, node=2)
    flight.acknowledge(acknowledged, ACCEPT)
    outcomes = flight.lose(1, ShareSessionNotFound())
    assert [(each.held, each.ack) for each in outcomes] == [(acknowledged, ACCEPT)]
    with pytest.raises(NotHeld):
        flight.acknowledge(silent, ACCEPT)
    assert list(flight) == [other]


def test_a_new_delivery_of_an_offset_ends_the_old_one():
    flight = InFlight()
    (old,) = delivered(flight, 5, count=1)
    (new,) = delivered(flight, 5, count=2)
    with pytest.raises(NotHeld):
        flight.acknowledge(old, ACCEPT)
    flight.acknowledge(new, ACCEPT)
    assert flight.take(1, 0.0) == [new]


def test_what_was_buffered_for_too_long_is_not_delivered():
    flight = InFlight()
    held = flight.acquire(A, 1, [(5, 5, 1)], 0.0, LOCK_MS)[5]
    assert not flight.deliver(held, LOCK_MS)
    assert len(flight) == 0


def test_what_the_application_forgot_is_forgotten_when_its_lock_is_over():
    flight = InFlight()
    (held,) = delivered(flight, 5)
    assert flight.expire(LOCK_MS - 1) == []
    assert held.state is State.DELIVERED
    ((expired, _, error),) = flight.expire(LOCK_MS)
    assert expired is held
    assert "its lock ran out" in str(error)
    assert held.state is State.GONE


def test_records_of_a_partition_that_went_to_others_are_released_unless_they_were_delivered():
    flight = InFlight()
    (seen,) = delivered(flight, 5)
    unseen = flight.acquire(A, 1, [(6, 7, 1)], 0.0, LOCK_MS)
    flight.release_buffered([A])
    assert flight.take(1, 0.0) == list(unseen.values())
    assert {each.ack for each in unseen.values()} == {RELEASE}
    assert seen.state is State.DELIVERED


def test_runs_join_neighbours_of_which_the_same_is_said():
    assert runs_of([(7, 1), (5, 1), (6, 1), (9, 1), (10, 2)]) == [Run(5, 7, 1), Run(9, 9, 1), Run(10, 10, 2)]


class FlightMachine(RuleBasedStateMachine):
    """Against a model: a broker that knows who has which offset, and accepts every acknowledgement at most once."""

    def __init__(self):
        super().__init__()
        self.flight = InFlight()
        self.now = 0.0
        self.made = {}  # (name, offset) -> the newest delivery
        self.under_way = {1: [], 2: []}
        self.ended = {}  # a delivery -> the final acknowledgement that was answered

    def pick(self, data, *states):
        found = [held for held in self.made.values() if held.state in states]
        return data.draw(st.sampled_from(found)) if found else None

    @rule(name=st.sampled_from([A, B]), node=st.sampled_from([1, 2]), first=st.integers(0, 6), length=st.integers(0, 3))
    def acquire(self, name, node, first, length):
        before = {offset: self.made.get((name, offset)) for offset in range(first, first + length + 1)}
        counts = [0 if held is None else held.delivery_count for held in before.values()]
        ranges = [(offset, offset, count + 1) for offset, count in zip(before, counts, strict=True)]
        found = self.flight.acquire(name, node, ranges, self.now, LOCK_MS)
        for offset, held in found.items():
            assert before[offset] is None or before[offset].state is State.GONE
            self.made[name, offset] = held

    @rule(data=st.data())
    def deliver(self, data):
        held = self.pick(data, State.BUFFERED)
        if held is not None:
            assert self.flight.deliver(held, self.now) == (self.now < held.locked_until_ms)

    @rule(data=st.data(), ack=st.sampled_from(list(AcknowledgeType)))
    def acknowledge(self, data, ack):
        held = self.pick(data, *State)
        if held is None:
            return
        may = held.state in (State.DELIVERED, State.ACKNOWLEDGED) or (held.state is State.SENDING and held.ack == RENEW)
        try:
            self.flight.acknowledge(held, ack)
            assert may
        except NotHeld:
            assert not may

    @rule(data=st.data())
    def gap(self, data):
        held = self.pick(data, State.BUFFERED)
        if held is not None:
            self.flight.acknowledge_unread(held, GAP)

    @rule(data=st.data(), for_ms=st.integers(0, 2000))
    def keep(self, data, for_ms):
        held = self.pick(data, *State)
        if held is not None:
            self.flight.keep(held, self.now + for_ms)

    @rule(by_ms=st.integers(0, 700))
    def time_passes(self, by_ms):
        self.now += by_ms
        self.flight.renew_due(self.now)

    @rule()
    def expire(self):
        self.flight.expire(self.now)

    @rule()
    def accept_delivered(self):
        self.flight.accept_delivered()
        assert not self.flight.unacknowledged()

    @rule(node=st.sampled_from([1, 2]))
    def take(self, node):
        if not self.under_way[node]:
            self.under_way[node] = self.flight.take(node, self.now)
            assert all(held.node_id == node for held in self.under_way[node])

    @rule(
        node=st.sampled_from([1, 2]), error=st.sampled_from([None, InvalidRecordState(), CoordinatorLoadInProgress()])
    )
    def answer(self, node, error):
        sent, self.under_way[node] = self.under_way[node], []
        for held, ack, failed in self.flight.answered(sent, error, self.now, retry_ms=100, lock_ms=LOCK_MS):
            if ack == RENEW and failed is None:
                continue
            assert held not in self.ended, "acknowledged twice"
            self.ended[held] = ack

    @rule(node=st.sampled_from([1, 2]))
    def lose(self, node):
        self.under_way[node] = []
        for held, ack, _ in self.flight.lose(node, ShareSessionNotFound()):
            assert held not in self.ended
            self.ended[held] = ack
        assert not any(held.node_id == node for held in self.flight)

    @invariant()
    def one_state_each(self):
        """What is held is what the model made and nobody ended; acknowledgements stand in exactly one line."""
        held = list(self.flight)
        assert len(held) == len({(each.name, each.offset) for each in held})
        assert all(each.state is not State.GONE for each in held)
        assert {each for each in self.made.values() if each.state is not State.GONE} == set(held)
        assert all(each.state is State.GONE for each in self.ended)
        acknowledged = [each for acks in self.flight._unsent.values() for each in acks]
        assert {each for each in held if each.state is State.ACKNOWLEDGED} == set(acknowledged)
        assert {each for each in held if each.state is State.DELIVERED} == set(self.flight._delivered)
        sending = {each for sent in self.under_way.values() for each in sent if each.state is State.SENDING}
        assert {each for each in held if each.state is State.SENDING} == sending


TestFlight = FlightMachine.TestCase
TestFlight.settings = settings(stateful_step_count=30)
