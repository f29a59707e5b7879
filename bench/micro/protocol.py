"""What a message costs: our compiled functions, kafka-python's codec, and a decoder written by hand.

ProduceRequest 9 with one batch of 16 KB is what a broker reads most; MetadataResponse 12 with 100 topics of one
partition and three replicas is what it writes when a client starts. The hand-written decoder is what an engineer would
write for this one message and version: struct, memoryview, tuples, the same checks of lengths against the bytes left.
"""

import struct
from collections.abc import Callable
from typing import Any

from bench.micro.measure import Comparison, Row, compare
from kafka.protocol.metadata import MetadataResponse as KafkaPythonMetadataResponse

from ottla.protocol import compiled
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def produce_request() -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=bytes(16_384))
    topic = TopicProduceData(name="a-topic-of-usual-length", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def metadata_response() -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=n, host=f"broker-{n}.example.com", port=9092) for n in (1, 2, 3)]
    return MetadataResponse(
        brokers=brokers, cluster_id="abcdefghijklmnopqrstuv", controller_id=1, topics=[_topic(n) for n in range(100)]
    )


def _topic(number: int) -> MetadataResponseTopic:
    partition = MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=1,
        leader_epoch=3,
        replica_nodes=[1, 2, 3],
        isr_nodes=[1, 2, 3],
        offline_replicas=[],
    )
    topic_id = number.to_bytes(16, "big")
    return MetadataResponseTopic(error_code=0, name=f"topic-{number:03}", topic_id=topic_id, partitions=[partition])


# -- ProduceRequest 9 by hand ----------------------------------------------------------------------------------------

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_INDEX = struct.Struct(">i")


class _Short(Exception):
    pass


def _uvarint(buf: memoryview, pos: int) -> tuple[int, int]:
    byte = buf[pos]
    pos += 1
    if byte < 0x80:
        return byte, pos
    value, shift = byte & 0x7F, 7
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > 28:
            raise _Short


def _string(buf: memoryview, pos: int) -> tuple[str | None, int]:
    length, pos = _uvarint(buf, pos)
    if length == 0:
        return None, pos
    stop = pos + length - 1
    if stop > len(buf):
        raise _Short
    return str(buf[pos:stop], "utf-8"), stop


def _skip_tags(buf: memoryview, pos: int) -> int:
    count, pos = _uvarint(buf, pos)
    for _ in range(count):
        _, pos = _uvarint(buf, pos)
        size, pos = _uvarint(buf, pos)
        pos += size
    return pos


def decode_produce_by_hand(frame: memoryview) -> tuple[Any, ...]:
    transactional_id, pos = _string(frame, 0)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, pos)
    topic_count, pos = _uvarint(frame, pos + 6)
    if topic_count > len(frame) - pos:
        raise _Short
    topics = []
    for _ in range(topic_count - 1):
        name, pos = _string(frame, pos)
        partition_count, pos = _uvarint(frame, pos)
        if partition_count > len(frame) - pos:
            raise _Short
        partitions = []
        for _ in range(partition_count - 1):
            (index,) = _INDEX.unpack_from(frame, pos)
            size, pos = _uvarint(frame, pos + 4)
            stop = pos + size - 1
            if stop > len(frame):
                raise _Short
            partitions.append((index, frame[pos:stop]))
            pos = _skip_tags(frame, stop)
        pos = _skip_tags(frame, pos)
        topics.append((name, partitions))
    pos = _skip_tags(frame, pos)
    if pos != len(frame):
        raise _Short
    return transactional_id, acks, timeout_ms, topics


# -- the comparisons -------------------------------------------------------------------------------------------------


def sides() -> dict[str, Callable[[], object]]:
    frame = memoryview(bytearray(b"".join(compiled.encode(produce_request(), 9))))
    response = metadata_response()
    written = b"".join(compiled.encode(response, 12))
    theirs = KafkaPythonMetadataResponse.decode(written, version=12)
    theirs._header = None
    assert bytes(theirs.encode(version=12)) == written
    return {
        "produce decode": lambda: compiled.decode(ProduceRequest, 9, frame),
        "produce decode by hand": lambda: decode_produce_by_hand(frame),
        "metadata encode": lambda: compiled.encode(response, 12),
        "metadata encode, kafka-python": lambda: theirs.encode(version=12),
    }


COMPARISONS = [
    Comparison(
        "ProduceRequest 9 decode, 16 KB: ours / by hand", "produce decode", "produce decode by hand", at_most=1.5
    ),
    Comparison(
        "MetadataResponse 12 encode, 100 topics: ours / kafka-python",
        "metadata encode",
        "metadata encode, kafka-python",
        at_most=0.35,
    ),
]


def rows(rounds: int) -> list[Row]:
    return compare(sides(), COMPARISONS, rounds, unit="ns per message")
