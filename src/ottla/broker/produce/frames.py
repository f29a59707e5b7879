"""Produce requests and answers as flat values: what is on the path of every record has no message objects on it.

    produce, end = scan(version, 20_000, frame, position)   # (transactional id, acks, timeout_ms, topics)
    for topic, partitions in produce.topics:          # a name, or from version 13 on an id
        for index, records in partitions: ...         # the records are a slice of the frame
    buffers = write(version, answers)                 # answers: per topic its Outcomes
    requests = scan_run(version, 20_000, frames, position)  # frames that came together, and
    content = write_run(version, frames, all_answers)       # their answers as whole frames

This is the readable twin: a flat value is what is left of a ProduceRequest when its fields are read, and an answer is a
ProduceResponse with these fields. The native twin (_produce_frames.pyx) reads and writes the bytes in one pass where
nothing is unusual: no unknown tags on the way in, no error on the way out. Everything else it leaves to this file, and
so does a frame that cannot be read: the reference codec explains why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ottla.broker.replication.writes import ProduceResult
from ottla.errors import MalformedMessage
from ottla.light_tuples import NamedTuple
from ottla.net.framing import frame_prefix
from ottla.protocol.compile_decode import FAILURES
from ottla.protocol.compiled import decoder, encode
from ottla.protocol.header import response_header_version
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.schema import Buffer

UNREADABLE = (*FAILURES, MalformedMessage)
API_KEY = 0
TOPIC_IDS_SINCE = 13
# Of a request header: API key and version, then the correlation id, then who asks.
CORRELATION_AT = 4
HEADER_FIXED_BYTES = 8

Topic: TypeAlias = str | bytes
"""A name up to version 12, a topic id from version 13 on."""


class Produce(NamedTuple):
    """A ProduceRequest."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[Topic, list[tuple[int, memoryview | None]]]]


ProduceResults: TypeAlias = list[tuple[Topic, list[ProduceResult]]]


def scan(version: int, entries_limit: int, frame: Buffer, position: int) -> tuple[Produce, int]:
    """The request whose body begins at `position`, and where it ends; fails as the compiled decoder does.

    Topics and partitions together may be `entries_limit`.
    """
    request, end = decoder(ProduceRequest, version)(frame, position, entries_limit)
    by_id = version >= TOPIC_IDS_SINCE
    topics: list[tuple[Topic, list[tuple[int, memoryview | None]]]] = [
        (topic.topic_id if by_id else topic.name, [(data.index, data.records) for data in topic.partition_data])
        for topic in request.topic_data
    ]
    return Produce(request.transactional_id, request.acks, request.timeout_ms, topics), end


def write(version: int, answers: ProduceResults, throttle_time_ms: int = 0) -> list[Buffer]:
    """The body of the answer."""
    topics = []
    for topic, outcomes in answers:
        response = TopicProduceResponse(partition_responses=[_partition(outcome) for outcome in outcomes])
        if isinstance(topic, str):
            response.name = topic
        else:
            response.topic_id = topic
        topics.append(response)
    return encode(ProduceResponse(responses=topics, throttle_time_ms=throttle_time_ms), version)


def scan_run(version: int, entries_limit: int, frames: Sequence[memoryview], position: int) -> list[Produce]:
    """The requests of frames that begin with the same header as the first, up to one that cannot be read."""
    requests: list[Produce] = []
    kind, who = frames[0][:CORRELATION_AT], frames[0][HEADER_FIXED_BYTES:position]
    for frame in frames:
        if frame[:CORRELATION_AT] != kind or frame[HEADER_FIXED_BYTES:position] != who:
            break
        try:
            requests.append(scan(version, entries_limit, frame, position)[0])
        except UNREADABLE:
            break
    return requests


def write_run(version: int, frames: Sequence[Buffer], all_answers: Sequence[ProduceResults]) -> bytes:
    """Whole frames with the answers to the requests in `frames`, one after the other."""
    header_version = response_header_version(API_KEY, version)
    content: list[Buffer] = []
    for frame, answers in zip(frames, all_answers, strict=True):
        tags = b"\0" if header_version else b""
        parts = [bytes(frame[CORRELATION_AT:HEADER_FIXED_BYTES]), tags, *write(version, answers)]
        content += (frame_prefix(parts), *parts)
    return b"".join(content)


def _partition(outcome: ProduceResult) -> PartitionProduceResponse:
    error = outcome.error
    record_errors = [
        BatchIndexAndErrorMessage(batch_index=one.batch_index, batch_index_error_message=one.message)
        for one in getattr(error, "record_errors", ())
    ]
    return PartitionProduceResponse(
        index=outcome.index,
        error_code=0 if error is None else error.code,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
        record_errors=record_errors,
        error_message=None if error is None else str(error),
    )
