"""Records of a topic for somebody who wants to see them: by offset, by time, newest first, chosen by a filter.

    found = await read_records(broker, topic, ranges, limit=50, test=parse_filter("value.total > 100"))

1. Reading is bounded: SCAN_RECORDS records and SCAN_BYTES bytes for each call, then the answer says how far it came and
   whoever wants more asks again from there. No consumer, no group, no offset is involved.
2. A copy that this broker has is read here; otherwise the leader is asked. Only what is committed is shown; with
   `committed_only` also not what belongs to a transaction that is open or was aborted.
3. Disks are read in a thread, batches are decoded one at a time with a turn for others in between; large or compressed
   ones in a thread, by native code.
4. Keys and values that name a schema are read by it (registry/readers.py), if `reads_schemas`: in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.broker.console.contents import SHOWN_LIMIT_BYTES, shown, shown_read
from ottla.broker.console.filters import NOTHING_READ, BothRead, Candidate, Test
from ottla.broker.http.parts import Json
from ottla.broker.requests.pacing import Pace
from ottla.errors import CorruptMessage, NotLeaderOrFollower, OffsetOutOfRange, UnknownTopicOrPartition, raise_for_code
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.records import RecordBatch, RecordStream
from ottla.records.batch import Record
from ottla.records.layout import TimestampType
from ottla.records.stream import MessageSet
from ottla.storage.log.read import UpTo

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.registry.readers import ReadRecord, SchemaReaders

SCAN_RECORDS: Final = 20_000
SCAN_BYTES: Final = 8 * 1024 * 1024
READ_BYTES: Final = 256 * 1024
DECODED_LIMIT_BYTES: Final = 16 * 1024 * 1024
APART_BYTES: Final = 64 * 1024
BATCH_RECORDS_MAX: Final = 200_000
"""A larger batch is passed over: a megabyte of compressed bytes can have more than a million records, and making them
is one call into C that keeps the interpreter's lock."""
HEADERS_SHOWN: Final = 500
"""Of one record; a megabyte has room for a hundred thousand."""
CONSUMER: Final = -1
READ_APART: Final = 50
"""So many records are read by their schemas at once, in a thread, and tested between two turns for others."""


class OffsetRange(NamedTuple):
    """Of one partition: from `start` on, before `stop`."""

    start: int
    stop: int


class Piece(NamedTuple):
    """Bytes of a log, and the transactions in them that were aborted: producer id and first offset."""

    content: bytes
    aborted: list[tuple[int, int]]


@dataclass
class Found:
    """What a reading came to."""

    records: list[dict[str, Json]] = field(default_factory=list)
    reached: dict[int, int] = field(default_factory=dict)
    """By partition, where to read on."""
    scanned: int = 0
    left_out: int = 0
    """Records in batches that are too large to be looked into."""
    scanned_bytes: int = 0

    @property
    def is_tired(self) -> bool:
        return self.scanned >= SCAN_RECORDS or self.scanned_bytes >= SCAN_BYTES


async def read_records(
    broker: Broker,
    topic: str,
    ranges: Mapping[int, OffsetRange],
    *,
    limit: int,
    test: Test | None = None,
    committed_only: bool = False,
    limit_bytes: int = SHOWN_LIMIT_BYTES,
    reads_schemas: bool = True,
) -> Found:
    """Up to `limit` records of each partition's range, oldest first; all partitions get their share of the scan."""
    found = Found(reached={index: each.start for index, each in ranges.items()})
    readers = broker.schema_registry.readers if reads_schemas else None
    with broker.pacing.turn() as pace:
        for index, each in ranges.items():
            reading = _Reading(broker, topic, index, committed_only, pace, limit_bytes, readers)
            await reading.into(found, each, len(found.records) + limit, test)
            if found.is_tired:
                break
    return found


class _Reading:
    """One partition."""

    def __init__(
        self,
        broker: Broker,
        topic: str,
        index: int,
        committed_only: bool,
        pace: Pace,
        limit_bytes: int,
        readers: SchemaReaders | None,
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._index = index
        self._committed_only = committed_only
        self._pace = pace
        self._limit_bytes = limit_bytes
        self._readers = readers

    async def into(self, found: Found, wanted: OffsetRange, enough: int, test: Test | None) -> None:
        offset = wanted.start
        while offset < wanted.stop and len(found.records) < enough and not found.is_tired:
            piece = await self._piece(offset)
            found.scanned_bytes += len(piece.content)
            before, isolation = offset, _Isolation(piece.aborted)
            for batch in RecordStream(piece.content):
                is_shown = isolation.shows(batch)
                if batch.next_offset <= offset:
                    continue
                if is_shown:
                    offset = await self._batch(found, batch, OffsetRange(offset, wanted.stop), enough, test)
                else:
                    offset = batch.next_offset
                await self._pace.step()
                if offset >= wanted.stop or len(found.records) >= enough or found.is_tired:
                    break
            if offset == before:
                break  # nothing more is committed
        found.reached[self._index] = min(offset, wanted.stop)

    async def _piece(self, offset: int) -> Piece:
        return await read_piece(self._broker, self._topic, self._index, offset, committed_only=self._committed_only)

    async def _batch(
        self, found: Found, batch: RecordBatch | MessageSet, wanted: OffsetRange, enough: int, test: Test | None
    ) -> int:
        """Where to read on behind what was taken of the batch."""
        if isinstance(batch, RecordBatch) and batch.record_count > BATCH_RECORDS_MAX:
            found.left_out += batch.record_count
            return min(batch.next_offset, wanted.stop)
        records = await _decoded(self._broker, batch)
        inside = [each for each in records if wanted.start <= each.offset < wanted.stop]
        has_schemas = await self._prepare(inside)
        for start in range(0, len(inside), READ_APART):
            for record, read in await self._read(inside[start : start + READ_APART], has_schemas):
                if len(found.records) >= enough:
                    return record.offset
                found.scanned += 1
                if test is None or test(Candidate(self._index, *record, read)):
                    found.records.append(self._row(record, batch, read))
                await self._pace.step()  # one alone may be a megabyte of JSON
        return min(batch.next_offset, wanted.stop)

    async def _read(self, records: list[Record], has_schemas: bool) -> list[tuple[Record, BothRead]]:
        """Records with their keys and values read by the schemas that they name."""
        if self._readers is None or not has_schemas:
            return [(each, NOTHING_READ) for each in records]
        self._pace.release()
        return await self._broker.pacing.apart(_read_all, self._readers, records)

    async def _prepare(self, records: Iterable[Record]) -> bool:
        """Whether records name schemas; these are asked for now."""
        if self._readers is None:
            return False
        from ottla.broker.registry.readers import framed_id

        named = {framed_id(content) for record in records for content in (record.key, record.value)} - {None}
        if named:
            self._pace.release()  # the registry may want the turn itself
            subjects = f"{self._topic}-key", f"{self._topic}-value"
            await self._readers.prepare((each for each in named if each is not None), subjects)
        return bool(named)

    def _shown(self, content: bytes | None, side: str, found: ReadRecord | None) -> dict[str, Json]:
        return shown_read(content, found, f"{self._topic}-{side}", self._limit_bytes)

    def _row(self, record: Record, batch: RecordBatch | MessageSet, read: BothRead) -> dict[str, Json]:
        headers: list[Json] = [{"name": name, **shown(value, 2_048)} for name, value in record.headers[:HEADERS_SHOWN]]
        row: dict[str, Json] = {
            "partition": self._index,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "key": self._shown(record.key, "key", read.key),
            "value": self._shown(record.value, "value", read.value),
            "headers": headers,
        }
        if len(record.headers) > HEADERS_SHOWN:
            row["header_count"] = len(record.headers)
        if isinstance(batch, RecordBatch):
            row["is_append_time"] = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
            row["producer_id"] = batch.producer_id if batch.producer_id >= 0 else None
            row["is_transactional"] = batch.is_transactional
        return row


def _read_all(readers: SchemaReaders, records: Iterable[Record]) -> list[tuple[Record, BothRead]]:
    return [(each, BothRead(readers.read(each.key), readers.read(each.value))) for each in records]


class _Isolation:
    """Leaves out markers, and batches of aborted transactions: a producer's from its first offset to its marker."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda each: each[1])
        self._aborted: set[int] = set()

    def shows(self, batch: RecordBatch | MessageSet) -> bool:
        while self._coming and self._coming[0][1] <= batch.last_offset:
            self._aborted.add(self._coming.pop(0)[0])
        if batch.is_control:
            self._aborted.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborted)


async def _decoded(broker: Broker, batch: RecordBatch | MessageSet) -> list[Record]:
    try:
        if batch.size_bytes > APART_BYTES or (isinstance(batch, RecordBatch) and batch.compression):
            return await broker.pacing.apart(batch.records, DECODED_LIMIT_BYTES)
        return batch.records(DECODED_LIMIT_BYTES)
    except CorruptMessage:
        return []  # what cannot be read is passed over, as a consumer that skips would do; `inside` shows the batch


# -- bytes ------------------------------------------------------------------------------------------------------------


async def read_piece(broker: Broker, topic: str, index: int, offset: int, *, committed_only: bool) -> Piece:
    """Bytes from the batch that holds `offset` on; empty when nothing more is committed."""
    partition = broker.replicas.get((topic, index))
    if partition is None or partition.offline is not None:
        return await _ask_leader(broker, topic, index, offset, committed_only)
    up_to: UpTo = "last_stable" if committed_only else "high_watermark"
    result = partition.log.read(
        max(offset, partition.log.log_start_offset), READ_BYTES, up_to=up_to, at_least_one_batch=True
    )
    if not len(result.slice):
        return Piece(b"", [])
    content = await broker.pacing.apart(result.slice.read)
    return Piece(content, [(each.producer_id, each.first_offset) for each in result.aborted or ()])


async def _ask_leader(broker: Broker, topic: str, index: int, offset: int, committed_only: bool) -> Piece:
    from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

    found = broker.image.topic(topic)
    if found is None or not 0 <= index < len(found.partitions):
        raise UnknownTopicOrPartition(f"there is no partition {topic}-{index}")
    if not broker.link.leads_elsewhere(topic, index):
        raise NotLeaderOrFollower(f"{topic}-{index} has no leader that could be asked")
    wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=READ_BYTES)
    request = FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=READ_BYTES,
        isolation_level=int(committed_only),
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, topic_id=found.id, partitions=[wanted])],
        forgotten_topics_data=[],
    )
    answer = await broker.link.ask_leader(topic, index, request)
    assert isinstance(answer, FetchResponse)
    raise_for_code(answer.error_code)
    found_here = [each for one in answer.responses for each in one.partitions]
    if not found_here or found_here[0].error_code == OffsetOutOfRange.code:
        return Piece(b"", [])
    data = found_here[0]
    raise_for_code(data.error_code)
    content = b"" if data.records is None else bytes(data.records)
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    return Piece(content, aborted)
