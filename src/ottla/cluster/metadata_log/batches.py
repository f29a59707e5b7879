"""Batches of the metadata log: records, or control records, to bytes and back.

1. A batch is one decision: all of it or nothing. It is never compressed, has no producer, and every record in it has
   the time at which it was appended, as Kafka writes them.
2. Reading proves the checksum first. A record that is not known, or is not whole, stops the reader: the error says at
   which offset.
3. Records are decoded when they are asked for, so that who reads a batch of ten thousand can pause in it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ottla.errors import CorruptMessage, MalformedMessage
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log import MetadataRecord, UnknownMetadataRecord, decode_record
from ottla.protocol.metadata_log.control import ControlMessage, decode_control, encode_control
from ottla.records import BatchBuilder, RecordBatch, RecordStream
from ottla.records.control import VERSION, read_control_type
from ottla.storage.files import Buffer

BATCH_BYTES_MAX: Final = 8 << 20
"""Of one batch, as in Kafka."""
_CONTROL_KEY: Final = struct.Struct(">hh")


class BatchRecords(Sequence[MetadataRecord]):
    """The records of a batch; each is decoded once, when it is asked for first."""

    __slots__ = ("_base_offset", "_decoded", "_values")

    def __init__(self, values: list[Buffer | None], base_offset: int) -> None:
        self._values = values
        self._base_offset = base_offset
        self._decoded: list[MetadataRecord] = []

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        wanted = range(len(self))[index]
        if isinstance(wanted, range):
            return [self[each] for each in wanted]
        while len(self._decoded) <= wanted:
            self._decode_next()
        return self._decoded[wanted]

    def __iter__(self) -> Iterator[MetadataRecord]:
        for number in range(len(self._values)):
            if number == len(self._decoded):
                self._decode_next()
            yield self._decoded[number]

    def _decode_next(self) -> None:
        number = len(self._decoded)
        try:
            self._decoded.append(decode_record(self._values[number])[0])
        except (MalformedMessage, UnknownMetadataRecord) as error:
            raise _at(self._base_offset + number, error) from None
        self._values[number] = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class MetadataBatch(NamedTuple):
    """A batch that was read; one of `records` and `controls` is empty."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[MetadataRecord]
    controls: tuple[ControlMessage, ...]
    size_bytes: int = 0


# --- writing ---------------------------------------------------------------------------------------------------------


def data_batch(values: Iterable[bytes], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """A batch of records as `encode_record` gives them."""
    builder = _builder(base_offset, epoch, control=False)
    for value in values:
        builder.append(timestamp_ms, None, value)
    batch: bytes = builder.close()
    return batch


def control_batch(messages: Iterable[ControlMessage], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """A batch of control records."""
    builder = _builder(base_offset, epoch, control=True)
    for message in messages:
        assert message.record_type is not None
        builder.append(timestamp_ms, _CONTROL_KEY.pack(VERSION, message.record_type), encode_control(message))
    batch: bytes = builder.close()
    return batch


def _builder(base_offset: int, epoch: int, *, control: bool) -> BatchBuilder:
    return BatchBuilder(
        base_offset=base_offset, leader_epoch=epoch, control=control, size_limit_bytes=2 * BATCH_BYTES_MAX
    )


# --- reading ---------------------------------------------------------------------------------------------------------


def read_batches(data: Buffer, *, only_controls: bool = False) -> Iterator[MetadataBatch]:
    """Every whole batch; what is cut off at the end is left out, as a fetch may cut it. With `only_controls` records
    are proved and not decoded: who copies the log need not know them."""
    for batch in RecordStream(data):
        if not isinstance(batch, RecordBatch):
            raise CorruptMessage("the metadata log has messages of a format before record batches")
        yield read_batch(batch, only_controls=only_controls)


def read_batch(batch: RecordBatch, *, only_controls: bool = False) -> MetadataBatch:
    """A batch, proved."""
    batch.check()
    values: list[Buffer | None] = []
    controls: list[ControlMessage] = []
    for offset, _, key, value, _ in () if only_controls and not batch.is_control else batch.tuples():
        if not batch.is_control:
            values.append(value)
            continue
        try:
            controls.append(decode_control(read_control_type(key), value))
        except (MalformedMessage, UnknownMetadataRecord) as error:
            raise _at(offset, error) from None
    return MetadataBatch(
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.max_timestamp_ms,
        BatchRecords(values, batch.base_offset),
        tuple(controls),
        batch.size_bytes,
    )


def _at(offset: int, error: MalformedMessage | UnknownMetadataRecord) -> MalformedMessage | UnknownMetadataRecord:
    return type(error)(f"at offset {offset} of the metadata log: {error.detail}")
