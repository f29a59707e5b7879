"""Logs with bytes that cannot be read: named once, remembered, and given to a better copy where there is one.

    broker.corruption.report(partition, file, offset, error)

1. A batch that cannot be read is one ERROR in the log, with partition, file and offset; it stays in `found`, so that
   health, metrics and `doctor` can say it too. Nothing on the disk is changed here.
2. A leader with another replica in sync gives its leadership away: the partition goes offline on this broker, as it
   does when its disk has failed, and the controller elects one of the others. True is returned then: nothing is to be
   served from this copy.
3. The only copy goes on being served; what that means is for who reads it (decision 0150).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import KafkaStorageError
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replication.partition import Partition

log = logging.getLogger(__name__)


class Found(NamedTuple):
    """What cannot be read of a log: the batch that holds or follows `offset`."""

    file: Path
    offset: int
    error: str


class Corruption:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.found: dict[TopicPartition, dict[tuple[Path, int], Found]] = {}

    def report(self, partition: Partition, file: Path, offset: int, error: str, consequence: str = "") -> bool:
        """Returns whether another replica takes the partition over. `consequence` is what it means for users when
        none can."""
        name = partition.name
        known = self.found.setdefault(name, {})
        is_new = (file, offset) not in known
        known[file, offset] = Found(file, offset, error)
        can_leave = partition.is_leader and partition.offline is None and partition.in_sync_count > 1
        if is_new:
            what = (
                "another replica in sync is to lead it"
                if can_leave
                else consequence or "there is no other copy in sync"
            )
            log.error(
                "%s cannot be read at offset %d of %s: %s. %s", name, offset, file, error, what[:1].upper() + what[1:]
            )
        if can_leave:
            self._broker.take_offline(partition, KafkaStorageError(f"{name} is rotten at offset {offset} of {file}"))
        return can_leave

    def forget(self, name: TopicPartition) -> None:
        """The partition is gone from here, or its log is sound again."""
        self.found.pop(name, None)
