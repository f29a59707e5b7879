"""Share groups end to end at one broker: join, fetch, acknowledge, and what becomes of records nobody acknowledges."""

from __future__ import annotations

import logging

import pytest
from tests.unit.broker.sharing.share_member import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    acquired,
    later,
    set_group,
    values,
)

from ottla.broker.coordinators.groups.share.partitions import SharedTopic
from ottla.errors import (
    CoordinatorNotAvailable,
    FencedStateEpoch,
    InvalidRecordState,
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

LOCK_MS = 30_000


class SimpleConnection:
    """As much of a connection as a session needs; it ends with `left`."""

    is_gone = False

    def __init__(self, left):
        self.left = lambda: left


@pytest.fixture
def orders(make_broker, batch):
    """A broker with five records in `orders`, of a group that begins with the first one."""
    broker = make_broker(**{"share.coordinator.state.topic.num.partitions": "3"})
    broker.topic_id = broker.create_topic("orders")
    set_group(broker, share_auto_offset_reset="earliest")
    broker.produce("orders", batch("a", "b", "c", "d", "e"))
    return broker


def test_a_member_gets_every_record_once_and_what_it_accepts_is_done(orders):
    member = Member(orders).join("orders")
    found = member.fetch_one()
    assert (values(found), acquired(found)) == (["a", "b", "c", "d", "e"], [(0, 4, 1)])
    assert member.acknowledge(orders.topic_id, (0, 4, [ACCEPT])) == 0
    assert not member.fetch().responses
    later(orders, 2 * LOCK_MS)
    assert not member.fetch().responses


def test_the_first_answer_of_a_new_group_names_its_partitions(orders):
    member = Member(orders)
    orders.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[member.group_id]))
    assert member.heartbeat(["orders"]).member_epoch == 2
    assert member.assigned == {orders.topic_id: [0]}
    assert member.heartbeat().assignment is None


def test_records_go_to_one_member_at_a_time_and_the_next_one_gets_what_was_released(orders):
    first, second = Member(orders, 1).join("orders"), Member(orders, 2).join("orders")
    assert acquired(first.fetch_one()) == [(0, 4, 1)]
    assert acquired(second.fetch_one()) == []
    assert first.acknowledge(orders.topic_id, (0, 4, [ACCEPT, RELEASE, REJECT, RELEASE, GAP])) == 0
    found = second.fetch_one()
    assert (values(found), acquired(found)) == (["b", "d"], [(1, 1, 2), (3, 3, 2)])


def test_a_lock_that_ends_makes_the_record_available_and_counts(orders):
    member = Member(orders).join("orders")
    for count in range(1, 6):
        assert acquired(member.fetch_one()) == [(0, 4, count)]
        later(orders, LOCK_MS + 10)
    assert acquired(member.fetch_one()) == [], "five deliveries are the limit"


def test_a_renewed_lock_lasts_and_needs_a_request_that_says_so(orders):
    member = Member(orders).join("orders")
    assert acquired(member.fetch_one()) == [(0, 4, 1)]
    later(orders, LOCK_MS - 1000)
    assert member.acknowledge(orders.topic_id, (0, 1, [RENEW])) == InvalidRequest.code
    assert member.acknowledge(orders.topic_id, (0, 1, [RENEW]), is_renew_ack=True) == 0
    later(orders, 2000)
    assert acquired(member.fetch_one()) == [(2, 4, 2)]
    later(orders, LOCK_MS)
    assert acquired(member.fetch_one())[0] == (0, 1, 2)


def test_nobody_acknowledges_what_is_not_his(orders):
    first, second = Member(orders, 1).join("orders"), Member(orders, 2).join("orders")
    assert acquired(first.fetch_one()) == [(0, 4, 1)]
    second.fetch_one()
    assert second.acknowledge(orders.topic_id, (0, 0, [ACCEPT])) == InvalidRecordState.code
    assert first.acknowledge(orders.topic_id, (0, 7, [ACCEPT])) == InvalidRequest.code, "nobody got 5"
    assert first.acknowledge(orders.topic_id, (0, 1, [ACCEPT]), (1, 2, [ACCEPT])) == InvalidRecordState.code
    assert first.acknowledge(orders.topic_id, (0, 0, [ACCEPT])) == 0
    assert first.acknowledge(orders.topic_id, (0, 1, [ACCEPT])) == 0, "what is before the start is done"
    assert first.acknowledge(orders.topic_id, (4, 4, [ACCEPT]), (3, 3, [ACCEPT])) == InvalidRequest.code
    assert first.acknowledge(orders.topic_id, (2, 4, [ACCEPT, ACCEPT])) == InvalidRequest.code


def test_a_session_has_epochs_and_its_end_releases(orders):
    member = Member(orders).join("orders")
    assert member.acknowledge(orders.topic_id, (0, 0, [ACCEPT])) == InvalidShareSessionEpoch.code
    member.session_epoch = 7
    assert member.acknowledge(orders.topic_id, (0, 0, [ACCEPT])) == ShareSessionNotFound.code
    member.session_epoch = 0
    assert acquired(member.fetch_one()) == [(0, 4, 1)]
    assert member.fetch(share_session_epoch=9).error_code == InvalidShareSessionEpoch.code
    member.session_epoch = 1
    assert member.acknowledge(orders.topic_id, (0, 1, [ACCEPT]), is_end=True) == 0
    assert acquired(Member(orders, 2).join("orders").fetch_one()) == [(2, 4, 2)]


def test_a_session_ends_with_its_connection(orders):
    left = orders.loop.create_future()
    member = Member(orders, connection=SimpleConnection(left)).join("orders")
    assert acquired(member.fetch_one()) == [(0, 4, 1)]
    orders.do(lambda: left.set_result(None))
    assert len(orders.broker.sharing.sessions) == 0
    assert acquired(Member(orders, 2).join("orders").fetch_one()) == [(0, 4, 2)]


def test_acknowledgements_travel_with_a_fetch_but_not_with_the_first(orders):
    member = Member(orders).join("orders")
    place = (orders.topic_id, 0)
    assert member.fetch(said={place: [(0, 0, [ACCEPT])]}).error_code == InvalidRequest.code
    member.session_epoch = 0
    assert acquired(member.fetch_one()) == [(0, 4, 1)]
    found = member.fetch_one(said={place: [(0, 3, [ACCEPT]), (4, 4, [RELEASE])]})
    assert (found.acknowledge_error_code, acquired(found)) == (0, [(4, 4, 2)])


def test_max_records_is_exact_only_where_that_is_asked_for(orders, batch):
    orders.produce("orders", batch("f", "g"))
    member = Member(orders).join("orders")
    assert acquired(member.fetch_one(max_records=2, share_acquire_mode=1)) == [(0, 1, 1)]
    assert acquired(member.fetch_one(max_records=1)) == [(2, 4, 1)]
    assert acquired(member.fetch_one()) == [(5, 6, 1)]


def test_no_more_sessions_than_the_broker_allows(make_broker, batch):
    broker = make_broker(**{"share.coordinator.state.topic.num.partitions": "1", "group.share.max.share.sessions": "1"})
    broker.create_topic("orders")
    assert Member(broker, 1).join("orders").fetch().error_code == 0
    assert Member(broker, 2).join("orders").fetch().error_code == ShareSessionLimitReached.code


def test_a_restart_keeps_what_was_acknowledged_and_the_counts(orders, batch):
    member = Member(orders).join("orders")
    assert acquired(member.fetch_one()) == [(0, 4, 1)]
    assert member.acknowledge(orders.topic_id, (0, 0, [RELEASE]), (1, 3, [ACCEPT])) == 0
    orders.restart()
    member.session_epoch = 0
    assert acquired(member.fetch_one()) == [(0, 0, 2), (4, 4, 1)]


def test_where_a_group_begins_is_kept_before_anything_is_delivered(make_broker, batch):
    broker = make_broker(**{"share.coordinator.state.topic.num.partitions": "1"})
    broker.create_topic("orders")
    broker.produce("orders", batch("old"))
    member = Member(broker).join("orders")
    assert acquired(member.fetch_one()) == []
    broker.restart()
    broker.produce("orders", batch("new"))
    member.session_epoch = 0
    assert values(member.fetch_one()) == ["new"]


def test_an_aborted_transaction_is_seen_only_by_those_who_read_everything(orders, batch):
    from tests.unit.broker.sharing.transactions import abort, begin

    producer = begin(orders, "orders")
    orders.produce(
        "orders",
        batch("x", "y", producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=0, transactional=True),
        transactional_id=producer.name,
    )
    set_group(orders, share_isolation_level="read_committed")
    member = Member(orders).join("orders")
    assert values(member.fetch_one()) == ["a", "b", "c", "d", "e"]
    assert not member.fetch().responses
    abort(orders, producer)
    orders.produce("orders", batch("f"))
    found = member.fetch_one()
    assert values(found) == ["f"]
    assert acquired(found) == [(7, 8, 1)], "the marker at 7 is acquired, and left out by clients"


def test_a_topic_that_a_member_unsubscribed_from_goes_with_that_heartbeat(orders, batch):
    payments = orders.create_topic("payments")
    member = Member(orders).join("orders", "payments")
    later(orders, 10_000)
    member.heartbeat()
    assert member.assigned == {orders.topic_id: [0], payments: [0]}
    Member(orders, 2).join("orders")  # the target was just made: the next one waits for its interval
    assert member.heartbeat(["payments"]).error_code == 0
    assert member.assigned == {payments: [0]}


def test_max_bytes_of_zero_asks_for_nothing(orders):
    member = Member(orders).join("orders")
    assert acquired(member.fetch_one(max_bytes=0)) == []
    assert acquired(member.fetch_one()) == [(0, 4, 1)]


def test_max_bytes_is_divided_over_the_partitions_that_have_something(make_broker, batch):
    broker = make_broker(**{"share.coordinator.state.topic.num.partitions": "3"})
    broker.topic_id = broker.create_topic("orders", partitions=3)
    set_group(broker, share_auto_offset_reset="earliest")
    small = batch("x")
    for partition in range(3):
        for _ in range(6):
            broker.produce("orders", batch("x"), partition=partition)
    member = Member(broker).join("orders")
    found = {
        each.partition_index: acquired(each)
        for topic in member.fetch(max_bytes=6 * len(small)).responses
        for each in topic.partitions
    }
    assert found == {0: [(0, 1, 1)], 1: [(0, 1, 1)], 2: [(0, 1, 1)]}


def test_only_the_first_partition_answers_with_a_batch_that_is_too_large(make_broker, batch):
    broker = make_broker(**{"share.coordinator.state.topic.num.partitions": "3"})
    broker.topic_id = broker.create_topic("orders", partitions=2)
    set_group(broker, share_auto_offset_reset="earliest")
    for partition in range(2):
        broker.produce("orders", batch("x" * 1000), partition=partition)
    member = Member(broker).join("orders")
    answered = [
        each for topic in member.fetch(max_bytes=100).responses for each in topic.partitions if each.acquired_records
    ]
    assert len(answered) == 1
    assert acquired(member.fetch_one(max_bytes=100)) == [(0, 0, 1)], "the other one, with the next fetch"


def test_initializations_that_cross_are_no_warning(orders, caplog):
    Member(orders).join("orders")
    group = orders.broker.groups.share_group("workers")
    topics = {orders.topic_id: SharedTopic("orders", frozenset([0]))}
    index = orders.broker.groups.partition_of("workers")
    late = FencedStateEpoch("the state epoch is 2, not 1")

    def initialized(error):
        orders.do(
            lambda: orders.broker.groups.runtime.notify(
                index, lambda shard, now_ms: shard.shares.initialized(group.group_id, topics, error, now_ms)
            )
        )

    initialized(late)
    initialized(CoordinatorNotAvailable("it is begun all the same"))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    group.partitions = group.partitions.without([orders.topic_id])
    initialized(CoordinatorNotAvailable("nobody there"))
    assert "could not be initialized" in caplog.text
