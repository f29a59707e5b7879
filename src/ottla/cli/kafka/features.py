"""kafka-features: which levels of features a cluster has, could have, and should have.

A cluster of ours has what its brokers were built with; it answers upgrades and downgrades as Kafka's protocol says.
release_levels.py knows which levels belong to which release.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from ottla.cli.kafka.arguments import ToolParser
from ottla.cli.kafka.cluster import admin_with, file_settings
from ottla.cli.kafka.ends import ToolEnded, fail
from ottla.cli.kafka.java_errors import described, first_failure, message_of
from ottla.cli.kafka.release_levels import (
    DEPENDENCIES,
    FEATURES,
    LATEST,
    METADATA,
    level_of_release,
    levels_of_release,
    release_of_level,
)
from ottla.cli.output import FAILED, OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.cluster import UpgradeType


KRAFT: Final = "kraft.version"


class FeatureParser(ToolParser):
    """With the sentence of this tool about wrong words."""

    def error(self, message: str) -> NoReturn:
        import sys

        print(f"Command line error: {message}. Type --help for help.", file=sys.stderr, end="")
        raise ToolEnded(FAILED)


def _parser() -> FeatureParser:
    parser = FeatureParser(prog="kafka-features", description="This tool manages feature flags in Kafka.")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--bootstrap-server", help="one or more brokers")
    where.add_argument("--bootstrap-controller", help="controllers of a KRaft cluster")
    parser.add_argument("--command-config", help="a file with client settings")
    commands = parser.add_subparsers(dest="command", required=True)
    describe = commands.add_parser("describe", help="Describes the current active feature flags.")
    describe.add_argument("--node-id", type=int, help="ask this broker")
    for name in ("upgrade", "downgrade"):
        command = commands.add_parser(name, help=f"{name.capitalize()} one or more feature flags.")
        command.add_argument("--metadata", help="old form of --feature metadata.version=LEVEL, with the release")
        command.add_argument("--release-version", help="all features as of this release, such as 4.1")
        command.add_argument("--feature", action="append", help="NAME=LEVEL; may be repeated")
        command.add_argument("--dry-run", action="store_true", help="only ask whether it would work")
        if name == "downgrade":
            command.add_argument("--unsafe", action="store_true", help="even if metadata is lost")
    disable = commands.add_parser("disable", help="Disable one or more feature flags.")
    disable.add_argument("--feature", action="append", help="a feature; may be repeated")
    disable.add_argument("--unsafe", action="store_true", help="even if metadata is lost")
    disable.add_argument("--dry-run", action="store_true", help="only ask whether it would work")
    mapping = commands.add_parser("version-mapping", help="which levels belong to a release")
    mapping.add_argument("--release-version", help=f"the release ({LATEST})")
    needs = commands.add_parser("feature-dependencies", help="what a level of a feature needs")
    needs.add_argument("--feature", action="append", required=True, help="NAME=LEVEL; may be repeated")
    return parser


def run(words: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(words)
    try:
        if options.command in _LOCAL:
            look_up(options)
            return OK
        if options.bootstrap_server is None and options.bootstrap_controller is None:
            parser.error("You must specify either --bootstrap-controller or --bootstrap-server.")
        if options.bootstrap_controller is not None:
            fail("This Kafka cluster has no controllers that clients can reach; use --bootstrap-server")
        settings = {} if options.command_config is None else file_settings(options.command_config)
        with admin_with(settings | {"bootstrap.servers": options.bootstrap_server}) as admin:
            if options.command == "describe":
                _describe(admin, options)
            else:
                _update(admin, options)
    except (OttlaError, TimeoutError) as error:
        fail(described(first_failure(error)))
    except ValueError as error:
        fail(str(error))
    return OK


def look_up(options: argparse.Namespace) -> None:
    """What needs no cluster; kafka-storage has these too."""
    _LOCAL[options.command](options)


def _describe(admin: Admin, options: argparse.Namespace) -> None:
    if options.node_id is not None and options.node_id < 0:
        raise ValueError(f"Invalid node id {options.node_id}: must be non-negative.")
    found = admin.describe_features(broker=options.node_id)
    epoch = "-" if found.finalized_epoch is None else str(found.finalized_epoch)
    for name in sorted(found.supported):
        supported = found.supported[name]
        level = found.finalized[name].max if name in found.finalized else 0
        print(
            f"Feature: {name:<40}  SupportedMinVersion: {_level(name, supported.min):<15}  "
            f"SupportedMaxVersion: {_level(name, supported.max):<15}  "
            f"FinalizedVersionLevel: {_level(name, level):<15}  Epoch: {epoch}"
        )


def _level(name: str, level: int) -> str:
    if name != METADATA:
        return str(level)
    release = release_of_level(level)
    return f"UNKNOWN {level}" if release is None else release


# --- change ----------------------------------------------------------------------------------------------------------


def name_and_level(text: str) -> tuple[str, int]:
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"Can't parse feature=level string {text}: equals sign not found.")
    if not level.removeprefix("-").isdigit():
        raise ValueError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
    return name, int(level)


def _update(admin: Admin, options: argparse.Namespace) -> None:
    from ottla.cli.operations.outcomes import outcomes
    from ottla.client.admin.cluster import FeatureUpdate

    kind = _direction(options)
    levels = _wanted(options)
    if options.command != "disable" and options.release_version is not None:
        _leave_quorum_out(admin, levels)
    if not levels:
        raise ValueError(f"You must specify at least one feature to {options.command}")
    updates = {name: FeatureUpdate(level, kind) for name, level in levels.items()}
    _, errors = outcomes(updates, lambda: admin.update_features(updates, validate_only=options.dry_run))
    for name in sorted(levels):
        _print_outcome(options, name, levels[name], errors.get(name))
    if errors:
        raise ValueError(f"{len(errors)} out of {len(updates)} operation(s) failed.")


def _leave_quorum_out(admin: Admin, levels: dict[str, int]) -> None:
    """A release has a level for the quorum of controllers too, and a cluster of ours has none."""
    if KRAFT in levels and KRAFT not in admin.describe_features().supported:
        level = levels.pop(KRAFT)
        print(f"{KRAFT} is not set to {level}: this cluster has no controller quorum whose version it could be.")


def _direction(options: argparse.Namespace) -> UpgradeType:
    from ottla.client.admin.cluster import UpgradeType

    if options.command == "upgrade":
        return UpgradeType.UPGRADE
    return UpgradeType.UNSAFE_DOWNGRADE if options.unsafe else UpgradeType.SAFE_DOWNGRADE


def _wanted(options: argparse.Namespace) -> dict[str, int]:
    if options.command == "disable":
        return _once([(name, 0) for name in options.feature or ()])
    if options.release_version is not None:
        if options.metadata is not None or options.feature is not None:
            raise ValueError("Can not specify `release-version` with other feature flags.")
        levels = levels_of_release(options.release_version)
        return {name: level for name, level in levels.items() if level > 0 or options.command != "upgrade"}
    named = []
    if options.metadata is not None:
        print(" `metadata` flag is deprecated and may be removed in a future release.")
        named.append((METADATA, level_of_release(options.metadata)))
    return _once(named + [name_and_level(text) for text in options.feature or ()])


def _once(named: Sequence[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, level in named:
        if name in found:
            raise ValueError(f"Feature {name} was specified more than once.")
        found[name] = level
    return found


def _print_outcome(options: argparse.Namespace, name: str, level: int, error: OttlaError | None) -> None:
    disabled = options.command == "disable"
    if error is None:
        verb = "can be" if options.dry_run else "was"
        print(f"{name} {verb} {'disabled' if disabled else f'{options.command}d to {level}'}.")
    else:
        what = f"disable {name}" if disabled else f"{options.command} {name} to {level}"
        print(f"{'Can' if options.dry_run else 'Could'} not {what}. {message_of(error, name)}")


# --- look up ---------------------------------------------------------------------------------------------------------


def _map_version(options: argparse.Namespace) -> None:
    release = options.release_version or LATEST
    levels = levels_of_release(release)
    print(f"{METADATA}={levels.pop(METADATA)} ({release})")
    for name, level in levels.items():
        print(f"{name}={level}")


def _depend(options: argparse.Namespace) -> None:
    for text in options.feature:
        name, level = name_and_level(text)
        if name == METADATA:
            release = release_of_level(level)
            if release is None:
                raise ValueError(f"Unknown {METADATA} {level}")
            print(f"{name}={level} ({release}) has no dependencies.")
            continue
        if name not in FEATURES:
            raise ValueError(f"Unknown feature: {name}")
        if not 0 <= level < len(FEATURES[name]):
            raise ValueError(f"No feature:{name} with feature level {level}")
        _print_needs(name, level)


def _print_needs(name: str, level: int) -> None:
    needed = DEPENDENCIES.get((name, level))
    if needed is None:
        print(f"{name}={level} has no dependencies.")
    else:
        print(f"{name}={level} requires:")
        print(f"    {METADATA}={needed} ({release_of_level(needed)})")


_LOCAL: Final[Mapping[str, Callable[[argparse.Namespace], None]]] = {
    "version-mapping": _map_version,
    "feature-dependencies": _depend,
}
