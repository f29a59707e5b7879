"""`ottla features`: what the cluster's brokers could do together, what they have agreed on, and changing that."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, ensure, output_of, pairs
from ottla.cli.output import OK, Failure

if TYPE_CHECKING:
    from ottla.client.admin.cluster import UpgradeType

EXAMPLES: Final = """\
examples:
  ottla features describe
  ottla features upgrade transaction.version=2
  ottla features downgrade group.version=0 --dry-run
"""


def add_verbs(verbs: Verbs) -> None:
    listing = add_verb(verbs, "describe", "levels that are in force, and that could be", run_describe, EXAMPLES)
    add_format(listing)
    for name, help_text, run in (
        ("upgrade", "raise levels", run_upgrade),
        ("downgrade", "lower levels; 0 turns a feature off", run_downgrade),
    ):
        verb = add_verb(verbs, name, help_text, run, EXAMPLES)
        verb.add_argument("levels", nargs="+", metavar="NAME=LEVEL")
        verb.add_argument("--dry-run", action="store_true", help="only ask whether it would work")
        if name == "downgrade":
            verb.add_argument("--unsafe", action="store_true", help="even if something is lost by it")


def run_describe(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        found = admin.describe_features()
    rows = []
    for name in sorted({*found.supported, *found.finalized}):
        able, level = found.supported.get(name), found.finalized.get(name)
        rows.append((name, level.max if level else 0, able.min if able else None, able.max if able else None))
    output_of(options).table(("FEATURE", "LEVEL", "MIN", "MAX"), rows)
    return OK


def run_upgrade(options: argparse.Namespace) -> int:
    from ottla.client.admin.cluster import UpgradeType

    return _update(options, UpgradeType.UPGRADE)


def run_downgrade(options: argparse.Namespace) -> int:
    from ottla.client.admin.cluster import UpgradeType

    return _update(options, UpgradeType.UNSAFE_DOWNGRADE if options.unsafe else UpgradeType.SAFE_DOWNGRADE)


def _update(options: argparse.Namespace, kind: UpgradeType) -> int:
    from ottla.client.admin.cluster import FeatureUpdate

    levels = pairs(options.levels, "")
    for name, level in levels.items():
        ensure(level.isdigit(), f"{name}={level}: a level is a whole number")
    with admin_of(options) as admin:
        known = admin.describe_features().supported
        unknown = [name for name in levels if name not in known]
        if unknown:
            raise Failure(f"there is no feature {', '.join(unknown)}; there is {', '.join(sorted(known))}")
        updates = {name: FeatureUpdate(int(level), kind) for name, level in levels.items()}
        admin.update_features(updates, validate_only=options.dry_run)
    state = "would be" if options.dry_run else "is"
    for name, level in levels.items():
        print(f"{name} {state} {level}")
    return OK
