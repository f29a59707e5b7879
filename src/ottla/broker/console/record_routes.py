"""Records over HTTP: browse, find, follow, and write one.

A page of records goes with two cursors, texts like 0:120,1:88 (partition and offset): `before` for the page of older
records and `after` for that of newer ones. Following a topic is asking with `after` again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from ottla.broker.console.filters import BadFilter, Test, parse_filter, text_filter
from ottla.broker.console.needs import READ_TOPIC, WRITE_TOPIC
from ottla.broker.console.offsets import EARLIEST, LATEST, offsets_at
from ottla.broker.console.records import BATCH_RECORDS_MAX, OffsetRange, read_records
from ottla.broker.http.call import Call
from ottla.broker.http.parts import HttpError, Json, Query, Reply, Route, may, reply
from ottla.broker.registry.rights import ALL_SUBJECTS
from ottla.errors import UnknownTopicOrPartition, raise_for_code
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records import BatchBuilder, murmur2
from ottla.values import TopicPartition

PAGE: Final = 50
PAGE_LIMIT: Final = 500
SEARCHED: Final = 2_000
"""So many records are gone through for a page of older ones, when they are chosen by a filter."""
WHOLE_BYTES: Final = 1024 * 1024
END: Final = (1 << 63) - 1
PRODUCE_VERSION: Final = 12
PRODUCE_LIMIT_MS: Final = 10_000


async def read_page(call: Call) -> Reply:
    topic, limit = call.path["topic"], call.number("limit", PAGE, at_least=1, at_most=PAGE_LIMIT)
    indexes = _partitions(call, topic)
    test = _test(call)
    share = max(1, -(-(limit if test is None else SEARCHED) // len(indexes)))
    ranges, is_backward = await _ranges(call, topic, indexes, share)
    found = await read_records(
        call.broker,
        topic,
        ranges,
        limit=share if is_backward else limit,
        test=test,
        committed_only=call.query.get("isolation") == "committed",
        reads_schemas=_may_read_schemas(call),
    )
    records = sorted(found.records, key=_place)
    kept, left = (records[-limit:], records[:-limit]) if is_backward else (records[:limit], records[limit:])
    starts = {index: each.start for index, each in ranges.items()}
    value: dict[str, Json] = {
        "topic": topic,
        "records": kept,
        "before": _cursor(_older_than(starts, left) if is_backward else starts),
        "after": _cursor(found.reached if is_backward else _newer_than(found.reached, left)),
        "scanned": found.scanned,
        "is_tired": found.is_tired,
        "left_out": found.left_out,
    }
    return reply(value)


def _may_read_schemas(call: Call) -> bool:
    """Records are read by their schemas for those who may read these."""
    return call.may(READ_TOPIC, ALL_SUBJECTS)


def _place(record: Mapping[str, Json]) -> tuple[int, int, int]:
    timestamp, partition, offset = record["timestamp_ms"], record["partition"], record["offset"]
    assert isinstance(timestamp, int)
    assert isinstance(partition, int)
    assert isinstance(offset, int)
    return timestamp, partition, offset


def _newer_than(reached: Mapping[int, int], left: list[dict[str, Json]]) -> dict[int, int]:
    """Where to read on: before the first record of a partition that was read and is not on the page."""
    ends = dict(reached)
    for each in left:
        _, partition, offset = _place(each)
        ends[partition] = min(ends[partition], offset)
    return ends


def _older_than(starts: Mapping[int, int], left: list[dict[str, Json]]) -> dict[int, int]:
    """Where the page of older records ends: behind the last of those that are not on this one."""
    ends = dict(starts)
    for each in left:
        _, partition, offset = _place(each)
        ends[partition] = max(ends[partition], offset + 1)
    return ends


async def _ranges(call: Call, topic: str, indexes: list[int], share: int) -> tuple[dict[int, OffsetRange], bool]:
    """What to read of each partition, and whether it is a page that ends where a cursor or the log ends."""
    names = [TopicPartition(topic, index) for index in indexes]
    starts = {name.partition: offset for name, offset in (await offsets_at(call, names, EARLIEST)).items()}
    if after := call.query.get("after", ""):
        cursor = _parsed_cursor(after)
        chosen = {index: max(cursor.get(index, start), start) for index, start in starts.items()}
        return {index: OffsetRange(start, END) for index, start in chosen.items()}, False
    if before := call.query.get("before", ""):
        ends = _parsed_cursor(before)
        return _pages_before({index: ends.get(index, start) for index, start in starts.items()}, starts, share), True
    origin = call.query.get("from", "latest")
    if origin == "offset":
        wanted = call.number("offset", 0)
        return {index: OffsetRange(max(wanted, start), END) for index, start in starts.items()}, False
    if origin == "time":
        moments = await offsets_at(call, names, call.number("timestamp", 0))
        chosen = {name.partition: offset for name, offset in moments.items() if name.partition in starts}
        return {index: OffsetRange(start, END) for index, start in chosen.items()}, False
    if origin == "earliest":
        return {index: OffsetRange(start, END) for index, start in starts.items()}, False
    if origin != "latest":
        raise HttpError(HTTPStatus.BAD_REQUEST, "from is latest, earliest, offset or time")
    latest = {name.partition: offset for name, offset in (await offsets_at(call, names, LATEST)).items()}
    return _pages_before({index: latest.get(index, start) for index, start in starts.items()}, starts, share), True


def _pages_before(ends: Mapping[int, int], starts: Mapping[int, int], share: int) -> dict[int, OffsetRange]:
    return {index: OffsetRange(max(starts[index], end - share), end) for index, end in ends.items()}


def _partitions(call: Call, topic: str) -> list[int]:
    count = call.broker.image.partition_count(topic)
    if count is None:
        raise UnknownTopicOrPartition(f"there is no topic {topic!r}")
    if not call.query.get("partition"):
        return list(range(count))
    index = call.number("partition", 0)
    if index >= count:
        raise UnknownTopicOrPartition(f"{topic} has {count} partitions, and no number {index}")
    return [index]


def _test(call: Call) -> Test | None:
    text, expression = call.query.get("text", ""), call.query.get("filter", "")
    tests: list[Test] = []
    if text:
        tests.append(text_filter(text))
    if expression.strip():
        try:
            tests.append(parse_filter(expression))
        except BadFilter as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error), name="BAD_FILTER") from None
    return None if not tests else tests[0] if len(tests) == 1 else lambda record: all(test(record) for test in tests)


def _cursor(offsets: Mapping[int, int]) -> str:
    return ",".join(f"{index}:{offset}" for index, offset in sorted(offsets.items()))


def _parsed_cursor(text: str) -> dict[int, int]:
    try:
        pairs = (each.split(":") for each in text.split(","))
        return {int(index): int(offset) for index, offset in pairs}
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, "a cursor is partition:offset, separated by commas") from None


async def read_one(call: Call) -> Reply:
    """One record, whole up to WHOLE_BYTES."""
    topic, index = call.path["topic"], call.index("partition")
    if not call.path["offset"].isdigit():
        raise HttpError(HTTPStatus.NOT_FOUND, "an offset is a whole number")
    offset = int(call.path["offset"])
    found = await read_records(
        call.broker,
        topic,
        {index: OffsetRange(offset, offset + 1)},
        limit=1,
        limit_bytes=WHOLE_BYTES,
        reads_schemas=_may_read_schemas(call),
    )
    if found.left_out:
        what = f"offset {offset} of {topic}-{index} is in a batch of {found.left_out} records"
        why = f"{what}; those with more than {BATCH_RECORDS_MAX} are not looked into. A consumer can read it."
        raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, why, name="BATCH_TOO_LARGE")
    if not found.records:
        raise HttpError(HTTPStatus.NOT_FOUND, f"there is no record at offset {offset} of {topic}-{index}")
    return reply(found.records[0])


# -- writing one ------------------------------------------------------------------------------------------------------


async def write_one(call: Call) -> Reply:
    topic, sent = call.path["topic"], call.json()
    count = call.broker.image.partition_count(topic)
    if count is None:
        raise UnknownTopicOrPartition(f"there is no topic {topic!r}")
    key, value = _bytes_of(sent, "key"), _bytes_of(sent, "value")
    index = sent.get("partition")
    if index is None:
        index = (murmur2(key) & 0x7FFFFFFF) % count if key is not None else 0
    if not isinstance(index, int) or not 0 <= index < count:
        raise UnknownTopicOrPartition(f"{topic} has {count} partitions, and no number {index!r}")
    builder = BatchBuilder()
    builder.append(call.broker.clock.now_ms(), key, value, _headers_of(sent))
    answer = await _produce(call, topic, index, bytes(builder.close()))
    (partition,) = [each for one in answer.responses for each in one.partition_responses]
    raise_for_code(partition.error_code, partition.error_message)
    return reply({"topic": topic, "partition": index, "offset": partition.base_offset}, HTTPStatus.CREATED)


async def _produce(call: Call, topic: str, index: int, batch: bytes) -> ProduceResponse:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=PRODUCE_LIMIT_MS, topic_data=[data])
    if not call.broker.link.leads_elsewhere(topic, index):
        return await call.ask_by_bytes(request, ProduceResponse, PRODUCE_VERSION)
    data.topic_id = call.broker.image.topic_id(topic) or data.topic_id
    answer = await call.broker.link.ask_leader(topic, index, request)
    assert isinstance(answer, ProduceResponse)
    return answer


def _bytes_of(sent: Mapping[str, Json], name: str) -> bytes | None:
    found = sent.get(name)
    if found is None:
        return None
    if not isinstance(found, str):
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{name} is a text, or null")
    return found.encode()


def _headers_of(sent: Mapping[str, Json]) -> list[tuple[str, bytes | None]]:
    found = sent.get("headers") or {}
    if not isinstance(found, Mapping) or not all(isinstance(each, str | None) for each in found.values()):
        raise HttpError(HTTPStatus.BAD_REQUEST, "headers are an object of texts")
    return [(name, None if value is None else str(value).encode()) for name, value in found.items()]


BROWSE: Final = (
    Query("partition", "Only this one; all without it.", "integer"),
    Query("from", "latest, earliest, offset or time."),
    Query("offset", "With from=offset.", "integer"),
    Query("timestamp", "With from=time, in ms since 1970.", "integer"),
    Query("before", "A cursor: the page of older records."),
    Query("after", "A cursor: the page of newer records, to follow a topic."),
    Query("limit", f"How many records, at most {PAGE_LIMIT}.", "integer"),
    Query("text", "Only records with this text in key, value or a header."),
    Query("filter", "Only records that this expression is true of, for example value.total > 100."),
    Query("isolation", "committed leaves out what transactions did not commit."),
)
RECORD: Final = {
    "key": "a text, or null",
    "value": "a text, or null",
    "headers": "an object of texts",
    "partition": "its number; by the key without it",
}
ROUTES: Final = (
    Route("GET", "/api/topics/{topic}/records", read_page, may(READ_TOPIC, "topic"), "A page of records.", BROWSE),
    Route(
        "GET",
        "/api/topics/{topic}/partitions/{partition}/records/{offset}",
        read_one,
        may(READ_TOPIC, "topic"),
        "One record, whole.",
    ),
    Route("POST", "/api/topics/{topic}/records", write_one, may(WRITE_TOPIC, "topic"), "Write a record.", body=RECORD),
)
