"""Offsets and groups that nobody needs any more: expired, or of a topic that was deleted.

1. An offset expires offsets.retention.minutes after the time its group names (Group.retention_start_ms), or at the
   time a client of old asked for. Offsets in use and offsets with an open transaction stay.
2. An empty group goes with its last offset.
3. The search goes over all groups in slices of at most TOMBSTONES_PER_WRITE records, so that no call is long; a group
   with more offsets is continued in the next slice. A slice that cannot be written ends the search until the next
   interval: the disk has other troubles then.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from ottla.broker.coordinators.effects import Effect, Reply, SetTimer, StoredRecord, Write
from ottla.broker.coordinators.groups.group import Group
from ottla.broker.coordinators.groups.offset_store import CommittedOffset, OffsetStore
from ottla.broker.coordinators.groups.records import NO_EXPIRY, offset_tombstone
from ottla.broker.coordinators.groups.settings import TOMBSTONES_PER_WRITE, GroupSettings
from ottla.broker.coordinators.groups.timers import ExpiryTimer
from ottla.errors import BrokerError

log = logging.getLogger(__name__)


class Expiry:
    def __init__(self, groups: Mapping[str, Group], offsets: OffsetStore, settings: GroupSettings) -> None:
        self._groups = groups
        self._offsets = offsets
        self._settings = settings
        self._left: deque[str] = deque()  # groups that this search has still to check
        self._continues = False  # the timer that comes is for the next slice of this search

    def next_search(self, now_ms: int) -> SetTimer:
        return SetTimer(ExpiryTimer(), now_ms + self._settings.offsets_retention_check_interval_ms)

    def search(self, now_ms: int) -> list[Effect]:
        """One slice of the search; it sets the timer for the next slice, or for the next search."""
        if self._continues and not self._left:
            self._continues = False  # the last slice could not be written
            return [self.next_search(now_ms)]
        if not self._left:
            self._left.extend(self._groups)
        effects: list[Effect] = []
        room = TOMBSTONES_PER_WRITE
        while self._left and room > 0:
            group = self._groups.get(self._left[0])
            records = [] if group is None else list(islice(self._outdated(group, now_ms), room))
            room -= len(records)
            if room > 0:
                self._left.popleft()
            if group is not None and records:
                effects += self._removal(group, records)
        self._continues = bool(self._left)
        effects.append(SetTimer(ExpiryTimer(), now_ms) if self._continues else self.next_search(now_ms))
        return effects

    def _removal(self, group: Group, records: list[StoredRecord]) -> list[Effect]:
        def failure(error: BrokerError) -> tuple[Reply, ...]:
            log.warning("group %s: expired offsets could not be removed: %s", group.group_id, error)
            self._left.clear()
            return ()

        return [Write(tuple(records), (), failure)]

    def _outdated(self, group: Group, now_ms: int) -> Iterator[StoredRecord]:
        if not group.expires:
            return
        is_any_left = self._offsets.has_any_pending(group.group_id)
        for topic, partitions in self._offsets.of_group(group.group_id).items():
            for partition, offset in partitions.items():
                if self._is_outdated(group, topic, partition, offset, now_ms):
                    yield offset_tombstone(group.group_id, topic, partition)
                else:
                    is_any_left = True
        if group.is_empty and not is_any_left:
            yield from group.tombstones()

    def _is_outdated(self, group: Group, topic: str, partition: int, offset: CommittedOffset, now_ms: int) -> bool:
        start_ms = group.retention_start_ms(offset.commit_timestamp_ms)
        if start_ms is None or group.is_subscribed_to(topic):
            return False
        if self._offsets.has_pending(group.group_id, topic, partition):
            return False
        if offset.expire_timestamp_ms != NO_EXPIRY:
            return now_ms >= offset.expire_timestamp_ms
        return now_ms - start_ms >= self._settings.offsets_retention_ms

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]]) -> list[Effect]:
        """Remove the offsets of deleted topics, named by name and id."""
        places = (place for name, topic_id in topics for place in self._offsets.of_deleted_topic(name, topic_id))
        records = [offset_tombstone(*place) for place in places]

        def failure(error: BrokerError) -> tuple[Reply, ...]:
            log.warning("offsets of deleted topics could not be removed, they will expire: %s", error)
            return ()

        slices = range(0, len(records), TOMBSTONES_PER_WRITE)
        return [Write(tuple(records[at : at + TOMBSTONES_PER_WRITE]), (), failure) for at in slices]
