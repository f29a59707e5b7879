"""Makes a broker a member of a cluster: the parts that only a member has, put together. Loaded by nobody else.

The store is shared by all members: ZooKeeper (zookeeper.connect), or the simulation's model of it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.broker import Broker
from ottla.broker.cluster.controller_role import ControllerRole
from ottla.broker.cluster.earlier_session import wait_for_earlier_session
from ottla.broker.cluster.forwarding import Forwarder
from ottla.broker.cluster.inter_broker import Connections, InterBroker
from ottla.broker.cluster.membership import ClusterMember
from ottla.broker.cluster.on_pool import on_pool
from ottla.broker.security.own_login import own_login, own_principal
from ottla.broker.settings import BrokerSettings
from ottla.clock import Clock
from ottla.cluster import model
from ottla.cluster.controller.state import ControllerRules
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.interface import SharedStore
from ottla.net.link import LinkSettings
from ottla.storage.directory.unknown_logs import refuse_moved
from ottla.storage.files import DiskFiles

if TYPE_CHECKING:
    from ottla.broker.world import World

# Nearly all that comes by them are large answers.
FETCHER_LINK: Final = LinkSettings(waits_for_much=True)


async def open_shared_store(settings: BrokerSettings, pool: Executor | None) -> SharedStore:
    """The store that zookeeper.connect names."""
    from ottla.cluster.store.zookeeper import open_zookeeper_store

    refuse_moved(DiskFiles(), settings.data_directories)
    return await on_pool(pool, open_zookeeper_store, settings)


async def next_broker_id(store: SharedStore, settings: BrokerSettings, pool: Executor | None) -> int:
    """An id for a broker without one."""
    return await on_pool(pool, store.next_broker_id, settings.reserved_broker_max_id)


async def wait_until_free(store: SharedStore, broker_id: int, clock: Clock, pool: Executor | None) -> None:
    """Wait until no earlier session has the id of this broker."""

    async def holder_of(broker_id: int) -> str | None:
        return await on_pool(pool, store.holder_of, broker_id)

    await wait_for_earlier_session(broker_id, holder_of, store.session_timeout_ms, clock)


def make_member(
    broker: Broker,
    store: SharedStore,
    settings: BrokerSettings,
    world: World,
    pool: Executor | None,
    tls: Callable[[], ssl.SSLContext | None] = lambda: None,
) -> ClusterMember:
    """The member, not yet started. `tls` gives the context for connections to other brokers."""
    listener = settings.inter_broker_listener.name
    login = own_login(lambda: broker.settings, world.clock, world.random)
    broker.settings_checks.append(own_principal)  # a change with which this broker could not log in is refused

    def endpoint_of(broker_id: int) -> model.Endpoint | None:
        known = broker.image.brokers.get(broker_id)
        if known is None and role.is_active:
            # A controller knows a broker before its own view does: the view comes with its orders.
            known = store.load().brokers.get(broker_id)
        return None if known is None else known.endpoint(listener)

    def broker_connections(link_settings: LinkSettings | None = None) -> InterBroker:
        return InterBroker(
            broker.id,
            endpoint_of,
            transport=world.transport,
            clock=world.clock,
            random=world.random,
            link_settings=link_settings,
            login=login,
            tls=tls,
        )

    def fetchers_of(settings: BrokerSettings) -> list[InterBroker]:
        return [broker_connections(link_settings=FETCHER_LINK) for _ in range(settings.num_replica_fetchers)]

    connections = Connections(*(broker_connections() for _ in Connections._fields))
    connections.leaders.owns_login = True  # it is closed last
    role = ControllerRole(
        broker.id,
        store,
        partial(connections.orders.send, timeout_ms=settings.controller_socket_timeout_ms),
        rules=lambda: controller_rules(broker, listener),
        pool=pool,
        check_interval_s=lambda: _check_interval_s(broker.settings),
        clock=world.clock,
    )
    fetchers = fetchers_of(settings)
    forwarder = Forwarder(broker, connections.passed_on, limit_ms=settings.request_timeout_ms)
    member = ClusterMember(broker, store, connections, role, fetchers, forwarder, settings=settings, pool=pool)
    broker.member = member
    broker.dynamic.subscribe(
        ["num.replica.fetchers"],
        lambda _, new: member.replication.redistribute(fetchers_of(new)),
    )
    return member


def controller_rules(broker: Broker, listener: str) -> ControllerRules:
    """What the controller must know of the settings that hold now."""

    def settings_of(image: ClusterImage, topic: str) -> tuple[bool, int]:
        found = broker.topics_in_effect.of(image, topic)
        return found.unclean_leader_election_enable, found.min_insync_replicas

    return ControllerRules(
        inter_broker_listener=listener,
        deletion_enabled=broker.settings.delete_topic_enable,
        imbalance_percentage=broker.settings.leader_imbalance_per_broker_percentage,
        unclean_allowed=lambda image, topic: settings_of(image, topic)[0],
        min_insync_replicas=lambda image, topic: settings_of(image, topic)[1],
        started_uncleanly=lambda each: each.lost_memory,
    )


def _check_interval_s(settings: BrokerSettings) -> float | None:
    return float(settings.leader_imbalance_check_interval_seconds) if settings.auto_leader_rebalance_enable else None
