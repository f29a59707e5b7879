"""Which member has a task, in which role: all that keeps two members from working at the same task.

A task counts as had until its member has released it. Members of one process share a state directory, so what matters
beside the active owner is who else in the process has the task.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.coordinators.groups.streams.member import StreamsMember
from ottla.broker.coordinators.groups.streams.tasks import OwnedTasks, TaskId, task_ids


class Owners:
    def __init__(self) -> None:
        self._active: dict[TaskId, str] = {}  # member
        self._any: dict[TaskId, dict[str, str]] = {}  # in whichever role: member to its process

    def copy(self) -> Owners:
        other = Owners()
        other._active = dict(self._active)
        other._any = {task: dict(each) for task, each in self._any.items()}
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Owners) and (self._active, self._any) == (other._active, other._any)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def add(self, member: StreamsMember) -> None:
        for owned in (member.assigned, member.revoking):
            self._active.update(dict.fromkeys(task_ids(owned.active), member.member_id))
            for task in _all(owned):
                self._any.setdefault(task, {})[member.member_id] = member.process_id

    def remove(self, member: StreamsMember) -> None:
        for owned in (member.assigned, member.revoking):
            for task in task_ids(owned.active):
                if self._active.get(task) == member.member_id:
                    del self._active[task]
            for task in _all(owned):
                members = self._any.get(task, {})
                members.pop(member.member_id, None)
                if not members:
                    self._any.pop(task, None)

    def is_free(self, task: TaskId, member: StreamsMember) -> bool:
        """Whether the member may have the task as its active one."""
        return self._active.get(task, member.member_id) == member.member_id and self.is_free_in_process(task, member)

    def is_free_in_process(self, task: TaskId, member: StreamsMember) -> bool:
        """Whether no other member of its process has the task."""
        return not any(
            process == member.process_id and name != member.member_id
            for name, process in self._any.get(task, {}).items()
        )


def _all(owned: OwnedTasks) -> Iterable[TaskId]:
    yield from task_ids(owned.active)
    yield from task_ids(owned.standby)
    yield from task_ids(owned.warmup)
