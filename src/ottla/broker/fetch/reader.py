"""Who sent a fetch, and what that means: a consumer, or a follower that says by it how far it is.

1. A follower reads to the end of the log, from the leader only, and only if it is one of the partition's replicas.
2. A consumer reads what is committed. From version 11 on it may be sent to a replica near it (KIP-392), and followers
   serve it, too.
3. A follower asks for all its partitions at every fetch. Where it has all there is and was sent all there is to say,
   that costs a few comparisons (`is_idle`); not at the first fetch under another registration, which in-sync sets name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.fetch.frames import SimpleAsked
from ottla.broker.fetch.sessions import FetchPosition, LastSent
from ottla.broker.replication.partition import Partition
from ottla.protocol.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PREFERRED_REPLICA_SINCE: Final = 11
REPLICA_STATE_SINCE: Final = 15


def replica_of(request: FetchRequest | SimpleAsked, version: int) -> tuple[int, int]:
    """The follower that asks, and its registration; -1 for what is not known."""
    if isinstance(request, SimpleAsked):
        return request.replica_id, request.replica_epoch
    if version < REPLICA_STATE_SINCE:
        return request.replica_id, -1
    return request.replica_state.replica_id, request.replica_state.replica_epoch


class Reader:
    def __init__(self, broker: Broker, request: FetchRequest, version: int) -> None:
        self._followers = broker.link.replication
        self._version = version
        self._rack = request.rack_id
        self.replica_id, self._replica_epoch = replica_of(request, version)
        self.is_follower = self.replica_id >= 0

    def check(self, partition: Partition, current_leader_epoch: int) -> None:
        """Raise unless it may be served from here."""
        if not self.is_follower and self._version >= PREFERRED_REPLICA_SINCE:
            partition.check_replica(current_leader_epoch)
            return
        partition.check_leader(current_leader_epoch)
        if self.is_follower:
            knows_epoch = current_leader_epoch >= 0
            self._followers.check_follower(partition, self.replica_id, knows_epoch=knows_epoch)

    def preferred(self, partition: Partition, offset: int) -> int | None:
        """The replica it should read from instead, if there is a better one."""
        if self.is_follower or not self._rack or not partition.is_leader:
            return None
        return self._followers.preferred_replica(partition, self._rack, offset)

    def note(self, partition: Partition, wanted: FetchPosition) -> None:
        """A follower has all before the offset it asks for, if that is an offset of ours."""
        end = partition.end
        if end.log_start_offset <= wanted.fetch_offset <= end.log_end_offset:
            self._followers.follower_fetched(
                partition,
                self.replica_id,
                wanted.fetch_offset,
                log_start_offset=wanted.log_start_offset,
                broker_epoch=self._replica_epoch,
            )

    def is_throttled(self, partition: Partition) -> bool:
        """Whether a follower gets nothing now, because it only catches up."""
        return self._followers.is_leader_throttled(partition, self.replica_id)

    def count_sent(self, partition: Partition | None, size_bytes: int) -> None:
        """So much goes to a follower."""
        if partition is not None:
            self._followers.count_sent(partition, self.replica_id, size_bytes)

    def is_idle(
        self, partition: Partition | None, wanted: FetchPosition, last_sent: LastSent | None, now_ms: float | None
    ) -> bool:
        """Whether there is nothing new for a follower that is in sync; with `now_ms` that is noted as heard from it."""
        if partition is None or partition.in_sync is None or partition.offline is not None:
            return False
        end, in_sync = partition.end, partition.in_sync
        if last_sent is None or last_sent.was_refused or partition.leader_epoch != wanted.current_leader_epoch:
            return False
        if last_sent.high_watermark != end.high_watermark or last_sent.log_start_offset != end.log_start_offset:
            return False
        progress = in_sync.followers.get(self.replica_id)
        if progress is None or not progress.log_end_offset == wanted.fetch_offset == end.log_end_offset:
            return False
        if progress.broker_epoch != self._replica_epoch:
            return False
        if now_ms is not None:
            progress.caught_up_ms = progress.fetched_ms = now_ms
        return self.replica_id in in_sync.isr
