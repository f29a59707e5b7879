"""The tables of `kafka-consumer-groups --describe`: offsets and lag, members, state.

Columns, widths and the words for what is missing (`-`) are those of Apache's tool: people cut and grep them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.java_maps import partition_order
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.groups import GroupDescription, MemberDescription
    from ottla.values import Node, TopicPartition

MISSING: Final = "-"
NARROW: Final = 15
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def print_error(text: str) -> None:
    print(f"\nError: {text}")


def is_shown(group: GroupDescription, rows: int) -> bool:
    """Whether there is something to show of the group; what there is to know of its state is said on the way."""
    if group.state == "Dead":
        print_error(f"Consumer group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)
    return group.state != "Dead" and rows > 0


# --- offsets ---------------------------------------------------------------------------------------------------------


class OffsetRow(NamedTuple):
    """One partition, as text."""

    group: str
    topic: str
    partition: str
    leader_epoch: str
    current: str
    end: str
    lag: str
    consumer_id: str
    host: str
    client_id: str


def print_offsets(admin: Admin, group: GroupDescription, verbose: bool) -> None:
    rows = _offset_rows(admin, group)
    if not is_shown(group, len(rows)):
        return
    headings = OffsetRow(
        "GROUP",
        "TOPIC",
        "PARTITION",
        "LEADER-EPOCH",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    )
    widths = {name: max(NARROW, *(len(getattr(row, name)) for row in rows)) for name in _FITTED}
    for row in (headings, *rows):
        cells = [
            f"{getattr(row, name):<{widths.get(name, 10 if name == 'partition' else NARROW)}}"
            for name in OffsetRow._fields[:-1]
            if verbose or name != "leader_epoch"
        ]
        print("\n" + " ".join([*cells, row.client_id]), end="")
    print()


_FITTED: Final = ("group", "topic", "consumer_id", "host")


def _offset_rows(admin: Admin, group: GroupDescription) -> list[OffsetRow]:
    """A row for each partition: those of members first, of the member with most first, then what nobody reads."""
    committed = admin.list_consumer_group_offsets(group.group_id)
    readers = sorted((each for each in group.members if each.assignment), key=lambda each: -len(each.assignment))
    assigned = {partition for member in readers for partition in member.assignment}
    ends = _ends(admin, {*committed, *assigned})
    rows = []
    for member in readers:
        whom = (member.member_id, member.host, member.client_id)
        rows += [_row(group.group_id, each, committed, ends, whom) for each in sorted(member.assignment)]
    nobody = (MISSING, MISSING, MISSING)
    rows += [_row(group.group_id, each, committed, ends, nobody) for each in sorted(committed) if each not in assigned]
    return rows


def _ends(admin: Admin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Where partitions end; those without a leader are left out."""
    from ottla.cli.operations.offsets import ends_of, led_partitions

    if not partitions:
        return {}
    led = led_partitions(admin.describe_topics({each.topic for each in partitions}).values())
    return ends_of(admin, [each for each in partitions if each in led])


def _row(
    group: str,
    partition: TopicPartition,
    committed: Mapping[TopicPartition, Any],
    ends: Mapping[TopicPartition, int],
    whom: tuple[str, str, str],
) -> OffsetRow:
    place = committed.get(partition)
    end = ends.get(partition)
    lag = None if place is None or end is None else end - place.offset
    return OffsetRow(
        group,
        partition.topic,
        str(partition.partition),
        MISSING if place is None or place.leader_epoch is None else str(place.leader_epoch),
        MISSING if place is None else str(place.offset),
        MISSING if end is None else str(end),
        MISSING if lag is None else str(lag),
        *whom,
    )


# --- members and state -----------------------------------------------------------------------------------------------


def print_members(group: GroupDescription, verbose: bool) -> None:
    shown = is_shown(group, len(group.members))
    members = group.members if shown else ()
    with_instances = any(each.group_instance_id for each in members)
    kinds = {each.speaks_classic for each in members} if group.type == "consumer" else set()
    rows = [_MEMBER_HEADINGS, *(_member_cells(each, group, len(kinds) > 1) for each in members)]
    names = ["GROUP", "CONSUMER-ID", *["GROUP-INSTANCE-ID"] * with_instances, "HOST", "CLIENT-ID", "#PARTITIONS"]
    more = [
        "CURRENT-EPOCH",
        "CURRENT-ASSIGNMENT",
        "TARGET-EPOCH",
        "TARGET-ASSIGNMENT",
        *["UPGRADED"] * (len(kinds) > 1),
    ]
    widths = {name: max(least, *(len(row[name]) for row in rows)) for name, least in _MEMBER_WIDTHS.items()}
    print()
    for row in rows:
        line = "".join(f"{row[name]:<{widths[name]}} " for name in names)
        if verbose:
            line += " ".join(f"{row[name]:<{widths[name]}}" for name in more)
        print(line)


_MEMBER_WIDTHS: Final = {
    "GROUP": NARROW,
    "CONSUMER-ID": NARROW,
    "GROUP-INSTANCE-ID": 17,
    "HOST": NARROW,
    "CLIENT-ID": NARROW,
    "#PARTITIONS": NARROW,
    "CURRENT-EPOCH": NARROW,
    "CURRENT-ASSIGNMENT": 20,
    "TARGET-EPOCH": NARROW,
    "TARGET-ASSIGNMENT": 20,
    "UPGRADED": 0,
}
_MEMBER_HEADINGS: Final = {name: name for name in _MEMBER_WIDTHS}


def _member_cells(member: MemberDescription, group: GroupDescription, mixed: bool) -> dict[str, str]:
    return {
        "GROUP": group.group_id,
        "CONSUMER-ID": member.member_id,
        "GROUP-INSTANCE-ID": member.group_instance_id or "",
        "HOST": member.host,
        "CLIENT-ID": member.client_id,
        "#PARTITIONS": str(len(member.assignment)),
        "CURRENT-EPOCH": _known(member.member_epoch),
        "CURRENT-ASSIGNMENT": _assignment(member.assignment),
        "TARGET-EPOCH": _known(group.assignment_epoch),
        "TARGET-ASSIGNMENT": _assignment(member.target_assignment or ()),
        "UPGRADED": str(not member.speaks_classic).lower() if mixed else "",
    }


def _known(number: int | None) -> str:
    return MISSING if number is None else str(number)


def _assignment(partitions: Collection[TopicPartition]) -> str:
    by_topic: dict[str, list[int]] = {}
    for each in partition_order(partitions):
        by_topic.setdefault(each.topic, []).append(each.partition)
    texts = [f"{topic}:{','.join(map(str, sorted(indexes)))}" for topic, indexes in by_topic.items()]
    return ";".join(sorted(texts)) or MISSING


def print_state(group: GroupDescription, nodes: Mapping[int, Node], verbose: bool) -> None:
    if not is_shown(group, 1):
        return
    node = nodes.get(group.coordinator) if group.coordinator is not None else None
    where = MISSING if node is None else f"{node.host}:{node.port}  ({node.id})"
    row = {
        "GROUP": group.group_id,
        "COORDINATOR (ID)": where,
        "ASSIGNMENT-STRATEGY": group.assignor or MISSING,
        "STATE": group.state,
        "GROUP-EPOCH": _known(group.group_epoch),
        "TARGET-ASSIGNMENT-EPOCH": _known(group.assignment_epoch),
        "#MEMBERS": str(len(group.members)),
    }
    least = {"GROUP": NARROW, "COORDINATOR (ID)": 25, "ASSIGNMENT-STRATEGY": 20, "STATE": 20}
    if verbose:
        least |= {"GROUP-EPOCH": NARROW, "TARGET-ASSIGNMENT-EPOCH": 25}
    widths = {
        name: max(width, len(row[name]) if name in ("GROUP", "COORDINATOR (ID)") else 0)
        for name, width in least.items()
    }
    for cells in ({name: name for name in row}, row):
        line = " ".join(f"{cells[name]:<{width}}" for name, width in widths.items())
        print(f"\n{line} {cells['#MEMBERS']}", end="")
    print()
