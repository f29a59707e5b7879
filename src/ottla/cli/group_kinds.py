"""Groups that are not of ordinary consumers, as `ottla group` shows them: share groups and groups of Kafka Streams.

1. What kind a group is, is asked of all brokers; a group that none of them knows is taken for one of consumers, and
   its own question says that it is not there.
2. A share group has no committed offsets: of each partition it knows where it starts, everything before is done, and
   how many records are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.output import counted
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.values import TopicPartition

SHARE: Final = "share"
STREAMS: Final = "streams"


def kinds_of(admin: Admin, names: list[str]) -> dict[str, str]:
    """Share groups and groups of Streams among these, with their kind."""
    try:
        found = admin.list_groups()
    except OttlaError:
        return {}  # a broker is away; groups of consumers can be asked for all the same
    kinds = {each.group_id: (each.type or "").lower() for each in found}
    return {name: kinds[name] for name in names if kinds.get(name) in (SHARE, STREAMS)}


def starts_of(admin: Admin, group: str) -> dict[TopicPartition, Any]:
    """Where a share group starts, without partitions where it never was."""
    return {name: each for name, each in admin.list_share_group_offsets(group).items() if each is not None}


# --- members ---


def member_as_json(member: Any) -> dict[str, object]:
    """A member of a share group, or of a group of consumers, which may have the id of an instance too."""
    instance = {"group_instance_id": member.group_instance_id} if hasattr(member, "group_instance_id") else {}
    return {
        "member_id": member.member_id,
        **instance,
        "host": member.host,
        "client_id": member.client_id,
        "assignment": [list(partition) for partition in sorted(member.assignment)],
    }


def member_row(member: Any) -> tuple[object, ...]:
    """Host, client, and what it reads."""
    partitions = ", ".join(map(str, sorted(member.assignment))) or None
    return member.host, member.client_id, len(member.assignment), partitions


# --- share groups ---


def share_as_json(group: Any, starts: Mapping[TopicPartition, Any]) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": SHARE,
        "assignor": group.assignor,
        "members": [member_as_json(each) for each in group.members],
        "lag": sum(each.lag or 0 for each in starts.values()),
        "offsets": [
            {"topic": name.topic, "partition": name.partition, "start": each.offset, "lag": each.lag}
            for name, each in sorted(starts.items())
        ],
    }


def print_share_offsets(out: Any, group: Any, starts: Mapping[TopicPartition, Any]) -> None:
    lag = sum(each.lag or 0 for each in starts.values())
    who = f"{group.state}, share group, {counted(len(group.members), 'member')}"
    out.line(f"{group.group_id}: {who}, lag {counted(lag, 'record')}")
    rows = [(name.topic, name.partition, each.offset, each.lag) for name, each in sorted(starts.items())]
    out.table(("TOPIC", "PARTITION", "START", "LAG"), rows)


def print_share_members(out: Any, group: Any) -> None:
    out.line(f"{group.group_id}: {group.state}, share group, assignor {group.assignor or '-'}")
    rows = [(each.member_id, *member_row(each)) for each in group.members]
    out.table(("MEMBER", "HOST", "CLIENT", "PARTITIONS", "ASSIGNMENT"), rows)


# --- Kafka Streams ---


def streams_as_json(group: Any, rows: list[Any]) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": STREAMS,
        "topology": [
            {"subtopology": each.subtopology_id, "source_topics": list(each.source_topics)}
            for each in group.subtopologies
        ],
        "members": [
            {
                "member_id": each.member_id,
                "process_id": each.process_id,
                "host": each.host,
                "client_id": each.client_id,
                "active": _tasks(each.assignment.active),
                "standby": _tasks(each.assignment.standby),
                "warmup": _tasks(each.assignment.warmup),
            }
            for each in group.members
        ],
        "lag": sum(row.lag or 0 for row in rows),
        "offsets": [row._asdict() for row in rows],
    }


def print_streams(out: Any, group: Any, rows: list[Any], *, members: bool) -> None:
    what = f"{group.state}, Kafka Streams, {counted(len(group.members), 'member')}"
    if members:
        out.line(f"{group.group_id}: {what}")
        table = [
            (
                each.member_id, each.host, each.client_id, " ".join(_tasks(each.assignment.active)) or None,
                " ".join(_tasks(each.assignment.standby)) or None,
            )
            for each in group.members
        ]  # fmt: skip
        out.table(("MEMBER", "HOST", "CLIENT", "TASKS", "STANDBY"), table)
        return
    lag = sum(row.lag or 0 for row in rows)
    out.line(f"{group.group_id}: {what}, lag {lag:,} records")
    offsets = [(row.topic, row.partition, row.committed, row.end, row.lag) for row in rows]
    out.table(("TOPIC", "PARTITION", "COMMITTED", "END", "LAG"), offsets)


def _tasks(tasks: Any) -> list[str]:
    return [f"{each.subtopology_id}_{each.partition}" for each in sorted(tasks)]
