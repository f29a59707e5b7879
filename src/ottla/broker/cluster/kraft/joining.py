"""Makes a broker a member of a cluster whose truth is the metadata log of controllers. Loaded by nobody else.

identity = read_identity(files, settings)                 # whose directories they are: kafka-storage format said so
following = open_following(...)                            # the log in its directory, not yet followed
broker.link = make_link(broker, following, ...)            # what the broker is in its cluster, not yet registered
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.broker import Broker
from ottla.broker.cluster.inter_broker import InterBroker
from ottla.broker.cluster.joining import FETCHER_LINK
from ottla.broker.cluster.kraft.controllers import ActiveController, Addressed, ControllerConnections, Controllers
from ottla.broker.cluster.kraft.lifecycle import BrokerLifecycle, LifecycleSettings
from ottla.broker.cluster.kraft.link import KRaftLink
from ottla.broker.cluster.kraft.log_following import LogFollowing
from ottla.broker.cluster.kraft.own_store import log_limits, refuse_foreign_logs, snapshot_rules
from ottla.broker.cluster.kraft.raft_loop import RaftLoop
from ottla.broker.security.own_login import controllers, own_login, own_principal
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.endpoints import Endpoint, is_loopback
from ottla.cluster import model
from ottla.cluster.features import KRAFT_RANGE
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.raft.fetching import FetchLimits, Identity
from ottla.cluster.raft.format import write_first_voters
from ottla.cluster.raft.log import MetadataLog, refuse_rot
from ottla.cluster.raft.node import RaftNode, RaftSettings
from ottla.cluster.raft.raft import Raft
from ottla.cluster.raft.snapshots import Voters
from ottla.cluster.raft.voters import voters_by_settings
from ottla.errors import InvalidSetting, OttlaError
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.protocol.metadata_log.control import VotersRecord
from ottla.storage.directory.checkpoints import CLEAN_SHUTDOWN, MetaProperties, read_meta_properties
from ottla.storage.directory.directories import LogDirectory
from ottla.storage.directory.manager import LogManager
from ottla.storage.directory.unknown_logs import FIRST_VOTERS, QUORUM_LOG, has_quorum_log
from ottla.storage.files import Files
from ottla.values import Address, random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ottla.broker.cluster.link import Decider
    from ottla.broker.world import World

log = logging.getLogger(__name__)

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
DEFAULT_NODE_ID: Final = 0
LOG_WAIT_MS: Final = 500
"""How long the leader of the log holds a fetch back while there is nothing new, as in Kafka."""


class DirectoryNotFormatted(OttlaError):
    """A directory does not say which cluster it belongs to, and a broker under controllers does not choose.
    Format it: kafka-storage format -t CLUSTER-ID -c FILE --no-initial-controllers (Apache's or ours)."""


class DirectoryOfZooKeeper(OttlaError):
    """A directory is that of a broker whose cluster is kept in ZooKeeper. A metadata log that begins beside it would
    not know its topics. Take the cluster over first: ottla storage migrate."""


def read_identity(files: Files, settings: BrokerSettings, new_id: Callable[[], bytes]) -> MetaProperties:
    """Whose the directories are. Foreign ones are refused when they are locked. Of a controller that knows no other
    they need not say it: it begins a cluster, as a broker of its own does."""
    directory = settings.metadata_directory
    found = read_meta_properties(files, directory) if files.exists(directory) else None
    if found is not None and found.version == 0:
        raise DirectoryOfZooKeeper(f"{directory} has a meta.properties of version 0")
    if found is not None and found.cluster_id is not None:
        found.expect(directory, node_id=settings.wanted_id)
        return found
    if not settings.is_controller or _knows_others(settings):
        raise DirectoryNotFormatted(f"{directory} has no meta.properties with a cluster.id")
    refuse_foreign_logs(files, settings.data_directories, directory)
    node_id = DEFAULT_NODE_ID if settings.wanted_id is None else settings.wanted_id
    cluster_id = settings.ottla_cluster_id or uuid_to_text(new_id())
    return MetaProperties(cluster_id=cluster_id, node_id=node_id)


def _knows_others(settings: BrokerSettings) -> bool:
    """Whether the settings name a controller that is not this one."""
    own = (*settings.controller_listeners, *settings.controller_endpoints)
    return any(not any(_is_at(endpoint, address) for endpoint in own) for address in settings.quorum_addresses)


def _is_at(endpoint: Endpoint, address: Address) -> bool:
    is_here = endpoint.is_loopback or endpoint.is_any_interface
    return endpoint.port == address.port and (endpoint.host == address.host or (is_here and is_loopback(address.host)))


def begin_quorum(files: Files, home: LogDirectory, node: RaftNode, settings: BrokerSettings, now_ms: int) -> None:
    """A controller that knows no others, in a directory without a metadata log, is the first voter of a new quorum.
    What `kafka-storage format` has written stays."""
    has_voters = files.exists(home.path / QUORUM_LOG / FIRST_VOTERS) or has_quorum_log(files, home.path)
    if settings.controller_quorum_voters or has_voters or _knows_others(settings):
        return
    voters = Voters(KRAFT_RANGE.max_level, VotersRecord(voters=[node.as_voter()]))
    write_first_voters(files, home.path, voters, lambda: now_ms)


class Connecting:
    """Makes connections: to controllers now, to other brokers as soon as an image tells where they are."""

    def __init__(self, settings: BrokerSettings, world: World, broker_id: int) -> None:
        self._settings, self._world, self._broker_id = settings, world, broker_id
        listener = settings.controller_listener
        self._addressed = Addressed(listener.name, listener.protocol)
        self._make_fetcher: Callable[[], InterBroker] | None = None

    def to_controllers(self, active: ActiveController) -> ControllerConnections:
        login = own_login(lambda: self._settings, self._world.clock, self._world.random, controllers)
        tls = _tls_to_controllers(self._settings)

        def made(*, waits_for_refusing: bool = True) -> InterBroker:
            return InterBroker(
                self._broker_id,
                self._addressed.endpoint,
                waits_for_refusing=waits_for_refusing,
                transport=self._world.transport,
                clock=self._world.clock,
                random=self._world.random,
                login=login,
                tls=tls,
            )

        connections = [made(waits_for_refusing=name != "log") for name in ControllerConnections._fields]
        connections[0].owns_login = True  # it is closed last
        return ControllerConnections(*(Controllers(each, self._addressed, active) for each in connections))

    def to_brokers(
        self, broker: Broker, tls: Callable[[], ssl.SSLContext | None], count: int
    ) -> tuple[InterBroker, InterBroker, list[InterBroker]]:
        """For questions to leaders, for markers of transactions, and so many for fetchers."""
        listener = self._settings.inter_broker_listener.name
        login = own_login(lambda: broker.settings, self._world.clock, self._world.random)
        broker.settings_checks.append(own_principal)  # a change with which this broker could not log in is refused

        def endpoint_of(broker_id: int) -> model.Endpoint | None:
            known = broker.image.brokers.get(broker_id)
            return None if known is None else known.endpoint(listener)

        def made(*, fetches: bool) -> InterBroker:
            return InterBroker(
                broker.id,
                endpoint_of,
                transport=self._world.transport,
                clock=self._world.clock,
                random=self._world.random,
                link_settings=FETCHER_LINK if fetches else None,
                login=login,
                tls=tls,
            )

        leaders = made(fetches=False)
        leaders.owns_login = True  # it is closed last
        self._make_fetcher = partial(made, fetches=True)
        return leaders, made(fetches=False), self.fetchers(count)

    def fetchers(self, count: int) -> list[InterBroker]:
        """Connections for so many fetchers."""
        assert self._make_fetcher is not None, "there is a broker"
        return [self._make_fetcher() for _ in range(count)]


def _tls_to_controllers(settings: BrokerSettings) -> Callable[[], ssl.SSLContext | None]:
    """What to speak with controllers by, asked whenever a connection is made: stores that were renewed on the disk are
    read again. InvalidSetting when they cannot be used."""
    listener = settings.controller_listener
    if not listener.protocol.endswith("SSL"):
        return lambda: None
    from ottla.broker.security.tls_material import stamps_of
    from ottla.broker.security.tls_options import tls_options
    from ottla.net.tls import client_context

    options = tls_options(settings, listener.name, listener.protocol)
    stamps, context = stamps_of(options), client_context(options)

    def newest() -> ssl.SSLContext:
        nonlocal stamps, context
        if stamps_of(options) != stamps:
            try:
                stamps, context = stamps_of(options), client_context(options)
            except InvalidSetting as problem:
                log.error("a TLS store for the controllers has changed and is not used: %s", problem)
        return context

    return newest


# --- the log ----------------------------------------------------------------------------------------------------------


def open_following(
    settings: BrokerSettings,
    world: World,
    directory: LogDirectory,
    identity: MetaProperties,
    ended: Callable[[OttlaError], None],
    pool: Executor | None,
    endpoints: Sequence[model.Endpoint] = (),
) -> tuple[LogFollowing, ControllerConnections, Connecting]:
    """The metadata log of a directory that is locked, and how controllers are asked. `endpoints` are those of this
    node's controller; a node that is only a broker has none, and no vote."""
    files, now_ms = directory.files, world.clock.now_ms()
    directory.files.check()
    assert identity.cluster_id is not None, "a directory without is refused"
    assert identity.node_id is not None, "and so is one of nobody"
    assert directory.directory_id is not None, "it has one since it was locked"
    node = RaftNode(
        Identity(identity.cluster_id, identity.node_id, directory.directory_id),
        bootstrap=settings.quorum_addresses,
        voters=voters_by_settings(settings.quorum_voters, settings.controller_listener.name),
        endpoints=tuple((each.listener, Address(each.host, each.port)) for each in endpoints),
        joins_by_itself=settings.controller_quorum_auto_join_enable,
        voters_max=settings.ottla_controller_quorum_voters_max,
    )
    if endpoints:
        # Several batches are written before a sync, so only after a stop in order damage is rot and no torn end.
        if files.exists(directory.path / CLEAN_SHUTDOWN):
            refuse_rot(files, directory.path, stopped_in_order=True)
        begin_quorum(files, directory, node, settings, now_ms)
    log_of_metadata = MetadataLog.open(files, directory.path, now_ms=now_ms, limits=log_limits(settings))
    connecting = Connecting(settings, world, identity.node_id)
    active = ActiveController()
    connections = connecting.to_controllers(active)
    quorum = RaftLoop(
        Raft(files, log_of_metadata, node, raft_settings(settings), world.random, now_ms),
        connections.log.ask_at,
        files=files,
        clock=world.clock,
        pool=pool,
        request_timeout_ms=settings.controller_quorum_request_timeout_ms,
        ended=ended,
        leader_is_at=active.update,
    )
    following = LogFollowing(
        quorum,
        MetadataLoader(identity.cluster_id),
        files=files,
        clock=world.clock,
        snapshots=snapshot_rules(settings),
        ended=ended,
    )
    return following, connections, connecting


def raft_settings(settings: BrokerSettings) -> RaftSettings:
    """What controller.quorum.* say."""
    return RaftSettings(
        election_timeout_ms=settings.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=settings.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=settings.controller_quorum_fetch_timeout_ms,
        retry_backoff_ms=settings.controller_quorum_retry_backoff_ms,
        limits=FetchLimits(
            max_wait_ms=LOG_WAIT_MS,
            max_bytes=settings.controller_quorum_fetch_max_bytes,
            snapshot_max_bytes=settings.controller_quorum_fetch_snapshot_max_bytes,
        ),
    )


# --- the link ---------------------------------------------------------------------------------------------------------


def make_link(
    broker: Broker,
    *,
    settings: BrokerSettings,
    world: World,
    logs: LogManager,
    following: LogFollowing,
    connections: ControllerConnections,
    connecting: Connecting,
    tls: Callable[[], ssl.SSLContext | None],
    ended: Callable[[OttlaError], None],
    decider: Decider | None = None,
) -> KRaftLink:
    """The link, not yet started. `tls` gives the context for connections to other brokers, `decider` is the controller
    of this node."""
    leaders, markers, fetchers = connecting.to_brokers(broker, tls, settings.num_replica_fetchers)

    def make_lifecycle(me: model.Broker) -> BrokerLifecycle:
        return BrokerLifecycle(
            _registration(me, broker.image, logs, world),
            LifecycleSettings(
                heartbeat_interval_ms=settings.broker_heartbeat_interval_ms,
                session_timeout_ms=settings.broker_session_timeout_ms,
                registration_timeout_ms=settings.initial_broker_registration_timeout_ms,
                directory_failure_timeout_ms=settings.log_dir_failure_timeout_ms,
            ),
            world.random,
            world.clock.monotonic_ms(),
        )

    link = KRaftLink(
        broker, following, connections, make_lifecycle, leaders, markers, fetchers, settings=settings, ended=ended
    )
    link.decider = decider
    broker.dynamic.subscribe(
        ["num.replica.fetchers"],
        lambda _, new: link.replication.redistribute(connecting.fetchers(new.num_replica_fetchers)),
    )
    broker.dynamic.subscribe(["cordoned.log.dirs"], lambda *_: link.directories_cordoned())
    return link


def _registration(me: model.Broker, image: ClusterImage, logs: LogManager, world: World) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=me.id,
        cluster_id=image.cluster_id,
        incarnation_id=random_uuid(world.random.randbytes),
        listeners=[
            Listener(
                name=each.listener,
                host=each.host,
                port=each.port,
                security_protocol=SECURITY_PROTOCOLS[each.security_protocol],
            )
            for each in me.endpoints
        ],
        features=[
            Feature(name=feature.name, min_supported_version=feature.min_level, max_supported_version=feature.max_level)
            for feature in me.features
        ],
        rack=me.rack,
        log_dirs=[each.directory_id for each in logs.directories if each.directory_id is not None],
        previous_broker_epoch=-1 if me.lost_memory else previous_epoch(me, image, logs),
    )


def previous_epoch(me: model.Broker, image: ClusterImage, logs: LogManager) -> int:
    """The epoch of the life of this broker from which it has everything that it acknowledged; -1 where there is none.

    That is the last one which the controllers know, if it had the same directories and the machine has not gone down
    since: the system keeps what a killed process wrote. Else it is the one in which it stopped in order.
    """
    known: model.Broker | None = image.brokers.get(me.id)
    if known is not None and known.directories and known.directories == me.directories:
        return known.epoch
    stops = [each.last_stop if each.is_online else None for each in logs.directories]
    epochs = {None if stop is None else stop.broker_epoch for stop in stops}
    only = epochs.pop() if len(epochs) == 1 else None
    return -1 if only is None else only
