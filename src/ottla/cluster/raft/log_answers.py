"""What the leader of the metadata log answers to who fetches it: records, where logs part, or a snapshot instead.

1. What is asked in another epoch than ours is refused with what we know of the leader: that is how nodes find it.
2. Who has a part of the log that we do not have is told where it ends; who lacks what only a snapshot has is told which
   one, and gets it in pieces. Also who has nothing is sent to the newest snapshot, as Kafka does it.
3. Uncommitted records are given out, too; with them goes the high watermark, below which they may be shown.
"""

from __future__ import annotations

from typing import Final, Protocol

from ottla.cluster.raft import wire
from ottla.cluster.raft.leading import Leadership
from ottla.cluster.raft.log import MetadataLog
from ottla.cluster.raft.snapshots import SnapshotId
from ottla.cluster.raft.voters import VoterKey, VoterSet
from ottla.cluster.raft.wire import EpochError
from ottla.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
    UnknownLeaderEpoch,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import fetch, fetch_snapshot
from ottla.storage.files import Files

UNKNOWN: Final = -1
READ_LIMIT_BYTES: Final = 8 << 20
"""Of the log at once, whatever is asked for: as much as a batch may have. It is read on the loop."""


class Serving(Protocol):
    """What is needed of raft.py."""

    log: MetadataLog
    leadership: Leadership | None

    @property
    def epoch(self) -> int: ...
    @property
    def leads(self) -> bool: ...
    @property
    def voters(self) -> VoterSet: ...
    def said(self, error_code: int) -> EpochError: ...
    def fetched(self, replica: VoterKey, offset: int, now_ms: int) -> None: ...


class Difference(NamedTuple):
    """What a replica must do before it can go on; both are None where its log is a part of ours."""

    snapshot: SnapshotId | None = None
    diverging: tuple[int, int] | None = None
    """The largest epoch up to its last one, and where that ends here."""


def answer_fetch(
    raft: Serving, request: fetch.FetchRequest, version: int, now_ms: int
) -> tuple[fetch.FetchResponse, bool]:
    """The answer; and whether it is worth waiting for more."""
    asked = wire.fetch_partition(request)
    found = fetch.PartitionData(
        partition_index=0, error_code=0, high_watermark=UNKNOWN, aborted_transactions=None, records=b""
    )
    error_code = _invalid(asked) or _epoch_error(raft, asked.current_leader_epoch)
    may_wait = not error_code and _fill(raft, request, asked, found, now_ms)
    return wire.fetch_response(raft.said(error_code), found, version), may_wait


def _invalid(asked: fetch.FetchPartition) -> int:
    is_known = min(asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) >= 0
    return wire.OK if is_known and asked.last_fetched_epoch <= asked.current_leader_epoch else InvalidRequest.code


def _epoch_error(raft: Serving, epoch: int) -> int:
    """Why who asks in that epoch is not answered by this node."""
    if epoch < raft.epoch:
        return FencedLeaderEpoch.code
    if epoch > raft.epoch:
        return UnknownLeaderEpoch.code
    return wire.OK if raft.leads else NotLeaderOrFollower.code


def _fill(
    raft: Serving,
    request: fetch.FetchRequest,
    asked: fetch.FetchPartition,
    found: fetch.PartitionData,
    now_ms: int,
) -> bool:
    leadership, log = raft.leadership, raft.log
    assert leadership is not None, "it leads"
    state = request.replica_state.replica_id
    replica_id = state if state >= 0 else request.replica_id
    replica = VoterKey(replica_id, asked.replica_directory_id)
    found.log_start_offset = log.start_offset
    difference = differs(log, asked.fetch_offset, asked.last_fetched_epoch)
    if replica_id >= 0 and difference == Difference():
        raft.fetched(replica, asked.fetch_offset, now_ms)
    elif replica_id >= 0:
        leadership.heard_of(replica, raft.voters, now_ms)
    if not raft.leads:  # what it has told was the commit that took us out of the voters
        return False
    found.high_watermark = UNKNOWN if leadership.high_watermark is None else leadership.high_watermark
    if difference.snapshot is not None:
        newest = difference.snapshot
        found.snapshot_id = fetch.SnapshotId(end_offset=newest.end_offset, epoch=newest.epoch)
        return False
    if difference.diverging is not None:
        epoch, end_offset = difference.diverging
        found.diverging_epoch = fetch.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return False
    if asked.fetch_offset < log.end_offset:
        found.records = log.read(asked.fetch_offset, min(request.max_bytes, READ_LIMIT_BYTES)).slice.read()
    return not found.records and found.high_watermark <= asked.high_watermark


def differs(log: MetadataLog, offset: int, epoch: int) -> Difference:
    """How a log that ends at an offset, with a last record of an epoch, differs from ours."""
    newest, start = log.newest_snapshot, log.start_offset
    # What was before the log begins may have had another history there: only a snapshot tells.
    is_before = start > 0 and (offset < start or epoch < log.snapshots[0].epoch)
    if newest is not None and newest.end_offset > 0 and (offset == 0 or is_before):
        return Difference(snapshot=newest)
    if offset == 0:
        return Difference()
    end = log.end_offset_for_epoch(epoch)
    if end.epoch == epoch and offset <= end.end_offset:
        return Difference()
    return Difference(diverging=(max(end.epoch, 0), max(end.end_offset, 0)))


def answer_fetch_snapshot(
    raft: Serving, files: Files, request: fetch_snapshot.FetchSnapshotRequest, max_bytes: int, now_ms: int
) -> fetch_snapshot.FetchSnapshotResponse:
    """A piece of a snapshot."""
    asked = wire.snapshot_partition(request)
    snapshot = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
    error_code = _epoch_error(raft, asked.current_leader_epoch)
    if not error_code and snapshot not in raft.log.snapshots:
        error_code = SnapshotNotFound.code
    if error_code:
        return wire.snapshot_response(raft.said(error_code), asked)
    assert raft.leadership is not None, "it leads"
    if request.replica_id >= 0:
        raft.leadership.heard_of(VoterKey(request.replica_id, asked.replica_directory_id), raft.voters, now_ms)
    file = files.open(raft.log.snapshot_path(snapshot), read_only=True)
    try:
        size = file.size()
        if not 0 <= asked.position < size:
            return wire.snapshot_response(raft.said(PositionOutOfRange.code), asked)
        content = bytes(file.read_at(asked.position, max(1, min(request.max_bytes, max_bytes))))
    finally:
        file.close()
    return wire.snapshot_response(raft.said(wire.OK), asked, content, size)
