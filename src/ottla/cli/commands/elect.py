"""`ottla elect`: let partitions have their preferred leaders again, or any leader at all.

1. `preferred` moves leadership back to the first replica, where that is in sync: after a broker was away. It loses
   nothing.
2. `unclean` makes a leader of a replica that is not in sync, where there is no other: records that only the lost ones
   had are gone for ever. It names its partitions and asks before.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, confirmed, ensure, output_of
from ottla.cli.output import FAILED, OK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.errors import OttlaError
    from ottla.values import TopicPartition

EXAMPLES: Final = """\
examples:
  ottla elect preferred                         everywhere
  ottla elect preferred clicks orders:0,3       only there
  ottla elect unclean clicks:2                  accept the loss of records, to have a leader again
"""


def add_verbs(verbs: Verbs) -> None:
    preferred = add_verb(verbs, "preferred", "leadership goes back to the first replicas", run_preferred, EXAMPLES)
    preferred.add_argument("partitions", nargs="*", metavar="TOPIC[:N]", help="only these (all)")
    add_format(preferred)
    unclean = add_verb(verbs, "unclean", "a leader that may lack records, where there is none", run_unclean, EXAMPLES)
    unclean.add_argument("partitions", nargs="+", metavar="TOPIC[:N]")
    unclean.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_format(unclean)


def run_preferred(options: argparse.Namespace) -> int:
    from ottla.cli.partitions import partitions_of

    with admin_of(options) as admin:
        wanted = list(partitions_of(admin, options.partitions)) if options.partitions else None
        return _print(options, admin.elect_leaders(wanted))


def run_unclean(options: argparse.Namespace) -> int:
    from ottla.cli.partitions import partitions_of
    from ottla.client.admin.replicas import ElectionType

    with admin_of(options) as admin:
        there = partitions_of(admin, options.partitions)
        wanted = [partition for partition, each in there.items() if each.leader is None]
        ensure(wanted, "each of these has a leader; nothing was changed")
        question = (
            f"Elect leaders for {', '.join(map(str, wanted))}? Records that only lost replicas have are gone then."
        )
        if not confirmed(question, yes=options.yes):
            return FAILED
        return _print(options, admin.elect_leaders(wanted, election_type=ElectionType.UNCLEAN))


def _print(options: argparse.Namespace, endings: Mapping[TopicPartition, OttlaError | None]) -> int:
    from ottla.errors import ElectionNotNeeded

    rows, failed = [], False
    for partition, error in sorted(endings.items()):
        same = isinstance(error, ElectionNotNeeded)
        failed = failed or (error is not None and not same)
        result = "elected" if error is None else "had it already" if same else f"{error}"
        rows.append((partition.topic, partition.partition, result))
    out = output_of(options)
    if rows or options.format == "json":
        out.table(("TOPIC", "PARTITION", "RESULT"), rows)
    else:
        out.line("every partition has its preferred leader")
    return FAILED if failed else OK
