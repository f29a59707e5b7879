"""kafka-storage: format the data directories of a broker, and look at them.

A directory that is formatted says whose it is (meta.properties), what a new cluster begins with (bootstrap.checkpoint)
and, where they are told, who votes first. Apache's brokers and ours take it, whoever has formatted it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from os import urandom
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.kafka.arguments import ToolParser
from ottla.cli.kafka.cluster import file_settings
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.release_levels import LATEST
from ottla.cli.output import FAILED, OK
from ottla.errors import OttlaError
from ottla.values import random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ottla.storage.directory.checkpoints import MetaProperties

LEGACY = "The kafka configuration file appears to be for a legacy cluster"


def _parser() -> ToolParser:
    parser = ToolParser(prog="kafka-storage", description="The Kafka storage tool.")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="Get information about the Kafka log directories on this node.")
    form = commands.add_parser("format", help="Format the Kafka log directories on this node.")
    for command in (info, form):
        command.add_argument("--config", "-c", required=True, help="the file of the broker's settings")
    form.add_argument("--cluster-id", "-t", required=True, help="the cluster's id")
    form.add_argument("--add-scram", "-S", action="append", help="SCRAM-SHA-256=[name=NAME,password=PASSWORD]")
    form.add_argument("--ignore-formatted", "-g", action="store_true", help="pass over formatted directories")
    form.add_argument("--release-version", "-r", help=f"the release whose features to begin with ({LATEST})")
    form.add_argument("--feature", "-f", action="append", help="NAME=LEVEL")
    quorum = form.add_mutually_exclusive_group()
    quorum.add_argument("--standalone", "-s", action="store_true", help="this controller is the only voter")
    quorum.add_argument("--no-initial-controllers", "-N", action="store_true", help="a controller that joins later")
    quorum.add_argument("--initial-controllers", "-I", help="ID@HOST:PORT:DIRECTORY, ...")
    mapping = commands.add_parser("version-mapping", help="which levels belong to a release")
    mapping.add_argument("--release-version", "-r", help=f"the release ({LATEST})")
    needs = commands.add_parser("feature-dependencies", help="what a level of a feature needs")
    needs.add_argument("--feature", "-f", action="append", required=True, help="NAME=LEVEL")
    commands.add_parser("random-uuid", help="Print a random UUID.")
    return parser


def run(words: Sequence[str]) -> int:
    options = _parser().parse_args(words)
    try:
        if options.command == "random-uuid":
            print(uuid_to_text(random_uuid(urandom)))
            return OK
        if options.command in ("version-mapping", "feature-dependencies"):
            from ottla.cli.kafka import features

            features.look_up(options)
            return OK
        settings = file_settings(options.config)
        return _info(settings) if options.command == "info" else _format(options, settings)
    except (ValueError, OttlaError) as error:
        fail(str(error))


def _directories(settings: dict[str, object]) -> list[Path]:
    text = settings.get("log.dirs") or settings.get("log.dir") or "/tmp/kafka-logs"
    words = {each.strip() for each in str(text).split(",")} | {str(settings.get("metadata.log.dir") or "")}
    return [Path(each) for each in sorted(filter(None, words))]


# --- format ----------------------------------------------------------------------------------------------------------


def _format(options: argparse.Namespace, settings: dict[str, object]) -> int:
    if "zookeeper.connect" in settings:
        fail(f"{LEGACY}. Formatting is only supported for clusters in KRaft mode.")
    from ottla.cli.kafka.storage_format import plan_format
    from ottla.clock import SystemClock
    from ottla.storage.files import DiskFiles

    plan = plan_format(options, settings, urandom)
    if not plan.directory_ids:
        print("All of the log directories are already formatted.")
    for sentence in plan.sentences():
        print(sentence)
    plan.write(DiskFiles(), SystemClock().now_ms)
    return OK


# --- info ------------------------------------------------------------------------------------------------------------


def _info(settings: dict[str, object]) -> int:
    found, problems = [], []
    metas: list[MetaProperties] = []
    for path in _directories(settings):
        if not path.is_dir():
            problems.append(f"{path} {'is not a directory' if path.exists() else 'does not exist'}")
            continue
        found.append(path)
        meta = _meta(path, problems)
        if meta is None:
            continue
        if metas and metas[0].cluster_id != meta.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif metas and metas[0].node_id != meta.node_id:
            problems.append("Mismatched node IDs between storage directories.")
        metas.append(meta)
    if metas and "zookeeper.connect" in settings and metas[0].version == 1:
        problems.append(f"{LEGACY}, but the directories are formatted for a cluster in KRaft mode.")
    _print_info(found, metas, problems)
    return FAILED if problems else OK


def _meta(path: Path, problems: list[str]) -> MetaProperties | None:
    from ottla.storage.directory.checkpoints import read_meta_properties
    from ottla.storage.files import DiskFiles

    try:
        meta = read_meta_properties(DiskFiles(), path)
    except OttlaError as error:
        problems.append(f"Error loading {path / 'meta.properties'}: {error}")
        return None
    if meta is None:
        problems.append(f"{path} is not formatted.")
    return meta


def _print_info(found: Sequence[Path], metas: Sequence[MetaProperties], problems: Sequence[str]) -> None:
    if found:
        print("Found log directory:" if len(found) == 1 else "Found log directories:")
        for path in found:
            print(f"  {path}")
        print()
    if metas:
        first = metas[0]
        parts = {
            "cluster.id": first.cluster_id,
            "directory.id": None if first.directory_id is None else uuid_to_text(first.directory_id),
            "node.id" if first.version else "broker.id": first.node_id,
            "version": first.version,
        }
        shown = ", ".join(f"{name}={text}" for name, text in parts.items() if text is not None)
        print(f"Found metadata: {{{shown}}}\n")
    if problems:
        print("Found problem:" if len(problems) == 1 else "Found problems:")
        for each in problems:
            print(f"  {each}")
        print()
