"""Records that are about to be written, and the group as it will be when they are.

What a heartbeat decides builds on what it decided before: a member that replaces another owns its partitions, a
new target includes the member that has just come. So every record is replayed, by the same `replay` as ever, into a
copy of the group; the group itself changes when the runtime has written the records. The copy is made with the first
record: a heartbeat that changes nothing costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup


class Draft:
    def __init__(self, group: ConsumerGroup, before: Iterable[StoredRecord] = ()) -> None:
        """`before` go in front and belong to no consumer group: the tombstones of a classic one."""
        self.group = group
        self.records: list[StoredRecord] = list(before)
        self._is_copy = False

    def write(self, *records: StoredRecord) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        for record in records:
            self.records.append(record)
            self.group.replay(record.key, record.value)
