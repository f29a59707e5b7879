"""`ottla apply cluster.yml`: topics, settings, users, access rules and quotas as a file wants them.

1. The plan is shown first: `+` is made, `~` is changed, `-` goes away. Nothing goes away without --prune, and with it
   somebody is asked, or says --yes.
2. --plan shows it and changes nothing, with exit code 0. --check does the same for programs: 0 when nothing is to be
   changed, 3 when something is, 1 when the file or the cluster refuses (2 is a wrong word on the command line, as
   everywhere, so that a typing error is never taken for a difference).
3. Secrets are named by where they are found (a variable, a file), and are needed only when they are set. They are in
   no plan and no error.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import add_format, admin_of, confirmed, describe, ensure, output_of
from ottla.cli.output import OK, Failure

if TYPE_CHECKING:
    from ottla.cli.apply.values import Change, Plan
    from ottla.cli.output import Output
    from ottla.client.admin.admin import Admin

DIFFERENT: Final = 3
EXAMPLES: Final = """\
examples:
  ottla apply cluster.yml --plan                what would be changed
  ottla apply cluster.yml                       change it
  ottla apply cluster.yml --check               for programs: exit code 3 when something is to be changed
  ottla apply cluster.yml --prune               what the file does not have goes, too; asks before it deletes
  ottla apply cluster.yml --renew-secrets       set all passwords anew: they cannot be compared

the file (YAML, or the same in TOML or JSON; a section that is left out is not touched):
  topics:
    clicks: {partitions: 6, replication: 3, settings: {retention.ms: 86400000}}
  settings:
    broker: {all: {log.cleaner.threads: 2}}
    group: {billing: {consumer.session.timeout.ms: 60000}}
  users:
    alice: {password: {env: ALICE_PASSWORD}}    or {file: alice.secret}; never the password itself
  rules:                                        the words are the options of `ottla acl add`
    - {allow: alice, producer: true, topic: clicks}
  quotas:                                       the words are the options of `ottla quota set`
    - {client: loader, produce: 1MB}
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    describe(parser, "make a cluster what a file says: topics, settings, users, rules, quotas", run, EXAMPLES)
    parser.add_argument("file", type=Path, metavar="FILE", help="what the cluster should have (.yml, .toml, .json)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--plan", action="store_true", help="only show what would be changed")
    mode.add_argument(
        "--check", action="store_true", help=f"the same, with exit code {DIFFERENT} when there is something"
    )
    parser.add_argument("--prune", action="store_true", help="delete what the file's sections do not have")
    parser.add_argument("--renew-secrets", action="store_true", help="set every password and secret setting again")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before something is deleted")
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    from ottla.cli.apply.current import current_of
    from ottla.cli.apply.desired import desired_of
    from ottla.cli.apply.plan import plan
    from ottla.cli.apply.reading import read_file

    desired = desired_of(read_file(options.file))
    out = output_of(options)
    with admin_of(options) as admin:
        planned = plan(desired, current_of(admin, desired), prune=options.prune, renew_secrets=options.renew_secrets)
        _show(out, planned)
        _check_refused(out, planned)
        if options.plan or options.check or not planned.changes:
            return _end_plan(options, admin, out, planned)
        return _apply(options, admin, out, planned)


def _show(out: Output, planned: Plan) -> None:
    from ottla.cli.apply.words import line_of, summary

    for each in planned.changes:
        out.line(line_of(each))
    if not planned.refused:
        out.line(summary(planned))


def _check_refused(out: Output, planned: Plan) -> None:
    if planned.refused:
        if out.form == "json":
            _value(out, planned, "refused")
        raise Failure("\n       ".join(planned.refused) + "\nnothing was changed")


def _value(out: Output, planned: Plan, state: str) -> None:
    from ottla.cli.apply.words import json_of

    out.value({"state": state, "changes": [json_of(each) for each in planned.changes], "refused": planned.refused})


def _end_plan(options: argparse.Namespace, admin: Admin, out: Output, planned: Plan) -> int:
    from ottla.cli.apply.acting import validate

    validate(admin, planned.changes)
    if out.form == "json":
        _value(out, planned, "planned" if planned.changes else "unchanged")
    return DIFFERENT if options.check and planned.changes else OK


def _apply(options: argparse.Namespace, admin: Admin, out: Output, planned: Plan) -> int:
    from ottla.cli.apply.acting import carry_out, secrets_of, validate
    from ottla.cli.apply.values import deletes

    secrets = secrets_of(planned.changes, os.environ, options.file.parent)
    validate(admin, planned.changes, secrets)
    gone = sum(map(deletes, planned.changes))
    if gone and not confirmed(f"Delete {gone} of these (the lines with -)?", yes=options.yes):
        raise Failure("nothing was changed")
    made: list[Change] = []
    carry_out(admin, planned.changes, secrets, made.append)
    ensure(len(made) == len(planned.changes), "not every change was made")
    if out.form == "json":
        _value(out, planned, "applied")
    out.line(f"done: {len(made)} change{'s' * (len(made) != 1)} made")
    return OK
