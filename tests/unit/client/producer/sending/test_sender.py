"""Plans of the sender, and what answers do to batches: decisions compared as values, no socket, no sleep."""

import importlib.util
import sys
from pathlib import Path

import pytest

from ottla.client.producer.batches.waiting import time_out_explained
from ottla.client.producer.sending.sender import (
    OTHERS_WAIT_MS,
    Ask,
    Connect,
    Fail,
    RefreshMetadata,
    Send,
    WakeAt,
)
from ottla.client.producer.transactions.states import TransactionAborted
from ottla.client.producer.values import DeliveryTimedOut
from ottla.errors import KafkaStorageError, MessageTooLarge, OttlaError, TopicAuthorizationFailed
from ottla.values import TopicPartition

_spec = importlib.util.spec_from_file_location("producing", Path(__file__).parents[1] / "producing.py")
producing = importlib.util.module_from_spec(_spec)
sys.modules["producing"] = producing
_spec.loader.exec_module(producing)
World = producing.World


@pytest.fixture
def world():
    made = World()
    made.turn()  # the identity
    return made


def kinds(decisions):
    return [type(decision) for decision in decisions]


def test_the_identity_is_asked_for_first():
    made = World()
    assert kinds(made.turn()) == [Ask]
    assert made.manager.has_identity


def test_a_batch_lingers_before_it_is_sent(world):
    world.send(b"a")
    assert world.turn() == [WakeAt(5.0)]
    world.now_ms = 5
    assert kinds(world.turn()) == [Send, WakeAt]


def test_a_full_batch_is_sent_before_linger_is_over(world):
    for _ in range(3):
        world.send(b"x" * 60)
    world.turn()
    (send,) = world.sent()
    assert [batch.record_count for batch in send.batches] == [2]
    assert world.wake_ms == 5.0, "the second batch still lingers"


def test_a_flush_hurries_everybody(world):
    world.send(b"a")
    world.accumulator.change_flushing(1)
    assert kinds(world.turn())[0] is Send


def test_a_caller_who_waits_for_memory_hurries_everybody():
    world = World(memory_bytes=200)
    world.turn()
    world.send(b"a")
    assert not world.send(b"b", partition=1).is_granted
    assert kinds(world.turn())[0] is Send


def test_partitions_of_one_leader_share_a_request_and_take_turns_at_its_head():
    world = World(partitions=6, request_limit_bytes=200, linger_ms=0)
    world.turn()
    for partition in (0, 2, 4):
        world.send(b"x" * 20, partition)
    world.turn()
    firsts = [send.batches[0].queue.name.partition for send in world.sent()]
    sizes = [len(send.batches) for send in world.sent()]
    assert sum(sizes) == 3
    assert len(firsts) == 2
    assert firsts[0] != firsts[1]


def test_a_leader_without_connection_is_connected_to(world):
    world.network.closed.add(1)
    world.send(b"a")
    world.now_ms = 5
    assert Connect(producing.NODES[0]) in world.turn()


def test_without_a_leader_the_metadata_is_asked_for(world):
    world.metadata.leaderless.add(0)
    world.send(b"a")
    world.now_ms = 5
    assert RefreshMetadata() in world.turn()


def prove(world):
    """Let the broker take a first batch, so that others may follow without waiting for each other."""
    world.send(b"first")
    world.now_ms = 5
    world.turn()
    world.answer()


def test_the_first_batch_of_an_identity_goes_alone(world):
    """Else: batch 1 refused for a while, batch 2 taken with any number, batch 1 out of order for ever."""
    for _ in range(6):
        world.send(b"x" * 60)
    world.now_ms = 10
    world.turn()
    assert [len(send.batches) for send in world.sent()] == [1]
    world.answer(bend="not leader")
    assert world.turn() != []
    world.metadata.version += 1
    world.turn()
    assert len(world.sent()) == 1
    world.answer()
    world.turn()
    assert len(world.sent()) == 2


def test_no_more_requests_than_may_be_in_flight_and_then_it_is_saturated(world):
    prove(world)
    for _ in range(40):
        world.send(b"x" * 60)
    world.now_ms = 10
    world.turn()
    assert len(world.sent()) == 5
    assert world.sender.is_saturated
    assert world.turn()[-1] == WakeAt(1005.0), "nothing to do before an answer, or the end of time"
    world.answer()
    world.turn()
    assert len(world.sent()) == 1


def test_one_in_flight_mutes_the_partition_until_the_answer():
    world = World(in_flight_limit=1, idempotent=False)
    for _ in range(4):
        world.send(b"x" * 60)
    world.now_ms = 10
    world.turn()
    assert len(world.sent()) == 1
    world.network.limit = 99
    world.turn()
    assert world.sent() == []
    world.answer()
    world.turn()
    assert len(world.sent()) == 1


def test_a_request_of_somebody_else_that_takes_the_only_place_is_waited_for():
    """Metadata, metrics and logins share the connection, and nobody tells the sender of their answers."""
    world = World(in_flight_limit=1, idempotent=False)
    others = world.network.requests[1]
    others.append("a question of the metadata")
    world.send(b"x" * 60)
    world.now_ms = 10
    assert world.turn()[-1] == WakeAt(10 + OTHERS_WAIT_MS)
    assert world.sent() == []
    others.clear()
    world.now_ms = 10 + OTHERS_WAIT_MS
    world.turn()
    assert len(world.sent()) == 1


def test_an_empty_batch_is_never_sent_and_not_kept(world):
    world.accumulator.make_room(world.state, 0, 100, 0.0)
    assert world.turn() == [WakeAt(5.0)]
    world.now_ms = 5
    assert world.turn() == []
    assert world.accumulator.pool.available_bytes == 100_000
    assert not world.accumulator.busy
    assert world.send(b"a")


def test_a_delivered_batch_tells_its_futures_and_gives_its_memory_back(world):
    futures = [world.send(b"%d" % number) for number in range(3)]
    world.now_ms = 5
    world.turn()
    world.answer()
    assert [future.result(0).offset for future in futures] == [0, 1, 2]
    assert world.accumulator.pool.available_bytes == 100_000
    assert not world.accumulator.incomplete
    assert not world.sender.in_flight


def test_a_batch_that_failed_for_a_while_is_tried_again_after_a_wait(world):
    future = world.send(b"a")
    world.now_ms = 5
    world.turn()
    world.answer(bend="hang up before")
    assert not future.done()
    world.turn()
    assert world.sent() == []
    assert world.wake_ms is not None
    world.now_ms = world.wake_ms
    world.turn()
    world.answer()
    assert future.result(0).offset == 0


def test_a_new_leader_is_tried_without_the_wait(world):
    world.send(b"a")
    world.now_ms = 5
    world.turn()
    world.answer(bend="not leader")
    world.metadata.version += 1
    world.turn()
    assert len(world.sent()) == 1
    assert world.metadata.updates_wanted > 0


def test_an_error_for_good_fails_the_records_and_flush_will_say_so(world):
    future = world.send(b"a")
    world.now_ms = 5
    world.turn()
    send = world.network.requests[1].pop(0)
    word = producing.PartitionProduceResponse(index=0, error_code=29, base_offset=-1, error_message="no")
    topic = producing.TopicProduceResponse(name="t", partition_responses=[word])
    world.outcomes.answered(send, producing.ProduceResponse(responses=[topic]), 6, {})
    failed = world.failures.take()
    assert failed.count == 1
    assert failed.records[0].value == b"a"
    with pytest.raises(TopicAuthorizationFailed):
        future.result(0)
    assert world.failures.take() is None


def answer_with(world, error_code):
    send = world.network.requests[1].pop(0)
    word = producing.PartitionProduceResponse(index=0, error_code=error_code, base_offset=0, error_message="disk full")
    topic = producing.TopicProduceResponse(name="t", partition_responses=[word])
    world.outcomes.answered(send, producing.ProduceResponse(responses=[topic]), world.now_ms, {})


def test_records_that_run_out_of_time_say_what_the_broker_answered_last(world):
    future = world.send(b"a")
    world.now_ms = 5
    world.turn()
    answer_with(world, KafkaStorageError.code)
    assert isinstance(world.accumulator.why_not_delivered(), KafkaStorageError)
    why = world.accumulator.why_not_delivered
    with pytest.raises(TimeoutError, match=r"late.*ended with .*disk full") as caught, time_out_explained(why):
        raise TimeoutError("late")
    assert isinstance(caught.value.__cause__, KafkaStorageError)
    world.now_ms = 2000
    world.turn()
    with pytest.raises(DeliveryTimedOut, match=r"the last try ended with .*disk full"):
        future.result(0)


def test_what_a_broker_answered_is_forgotten_when_it_takes_the_records(world):
    world.send(b"a")
    world.now_ms = 5
    world.turn()
    answer_with(world, KafkaStorageError.code)
    world.now_ms = 500
    world.turn()
    answer_with(world, 0)
    world.send(b"b")
    assert world.accumulator.why_not_delivered() is None


def test_what_a_future_told_is_not_told_again(world):
    told, untold = world.send(b"a"), world.send(b"b")
    world.now_ms = 2000
    world.turn()
    with pytest.raises(DeliveryTimedOut):
        told.result(0)
    failed = world.failures.take()
    assert (failed.count, [record.value for record in failed.records]) == (1, [b"b"])
    assert untold.done()


def test_a_batch_in_flight_expires_once_and_a_late_answer_changes_nothing(world):
    future = world.send(b"a")
    world.now_ms = 5
    world.turn()
    world.now_ms = 1000
    assert any(isinstance(each, Fail) and each.is_unknown for each in world.turn())
    with pytest.raises(DeliveryTimedOut):
        future.result(0)
    assert world.accumulator.pool.available_bytes < 100_000, "a request still refers to its memory"
    world.answer()
    assert world.accumulator.pool.available_bytes == 100_000
    with pytest.raises(DeliveryTimedOut):
        future.result(0)


def test_a_batch_that_is_too_large_is_split_in_order_with_its_numbers(world):
    world.logs[0].size_limit_bytes = 120
    futures = [world.send(b"%02d" % number + b"x" * 20) for number in range(4)]
    world.now_ms = 5
    for _ in range(6):
        world.turn()
        while world.network.requests[1]:
            world.answer()
        world.now_ms += 300
    assert [future.result(0).offset for future in futures] == [0, 1, 2, 3]
    assert [value[:2] for value in world.logs[0].values] == [b"00", b"01", b"02", b"03"]


def test_a_single_record_that_is_too_large_fails():
    world = World()
    world.turn()
    future = world.send(b"x")
    world.now_ms = 5
    world.turn()
    send = world.network.requests[1].pop(0)
    word = producing.PartitionProduceResponse(index=0, error_code=10, base_offset=-1)
    topic = producing.TopicProduceResponse(name="t", partition_responses=[word])
    world.outcomes.answered(send, producing.ProduceResponse(responses=[topic]), 6, {})
    with pytest.raises(MessageTooLarge):
        future.result(0)


def test_an_answer_by_topic_id_is_understood_when_the_metadata_has_forgotten_the_topic(world):
    """A broker that was just started knows no topics yet; what it said may come before what another one answers."""
    future = world.send(b"a")
    world.now_ms = 5
    world.turn()
    send = world.network.requests[1].pop(0)
    word = producing.PartitionProduceResponse(index=0, error_code=0, base_offset=7)
    topic = producing.TopicProduceResponse(topic_id=b"i" * 16, partition_responses=[word])
    world.outcomes.answered(send, producing.ProduceResponse(responses=[topic]), 6, {b"i" * 16: "t"})
    assert future.result(0).offset == 7


def test_a_batch_the_broker_did_not_mention_is_not_taken_for_delivered(world):
    future = world.send(b"a")
    world.now_ms = 5
    world.turn()
    send = world.network.requests[1].pop(0)
    world.outcomes.answered(send, producing.ProduceResponse(responses=[]), 6, {})
    with pytest.raises(OttlaError, match="did not mention"):
        future.result(0)


def test_a_request_that_ends_twice_counts_once(world):
    world.send(b"a")
    world.now_ms = 5
    world.turn()
    send = world.network.requests[1][0]
    world.answer()
    world.outcomes.not_answered(send, OttlaError("late"), 7)
    assert world.accumulator.pool.available_bytes == 100_000


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_an_abort_before_anything_was_sent_drops_the_records_and_the_producer_goes_on(transaction_version):
    world = World(transactional_id="t")
    world.manager.set_features(transaction_version)
    outcome = world.manager.initialize()
    world.turn()
    outcome.acknowledge()
    for _ in range(2):
        world.manager.begin()
        world.manager.maybe_add_partition(TopicPartition("t", 0))
        future = world.send(b"given up")
        outcome = world.manager.begin_abort()
        assert kinds(world.turn()) == [Fail]
        assert isinstance(future.exception(0), TransactionAborted)
        assert world.turn() == []
        outcome.acknowledge()


@pytest.mark.parametrize("tries", [0, 1])
def test_a_batch_that_expires_in_the_queue_is_unresolved_if_it_was_sent_before(world, tries):
    """The broker may have written it all the same: its sequence must not be given to another one."""
    world.send(b"a")
    if tries:
        world.now_ms = 5
        world.turn()
        answer_with(world, KafkaStorageError.code)
    world.now_ms = 5_000
    failed = [each for each in world.turn() if isinstance(each, Fail)]
    assert [each.is_unknown for each in failed] == [bool(tries)]
