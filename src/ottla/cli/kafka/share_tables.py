"""The tables of `kafka-share-groups --describe`: where a group starts and lag, members, state.

Columns and widths are those of Apache's tool: people cut and grep them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.group_tables import MISSING, NARROW, print_error

if TYPE_CHECKING:
    from ottla.client.admin.share_groups import ShareGroupDescription, ShareOffset
    from ottla.values import Node, TopicPartition

COORDINATOR_WIDTH: Final = 25


def print_offsets(group: str, offsets: Mapping[TopicPartition, ShareOffset | None], verbose: bool) -> None:
    if not offsets:
        print(f"\nShare group '{group}' has no offset information.")
        return
    rows = [("GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG")]
    for each in sorted(offsets):
        place = offsets[each]
        numbers = (None,) * 3 if place is None else (place.leader_epoch, place.offset, place.lag)
        rows.append((group, each.topic, str(each.partition), *map(_known, numbers)))  # type: ignore[arg-type]
    widths = [_widest(rows[1:], 0), _widest(rows[1:], 1), 10, 13, 13, 0]
    _print_rows(rows, widths, left_out=() if verbose else (3,))


def print_members(group: ShareGroupDescription, verbose: bool) -> None:
    if not _is_shown(group, len(group.members)):
        return
    rows = [("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "MEMBER-EPOCH", "ASSIGNMENT")]
    for each in sorted(group.members, key=lambda each: each.member_id):
        counts = (str(len(each.assignment)), str(each.member_epoch), _assignment(each.assignment))
        rows.append((group.group_id, each.member_id, each.host, each.client_id, *counts))
    widths = [*(_widest(rows[1:], place) for place in range(4)), 12, 13, 0]
    _print_rows(rows, widths, left_out=() if verbose else (5,))


def print_state(group: ShareGroupDescription, nodes: Mapping[int, Node], verbose: bool) -> None:
    _is_shown(group, 1)
    node = nodes.get(group.coordinator) if group.coordinator is not None else None
    where = MISSING if node is None else f"{node.host}:{node.port}  ({node.id})"
    rows = [
        ("GROUP", "COORDINATOR (ID)", "STATE", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"),
        (
            group.group_id,
            where,
            group.state,
            str(group.group_epoch),
            str(group.assignment_epoch),
            str(len(group.members)),
        ),
    ]
    widths = [_widest(rows[1:], 0), max(COORDINATOR_WIDTH, len(where)), 15, 12, 17, 0]
    _print_rows(rows, widths, left_out=() if verbose else (3, 4))


def _is_shown(group: ShareGroupDescription, rows: int) -> bool:
    if group.state == "Dead":
        print_error(f"Share group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print(f"\nShare group '{group.group_id}' has no active members.", file=sys.stderr)
    return group.state != "Dead" and rows > 0


def _known(number: int | None) -> str:
    return MISSING if number is None else str(number)


def _widest(rows: Sequence[Sequence[str]], place: int) -> int:
    return max([NARROW, *(len(row[place]) for row in rows)])


def _print_rows(rows: Sequence[Sequence[str]], widths: Sequence[int], left_out: Collection[int]) -> None:
    for row in rows:
        cells = [
            f"{cell:<{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            if place not in left_out
        ]
        print("\n" + " ".join(cells), end="")
    print()


def _assignment(partitions: Collection[TopicPartition]) -> str:
    by_topic: dict[str, list[int]] = {}
    for each in partitions:
        by_topic.setdefault(each.topic, []).append(each.partition)
    return ";".join(sorted(f"{topic}:{','.join(map(str, sorted(indexes)))}" for topic, indexes in by_topic.items()))
