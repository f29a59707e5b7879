"""Where a follower cuts its log, so that it is a prefix of its leader's again (KIP-101, KIP-279, KIP-320).

A follower names the last epoch it has records of; the leader answers with the largest epoch up to that one that it has
itself, and where it ends there. Records of one epoch come from one leader, so two logs that both have an epoch are the
same up to the smaller of its two ends.

    leader's answer                      we cut at                                             and then
    nothing is known (-1)                our fallback, the high watermark                      fetch
    an end without an epoch              that end                                              fetch
    an epoch that we have                the smaller of its end there and here                 fetch
    an epoch that we lack                the end of the largest epoch before it that we have   ask again
    an epoch before all of ours          that end                                              fetch

Where asking is part of every fetch (version 12 and later), the next fetch asks again by itself.
"""

from __future__ import annotations

from typing import Protocol

from ottla.light_tuples import NamedTuple
from ottla.storage.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEnd


class Epochs(Protocol):
    """The log of a follower, as far as cutting it needs to know it."""

    @property
    def log_end_offset(self) -> int: ...
    def end_of_epoch(self, epoch: int) -> EpochEnd: ...


class Cut(NamedTuple):
    """Let the log end here; unless it is complete, the leader must be asked again."""

    offset: int
    is_complete: bool


def where_to_cut(leaders: EpochEnd, own: Epochs, *, fallback: int) -> Cut:
    end = own.log_end_offset
    if leaders.end_offset == UNDEFINED_OFFSET:
        return Cut(min(fallback, end), is_complete=True)
    if leaders.epoch == UNDEFINED_EPOCH:
        return Cut(min(leaders.end_offset, end), is_complete=True)
    ours = own.end_of_epoch(leaders.epoch)
    if ours.end_offset == UNDEFINED_OFFSET:
        # We know of no epoch that late: what we have is older than all the leader asked us about.
        return Cut(min(leaders.end_offset, end), is_complete=True)
    if ours.epoch != leaders.epoch:
        return Cut(min(ours.end_offset, end), is_complete=False)
    return Cut(min(leaders.end_offset, ours.end_offset, end), is_complete=True)
