"""DeleteRecords waits until every replica that lives has deleted what it asked for, or its time is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.broker.replication.partition import Partition
from ottla.errors import BrokerError, RequestTimedOut
from ottla.protocol.messages.delete_records import DeleteRecordsPartitionResult


@dataclass(slots=True)
class Deleting:
    """One partition's part of the request."""

    partition: Partition
    offset: int  # done when no replica starts before it
    leader_epoch: int
    result: DeleteRecordsPartitionResult
    low_watermark: Callable[[Partition], int]

    def is_settled(self) -> bool:
        """Whether it is done, or cannot be any more, which its result then says."""
        try:
            self.partition.check_leader(self.leader_epoch)
        except BrokerError as error:
            self.result.error_code, self.result.low_watermark = error.code, -1
            return True
        self.result.low_watermark = self.low_watermark(self.partition)
        return self.result.low_watermark >= self.offset


class WaitingDeletion:
    """An operation of the purgatory, watched under its partitions."""

    def __init__(self, deleting: list[Deleting], done: Callable[[], None]) -> None:
        self._deleting = deleting
        self._done = done

    def try_complete(self) -> bool:
        self._deleting = [one for one in self._deleting if not one.is_settled()]
        if self._deleting:
            return False
        self._done()
        return True

    def expire(self) -> None:
        for one in self._deleting:
            one.result.error_code = RequestTimedOut.code
        self._done()
