"""`ottla logdirs`: the directories of brokers, how full they are, what is in them, and moving copies between them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, ensure, output_of
from ottla.cli.output import FAILED, OK
from ottla.cli.show import shown_size

if TYPE_CHECKING:
    from ottla.client.admin.cluster import LogDirDescription

EXAMPLES: Final = """\
examples:
  ottla logdirs describe                        every directory of every broker
  ottla logdirs describe --broker 0 --topic clicks --replicas
  ottla logdirs move clicks:3 --broker 0 --to /data/second
"""


def add_verbs(verbs: Verbs) -> None:
    describe = add_verb(verbs, "describe", "how full directories are, and with what", run_describe, EXAMPLES)
    describe.add_argument("--broker", type=int, action="append", metavar="ID", help="only this one; may be repeated")
    describe.add_argument("--topic", action="append", default=[], metavar="TOPIC", help="only this; may be repeated")
    describe.add_argument("--replicas", action="store_true", help="a row for every copy of a partition")
    add_format(describe)
    move = add_verb(verbs, "move", "put copies of partitions into another directory", run_move, EXAMPLES)
    move.add_argument("partitions", nargs="+", metavar="TOPIC[:N]")
    move.add_argument("--broker", type=int, required=True, metavar="ID", help="on this broker")
    move.add_argument(
        "--to", required=True, metavar="DIRECTORY", help="one of the broker's log.dirs, as it is written there"
    )


def run_describe(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        ids = [node.id for node in admin.describe_cluster().nodes]
        missing = sorted(set(options.broker or ()) - set(ids))
        ensure(not missing, f"there is no broker {', '.join(map(str, missing))}; there is {', '.join(map(str, ids))}")
        found = admin.describe_log_dirs(options.broker)
    directories = [
        (broker, path, each) for broker, paths in sorted(found.items()) for path, each in sorted(paths.items())
    ]
    out = output_of(options)
    if options.replicas:
        headings = ("BROKER", "DIRECTORY", "TOPIC", "PARTITION", "BYTES", "LAG", "MOVING")
        out.table(headings, list(_replica_rows(directories, options.topic)))
    else:
        rows = [_directory_row(broker, path, each, options) for broker, path, each in directories]
        out.table(("BROKER", "DIRECTORY", "REPLICAS", "SIZE", "FREE", "OF", "STATE"), rows)
    return FAILED if any(each.error is not None for _, _, each in directories) else OK


def _directory_row(broker: int, path: str, each: LogDirDescription, options: argparse.Namespace) -> tuple[Any, ...]:
    copies = [
        copy for partition, copy in each.replicas.items() if not options.topic or partition.topic in options.topic
    ]
    size = sum(copy.size_bytes for copy in copies)
    state = "ok" if each.error is None else str(each.error)
    sizes = (size, each.usable_bytes, each.total_bytes)
    shown = sizes if options.format == "json" else tuple(None if one is None else shown_size(one) for one in sizes)
    return broker, path, len(copies), *shown, state


def _replica_rows(directories: Any, topics: list[str]) -> Iterator[tuple[Any, ...]]:
    for broker, path, each in directories:
        for partition, copy in sorted(each.replicas.items()):
            if not topics or partition.topic in topics:
                lag = copy.offset_lag
                yield broker, path, partition.topic, partition.partition, copy.size_bytes, lag, copy.is_future


def run_move(options: argparse.Namespace) -> int:
    from ottla.cli.partitions import partitions_of
    from ottla.client.admin.cluster import Replica

    with admin_of(options) as admin:
        there = partitions_of(admin, options.partitions)
        wanted = [each for each, state in there.items() if options.broker in state.replicas]
        ensure(wanted, f"broker {options.broker} has no copy of these")
        moves = {Replica(each.topic, each.partition, options.broker): options.to for each in wanted}
        admin.alter_replica_log_dirs(moves)
    print(f"broker {options.broker} moves {', '.join(map(str, wanted))} to {options.to}; see: ottla logdirs describe")
    return OK
