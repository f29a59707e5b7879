"""What of __share_group_state nobody needs any more: everything before the oldest snapshot that is the newest of its
share partition.

The topic is not compacted: updates of one key all count, until a snapshot replaces them. A share partition that nobody
writes any more keeps its old snapshot, and with it all that others wrote since; so after a while its snapshot is
written once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.broker.coordinators.share_state.state import ShareKey, ShareState
from ottla.light_tuples import NamedTuple

INTERVAL_MS: Final = 5 * 60 * 1000
"""How often that is looked for; share.coordinator.state.topic.prune.interval.ms of Kafka, which is internal there."""
COLD_AFTER_RECORDS: Final = 1_000
"""So many records behind the newest one, a snapshot is written again."""
SNAPSHOTS_PER_WRITE: Final = 200


class CutLog(NamedTuple):
    """Effect: forget the log before this offset."""

    offset: int


class CutTimer(NamedTuple):
    """See `INTERVAL_MS`."""


def first_needed(states: Mapping[ShareKey, ShareState], newest: int) -> int:
    """The first offset that somebody still needs; `newest` is that of the last record."""
    return min((each.snapshot_at for each in states.values()), default=newest + 1)


def cold(states: Mapping[ShareKey, ShareState], newest: int) -> Iterable[tuple[ShareKey, ShareState]]:
    """Share partitions whose snapshots keep the log from being cut, the oldest first."""
    old = [(key, state) for key, state in states.items() if newest - state.snapshot_at >= COLD_AFTER_RECORDS]
    return sorted(old, key=lambda each: each[1].snapshot_at)[:SNAPSHOTS_PER_WRITE]
