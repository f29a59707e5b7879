"""The listeners of a broker, or of a controller: who may connect and how many, TLS, logins, and the addresses that
clients are sent to.

1. TLS reads its stores before a port is open, and again when its settings change. What logs clients in is loaded by the
   first listener that needs it.
2. Whatever is opened here is closed by the stack that was passed in, in the opposite order.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, TypedDict

from ottla.broker.broker import Broker
from ottla.broker.network.acceptor import Acceptor, ConnectionLimits
from ottla.broker.network.processor import Dispatcher
from ottla.broker.requests.served import frame_limit_bytes
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.endpoints import Endpoint, advertise
from ottla.broker.settings.listeners import parse_connection_overrides
from ottla.broker.world import World
from ottla.cluster import model
from ottla.metrics import Registry
from ottla.net.link import LinkSettings

if TYPE_CHECKING:
    from ottla.broker.security.listener_logins import LazyKeySets
    from ottla.broker.security.logins import ConnectionLogin
    from ottla.broker.security.tls_listeners import TlsListeners

DRAIN_LIMIT_MS: Final = 5_000
LISTEN_BACKLOG: Final = 1_024
LIMITS_BY_ADDRESS: Final = ("max.connections.per.ip", "max.connections.per.ip.overrides")


class Listeners:
    """All listeners of one broker, or those of the controller on its node."""

    def __init__(
        self,
        broker: Broker,
        settings: BrokerSettings,
        dispatcher: Dispatcher,
        world: World,
        stack: AsyncExitStack,
        *,
        registry: Registry,
        is_member: bool,
    ) -> None:
        """`settings` are those of the start: a listener keeps its address for as long as the broker runs."""
        self._broker = broker
        self._settings = settings
        of_controller = broker.link.is_controller
        self._endpoints = settings.controller_listeners if of_controller else settings.endpoints
        self._advertised = settings.advertised_endpoints
        self._hostname = socket.gethostname()
        if of_controller:  # where no address is advertised it is this machine's name, as in Kafka
            found = settings.controller_endpoints
            self._advertised = tuple(each._replace(host="") if each.is_any_interface else each for each in found)
            self._hostname = socket.getfqdn() if any(not each.host for each in self._advertised) else ""
        self._world = world
        self._stack = stack
        self._registry = registry
        self._key_sets: LazyKeySets | None = None
        self.acceptor = self._make_acceptor(dispatcher)
        stack.push_async_callback(self.acceptor.drain, DRAIN_LIMIT_MS)
        stack.callback(self.acceptor.close)
        self.tls = self._make_tls(is_member=is_member)

    def _make_acceptor(self, dispatcher: Dispatcher) -> Acceptor:
        settings = self._settings
        limits = ConnectionLimits(**_limits(self._broker.settings, self._endpoints))
        limit_names = [*LIMITS_BY_ADDRESS, *_of_each_listener(self._endpoints, "max.connections")]
        self._broker.dynamic.subscribe(limit_names, lambda _, new: limits.change(**_limits(new, self._endpoints)))
        rates = self._broker.connection_rates
        rates.change(self._broker.settings)
        rate_names = _of_each_listener(self._endpoints, "max.connection.creation.rate")
        self._broker.dynamic.subscribe(rate_names, lambda _, new: rates.change(new))
        link_settings = LinkSettings(
            frame_limit_bytes=settings.socket_request_max_bytes,
            kind_limit_bytes=frame_limit_bytes,
            send_buffer_bytes=_or_system(settings.socket_send_buffer_bytes),
            receive_buffer_bytes=_or_system(settings.socket_receive_buffer_bytes),
        )
        acceptor = Acceptor(
            self._world.transport,
            dispatcher,
            clock=self._world.clock,
            limits=limits,
            rates=rates,
            link_settings=link_settings,
            idle_ms=settings.connections_max_idle_ms,
            waiting_limit_bytes=settings.queued_max_request_bytes,
        )
        self._broker.quotas.notify = acceptor.forget_contexts
        self._broker.connections = lambda: acceptor.connections
        return acceptor

    async def open(self) -> tuple[model.Endpoint, ...]:
        """Open every port; returns the addresses that clients are sent to."""
        bound: list[Endpoint] = []
        for each in self._endpoints:
            port = await self.acceptor.listen(
                each.name,
                each.host,
                each.port,
                backlog=_backlog(self._settings),
                protocol=each.protocol,
                login=self._login_of(each),
                tls=None if self.tls is None else self.tls.get(each.name),
            )
            bound.append(each._replace(port=port))
        if self._key_sets is not None:
            await self._key_sets.first_read()
        advertised = advertise(self._advertised, bound, self._hostname)
        return tuple(model.Endpoint(each.name, each.host, each.port, each.protocol) for each in advertised)

    def _make_tls(self, *, is_member: bool) -> TlsListeners | None:
        """The listeners with TLS, which read their stores now; None when there are none, and nothing is loaded."""
        if not any(each.protocol.endswith("SSL") for each in self._endpoints):
            return None
        from ottla.broker.security.tls_listeners import TlsListeners

        made = TlsListeners(
            self._broker.dynamic, self._registry, self._world.clock, endpoints=self._endpoints, is_member=is_member
        )
        made.start()
        self._broker.settings_checks.append(made.check)
        self._stack.callback(made.stop)
        brokers = made.get(self._settings.inter_broker_listener.name)
        if brokers is not None:
            self._broker.peers.own_certificate = lambda: brokers.own_principal
        return made

    def tls_to_brokers(self) -> ssl.SSLContext | None:
        """What to speak with other brokers by; None is without TLS."""
        listener = None if self.tls is None else self.tls.get(self._settings.inter_broker_listener.name)
        return None if listener is None else listener.client_context

    def _login_of(self, endpoint: Endpoint) -> Callable[[Dispatcher], ConnectionLogin] | None:
        """How clients log in at a listener; None where they need not. Hashes are loaded only by who needs them."""
        if not endpoint.protocol.startswith("SASL"):
            return None
        from ottla.broker.security.listener_logins import LazyKeySets, make_logins

        if self._key_sets is None:
            self._key_sets = LazyKeySets(self._broker)
            self._stack.callback(self._key_sets.close)
        return make_logins(self._broker, endpoint.name, self._registry, self._key_sets.of).login


class _Limits(TypedDict):
    """The arguments of ConnectionLimits."""

    total: int
    per_address: int
    overrides: dict[str, int]
    listeners: dict[str, int]


def _of_each_listener(endpoints: Sequence[Endpoint], name: str) -> list[str]:
    """The keys of a setting: of the broker, and of each listener."""
    return [name, *(f"listener.name.{each.name.lower()}.{name}" for each in endpoints)]


def _limits(settings: BrokerSettings, endpoints: Sequence[Endpoint]) -> _Limits:
    return {
        "total": settings.max_connections,
        "per_address": settings.max_connections_per_ip,
        "overrides": parse_connection_overrides(settings.max_connections_per_ip_overrides),
        "listeners": {each.name: settings.for_listener(each.name).max_connections for each in endpoints},
    }


def _backlog(settings: BrokerSettings) -> int:
    """What was asked for. Otherwise more than Kafka's 50: there a thread does nothing but accept, here the loop accepts
    between two requests, and whoever finds the queue full is silent for the second that TCP waits before it tries
    again. The system has a limit of its own (net.core.somaxconn)."""
    wanted = settings.socket_listen_backlog_size
    return wanted if "socket.listen.backlog.size" in settings.configured_names() else max(wanted, LISTEN_BACKLOG)


def _or_system(size_bytes: int) -> int | None:
    """-1 leaves the size of a buffer to the system."""
    return None if size_bytes < 0 else size_bytes
