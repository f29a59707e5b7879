"""Which requests are planned and what answers do, against brokers that check sessions and locks."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.client.consumer.test_fetcher import IDS, metadata_answer
from tests.unit.client.share.model_broker import ACQUIRED, DONE, LOCK_MS, ModelBroker, ModelPartition

from ottla.client.metadata import Metadata, bootstrap_nodes
from ottla.client.share.in_flight import AcknowledgeType, InFlight, NotHeld, State
from ottla.client.share.requests import RECORD_LIMIT, Demand, ShareLimits, ShareRequests
from ottla.errors import GroupAuthorizationFailed, NotConnected, ShareSessionNotFound
from ottla.net.retries import Backoff
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.values import Address, TopicPartition

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADERS = {A: 1, B: 2, C: 1}
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


class World:
    """A consumer's heart and two brokers."""

    def __init__(self, *partitions, length=4):
        self.metadata = Metadata(
            bootstrap_nodes([Address("h", 1)]), backoff=Backoff(1, 1, Random(1)), max_age_ms=300_000
        )
        self.metadata.want_only({"a", "b"})
        self.metadata.request(0)
        self.metadata.update(metadata_answer(LEADERS), 0)
        self.flight = InFlight()
        self.requests = ShareRequests(self.flight, self.metadata, ShareLimits(), group_id="g", member_id="m")
        self.requests.assigned = frozenset(partitions)
        self.brokers = {
            node: ModelBroker(
                {(IDS[p.topic], p.partition): ModelPartition(length, self) for p in LEADERS if LEADERS[p] == node}
            )
            for node in (1, 2)
        }
        self.now = 0.0
        self.pieces = []

    def monotonic_ms(self):
        """The clock by which the locks of the brokers run out."""
        return self.now

    def plan(self, records=0, mode=0, send_acks=False):
        return self.requests.plan(self.now, lambda node: True, Demand(records, mode, send_acks))

    def answer(self, order):
        answer = self.requests.answered(order, self.brokers[order.node.id].answer(order.request), self.now)
        self.pieces += answer.pieces
        return answer

    def fetched(self, records=10):
        """All records of one round of fetches, with the application."""
        found = []
        for order in self.plan(records):
            for piece in self.answer(order).pieces:
                found += piece.acquired.values()
        assert all(self.flight.deliver(held, self.now) for held in found)
        return found

    def state_of(self, held):
        partition = self.brokers[held.node_id].partitions[IDS[held.name.topic], held.name.partition]
        return partition.states[held.offset]


def test_nothing_is_fetched_before_somebody_waits_for_records():
    world = World(A, B)
    assert world.plan() == []
    assert {order.node.id for order in world.plan(10)} == {1, 2}
    assert world.plan(10) == [], "one request per broker at a time"


def test_acknowledgements_go_with_the_next_fetch():
    world = World(A)
    held = world.fetched(2)
    for each in held:
        world.flight.acknowledge(each, ACCEPT)
    (order,) = world.plan(2)
    assert isinstance(order.request, ShareFetchRequest)
    answer = world.answer(order)
    assert [each.error for each in answer.outcomes] == [None, None]
    assert {world.state_of(each) for each in held} == {DONE}
    assert [each.delivery_count for piece in answer.pieces for each in piece.acquired.values()] == [1, 1]


def test_acknowledgements_go_alone_when_they_are_asked_for_and_when_their_lock_is_half_over():
    world = World(A)
    first, second, *_ = world.fetched()
    world.flight.acknowledge(first, ACCEPT)
    assert world.plan() == []
    (order,) = world.plan(send_acks=True)
    assert isinstance(order.request, ShareAcknowledgeRequest)
    world.answer(order)
    world.flight.acknowledge(second, RELEASE)
    assert world.plan() == []
    assert world.requests.next_due_ms(world.now) == LOCK_MS / 2
    world.now = LOCK_MS / 2
    (order,) = world.plan()
    world.answer(order)
    assert world.state_of(second) != ACQUIRED


def test_renewals_go_alone_in_the_version_that_knows_them():
    world = World(A)
    held, *_ = world.fetched()
    world.flight.acknowledge(held, RENEW)
    orders = world.plan(10)
    assert [type(order.request) for order in orders] == [ShareAcknowledgeRequest], "the fetch waits for its answer"
    assert orders[0].version == 2
    world.now = 100.0
    world.answer(orders[0])
    assert held.state is State.DELIVERED
    assert held.locked_until_ms == 100.0 + LOCK_MS


def test_acknowledgements_of_a_partition_that_is_not_ours_any_more_go_alone():
    world = World(A, C)
    held = {each.name: each for each in world.fetched()}
    world.requests.assigned = frozenset({A})
    world.flight.acknowledge(held[C], ACCEPT)
    (order,) = world.plan(10)
    assert isinstance(order.request, ShareAcknowledgeRequest)
    world.answer(order)
    assert world.state_of(held[C]) == DONE
    (order,) = world.plan(10)
    assert [topic.topic_id for topic in order.request.forgotten_topics_data] == [IDS["b"]]


def test_with_a_limit_of_records_one_broker_is_asked_at_a_time_in_turns():
    world = World(A, B)
    asked = []
    for _ in range(4):
        (order,) = world.plan(1, RECORD_LIMIT)
        assert world.plan(1, RECORD_LIMIT) == []
        asked.append(order.node.id)
        world.answer(order)
    assert asked == [1, 2, 1, 2]
    assert order.version == 2


def test_without_an_answer_the_session_and_its_records_are_lost():
    world = World(A, B)
    held = world.fetched()
    mine = [each for each in held if each.node_id == 1]
    world.flight.acknowledge(mine[0], ACCEPT)
    (order,) = [each for each in world.plan(10) if each.node.id == 1]
    world.brokers[1].drop_session()
    answer = world.requests.failed(order, NotConnected("gone"), world.now)
    assert [type(each.error) for each in answer.outcomes] == [NotConnected]
    with pytest.raises(NotHeld):
        world.flight.acknowledge(mine[1], ACCEPT)
    world.flight.acknowledge(next(each for each in held if each.node_id == 2), ACCEPT)
    world.now = 100.0
    (order,) = [each for each in world.plan(10) if each.node.id == 1]
    assert order.request.share_session_epoch == 0
    assert {each.delivery_count for piece in world.answer(order).pieces for each in piece.acquired.values()} == {2}


def test_a_session_that_the_broker_forgot_is_opened_again_at_once():
    world = World(A)
    world.fetched()
    world.brokers[1].drop_session()
    (order,) = world.plan(10)
    answer = world.answer(order)
    assert (answer.errors, answer.pieces) == ([], [])
    (order,) = world.plan(10)
    assert order.request.share_session_epoch == 0


def test_what_waiting_does_not_mend_is_an_error_for_the_application():
    world = World(A)
    (order,) = world.plan(10)
    refused = ShareFetchResponse(
        error_code=GroupAuthorizationFailed.code, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[]
    )
    (error,) = world.requests.answered(order, refused, 0.0).errors
    assert isinstance(error, GroupAuthorizationFailed)
    assert world.plan(10) == [], "not at once again"


def test_the_last_request_closes_the_session_and_the_rest_is_released():
    world = World(A)
    first, *rest = world.fetched()
    world.flight.acknowledge(first, ACCEPT)
    (order,) = world.requests.goodbyes(0.0)
    assert order.request.share_session_epoch == -1
    answer = world.answer(order)
    assert [(each.held, each.error) for each in answer.outcomes] == [(first, None)]
    assert world.state_of(first) == DONE
    assert all(each.state is State.GONE for each in rest)
    assert len(world.flight) == 0


@given(data=st.data())
def test_every_record_is_accepted_once_whatever_is_lost_on_the_way(data):
    """Answers are lost before or after the broker worked on the request, acknowledgements are chosen by chance,
    partitions come and go; in the end, when nothing is lost any more, every record was accepted, and none twice."""
    world = World(A, B, C)
    accepted = set()
    mine = []
    for _ in range(data.draw(st.integers(1, 12))):
        world.now += data.draw(st.sampled_from([0.0, 120.0, 600.0]))
        world.requests.assigned = frozenset(data.draw(st.sets(st.sampled_from([A, B, C]))))
        for held in mine:
            ack = data.draw(st.sampled_from([None, *AcknowledgeType]))
            if ack is not None and held.state in (State.DELIVERED, State.ACKNOWLEDGED):
                world.flight.acknowledge(held, ack)
        for order in world.plan(data.draw(st.integers(0, 3)), send_acks=data.draw(st.booleans())):
            mine += carried_out(
                world, order, data.draw(st.sampled_from(["fine", "fine", "lost", "unanswered"])), accepted
            )
    finish(world, mine, accepted)
    states = [
        state for broker in world.brokers.values() for each in broker.partitions.values() for state in each.states
    ]
    assert set(states) == {DONE}


def carried_out(world, order, how, accepted):
    broker = world.brokers[order.node.id]
    if how == "fine":
        answer = world.answer(order)
    else:
        if how == "unanswered":
            broker.answer(order.request)
        broker.drop_session()
        answer = world.requests.failed(order, NotConnected("gone"), world.now)
    for held, ack, error in answer.outcomes:
        if error is None and ack in (ACCEPT, REJECT):
            key = held.name, held.offset
            assert key not in accepted
            accepted.add(key)
    found = [held for piece in answer.pieces for held in piece.acquired.values()]
    return [held for held in found if world.flight.deliver(held, world.now)]


def finish(world, mine, accepted):
    world.requests.assigned = frozenset({A, B, C})
    for _ in range(12):
        world.now += 200.0
        for held in mine:
            if held.state in (State.DELIVERED, State.ACKNOWLEDGED):
                world.flight.acknowledge(held, ACCEPT)
        for order in world.plan(10, send_acks=True):
            mine += carried_out(world, order, "fine", accepted)


def test_a_lost_session_is_an_outcome_for_every_acknowledgement_of_it():
    world = World(A)
    held = world.fetched()
    for each in held:
        world.flight.acknowledge(each, ACCEPT)
    world.brokers[1].drop_session()
    (order,) = world.plan(send_acks=True)
    outcomes = world.answer(order).outcomes
    assert [each.held for each in outcomes] == held
    assert {type(each.error) for each in outcomes} == {ShareSessionNotFound}
