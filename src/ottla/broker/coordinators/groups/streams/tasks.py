"""Sets of tasks: what a member should have (`Tasks`), and what it has (`OwnedTasks`).

They go by subtopology, never hold empty subtopologies, and are never changed once made. Active tasks that a member has
come with the member epoch since when: a commit of an older epoch is good for tasks that were had at that epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

from ottla.light_tuples import NamedTuple

Partitions: TypeAlias = Mapping[str, frozenset[int]]  # by subtopology
Epochs: TypeAlias = Mapping[str, Mapping[int, int]]  # by subtopology: partition to the epoch since when


class TaskId(NamedTuple):
    subtopology: str
    partition: int


class Tasks(NamedTuple):
    """Tasks that a member should have, or says that it has."""

    active: Partitions = {}
    standby: Partitions = {}
    warmup: Partitions = {}


class OwnedTasks(NamedTuple):
    """Tasks that a member has."""

    active: Epochs = {}
    standby: Partitions = {}
    warmup: Partitions = {}

    @property
    def tasks(self) -> Tasks:
        return Tasks({name: frozenset(each) for name, each in self.active.items()}, self.standby, self.warmup)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NO_TASKS: Final = Tasks()
NOTHING_OWNED: Final = OwnedTasks()


class WireTasks(Protocol):
    """Tasks of one subtopology, in whichever message."""

    subtopology_id: str
    partitions: list[int]


def partitions_of(entries: Iterable[WireTasks]) -> Partitions:
    """Tasks as a message names them."""
    found: dict[str, set[int]] = {}
    for entry in entries:
        found.setdefault(entry.subtopology_id, set()).update(entry.partitions)
    return {name: frozenset(each) for name, each in found.items() if each}


def task_ids(partitions: Partitions | Epochs) -> Iterator[TaskId]:
    return (TaskId(name, each) for name, numbers in partitions.items() for each in numbers)


def by_subtopology(tasks: Iterable[TaskId]) -> Partitions:
    found: dict[str, set[int]] = {}
    for task in tasks:
        found.setdefault(task.subtopology, set()).add(task.partition)
    return {name: frozenset(each) for name, each in found.items()}


def share_any(one: Partitions | Epochs, other: Partitions | Epochs) -> bool:
    return any(not frozenset(each).isdisjoint(other.get(name, ())) for name, each in one.items())


def is_part_of(some: Partitions, whole: Partitions | Epochs) -> bool:
    return all(each <= frozenset(whole.get(name, ())) for name, each in some.items())


def still_has(says: Tasks, owned: OwnedTasks) -> bool:
    """Whether a member that says so still has any of these tasks."""
    return (
        share_any(says.active, owned.active)
        or share_any(says.standby, owned.standby)
        or share_any(says.warmup, owned.warmup)
    )
