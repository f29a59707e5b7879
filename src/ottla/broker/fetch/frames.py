"""Fetch requests and answers as flat values, at both ends of a copy: what a follower asks, and what its leader says.

    frame = write_asked(version, id, ...)             # the follower's request, size and header with it
    asked = scan_asked(version, frame, position)      # the same at the leader
    parts = write_fetched(version, session_id, rows)  # the leader's answer: bytes, and slices of files between them
    fetched = scan_fetched(version, frame)            # the same at the follower, records as views into the frame

1. Only what is simple: topics by id (version 13 on), a request of a session that goes on and forgets nothing, an answer
   without errors, tags and aborted transactions; and its fields, written again, are the same bytes. That is what goes
   between brokers all the time. Whatever else there is, the messages say, and `scan_...` says None.
2. This is the readable twin: a flat value is what is left of a message when its fields are read. The native twin
   (_frames.pyx) reads and writes the bytes in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias, cast

from ottla.broker.fetch.sessions import FetchPosition
from ottla.errors import MalformedMessage
from ottla.light_tuples import NamedTuple
from ottla.net.framing import frame_prefix
from ottla.protocol.compile_decode import FAILURES
from ottla.protocol.compiled import decoder, encode
from ottla.protocol.header import around_correlation_id
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from ottla.protocol.schema import Buffer
from ottla.storage.segment.records_file import FileSlice

API_KEY: Final = 1
TOPIC_IDS_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15
ENTRIES: Final = 4_096  # topics and partitions of a simple request or answer
ANSWER_HEADER_BYTES: Final = 5  # correlation id and tags, which are always empty
UNREADABLE: Final = (*FAILURES, MalformedMessage)

AskedRow: TypeAlias = tuple[bytes, int, FetchPosition]
"""Topic id, partition, and what is wanted of it."""
FetchedRow: TypeAlias = tuple[bytes, int, int, int, int, Buffer]
"""Topic id, partition, high watermark, last stable offset, log start, records."""
SentRow: TypeAlias = tuple[bytes, int, int, int, int, Buffer | FileSlice]
"""The same where it comes from."""


class Terms(NamedTuple):
    """What all requests of one follower have in common."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class SimpleAsked(NamedTuple):
    """A request of a session that goes on."""

    replica_id: int  # -1: a consumer
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    rows: list[AskedRow]

    def message(self, version: int) -> FetchRequest:
        """The same as a message."""
        return _request_of(version, self)


class SimpleFetched(NamedTuple):
    """An answer in which nothing went wrong, as it came."""

    session_id: int
    rows: list[FetchedRow]


class SimpleAnswer(NamedTuple):
    """The same before it leaves."""

    session_id: int
    rows: list[SentRow]

    @property
    def error_code(self) -> int:
        """As a FetchResponse has it."""
        return 0


# -- the request -----------------------------------------------------------------------------------------------------


def scan_asked(version: int, frame: Buffer, position: int) -> SimpleAsked | None:
    """The request whose body begins at `position`, if it is simple."""
    if version < TOPIC_IDS_SINCE:
        return None
    try:
        request, end = decoder(FetchRequest, version)(frame, position, ENTRIES)
    except UNREADABLE:
        return None
    is_recent = version >= REPLICA_STATE_SINCE
    asked = SimpleAsked(
        request.replica_state.replica_id if is_recent else request.replica_id,
        request.replica_state.replica_epoch if is_recent else -1,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [
            (
                topic.topic_id,
                each.partition,
                FetchPosition(
                    each.fetch_offset,
                    each.partition_max_bytes,
                    each.current_leader_epoch,
                    each.last_fetched_epoch,
                    each.log_start_offset,
                ),
            )
            for topic in request.topics
            for each in topic.partitions
        ],
    )
    if end != len(frame) or asked.session_epoch <= 0 or not all(topic.partitions for topic in request.topics):
        return None
    # One that names a topic in two places has more topics than rows that follow each other.
    if len(request.topics) != sum(1 for _ in groupby(asked.rows, itemgetter(0))):
        return None
    return asked if b"".join(encode(_request_of(version, asked), version)) == memoryview(frame)[position:] else None


def _request_of(version: int, asked: SimpleAsked) -> FetchRequest:
    request = FetchRequest(
        max_wait_ms=asked.max_wait_ms,
        min_bytes=asked.min_bytes,
        max_bytes=asked.max_bytes,
        isolation_level=asked.isolation_level,
        session_id=asked.session_id,
        session_epoch=asked.session_epoch,
        topics=[
            FetchTopic(topic_id=topic_id, partitions=[_partition_of(index, at) for _, index, at in rows])
            for topic_id, rows in groupby(asked.rows, itemgetter(0))
        ],
    )
    if version >= REPLICA_STATE_SINCE:
        request.replica_state = ReplicaState(replica_id=asked.replica_id, replica_epoch=asked.replica_epoch)
    else:
        request.replica_id = asked.replica_id
    return request


def _partition_of(index: int, at: FetchPosition) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=at.current_leader_epoch,
        fetch_offset=at.fetch_offset,
        last_fetched_epoch=at.last_fetched_epoch,
        log_start_offset=at.log_start_offset,
        partition_max_bytes=at.max_bytes,
    )


def write_asked(
    version: int,
    correlation_id: int,
    client_id: str | None,
    terms: Terms,
    broker_epoch: int,
    session_id: int,
    session_epoch: int,
    topics: Mapping[bytes, Sequence[tuple[int, tuple[bytes, int, int, int, int]]]],
) -> bytes:
    """The whole frame of a follower's request. `topics` has by id the partitions, each with a Position of
    replication/fetch_plan.py."""
    rows = [
        (topic_id, index, FetchPosition(at[2], terms.partition_max_bytes, at[1], at[3], at[4]))
        for topic_id, partitions in topics.items()
        for index, at in partitions
    ]
    replica_epoch = broker_epoch if version >= REPLICA_STATE_SINCE else -1
    limits = terms.max_wait_ms, terms.min_bytes, terms.max_bytes
    asked = SimpleAsked(terms.replica_id, replica_epoch, *limits, 0, session_id, session_epoch, rows)
    before, after = around_correlation_id(API_KEY, version, client_id)
    parts = [before, correlation_id.to_bytes(4, "big", signed=True), after, *encode(asked.message(version), version)]
    return b"".join((frame_prefix(parts), *parts))


# -- the answer ------------------------------------------------------------------------------------------------------


def write_fetched(version: int, session_id: int, rows: Sequence[SentRow]) -> list[Buffer | FileSlice]:
    """The body of an answer in which nothing went wrong: bytes, and the records as they came between them."""
    return [*encode(_response_of(session_id, rows), version)]


def scan_fetched(version: int, frame: Buffer) -> SimpleFetched | None:
    """What the frame of an answer says, if it is simple."""
    if version < TOPIC_IDS_SINCE or len(frame) < ANSWER_HEADER_BYTES or frame[ANSWER_HEADER_BYTES - 1]:
        return None
    try:
        response, end = decoder(FetchResponse, version)(frame, ANSWER_HEADER_BYTES, ENTRIES)
    except UNREADABLE:
        return None
    rows: list[FetchedRow] = []
    for topic in response.responses:
        for each in topic.partitions:
            if each.records is None:
                return None
            ends = each.high_watermark, each.last_stable_offset, each.log_start_offset
            rows.append((topic.topic_id, each.partition_index, *ends, each.records))
    fetched = SimpleFetched(response.session_id, rows)
    if end != len(frame) or not all(topic.partitions for topic in response.responses):
        return None
    if len(response.responses) != sum(1 for _ in groupby(rows, itemgetter(0))):
        return None
    again = b"".join(encode(_response_of(fetched.session_id, rows), version))
    return fetched if again == memoryview(frame)[ANSWER_HEADER_BYTES:] else None


def _response_of(session_id: int, all_rows: Sequence[SentRow]) -> FetchResponse:
    return FetchResponse(
        session_id=session_id,
        responses=[
            FetchableTopicResponse(topic_id=topic_id, partitions=[_data_of(row) for row in rows])
            for topic_id, rows in groupby(all_rows, itemgetter(0))
        ],
    )


def _data_of(row: SentRow) -> PartitionData:
    return PartitionData(
        partition_index=row[1],
        error_code=0,
        high_watermark=row[2],
        last_stable_offset=row[3],
        log_start_offset=row[4],
        aborted_transactions=None,
        records=cast("memoryview", row[5]),  # only its length is asked for
    )
