"""ConsumerRecord and FetchedRecords: bytes of one partition from one fetch answer. The readable twin of _records.pyx.

The loop that fetches touches no record. It keeps the bytes as FetchedRecords, and the caller of poll() takes records
out of them, in its own thread, as many as it wants:

1. `take` returns records from `next_offset` on and stops at a limit, inside a batch if need be. A batch is proved by
   its CRC and decompressed once, when it is opened.
2. What is not for users is passed over: control batches, aborted transactions (isolation.py), offsets that compaction
   took. `next_offset` moves over them too, so that a position never stands still before a gap.
3. A batch cut off at the end is left out: it comes again, whole, with the next fetch.
4. A record that cannot be read or deserialized stays where it is: the records before it are handed out, the next call
   raises, with topic, partition and offset, and so does every call after it until the user seeks.
5. `span` returns whole batches as bytes, for columns; `advance` says that they were read.
6. Offsets of a batch are not under its CRC. One that ends behind the beginning of the next is not handed out: the
   offsets of one of the two rotted.
7. Message sets v0 and v1 are read by the same calls, all of a message at once, and have no spans.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.consumer.isolation import CommittedOnly
from ottla.client.consumer.record_errors import corrupt_at, undeserializable
from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records.batch import RecordBatch, RecordTuple
from ottla.records.header import Buffer, view_of
from ottla.records.layout import DECOMPRESSED_LIMIT_BYTES, LOG_OVERHEAD_BYTES, MAGIC_KNOWN_BYTES, TimestampType
from ottla.records.stream import MessageSet, RecordStream
from ottla.values import Header

Deserialize = Callable[[str, "bytes | None"], Any]


class ConsumerRecord:
    """One record as a consumer gets it."""

    __slots__ = (
        "_headers",
        "_leader_epoch",
        "_timestamp_type",
        "key",
        "offset",
        "partition",
        "serialized_key_size",
        "serialized_value_size",
        "timestamp_ms",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: Any = None,
        value: Any = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        *,
        timestamp_ms: int = -1,
        timestamp_type: int = 0,
        leader_epoch: int | None = None,
        serialized_key_size: int = -1,
        serialized_value_size: int = -1,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self._headers = headers
        self.timestamp_ms = timestamp_ms
        self._timestamp_type = timestamp_type
        self._leader_epoch = leader_epoch
        self.serialized_key_size = serialized_key_size
        self.serialized_value_size = serialized_value_size

    @property
    def headers(self) -> tuple[Header, ...]:
        """Names and values in their order; a name may come twice."""
        return tuple(Header(*each) for each in self._headers)

    @property
    def timestamp(self) -> int:
        """The same as timestamp_ms, under kafka-python's name."""
        return self.timestamp_ms

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(self._timestamp_type)

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the leader that wrote the record; None when it is not known."""
        return self._leader_epoch

    def _as_tuple(self) -> tuple[Any, ...]:
        sizes = (self.serialized_key_size, self.serialized_value_size)
        times = (self.timestamp_ms, int(self._timestamp_type), self._leader_epoch)
        return (self.topic, self.partition, self.offset, self.key, self.value, self.headers, *times, *sizes)

    def __eq__(self, other: object) -> bool:
        return self._as_tuple() == other._as_tuple() if isinstance(other, ConsumerRecord) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))

    def __repr__(self) -> str:
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r}, timestamp_ms={self.timestamp_ms})"
        )


class Span(NamedTuple):
    """Whole batches: their bytes, the first offset that is wanted of them, and where to go on behind them."""

    data: memoryview
    from_offset: int
    next_offset: int
    position: int
    leader_epoch: int


def end_offset_of(data: Buffer, fetch_offset: int) -> int:
    """The offset after the last whole batch, where the next fetch goes on; `fetch_offset` when there is none."""
    end = fetch_offset
    try:
        position, view = 0, view_of(data)
        for batch in RecordStream(data):
            _check_order(view, position, batch)
            position += batch.size_bytes
            end = batch.next_offset
    except CorruptMessage:
        pass  # whoever reads the records meets the damage and says where
    return max(end, fetch_offset)


class FetchedRecords:
    """Records of one partition from one fetch answer, handed out piece by piece."""

    def __init__(
        self,
        topic: str,
        partition: int,
        data: Buffer,
        fetch_offset: int,
        *,
        isolation: CommittedOnly | None = None,
        check_crcs: bool = True,
        limit_bytes: int = DECOMPRESSED_LIMIT_BYTES,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = fetch_offset
        self.size_bytes = len(view_of(data))
        self._view = view_of(data)
        self._isolation = isolation
        self._check_crcs = check_crcs
        self._limit_bytes = limit_bytes
        self._position = 0
        self._leader_epoch = -1
        self._batch: RecordBatch | MessageSet | None = None
        self._records: list[RecordTuple] = []
        self._damage: CorruptMessage | None = None  # what stands behind them
        self._index = 0

    @property
    def leader_epoch(self) -> int | None:
        """The epoch of the last record that was handed out or passed over; None before the first."""
        return None if self._leader_epoch < 0 else self._leader_epoch

    @property
    def is_drained(self) -> bool:
        """Whether nothing whole is left; what is cut off at the end comes again with the next fetch."""
        try:
            return self._batch is None and self._next_batch(self._position) is None
        except CorruptMessage:
            return False

    def own(self) -> FetchedRecords:
        """Copy what is left, so that the frame it came in can go."""
        same = FetchedRecords(
            self.topic,
            self.partition,
            bytes(self._view[self._position :]),
            self.next_offset,
            isolation=self._isolation,
            check_crcs=self._check_crcs,
            limit_bytes=self._limit_bytes,
        )
        # The batch that is open is opened again: records before next_offset are passed over, and the isolation, which
        # has seen it, gives the same answer for it a second time.
        same._leader_epoch = self._leader_epoch
        return same

    def take(
        self,
        limit: int,
        found: list[ConsumerRecord] | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> list[ConsumerRecord]:
        """Up to `limit` records altogether in `found`, new ones at its end. An error is raised only when `found` is
        empty, so that what came before it is handed out first; the next call meets it again."""
        found = [] if found is None else found
        try:
            while len(found) < limit and (batch := self._batch or self._open_next()) is not None:
                if not self._take_records(batch, limit, found, key_deserializer, value_deserializer):
                    break
        except CorruptMessage as error:
            if not found:
                raise corrupt_at(self.topic, self.partition, self.next_offset, error) from error
        return found

    def _take_records(
        self,
        batch: RecordBatch | MessageSet,
        limit: int,
        found: list[ConsumerRecord],
        key_deserializer: Deserialize | None,
        value_deserializer: Deserialize | None,
    ) -> bool:
        """Records of the open batch; False when a record cannot be deserialized and others go first."""
        while len(found) < limit and self._index < len(self._records):
            offset, timestamp_ms, key, value, headers = self._records[self._index]
            if offset >= self.next_offset:
                record = ConsumerRecord(
                    self.topic,
                    self.partition,
                    offset,
                    key,
                    value,
                    headers,
                    timestamp_ms=timestamp_ms,
                    timestamp_type=batch.timestamp_type if isinstance(batch, RecordBatch) else 0,
                    leader_epoch=_epoch_or_none(batch),
                    serialized_key_size=-1 if key is None else len(key),
                    serialized_value_size=-1 if value is None else len(value),
                )
                if not _deserialize(record, found, key_deserializer, value_deserializer):
                    return False
                found.append(record)
                self.next_offset = offset + 1
                # Also in the middle of a batch: a new leader is asked where the epoch of the last record ends.
                self._leader_epoch = batch.leader_epoch if isinstance(batch, RecordBatch) else -1
            self._index += 1
        if self._index >= len(self._records):
            if self._damage is not None:
                raise self._damage
            self._pass(batch)
        return True

    # --- batch by batch ---

    def _next_batch(self, position: int) -> RecordBatch | MessageSet | None:
        rest = self._view[position:]
        batch = next(iter(RecordStream(rest)), None)
        if isinstance(batch, MessageSet):
            # One message of the run at a time, so that damage in it costs nothing of what stands before.
            (last_offset, length) = struct.unpack_from(">qi", rest)
            return MessageSet(rest, 0, LOG_OVERHEAD_BYTES + length, last_offset)
        if batch is not None:
            _check_order(self._view, position, batch)
            _check_header(batch)
        return batch

    def _open_next(self) -> RecordBatch | MessageSet | None:
        """Pass over batches that are not for users and open the next one that is; None at the end."""
        while (batch := self._next_batch(self._position)) is not None:
            if self._admits(batch):
                self._records, self._damage = self._read_before_damage(batch)
                self._batch, self._index = batch, 0
                return batch
            self._pass(batch)
        return None

    def _read_before_damage(self, batch: RecordBatch | MessageSet) -> tuple[list[RecordTuple], CorruptMessage | None]:
        """What can be read of it, and what is met behind that."""
        if isinstance(batch, MessageSet):
            return self._read(batch), None
        if self._check_crcs:
            batch.check()
        found: list[RecordTuple] = []
        try:
            found.extend(batch.walk(self._limit_bytes))
        except CorruptMessage as error:
            return found, error
        return found, None

    def _read(self, batch: RecordBatch | MessageSet) -> list[RecordTuple]:
        if isinstance(batch, MessageSet):
            return list(batch.records(self._limit_bytes))
        if self._check_crcs:
            batch.check()
        return batch.tuples(self._limit_bytes)

    def _admits(self, batch: RecordBatch | MessageSet) -> bool:
        if isinstance(batch, MessageSet):
            return True
        if batch.is_control:
            if self._isolation is not None:
                keys = (record[2] for record in self._read(batch))
                self._isolation.met_control_batch(batch.last_offset, batch.producer_id, keys)
            return False
        if batch.is_transactional and self._isolation is not None:
            aborted = self._isolation.is_aborted(batch.last_offset, batch.producer_id)
            return not aborted and batch.last_offset >= self.next_offset
        return batch.last_offset >= self.next_offset

    def _pass(self, batch: RecordBatch | MessageSet) -> None:
        """Behind this batch, and behind the offsets that compaction took from its end."""
        self.next_offset = max(self.next_offset, batch.next_offset)
        self._leader_epoch = batch.leader_epoch if isinstance(batch, RecordBatch) else -1
        self._position += batch.size_bytes
        self._batch = None
        self._records = []

    # --- whole batches, for columns ---

    def span(self, row_target: int) -> Span | None:
        """Batches without a gap in their bytes that are all for users, at least one and until they claim
        `row_target` records; None when the next bytes are of an old format or at their end."""
        try:
            first = self._batch or self._first_of_span()
            if first is None or isinstance(first, MessageSet):
                return None
            return self._span_from(first, row_target)
        except CorruptMessage as error:
            raise corrupt_at(self.topic, self.partition, self.next_offset, error) from error

    def _first_of_span(self) -> RecordBatch | MessageSet | None:
        while (batch := self._next_batch(self._position)) is not None and not self._admits(batch):
            self._pass(batch)
        return batch

    def _span_from(self, first: RecordBatch, row_target: int) -> Span:
        rows, position, next_offset, epoch = 0, self._position, self.next_offset, self._leader_epoch
        batch: RecordBatch | MessageSet | None = first
        while rows < row_target and isinstance(batch, RecordBatch):
            # A marker changes what isolation knows, and a span may be given up: none is met before its turn.
            if batch is not first and (batch.is_control or not self._admits(batch)):
                break
            rows += batch.record_count
            next_offset, epoch = max(next_offset, batch.next_offset), batch.leader_epoch
            position += batch.size_bytes
            batch = self._batch_unless_damaged(position)
        return Span(self._view[self._position : position], self.next_offset, next_offset, position, epoch)

    def _batch_unless_damaged(self, position: int) -> RecordBatch | MessageSet | None:
        """A span ends before the damage: what stands before it is given first, and the next call meets it."""
        try:
            return self._next_batch(position)
        except CorruptMessage:
            return None

    def advance(self, position: int, next_offset: int, leader_epoch: int) -> None:
        """A span was read: go on behind it."""
        self._position = position
        self.next_offset = next_offset
        self._leader_epoch = leader_epoch
        self._batch = None
        self._records = []


def _check_order(view: memoryview, position: int, batch: RecordBatch | MessageSet) -> None:
    """Promise 6."""
    behind = position + batch.size_bytes
    if isinstance(batch, MessageSet) or len(view) - behind < MAGIC_KNOWN_BYTES:
        return
    (following,) = struct.unpack_from(">q", view, behind)
    if following < batch.next_offset:
        raise CorruptMessage(
            f"the batch at position {position} ends before offset {batch.next_offset}, but the one behind it begins at "
            f"{following}: the offsets of one of them are wrong"
        )


def _check_header(batch: RecordBatch) -> None:
    """What a header says of offsets decides whether its records are wanted: a wrong one must not hide them."""
    if not 0 <= batch.record_count <= batch.last_offset_delta + 1 or batch.last_offset_delta < 0:
        raise CorruptMessage(
            f"the batch claims {batch.record_count} records and a last offset delta of {batch.last_offset_delta}"
        )
    _ = batch.compression  # raises for a codec that does not exist


def _epoch_or_none(batch: RecordBatch | MessageSet) -> int | None:
    return batch.leader_epoch if isinstance(batch, RecordBatch) and batch.leader_epoch >= 0 else None


def _deserialize(
    record: ConsumerRecord,
    found: list[ConsumerRecord],
    key_deserializer: Deserialize | None,
    value_deserializer: Deserialize | None,
) -> bool:
    """False when it failed and there are records to hand out first."""
    try:
        key = record.key if key_deserializer is None else key_deserializer(record.topic, record.key)
        value = record.value if value_deserializer is None else value_deserializer(record.topic, record.value)
    except Exception as error:
        if found:
            return False
        raise undeserializable(record, error) from error
    record.key, record.value = key, value
    return True
