"""What `ottla storage migrate` does on one machine, decided before anything is written.

1. A node that is, or becomes, a first voter gets the snapshot that the log begins with, and reads ZooKeeper for it. All
   others only say in their directories that they are nodes of the metadata log, and get everything from the voters.
2. Two nodes that each think they are the only first voter would be two clusters. So it must be said which one it is;
   only a node that names no controller listener is a cluster of its own anyway.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from os import urandom
from pathlib import Path
from typing import Any, Final

from ottla.cli.kafka.release_levels import LATEST, level_of_release, release_of_level
from ottla.cli.kafka.storage_format import DYNAMIC, directories_of, voter_at, voters_of
from ottla.cluster.from_zookeeper.beginning import Beginning, beginning_of
from ottla.cluster.from_zookeeper.content import FIRST_LEVEL, Content, Secrets, take
from ottla.cluster.from_zookeeper.directories import DirectoryPlan, Locked, plan_directories, refuse_started, write
from ottla.cluster.raft.snapshots import Voters
from ottla.light_dataclasses import dataclass
from ottla.protocol.metadata_log.control import VotersRecord
from ottla.storage.files import DiskFiles
from ottla.values import uuid_from_text, uuid_to_text

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
ALONE_AT: Final = ("CONTROLLER", "localhost", 9093)
"""Where a node would be reached as a controller that nobody asks; as the broker itself says it."""

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Migration:
    """What is done here. `content` and `beginning` are None where only the directories change."""

    node_id: int
    cluster_id: str
    where: str
    release: str
    content: Content | None
    beginning: Beginning | None
    directories: Sequence[DirectoryPlan]
    is_alone: bool

    def write(self) -> Iterator[Path]:
        """Do it; tells what was written."""
        files, paths = DiskFiles(), [plan.path for plan in self.directories]
        with Locked(files, paths):
            refuse_started(files, paths)
            yield from write(files, self.directories, self.beginning)

    def voters_text(self) -> str:
        record = self.beginning.voters.record if self.beginning is not None else None
        if record is None:
            return "those of controller.quorum.voters"
        return ", ".join(
            f"{each.voter_id} at {each.endpoints[0].host}:{each.endpoints[0].port}" for each in record.voters
        )

    def what_next(self) -> Iterator[str]:
        if self.is_alone:
            yield "Start the broker with these settings. It is a cluster of its own."
            return
        if self.beginning is None:
            yield (
                "Start this node when the first voters have started. It finds them by "
                "controller.quorum.bootstrap.servers (or controller.quorum.voters)."
            )
            return
        if self.beginning.voters.record is None or len(self.beginning.voters.record.voters) > 1:
            yield (
                "Run the same on the machines of the other first voters: the fingerprint must be the same there. Then "
                "start them."
            )
        else:
            yield (
                "Start this node first. On all other machines: ottla storage migrate -c FILE --no-initial-controllers, "
                "then start them; controllers become voters by controller.quorum.auto.join.enable or "
                "kafka-metadata-quorum add-controller."
            )
        yield "ZooKeeper is as it was. Keep it until the brokers serve; from their first start on nothing leads back."

    def to_json(self) -> dict[str, Any]:
        content, beginning = self.content, self.beginning
        found: dict[str, Any] = {"cluster_id": self.cluster_id, "node_id": self.node_id}
        if content is not None:
            found |= {
                "zookeeper": self.where,
                "metadata_version": self.release,
                "taken": {kind.replace(" ", "_"): number for kind, number in content.counts.items()},
                "next_producer_id": content.image.next_producer_id,
                "controller_epoch": content.epoch,
                "left": [each._asdict() for each in content.left],
                "otherwise": list(content.notes),
            }
        if beginning is not None:
            record = beginning.voters.record
            found |= {
                "snapshot": beginning.id.file_name,
                "fingerprint": beginning.fingerprint,
                "voters": None if record is None else [each.voter_id for each in record.voters],
            }
        found["directories"] = [
            {
                "path": str(plan.path),
                "directory_id": uuid_to_text(plan.after.directory_id or bytes(16)),
                "was_new": plan.before is None,
                "changes": not plan.is_done,
            }
            for plan in self.directories
        ]
        return found


def directories_to_take(settings: Settings) -> list[Path]:
    """The metadata's first; whole paths. Where they are is not guessed: what is not found would be left behind."""
    if not (settings.get("log.dirs") or settings.get("log.dir")):
        raise ValueError("the settings do not say where the node's directories are; set log.dirs, or give --data DIR")
    return [path.absolute() for path in directories_of(settings)]


def plan_migration(options: argparse.Namespace, settings: Settings) -> Migration:
    """Decide; ValueError and OttlaError say why not."""
    _refuse_old_file(settings)
    roles = _words(settings, "process.roles")
    is_alone = _is_alone(settings, roles)
    begins = _begins(options, settings, roles, is_alone)
    level = _level(options.release_version)
    files, directories = DiskFiles(), directories_to_take(settings)
    refuse_started(files, directories)
    where = None
    content = None
    if begins or options.zookeeper or options.zookeeper_config:
        where, content = _read_content(options, level)
    plans = plan_directories(
        files,
        directories,
        cluster_id=None if content is None else content.image.cluster_id,
        node_id=_node_id(settings),
        metadata_id=_promised_id(options, _node_id(settings)),
        random_bytes=urandom,
    )
    node_id, cluster_id = plans[0].after.node_id, plans[0].after.cluster_id
    assert node_id is not None, "a plan says it"
    assert cluster_id is not None, "a plan says it"
    beginning = None
    if begins:
        assert content is not None, "it was read"
        if is_alone and set(content.broker_ids) - {node_id}:
            raise ValueError(
                f"brokers {', '.join(map(str, content.broker_ids))} have partitions of this cluster, and a node "
                "without a controller listener is a cluster of its own. Set process.roles, controller.listener.names "
                "and a listener of that name, and say --standalone"
            )
        beginning = beginning_of(content, _voters(options, settings, plans[0], is_alone))
    return Migration(
        node_id=node_id,
        cluster_id=cluster_id,
        where=where or "",
        release=release_of_level(level) or str(level),
        content=content if begins else None,
        beginning=beginning,
        directories=plans,
        is_alone=is_alone,
    )


# --- who this node is ------------------------------------------------------------------------------------------------


def _words(settings: Settings, name: str) -> list[str]:
    return [word.strip() for word in str(settings.get(name) or "").split(",") if word.strip()]


def _node_id(settings: Settings) -> int | None:
    text = settings.get("node.id", settings.get("broker.id"))
    return None if text is None or int(str(text)) < 0 else int(str(text))


def _refuse_old_file(settings: Settings) -> None:
    if "zookeeper.connect" in settings:
        raise ValueError(
            "the settings have zookeeper.connect, so they are those of before. Give the file that the node will start "
            "with (process.roles, node.id, ...), and the old one as --zookeeper-config"
        )


def _is_alone(settings: Settings, roles: Sequence[str]) -> bool:
    """Whether nobody else can ask this node as a controller: it is a cluster of its own."""
    if roles and CONTROLLER not in roles:
        return False
    names = {name.upper() for name in _words(settings, "controller.listener.names")}
    listed = {each.partition("://")[0].upper() for each in _words(settings, "listeners")}
    return not names & listed


def _begins(options: argparse.Namespace, settings: Settings, roles: Sequence[str], is_alone: bool) -> bool:
    """Whether the log begins here."""
    if options.no_initial_controllers:
        return False
    if is_alone:
        return True
    if CONTROLLER not in roles:
        if options.standalone or options.initial_controllers:
            raise ValueError("only a node with the role controller can be a first voter (process.roles)")
        return False
    static = [int(each.partition("@")[0]) for each in _words(settings, "controller.quorum.voters")]
    if static:
        if _node_id(settings) not in static:
            raise ValueError("controller.quorum.voters does not name this node, which has the role controller")
        return True
    if not options.standalone and not options.initial_controllers:
        raise ValueError(f"say who votes first, on one machine only: {DYNAMIC}")
    if options.initial_controllers and _promised_id(options, _node_id(settings)) is None:
        raise ValueError(
            "--initial-controllers does not name this node; on nodes that it does not name, say "
            "--no-initial-controllers"
        )
    return True


def _promised_id(options: argparse.Namespace, node_id: int | None) -> bytes | None:
    """The directory that --initial-controllers names for this node."""
    for text in (options.initial_controllers or "").split(","):
        number, at, rest = text.strip().partition("@")
        if at and number == str(node_id):
            return uuid_from_text(rest.rpartition(":")[2])
    return None


def _voters(options: argparse.Namespace, settings: Settings, home: DirectoryPlan, is_alone: bool) -> Voters:
    node_id, directory_id = home.after.node_id, home.after.directory_id
    assert node_id is not None, "a plan says it"
    assert directory_id is not None, "a plan says it"
    if is_alone and not options.initial_controllers:
        nodes = [voter_at(node_id, directory_id, *ALONE_AT)]
    else:
        nodes = voters_of(options, settings, node_id, directory_id)
    return Voters(1, VotersRecord(voters=nodes)) if nodes else Voters()


def _level(text: str | None) -> int:
    level = level_of_release(text or LATEST)
    if not FIRST_LEVEL <= level <= level_of_release(LATEST):
        raise ValueError(
            f"--release-version {text}: a cluster is taken over to {release_of_level(FIRST_LEVEL)} up to {LATEST}"
        )
    return level


# --- ZooKeeper -------------------------------------------------------------------------------------------------------


def _read_content(options: argparse.Namespace, level: int) -> tuple[str, Content]:
    from ottla.broker.security.stored_secrets import secrets_of
    from ottla.broker.settings import BrokerSettings
    from ottla.cluster.from_zookeeper.found import read_stopped
    from ottla.cluster.store.zookeeper.connecting import connection_from
    from ottla.properties import read_properties

    old: dict[str, object] = {}
    if options.zookeeper_config:
        file = read_properties(Path(options.zookeeper_config))
        kinds = ("zookeeper.", "ottla.zookeeper.", "password.encoder.")
        old = {name: text for name, text in file.items() if name.startswith(kinds)}
    if options.zookeeper:
        old["zookeeper.connect"] = options.zookeeper
    if not old.get("zookeeper.connect"):
        raise ValueError("where is ZooKeeper? Give --zookeeper HOST:PORT[/PATH], or --zookeeper-config FILE")
    settings = BrokerSettings(old)
    encoder = secrets_of(settings)

    def is_secret(name: str) -> bool:
        setting = settings.setting_of(name)
        return setting is not None and setting.sensitive

    connection = connection_from(settings)
    return connection.hosts, take(read_stopped(connection), level, Secrets(is_secret, encoder.decode))
