"""What `kafka-storage format` writes: which directories, which features and users, which first voters.

    plan = plan_format(options, settings, random_bytes)     # decides; ValueError says what is wrong, as Apache's does
    plan.write(files, now_ms)

1. The first of log.dirs, or metadata.log.dir, is the metadata's directory: there the first voters are told, when the
   quorum is not written into the settings (controller.quorum.voters).
2. A release has levels for all features; --feature changes some of them. kraft.version is no record but follows from
   how the quorum is told.
3. A user's password becomes what a broker keeps of it here; it is neither written nor printed.
"""

from __future__ import annotations

import argparse
import hashlib
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.kafka.features import name_and_level
from ottla.cli.kafka.release_levels import (
    DEPENDENCIES,
    FEATURES,
    LATEST,
    METADATA,
    RELEASES,
    levels_of_release,
    release_of_level,
)
from ottla.cluster.changes import Change, SetFeature
from ottla.cluster.credentials import ITERATIONS_AT_LEAST, MECHANISMS, alter_user_scram_credentials
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.writing import VersionedRecord, records_for
from ottla.cluster.raft.format import write_bootstrap, write_first_voters
from ottla.cluster.raft.snapshots import Voters
from ottla.light_dataclasses import dataclass
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.metadata_log.control import KRaftVersionFeature, VoterEndpoint, VoterNode, VotersRecord
from ottla.storage.directory.checkpoints import META_PROPERTIES, MetaProperties, write_meta_properties
from ottla.storage.files import Files
from ottla.values import parse_address, random_uuid, uuid_from_text

KRAFT: Final = "kraft.version"
SCRAM_SINCE: Final = 11
SALT_BYTES: Final = 24
DYNAMIC: Final = "--standalone, --initial-controllers, or --no-initial-controllers"

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class FormatPlan:
    """What is written where."""

    cluster_id: str
    node_id: int | None
    directory_ids: Mapping[Path, bytes]
    """Of the directories that are not formatted yet."""
    metadata_directory: Path
    records: Sequence[VersionedRecord]
    voters: Voters
    is_voter: bool
    release: str

    def sentences(self) -> Iterable[str]:
        for path in sorted(self.directory_ids, key=lambda directory: (directory == self.metadata_directory, directory)):
            kind = self._metadata_kind if path == self.metadata_directory else "data"
            yield f"Formatting {kind} directory {path} with metadata.version {self.release}."

    @property
    def _metadata_kind(self) -> str:
        if self.voters.record is None:
            return "metadata"
        return "dynamic metadata voter" if self.is_voter else "dynamic metadata"

    def write(self, files: Files, now_ms: Callable[[], int]) -> None:
        """meta.properties comes last: a directory that has it is formatted."""
        for path, directory_id in self.directory_ids.items():
            files.make_directory(path)
            write_bootstrap(files, path, self.records, now_ms)
            if path == self.metadata_directory and self.voters.record is not None:
                write_first_voters(files, path, self.voters, now_ms)
            write_meta_properties(files, path, MetaProperties(1, self.cluster_id, self.node_id, directory_id))


def plan_format(options: argparse.Namespace, settings: Settings, random_bytes: Callable[[int], bytes]) -> FormatPlan:
    """Decide; ValueError says what is wrong."""
    directories = directories_of(settings)
    new = [path for path in sorted(set(directories)) if not (path / META_PROPERTIES).exists()]
    if len(new) < len(set(directories)) and not options.ignore_formatted:
        formatted = next(path for path in sorted(set(directories)) if path not in new)
        raise ValueError(
            f"Log directory {formatted} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )
    node = settings.get("node.id", settings.get("broker.id"))
    node_id = None if node is None else int(str(node))
    directory_ids = {path: random_uuid(random_bytes) for path in new}
    voters = voters_of(options, settings, node_id, directory_ids.get(directories[0], bytes(16)))
    is_voter = False
    for voter in voters:
        if voter.voter_id == node_id:
            directory_ids[directories[0]], is_voter = voter.voter_directory_id, True
    levels = _levels(options, settings)
    return FormatPlan(
        cluster_id=options.cluster_id,
        node_id=node_id,
        directory_ids={path: directory_ids[path] for path in new},
        metadata_directory=directories[0],
        records=_bootstrap(options, levels, random_bytes),
        voters=Voters(levels.get(KRAFT, 0) or 1, VotersRecord(voters=voters)) if voters else Voters(),
        is_voter=is_voter,
        release=release_of_level(levels[METADATA]) or str(levels[METADATA]),
    )


def directories_of(settings: Settings) -> list[Path]:
    """The metadata's first."""
    text = str(settings.get("log.dirs") or settings.get("log.dir") or "/tmp/kafka-logs")
    listed = [word.strip() for word in text.split(",") if word.strip()]
    metadata = str(settings.get("metadata.log.dir") or listed[0])
    return [Path(word) for word in dict.fromkeys([metadata, *listed])]


# --- the quorum ------------------------------------------------------------------------------------------------------


def voters_of(
    options: argparse.Namespace, settings: Settings, node_id: int | None, directory_id: bytes
) -> list[VoterNode]:
    """The first voters as they are told; none where the settings name them, or the node joins later."""
    is_static = bool(str(settings.get("controller.quorum.voters") or "").strip())
    roles = {role.strip() for role in str(settings.get("process.roles") or "").split(",") if role.strip()}
    names_voters = bool(options.standalone or options.initial_controllers)
    if is_static and names_voters:
        raise ValueError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if options.standalone and roles and "controller" not in roles:
        raise ValueError("You can only use --standalone on a controller.")
    if "controller" in roles and not (is_static or names_voters or options.no_initial_controllers):
        raise ValueError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            f"{DYNAMIC}."
        )
    if options.initial_controllers:
        return [_initial_controller(text) for text in str(options.initial_controllers).split(",")]
    if not options.standalone or node_id is None:
        return []
    name, host, port = _controller_listener(settings)
    return [voter_at(node_id, directory_id, name, host, port)]


def voter_at(node_id: int, directory_id: bytes, listener: str, host: str, port: int) -> VoterNode:
    endpoints = [VoterEndpoint(name=listener, host=host, port=port)]
    versions = KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
    return VoterNode(
        voter_id=node_id, voter_directory_id=directory_id, endpoints=endpoints, k_raft_version_feature=versions
    )


def _initial_controller(text: str) -> VoterNode:
    """`id@host:port:directory`, the host in brackets where it is an IPv6 address."""
    node, at, rest = text.strip().partition("@")
    if not at:
        raise ValueError("No @ found in dynamic voter string.")
    where, colon, directory = rest.rpartition(":")
    if not colon or where.rpartition(":")[1] == "":
        raise ValueError("No colon following port could be found.")
    if not node.isdigit():
        raise ValueError(f"Failed to parse node id in dynamic voter string: {node!r} is no number.")
    address = parse_address(where)
    return voter_at(int(node), uuid_from_text(directory), "CONTROLLER", address.host, address.port)


def _controller_listener(settings: Settings) -> tuple[str, str, int]:
    """The first controller listener as it is advertised; a listener on every address is advertised by this machine's
    name."""
    name = str(settings.get("controller.listener.names") or "CONTROLLER").split(",")[0].strip()
    for key in ("advertised.listeners", "listeners"):
        for listener in str(settings.get(key) or "").split(","):
            listed, _, address = listener.strip().partition("://")
            if listed.upper() == name.upper():
                host, _, port = address.rpartition(":")
                return name, host.strip("[]") or _own_name(), int(port)
    raise ValueError(f"Controller listener {name} is neither in advertised.listeners nor in listeners.")


def _own_name() -> str:
    import socket

    return socket.getfqdn()


# --- features and users ----------------------------------------------------------------------------------------------


def _levels(options: argparse.Namespace, settings: Settings) -> dict[str, int]:
    chosen = dict(name_and_level(text) for text in options.feature or ())
    if METADATA in chosen and options.release_version:
        raise ValueError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    metadata = chosen.pop(METADATA, None)
    release = str(options.release_version or LATEST)
    if metadata is not None:
        release = release_of_level(metadata) or ""
        if not release:
            raise ValueError(f"No feature:{METADATA} with feature level {metadata}")
    levels = _levels_of(release)
    for name, level in chosen.items():
        if name not in FEATURES:
            raise ValueError(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(FEATURES))}")
        if not 0 <= level < len(FEATURES[name]):
            raise ValueError(f"No feature:{name} with feature level {level}")
        needed = DEPENDENCIES.get((name, level), 0)
        if levels[METADATA] < needed:
            raise ValueError(f"{name} could not be set to {level} because it depends on {METADATA} level {needed}")
    _check_kraft(chosen, settings, options)
    return {**levels, **chosen}


def _levels_of(release: str) -> dict[str, int]:
    known = RELEASES[: RELEASES.index(LATEST) + 1]
    named = ".".join(release.split(".")[:2])
    if not any(named in (name, name.partition("-")[0]) for name in known):
        raise ValueError(f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(known)}")
    return levels_of_release(release)


def _check_kraft(chosen: Mapping[str, int], settings: Settings, options: argparse.Namespace) -> None:
    is_static = bool(str(settings.get("controller.quorum.voters") or "").strip())
    is_dynamic = options.standalone or options.initial_controllers or options.no_initial_controllers
    if chosen.get(KRAFT) == 0 and is_dynamic and not is_static:
        raise ValueError(
            f"Cannot set {KRAFT} to 0 if controller.quorum.voters is empty and one of the flags {DYNAMIC} is used. For "
            f"dynamic controllers support, try removing the --feature flag for {KRAFT}."
        )
    if chosen.get(KRAFT, 0) > 0 and not is_dynamic:
        raise ValueError(f"Cannot set {KRAFT} to {chosen[KRAFT]} unless one of the flags {DYNAMIC} is used.")


def _bootstrap(
    options: argparse.Namespace, levels: Mapping[str, int], random_bytes: Callable[[int], bytes]
) -> Sequence[VersionedRecord]:
    image = ClusterImage(options.cluster_id)
    named = sorted(levels.items(), key=lambda feature: (feature[0] != METADATA, feature[0]))
    changes: list[Change] = [SetFeature(name, level) for name, level in named if level and name != KRAFT]
    upsertions = [_scram(text, random_bytes) for text in options.add_scram or ()]
    if upsertions and levels[METADATA] < SCRAM_SINCE:
        raise ValueError(f"SCRAM is only supported in metadata.version {release_of_level(SCRAM_SINCE)} or later.")
    for upsertion in upsertions:
        plan = alter_user_scram_credentials(
            image, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        )
        if plan.answers[0].error_code:
            raise ValueError(f"add-scram for {upsertion.name!r}: {plan.answers[0].error_message}")
        changes += plan.changes
    return tuple(records_for(changes, image))


def _scram(text: str, random_bytes: Callable[[int], bytes]) -> ScramCredentialUpsertion:
    """`SCRAM-SHA-256=[name=alice,password=secret]`; what is wrong is told without the password."""
    mechanism_name, _, rest = text.partition("=")
    mechanism = next((known for known in MECHANISMS.values() if known.name == mechanism_name), None)
    if mechanism is None:
        raise ValueError(f"The add-scram mechanism {mechanism_name} is not supported.")
    parts = dict(part.strip().partition("=")[::2] for part in rest.strip("[]").split(",") if part.strip())
    if "name" not in parts:
        raise ValueError("You must supply 'name' to add-scram")
    if ("password" in parts) == ("saltedpassword" in parts):
        only = "only " if "password" in parts else ""
        raise ValueError(f"You must {only}supply one of 'password' or 'saltedpassword' to add-scram")
    if "saltedpassword" in parts and "salt" not in parts:
        raise ValueError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salt = _decoded(parts["salt"]) if "salt" in parts else random_bytes(SALT_BYTES)
    iterations = int(parts.get("iterations") or ITERATIONS_AT_LEAST)
    if "password" in parts:
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, parts["password"].encode(), salt, iterations)
    else:
        salted = _decoded(parts["saltedpassword"])
    return ScramCredentialUpsertion(
        name=parts["name"], mechanism=mechanism.number, iterations=iterations, salt=salt, salted_password=salted
    )


def _decoded(text: str) -> bytes:
    return b64decode(text.strip('"'), validate=True)
