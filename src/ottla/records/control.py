"""Control records: what brokers write into a log beside the users' records.

A control batch (its attribute bit says so) holds control records, usually one. Their keys tell the kind:

    key    int16 version (0), int16 type       0 abort, 1 commit, 2 and up: cluster metadata, see ControlType
    value  of abort and commit: int16 version (0), int32 epoch of the transaction coordinator that wrote it

1. Control records use offsets but are never handed to users; a reader of committed records only needs to know
   where a transaction ended and how.
2. Versions newer than ours are read as far as we know them, as the format promises: fields are only ever added.
3. A type we do not know is kept as its number, not refused: a newer broker may have written it, and the log
   must stay readable. Bytes that are too short or negative versions are CorruptMessage.
4. Brokers write a marker alone into its batch, but nothing says so: a batch may hold several control records (the
   metadata log has such), or none after compaction took its marker. The first marker in a batch is the end of its
   producer's transaction; after it none is open, so further ones would mean nothing.
"""

import struct
from collections.abc import Iterable
from enum import IntEnum

from ottla.errors import CorruptMessage
from ottla.light_dataclasses import dataclass
from ottla.records.implementation import BatchBuilder

__all__ = [
    "ControlType",
    "EndTransactionMarker",
    "encode_marker_key",
    "encode_marker_value",
    "end_transaction_batch",
    "marker_type_of_keys",
    "read_batch_marker",
    "read_control_type",
    "read_marker",
]

Bytes = bytes | bytearray | memoryview

VERSION = 0

_key = struct.Struct(">hh")
_value = struct.Struct(">hi")


class ControlType(IntEnum):
    """The kinds of control records; the ones after COMMIT only occur in a cluster's metadata log."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_MARKERS = (ControlType.ABORT, ControlType.COMMIT)


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """A producer's transaction ended here; `coordinator_epoch` fences coordinators that lost their office."""

    commit: bool
    coordinator_epoch: int


def encode_marker_key(marker: EndTransactionMarker) -> bytes:
    """The key of the control record for `marker`."""
    return _key.pack(VERSION, ControlType.COMMIT if marker.commit else ControlType.ABORT)


def encode_marker_value(marker: EndTransactionMarker) -> bytes:
    """The value of the control record for `marker`."""
    return _value.pack(VERSION, marker.coordinator_epoch)


def end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a producer's transaction in one partition.

    It has no sequence number: the coordinator writes it, not the producer, whose count goes on undisturbed.
    """
    builder = BatchBuilder(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )
    builder.append(timestamp_ms, encode_marker_key(marker), encode_marker_value(marker))
    batch: bytes = builder.close()
    return batch


def read_control_type(key: Bytes | None) -> ControlType | int:
    """The kind of a control record; a number when it is a kind we do not know."""
    if key is None or len(key) < _key.size:
        raise CorruptMessage(f"the key of a control record has {_length(key)}; it needs {_key.size}")
    version, number = _key.unpack_from(key)
    if version < 0:
        raise CorruptMessage(f"the key of a control record has version {version}")
    try:
        return ControlType(number)
    except ValueError:
        return int(number)


def read_marker(key: Bytes | None, value: Bytes | None) -> EndTransactionMarker | None:
    """The end of a transaction that this control record tells; None when it is a control record of another kind."""
    kind = read_control_type(key)
    if kind not in _MARKERS:
        return None
    if value is None or len(value) < _value.size:
        raise CorruptMessage(f"the value of an end-of-transaction marker has {_length(value)}; it needs {_value.size}")
    version, coordinator_epoch = _value.unpack_from(value)
    if version < 0:
        raise CorruptMessage(f"the value of an end-of-transaction marker has version {version}")
    return EndTransactionMarker(kind == ControlType.COMMIT, coordinator_epoch)


def read_batch_marker(records: Iterable[tuple[Bytes | None, Bytes | None]]) -> EndTransactionMarker | None:
    """The end of a transaction that a control batch tells, from the (key, value) of its records; or None."""
    markers = (read_marker(key, value) for key, value in records)
    return next((marker for marker in markers if marker is not None), None)


def marker_type_of_keys(keys: Iterable[Bytes | None]) -> ControlType | None:
    """How a control batch ends a transaction, from the keys of its records: ABORT or COMMIT, None if it ends none."""
    kinds = (read_control_type(key) for key in keys)
    return next((ControlType(kind) for kind in kinds if kind in _MARKERS), None)


def _length(data: Bytes | None) -> str:
    return "no bytes" if data is None else f"{len(data)} bytes"
