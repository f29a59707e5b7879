"""What consumer, share and streams groups have in common: epochs, members, a target for each, and drafts of a change.

1. Only `replay` changes what must survive; members are values that never change.
2. `checked_epoch` is soft: what the group reads was compared with the cluster when the group was at that epoch.
3. What a heartbeat decides builds on what it decided before: a member that replaces another owns its partitions, a new
   target includes the member that has just come. So every record of a Draft is replayed, by the same `replay` as ever,
   into a copy of the group; the group itself changes when the runtime has written the records. The copy is made with
   the first record: a heartbeat that changes nothing costs nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Final, Generic, Self, TypeVar

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.groups.group import Group
from ottla.errors import NonEmptyGroup, UnknownMemberId
from ottla.protocol.schema import Message

M = TypeVar("M")
T = TypeVar("T")

NOT_CHECKED: Final = -1


class ModernGroup(Group, Generic[M, T]):
    """One group of members M, each of which has a target T."""

    def __init__(self, group_id: str, epoch: int = 0) -> None:
        self.group_id = group_id
        self.epoch = epoch
        self.metadata_hash = 0
        self.assignment_epoch = epoch
        self.assignment_timestamp_ms = 0
        self.members: dict[str, M] = {}
        self.targets: dict[str, T] = {}
        self.checked_epoch = NOT_CHECKED

    def copy(self) -> Self:
        """Another group in the same state; the members are shared, they never change."""
        other = type(self)(self.group_id)
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, dict) else value)
        return other

    @abstractmethod
    def replay(self, key: Message, value: Message | None) -> None:
        """A record of the log; None is a tombstone."""

    @property
    def is_metadata_checked(self) -> bool:
        """A check whose records were not written counts for nothing: the group is not at that epoch then."""
        return NOT_CHECKED < self.checked_epoch <= self.epoch

    def member(self, member_id: str) -> M:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    @property
    def is_empty(self) -> bool:
        return not self.members

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup(f"group {self.group_id} is {self.state_name}")


G = TypeVar("G", bound=ModernGroup[Any, Any])


class Draft(Generic[G]):
    """Records that are about to be written, and the group as it will be when they are; `live` is as it is now."""

    def __init__(self, group: G, before: Iterable[StoredRecord] = ()) -> None:
        """`before` go in front and belong to no such group: the tombstones of a classic one."""
        self.live = self.group = group
        self.records: list[StoredRecord] = list(before)

    def write(self, *records: StoredRecord) -> None:
        if self.group is self.live:
            self.group = self.live.copy()
        for record in records:
            self.records.append(record)
            self.group.replay(record.key, record.value)
