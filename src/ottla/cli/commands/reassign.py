"""`ottla reassign`: put the replicas of partitions on other brokers, or have more or fewer of them.

1. `start` shows every move before it begins, and --plan only shows them. Replicas that can stay do (placement.py); or a
   file says exactly where they belong, in the form of Kafka's kafka-reassign-partitions, which --json writes.
2. Records stay readable and writable meanwhile. --throttle bounds the bytes a second that moves may take of each
   broker; `unthrottle` ends that, also what Kafka's tool has set.
3. `status` shows what is still moving, `cancel` goes back to where the replicas were.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, confirmed, ensure, output_of
from ottla.cli.output import FAILED, OK, Failure

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.values import TopicPartition

EXAMPLES: Final = """\
examples:
  ottla reassign start clicks --replication 3             three copies of each partition
  ottla reassign start --brokers 1,2,3 --plan             what would move, if all topics were on these
  ottla reassign start --brokers 1,2,3 --throttle 50MB
  ottla reassign start clicks --replication 3 --json      the moves, as kafka-reassign-partitions reads them
  ottla reassign start --file moves.json
  ottla reassign status
  ottla reassign cancel clicks
  ottla reassign unthrottle                               when nothing moves any more
"""
HEADINGS: Final = ("TOPIC", "PARTITION", "NOW", "THEN")


def add_verbs(verbs: Verbs) -> None:
    start = add_verb(verbs, "start", "move replicas", run_start, EXAMPLES)
    start.add_argument("partitions", nargs="*", metavar="TOPIC[:N]", help="only these (all topics)")
    start.add_argument("-r", "--replication", type=int, metavar="N", help="so many replicas of each (as many as now)")
    start.add_argument("--brokers", metavar="IDS", help="only on these, with commas between them (all brokers)")
    start.add_argument("--file", type=Path, metavar="FILE", help="the moves, instead of planning them")
    start.add_argument("--throttle", metavar="BYTES", help="bytes a second of each broker at most: 50MB, ...")
    start.add_argument("--plan", action="store_true", help="only show the moves")
    start.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_format(start)
    status = add_verb(verbs, "status", "what is moving", run_status, EXAMPLES)
    add_format(status)
    cancel = add_verb(verbs, "cancel", "take moves back that are going on", run_cancel, EXAMPLES)
    cancel.add_argument("partitions", nargs="*", metavar="TOPIC[:N]", help="only these (all that move)")
    cancel.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_verb(verbs, "unthrottle", "end the throttles of moves", run_unthrottle, EXAMPLES)


def run_start(options: argparse.Namespace) -> int:
    from ottla.cli.moves import file_text, moved

    rate = _rate(options.throttle)
    with admin_of(options) as admin:
        current, wanted = _planned(admin, options)
        moves = moved(current, wanted)
        if options.format == "json":
            output_of(options).value(file_text(moves))
        elif moves:
            rows = [(key.topic, key.partition, _ids(current[key]), _ids(each)) for key, each in moves.items()]
            output_of(options).table(HEADINGS, rows)
        if not moves or options.plan or options.format == "json":
            _print_unless_json(options, "" if moves else "nothing to move: all replicas are where they belong")
            return OK
        if not confirmed(f"Move the replicas of {len(moves)} partitions?", yes=options.yes):
            return FAILED
        if rate is not None:
            _throttle(admin, current, moves, rate)
        admin.alter_partition_reassignments(moves)
    print(f"{len(moves)} partitions are moving; see: ottla reassign status")
    if rate is not None:
        print("when nothing moves any more: ottla reassign unthrottle")
    return OK


def _print_unless_json(options: argparse.Namespace, text: str) -> None:
    if text and options.format != "json":
        print(text)


def _rate(text: str | None) -> int | None:
    from ottla.cli.amounts import bytes_of

    if text is None:
        return None
    try:
        rate = int(bytes_of(text))
    except ValueError as error:
        raise Failure(f"--throttle {text}: {error}") from None
    ensure(rate > 0, "--throttle is above zero; without it there is no bound")
    return rate


def _planned(
    admin: Admin, options: argparse.Namespace
) -> tuple[dict[TopicPartition, tuple[int, ...]], Mapping[TopicPartition, Sequence[int]]]:
    """Where the replicas are, and where they should be."""
    from ottla.cli.moves import read_moves
    from ottla.cli.partitions import partitions_of
    from ottla.cli.placement import placed

    racks = {node.id: node.rack for node in admin.describe_cluster().nodes}
    if options.file is not None:
        ensure(
            not options.partitions and options.brokers is None and options.replication is None,
            "--file says everything; leave topics, --brokers and --replication out",
        )
        wanted = read_moves(options.file)
        topics = sorted({key.topic for key in wanted})
        there = partitions_of(admin, topics) if topics else {}
        missing = [str(key) for key in wanted if key not in there]
        ensure(not missing, f"there is no {', '.join(missing)}")
        _check_brokers({each for replicas in wanted.values() for each in replicas}, racks)
        return {key: there[key].replicas for key in wanted}, wanted
    ids = _broker_ids(options.brokers, racks)
    number = options.replication
    ensure(number is None or number > 0, "--replication is above zero")
    ensure(number is None or number <= len(ids), f"{number} replicas need as many brokers; there are {len(ids)}")
    current = {key: each.replicas for key, each in partitions_of(admin, options.partitions).items()}
    most = max(map(len, current.values()), default=0)
    ensure(number is not None or most <= len(ids), f"some partitions have {most} replicas; name as many brokers")
    return current, placed(current, {each: racks[each] for each in ids}, number)


def _broker_ids(text: str | None, racks: Mapping[int, str | None]) -> list[int]:
    if text is None:
        return sorted(racks)
    parts = [part.strip() for part in text.split(",")]
    ensure(all(part.isdigit() for part in parts), f"--brokers {text}: write ids with commas between them")
    ids = sorted(set(map(int, parts)))
    _check_brokers(set(ids), racks)
    return ids


def _check_brokers(ids: set[int], racks: Mapping[int, str | None]) -> None:
    missing = sorted(ids - set(racks))
    there = ", ".join(map(str, sorted(racks)))
    ensure(not missing, f"there is no broker {', '.join(map(str, missing))}; there is {there}")


def _ids(replicas: Sequence[int]) -> str:
    return ",".join(map(str, replicas))


# --- throttles -------------------------------------------------------------------------------------------------------


def _throttle(
    admin: Admin,
    current: Mapping[TopicPartition, Sequence[int]],
    moves: Mapping[TopicPartition, Sequence[int]],
    rate: int,
) -> None:
    from ottla.cli.moves import RATES, throttled
    from ottla.cli.operations.configs import resource, setting

    copied = {key: (set(current[key]), set(replicas) - set(current[key])) for key, replicas in moves.items()}
    brokers = {each for key, replicas in moves.items() for each in (*replicas, *current[key])}
    changes = {resource("topic", topic): setting(values) for topic, values in throttled(copied).items()}
    changes |= {resource("broker", str(each)): setting(dict.fromkeys(RATES, str(rate))) for each in sorted(brokers)}
    admin.incremental_alter_configs(changes)


def run_unthrottle(options: argparse.Namespace) -> int:
    from ottla.cli.moves import FOLLOWERS, LEADERS, RATES
    from ottla.cli.operations.configs import alter, resetting, resource

    with admin_of(options) as admin:
        names = {resource("topic", name): (LEADERS, FOLLOWERS) for name in admin.list_topics(include_internal=True)}
        names |= {resource("broker", str(node.id)): RATES for node in admin.describe_cluster().nodes}
        changes = {}
        for each, entries in admin.describe_configs(names).items():
            found = [name for name in names[each] if name in entries and _is_set(entries[name].source.name)]
            if found:
                changes[each] = resetting(found)
        alter(admin, changes)
    print(f"unthrottled {', '.join(map(str, sorted(changes)))}" if changes else "nothing is throttled")
    return OK


def _is_set(source: str) -> bool:
    return source in ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG")


# --- status and cancel -----------------------------------------------------------------------------------------------


def run_status(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        moving = admin.list_partition_reassignments()
    rows = [
        (key.topic, key.partition, _ids(each.replicas), _ids(each.adding), _ids(each.removing))
        for key, each in sorted(moving.items())
    ]
    out = output_of(options)
    if rows or options.format == "json":
        out.table(("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"), rows)
    else:
        out.line("nothing is moving")
    return OK


def run_cancel(options: argparse.Namespace) -> int:
    from ottla.cli.partitions import partitions_of

    with admin_of(options) as admin:
        moving = admin.list_partition_reassignments()
        if options.partitions:
            named = partitions_of(admin, options.partitions)
            moving = {key: each for key, each in moving.items() if key in named}
        ensure(moving, "nothing is moving there; nothing was changed")
        if not confirmed(f"Take the moves of {len(moving)} partitions back?", yes=options.yes):
            return FAILED
        admin.alter_partition_reassignments(dict.fromkeys(moving))
    print(f"taken back: {', '.join(map(str, sorted(moving)))}")
    return OK
