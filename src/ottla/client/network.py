"""A client's way to all brokers: requests to nodes by their ids, and what is known of the cluster kept fresh.

1. `send` is one request to one node: its answer, or one error. It tries to connect at most once and fails at once while
   the node is backing off; nothing is sent twice behind the caller's back. Error codes inside answers are the caller's.
2. `ask_any` asks the least loaded node and goes on to the next while nodes cannot be reached, until its time is over.
   A request that may have been received is not repeated: then the error is raised.
3. One task keeps the metadata fresh. When no known broker can be reached, or nobody answered for long, it begins again
   with the bootstrap addresses (metadata.recovery.strategy). A lost connection is a reason to ask.
4. A broker that says "slow down" is not written to before the time it named is over.
5. `close` ends everything within its time; after it every call raises.

Lives on one event loop. Decisions are Metadata's, Peer's and node_choice.py's; this file acts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as random_module
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

from ottla.client.closed import ClientClosed
from ottla.client.connection_options import ConnectionOptions, connection_options
from ottla.client.connections import Connections, WatchedConnection, broker_name, within
from ottla.client.coordinators import Coordinators
from ottla.client.metadata import Metadata, bootstrap_nodes
from ottla.client.network_metrics import ClientKind, NetworkMetrics
from ottla.client.node_choice import least_loaded, why_nobody
from ottla.client.refreshing import MetadataKeeper
from ottla.client.settings import ClientSettings
from ottla.client.telemetry.push import MetricsPush
from ottla.client.throttling import client_waits
from ottla.clock import Clock, SystemClock
from ottla.errors import (
    BrokerNotAvailable,
    ConnectionClosed,
    NotConnected,
    OttlaError,
    RequestTimedOut,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from ottla.light_dataclasses import dataclass
from ottla.metrics import Registry
from ottla.net.connection import ApiVersionTable, Exchange
from ottla.net.link import Transport
from ottla.net.peer import State
from ottla.net.retries import Backoff, RandomSource
from ottla.net.transport import TcpTransport
from ottla.ordered_set import OrderedSet
from ottla.protocol.api import Api, WrittenRequest, api_of
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.schema import Message
from ottla.values import Address, Node

T = TypeVar("T")

log = logging.getLogger(__name__)

CLOSE_LEAST_MS: Final = 200.0
LOGIN_QUESTION_MS: Final = 2_000.0
UNUSED_TOPIC_MS: Final = 300_000  # for clients that do not declare metadata.max.idle.ms, Java's default of it
RELIABLE_EPOCHS_SINCE: Final = 9  # of Metadata: KAFKA-9212 was mended then


@dataclass(frozen=True, slots=True)
class VersionedRequest:
    """A request whose fields depend on the version: it is built when the node is known."""

    api: Api
    build: Callable[[int], Message]


class Ended(Protocol):
    """Who hears of the end of a request that was started."""

    def answered(self, response: Any) -> None:
        """The answer came; None when none was expected."""

    def failed(self, error: Exception) -> None:
        """There is no answer, and why."""


class NetworkObserver(Protocol):
    """Who wants to know of every connection's changes and of every wish to slow down; called on the loop."""

    def connection_changed(self, connection: WatchedConnection) -> None:
        """It is in another state now."""

    def throttled(self, connection: WatchedConnection, throttle_ms: float) -> None:
        """The broker named a time to wait."""


class NetworkClient:
    """All nodes of one cluster."""

    def __init__(
        self,
        metadata: Metadata,
        options: ConnectionOptions,
        *,
        bootstrap: list[Address],
        backoff: Backoff,
        request_timeout_ms: float,
        canonical_names: bool = False,
    ) -> None:
        self.metadata = metadata
        self.clock = options.clock
        self.backoff = backoff
        self.request_timeout_ms = request_timeout_ms
        self.random = options.random
        self._connections = Connections(options, on_change=self._connection_changed)
        self._coordinators = Coordinators(self)
        names = bootstrap if canonical_names else None
        self._keeper = MetadataKeeper(metadata, self._describe, options.clock, canonical_names=names)
        self._metrics: NetworkMetrics | None = None
        self._metrics_push: MetricsPush | None = None
        self.observer: NetworkObserver | None = None
        self._features: Mapping[str, int] = {}
        self._features_epoch = -1
        self._sleepers: OrderedSet[asyncio.Future[None]] = OrderedSet()
        self._closed = False

    @classmethod
    def from_settings(
        cls,
        settings: ClientSettings,
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: RandomSource | None = None,
    ) -> NetworkClient:
        """A network as the settings want it. What only some clients declare (max.in.flight.requests.per.connection,
        metadata.max.idle.ms, allow.auto.create.topics) is looked up by its name."""
        chance = random or random_module.Random()
        values = settings.as_dict()
        backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, chance)
        bootstrap = settings.bootstrap_addresses
        metadata = Metadata(
            bootstrap_nodes(bootstrap),
            backoff=backoff,
            max_age_ms=settings.metadata_max_age_ms,
            max_idle_ms=_number(values.get("metadata.max.idle.ms")) or UNUSED_TOPIC_MS,
            rebootstrap_trigger_ms=settings.metadata_recovery_rebootstrap_trigger_ms,
            rebootstrap_allowed=settings.metadata_recovery_strategy == "rebootstrap",
            auto_create=bool(values.get("allow.auto.create.topics", settings.topics_are_made_by_asking)),
        )
        return cls(
            metadata,
            connection_options(settings, transport or TcpTransport(), clock or SystemClock(), chance),
            bootstrap=bootstrap,
            backoff=backoff,
            request_timeout_ms=settings.request_timeout_ms,
            canonical_names=settings.client_dns_lookup == "resolve_canonical_bootstrap_servers_only",
        )

    # --- life ---

    async def start(self) -> None:
        """Start to keep the metadata fresh; does not wait for a broker."""
        if not self._closed:
            self._keeper.start()
            if self._metrics_push is not None:
                self._metrics_push.start()

    async def close(self, *, timeout_ms: float = 5_000) -> None:
        """End everything, within the time given; calling it twice does no harm."""
        if self._metrics_push is not None and not self._closed:
            await self._metrics_push.close(timeout_ms)
        self._closed = True
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)
        ending = asyncio.gather(self._keeper.close(), self._connections.close(), return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            # With no time at all nothing would even begin, and sockets would be left open.
            async with self.clock.timeout(max(CLOSE_LEAST_MS, timeout_ms)):
                await ending

    async def sleep(self, duration_ms: float) -> None:
        """Wait that long before trying again; ClientClosed as soon as the client is closed, so that close need not
        wait for whoever waits here."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.add(sleeper)
        try:
            await within(sleeper, self.clock, duration_ms)
        finally:
            self._sleepers.discard(sleeper)
        self._refuse_when_closed()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise ClientClosed()

    # --- looking ---

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized features of the cluster and their levels, as the newest ApiVersions answer told."""
        return self._features

    def versions_of(self, node: Node | int) -> ApiVersionTable | None:
        """What a node serves; None before we were connected to it."""
        found = self._connection_if_any(node)
        return None if found is None else found.peer.versions

    def can_send_now(self, node: Node | int) -> bool:
        """Whether a request would be written at once."""
        found = self._connection_if_any(node)
        return found is not None and found.peer.can_send_now and found.throttled_until_ms <= self.clock.monotonic_ms()

    def in_flight(self, node: Node | int) -> int:
        """Requests to a node that have no answer yet."""
        found = self._connection_if_any(node)
        return 0 if found is None else found.peer.load

    def is_unreachable(self, node: Node | int) -> bool:
        """Whether connecting just failed, and is not tried again yet."""
        found = self._connection_if_any(node)
        return found is not None and found.is_backing_off

    def throttled_for_ms(self, node: Node | int) -> float:
        """How long the node does not want to hear of us."""
        found = self._connection_if_any(node)
        return 0.0 if found is None else max(0.0, found.throttled_until_ms - self.clock.monotonic_ms())

    # --- measuring ---

    def measure(self, registry: Registry, kind: ClientKind, client_id: str) -> None:
        """Count connections, requests and bytes in this registry, under Java's names for this kind of client."""
        metrics = NetworkMetrics(registry, kind, client_id)
        metrics.gauge("connection-count", "Connections that are open now.", self._connections.open_count)
        metrics.gauge("metadata-age", "Seconds since the cluster was last described.", self._metadata_age_s)
        self._metrics = metrics

    def push_metrics(self, registry: Registry, settings: ClientSettings) -> None:
        """Let brokers that ask for it have the numbers of this registry, from `start` on (telemetry/)."""
        if settings.enable_metrics_push:
            self._metrics_push = MetricsPush(self, registry, settings)

    def _metadata_age_s(self) -> float:
        return self.metadata.age_ms(self.clock.monotonic_ms()) / 1000

    def _measure_sent(self, connection: WatchedConnection) -> float:
        if self._metrics is None:
            return 0.0
        now_ms = self.clock.monotonic_ms()
        self._metrics.sent(connection, now_ms)
        return now_ms

    def _measure_answered(self, connection: WatchedConnection, began_ms: float) -> None:
        if self._metrics is not None:
            now_ms = self.clock.monotonic_ms()
            self._metrics.answered(connection, now_ms - began_ms, now_ms)

    # --- asking ---

    async def ready(
        self, node: Node | int, *, timeout_ms: float | None = None, is_patient: bool = True
    ) -> ApiVersionTable:
        """Wait until a node can be sent to, trying again after failures that may pass; raises the last failure.
        Who could turn to another node is not patient: the first failure is raised."""
        connection = self._connections.of(self._resolved(node))
        deadline_ms = self._deadline_ms(timeout_ms)
        while True:
            try:
                await connection.attempt(deadline_ms - self.clock.monotonic_ms())
                assert connection.peer.versions is not None, "READY comes after negotiation"
                return connection.peer.versions
            except OttlaError as error:
                is_over = not is_patient or self.clock.monotonic_ms() >= deadline_ms or self._has_moved(connection.node)
                if error.invalid_configuration or is_over or not await connection.change(deadline_ms):
                    raise self._connections.explained(connection, error) from error
                self._refuse_when_closed()

    async def send(
        self,
        node: Node | int,
        request: Message | VersionedRequest,
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float | None = None,
        expects_response: bool = True,
    ) -> Any:
        """The answer of one node; None when none is expected."""
        connection = self._connections.of(self._resolved(node))
        limit_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            if not connection.is_ready or connection.throttled_until_ms > self.clock.monotonic_ms():
                limit_ms = await self._made_ready(connection, limit_ms)
            if isinstance(request, VersionedRequest):
                version = self._version_for(connection, request.api, version, at_most)
                request = request.build(version)
            began_ms = self._measure_sent(connection)
            response = await connection.send(
                request, version=version, at_most=at_most, timeout_ms=limit_ms, expects_response=expects_response
            )
        except (NotConnected, ConnectionClosed) as error:
            if isinstance(error, ConnectionClosed):
                await self._refuse_without_login(connection)
            raise self._connections.explained(connection, error) from error
        if response is not None:
            self._was_answered(connection, api_of(request), response, began_ms, version, at_most)
        return response

    async def _refuse_without_login(self, connection: WatchedConnection) -> None:
        """A bootstrap server hung up on the first request: AuthenticationFailed when it says, asked about logins, that
        it has some. One that has none answers that the question is out of place, one that is stopping says nothing."""
        if not connection.node.is_bootstrap or not self._connections.may_want_login(connection):
            return
        from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

        question = SaslHandshakeRequest(mechanism="")
        try:
            answer = await connection.send(question, version=1, timeout_ms=LOGIN_QUESTION_MS)
        except OttlaError:
            return
        if answer.error_code == UnsupportedSaslMechanism.code:
            raise self._connections.wants_login(connection, answer.mechanisms)

    def version_now(self, node: Node, api: Api, at_most: int | None = None) -> int | None:
        """The version in which a node can be asked at once; None when it cannot."""
        connection = self._connection_if_any(node)
        return None if connection is None else connection.version_of(api, at_most)

    def connection_to(self, node: Node) -> WatchedConnection:
        """The connection to a node for `start_exchanges`, made if there is none."""
        if self._closed:
            raise ClientClosed()
        return self._connections.of(node)

    def start_exchanges(
        self, connection: WatchedConnection, exchanges: Sequence[Exchange], now_ms: float, timeout_ms: float
    ) -> int:
        """Write requests that hear of their own end and call `exchange_answered` or `explained` then; how many of them,
        from the first on. For the others something has to be decided first: nothing was done, and `start_request` is
        the right call."""
        count = connection.start_exchanges(exchanges, now_ms, timeout_ms)
        if self._metrics is not None:
            for _ in range(count):
                self._metrics.sent(connection, now_ms)
        return count

    def exchange_answered(
        self, connection: WatchedConnection, exchange: Exchange, response: Any, began_ms: float
    ) -> None:
        """Mind what every answer says, whatever it is about."""
        connection.was_answered = True
        if self._metrics is not None:
            self._measure_answered(connection, began_ms)
        if response.throttle_time_ms > 0:
            self._mind_throttle(connection, exchange.api, response.throttle_time_ms, exchange.version, None)

    def start_request(
        self,
        node: Node,
        request: WrittenRequest,
        ended: Ended,
        *,
        version: int,
        timeout_ms: float,
        expects_response: bool = True,
    ) -> None:
        """`send` without waiting, for who sends often and knows the version from `version_now`: `ended` is told of the
        answer or of the failure, once, on the loop, perhaps before this returns. It must not raise."""
        connection = self._connections.of(self._resolved(node))
        began_ms = self._measure_sent(connection)
        answer = _Started(self, connection, request.api, version, began_ms, ended)
        connection.start_request(
            request, answer, version=version, timeout_ms=timeout_ms, expects_response=expects_response
        )

    def _was_answered(
        self,
        connection: WatchedConnection,
        api: Api,
        response: Any,
        began_ms: float,
        version: int | None,
        at_most: int | None,
    ) -> None:
        connection.was_answered = True
        self._measure_answered(connection, began_ms)
        if getattr(response, "throttle_time_ms", 0) > 0:
            self._mind_throttle(connection, api, response.throttle_time_ms, version, at_most)

    def explained(self, connection: WatchedConnection, error: Exception) -> Exception:
        """The same error with who it is about."""
        if isinstance(error, NotConnected | ConnectionClosed):
            return self._connections.explained(connection, error)
        return error

    async def ask_any(
        self,
        request: Message | VersionedRequest,
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float | None = None,
    ) -> Any:
        """The answer of whichever node can be reached, the least loaded first; bootstrap nodes included."""
        deadline_ms = self._deadline_ms(timeout_ms)
        tried: dict[int, OttlaError] = {}
        for attempt in range(2**31):
            while (node := self._least_loaded(tried)) is not None:
                try:
                    left_ms = deadline_ms - self.clock.monotonic_ms()
                    return await self.send(node, request, version=version, at_most=at_most, timeout_ms=left_ms)
                except ClientClosed:
                    raise
                except NotConnected as error:
                    tried[node.id] = error
            if not self._go_back_to_bootstrap():
                await self._pause(attempt, deadline_ms, tried)
            tried.clear()
        raise AssertionError("time is over long before")

    async def ask_controller(
        self,
        request: Message | VersionedRequest,
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float | None = None,
    ) -> Any:
        """The answer of the controller, or of the broker that stands for it; it is looked for until time is over."""
        deadline_ms = self._deadline_ms(timeout_ms)
        for attempt in range(2**31):
            left_ms = deadline_ms - self.clock.monotonic_ms()
            node = await self.wait_for(lambda known: known.controller, timeout_ms=left_ms, what="the controller")
            try:
                left_ms = deadline_ms - self.clock.monotonic_ms()
                return await self.send(node, request, version=version, at_most=at_most, timeout_ms=left_ms)
            except ClientClosed:
                raise
            except NotConnected as error:
                self._keeper.ask_soon()
                await self._pause(attempt, deadline_ms, {node.id: error})
        raise AssertionError("time is over long before")

    async def coordinator(
        self, kind: Literal["group", "transaction"], key: str, *, timeout_ms: float | None = None
    ) -> Node:
        """The broker that looks after a group or a transactional id; remembered until `coordinator_gone`."""
        return await self._coordinators.find(kind, key, deadline_ms=self._deadline_ms(timeout_ms))

    def coordinator_gone(self, kind: Literal["group", "transaction"], key: str) -> None:
        """It is not the coordinator any more, or cannot be reached: look for it again."""
        self._coordinators.forget(kind, key)

    # --- metadata ---

    def wake(self) -> None:
        """Look again at what is due: something is wanted that was not. To be called on the loop."""
        self._keeper.wake()

    def on_update(self, call: Callable[[], None]) -> None:
        """Call this on the loop after every change of the metadata, and after every failed try."""
        self._keeper.on_update(call)

    async def refresh_metadata(self, *, timeout_ms: float | None = None) -> None:
        """One refresh that begins after this call; raises why it failed."""
        await self._keeper.refresh_now(self._limit_ms(timeout_ms))

    async def wait_for(
        self, condition: Callable[[Metadata], T | None], *, timeout_ms: float | None = None, what: str
    ) -> T:
        """What `condition` finds in the metadata, which is refreshed until it finds something. RequestTimedOut says
        `what` was waited for and why it did not come; failures that waiting cannot mend are raised at once."""
        return await self._keeper.wait_for(condition, timeout_ms=self._limit_ms(timeout_ms), what=what)

    async def _describe(self, request: Message) -> None:
        """One pass over the nodes, and over the bootstrap nodes when all others are gone."""
        tried: dict[int, OttlaError] = {}
        while True:
            node = self._least_loaded(tried)
            if node is None:
                if not self._go_back_to_bootstrap():
                    raise self._nobody(tried)
                tried.clear()
                continue
            try:
                self._described(node, await self.send(node, request))
                return
            except ClientClosed:
                raise
            except NotConnected as error:
                tried[node.id] = error

    def _described(self, node: Node, response: MetadataResponse) -> None:
        versions = self.versions_of(node)
        version = 0 if versions is None else versions.choose(api_of(response))
        if self.metadata.is_bootstrapping:
            self._connections.advertised_by = broker_name(node)
        self.metadata.update(response, self.clock.monotonic_ms(), reliable_epochs=version >= RELIABLE_EPOCHS_SINCE)

    def _go_back_to_bootstrap(self) -> bool:
        if self.metadata.rebootstrap(self.clock.monotonic_ms()):
            log.info("no known broker can be reached; beginning again with bootstrap.servers")
            return True
        return False

    # --- nodes ---

    def _resolved(self, node: Node | int) -> Node:
        self._refuse_when_closed()
        if isinstance(node, Node):
            return node
        found = self.metadata.node(node)
        if found is None:
            connection = self._connections.get(node)
            if connection is None:
                raise BrokerNotAvailable(f"no broker with id {node} is known")
            return connection.node
        return found

    def _has_moved(self, node: Node) -> bool:
        """A broker that came back elsewhere: nobody will ever answer at the address it had."""
        known = self.metadata.node(node.id)
        return known is not None and known.address != node.address

    def _connection_if_any(self, node: Node | int) -> WatchedConnection | None:
        return self._connections.get(node.id if isinstance(node, Node) else node)

    def _least_loaded(self, tried: Mapping[int, OttlaError]) -> Node | None:
        return least_loaded(self.metadata.nodes_to_ask(), self._connections, tried, self.random)

    def _nobody(self, tried: Mapping[int, OttlaError]) -> OttlaError:
        return why_nobody(self.metadata.nodes_to_ask(), self._connections, tried)

    def _connection_changed(self, connection: WatchedConnection, before: State) -> None:
        if self._metrics is not None:
            self._metrics.changed(connection, before, self.clock.monotonic_ms())
        if self.observer is not None:
            self.observer.connection_changed(connection)
        versions = connection.peer.versions
        if connection.is_ready and versions is not None:
            if versions.finalized_features_epoch >= self._features_epoch:
                self._features_epoch = versions.finalized_features_epoch
                self._features = versions.finalized_features
        elif connection.is_backing_off and not self._closed and not connection.node.is_bootstrap:
            self._keeper.ask_soon()

    async def _made_ready(self, connection: WatchedConnection, timeout_ms: float) -> float:
        """Connect once if need be and wait out a throttle; returns the time that is left."""
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        await connection.attempt(timeout_ms)
        wait_ms = connection.throttled_until_ms - self.clock.monotonic_ms()
        left_ms = deadline_ms - self.clock.monotonic_ms()
        if wait_ms >= left_ms:
            raise RequestTimedOut(f"{broker_name(connection.node)} wants no request for {wait_ms:.0f} ms (its quota)")
        if wait_ms > 0:
            await self.sleep(wait_ms)
        return deadline_ms - self.clock.monotonic_ms()

    def _mind_throttle(
        self, connection: WatchedConnection, api: Api, throttle_ms: float, version: int | None, at_most: int | None
    ) -> None:
        if self.observer is not None:
            self.observer.throttled(connection, throttle_ms)
        if client_waits(api, connection.peer.versions, version, at_most):
            until_ms = self.clock.monotonic_ms() + throttle_ms
            connection.throttled_until_ms = max(connection.throttled_until_ms, until_ms)

    @staticmethod
    def _version_for(connection: WatchedConnection, api: Api, version: int | None, at_most: int | None) -> int:
        if version is not None:
            return version
        if connection.peer.versions is None:
            raise UnsupportedVersion(f"{broker_name(connection.node)} did not say what it serves")
        return connection.peer.versions.choose(api, at_most=at_most)

    # --- time and words ---

    def _limit_ms(self, timeout_ms: float | None) -> float:
        return self.request_timeout_ms if timeout_ms is None else timeout_ms

    def _deadline_ms(self, timeout_ms: float | None) -> float:
        return self.clock.monotonic_ms() + self._limit_ms(timeout_ms)

    async def _pause(self, attempt: int, deadline_ms: float, tried: Mapping[int, OttlaError]) -> None:
        wait_ms = self.backoff.delay_ms(attempt)
        if self.clock.monotonic_ms() + wait_ms >= deadline_ms:
            raise self._nobody(tried)
        await self.sleep(wait_ms)


class _Started:
    """Stands where a future would, for a request that nobody awaits."""

    __slots__ = ("_api", "_began_ms", "_connection", "_ended", "_network", "_version")

    def __init__(
        self,
        network: NetworkClient,
        connection: WatchedConnection,
        api: Api,
        version: int,
        began_ms: float,
        ended: Ended,
    ) -> None:
        self._network = network
        self._connection = connection
        self._api = api
        self._version = version
        self._began_ms = began_ms
        self._ended = ended

    def done(self) -> bool:
        return False

    def set_result(self, response: Any) -> None:
        if response is not None:
            self._network._was_answered(self._connection, self._api, response, self._began_ms, self._version, None)
        self._ended.answered(response)

    def set_exception(self, error: Exception) -> None:
        self._ended.failed(self._network.explained(self._connection, error))


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None
