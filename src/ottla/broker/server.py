"""Start-up and shut-down order of a broker; the one place where the parts meet the machine.

    directories → cluster id → metadata store → logs (recovery)
    → broker → partitions → listeners → registration → view → ready

and back: stop listening, answer who waits, flush, mark the directories as closed cleanly. A start that fails undoes
what it had begun, so that the next one finds no lock. With zookeeper.connect, or a store passed as argument, the broker
is a member of a cluster (joining.py): its store is shared, and it leaves in order before anything else stops.

With process.roles=broker the truth is the metadata log of controllers, and a start has another order, Kafka's:

    directories (formatted) → metadata log, followed up to what is committed → logs (recovery) → broker
    → ports, closed → registration → partitions, coordinators → unfenced → ready

A node that is a controller, too (broker/cluster/quorum/controller_node.py), has that running before it follows the log,
and stops it last: its broker is under the controllers like any other. A node that is a controller and no broker has
only that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.broker import Broker
from ottla.broker.cluster.alone import AloneLink
from ottla.broker.cluster.kraft.own_store import make_own_store, refuse_foreign_logs
from ottla.broker.cluster.link import ClusterLink
from ottla.broker.cluster.memory_loss import lost_memory, note_boot
from ottla.broker.cluster.policies import NO_POLICIES, Policies
from ottla.broker.housekeeping.jobs import see_failures, start_jobs
from ottla.broker.listeners import Listeners
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.running import next_turn
from ottla.broker.requests.served import CLUSTER_APIS, SERVED_APIS
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.group_level import GroupLevelSettings
from ottla.broker.world import World
from ottla.clock import SystemClock
from ottla.cluster import model
from ottla.cluster.config_layers import ConfigRules, TopicsInEffect
from ottla.cluster.features import SUPPORTED
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.interface import MetadataStore, OwnStore, SharedStore
from ottla.cluster.store.kraft import KRaftStore
from ottla.errors import KafkaStorageError, OttlaError
from ottla.light_dataclasses import dataclass
from ottla.metrics import Registry
from ottla.storage.directory.checkpoints import MetaProperties, read_meta_properties
from ottla.storage.directory.directories import LogDirectory
from ottla.storage.directory.loading import ProducerLimits, recovery_summary
from ottla.storage.directory.manager import LogManager
from ottla.storage.files import Files
from ottla.storage.settings import TopicSettings
from ottla.values import random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ottla.broker.cluster.client_gate import ClientGate
    from ottla.broker.cluster.kraft.controllers import ControllerConnections
    from ottla.broker.cluster.kraft.joining import Connecting
    from ottla.broker.cluster.kraft.log_following import LogFollowing
    from ottla.broker.cluster.quorum.controller_node import ControllerNode
    from ottla.broker.http.door import Opened
    from ottla.broker.security.first_users import FirstUser

log = logging.getLogger(__name__)

DEFAULT_BROKER_ID: Final = 0
NO_EPOCH: Final = -1
QUIET_LIMIT_MS: Final = 30_000
QUIET_STEP_MS: Final = 2
LAST_TURNS: Final = 3
CLOSING_WORKERS: Final = 16
CLOSING_SAID_MS: Final = 3_000


@dataclass(frozen=True)
class ServerInfo:
    """What a server reports when it is ready."""

    broker_id: int
    cluster_id: str
    bootstrap_servers: str
    endpoints: tuple[model.Endpoint, ...]
    directories: tuple[Path, ...]
    admin_address: tuple[str, int] | None = None  # where metrics and health are; None is nowhere
    http_parts: tuple[Opened, ...] = ()  # what else is served over HTTP, and where


class Server:
    """A broker with its network, directories and jobs."""

    def __init__(
        self,
        settings: BrokerSettings,
        world: World | None = None,
        *,
        shared_store: SharedStore | None = None,
        first_users: Sequence[FirstUser] = (),
        policies: Policies = NO_POLICIES,
    ) -> None:
        """`shared_store` makes it a member of the cluster that is kept there: the simulation gives its model of
        ZooKeeper. `first_users` are there before anybody can log in; a broker of its own has them, not a member.
        `policies` are asked about topics and settings (cluster/policies.py)."""
        self.settings = settings
        self._policies = policies
        self._shared_store = shared_store
        self._first_users = first_users
        self.registry = Registry()
        self._world = world or World.real()
        self._stack = AsyncExitStack()
        self._is_ready = False
        self._has_crashed = False
        self.broker: Broker
        self.controller: ControllerNode | None = None
        self.listeners: Listeners
        self.info: ServerInfo
        self.admin_address: tuple[str, int] | None = None
        self.http_parts: tuple[Opened, ...] = ()
        self.failed = asyncio.Event()  # no log directory is left, or a part that must live ended; `failure` says which
        self.failure: OttlaError | None = None

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> ServerInfo:
        try:
            self.info = await self._started()
            # Clients are answered meanwhile; those of a coordinator that is being loaded hear that.
            await self.broker.loads.wait()
        except BaseException:
            await self._stack.aclose()
            raise
        self._is_ready = True
        return self.info

    async def stop(self) -> None:
        """In the opposite order of the start; bounded in time."""
        self._is_ready = False
        await self._stack.aclose()

    async def crash(self) -> None:
        """For tests: go without a word. Nothing is handed over, nothing is marked as clean; only what this process
        holds (sockets, threads, locks) is let go."""
        self._is_ready = False
        self._has_crashed = True
        self.listeners.acceptor.abort()
        if self.controller is not None:
            self.controller.listeners.acceptor.abort()
        await self.broker.link.vanish()
        await self._stack.aclose()

    async def _started(self) -> ServerInfo:
        """The start, or what ended a part meanwhile that must live: the rest might wait for it for ever."""
        starting, failing = asyncio.ensure_future(self._start()), asyncio.ensure_future(self.failed.wait())
        try:
            await asyncio.wait((starting, failing), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done() and self.failure is not None:
                raise self.failure
            return await starting
        finally:
            starting.cancel()
            failing.cancel()
            await asyncio.gather(starting, failing, return_exceptions=True)

    async def _start(self) -> ServerInfo:
        if self.settings.is_only_controller:
            return await self._start_controller()
        return await (self._start_under_controllers() if self.settings.is_under_controllers else self._start_by_store())

    async def _start_by_store(self) -> ServerInfo:
        """A broker whose truth is a store: its own, or one that it shares with the others."""
        world, directories = self._world, self.settings.data_directories
        pool = self._make_pool()
        self._make_directories(directories)
        shared = await self._open_shared_store(pool)
        identity = self._identity(directories)
        cluster_id = self._cluster_id(directories, identity) if shared is None else shared.load().cluster_id
        broker_id = await self._broker_id(identity, shared, pool)
        version = 1 if shared is None else 0
        logs = self._make_logs(cluster_id, broker_id, lambda: store.load(), meta_version=version)
        own = None if shared is not None else self._own_store(logs, cluster_id, broker_id)
        store: MetadataStore = shared or own  # type: ignore[assignment]  # one of them is there
        self._load_logs(logs, pool)
        self._keep_users(store)
        self._served = SERVED_APIS if shared is None else CLUSTER_APIS
        image = store.load() if shared is None else ClusterImage(cluster_id)
        self._make_broker(broker_id, image, self._link_maker(own, shared, pool), logs, pool)
        gate = None if shared is None else await self._wait_until_free(shared, broker_id, pool)
        self.listeners = Listeners(
            self.broker,
            self.settings,
            gate or self._make_dispatch(),
            world,
            self._stack,
            registry=self.registry,
            is_member=shared is not None,
        )
        acceptor = self.listeners.acceptor
        await self.broker.link.prepare()  # whoever finds a port open is answered soon
        endpoints = await self.listeners.open()
        lost_memory = shared is not None and self._lost_memory(logs)
        me = self._me(broker_id, endpoints, logs, has_metadata_log=shared is None, lost_memory=lost_memory)
        if shared is not None:
            acceptor.release()  # the controller's first orders are answered from here on, clients when the gate opens
        self._stack.push_async_callback(self.broker.link.stop)
        await self.broker.start(me)
        if shared is not None:
            await self._joined(logs)
        self._begin_housekeeping(logs, shared, pool)
        await self._open_http()
        acceptor.release()
        if gate is not None:
            gate.open()
        return self._make_info(broker_id, cluster_id, endpoints)

    async def _start_under_controllers(self) -> ServerInfo:
        """A broker of a cluster whose truth is the metadata log of controllers."""
        from ottla.broker.cluster.kraft import joining
        from ottla.broker.cluster.kraft.passing_on import ENVELOPE, PASSED_ON

        world, settings = self._world, self.settings
        pool = self._make_pool()
        identity = joining.read_identity(world.files, settings, lambda: random_uuid(world.random.randbytes))
        assert identity.cluster_id is not None, "it is refused without"
        assert identity.node_id is not None, "it is refused without"
        self._make_directories(settings.data_directories)
        logs = self._make_logs(identity.cluster_id, identity.node_id, lambda: following.image, meta_version=1)
        logs.claim()
        directory = self._metadata_directory(logs, identity.cluster_id, identity.node_id)
        if settings.is_controller:
            self.controller = self._make_controller(identity, pool)
        following, controllers, connecting = await self._follow_log(directory, identity, pool)
        await following.caught_up()
        self._load_logs(logs, pool)
        self._served = SERVED_APIS | PASSED_ON
        if settings.schema_registry_address is not None:
            self._served |= {ENVELOPE}  # its questions go to the leader of its topic
        make_link = partial(
            joining.make_link,
            settings=settings,
            world=world,
            logs=logs,
            following=following,
            connections=controllers,
            connecting=connecting,
            tls=lambda: self.listeners.tls_to_brokers(),
            ended=self._fail,
            decider=None if self.controller is None else self.controller.controller,
        )
        self._make_broker(identity.node_id, following.image, make_link, logs, pool)
        self.listeners = Listeners(
            self.broker,
            settings,
            self._make_dispatch(),
            world,
            self._stack,
            registry=self.registry,
            is_member=True,
        )
        endpoints = await self.listeners.open()
        self._stack.push_async_callback(self.broker.link.stop)
        lost_memory = self._lost_memory(logs)
        await self.broker.start(self._me(identity.node_id, endpoints, logs, lost_memory=lost_memory))
        note_boot(logs.directories, world.boot_id)
        self._begin_housekeeping(logs, None, pool)
        await self._open_http()
        self.listeners.acceptor.release()
        return self._make_info(identity.node_id, identity.cluster_id, endpoints)

    async def _start_controller(self) -> ServerInfo:
        """A controller and no broker. What looks after a broker (health, metrics, the console) looks after it."""
        from ottla.broker.cluster.kraft import joining

        world, settings = self._world, self.settings
        pool = self._make_pool()
        identity = joining.read_identity(world.files, settings, lambda: random_uuid(world.random.randbytes))
        assert identity.cluster_id is not None, "it is refused without"
        assert identity.node_id is not None, "it is refused without"
        directory = self._own_directory(settings.metadata_directory, identity.cluster_id, identity.node_id)
        controller = self.controller = self._make_controller(identity, pool, self.registry)
        self.broker, self.listeners = controller.broker, controller.listeners
        await self._follow_log(directory, identity, pool)
        self._watch_loop()
        await self._open_http()
        return self._make_info(identity.node_id, identity.cluster_id, controller.endpoints)

    async def _follow_log(
        self, directory: LogDirectory, identity: MetaProperties, pool: Executor | None
    ) -> tuple[LogFollowing, ControllerConnections, Connecting]:
        """Follow the metadata log, with the vote of a controller where this node is one."""
        from ottla.broker.cluster.kraft import joining

        controller = self.controller
        endpoints: tuple[model.Endpoint, ...] = ()
        if controller is not None:
            self._stack.push_async_callback(controller.abandon)  # of a start that fails
            endpoints = await controller.open()
        following, connections, connecting = joining.open_following(
            self.settings, self._world, directory, identity, self._fail, pool, endpoints
        )
        self._stack.push_async_callback(connections.close)
        self._stack.push_async_callback(following.stop)
        if controller is None:
            following.start()
        else:
            self._stack.push_async_callback(self._stop_controller)
            await controller.start(following, connections, directory)
        return following, connections, connecting

    def _make_controller(
        self, identity: MetaProperties, pool: Executor | None, registry: Registry | None = None
    ) -> ControllerNode:
        from ottla.broker.cluster.quorum.controller_node import ControllerNode

        assert identity.cluster_id is not None, "it is refused without"
        assert identity.node_id is not None, "it is refused without"
        return ControllerNode(
            identity.node_id,
            self.settings,
            self._world,
            cluster_id=identity.cluster_id,
            pool=pool,
            ended=self._fail,
            registry=registry,
            policies=self._policies,
            first_users=self._first_users,
        )

    async def _stop_controller(self) -> None:
        assert self.controller is not None, "it was started"
        await (self.controller.abandon() if self._has_crashed else self.controller.stop())

    def _make_broker(
        self,
        broker_id: int,
        image: ClusterImage,
        make_link: Callable[[Broker], ClusterLink],
        logs: LogManager,
        pool: Executor | None,
    ) -> None:
        self.broker = Broker(
            broker_id,
            self.settings,
            clock=self._world.clock,
            image=image,
            make_link=make_link,
            logs=logs,
            pool=pool,
            random=self._world.random,
            registry=self.registry,
            served_apis=self._served,
            policies=self._policies,
            directory_failed=lambda: see_failures(self.broker, logs, self._fail),
            part_ended=self._fail,
        )
        logs.cordon(self.broker.settings.cordoned_directories)
        self.broker.dynamic.subscribe(["cordoned.log.dirs"], lambda _, new: logs.cordon(new.cordoned_directories))
        self._stack.push_async_callback(self._quieten)

    def _own_store(self, logs: LogManager, cluster_id: str, broker_id: int) -> KRaftStore:
        """The metadata log of a broker that is a cluster of its own."""
        logs.claim()
        directory = self._metadata_directory(logs, cluster_id, broker_id)
        return make_own_store(self.settings, self._world, cluster_id, broker_id, directory)

    def _metadata_directory(self, logs: LogManager, cluster_id: str, broker_id: int) -> LogDirectory:
        """The directory that has the metadata log, locked: one of the log directories, which are, or one of its own."""
        found = next((each for each in logs.directories if each.path == self.settings.metadata_directory), None)
        return found or self._own_directory(self.settings.metadata_directory, cluster_id, broker_id)

    def _own_directory(self, path: Path, cluster_id: str, broker_id: int) -> LogDirectory:
        """A directory that has nothing but the metadata log, locked."""
        made = LogDirectory(path, self._world.files)
        self._make_directories([made.path])
        made.lock()
        self._stack.callback(made.release)
        made.identify(cluster_id=cluster_id, broker_id=broker_id, random_bytes=self._world.random.randbytes)
        return made

    def _me(
        self,
        broker_id: int,
        endpoints: tuple[model.Endpoint, ...],
        logs: LogManager,
        *,
        has_metadata_log: bool = True,
        lost_memory: bool = False,
    ) -> model.Broker:
        """What the broker says of itself; of its directories only where a metadata log keeps that."""
        directories = [each.directory_id for each in logs.directories if each.is_online and has_metadata_log]
        cordoned = [each.directory_id for each in logs.directories if each.path in logs.cordoned]
        return model.Broker(
            broker_id,
            endpoints,
            rack=self.settings.broker_rack,
            features=self._world.features if has_metadata_log else tuple(SUPPORTED),
            directories=tuple(sorted(filter(None, directories))),
            cordoned_directories=tuple(sorted(filter(None, cordoned))) if has_metadata_log else None,
            lost_memory=lost_memory,
        )

    def _make_info(self, broker_id: int, cluster_id: str, endpoints: tuple[model.Endpoint, ...]) -> ServerInfo:
        return ServerInfo(
            broker_id=broker_id,
            cluster_id=cluster_id,
            bootstrap_servers=",".join(f"{each.host}:{each.port}" for each in endpoints),
            endpoints=endpoints,
            directories=self.settings.data_directories,
            admin_address=self.admin_address,
            http_parts=self.http_parts,
        )

    def _begin_housekeeping(self, logs: LogManager, shared: SharedStore | None, pool: Executor | None) -> None:
        """The jobs, and who watches: threads that must live, and what holds the loop."""
        if shared is not None:
            self.broker.watchdog.watch_threads(shared.dead_threads)
        self._watch_loop()
        self._stack.push_async_callback(start_jobs(self.broker, logs, self._world.clock, pool, self._fail))

    def _watch_loop(self) -> None:
        if isinstance(self._world.clock, SystemClock):  # on any other clock nobody is late
            self.broker.stalls.watch()
            self._stack.callback(self.broker.stalls.stop)

    def _keep_users(self, store: MetadataStore) -> None:
        """The store is open until the end, and has the first users."""
        self._stack.callback(self._close_store, store)
        if self._first_users and isinstance(store, KRaftStore):
            from ottla.broker.security.first_users import changes_for

            store.commit(changes_for(store.load(), self._first_users, os.urandom))

    def _close_store(self, store: MetadataStore) -> None:
        if isinstance(store, KRaftStore):
            store.close(is_clean=not self._has_crashed)
        else:
            store.close()

    async def _joined(self, logs: LogManager) -> None:
        """What a member does when the controller has heard of it, and of what it lost."""
        note_boot(logs.directories, self._world.boot_id)
        await self._encode_secrets_anew()

    async def _encode_secrets_anew(self) -> None:
        """What is stored with the old secret is not lost when the old secret is forgotten."""
        broker = self.broker
        if self.settings.password_encoder_old_secret is None:
            return
        from ottla.broker.security.stored_secrets import encode_anew

        try:
            await broker.link.change(lambda image: encode_anew(image, broker.config_rules))
        except OttlaError as problem:
            log.error("secrets are still stored with password.encoder.old.secret, keep it: %s", problem)

    def _make_directories(self, directories: Sequence[Path]) -> None:
        files = self._world.files
        for directory in directories:
            if not files.exists(directory):
                files.make_directory(directory)
                files.sync_directory(directory.parent)

    @property
    def broker_files(self) -> Files:
        """The door to the disk; tests make it fail."""
        return self._world.files

    def _lost_memory(self, logs: LogManager) -> bool:
        """Whether that must be told; else this boot is noted, before anything is acknowledged."""
        lost = lost_memory(logs.directories, self._world.boot_id)
        if lost:
            log.warning("the machine went down since this broker ran; its copies may lack what it had acknowledged")
        else:
            note_boot(logs.directories, self._world.boot_id)
        return lost

    def _fail(self, error: OttlaError) -> None:
        """It cannot go on: whoever runs it stops it, in order."""
        if self.failure is None:
            self.failure = error
        self.failed.set()

    async def _quieten(self) -> None:
        """Everybody is answered, everything is on the disk."""
        self.broker.stop()
        for _ in range(LAST_TURNS):
            await next_turn()  # requests answered by that finish while the logs are open
        if self._has_crashed:
            return
        clock = self._world.clock
        end_ms = clock.monotonic_ms() + QUIET_LIMIT_MS
        while not self.broker.is_quiet and clock.monotonic_ms() < end_ms:
            await clock.sleep(QUIET_STEP_MS)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _make_pool(self) -> Executor | None:
        if not self._world.workers:
            return None
        pool = self._world.make_pool(self._world.workers)
        self._stack.callback(pool.shutdown, wait=True)
        return pool

    def _identity(self, directories: Sequence[Path]) -> MetaProperties:
        """The ids of the first directory that has some: of an earlier start, or of kafka-storage format."""
        for directory in directories:
            # A directory that cannot be read is offline when the logs are opened, which says so.
            with contextlib.suppress(KafkaStorageError):
                if (found := read_meta_properties(self._world.files, directory)) is not None:
                    return found
        return MetaProperties()

    def _cluster_id(self, directories: Sequence[Path], identity: MetaProperties) -> str:
        """What the settings or the directory say; a new one where none does."""
        refuse_foreign_logs(self._world.files, directories, self.settings.metadata_directory)
        known = self.settings.ottla_cluster_id or identity.cluster_id
        return known or uuid_to_text(random_uuid(self._world.random.randbytes))

    def _make_logs(
        self, cluster_id: str, broker_id: int, image: Callable[[], ClusterImage], *, meta_version: int
    ) -> LogManager:
        """The logs, not yet opened. `image` is read when the first log asks for its settings: by then its directory is
        locked. Recovery must know which topics are compacted, because only there a gap between offsets is no damage.
        """
        rules = ConfigRules(broker_id=broker_id, broker=self.settings, group=GroupLevelSettings)
        in_effect = TopicsInEffect(rules)

        def settings_of(topic: str) -> TopicSettings:
            return in_effect.of(image(), topic)

        logs = LogManager(
            self.settings.data_directories,
            files=self._world.files,
            default_settings=self.settings.topic_defaults(),
            settings_of=settings_of,
            cluster_id=cluster_id,
            broker_id=broker_id,
            producer_limits=ProducerLimits(
                id_expiration_ms=self.settings.producer_id_expiration_ms,
                verification_required=self.settings.transaction_partition_verification_enable,
            ),
            random_bytes=self._world.random.randbytes,
            meta_version=meta_version,
        )
        self._stack.callback(self._close_logs, logs)
        return logs

    def _load_logs(self, logs: LogManager, pool: Executor | None) -> None:
        """Take the locks of the directories if nobody has, and open every log with the settings of its topic."""
        began_ms = self._world.clock.monotonic_ms()
        opened = logs.open(self._world.clock.now_ms(), pool=pool)
        if summary := recovery_summary(opened, self._world.clock.monotonic_ms() - began_ms):
            log.info("%s", summary)

    def _close_logs(self, logs: LogManager) -> None:
        """With many syncs at a time, and a word now and then to who waits for it."""
        monotonic_ms = self._world.clock.monotonic_ms
        say_at_ms = monotonic_ms() + CLOSING_SAID_MS

        def closed(left: int) -> None:
            nonlocal say_at_ms
            if left and monotonic_ms() >= say_at_ms:
                log.info("closing the logs: %d partitions are left", left)
                say_at_ms = monotonic_ms() + CLOSING_SAID_MS

        with ExitStack() as stack:
            pool = self._world.make_pool(CLOSING_WORKERS) if self._world.workers else None
            if pool is not None:
                stack.callback(pool.shutdown, wait=True)
            is_clean = not self._has_crashed
            epoch = self.broker.link.epoch if hasattr(self, "broker") else NO_EPOCH
            logs.close(is_clean=is_clean, pool=pool, broker_epoch=epoch, closed=closed)

    def _make_dispatch(self) -> Dispatch:
        return Dispatch(self.broker, self._served, Gate(self.broker))

    async def _open_http(self) -> None:
        """Metrics, health, and what else is served over HTTP (http/)."""
        if not self.settings.has_http:
            return
        from ottla.broker.http.opening import make_door

        door = make_door(self, self._world, self._stack, is_ready=lambda: self._is_ready)
        self._stack.push_async_callback(door.stop)
        self.http_parts = tuple(await door.start())
        self.admin_address = door.admin_address

    # -- in a cluster ------------------------------------------------------------------------------------------------

    async def _open_shared_store(self, pool: Executor | None) -> SharedStore | None:
        if self._shared_store is None and not self.settings.is_alone:
            from ottla.broker.cluster import joining

            return await joining.open_shared_store(self.settings, pool)
        return self._shared_store

    async def _broker_id(self, identity: MetaProperties, shared: SharedStore | None, pool: Executor | None) -> int:
        """What the settings or the directories say; else a new one of the cluster's, or that of a broker alone."""
        wanted = self.settings.wanted_id if self.settings.wanted_id is not None else identity.node_id
        if wanted is not None or shared is None:
            return DEFAULT_BROKER_ID if wanted is None else wanted
        from ottla.broker.cluster import joining

        return await joining.next_broker_id(shared, self.settings, pool)

    async def _wait_until_free(self, store: SharedStore, broker_id: int, pool: Executor | None) -> ClientGate:
        """Wait until this broker's id is free, before any listener is open; returns the gate for clients."""
        from ottla.broker.cluster import joining
        from ottla.broker.cluster.client_gate import ClientGate

        await joining.wait_until_free(store, broker_id, self._world.clock, pool)
        gate = ClientGate(self._make_dispatch(), self._world.clock)
        self._stack.callback(gate.close)
        return gate

    def _link_maker(
        self, own: OwnStore | None, shared: SharedStore | None, pool: Executor | None
    ) -> Callable[[Broker], ClusterLink]:
        if own is not None:
            return lambda broker: AloneLink(broker, own, pool)
        assert shared is not None
        from ottla.broker.cluster import joining

        return lambda broker: joining.make_member(
            broker, shared, self.settings, self._world, pool, lambda: self.listeners.tls_to_brokers()
        )


# -- for the command line and for tests ------------------------------------------------------------------------------


async def serve(
    settings: BrokerSettings,
    *,
    ready: Callable[[ServerInfo], None],
    stop: asyncio.Event,
    world: World | None = None,
    first_users: Sequence[FirstUser] = (),
) -> None:
    """Run a broker until `stop` is set; raises when its last log directory failed, or a part ended that must live."""
    server = Server(settings, world, first_users=first_users)
    if (info := await _started(server, stop)) is None:
        return
    ready(info)
    waits = [asyncio.ensure_future(event.wait()) for event in (stop, server.failed)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        await server.stop()
    if server.failure is not None:
        raise server.failure


async def _started(server: Server, stop: asyncio.Event) -> ServerInfo | None:
    """Start it; None when it was to stop before it had: a member may wait long for its cluster."""
    starting, stopping = asyncio.ensure_future(server.start()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait([starting])
        return None if starting.cancelled() else starting.result()
    finally:
        starting.cancel()
        stopping.cancel()


@contextlib.asynccontextmanager
async def running(settings: BrokerSettings, world: World | None = None) -> AsyncIterator[Server]:
    """`async with running(settings) as server:` a broker for as long as the block lasts."""
    server = Server(settings, world)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
