"""Who is in sync with a partition, as its leader sees it: how far each follower is, who may be counted, who goes.

A follower's fetch says where its log ends: it asks for the offset behind it. From that alone the leader knows

    caught up       its end is the leader's end, or was the leader's end of the fetch before, not longer than
                    replica.lag.time.max.ms ago
    bound           the smallest end of those that count; nothing beyond it is committed

1. The in-sync set changes only when the controller has said so. What was proposed and is not answered yet may be true
   or not, so the members of either set count: a record is never committed without somebody who may be in sync.
2. A follower that is caught up but not in the set yet counts as well: else it would never reach a high watermark that
   runs before it.
3. It may join when it has reached the high watermark and the start of this leader's epoch: below that it may still have
   to cut its log. A broker that is gone, fenced or shutting down does not join.
4. One proposal at a time. A member that is behind for too long is proposed to go; the leader never is.
5. A leader that begins gives the members of the set the whole time to show themselves.

Plain state of a partition; times are the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

from ottla.light_tuples import NamedTuple

UNKNOWN: Final = -1
NO_BOUND: Final = 2**63 - 1
LONG_AGO: Final = -math.inf


class Progress:
    """What is known of one follower."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "leader_end_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, log_end_offset: int = UNKNOWN, caught_up_ms: float = LONG_AGO) -> None:
        self.log_end_offset = log_end_offset
        self.log_start_offset = UNKNOWN
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = LONG_AGO
        self.leader_end_offset = UNKNOWN  # of the leader, when the follower fetched
        self.broker_epoch = UNKNOWN

    def fetched(
        self, offset: int, log_start_offset: int, broker_epoch: int, leader_end_offset: int, now_ms: float
    ) -> None:
        if offset >= leader_end_offset:
            if now_ms > self.caught_up_ms:
                self.caught_up_ms = now_ms
        elif offset >= self.leader_end_offset and self.fetched_ms > self.caught_up_ms:
            self.caught_up_ms = self.fetched_ms  # it has all there was when it asked before
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        if leader_end_offset > self.leader_end_offset:
            self.leader_end_offset = leader_end_offset
        self.fetched_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_limit_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_limit_ms


class Member(NamedTuple):
    """A broker of an in-sync set, and the registration that it fetched under; -1 when that is not known, and for the
    leader, whose own registration is that of the request which the proposal goes with."""

    broker_id: int
    broker_epoch: int


class Proposal(NamedTuple):
    """An in-sync set that the controller is asked to make true."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[Member, ...]

    @property
    def isr(self) -> frozenset[int]:
        return frozenset(each.broker_id for each in self.members)


class InSync:
    """The followers of one partition, while this broker leads it in one epoch."""

    def __init__(
        self,
        broker_id: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        *,
        leader_epoch: int,
        partition_epoch: int,
        epoch_start_offset: int,
        now_ms: float,
    ) -> None:
        self._broker_id = broker_id
        self._leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.epoch_start_offset = epoch_start_offset
        self.isr = frozenset(isr)
        self.proposal: Proposal | None = None
        self.followers = {
            each: Progress(caught_up_ms=now_ms if each in self.isr else LONG_AGO)
            for each in replicas
            if each != broker_id
        }
        self._joining: frozenset[int] = frozenset()
        self._counted: list[Progress] = []
        self.bound = UNKNOWN
        self._update_counted()

    def _update_counted(self) -> None:
        """See again who must have a record before it is committed."""
        proposed = self.proposal.isr if self.proposal is not None else frozenset[int]()
        counted = self.isr | proposed | self._joining
        self._counted = [each for broker_id, each in self.followers.items() if broker_id in counted]
        self._update_bound()

    def _update_bound(self) -> None:
        self.bound = min([each.log_end_offset for each in self._counted], default=NO_BOUND)

    # -- what followers say ------------------------------------------------------------------------------------------

    def fetched(
        self,
        broker_id: int,
        offset: int,
        *,
        log_start_offset: int = UNKNOWN,
        broker_epoch: int = UNKNOWN,
        leader_end_offset: int,
        now_ms: float,
    ) -> None:
        """A follower fetched from `offset`, which is where its log ends. KeyError when it is no replica."""
        progress = self.followers[broker_id]
        before = progress.log_end_offset
        progress.fetched(offset, log_start_offset, broker_epoch, leader_end_offset, now_ms)
        if offset < before or before <= self.bound:  # else somebody else is the last
            self._update_bound()

    def update_joining(
        self, leader_end_offset: int, now_ms: float, *, lag_limit_ms: int, may_join: Callable[[int, int], bool]
    ) -> None:
        """See who is about to join; `may_join` is asked about (broker, its epoch)."""
        self._joining = frozenset(
            broker_id
            for broker_id, each in self.followers.items()
            if broker_id not in self.isr
            and each.is_caught_up(leader_end_offset, now_ms, lag_limit_ms)
            and may_join(broker_id, each.broker_epoch)
        )
        self._update_counted()

    def low_watermark(self, own_log_start: int, alive: Callable[[int], bool]) -> int:
        """The smallest start of the logs of all replicas that live: what is before it is deleted everywhere."""
        starts = [each.log_start_offset for broker_id, each in self.followers.items() if alive(broker_id)]
        return min(own_log_start, min(starts, default=own_log_start))

    # -- proposals ---------------------------------------------------------------------------------------------------

    def expand(self, broker_id: int, high_watermark: int, may_join: Callable[[int, int], bool]) -> Proposal | None:
        """Propose that a follower joins, if it may."""
        if self.proposal is not None or broker_id in self.isr:
            return None
        progress = self.followers[broker_id]
        if progress.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if not may_join(broker_id, progress.broker_epoch):
            return None
        return self._propose(self.isr | {broker_id})

    def shrink(self, leader_end_offset: int, now_ms: float, lag_limit_ms: int) -> Proposal | None:
        """Propose that those go who have been behind for too long."""
        if self.proposal is not None:
            return None
        late = {
            broker_id
            for broker_id, each in self.followers.items()
            if broker_id in self.isr and not each.is_caught_up(leader_end_offset, now_ms, lag_limit_ms)
        }
        return self._propose(self.isr - late) if late else None

    def _propose(self, isr: frozenset[int]) -> Proposal:
        members = tuple(Member(each, self._epoch_of(each)) for each in sorted(isr))
        self.proposal = Proposal(self._leader_epoch, self.partition_epoch, members)
        self._update_counted()
        return self.proposal

    def _epoch_of(self, broker_id: int) -> int:
        progress = self.followers.get(broker_id)
        return UNKNOWN if progress is None else progress.broker_epoch

    def withdraw(self) -> None:
        """The proposal was not made true, and will not be."""
        self.proposal = None
        self._update_counted()

    def update_replicas(self, replicas: Iterable[int]) -> None:
        """Others have a replica than before, while we lead on: a reassignment under the controllers of a metadata log
        begins no new leader epoch."""
        wanted = set(replicas) - {self._broker_id}
        if wanted != self.followers.keys():
            kept = {each: progress for each, progress in self.followers.items() if each in wanted}
            self.followers = kept | {each: Progress() for each in wanted - kept.keys()}
            self._joining &= wanted
            self._update_counted()

    def update(self, isr: Iterable[int], leader_epoch: int, partition_epoch: int) -> bool:
        """What the controller says is true; False when that is older than what we know. What is no news leaves a
        proposal on its way: both sets count until it is answered."""
        if leader_epoch != self._leader_epoch or partition_epoch < self.partition_epoch:
            return False
        if partition_epoch == self.partition_epoch and self.isr == frozenset(isr):
            return True
        self.isr = frozenset(isr)
        self.partition_epoch = partition_epoch
        self._joining -= self.isr
        self.proposal = None
        self._update_counted()
        return True
