"""The metadata log of a broker that is its cluster's only controller: which directory, what it begins with, as whom."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ottla.broker.settings import BrokerSettings
from ottla.broker.world import World
from ottla.cluster.changes import AlterConfig, Change, SetFeature
from ottla.cluster.features import ELR_VERSION, FEATURES, first_features
from ottla.cluster.model import ALL_BROKERS, Endpoint
from ottla.cluster.raft.log import LogLimits, SnapshotRules
from ottla.cluster.raft.solo import LocalNode
from ottla.cluster.store.kraft import KRaftNode, KRaftStore
from ottla.errors import KafkaStorageError
from ottla.storage.directory.checkpoints import CLEAN_SHUTDOWN
from ottla.storage.directory.directories import LogDirectory
from ottla.storage.directory.unknown_logs import has_quorum_log, refuse_old_store, refuse_unknown_logs
from ottla.storage.files import Files

CONTROLLER: Final = Endpoint("CONTROLLER", "localhost", 9093)
"""Where the only controller would be reached when its settings name no listener: as in Kafka's server.properties.
Nobody listens there."""


def make_own_store(
    settings: BrokerSettings, world: World, cluster_id: str, node_id: int, home: LogDirectory
) -> KRaftStore:
    """The store, not yet opened; `home` has the metadata log, and is locked."""
    if home.directory_id is None:
        raise KafkaStorageError(f"{home.path} has the metadata log, and cannot be used: {home.failure}")
    return KRaftStore(
        home.path,
        cluster_id,
        files=world.files,
        node=KRaftNode(node_id, controller_endpoints(settings), FEATURES, bool(settings.controller_quorum_voters)),
        # The mark of a stop in order is taken when the logs are looked for, which is later.
        local=LocalNode(node_id, home.directory_id, world.files.exists(home.path / CLEAN_SHUTDOWN)),
        now_ms=world.clock.now_ms,
        random_bytes=world.random.randbytes,
        first=partial(first_changes, world.files, home.path, settings),
        limits=log_limits(settings),
        rules=snapshot_rules(settings),
    )


def snapshot_rules(settings: BrokerSettings) -> SnapshotRules:
    """When a snapshot of it is made."""
    return SnapshotRules(
        settings.metadata_log_max_record_bytes_between_snapshots, settings.metadata_log_max_snapshot_interval_ms
    )


def log_limits(settings: BrokerSettings) -> LogLimits:
    """How much of the metadata log is kept."""
    return LogLimits(
        segment_bytes=settings.metadata_log_segment_bytes,
        segment_ms=settings.metadata_log_segment_ms,
        retention_bytes=settings.metadata_max_retention_bytes,
        retention_ms=settings.metadata_max_retention_ms,
    )


def controller_endpoints(settings: BrokerSettings) -> tuple[Endpoint, ...]:
    """Where this node says that it is a controller."""
    found = tuple(
        Endpoint(
            endpoint.name,
            socket.getfqdn() if endpoint.is_any_interface else endpoint.host,
            endpoint.port,
            endpoint.protocol,
        )
        for endpoint in settings.controller_endpoints
    )
    return found or (CONTROLLER,)


def refuse_foreign_logs(files: Files, directories: Sequence[Path], metadata: Path) -> None:
    """A log is not begun beside logs that it would not know. `metadata` is the directory that has it, or will."""
    refuse_old_store(files, directories)
    if not has_quorum_log(files, metadata):
        refuse_unknown_logs(files, [metadata, *(directory for directory in directories if directory != metadata)])


def first_changes(files: Files, directory: Path, settings: BrokerSettings) -> list[Change]:
    """What a new cluster begins with: what `kafka-storage format` wrote down, or the newest features."""
    changes = None
    if files.exists(directory / "bootstrap.checkpoint"):
        from ottla.cluster.raft.format import first_changes as formatted  # most directories are formatted by nobody

        changes = formatted(files, directory)
    changes = changes or first_features()
    if any(isinstance(change, SetFeature) and change.name == ELR_VERSION and change.level for change in changes):
        # With eligible leader replicas the controller must know what every broker takes for enough, as in Kafka.
        enough = str(settings.topic_defaults().min_insync_replicas)
        changes.append(AlterConfig(ALL_BROKERS, (("min.insync.replicas", enough),)))
    return changes
