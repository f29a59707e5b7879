"""The sticky task assignor: every task is active with one member, and stands by in other processes.

    active    first where it was active, then where it stood by, then with the member that has least
    standby   first where it was active, then where it stood by, then with the member that has least;
              only in processes that do not have the task

1. Every task is active with exactly one member, and no member has more than its share: the tasks divided by the
   members, rounded up. Two members differ by one active task at most.
2. A task of a subtopology with state stands by in as many other processes as are asked for, or as there are. Members
   of one process share memory and disk, so a second copy there would save nothing.
3. A task stays where it was as long as that member has not its share already.
4. The same question has the same answer: ties are decided by the names of processes and members.

Kafka's assignor of the same name follows the same order. It counts the load of processes where this one counts that of
members first; so members of a large process may differ by more there. Warm-up tasks are not assigned: Kafka 4.3 does
not assign them either, because members do not report yet how far their tasks lag behind.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from ottla.broker.coordinators.groups.streams.tasks import TaskId, Tasks, by_subtopology, task_ids
from ottla.light_tuples import NamedTuple


class SubtopologySpec(NamedTuple):
    task_count: int
    is_stateful: bool


class MemberSpec(NamedTuple):
    process_id: str
    tasks: Tasks  # what it had in the assignment before


class AssignmentSpec(NamedTuple):
    members: Mapping[str, MemberSpec]
    subtopologies: Mapping[str, SubtopologySpec]
    standby_replicas: int


class Assigned(NamedTuple):
    tasks: dict[str, Tasks]  # by member
    missing_standbys: int  # there are not enough processes for these


Load: TypeAlias = tuple[int, float, str, str]  # tasks of the member, and per member of its process; then the names


class Share:
    """How many tasks a member may get until the rest must go to others; smaller once some have theirs."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.limit = -(-tasks // members) if members else 0

    def got(self, count: int) -> None:
        """A member has so many now."""
        if count == self.limit:
            self._members -= 1
            self._tasks -= count
            self.limit = -(-self._tasks // self._members) if self._members else 0


class Placing:
    """Who has what so far."""

    def __init__(self, spec: AssignmentSpec) -> None:
        self._process = {name: each.process_id for name, each in spec.members.items()}
        self.active: dict[str, set[TaskId]] = {name: set() for name in spec.members}
        self.standby: dict[str, set[TaskId]] = {name: set() for name in spec.members}
        self.count = dict.fromkeys(spec.members, 0)
        self._sizes: dict[str, int] = {}
        for process in self._process.values():
            self._sizes[process] = self._sizes.get(process, 0) + 1
        self._process_count = dict.fromkeys(self._sizes, 0)
        self._process_tasks: dict[str, set[TaskId]] = {process: set() for process in self._sizes}

    def has(self, member_id: str, task: TaskId) -> bool:
        """Whether the process of this member has the task."""
        return task in self._process_tasks[self._process[member_id]]

    def place(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        process = self._process[member_id]
        (self.active if is_active else self.standby)[member_id].add(task)
        self._process_tasks[process].add(task)
        self._process_count[process] += 1
        self.count[member_id] += 1
        return self.count[member_id]

    def load(self, member_id: str) -> Load:
        process = self._process[member_id]
        return self.count[member_id], self._process_count[process] / self._sizes[process], process, member_id


class LeastLoaded:
    """The member with the fewest tasks. Loads only grow, so an old entry is recognised and put back where it is due."""

    def __init__(self, placing: Placing, members: Iterable[str]) -> None:
        self._placing = placing
        self._heap = [placing.load(each) for each in members]
        heapq.heapify(self._heap)

    def pop(self) -> str | None:
        while self._heap:
            entry = heapq.heappop(self._heap)
            now = self._placing.load(entry[-1])
            if now == entry:
                return entry[-1]
            heapq.heappush(self._heap, now)
        return None

    def push(self, member_id: str) -> None:
        heapq.heappush(self._heap, self._placing.load(member_id))


def assign(spec: AssignmentSpec) -> Assigned:
    if not spec.members:
        return Assigned({}, 0)
    placing, before = Placing(spec), _Before(spec)
    stateful = sum(each.task_count for each in spec.subtopologies.values() if each.is_stateful)
    total = sum(each.task_count for each in spec.subtopologies.values())
    all_share = Share(total + stateful * spec.standby_replicas, len(spec.members))
    _place_active(spec, placing, before, Share(total, len(spec.members)), all_share)
    missing = _place_standbys(spec, placing, before, all_share) if spec.standby_replicas else 0
    tasks = {
        name: Tasks(by_subtopology(placing.active[name]), by_subtopology(placing.standby[name]))
        for name in spec.members
    }
    return Assigned(tasks, missing)


class _Before:
    """Where tasks were."""

    def __init__(self, spec: AssignmentSpec) -> None:
        self.active: dict[TaskId, str] = {}
        self.standby: dict[TaskId, list[str]] = {}
        for name in sorted(spec.members):
            tasks = spec.members[name].tasks
            self.active.update(dict.fromkeys(task_ids(tasks.active), name))
            for task in task_ids(tasks.standby):
                self.standby.setdefault(task, []).append(name)


def _all_tasks(spec: AssignmentSpec, *, only_stateful: bool = False) -> Iterator[TaskId]:
    for name, each in spec.subtopologies.items():
        if each.is_stateful or not only_stateful:
            yield from (TaskId(name, partition) for partition in range(each.task_count))


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task.partition, task.subtopology


def _place_active(spec: AssignmentSpec, placing: Placing, before: _Before, share: Share, all_share: Share) -> None:
    def place(member_id: str, task: TaskId) -> None:
        count = placing.place(member_id, task, is_active=True)
        share.got(count)
        all_share.got(count)

    left = []
    for task in sorted(_all_tasks(spec), key=_by_partition):
        owner = before.active.get(task)
        if owner is not None and placing.count[owner] < share.limit:
            place(owner, task)
        else:
            left.append(task)
    new = []
    for task in left:
        keeper = min(before.standby.get(task, ()), key=placing.load, default=None)
        if keeper is not None and placing.count[keeper] < share.limit:
            place(keeper, task)
        else:
            new.append(task)
    least = LeastLoaded(placing, spec.members)
    for task in sorted(new):
        member_id = least.pop()
        assert member_id is not None, "there are members"
        place(member_id, task)
        least.push(member_id)


def _place_standbys(spec: AssignmentSpec, placing: Placing, before: _Before, share: Share) -> int:
    """Returns how many could not be placed."""
    left: list[tuple[TaskId, int]] = []
    for task in sorted(_all_tasks(spec, only_stateful=True), key=_by_partition, reverse=True):
        for placed in range(spec.standby_replicas):
            keeper = _former_keeper(task, placing, before, share)
            if keeper is None:
                left.append((task, spec.standby_replicas - placed))
                break
            share.got(placing.place(keeper, task, is_active=False))
    least = LeastLoaded(placing, spec.members)
    missing = 0
    for task, replicas in sorted(left, reverse=True):
        for placed in range(replicas):
            if not _place_elsewhere(task, placing, least, share):
                missing += replicas - placed
                break
    return missing


def _former_keeper(task: TaskId, placing: Placing, before: _Before, share: Share) -> str | None:
    """Who had the task, has not its process having it now, and has room; who had it active comes first."""
    owner = before.active.get(task)
    if owner is not None and not placing.has(owner, task) and placing.count[owner] < share.limit:
        return owner
    keepers = [each for each in before.standby.get(task, ()) if not placing.has(each, task)]
    keeper = min(keepers, key=placing.load, default=None)
    return keeper if keeper is not None and placing.count[keeper] < share.limit else None


def _place_elsewhere(task: TaskId, placing: Placing, least: LeastLoaded, share: Share) -> bool:
    passed_over: list[str] = []
    while (member_id := least.pop()) is not None and placing.has(member_id, task):
        passed_over.append(member_id)
    if member_id is not None:
        share.got(placing.place(member_id, task, is_active=False))
        passed_over.append(member_id)
    for each in passed_over:
        least.push(each)
    return member_id is not None
