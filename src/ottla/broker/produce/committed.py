"""Produce with acks=all waits until every partition has committed what it wrote, or its time is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.broker.produce.frames import Outcome
from ottla.broker.replication.partition import Partition
from ottla.errors import BrokerError, NotEnoughReplicasAfterAppend, RequestTimedOut


@dataclass(slots=True)
class Pending:
    """One partition's part of the request."""

    partition: Partition
    next_offset: int  # committed when the high watermark is here
    outcome: Outcome


class WaitingProduce:
    """An operation of the purgatory, watched under its partitions."""

    def __init__(self, pending: list[Pending], done: Callable[[], None]) -> None:
        self._pending = pending
        self._done = done

    def try_complete(self) -> bool:
        self._pending = [one for one in self._pending if not is_settled(one)]
        if self._pending:
            return False
        self._done()
        return True

    def expire(self) -> None:
        for one in self._pending:
            one.outcome.refuse(RequestTimedOut())
        self._done()


def is_settled(one: Pending) -> bool:
    """Whether one partition's part is committed, or cannot be any more, which its answer then says."""
    partition = one.partition
    try:
        # In whichever epoch: a leader that goes on in a new one (a follower died) has what it wrote in the old one, and
        # one that lost its office in between was looked at when that happened.
        partition.check_leader()
    except BrokerError as error:
        one.outcome.refuse(error)
        return True
    if partition.high_watermark < one.next_offset:
        return False
    if partition.in_sync_count < partition.min_in_sync_count:
        one.outcome.refuse(NotEnoughReplicasAfterAppend())
    return True
