"""Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

import pytest

from ottla.broker.network.processor import CloseConnection
from ottla.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    InvalidRequiredAcks,
    InvalidTopicException,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    PolicyViolation,
    RequestTimedOut,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NOW_MS = 1_700_000_000_000


@pytest.fixture
def orders(broker):
    """A broker with the topic `orders`."""
    broker.topic_id = broker.create_topic("orders")
    return broker


def fetch_request(topic_id=b"\0" * 16, offset=0, wait_ms=0, min_bytes=1, session=(0, -1), name="orders", **partition):
    partition.setdefault("partition_max_bytes", 1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic=name,
                topic_id=topic_id,
                partitions=[FetchPartition(partition=0, fetch_offset=offset, **partition)],
            )
        ],
        forgotten_topics_data=[],
    )


# -- Produce -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("acks", [1, -1])
def test_records_are_read_as_they_were_written(orders, batch, values_of, version, acks):
    answer = orders.produce("orders", batch("a", "b"), acks=acks, version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    found = orders.fetch("orders")
    assert (values_of(found), found.high_watermark) == (["a", "b"], 2)


def test_a_topic_is_written_by_its_id(orders, batch):
    def produce(topic_id):
        data = PartitionProduceData(index=0, records=batch("a"))
        topics = [TopicProduceData(topic_id=topic_id, partition_data=[data])]
        answer = orders.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 13).responses[0]
        return answer.topic_id, answer.partition_responses[0].error_code

    assert produce(orders.topic_id) == (orders.topic_id, 0)
    assert produce(b"z" * 16) == (b"z" * 16, UnknownTopicId.code)


def test_a_produce_without_acks_has_no_answer_and_an_error_closes_the_connection(orders, batch):
    def request(topic):
        data = PartitionProduceData(index=0, records=batch("a"))
        return ProduceRequest(acks=0, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])

    assert orders.ask(request("orders"), 12) is None
    assert orders.fetch("orders").high_watermark == 1
    with pytest.raises(CloseConnection):
        orders.ask(request("missing"), 12)


@pytest.mark.parametrize(
    ("topic", "partition", "acks", "error"),
    [
        ("orders", 0, 2, InvalidRequiredAcks),
        ("orders", 7, -1, UnknownTopicOrPartition),
        ("missing", 0, -1, UnknownTopicOrPartition),
        ("__consumer_offsets", 0, -1, InvalidTopicException),
        ("__transaction_state", 0, -1, InvalidTopicException),
    ],
)
def test_a_produce_that_cannot_be_is_refused(orders, batch, topic, partition, acks, error):
    assert orders.produce(topic, batch("a"), partition, acks=acks).error_code == error.code


def test_a_batch_with_a_wrong_checksum_is_refused(orders, batch):
    damaged = bytearray(batch("a"))
    damaged[-1] ^= 1
    assert orders.produce("orders", bytes(damaged)).error_code == CorruptMessage.code
    assert orders.fetch("orders").high_watermark == 0


def test_too_few_in_sync_replicas_refuse_acks_all_only(broker, batch):
    broker.create_topic("careful", min_insync_replicas="2")
    assert broker.produce("careful", batch("a"), acks=-1).error_code == 0  # it has all the replicas there are
    broker.partition("careful", 0).in_sync_count = 0
    assert broker.produce("careful", batch("a"), acks=-1).error_code == NotEnoughReplicas.code
    assert broker.produce("careful", batch("a"), acks=1).error_code == 0


def test_a_repeated_batch_gets_the_old_offset_and_a_gap_is_refused(orders, batch):
    def send(value, sequence):
        return orders.produce("orders", batch(value, producer_id=9, producer_epoch=0, base_sequence=sequence))

    assert send("a", 0).base_offset == 0
    assert send("b", 1).base_offset == 1
    assert send("a", 0).base_offset == 0
    assert send("d", 5).error_code == OutOfOrderSequenceNumber.code
    assert orders.fetch("orders").high_watermark == 2


def test_acks_all_waits_for_the_disk_and_times_out(orders, batch):
    orders.broker.progress._flusher.mark = lambda partition: None  # the disk never answers
    data = PartitionProduceData(index=0, records=batch("a"))
    topics = [TopicProduceData(name="orders", partition_data=[data])]
    waiting = orders.begin(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 12)
    assert not waiting.is_answered
    assert orders.fetch("orders").high_watermark == 0
    orders.later(1_100)
    answer = waiting.answer.responses[0].partition_responses[0]
    assert answer.error_code == RequestTimedOut.code


def test_a_disk_that_fails_takes_the_partition_offline(orders, batch):
    orders.files.fail(lambda operation: operation.kind == "sync", for_ever=True)
    assert orders.produce("orders", batch("a")).error_code == KafkaStorageError.code
    assert orders.produce("orders", batch("b")).error_code == KafkaStorageError.code
    assert orders.fetch("orders").error_code == KafkaStorageError.code


# -- Fetch -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 18))
def test_a_fetch_is_answered_at_every_version(orders, batch, values_of, version):
    orders.produce("orders", batch("a"))
    answer = orders.ask(fetch_request(orders.topic_id), version)
    assert values_of(answer.responses[0].partitions[0]) == ["a"]


def test_a_fetch_waits_for_bytes_and_gets_them(orders, batch, values_of):
    waiting = orders.begin(fetch_request(wait_ms=500), 12)
    assert not waiting.is_answered
    orders.produce("orders", batch("a"))
    assert values_of(waiting.answer.responses[0].partitions[0]) == ["a"]


def test_a_fetch_that_gets_nothing_is_answered_when_its_time_is_over(orders):
    waiting = orders.begin(fetch_request(wait_ms=500), 12)
    orders.later(400)
    assert not waiting.is_answered
    orders.later(120)
    assert len(waiting.answer.responses[0].partitions[0].records or b"") == 0


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"offset": 5}, OffsetOutOfRange),
        ({"offset": -1}, OffsetOutOfRange),
        ({"name": "missing"}, UnknownTopicOrPartition),
        ({"current_leader_epoch": 3}, UnknownLeaderEpoch),
    ],
)
def test_a_fetch_that_cannot_be_is_refused_at_once(orders, asked, error):
    answer = orders.ask(fetch_request(wait_ms=500, **asked), 12)
    assert answer.responses[0].partitions[0].error_code == error.code


def test_an_unknown_topic_id_is_refused(orders):
    answer = orders.ask(fetch_request(b"z" * 16, wait_ms=500), 17)
    assert answer.responses[0].partitions[0].error_code == UnknownTopicId.code


def test_the_first_batch_is_whole_however_small_the_limit(orders, batch, values_of):
    orders.produce("orders", batch("a" * 500))
    orders.produce("orders", batch("b" * 500))
    answer = orders.ask(fetch_request(partition_max_bytes=10), 12)
    assert values_of(answer.responses[0].partitions[0]) == ["a" * 500]


def test_the_broker_has_a_limit_for_fetches_of_clients(make_broker, batch, values_of):
    broker = make_broker(**{"fetch.max.bytes": "1024"})
    broker.create_topic("orders")
    for _ in range(3):
        broker.produce("orders", batch("a" * 900))
    assert len(values_of(broker.ask(fetch_request(), 12).responses[0].partitions[0])) == 1


@pytest.mark.parametrize("version", [4, 12, 17])
def test_a_broker_that_is_alone_has_no_followers(orders, batch, version):
    """Who poses as one would read what is not committed."""
    orders.produce("orders", batch("a"))
    request = fetch_request(orders.image.topic("orders").id if version > 12 else "orders")
    if version < 15:
        request.replica_id = 2
    else:
        request.replica_state.replica_id = 2
    assert orders.ask(request, version).responses[0].partitions[0].error_code == NotLeaderOrFollower.code


def test_nobody_waits_for_more_than_may_be_sent(make_broker, batch, values_of):
    broker = make_broker(**{"fetch.max.bytes": "1024"})
    broker.create_topic("orders")
    for _ in range(3):
        broker.produce("orders", batch("a" * 900))
    answer = broker.ask(fetch_request(wait_ms=500, min_bytes=5000), 12)
    assert len(values_of(answer.responses[0].partitions[0])) == 1


def test_a_session_tells_only_what_is_new(orders, batch, values_of):
    orders.produce("orders", batch("a"))
    full = orders.ask(fetch_request(session=(0, 0)), 12)
    session_id = full.session_id
    assert session_id != 0
    assert values_of(full.responses[0].partitions[0]) == ["a"]
    quiet = fetch_request(offset=1, session=(session_id, 1))
    assert orders.ask(quiet, 12).responses == []
    orders.produce("orders", batch("b"))
    more = fetch_request(session=(session_id, 2))
    more.topics = []
    assert values_of(orders.ask(more, 12).responses[0].partitions[0]) == ["b"]
    gone = fetch_request(session=(session_id, 3))
    gone.topics, gone.forgotten_topics_data = [], [ForgottenTopic(topic="orders", partitions=[0])]
    assert orders.ask(gone, 12).responses == []


def test_a_session_that_is_not_there_or_out_of_step_is_refused(orders):
    assert orders.ask(fetch_request(session=(77, 1)), 12).error_code == FetchSessionIdNotFound.code
    session_id = orders.ask(fetch_request(session=(0, 0)), 12).session_id
    assert orders.ask(fetch_request(session=(session_id, 9)), 12).error_code == InvalidFetchSessionEpoch.code


def test_a_fetcher_that_went_apart_is_told_where(orders, batch):
    orders.produce("orders", batch("a"))
    apart = fetch_request(offset=5, last_fetched_epoch=0, wait_ms=500)
    found = orders.ask(apart, 12).responses[0].partitions[0]
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 1)


# -- ListOffsets, OffsetForLeaderEpoch ---------------------------------------------------------------------------------


def list_offset(broker, timestamp, *, version=11, isolation=0, topic="orders", epoch=-1):
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
    return broker.ask(request, version).topics[0].partitions[0]


def test_offsets_are_found_by_place_and_by_time(orders, batch):
    orders.produce("orders", batch("a", timestamp_ms=NOW_MS - 1000))
    orders.produce("orders", batch("b", timestamp_ms=NOW_MS))
    orders.produce("orders", batch("c", timestamp_ms=NOW_MS - 500))
    found = {name: list_offset(orders, name) for name in (-1, -2, -3, -4, -5, -6, NOW_MS - 900, NOW_MS + 1)}
    assert {name: (one.offset, one.timestamp) for name, one in found.items()} == {
        -1: (3, -1),
        -2: (0, -1),
        -3: (1, NOW_MS),
        -4: (0, -1),
        -5: (-1, -1),
        -6: (-1, -1),
        NOW_MS - 900: (1, NOW_MS),
        NOW_MS + 1: (-1, -1),
    }
    assert found[-1].leader_epoch == 0


@pytest.mark.parametrize("version", range(1, 12))
def test_the_end_is_told_at_every_version(orders, batch, version):
    orders.produce("orders", batch("a"))
    assert list_offset(orders, -1, version=version).offset == 1


def test_list_offsets_errors(orders):
    assert list_offset(orders, -1, topic="missing").error_code == UnknownTopicOrPartition.code
    assert list_offset(orders, -1, epoch=1).error_code == UnknownLeaderEpoch.code


def test_where_a_leader_epoch_ended_is_told(orders, batch):
    orders.produce("orders", batch("a"))

    def ask(topic="orders", current=-1):
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=0)
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[asked])]
        return orders.ask(OffsetForLeaderEpochRequest(topics=topics)).topics[0].partitions[0]

    assert (ask().leader_epoch, ask().end_offset) == (0, 1)
    assert ask("missing").error_code == UnknownTopicOrPartition.code
    assert ask(current=4).error_code == UnknownLeaderEpoch.code


def test_an_old_leader_epoch_is_fenced(orders):
    from dataclasses import replace

    partition = orders.partition("orders")
    orders.do(lambda: partition.update_state(replace(orders.image.partition("orders", 0), leader_epoch=2)))
    assert list_offset(orders, -1, epoch=1).error_code == FencedLeaderEpoch.code


# -- DeleteRecords -----------------------------------------------------------------------------------------------------


def delete_records(broker, offset, topic="orders"):
    topics = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    found = broker.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000)).topics[0].partitions[0]
    return found.error_code, found.low_watermark


def test_records_are_deleted_up_to_an_offset(orders, batch):
    orders.produce("orders", batch("a", "b", "c"))
    assert delete_records(orders, 2) == (0, 2)
    assert orders.fetch("orders", 1).error_code == OffsetOutOfRange.code
    assert list_offset(orders, -2).offset == 2
    assert delete_records(orders, 1) == (0, 2)
    assert delete_records(orders, -1) == (0, 3)


def test_a_deletion_that_cannot_be_written_down_is_not_acknowledged(orders, batch):
    """Or the records would be back after a crash."""
    orders.produce("orders", batch("a", "b", "c"))
    orders.files.fill(free_bytes=0)
    assert delete_records(orders, 2) == (KafkaStorageError.code, -1)


def test_deletes_that_cannot_be_are_refused(orders, batch):
    orders.create_topic("compacted", cleanup_policy="compact")
    assert delete_records(orders, 1) == (OffsetOutOfRange.code, -1)
    assert delete_records(orders, -2) == (OffsetOutOfRange.code, -1)
    assert delete_records(orders, 0, "compacted") == (PolicyViolation.code, -1)
    assert delete_records(orders, 0, "missing") == (UnknownTopicOrPartition.code, -1)
    assert delete_records(orders, 0, "__consumer_offsets") == (InvalidTopicException.code, -1)


@pytest.mark.parametrize(("version", "code"), [(9, UnsupportedCompressionType.code), (10, 0)])
def test_a_topic_of_zstd_is_not_for_fetches_that_do_not_know_it(broker, batch, version, code):
    broker.create_topic("small", compression_type="zstd")
    broker.produce("small", batch("a"))
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=0,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic="small", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
            )
        ],
        forgotten_topics_data=[],
    )
    assert broker.ask(request, version).responses[0].partitions[0].error_code == code


def test_only_the_first_partition_of_an_answer_may_be_above_max_bytes(orders, batch):
    """A batch that is larger than what is left waits for the next fetch, where it may be the first."""
    for name in ("large", "larger"):
        orders.create_topic(name)
        orders.produce(name, batch("x" * 800))
    asked = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)])
        for name in ("large", "larger")
    ]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1_000,
        session_id=0,
        session_epoch=-1,
        topics=asked,
        forgotten_topics_data=[],
    )
    answer = orders.ask(request, 12)
    sizes = [len(each.partitions[0].records) for each in answer.responses]
    assert sizes[0] > 800
    assert sizes[1] == 0
