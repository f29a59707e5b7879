"""Who led a metadata log when: what the newest epochs of it began with.

    for election in elections(log, 20): print(election.epoch, election.leader_id)      # the newest first

The log knows at which offset each epoch begins (leader-epoch-checkpoint), and an epoch begins with its
LeaderChangeMessage. So an election is one read of one batch: nothing is searched for, and nothing is kept
(docs/decisions/0230). Only what is committed; epochs that a snapshot has taken the place of are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.cluster.metadata_log.batches import MetadataBatch, read_batches
from ottla.cluster.raft.log import MetadataLog
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log.control import LeaderChangeMessage

ONE_BATCH: Final = 1
"""A read of so many bytes gives one batch, as large as it is."""


class Election(NamedTuple):
    """What an epoch began with. `quiet_ms` is the time from the last batch before it: so long at most nobody led;
    None where that batch is gone."""

    epoch: int
    offset: int
    timestamp_ms: int
    leader_id: int
    voters: tuple[int, ...]
    granted: tuple[int, ...]
    """Whose votes were counted; who was slower than a majority may be missing."""
    quiet_ms: int | None


def elections(log: MetadataLog, count: int) -> Iterator[Election]:
    """The last so many, newest first."""
    epochs = [each for each in log.epochs if each.start_offset < log.high_watermark]
    for epoch, offset in reversed(epochs[-count:]):
        if offset < log.start_offset:  # a snapshot took its place while somebody else had a turn
            return
        batch = _batch_at(log, offset)
        change = next((each for each in batch.controls if isinstance(each, LeaderChangeMessage)), None)
        if change is None:  # the epoch began before the log does
            continue
        before = _batch_at(log, offset - 1) if offset > log.start_offset else None
        yield Election(
            epoch,
            offset,
            batch.timestamp_ms,
            change.leader_id,
            tuple(each.voter_id for each in change.voters),
            tuple(each.voter_id for each in change.granting_voters),
            None if before is None else max(batch.timestamp_ms - before.timestamp_ms, 0),
        )


def _batch_at(log: MetadataLog, offset: int) -> MetadataBatch:
    return next(read_batches(log.read(offset, ONE_BATCH).slice.read(), only_controls=True))
