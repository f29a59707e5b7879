"""Questions about offsets: one request per leader, and what the answers say."""

from random import Random

from ottla.client.consumer.offset_lookups import (
    EpochEnd,
    by_leader,
    epoch_ends,
    epochs_request,
    list_offsets_request,
    listed_offsets,
)
from ottla.client.metadata import Metadata, bootstrap_nodes
from ottla.errors import NotLeaderOrFollower
from ottla.net.retries import Backoff
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.values import Address, OffsetAndTimestamp, TopicPartition

A, B, GONE = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("gone", 0)


def metadata():
    known = Metadata(bootstrap_nodes([Address("h", 1)]), backoff=Backoff(1, 1, Random(1)))
    known.want_only({"a"})
    known.request(0)
    partitions = [
        MetadataResponsePartition(
            error_code=0, partition_index=index, leader_id=index + 1, leader_epoch=4, replica_nodes=[1], isr_nodes=[1]
        )
        for index in range(2)
    ]
    topic = MetadataResponseTopic(error_code=0, name="a", topic_id=b"a" * 16, partitions=partitions)
    brokers = [MetadataResponseBroker(node_id=each, host="h", port=each) for each in (1, 2)]
    known.update(MetadataResponse(brokers=brokers, topics=[topic]), 0)
    return known


def test_partitions_go_to_their_leaders():
    known, unknown = by_leader([A, B, GONE], metadata())
    assert {node.id: names for node, names in known.items()} == {1: [A], 2: [B]}
    assert unknown == [GONE]


def test_a_request_carries_the_epoch_of_the_leader_we_believe_in():
    request = list_offsets_request({A: -2, B: 99}, metadata(), isolation=1, timeout_ms=5)
    (topic,) = request.topics
    assert [(each.partition_index, each.timestamp, each.current_leader_epoch) for each in topic.partitions] == [
        (0, -2, 4),
        (1, 99, 4),
    ]
    assert (request.replica_id, request.isolation_level) == (-1, 1)
    (topic,) = epochs_request({A: 3}, metadata()).topics
    assert [(each.leader_epoch, each.current_leader_epoch) for each in topic.partitions] == [(3, 4)]


def test_an_answer_has_offsets_nothing_or_errors():
    def row(index, **fields):
        return ListOffsetsPartitionResponse(**{"partition_index": index, "error_code": 0, **fields})

    rows = [row(0, offset=5, timestamp=9, leader_epoch=2), row(1, offset=-1), row(2, error_code=6)]
    listed = listed_offsets(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="a", partitions=rows)]))
    assert listed.found == {A: OffsetAndTimestamp(5, 9, 2), B: None}
    assert isinstance(listed.errors[TopicPartition("a", 2)], NotLeaderOrFollower)


def test_the_end_of_an_epoch_is_an_epoch_and_an_offset():
    rows = [
        EpochEndOffset(error_code=0, partition=0, leader_epoch=3, end_offset=7),
        EpochEndOffset(error_code=6, partition=1),
    ]
    response = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="a", partitions=rows)])
    found, errors = epoch_ends(response)
    assert found == {A: EpochEnd(3, 7)}
    assert isinstance(errors[B], NotLeaderOrFollower)
