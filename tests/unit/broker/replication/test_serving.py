"""What leaders and followers give to followers and consumers."""

import pytest

from ottla.broker.fetch import attempt
from ottla.broker.fetch.replica_selector import RACK_AWARE
from ottla.cluster.changes import apply_all
from ottla.cluster.features import first_features
from ottla.cluster.image import ClusterImage
from ottla.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    UnknownLeaderEpoch,
    UnknownTopicId,
)
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

TOPIC_ID = bytes(range(16))


@pytest.fixture
def ask():
    """The answer of a broker, which may be missing."""

    def ask(world, broker_id, request, version=None):
        answers = []
        world.do(lambda: world.ask(broker_id, request, version, answers.append))
        return answers[0] if answers else None

    return ask


@pytest.fixture
def fetch(ask):
    def fetch(world, broker_id, offset=0, *, rack="", replica_id=-1, epoch=-1, last_epoch=-1, version=17):
        asked = FetchPartition(
            partition=0,
            fetch_offset=offset,
            current_leader_epoch=epoch,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=1) if version >= 15 else ReplicaState(),
            max_wait_ms=0,
            min_bytes=1,
            session_epoch=-1,
            rack_id=rack,
            topics=[FetchTopic(topic="orders", topic_id=TOPIC_ID, partitions=[asked])],
            forgotten_topics_data=[],
        )
        return ask(world, broker_id, request, version).responses[0].partitions[0]

    return fetch


def list_end(timestamp=-1, replica_id=-1):
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name="orders", partitions=[asked])])


def test_a_follower_reads_to_the_end_and_a_consumer_only_what_is_committed(world, fetch):
    world.produce(0, "a", acks=1)
    assert fetch(world, 0, replica_id=1).records
    assert not fetch(world, 0).records


def test_the_brokers_limit_of_a_fetch_is_for_clients_and_not_for_followers(make_world, fetch):
    world = make_world(fetch_max_bytes=1024)
    for _ in range(3):
        world.produce(0, "a" * 900)
    world.settle()
    assert len(fetch(world, 0).records) < 2_000 < 2_700 < len(fetch(world, 0, replica_id=1).records)


def test_a_consumer_may_read_from_a_follower_what_that_knows_to_be_committed(world, fetch):
    world.produce(0, "a")
    assert not fetch(world, 1).records
    world.settle()
    found = fetch(world, 1)
    assert (bool(found.records), found.high_watermark, found.error_code) == (True, 1, 0)
    assert fetch(world, 1, version=10).error_code == NotLeaderOrFollower.code  # it would not know that it is a follower
    assert fetch(world, 1, replica_id=2).error_code == NotLeaderOrFollower.code


def test_a_follower_of_another_epoch_or_of_no_partition_of_ours_is_refused(world, fetch):
    world.elect(0)
    world.deliver()
    assert fetch(world, 0, replica_id=1, epoch=0).error_code == FencedLeaderEpoch.code
    assert fetch(world, 0, replica_id=1, epoch=9).error_code == UnknownLeaderEpoch.code
    assert fetch(world, 0, replica_id=8, epoch=1).error_code == UnknownLeaderEpoch.code
    assert fetch(world, 0, replica_id=8).error_code == NotLeaderOrFollower.code


def test_a_log_that_went_another_way_is_told_where(world, fetch):
    world.produce(0, "a")
    world.settle()
    world.elect(0)
    world.deliver()
    found = fetch(world, 0, 5, replica_id=1, last_epoch=0)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 1)
    assert world.nodes[0].partition.in_sync.followers[1].log_end_offset != 5


def test_a_consumer_is_sent_to_the_replica_of_its_rack(make_world, fetch):
    world = make_world(replica_selector_class=RACK_AWARE)
    world.produce(0, "a")
    world.settle()
    found = fetch(world, 0, rack="rack-2")
    assert (found.preferred_read_replica, found.records) == (2, b"")
    for rack in ("rack-0", "elsewhere", ""):
        assert fetch(world, 0, rack=rack).preferred_read_replica == -1
    assert fetch(world, 2, rack="rack-2").records


def test_a_throttled_follower_gets_nothing_above_its_rate_unless_it_is_in_sync(make_world, fetch):
    world = make_world(
        config=(("leader.replication.throttled.replicas", "*"),),
        leader_replication_throttled_rate=1,
        replica_lag_time_max_ms=1_000,
    )
    world.settle()
    world.crash(2)
    world.deliver()
    for number in range(3):
        world.produce(0, "x" * 100 + str(number))
        world.settle()
    assert fetch(world, 0, replica_id=1).records
    assert fetch(world, 0, replica_id=2).records  # the first is over the limit, and makes the next wait
    assert not fetch(world, 0, replica_id=2).records
    assert fetch(world, 0, replica_id=1).records


def test_the_end_is_not_told_before_what_a_new_leader_has_is_committed(world, ask):
    world.produce(0, "a")
    world.deliver()  # everybody has it, but no follower knows that it is committed
    world.elect(1)
    world.obey()
    answer = ask(world, 1, list_end()).topics[0].partitions[0]
    assert answer.error_code == OffsetNotAvailable.code
    assert ask(world, 1, list_end(replica_id=2)).topics[0].partitions[0].offset == 1
    assert ask(world, 1, list_end(timestamp=-2)).topics[0].partitions[0].offset == 0
    world.settle()
    assert ask(world, 1, list_end()).topics[0].partitions[0].offset == 1


def test_the_end_of_an_epoch_is_told_by_the_leader_only(world, ask):
    world.produce(0, "a")
    world.settle()
    world.elect(1)
    world.settle()

    def end(broker_id, epoch):
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=1, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=2, topics=[OffsetForLeaderTopic(topic="orders", partitions=[asked])]
        )
        found = ask(world, broker_id, request).topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert end(1, 0) == (0, 0, 1)
    assert end(1, 1) == (0, 1, 1)
    assert end(1, 7) == (0, -1, -1)
    assert end(0, 0)[0] == NotLeaderOrFollower.code


def test_records_are_deleted_when_every_replica_has_deleted_them(world):
    for value in "abc":
        world.produce(0, value)
        world.settle()
    asked = DeleteRecordsPartition(partition_index=0, offset=2)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[asked])], timeout_ms=30_000)
    answers = []
    world.do(lambda: world.ask(0, request, None, answers.append))
    assert answers == []
    world.settle()
    (found,) = answers[0].topics[0].partitions
    assert (found.low_watermark, found.error_code) == (2, 0)
    assert [node.partition.log.log_start_offset for node in world.nodes.values()] == [2, 2, 2]


def test_what_was_deleted_stays_deleted_when_every_broker_is_killed(make_world):
    world = make_world(config=(("ottla.durability", "durable"),))
    world.settle()
    world.later(600)
    for value in "abc":
        world.produce(0, value)
        world.settle()
    asked = DeleteRecordsPartition(partition_index=0, offset=2)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[asked])], timeout_ms=30_000)
    answers = []
    world.do(lambda: world.ask(0, request, None, answers.append))
    world.settle()
    assert answers[0].topics[0].partitions[0].low_watermark == 2
    for node in world.nodes.values():
        world.do(node.vanish)
        node.files.crash("nothing")
    for broker_id in world.nodes:
        world.start(broker_id)
    assert [node.logs.log(("orders", 0)).log_start_offset for node in world.nodes.values()] == [2, 2, 2]


def test_where_it_is_durable_a_follower_says_that_it_has_a_record_when_its_disk_has_it(make_world):
    world = make_world(config=(("ottla.durability", "durable"),))
    world.settle()
    world.later(600)
    world.produce(0, "a")
    world.settle()
    assert world.acknowledged == {0: "a"}
    for node in world.nodes.values():
        assert node.partition.log.flushed_offset == 1
    for broker_id in world.nodes:
        world.do(world.nodes[broker_id].vanish)
        world.nodes[broker_id].files.crash("nothing")  # all lose power, and with it all that was not synced
    for broker_id in world.nodes:
        world.start(broker_id)
    world.elect()
    world.settle()
    assert world.values(0) == ["a"]


def of_session(session_id, epoch, *, forgets=False):
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[asked])]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if epoch == 0 else [],
        forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])] if forgets else [],
    )


def test_a_follower_is_served_before_the_view_has_the_topic(world, fetch):
    broker = world.nodes[0].broker
    broker.image = apply_all(ClusterImage("5L6g3nShT-eMCtK--X86sw"), first_features())
    world.produce(0, "a", acks=1)
    assert fetch(world, 0, replica_id=1).records


def test_a_partition_that_a_session_knew_before_its_topic_is_forgotten_by_its_id(world, ask):
    broker, known = world.nodes[0].broker, world.nodes[0].broker.image
    broker.image = apply_all(ClusterImage("5L6g3nShT-eMCtK--X86sw"), first_features())
    broker.replicas.topic_name = lambda topic_id: None
    first = ask(world, 0, of_session(0, 0), 17)
    assert first.responses[0].partitions[0].error_code == UnknownTopicId.code
    broker.image = known
    second = ask(world, 0, of_session(first.session_id, 1, forgets=True), 17)
    assert (second.error_code, second.responses) == (0, [])


def test_a_follower_that_has_all_is_not_looked_at_closely_and_stays_in_sync(make_world, monkeypatch):
    world = make_world(replica_lag_time_max_ms=2_000)
    world.produce(0, "a")
    world.settle()
    looks = []
    monkeypatch.setattr(attempt.Attempt, "_read_one", lambda self, key, *rest, **more: looks.append(key))
    for _ in range(12):
        world.later(500)
        world.deliver()
    assert looks == []
    monkeypatch.undo()
    assert set(world.truth.isr) == {0, 1, 2}
    assert world.nodes[0].partition.in_sync.followers[1].caught_up_ms > world.clock.monotonic_ms() - 1_000
