"""What the leader of the metadata log knows of those who follow it, and what follows from that.

1. A replica that fetches from an offset has everything before it on its disk. The high watermark is what a majority of
   the voters has; the leader counts itself, if it votes, with what it has synced. It moves only to offsets of the
   leader's own epoch: before its first record is committed a leader knows nothing of what is.
2. A leader that a majority has not asked for `check_quorum_ms` may have been replaced without knowing it, and resigns.
3. Voters that have not fetched are told that the epoch has begun, again and again.

Plain state: no log, no clock.
"""

from __future__ import annotations

from typing import Final

from ottla.cluster.raft.voters import VoterKey, VoterSet
from ottla.light_dataclasses import dataclass
from ottla.values import ZERO_UUID

OBSERVER_SESSION_MS: Final = 300_000
"""An observer that has not fetched for so long is forgotten."""
OBSERVERS_LIMIT: Final = 10_000


@dataclass(slots=True)
class Progress:
    """How far a replica is, and when it was heard of; -1 is never."""

    end_offset: int = -1
    fetched_ms: int = -1
    caught_up_ms: int = -1
    _leader_end: int = -1  # when it last fetched

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif 0 <= self._leader_end <= offset:  # it has all that there was when it asked the last time
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.fetched_ms = max(self.fetched_ms, now_ms)
        self.end_offset = max(self.end_offset, offset)
        self._leader_end = leader_end


class Leadership:
    """Of one epoch."""

    def __init__(self, me: VoterKey, epoch_start: int, now_ms: int) -> None:
        """`epoch_start` is the offset of the LeaderChangeMessage."""
        self.me = me
        self.epoch_start = epoch_start
        self.high_watermark: int | None = None
        self.voters: dict[VoterKey, Progress] = {}
        self.observers: dict[VoterKey, Progress] = {}
        self._began_ms = now_ms
        self._begin_sent_ms: dict[VoterKey, int] = {}  # that the epoch began

    @property
    def is_established(self) -> bool:
        """Whether its own first record is committed: now it knows what is."""
        return self.high_watermark is not None

    def of(self, voter: VoterKey) -> Progress:
        return self.voters.setdefault(voter, Progress())

    # --- who follows --------------------------------------------------------------------------------------------------

    def voters_are(self, voters: VoterSet) -> None:
        """Who votes has changed: those who do not any more are observers, and the other way round."""
        known = {**self.observers, **self.voters}
        for voter in voters:
            by_settings = VoterKey(voter.id)  # so it was known while no log told its directory
            if voter not in known and by_settings in self.voters:
                known[voter] = known.pop(by_settings)
        self.voters = {voter: known[voter] for voter in voters if voter in known}
        self.observers = {key: progress for key, progress in known.items() if key not in voters}

    def fetched(self, replica: VoterKey, voters: VoterSet, offset: int, leader_end: int, now_ms: int) -> None:
        """A replica has everything before an offset."""
        self._progress_of(replica, voters).fetched(offset, leader_end, now_ms)

    def heard_of(self, replica: VoterKey, voters: VoterSet, now_ms: int) -> None:
        """A replica asked, but not for what would tell how far it is."""
        progress = self._progress_of(replica, voters)
        progress.fetched_ms = max(progress.fetched_ms, now_ms)

    def _progress_of(self, replica: VoterKey, voters: VoterSet) -> Progress:
        if replica in voters:
            return self.of(next(key for key in voters if key.id == replica.id))
        if replica not in self.observers and len(self.observers) >= OBSERVERS_LIMIT:
            del self.observers[next(iter(self.observers))]
        return self.observers.setdefault(replica, Progress())

    def forget_silent_observers(self, now_ms: int) -> None:
        self.observers = {
            key: progress
            for key, progress in self.observers.items()
            if now_ms - progress.fetched_ms <= OBSERVER_SESSION_MS
        }

    # --- what is committed --------------------------------------------------------------------------------------------

    def advance(self, voters: VoterSet, synced: int) -> bool:
        """Whether the high watermark moves, now that this node has synced so much."""
        ends = sorted((self._end_offset(voter, synced) for voter in voters), reverse=True)
        if not ends:
            return False
        common = ends[voters.majority - 1]
        if common <= self.epoch_start or common <= (self.high_watermark or -1):
            return False
        self.high_watermark = common
        return True

    def _end_offset(self, voter: VoterKey, synced: int) -> int:
        if self._is_me(voter):
            return synced
        progress = self.voters.get(voter)
        return -1 if progress is None else progress.end_offset

    def _is_me(self, voter: VoterKey) -> bool:
        return voter.id == self.me.id and voter.directory_id in (ZERO_UUID, self.me.directory_id)

    # --- whether it still leads ---------------------------------------------------------------------------------------

    def others(self, voters: VoterSet) -> list[VoterKey]:
        return [voter for voter in voters if not self._is_me(voter)]

    def quorum_ends_ms(self, voters: VoterSet, check_quorum_ms: float) -> float:
        """When a majority will not have asked for too long."""
        needed = voters.majority - (self.me in voters)
        if needed <= 0:
            return float("inf")
        heard = sorted((self._heard_ms(voter) for voter in self.others(voters)), reverse=True)
        return heard[needed - 1] + check_quorum_ms if len(heard) >= needed else float("inf")

    def _heard_ms(self, voter: VoterKey) -> int:
        progress = self.voters.get(voter)
        return max(self._began_ms, -1 if progress is None else progress.fetched_ms)

    # --- telling that the epoch began ---------------------------------------------------------------------------------

    def begin_quorum_epoch_ms(self, voter: VoterKey, again_ms: int) -> int:
        """When a voter is to be told, again, that the epoch began: it is not, while it fetches."""
        progress = self.voters.get(voter)
        times = [-1 if progress is None else progress.fetched_ms, self._begin_sent_ms.get(voter, -1)]
        return self._began_ms if max(times) < 0 else max(times) + again_ms

    def began_quorum_epoch(self, voter: VoterKey, now_ms: int) -> None:
        self._begin_sent_ms[voter] = now_ms

    def most_caught_up(self, voters: VoterSet) -> list[VoterKey]:
        """The other voters, who has most first."""
        return sorted(self.others(voters), key=lambda voter: (-self._end_offset(voter, -1), voter.id))
