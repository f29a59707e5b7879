"""The state of a share partition as records of __share_group_state, as Kafka 4.3 writes them (version 0).

A snapshot has all of it; an update has what changed since and belongs to the snapshot epoch it names. The tombstone of
the snapshot removes the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.share_state.state import Batch, ShareKey, ShareState
from ottla.protocol.messages.write_share_group_state import PartitionData
from ottla.protocol.schema import Message
from ottla.protocol.stored.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)

KINDS: Final[dict[type[Message], type[Message]]] = {
    ShareSnapshotKey: ShareSnapshotValue,
    ShareUpdateKey: ShareUpdateValue,
}


def snapshot_record(key: ShareKey, state: ShareState) -> StoredRecord:
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=_stored(state.batches),
    )
    return StoredRecord(ShareSnapshotKey(**key._asdict()), value)


def update_record(key: ShareKey, snapshot_epoch: int, data: PartitionData) -> StoredRecord:
    value = ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=data.leader_epoch,
        start_offset=data.start_offset,
        delivery_complete_count=data.delivery_complete_count,
        state_batches=_stored(read_batches(data.state_batches)),
    )
    return StoredRecord(ShareUpdateKey(**key._asdict()), value)


def tombstone(key: ShareKey) -> StoredRecord:
    return StoredRecord(ShareSnapshotKey(**key._asdict()), None)


def read_batches(batches: Iterable[object]) -> tuple[Batch, ...]:
    """Batches as messages and records have them."""
    return tuple(
        Batch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)  # type: ignore[attr-defined]
        for each in batches
    )


def _stored(batches: Iterable[Batch]) -> list[StateBatch]:
    return [
        StateBatch(
            first_offset=each.first, last_offset=each.last, delivery_state=each.state, delivery_count=each.deliveries
        )
        for each in batches
    ]
