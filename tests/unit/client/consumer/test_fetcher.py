"""The fetcher's plans, and what answers do: who is asked, how far ahead, and what each error means."""

from __future__ import annotations

from random import Random

import pytest

from ottla.client.consumer.buffer import FetchBuffer
from ottla.client.consumer.fetcher import PORTION_BYTES_MIN, SHORT_WAIT_MS, Fetcher, FetchLimits
from ottla.client.consumer.offset_reset import LATEST, parse_reset
from ottla.client.consumer.subscription import State, Subscription
from ottla.client.metadata import Metadata, bootstrap_nodes
from ottla.errors import NotConnected, OffsetOutOfRange, TopicAuthorizationFailed
from ottla.net.retries import Backoff
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.records import BatchBuilder, assign_offsets
from ottla.values import Address, TopicPartition

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {"a": b"a" * 16, "b": b"b" * 16}
LEADERS = {A: 1, B: 2, C: 1}


def metadata_answer(leaders, ids=IDS, epoch=3):
    topics = []
    for topic in sorted({name.topic for name in leaders}):
        partitions = [
            MetadataResponsePartition(
                error_code=0,
                partition_index=name.partition,
                leader_id=leader,
                leader_epoch=epoch,
                replica_nodes=[1, 2],
                isr_nodes=[1, 2],
                offline_replicas=[],
            )
            for name, leader in leaders.items()
            if name.topic == topic
        ]
        topics.append(
            MetadataResponseTopic(
                error_code=0, name=topic, topic_id=ids[topic], is_internal=False, partitions=partitions
            )
        )
    brokers = [MetadataResponseBroker(node_id=each, host="h", port=9000 + each, rack=None) for each in (1, 2)]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics)


class World:
    def __init__(self, *partitions, reset=LATEST, **limits):
        self.metadata = Metadata(
            bootstrap_nodes([Address("h", 1)]), backoff=Backoff(1, 1, Random(1)), max_age_ms=300_000
        )
        self.metadata.want_only({"a", "b"})
        self.metadata.request(0)
        self.metadata.update(metadata_answer(LEADERS), 0)
        self.subscription = Subscription(reset)
        self.subscription.assign(partitions)
        self.buffer = FetchBuffer()
        self.fetcher = Fetcher(self.subscription, self.buffer, self.metadata, FetchLimits(**limits))
        for name in partitions:
            self.subscription.leader_is(name, 3)
            self.subscription.seek(name, 0)

    def plan(self, now_ms=0.0, reachable=lambda node: True):
        return self.fetcher.plan(now_ms, reachable)

    def one(self, now_ms=0.0):
        (order,) = self.plan(now_ms)
        return order

    def state(self, name):
        return self.subscription.state(name)


def records(base_offset, count=3, size=10):
    builder = BatchBuilder(base_offset=base_offset)
    for _ in range(count):
        builder.append(1, None, b"x" * size)
    data = bytearray(builder.close())
    assign_offsets(data, 0, base_offset, 3)
    return bytes(data)


def answer(order, found, *, session_id=5, nodes=(), error_code=0):
    """`found`: per partition bytes, or fields of PartitionData. A full answer names everything that was asked."""
    wanted = {name: found.get(name, b"") for name in order.turns} if order.request.session_epoch == 0 else found
    topics = []
    for name, each in wanted.items():
        fields = {"records": each} if isinstance(each, bytes) else each
        data = PartitionData(
            **{
                "partition_index": name.partition,
                "error_code": 0,
                "high_watermark": 100,
                "last_stable_offset": 90,
                "log_start_offset": 0,
                "aborted_transactions": None,
                "records": b"",
                **fields,
            }
        )
        topics.append(FetchableTopicResponse(topic_id=order.asked[name].topic_id, partitions=[data]))
    return FetchResponse(responses=topics, session_id=session_id, node_endpoints=list(nodes), error_code=error_code)


def test_every_broker_is_asked_once_for_all_its_partitions():
    world = World(A, B, C)
    orders = {order.node.id: set(order.turns) for order in world.plan()}
    assert orders == {1: {A, C}, 2: {B}}
    assert world.plan() == []


def test_what_comes_is_buffered_and_the_next_fetch_goes_on_behind_it():
    world = World(A)
    order = world.one()
    assert order.request.topics[0].partitions[0].current_leader_epoch == 3
    assert world.fetcher.answered(order, answer(order, {A: records(0)}), 1)
    assert len(world.buffer) == 1
    assert (world.state(A).fetch_offset, world.state(A).position.offset) == (3, 0)
    assert (world.state(A).high_watermark, world.state(A).last_stable_offset) == (100, 90)
    following = world.one()
    assert (following.request.session_id, following.request.session_epoch) == (5, 1)
    assert following.request.topics[0].partitions[0].fetch_offset == 3


def test_an_answer_without_news_says_so():
    world = World(A)
    order = world.one()
    assert not world.fetcher.answered(order, answer(order, {}), 1)
    assert len(world.buffer) == 0


def test_an_answer_from_before_a_seek_is_forgotten():
    world = World(A)
    order = world.one()
    world.subscription.seek(A, 50)
    assert not world.fetcher.answered(order, answer(order, {A: records(0)}), 1)
    assert world.state(A).fetch_offset == 50


def test_an_answer_for_a_partition_that_was_taken_away_is_forgotten():
    world = World(A, C)
    order = world.one()
    world.subscription.set_assignment([C])
    assert not world.fetcher.answered(order, answer(order, {A: records(0)}), 1)


def test_a_partition_whose_buffer_is_full_is_left_out_until_it_is_drained():
    world = World(A, C, partition_max_bytes=100)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: records(0, size=100)}), 1)
    following = world.one()
    assert set(following.turns) == {C}
    assert [topic.topic_id for topic in following.request.forgotten_topics_data] == [IDS["a"]]
    # A can be drained any moment, and nothing else can be asked of the broker while it waits for C.
    assert following.request.max_wait_ms == SHORT_WAIT_MS
    world.fetcher.answered(following, answer(following, {}), 2)
    world.buffer.remove_first()
    assert set(world.one().turns) == {A, C}


def test_with_a_thread_for_the_loop_a_second_portion_is_fetched_while_the_first_is_used():
    world = World(A, C, partition_max_bytes=100, portions_ahead=2)
    for number in range(2):
        order = world.one()
        assert A in order.turns
        world.fetcher.answered(order, answer(order, {A: records(3 * number)}), 1)
    assert set(world.one().turns) == {C}


def test_a_broker_that_has_nothing_is_asked_more_and_more_patiently():
    world = World(A, C, partition_max_bytes=100)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: records(0, size=100)}), 1)
    waits = []
    for _ in range(9):
        order = world.one()
        waits.append(order.request.max_wait_ms)
        world.fetcher.answered(order, answer(order, {}), 1)
    assert waits == [5, 10, 20, 40, 80, 160, 320, 500, 500]


def test_no_more_is_asked_for_than_there_is_room():
    world = World(A, B, C, partition_max_bytes=1000, queued_max_bytes=2000)
    first, *others = world.plan()
    assert world.fetcher.reserved_bytes <= 2000
    assert sum(order.request.max_bytes for order in (first, *others)) >= 2000
    world = World(A, C, partition_max_bytes=10_000, queued_max_bytes=1000)
    order = world.one()
    assert order.request.max_bytes == 1000
    world.fetcher.answered(order, answer(order, {A: records(0, size=300)}), 1)
    assert world.plan() == []  # a quarter of the room is not free
    world.buffer.remove_first()
    assert len(world.plan()) == 1


def test_what_is_paused_does_not_take_the_room_of_the_others():
    world = World(A, C, queued_max_bytes=1000)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: records(0, size=300)}), 1)
    assert world.plan() == []
    world.subscription.pause([A])
    world.buffer.pause([A])
    assert set(world.one().turns) == {C}


def test_a_batch_above_every_limit_is_still_asked_for():
    world = World(A, queued_max_bytes=1, partition_max_bytes=0, max_bytes=0)
    order = world.one()
    assert order.request.max_bytes == 1
    world.fetcher.answered(order, answer(order, {A: records(0, size=5000)}), 1)
    assert world.buffer.size_bytes > 5000
    assert world.plan() == []


def test_far_brokers_are_asked_for_more_at_a_time():
    world = World(A, partition_max_bytes=1 << 30)
    size = PORTION_BYTES_MIN - 100
    for took_ms, expected in ((50, 2), (50, 2), (1, 2)):
        order = world.one()
        full = records(world.state(A).fetch_offset, 1, min(size, order.request.max_bytes))
        world.fetcher.answered(order, answer(order, {A: full}), took_ms)
        assert world.fetcher._portions.get(1, PORTION_BYTES_MIN) == expected * PORTION_BYTES_MIN
        world.buffer.clear()


def test_a_cut_off_batch_is_not_buffered():
    world = World(A)
    order = world.one()
    assert not world.fetcher.answered(order, answer(order, {A: records(0)[:-1]}), 1)
    assert (world.state(A).fetch_offset, len(world.buffer)) == (0, 0)


def test_paused_partitions_are_not_asked_for():
    world = World(A, C)
    world.subscription.pause([A])
    assert set(world.one().turns) == {C}


def test_without_a_leader_metadata_is_asked_for():
    world = World(TopicPartition("a", 9))
    assert world.plan() == []
    assert world.fetcher.needs_metadata


def test_brokers_that_cannot_be_reached_are_left_alone():
    world = World(A, B)
    assert [order.node.id for order in world.plan(reachable=lambda node: node.id == 2)] == [2]
    assert world.fetcher.next_retry_ms(0) == 100
    assert [order.node.id for order in world.plan(100)] == [1]


def test_a_fetch_that_failed_is_tried_again_after_a_while_with_a_full_request():
    world = World(A)
    order = world.one()
    world.fetcher.failed(order, NotConnected("gone"), 10)
    assert world.plan(10) == []
    assert world.fetcher.next_retry_ms(10) == 110
    again = world.one(110)
    assert again.request.session_epoch == 0
    assert world.fetcher.needs_metadata


@pytest.mark.parametrize("code", [3, 6, 9, 56, 74, 78, 100, 103])
def test_an_error_of_leadership_asks_for_metadata_and_a_little_time(code):
    world = World(A)
    order = world.one()
    assert not world.fetcher.answered(order, answer(order, {A: {"error_code": code}}), 10)
    assert world.fetcher.needs_metadata
    assert world.plan(10) == []
    assert len(world.plan(110)) == 1


def test_an_unknown_leader_epoch_is_tried_again_without_metadata():
    world = World(A)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: {"error_code": 75}}), 10)
    assert not world.fetcher.needs_metadata
    assert len(world.plan(110)) == 1


def test_a_leader_named_in_the_answer_is_asked_at_once():
    world = World(A)
    order = world.one()
    moved = {"error_code": 6, "current_leader": LeaderIdAndEpoch(leader_id=2, leader_epoch=4)}
    node = NodeEndpoint(node_id=2, host="new", port=1)
    world.fetcher.answered(order, answer(order, {A: moved}, nodes=[node]), 10)
    again = world.one(10)
    assert (again.node.id, again.node.host) == (2, "new")


def test_an_offset_out_of_range_begins_anew_where_the_policy_says():
    world = World(A)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: {"error_code": 1}}), 10)
    assert world.state(A).state is State.AWAIT_RESET
    assert world.state(A).reset == LATEST


def test_an_offset_out_of_range_waits_for_what_was_fetched_before_it():
    world = World(A)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: records(0)}), 1)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: {"error_code": 1}}), 2)
    assert world.state(A).is_fetchable
    world.buffer.remove_first()
    piece = world.buffer.first()
    assert isinstance(piece.error, OffsetOutOfRange)
    assert piece.offset == 3
    assert world.plan(1000) == []  # nothing is fetched behind an error


def test_an_offset_out_of_range_is_the_users_without_a_policy():
    world = World(A, reset=parse_reset("none"))
    order = world.one()
    assert world.fetcher.answered(order, answer(order, {A: {"error_code": 1}}), 10)
    assert isinstance(world.buffer.first().error, OffsetOutOfRange)
    assert "a-0 at offset 0" in str(world.buffer.first().error)


def test_refused_access_stands_in_the_line():
    world = World(A)
    order = world.one()
    assert world.fetcher.answered(order, answer(order, {A: {"error_code": 29}}), 10)
    assert isinstance(world.buffer.first().error, TopicAuthorizationFailed)


def test_a_recommended_replica_is_asked_for_a_while():
    world = World(A, preferred_for_ms=1000)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: {"preferred_read_replica": 2}}), 10)
    order = world.one(20)
    assert order.node.id == 2
    # What it says about offsets is not the last word: it may lag behind the leader.
    world.fetcher.answered(order, answer(order, {A: {"error_code": 1}}, session_id=9), 30)
    assert world.state(A).is_fetchable
    assert world.one(30).node.id == 1


def test_a_recommendation_ends_with_its_time_or_with_a_failure():
    world = World(A, preferred_for_ms=1000)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: {"preferred_read_replica": 2}}), 10)
    assert world.one(1010).node.id == 1
    world = World(A)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: {"preferred_read_replica": 2}}), 10)
    world.fetcher.failed(world.one(20), NotConnected("gone"), 20)
    assert world.one(120).node.id == 1


def test_a_broker_that_is_not_known_is_not_a_recommendation():
    world = World(A)
    order = world.one()
    world.fetcher.answered(order, answer(order, {A: {"preferred_read_replica": 77}}), 10)
    assert world.one(20).node.id == 1


def test_topics_without_ids_are_asked_for_by_name():
    world = World(A)
    world.metadata.request(1)
    world.metadata.update(metadata_answer(LEADERS, ids={"a": bytes(16), "b": bytes(16)}), 1)
    order = world.one()
    assert order.at_most == 12
    assert order.request.topics[0].topic == "a"


def test_a_session_that_was_lost_is_opened_again():
    world = World(A)
    order = world.one()
    world.fetcher.answered(order, answer(order, {}), 1)
    order = world.one()
    assert order.request.session_epoch == 1
    assert not world.fetcher.answered(order, FetchResponse(responses=[], error_code=70), 2)
    assert world.one().request.session_epoch == 0


def test_an_answer_that_is_an_error_as_a_whole_is_not_asked_for_again_at_once():
    world = World(A, retry_ms=100)
    order = world.one()
    assert not world.fetcher.answered(order, FetchResponse(responses=[], error_code=-1), 2)
    assert world.plan(50) == []
    assert world.one(102).request.session_epoch == 0


def test_goodbyes_name_the_sessions_once():
    world = World(A)
    order = world.one()
    world.fetcher.answered(order, answer(order, {}), 1)
    ((node_id, request, at_most),) = world.fetcher.goodbyes()
    assert (node_id, request.session_id, request.session_epoch, request.max_wait_ms, at_most) == (1, 5, -1, 0, None)
    assert world.fetcher.goodbyes() == []


def test_read_committed_takes_the_aborted_list_of_each_answer():
    from ottla.protocol.messages.fetch import AbortedTransaction
    from ottla.records.control import EndTransactionMarker, end_transaction_batch

    world = World(A, isolation=1)
    order = world.one()
    assert order.request.isolation_level == 1
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    builder.append(1, None, b"aborted")
    marker = end_transaction_batch(
        EndTransactionMarker(False, 0), producer_id=7, producer_epoch=0, timestamp_ms=1, base_offset=1
    )
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    data = {"records": bytes(builder.close()) + marker + records(2), "aborted_transactions": aborted}
    world.fetcher.answered(order, answer(order, {A: data}), 1)
    assert [record.offset for record in world.buffer.first().records.take(9)] == [2, 3, 4]


def test_a_partition_that_was_just_placed_does_not_wait_behind_a_fetch_that_waits():
    world = World(A, C)
    waiting = world.one()
    world.subscription.seek(A, 50)
    express = world.one()
    assert express.express
    assert set(express.turns) == {A}
    assert (express.request.session_id, express.request.session_epoch, express.request.max_wait_ms) == (0, -1, 0)
    assert world.plan() == []
    assert world.fetcher.answered(express, answer(express, {A: records(50)}, session_id=0), 1)
    assert world.state(A).fetch_offset == 53
    assert world.plan() == []  # once per turn; then it goes with the others
    assert not world.fetcher.answered(waiting, answer(waiting, {A: records(0)}), 2)
    following = world.one()
    assert (set(following.turns), following.express) == ({A, C}, False)


def test_an_express_fetch_that_fails_leaves_the_session_alone():
    world = World(A, C)
    order = world.one()
    world.fetcher.answered(order, answer(order, {}), 1)
    order = world.one()
    world.subscription.seek(A, 50)
    world.fetcher.failed(world.one(), NotConnected("gone"), 1)
    world.fetcher.answered(order, answer(order, {}), 2)
    assert world.one(200).request.session_epoch == 2
