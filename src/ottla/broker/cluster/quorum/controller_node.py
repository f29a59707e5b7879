"""The controller of a node: its listeners, its vote, and the decisions while it leads the metadata log.

    node = ControllerNode(node_id, settings, world, cluster_id=..., pool=..., ended=...)
    endpoints = await node.open()                     # the ports; who connects is answered when it is started
    await node.start(following, connections, home)    # Raft runs, the log is followed
    await node.stop()                                 # another one leads, or nobody can

1. Raft says who leads. When this node does, its epoch has a committed record, and the image has everything before, the
   controller is activated with that image; when it does not any more, the controller hears it at once.
2. Who is not the active controller follows the log as brokers do, so that it can take over without reading anything,
   and tells the active one where it is (ControllerRegistration), until the image says so.
3. Administrators' requests are handled by the same handlers as a broker's, on a `Broker` without logs (link.py): with
   rights, quotas and settings of this node.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from functools import cache, partial
from pathlib import Path
from typing import Final, cast

from ottla.broker.broker import Broker
from ottla.broker.cluster.kraft.controllers import ControllerConnections
from ottla.broker.cluster.kraft.joining import SECURITY_PROTOCOLS
from ottla.broker.cluster.kraft.log_following import LogFollowing
from ottla.broker.cluster.kraft.own_store import first_changes
from ottla.broker.cluster.policies import NO_POLICIES, Policies
from ottla.broker.cluster.quorum.link import ControllerLink
from ottla.broker.cluster.quorum.quorum_controller import Periods, QuorumController
from ottla.broker.listeners import Listeners
from ottla.broker.replication.manager import Logs
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.gate import Gate
from ottla.broker.requests.served import CONTROLLER_APIS
from ottla.broker.security.first_users import FirstUser, changes_for
from ottla.broker.settings import BrokerSettings
from ottla.broker.world import World
from ottla.cluster import model
from ottla.cluster.config_layers import TopicsInEffect
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import METADATA_VERSION
from ottla.cluster.plan import Plan
from ottla.cluster.quorum_controller.registrations import CONTROLLERS_REGISTER_SINCE
from ottla.cluster.quorum_controller.rules import ControllerRules
from ottla.cluster.raft.leading import Leadership
from ottla.errors import OttlaError
from ottla.light_dataclasses import replace
from ottla.metrics import Registry
from ottla.net.probe import nothing_listens
from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.storage.directory.directories import CheckpointJob, LogDirectory
from ottla.storage.directory.open_files import OpenFiles
from ottla.storage.log.partition_log import PartitionLog
from ottla.values import TopicPartition, random_uuid

log = logging.getLogger(__name__)

REGISTER_AGAIN_MS: Final = 500.0
STOPPING_STEP_MS: Final = 50.0
SURE_AFTER_MS: Final = 300.0
"""Nodes that are stopped together hear of it one after the other; what they tell each other takes a moment."""
LOOK_LIMIT_MS: Final = 1_000.0
RESIGN_LIMIT_MS: Final = 5_000.0
"""So long a node that stops waits for another one to lead, as Kafka's does."""


class ControllerNode:
    """See the module. Belongs to the loop of its node."""

    def __init__(
        self,
        node_id: int,
        settings: BrokerSettings,
        world: World,
        *,
        cluster_id: str,
        pool: Executor | None,
        ended: Callable[[OttlaError], None],
        registry: Registry | None = None,
        policies: Policies = NO_POLICIES,
        first_users: Sequence[FirstUser] = (),
    ) -> None:
        """`registry` gets its metrics; on a node that is a broker, too, it has one of its own. `first_users` are there
        before anybody can log in."""
        self.registry = registry or Registry()
        self._settings = settings
        self._world = world
        self._pool = pool
        self._first_users = first_users
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._progressed = asyncio.Event()
        self.endpoints: tuple[model.Endpoint, ...] = ()
        self.following: LogFollowing
        self.controller: QuorumController
        self.broker = Broker(
            node_id,
            settings,
            clock=world.clock,
            image=ClusterImage(cluster_id, change_number=-1),
            make_link=ControllerLink,
            logs=cast(Logs, NoLogs()),
            pool=pool,
            random=world.random,
            registry=self.registry,
            served_apis=CONTROLLER_APIS,
            policies=policies,
            part_ended=ended,
        )
        self.broker.config_rules = replace(self.broker.config_rules, is_controller=True)
        self._in_effect = TopicsInEffect(self.broker.config_rules)
        link = self.broker.link
        assert isinstance(link, ControllerLink), "it was given"
        self._link = link
        self.listeners = Listeners(
            self.broker,
            settings,
            Dispatch(self.broker, CONTROLLER_APIS, Gate(self.broker)),
            world,
            self._stack,
            registry=self.registry,
            is_member=False,
        )

    # --- coming and going ---------------------------------------------------------------------------------------------

    async def open(self) -> tuple[model.Endpoint, ...]:
        """Open the ports; returns where others reach this controller."""
        self.endpoints = await self.listeners.open()
        return self.endpoints

    async def start(self, following: LogFollowing, connections: ControllerConnections, home: LogDirectory) -> None:
        """Vote, lead when elected, and answer. `home` is the directory of the log."""
        self.following = self._link.following = following
        self._connections = self._link.connections = connections
        settings = self._settings
        first = cache(partial(first_changes, self._world.files, home.path, settings))
        if not following.quorum.raft.log.end_offset:
            first()  # a file that cannot be read is told before anybody votes
        self.controller = self._link.controller = QuorumController(
            model.ControllerNode(
                self.broker.id, random_uuid(self._world.random.randbytes), self.endpoints, self._world.features
            ),
            clock=self._world.clock,
            pool=self._pool,
            random_bytes=self._world.random.randbytes,
            rules=self._rules,
            periods=self._periods,
            first=first,
            default_min_insync=settings.topic_defaults().min_insync_replicas,
            has_ended=self._has_ended,
            show=self._link.show,
        )
        following.applied.append(lambda offset: self._progressed.set())
        following.start()
        await following.show_to(self._link.follow)
        create = asyncio.get_running_loop().create_task
        self._tasks = [
            create(self._follow_leadership(), name="controller"),
            create(self._register(), name="registration of the controller"),
        ]
        self.listeners.acceptor.release()

    async def stop(self) -> None:
        """Lead no more; wait a while until somebody else does. Raft itself is stopped by who started it. Where a whole
        cluster stops, every controller stays until the brokers have handed over what they lead, and nobody waits for
        a successor that nobody needs."""
        if hasattr(self, "following"):
            loop, clock = self.following.quorum, self._world.clock
            now_ms = clock.monotonic_ms()
            sure_ms, end_ms = now_ms + SURE_AFTER_MS, now_ms + RESIGN_LIMIT_MS
            while clock.monotonic_ms() < (end_ms if self._brokers(is_stopping=True) else sure_ms):
                if not self._brokers(is_stopping=True) and not self._brokers(is_stopping=False):
                    break
                await loop.changed(STOPPING_STEP_MS)
            await clock.sleep(STOPPING_STEP_MS)  # the last ones are still being answered
            await loop.resign(RESIGN_LIMIT_MS if self._brokers(is_stopping=False) else 0)
        await self.abandon()

    def _brokers(self, *, is_stopping: bool) -> bool:
        """Whether there are brokers that live, and stop or do not."""
        others = (each for each in self.broker.image.brokers.values() if not each.fenced)
        return any(each.in_controlled_shutdown is is_stopping for each in others)

    async def abandon(self) -> None:
        """End without a word to the other voters; doing so again does nothing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "controller"):
            await self.controller.close()
            await self.following.hide_from(self._link.follow)
        self.broker.stop()
        await self._stack.aclose()

    # --- who leads ----------------------------------------------------------------------------------------------------

    async def _follow_leadership(self) -> None:
        loop, raft = self.following.quorum, self.following.quorum.raft
        while True:
            self._progressed.clear()
            led = raft.leadership
            if self.controller.is_active and (led is None or raft.epoch != self.controller.epoch):
                self.controller.resigned()
            if led is not None and led.is_established and not self.controller.is_active and self._has_read(led):
                self._activate()
            moved = asyncio.ensure_future(loop.changed())
            read = asyncio.ensure_future(self._progressed.wait())
            try:
                await asyncio.wait((moved, read), return_when=asyncio.FIRST_COMPLETED)
            finally:
                moved.cancel()
                read.cancel()

    def _has_read(self, led: Leadership) -> bool:
        """Whether the image has everything that was before this leadership."""
        return self.following.loader.end_offset > led.epoch_start

    def _activate(self) -> None:
        loader = self.following.loader
        self.controller.activate(self.following.quorum.led(), loader.image, open_transaction=loader.in_transaction)
        if self._first_users:
            self.broker.background.start(self._keep_users())

    async def _keep_users(self) -> None:
        await self.controller.change(
            lambda image: Plan(changes_for(image, self._first_users, os.urandom), [])  # salts are nobody's to foresee
        )

    # --- what the others know of it -----------------------------------------------------------------------------------

    async def _register(self) -> None:
        """Tell the active controller who this is, until the image says so; the active one knows itself."""
        me = self.controller.me
        request = ControllerRegistrationRequest(
            controller_id=me.id,
            incarnation_id=me.incarnation_id,
            zk_migration_ready=False,
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
                Feature(name=each.name, min_supported_version=each.min_level, max_supported_version=each.max_level)
                for each in me.features
            ],
        )
        while not self._is_registered:
            if not self.controller.is_active and self._can_register:
                try:
                    response = await self._connections.questions.ask(
                        request, self._settings.controller_socket_timeout_ms
                    )
                    assert isinstance(response, ControllerRegistrationResponse)
                    if response.error_code:
                        log.info("the active controller has not registered this one: error %d", response.error_code)
                except OttlaError as error:
                    log.debug("this controller is registered later: %s", error)
            await self._world.clock.sleep(REGISTER_AGAIN_MS)

    @property
    def _is_registered(self) -> bool:
        known: model.ControllerNode | None = self.following.image.controllers.get(self.controller.me.id)
        return known == self.controller.me

    @property
    def _can_register(self) -> bool:
        level: int = self.following.image.feature(METADATA_VERSION)
        return level >= CONTROLLERS_REGISTER_SINCE

    async def _has_ended(self, endpoints: Sequence[model.Endpoint]) -> bool:
        """Whether the process of a broker with these endpoints is gone: its machine says so for each of them."""
        for endpoint in endpoints:
            if not await nothing_listens(
                self._world.transport, self._world.clock, endpoint.host, endpoint.port, limit_ms=LOOK_LIMIT_MS
            ):
                return False
        return bool(endpoints)

    # --- settings -----------------------------------------------------------------------------------------------------

    def _rules(self) -> ControllerRules:
        in_effect, settings = self._in_effect, self.broker.settings
        return ControllerRules(
            unclean_allowed=lambda image, topic: in_effect.of(image, topic).unclean_leader_election_enable,
            min_insync_replicas=lambda image, topic: in_effect.of(image, topic).min_insync_replicas,
            imbalance_percentage=settings.leader_imbalance_per_broker_percentage,
            session_timeout_ms=settings.broker_session_timeout_ms,
        )

    def _periods(self) -> Periods:
        settings = self.broker.settings
        balance_ms = settings.leader_imbalance_check_interval_seconds * 1_000
        return Periods(
            balance_ms=balance_ms if settings.auto_leader_rebalance_enable else None,
            tokens_ms=settings.delegation_token_expiry_check_interval_ms if self.broker.tokens.rules else None,
            idle_ms=settings.metadata_max_idle_interval_ms or None,
        )


class NoLogs:
    """The logs of a controller: the metadata log is Raft's, and it has no others. What makes or moves logs is missing:
    nobody can ask a controller for it."""

    directories: Sequence[LogDirectory] = ()
    cordoned: tuple[Path, ...] = ()
    open_files = OpenFiles(None)

    def log(self, name: TopicPartition) -> PartitionLog | None:
        return None

    def logs(self) -> list[PartitionLog]:
        return []

    def directory_of(self, name: TopicPartition) -> LogDirectory | None:
        return None

    def checkpoint_jobs(self, tables: object) -> list[CheckpointJob]:
        return []

    def futures(self) -> list[TopicPartition]:
        return []
