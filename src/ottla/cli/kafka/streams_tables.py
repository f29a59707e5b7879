"""The tables of `kafka-streams-groups --describe`: offsets and lag, members with their tasks, state.

Columns and widths are those of Apache's tool: people cut and grep them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.group_tables import MISSING, NARROW, print_error
from ottla.cli.kafka.java_maps import partition_order
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.streams_groups import StreamsGroupDescription, Task, TaskAssignment
    from ottla.values import Node

WIDE: Final = 25


def print_members(group: StreamsGroupDescription, verbose: bool) -> None:
    if group.state == "Dead" or not group.members:
        return
    _print_state(group)
    names = ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID"]
    rows = [(group.group_id, each.member_id, each.process_id, each.client_id) for each in group.members]
    widths = [max([NARROW, *(len(row[place]) for row in rows)]) for place in range(len(names))]
    for row, member in zip([tuple(names), *rows], [None, *group.members], strict=True):
        first, second, *rest = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        tasks = "ASSIGNMENTS" if member is None else _tasks_of(member.assignment, "")
        if not verbose:
            print(" ".join([first, second, *rest, tasks]))
            continue
        epochs = ("TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER-PROTOCOL", "MEMBER-EPOCH")
        if member is not None:
            protocol = "classic" if member.speaks_classic else "streams"
            epochs = (str(group.assignment_epoch), str(group.topology_epoch), protocol, str(member.member_epoch))
            tasks += _tasks_of(member.target_assignment, "TARGET-")
        target, topology, protocol, epoch = epochs
        # Apache's tool has no space between these two columns.
        second = f"{topology:<{NARROW}}{second}"
        print(
            " ".join([first, f"{target:<{WIDE}}", second, f"{protocol:<{NARROW}}", f"{epoch:<{NARROW}}", *rest, tasks])
        )


def _tasks_of(tasks: TaskAssignment, prefix: str) -> str:
    kinds = (("ACTIVE", tasks.active), ("STANDBY", tasks.standby), ("WARMUP", tasks.warmup))
    return "".join(_kind_of_tasks(found, prefix + name) for name, found in kinds if found)


def _kind_of_tasks(tasks: Collection[Task], name: str) -> str:
    by_part: dict[str, list[int]] = {}
    for each in sorted(tasks):
        by_part.setdefault(each.subtopology_id, []).append(each.partition)
    return f"{name}: " + "".join(f"{part}:[{','.join(map(str, found))}]; " for part, found in by_part.items())


def print_state(group: StreamsGroupDescription, nodes: Mapping[int, Node], verbose: bool) -> None:
    _print_state(group)
    node = nodes.get(group.coordinator) if group.coordinator is not None else None
    where = MISSING if node is None else f"{node.host}:{node.port} ({node.id})"
    widths = [max(NARROW, len(group.group_id)), max(WIDE, len(where)), WIDE]
    headings = ["GROUP", "COORDINATOR (ID)", "STATE"]
    cells = [group.group_id, where, group.state]
    if verbose:
        widths += [NARROW, WIDE]
        headings += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells += [str(group.group_epoch), str(group.assignment_epoch)]
    _print_rows([[*headings, "#MEMBERS"], [*cells, str(len(group.members))]], [*widths, 0])


def _print_state(group: StreamsGroupDescription) -> None:
    """What there is to say of a group that nobody is in."""
    if group.state == "Dead":
        print_error(f"Streams group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print_error(f"Streams group '{group.group_id}' has no active members.")


def print_offsets(
    admin: Admin, group: StreamsGroupDescription, committed: Mapping[TopicPartition, Any], verbose: bool
) -> None:
    """The partitions of active tasks; the lag of one without a commit is all that it has."""
    from ottla.cli.operations.offsets import begins_of, ends_of

    partitions = partition_order(_read_partitions(group))
    begins, ends = begins_of(admin, partitions), ends_of(admin, partitions)
    _print_state(group)
    rows = [["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET", "OFFSET-LAG"]]
    for each in partitions:
        place, end = committed.get(each), ends[each]
        epoch = None if place is None else place.leader_epoch
        numbers = [None if place is None else place.offset, epoch, end]
        lag = end - (begins[each] if place is None else place.offset)
        shown = [MISSING if number is None else str(number) for number in numbers]
        rows.append([group.group_id, each.topic, str(each.partition), *shown, str(lag)])
    widths = [*(max([NARROW, *(len(row[place]) for row in rows)]) for place in (0, 1)), 10, *[NARROW] * 4]
    if not verbose:
        rows = [[*row[:3], row[-1]] for row in rows]
        widths = [*widths[:3], 0]
    _print_rows(rows, widths)


def _read_partitions(group: StreamsGroupDescription) -> set[TopicPartition]:
    """What the active tasks of all members read."""
    topics = {
        part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        for part in group.subtopologies
    }
    return {
        TopicPartition(topic, task.partition)
        for member in group.members
        for task in member.assignment.active
        for topic in topics[task.subtopology_id]
    }


def _print_rows(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    for row in rows:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))
