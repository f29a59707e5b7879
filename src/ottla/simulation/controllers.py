"""The controllers of a simulated cluster: which machines they are on, what they are told, which of them is active.

    controllers = Controllers(random, voters={100: "10.0.9.1", 101: "10.0.9.2", 102: "10.0.9.3"}, session_s=1.5)
    {**controllers.of_brokers, **controllers.of_voter(100, None)}     # settings of that node
    controllers.format(files, settings, 100, random)                  # as kafka-storage format does
    controllers.active(servers)                                       # the node that decides now

1. A controller is a real server: Raft, its log on a simulated disk, the decisions. Nothing of it is replaced.
2. Half of all clusters name their voters in the settings, the others in the log (KIP-853); the seed decides.
3. Times of Raft follow the time of a broker's session, so that short histories have elections, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from ottla.broker.server import Server
from ottla.broker.settings import BrokerSettings
from ottla.cluster.features import FEATURES, KRAFT_RANGE, first_features
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.writing import records_for
from ottla.cluster.model import METADATA_VERSION
from ottla.cluster.raft.fetching import Identity
from ottla.cluster.raft.format import write_bootstrap, write_first_voters
from ottla.cluster.raft.node import RaftNode
from ottla.cluster.raft.snapshots import Voters
from ottla.protocol.metadata_log.control import VotersRecord
from ottla.storage.directory.checkpoints import MetaProperties, write_meta_properties
from ottla.storage.files import Files
from ottla.values import Address, random_uuid, uuid_to_text

NEW_LEVEL: Final = next(each.max_level for each in FEATURES if each.name == METADATA_VERSION)
OLD_FEATURES: Final = tuple(
    each._replace(max_level=NEW_LEVEL - 1) if each.name == METADATA_VERSION else each for each in FEATURES
)
"""Of the version before."""
FIRST_ID: Final = 100
PORT: Final = 9093
LISTENER: Final = "CONTROLLER"
BEATS: Final = 4
"""Heartbeats of a broker in the time of its session."""
ELECTIONS: Final = 5
FETCHES: Final = 3
"""Times of an election, and of fetches that are missed, in it."""


class Controllers:
    """See the module."""

    def __init__(self, random: Random, voters: Mapping[int, str], *, session_s: float, is_old: bool = False) -> None:
        """`voters` are the hosts of the nodes that vote. `is_old`: the cluster begins as the version before."""
        self.features = OLD_FEATURES if is_old else FEATURES
        self.cluster_id = uuid_to_text(random_uuid(random.randbytes))
        self.hosts = dict(voters)
        self._directory_ids = {node: random_uuid(random.randbytes) for node in voters}
        self._is_static = random.random() < 0.5
        self._session_ms = int(session_s * 1_000)

    @property
    def of_brokers(self) -> Mapping[str, object]:
        """What every node must know of them."""
        servers = ",".join(f"{host}:{PORT}" for host in self.hosts.values())
        voters = ",".join(f"{node}@{host}:{PORT}" for node, host in self.hosts.items())
        named = {"controller.quorum.voters": voters} if self._is_static else {}
        return {
            "process.roles": "broker",
            "controller.listener.names": LISTENER,
            "controller.quorum.bootstrap.servers": servers,
            "broker.heartbeat.interval.ms": self._session_ms // BEATS,
            "broker.session.timeout.ms": self._session_ms,
            "controller.quorum.election.timeout.ms": self._session_ms // ELECTIONS,
            "controller.quorum.election.backoff.max.ms": self._session_ms // ELECTIONS,
            "controller.quorum.fetch.timeout.ms": self._session_ms // FETCHES,
            "controller.quorum.request.timeout.ms": self._session_ms,  # longer than a fetch waits for news
            **named,
        }

    def of_voter(self, node: int, broker_listeners: str | None) -> Mapping[str, object]:
        """What a node that votes is told beside; with `broker_listeners` it is a broker, too."""
        own = f"{LISTENER}://{self.hosts[node]}:{PORT}"
        if broker_listeners is None:
            return {"process.roles": "controller", "listeners": own}
        return {"process.roles": "broker,controller", "listeners": f"{broker_listeners},{own}"}

    def format(self, files: Files, settings: BrokerSettings, node: int, random: Random) -> None:
        """What kafka-storage format writes."""
        for path in settings.data_directories:
            files.make_directory(path)
            files.sync_directory(path.parent)
            directory_id = random_uuid(random.randbytes)
            if path == settings.metadata_directory:
                directory_id = self._directory_ids.get(node, directory_id)
            write_meta_properties(files, path, MetaProperties(1, self.cluster_id, node, directory_id))
        first = first_features([each for each in self.features if each != KRAFT_RANGE])
        write_bootstrap(files, settings.metadata_directory, records_for(first, ClusterImage("")), lambda: 0)
        if node in self.hosts and not self._is_static:
            record = VotersRecord(voters=[self._node(each).as_voter() for each in self.hosts])
            write_first_voters(files, settings.metadata_directory, Voters(KRAFT_RANGE.max_level, record), lambda: 0)

    def _node(self, node: int) -> RaftNode:
        identity = Identity(self.cluster_id, node, self._directory_ids[node])
        return RaftNode(identity, endpoints=((LISTENER, Address(self.hosts[node], PORT)),))

    @staticmethod
    def active(servers: Mapping[int, Server]) -> int | None:
        """The node of these that decides; the newest where an old one has not heard of it."""
        found = [
            (node.controller.epoch, number)
            for number, server in servers.items()
            if (node := server.controller) is not None and hasattr(node, "controller") and node.controller.is_active
        ]
        return max(found)[1] if found else None
