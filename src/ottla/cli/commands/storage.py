"""`ottla storage`: what the directories of a node are, while it is stopped. `migrate` takes a cluster from ZooKeeper
over to the metadata log.

1. The settings are those that the node will start with; it is told whom the log's first voters are in the words of
   `kafka-storage format`.
2. The plan is shown first, with everything that has no place in the log; --dry-run ends there.
3. ZooKeeper is read and never written. `--back` puts the directories back, until somebody has started on the log.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.cli.output import OK, Failure

if TYPE_CHECKING:
    from ottla.cli.output import Output
    from ottla.cli.storage_migration import Migration

Verbs: TypeAlias = "argparse._SubParsersAction[Any]"

EXAMPLES: Final = """\
examples:
  ottla storage migrate --zookeeper zoo:2181/kafka -c server.properties --standalone --dry-run
  ottla storage migrate --zookeeper zoo:2181/kafka -c server.properties --standalone
  ottla storage migrate -c server.properties --no-initial-controllers       on the other machines
  ottla storage migrate -c server.properties --back                         not started yet: back to ZooKeeper
"""


def add_verbs(verbs: Verbs) -> None:
    help_text = "take a stopped cluster from ZooKeeper over to the metadata log"
    verb = verbs.add_parser(
        "migrate",
        help=help_text,
        description="Take a stopped cluster from ZooKeeper over to the metadata log: run it once on every machine, "
        "with the settings that its node will start with. ZooKeeper is read and not changed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    node = verb.add_argument_group("this node")
    node.add_argument("-c", "--config", metavar="FILE", help="the settings that it will start with (server.properties)")
    node.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one more setting")
    node.add_argument("--data", metavar="DIR", help="its data directory: the same as --set log.dirs=DIR")
    first = verb.add_argument_group("the first voters of the log").add_mutually_exclusive_group()
    first.add_argument("--standalone", action="store_true", help="this node alone; others join when it has started")
    first.add_argument(
        "--initial-controllers", metavar="LIST", help="these: ID@HOST:PORT:DIRECTORY, with commas between"
    )
    first.add_argument("--no-initial-controllers", action="store_true", help="others; this node joins when it starts")
    first.add_argument("--back", action="store_true", help="undo it here, as long as no node was started on the log")
    source = verb.add_argument_group("ZooKeeper")
    source.add_argument("--zookeeper", metavar="HOST:PORT[/PATH]", help="as zookeeper.connect of the brokers was")
    source.add_argument(
        "--zookeeper-config", metavar="FILE", help="a broker's old settings: zookeeper.*, and password.encoder.secret"
    )
    verb.add_argument("--release-version", metavar="RELEASE", help="the oldest release that a node will have (4.3)")
    verb.add_argument("--dry-run", action="store_true", help="only show what would be done")
    verb.add_argument("-y", "--yes", action="store_true", help="do not ask")
    verb.add_argument("--format", choices=("text", "json"), default="text", help="a text, or JSON for programs")
    verb.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    verb.set_defaults(run=run_migrate)


def run_migrate(options: argparse.Namespace) -> int:
    from ottla.cli.connecting import confirmed, output_of
    from ottla.cli.storage_migration import directories_to_take, plan_migration
    from ottla.errors import OttlaError

    out = output_of(options)
    try:
        settings = _settings(options)
        if options.back:
            return _back(options, out, directories_to_take(settings))
        migration = plan_migration(options, settings)
        _show(out, migration)
        state = "planned"
        if not options.dry_run:
            if not confirmed("Is every broker stopped, and shall this be written?", yes=options.yes):
                raise Failure("nothing was written")
            for path in migration.write():
                out.line(f"written: {path}")
            state = "migrated"
    except (ValueError, OttlaError) as problem:
        raise Failure(str(problem)) from None
    if out.form == "json":
        out.value({"state": state, **migration.to_json()})
    elif state == "migrated":
        out.line("")
        for line in migration.what_next():
            out.paragraph(line, indent="")
    return OK


def _settings(options: argparse.Namespace) -> dict[str, object]:
    """Of the file, and over it the single ones."""
    from ottla.properties import read_properties

    settings: dict[str, object] = {}
    if options.config is not None:
        try:
            settings |= read_properties(Path(options.config))
        except OSError as error:
            raise Failure(f"{options.config} cannot be read: {error.strerror}") from None
    for text in options.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise Failure(f"--set {text}: it is NAME=VALUE")
        settings[name.strip()] = value
    if options.data is not None:
        settings["log.dirs"] = options.data
    if not settings:
        raise Failure("which node is it? Give the settings that it will start with: --config FILE, or --data DIR")
    return settings


def _back(options: argparse.Namespace, out: Output, directories: list[Path]) -> int:
    from ottla.cli.connecting import confirmed
    from ottla.cluster.from_zookeeper.directories import Locked, refuse_started, take_back
    from ottla.storage.files import DiskFiles

    files = DiskFiles()
    refuse_started(files, directories)
    if options.dry_run:
        out.line("no node was started here on the metadata log: it can go back")
        return OK
    question = "Has no node of the cluster been started on the metadata log, and shall this one go back to ZooKeeper?"
    if not confirmed(question, yes=options.yes):
        raise Failure("nothing was changed")
    with Locked(files, directories):
        done = list(take_back(files, directories))
    if out.form == "json":
        out.value({"state": "back", "written": list(map(str, done))})
    for path in done:
        out.line(f"as it was: {path}")
    return OK


# --- the plan --------------------------------------------------------------------------------------------------------


def _show(out: Output, migration: Migration) -> None:
    content = migration.content
    if content is not None:
        out.line(f"cluster {migration.cluster_id}, from ZooKeeper at {migration.where}:")
        for kind, number in content.counts.items():
            if number:
                out.line(f"  {number} {kind}")
        out.line(f"  next producer id {content.image.next_producer_id}, last controller epoch {content.epoch}")
        out.line(f"  metadata.version {migration.release}")
        for each in content.left:
            out.paragraph(f"NOT taken: {each.what}: {each.why}", indent="  ")
        for note in content.notes:
            out.paragraph(f"otherwise: {note}", indent="  ")
    out.line(f"node {migration.node_id}{'' if content else f' of cluster {migration.cluster_id}'}:")
    if migration.beginning is not None:
        beginning = migration.beginning
        out.line(f"  the metadata log begins with {beginning.id.file_name}, fingerprint {beginning.fingerprint}")
        out.line(f"  its first voters are {migration.voters_text()}")
    for plan in migration.directories:
        out.line(f"  {plan.path}: {_became(plan.before is None, plan.is_done)}")
    out.line("")


def _became(is_new: bool, is_done: bool) -> str:
    if is_done:
        return "is as it must be"
    return "new" if is_new else "meta.properties gets version 1, the old one is kept"
