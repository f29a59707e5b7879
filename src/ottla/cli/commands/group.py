"""`ottla group`: list and describe groups of every kind with their lag, move their offsets, delete them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.ages import ages_of
from ottla.cli.connecting import (
    Verbs,
    add_format,
    add_verb,
    admin_of,
    confirmed,
    ensure,
    output_of,
    settings_of,
)
from ottla.cli.group_kinds import (
    SHARE,
    kinds_of,
    member_as_json,
    member_row,
    print_share_members,
    print_share_offsets,
    print_streams,
    share_as_json,
    starts_of,
    streams_as_json,
)
from ottla.cli.lag import LagRow, behind, lag_rows, total
from ottla.cli.moments import duration_ms, milliseconds
from ottla.cli.output import OK, Failure, counted
from ottla.cli.show import shown_duration
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.values import TopicPartition

EXAMPLES: Final = """\
examples:
  ottla group list
  ottla group describe billing                     members, offsets, lag in records and seconds
  ottla group describe billing --members
  ottla group reset billing --topic clicks --to-earliest            shows what would be done
  ottla group reset billing --topic clicks:0,2 --to-time -2h --execute
  ottla group reset billing --all-topics --shift-by -100 --execute
  ottla group delete-offsets billing --topic clicks
  ottla group delete billing --yes

share groups: what is moved is where the group starts; groups of Kafka Streams are shown with their tasks
"""
Shown = tuple[dict[str, object], Callable[[Any], None]]
"""A group as JSON, and what prints it for people."""


def add_verbs(verbs: Verbs) -> None:
    listing = add_verb(verbs, "list", "all groups", run_list, EXAMPLES)
    listing.add_argument("--state", action="append", default=[], metavar="STATE", help="only these (Stable, Empty)")
    listing.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help="classic, consumer, share or streams"
    )
    add_format(listing)
    describe = add_verb(verbs, "describe", "members, committed offsets and lag", run_describe, EXAMPLES)
    describe.add_argument("groups", nargs="+", metavar="GROUP")
    describe.add_argument("--members", action="store_true", help="the members instead of the offsets")
    describe.add_argument("--no-seconds", action="store_true", help="no lag in seconds: quicker with many partitions")
    add_format(describe)
    reset = add_verb(verbs, "reset", "move the offsets of a group that has no members", run_reset, EXAMPLES)
    reset.add_argument("group", metavar="GROUP")
    reset.add_argument("--topic", action="append", default=[], metavar="TOPIC[:0,1]", help="which; may be repeated")
    reset.add_argument("--all-topics", action="store_true", help="all that the group has committed for")
    where = reset.add_mutually_exclusive_group(required=True)
    where.add_argument("--to-earliest", action="store_true", help="the oldest record")
    where.add_argument("--to-latest", action="store_true", help="behind the newest record")
    where.add_argument("--to-current", action="store_true", help="commit once more what is committed")
    where.add_argument("--to-offset", type=int, metavar="N")
    where.add_argument("--to-time", "--to-datetime", metavar="TIME", help="2026-11-01T00:00:00Z, -2h")
    where.add_argument("--by-duration", metavar="TIME", help="so long ago: 2h, PT2H")
    where.add_argument("--shift-by", type=int, metavar="N", help="records forward, or back with a minus")
    reset.add_argument("--execute", action="store_true", help="do it; without this it is only shown")
    add_format(reset)
    forget = add_verb(verbs, "delete-offsets", "let a group forget topics", run_delete_offsets, EXAMPLES)
    forget.add_argument("group", metavar="GROUP")
    forget.add_argument("--topic", action="append", required=True, metavar="TOPIC", help="which; may be repeated")
    delete = add_verb(verbs, "delete", "delete groups that have no members", run_delete, EXAMPLES)
    delete.add_argument("groups", nargs="+", metavar="GROUP")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")


# --- look ------------------------------------------------------------------------------------------------------------


def run_list(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        found = admin.list_groups(states=options.state, types=options.type)
    rows = [(each.group_id, each.type, each.protocol_type or None, each.state) for each in found]
    output_of(options).table(("GROUP", "TYPE", "PROTOCOL", "STATE"), rows)
    return OK


def run_describe(options: argparse.Namespace) -> int:
    out = output_of(options)
    with admin_of(options) as admin:
        kinds = kinds_of(admin, options.groups)
        ordinary = [name for name in options.groups if name not in kinds]
        described = admin.describe_consumer_groups(ordinary) if ordinary else {}
        shown = [
            _other(admin, options, name, kinds[name]) if name in kinds else _ordinary(admin, options, described[name])
            for name in options.groups
        ]
    if options.format == "json":
        out.value([as_json for as_json, _ in shown])
        return OK
    for number, (_, printed) in enumerate(shown):
        if number:
            print()
        printed(out)
    return OK


def _ordinary(admin: Admin, options: argparse.Namespace, group: Any) -> Shown:
    rows = [] if options.members else _rows(admin, group, options)
    if options.members:
        return _as_json(group, rows), lambda out: _print_members(out, group)
    return _as_json(group, rows), lambda out: _print_offsets(out, group, rows)


def _other(admin: Admin, options: argparse.Namespace, name: str, kind: str) -> Shown:
    """A share group, or one of Kafka Streams."""
    if kind == SHARE:
        group = admin.describe_share_groups([name])[name]
        starts = starts_of(admin, name)
        if options.members:
            return share_as_json(group, starts), lambda out: print_share_members(out, group)
        return share_as_json(group, starts), lambda out: print_share_offsets(out, group, starts)
    from ottla.cli.operations.offsets import ends_of

    streams = admin.describe_streams_groups([name])[name]
    committed = admin.list_consumer_group_offsets(name)
    rows = lag_rows(committed, ends_of(admin, _existing(admin, set(committed))), (), {})
    return streams_as_json(streams, rows), lambda out: print_streams(out, streams, rows, members=options.members)


def _rows(admin: Admin, group: Any, options: argparse.Namespace) -> list[LagRow]:
    from ottla.cli.operations.offsets import ends_of

    committed = admin.list_consumer_group_offsets(group.group_id)
    assigned = {partition for member in group.members for partition in member.assignment}
    ends = ends_of(admin, _existing(admin, {*committed, *assigned}))
    ages = {} if options.no_seconds else ages_of(settings_of(options), behind(committed, ends))
    return lag_rows(committed, ends, group.members, ages)


def _existing(admin: Admin, partitions: set[TopicPartition]) -> list[TopicPartition]:
    """Those whose topic is still there: a group remembers topics that were deleted."""
    there = admin.list_topics(include_internal=True)
    return sorted(each for each in partitions if each.topic in there)


def _print_offsets(out: Any, group: Any, rows: list[LagRow]) -> None:
    records, seconds = total(rows)
    oldest = "" if seconds is None or not records else f", the oldest unread record is {shown_duration(seconds)} old"
    state = f"{group.state}, {group.type} protocol, {counted(len(group.members), 'member')}"
    out.line(f"{group.group_id}: {state}, lag {counted(records, 'record')}{oldest}")
    table = [
        (
            row.topic, row.partition, row.committed, row.end, row.lag, shown_duration(row.lag_s), row.member_id,
            row.host, row.client_id,
        )
        for row in rows
    ]  # fmt: skip
    headings = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAG TIME", "MEMBER", "HOST", "CLIENT")
    out.table(headings, table)


def _print_members(out: Any, group: Any) -> None:
    out.line(f"{group.group_id}: {group.state}, {group.type} protocol, assignor {group.assignor or '-'}")
    rows = [(each.member_id, each.group_instance_id, *member_row(each)) for each in group.members]
    out.table(("MEMBER", "INSTANCE", "HOST", "CLIENT", "PARTITIONS", "ASSIGNMENT"), rows)


def _as_json(group: Any, rows: list[LagRow]) -> dict[str, object]:
    records, seconds = total(rows)
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor,
        "members": [member_as_json(each) for each in group.members],
        "lag": records,
        "lag_seconds": seconds,
        "offsets": [row._asdict() for row in rows],
    }


# --- move ------------------------------------------------------------------------------------------------------------


def run_reset(options: argparse.Namespace) -> int:
    ensure(options.topic or options.all_topics, "name topics with --topic, or take --all-topics")
    with admin_of(options) as admin:
        is_share = SHARE in kinds_of(admin, [options.group]).values()
        committed: Mapping[TopicPartition, Any] = (
            starts_of(admin, options.group) if is_share else admin.list_consumer_group_offsets(options.group)
        )
        wanted = _chosen(admin, options, committed)
        ensure(wanted, f"group {options.group!r} has committed nothing; name topics with --topic")
        targets = _targets(admin, options, wanted, committed)
        if options.execute and is_share:
            admin.alter_share_group_offsets(options.group, targets)
        elif options.execute:
            admin.alter_consumer_group_offsets(options.group, targets)
    rows = [
        (partition.topic, partition.partition, _offset(committed.get(partition)), targets[partition])
        for partition in sorted(targets)
    ]
    out = output_of(options)
    out.table(("TOPIC", "PARTITION", "START" if is_share else "COMMITTED", "NEW OFFSET"), rows)
    if not options.execute:
        out.line("nothing was changed; add --execute to do it")
    return OK


def _offset(committed: Any) -> int | None:
    return None if committed is None else committed.offset


def _chosen(admin: Admin, options: argparse.Namespace, committed: Mapping[TopicPartition, Any]) -> list[TopicPartition]:
    from ottla.values import TopicPartition

    if options.all_topics:
        return _existing(admin, set(committed))
    chosen: list[TopicPartition] = []
    for word in options.topic:
        topic, _, indexes = word.partition(":")
        there = [each.partition for each in admin.describe_topics([topic])[topic].partitions]
        try:
            wanted = [int(each) for each in indexes.split(",")] if indexes else there
        except ValueError:
            raise Failure(f"--topic {word}: write partitions as TOPIC:0,1") from None
        unknown = sorted(set(wanted) - set(there))
        ensure(not unknown, f"{topic} has no partition {', '.join(map(str, unknown))}")
        chosen += [TopicPartition(topic, each) for each in wanted]
    return chosen


def _targets(
    admin: Admin, options: argparse.Namespace, wanted: list[TopicPartition], committed: Mapping[TopicPartition, Any]
) -> dict[TopicPartition, int]:
    from ottla.cli.operations.offsets import begins_of, brought_inside, ends_of

    begins, ends = begins_of(admin, wanted), ends_of(admin, wanted)
    return brought_inside(_asked(admin, options, wanted, committed, begins, ends), begins, ends)


def _asked(
    admin: Admin,
    options: argparse.Namespace,
    wanted: list[TopicPartition],
    committed: Mapping[TopicPartition, Any],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    from ottla.cli.operations.offsets import offsets_at

    if options.to_earliest:
        return begins
    if options.to_latest:
        return ends
    if options.to_offset is not None:
        return dict.fromkeys(wanted, options.to_offset)
    if (moment_ms := _moment(options)) is not None:
        found = offsets_at(admin, dict.fromkeys(wanted, moment_ms))
        return {each: ends[each] if offset < 0 else offset for each, offset in found.items()}
    current = {each: _offset(committed.get(each)) for each in wanted}
    shift = options.shift_by or 0
    return {each: ends[each] if offset is None else offset + shift for each, offset in current.items()}


def _moment(options: argparse.Namespace) -> int | None:
    try:
        if options.to_time is not None:
            return milliseconds(options.to_time)
        if options.by_duration is not None:
            return SystemClock().now_ms() - duration_ms(options.by_duration)
    except ValueError as error:
        raise Failure(f"{options.to_time or options.by_duration}: {error}") from None
    return None


def run_delete_offsets(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        if SHARE in kinds_of(admin, [options.group]).values():
            admin.delete_share_group_offsets(options.group, options.topic)
        else:
            committed = admin.list_consumer_group_offsets(options.group)
            forgotten = [each for each in committed if each.topic in options.topic]
            ensure(forgotten, f"group {options.group!r} has committed nothing for {', '.join(options.topic)}")
            admin.delete_consumer_group_offsets(options.group, forgotten)
    print(f"{options.group} forgot {', '.join(options.topic)}")
    return OK


def run_delete(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        if confirmed(f"Delete {', '.join(options.groups)} with all committed offsets?", yes=options.yes):
            admin.delete_consumer_groups(options.groups)
            print(f"deleted {', '.join(options.groups)}")
    return OK
