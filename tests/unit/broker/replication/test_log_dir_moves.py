"""AlterReplicaLogDirs moves replicas between directories: while they are written, throttled, and when disks fail."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.broker.replication import log_dir_moves
from ottla.errors import name_of_code
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.values import ZERO_UUID, TopicPartition

RECORDS = 30


@pytest.fixture
def two(make_broker, batch, monkeypatch):
    """A broker with two directories and a topic that is read by portions of some batches."""
    monkeypatch.setattr(log_dir_moves, "PORTION_BYTES", 400)
    made = []

    def make(**settings):
        broker = make_broker(directories=2, **settings)
        made.append(broker)
        broker.create_topic("orders")
        for number in range(RECORDS):
            assert broker.produce("orders", batch(str(number))).error_code == 0
        return broker

    yield make
    for each in made:
        each.loop.run_until_complete(each.broker.log_dir_moves.stop())


def where(broker):
    return broker.partition("orders").log.directory.parent


def elsewhere(broker):
    (other,) = {Path("/data/0"), Path("/data/1")} - {where(broker)}
    return other


def move(broker, to, topic="orders", index=0):
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
    answer = broker.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(to), topics=topics)]))
    return name_of_code(answer.results[0].partitions[0].error_code)


def described(broker):
    """Of every directory what it has of the topic: (is a copy, lag)."""
    results = broker.ask(DescribeLogDirsRequest(topics=None)).results
    return {
        result.log_dir: [
            (one.is_future_key, one.offset_lag)
            for topic in result.topics
            if topic.name == "orders"
            for one in topic.partitions
        ]
        for result in results
    }


def until(broker, is_true, turns=300):
    async def wait():
        for _ in range(turns):
            if is_true():
                return True
            await broker.clock.advance(10)
            await asyncio.sleep(0)
        return False

    assert broker.loop.run_until_complete(wait()), "it did not come true"


def fetched(broker, values_of):
    return values_of(broker.fetch("orders"))


def test_a_replica_moves_with_all_its_records(two, values_of):
    broker = two()
    target = elsewhere(broker)
    assert move(broker, target) == "NONE"
    until(broker, lambda: where(broker) == target)
    assert fetched(broker, values_of) == [str(number) for number in range(RECORDS)]
    assert described(broker)[str(target)] == [(False, 0)]
    assert broker.logs.futures() == []


def test_it_is_written_meanwhile_and_afterwards(two, batch, values_of):
    broker = two()
    target = elsewhere(broker)
    move(broker, target)
    sent = RECORDS
    while where(broker) != target:
        assert broker.produce("orders", batch(str(sent))).error_code == 0
        sent += 1
        until(broker, lambda: True)
        broker.loop.run_until_complete(broker.clock.advance(1))
        assert sent < 1_000
    broker.produce("orders", batch(str(sent)))
    assert fetched(broker, values_of) == [str(number) for number in range(sent + 1)]


def test_a_copy_on_its_way_is_described_and_throttled(two):
    broker = two(**{"replica.alter.log.dirs.io.max.bytes.per.second": "10"})
    source, target = where(broker), elsewhere(broker)
    move(broker, target)
    broker.loop.run_until_complete(broker.clock.advance(1_000))
    assert described(broker)[str(source)] == [(False, 0)]
    ((is_copy, lag),) = described(broker)[str(target)]
    assert is_copy
    assert 0 < lag < RECORDS
    assert where(broker) == source


def test_wanting_it_where_it_is_ends_a_move(two):
    broker = two(**{"replica.alter.log.dirs.io.max.bytes.per.second": "10"})
    source, target = where(broker), elsewhere(broker)
    move(broker, target)
    assert broker.logs.futures()
    assert move(broker, source) == "NONE"
    assert broker.logs.futures() == []
    assert described(broker)[str(target)] == []


def test_a_move_goes_on_after_a_restart(two, values_of):
    broker = two(**{"replica.alter.log.dirs.io.max.bytes.per.second": "10"})
    target = elsewhere(broker)
    move(broker, target)
    broker.loop.run_until_complete(broker.broker.log_dir_moves.stop())
    broker.restart()
    broker.broker.dynamic.replace("cluster-wide", {"replica.alter.log.dirs.io.max.bytes.per.second": "1000000"})
    broker.do(lambda: broker.broker.log_dir_moves.resume())
    until(broker, lambda: where(broker) == target)
    assert fetched(broker, values_of) == [str(number) for number in range(RECORDS)]


def test_a_destination_that_fails_leaves_the_replica_where_it_was(two, batch, values_of):
    broker = two(**{"replica.alter.log.dirs.io.max.bytes.per.second": "10"})
    source, target = where(broker), elsewhere(broker)
    move(broker, target)
    broker.files.fail(lambda operation: operation.path.is_relative_to(target), for_ever=True)
    broker.broker.dynamic.replace("cluster-wide", {"replica.alter.log.dirs.io.max.bytes.per.second": "1000000"})
    until(broker, lambda: not broker.broker.log_dir_moves._running)
    assert where(broker) == source
    assert broker.produce("orders", batch("more")).error_code == 0
    assert fetched(broker, values_of)[-1] == "more"
    assert move(broker, target) == "KAFKA_STORAGE_ERROR"


def test_deleting_the_topic_ends_the_move(two):
    broker = two(**{"replica.alter.log.dirs.io.max.bytes.per.second": "10"})
    move(broker, elsewhere(broker))
    gone = DeleteTopicState(name="orders", topic_id=ZERO_UUID)
    broker.ask(DeleteTopicsRequest(topics=[gone], timeout_ms=1000))
    until(broker, lambda: not broker.broker.log_dir_moves._running)
    assert broker.logs.futures() == []


def test_a_log_that_starts_within_a_batch_moves_and_starts_there(two, values_of):
    broker = two()
    partition = broker.partition("orders")
    partition.log.advance_log_start(7)
    target = elsewhere(broker)
    move(broker, target)
    until(broker, lambda: where(broker) == target)
    assert broker.partition("orders").log.log_start_offset == 7


def test_a_move_that_is_begun_again_changes_nothing(two):
    broker = two()
    target = elsewhere(broker)
    move(broker, target)
    assert move(broker, target) == "NONE"
    until(broker, lambda: where(broker) == target)


def test_replicas_that_come_are_made_where_they_were_wanted(two):
    broker = two()
    target = Path("/data/1")
    directory = next(each for each in broker.logs.directories if each.path == target)
    for topic in ("a", "b", "c"):
        broker.broker.replicas.prefer(TopicPartition(topic, 0), directory)
        broker.create_topic(topic)
        assert broker.partition(topic).log.directory.parent == target
