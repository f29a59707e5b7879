"""Produce requests and answers as flat values: what is on the path of every record has no message objects on it.

    produce, end = scan(version, 20_000, frame, position)   # (transactional id, acks, timeout_ms, topics)
    for topic, partitions in produce.topics:          # a name, or from version 13 on an id
        for index, records in partitions: ...         # the records are a slice of the frame
    buffers = write(version, answers)                 # answers: per topic its Outcomes
    requests = scan_run(version, 20_000, frames, position)  # frames that came together, and
    content = write_run(version, frames, all_answers)       # their answers as whole frames
    simple = scan_simple(version, frames, position)         # the same where all are for one partition and nothing
    content = write_appended(version, frames, ...)          # is unusual: see simple.py
    run = scan_plain_run(version, frames, position)         # the same where they are for partitions of one topic:
    content = write_placed(version, frames, ...)            # see plain.py

This is the readable twin: a flat value is what is left of a ProduceRequest when its fields are read, and an answer is a
ProduceResponse with these fields. The native twin (_produce_frames.pyx) reads and writes the bytes in one pass where
nothing is unusual: no unknown tags on the way in, no error on the way out. Everything else it leaves to this file, and
so does a frame that cannot be read: the reference codec explains why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ottla.errors import BrokerError, MalformedMessage
from ottla.light_tuples import NamedTuple
from ottla.net.framing import frame_prefix
from ottla.protocol.compile_decode import FAILURES
from ottla.protocol.compiled import decoder, encode
from ottla.protocol.header import response_header_version
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.schema import Buffer
from ottla.records.checks import PlacedBatch
from ottla.records.layout import ATTRIBUTES_AT, HEADER_BYTES

UNREADABLE = (*FAILURES, MalformedMessage)
API_KEY = 0
TOPIC_IDS_SINCE = 13
ACKS_ALL = -1
SIMPLE_ENTRIES = 2  # a topic and a partition
PLAIN_ENTRIES = 257  # a topic and MANY_PARTITIONS of append.py
CODEC_AT = ATTRIBUTES_AT + 1
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


class ProduceResult:
    """What became of the records for one partition; changes until it is written."""

    __slots__ = ("base_offset", "error", "index", "log_append_time_ms", "log_start_offset")

    def __init__(
        self,
        index: int,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        error: BrokerError | None = None,
    ) -> None:
        self.index = index
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.error = error

    def refuse(self, error: BrokerError) -> None:
        """What was appended is not acknowledged after all."""
        self.base_offset = -1
        self.error = error


ProduceResults: TypeAlias = list[tuple[Topic, list[ProduceResult]]]


class SimpleProduce(NamedTuple):
    """Requests that came together and differ in nothing but their records."""

    acks: int
    timeout_ms: int
    topic: Topic
    partition: int
    records: list[memoryview]


class PlainRun(NamedTuple):
    """Requests that came together for partitions of one topic, with nothing unusual in them."""

    acks: int
    timeout_ms: int
    topic: Topic
    parts: dict[int, list[memoryview]]
    """By partition, its batches in the order of the requests."""
    orders: list[list[int]]
    """The partitions of each request, as they stand in it."""


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


def write_run(version: int, frames: Sequence[memoryview], all_answers: Sequence[ProduceResults]) -> bytes:
    """Whole frames with the answers to the requests in `frames`, one after the other."""
    header_version = response_header_version(API_KEY, version)
    content: list[Buffer] = []
    for frame, answers in zip(frames, all_answers, strict=True):
        tags = b"\0" if header_version else b""
        parts = [bytes(frame[CORRELATION_AT:HEADER_FIXED_BYTES]), tags, *write(version, answers)]
        content += (frame_prefix(parts), *parts)
    return b"".join(content)


def scan_simple(version: int, frames: Sequence[memoryview], position: int) -> SimpleProduce | None:
    """The simple requests at the front of `frames` that differ in nothing but their records; None without any.

    Simple is: it waits for an answer, has no transactional id, and has one partition with one batch that says of itself
    to be neither compressed nor part of a transaction; and its fields, written again, are the same bytes.
    """
    found: SimpleProduce | None = None
    for frame, request in zip(frames, scan_run(version, SIMPLE_ENTRIES, frames, position), strict=False):
        simple = _simple_of(version, request, frame[position:])
        if simple is None or (found is not None and simple[:-1] != found[:-1]):
            break
        if found is None:
            found = simple
        else:
            found.records.extend(simple.records)
    return found


def _simple_of(version: int, request: Produce, body: memoryview) -> SimpleProduce | None:
    if not _is_plain(version, request, body):
        return None
    [(topic, partitions)] = request.topics
    if len(partitions) != 1:
        return None
    [(index, records)] = partitions
    assert records is not None, "a plain request has records"
    return SimpleProduce(request.acks, request.timeout_ms, topic, index, [records])


def _is_plain(version: int, request: Produce, body: memoryview) -> bool:
    if request.transactional_id is not None or request.acks not in (ACKS_ALL, 1) or len(request.topics) != 1:
        return False
    [(topic, partitions)] = request.topics
    if not partitions:
        return False
    for _, records in partitions:
        if records is None or len(records) < HEADER_BYTES or records[CODEC_AT]:
            return False
    data = TopicProduceData(
        partition_data=[PartitionProduceData(index=index, records=each) for index, each in partitions]
    )
    if isinstance(topic, str):
        data.name = topic
    else:
        data.topic_id = topic
    again = ProduceRequest(acks=request.acks, timeout_ms=request.timeout_ms, topic_data=[data])
    return b"".join(encode(again, version)) == body


def scan_plain_run(version: int, frames: Sequence[memoryview], position: int) -> PlainRun | None:
    """The plain requests at the front of `frames` that have the same acks, time-out and topic; None without any.

    Plain is what simple is (`scan_simple`), but for any number of partitions of that topic, up to 256.
    """
    found: PlainRun | None = None
    for frame, request in zip(frames, scan_run(version, PLAIN_ENTRIES, frames, position), strict=False):
        if not _is_plain(version, request, frame[position:]):
            break
        [(topic, partitions)] = request.topics
        if found is None:
            found = PlainRun(request.acks, request.timeout_ms, topic, {}, [])
        elif (request.acks, request.timeout_ms, topic) != found[:3]:
            break
        for index, records in partitions:
            assert records is not None, "a plain request has records"
            found.parts.setdefault(index, []).append(records)
        found.orders.append([index for index, _ in partitions])
    return found


def write_appended(
    version: int,
    frames: Sequence[memoryview],
    topic: Topic,
    index: int,
    batches: Sequence[PlacedBatch],
    log_start_offset: int,
) -> bytes:
    """Whole frames that answer simple requests, from the first on: each batch was appended, and where."""
    answers: list[ProduceResults] = [
        [(topic, [ProduceResult(index, each.base_offset, log_start_offset=log_start_offset)])] for each in batches
    ]
    return write_run(version, frames[: len(batches)], answers)


def write_placed(
    version: int,
    frames: Sequence[memoryview],
    topic: Topic,
    orders: Sequence[Sequence[int]],
    placed: Mapping[int, Sequence[PlacedBatch]],
    log_starts: Mapping[int, int],
) -> bytes:
    """Whole frames that answer the requests of a PlainRun: each batch was appended, and where."""
    places = {index: iter(batches) for index, batches in placed.items()}
    answers: list[ProduceResults] = []
    for order in orders:
        outcomes = [
            ProduceResult(index, next(places[index]).base_offset, log_start_offset=log_starts[index]) for index in order
        ]
        answers.append([(topic, outcomes)])
    return write_run(version, frames[: len(orders)], answers)


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
