"""The bytes of a produce request, and an answer that brings nothing but good news. The readable twin.

1. `write_body` seals the batches with their stamps and writes the body of a ProduceRequest around them: topics in the
   order of their first batch, each with its batches in theirs. The records are not copied.
   `write_frame` puts size and header before it, and copies records that are too few to be worth a buffer of their own.
2. `read_accepted` reads an answer that says of every batch, in the order of the request, that it was accepted. Whatever
   else an answer may say (an error, another order, a field it does not know) makes it None: then the message is decoded
   and read in full. So there is one place for every decision.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.producer.batches.producer_batch import ProducerBatch
from ottla.errors import MalformedMessage
from ottla.light_tuples import NamedTuple
from ottla.net.framed_link import GATHERED_LIMIT_BYTES, gathered
from ottla.net.framing import frame_prefix
from ottla.protocol import first_uses
from ottla.protocol.api import APIS
from ottla.protocol.header import around_correlation_id, decode_response
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.schema import ZERO_UUID, Buffer

PRODUCE_KEY: Final = 0
INT32: Final = struct.Struct(">i")
TOPIC_IDS_SINCE: Final = 13


class Accepted(NamedTuple):
    """Every batch of the request is in the log: where it begins there, and when it was appended (-1: not known)."""

    throttle_time_ms: int
    places: list[tuple[int, int]]


def write_body(
    batches: Sequence[ProducerBatch],
    topic_ids: Mapping[str, bytes],
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    is_transactional: bool,
) -> list[Buffer]:
    """The body of the request that carries these batches, as buffers to be written one after the other."""
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        name = batch.delivery.topic
        topic = topics.get(name)
        if topic is None:
            topic = TopicProduceData(name=name, topic_id=topic_ids.get(name, ZERO_UUID), partition_data=[])
            topics[name] = topic
        stamp = batch.stamp
        if stamp is None:
            records = batch.seal(-1, -1, -1, False)
        else:
            records = batch.seal(stamp.producer_id, stamp.epoch, stamp.base_sequence, is_transactional)
        topic.partition_data.append(PartitionProduceData(index=batch.delivery.partition, records=records))
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values())
    )
    return first_uses.encode(request, version)


def write_frame(
    batches: Sequence[ProducerBatch],
    topic_ids: Mapping[str, bytes],
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    is_transactional: bool,
    correlation_id: int,
    client_id: str | None,
) -> list[Buffer]:
    """The whole frame of that request, as few buffers to be written one after the other."""
    body = write_body(batches, topic_ids, version, transactional_id, acks, timeout_ms, is_transactional)
    before, after = around_correlation_id(PRODUCE_KEY, version, client_id)
    parts: list[Buffer] = [before + INT32.pack(correlation_id) + after, *body]
    return gathered([frame_prefix(parts), *parts], GATHERED_LIMIT_BYTES)


def read_accepted(
    batches: Sequence[ProducerBatch], topic_ids: Mapping[str, bytes], version: int, frame: Buffer
) -> Accepted | None:
    """What an answer says if it is nothing but good news; None when it must be read in full."""
    try:
        _, response = decode_response(APIS[PRODUCE_KEY], version, frame)
    except MalformedMessage:
        return None  # whoever reads it in full says what is wrong with it
    assert isinstance(response, ProduceResponse), "the table of APIs says so"
    words = [(topic, word) for topic in response.responses for word in topic.partition_responses]
    in_order = _in_order(batches)
    if response.node_endpoints or len(words) != len(in_order):
        return None
    places: dict[int, tuple[int, int]] = {}
    for (topic, word), number in zip(words, in_order, strict=True):
        delivery = batches[number].delivery
        expected = topic_ids.get(delivery.topic, ZERO_UUID) if version >= TOPIC_IDS_SINCE else delivery.topic
        named = topic.topic_id if version >= TOPIC_IDS_SINCE else topic.name
        if named != expected or word.index != delivery.partition or not _is_plain(topic, word):
            return None
        places[number] = word.base_offset, word.log_append_time_ms
    return Accepted(response.throttle_time_ms, [places[number] for number in range(len(batches))])


def _in_order(batches: Sequence[ProducerBatch]) -> list[int]:
    """The numbers of the batches in the order in which the request has them: topic by topic."""
    topics: dict[str, list[int]] = {}
    for number, batch in enumerate(batches):
        topics.setdefault(batch.delivery.topic, []).append(number)
    return [number for numbers in topics.values() for number in numbers]


def _is_plain(topic: TopicProduceResponse, word: PartitionProduceResponse) -> bool:
    unknown = getattr(topic, "unknown_tags", None) or getattr(word, "unknown_tags", None)
    is_silent = not word.record_errors and word.error_message is None and word.current_leader.leader_id < 0
    return word.error_code == 0 and is_silent and not unknown
