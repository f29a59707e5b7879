"""The numbers of a client's connections, under Java's names: producer-metrics, producer-node-metrics, and so on.

    network.measure(registry, "producer", client_id)          # or "consumer", "admin-client"

Counted per request and per change of a connection, on the loop. Java's numbers about its own selector (io-wait-time,
select-rate, ...) have no meaning here and are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from ottla.client.connections import COORDINATOR_IDS, WatchedConnection
from ottla.errors import AuthenticationFailed
from ottla.metrics import Registry, Stat, Window
from ottla.net.peer import State
from ottla.values import Node

ClientKind = Literal["producer", "consumer", "admin-client"]
_OPEN: Final = frozenset({State.NEGOTIATING, State.AUTHENTICATING, State.READY})
_RATE: Final[tuple[Stat, ...]] = ("rate", "total")
_PER_CLIENT: Final[tuple[tuple[str, str, tuple[Stat, ...]], ...]] = (
    ("connection-creation", "Connections opened.", _RATE),
    ("connection-close", "Connections that ended.", _RATE),
    ("successful-authentication", "Logins that succeeded.", _RATE),
    ("failed-authentication", "Logins that were refused.", _RATE),
)
_BOTH: Final[tuple[tuple[str, str, tuple[Stat, ...]], ...]] = (
    ("request", "Requests sent.", _RATE),
    ("response", "Answers received.", _RATE),
    ("outgoing-byte", "Bytes sent.", _RATE),
    ("incoming-byte", "Bytes received.", _RATE),
)
_LATENCY: Final[tuple[str, str, tuple[Stat, ...]]] = ("request-latency", "Milliseconds to an answer.", ("avg", "max"))


class _NodeNumbers:
    """The numbers of one node, and how many bytes of its connection were counted already."""

    def __init__(self, make: Callable[[str, str, tuple[Stat, ...]], Window]) -> None:
        self.requests, self.responses, self.outgoing, self.incoming = (make(*each) for each in _BOTH)
        self.latency = make(*_LATENCY)


class NetworkMetrics:
    """What one client counts of its network."""

    def __init__(self, registry: Registry, kind: ClientKind, client_id: str) -> None:
        self._registry = registry
        self._group = f"{kind}-metrics"
        self._node_group = f"{kind}-node-metrics"
        self._client_id = client_id
        self._created, self._closed, self._let_in, self._refused = (self._window(*each) for each in _PER_CLIENT)
        self._requests, self._responses, self._outgoing, self._incoming = (self._window(*each) for each in _BOTH)
        self._nodes: dict[int, _NodeNumbers] = {}
        self._counted: dict[WatchedConnection, tuple[int, int]] = {}

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """A number that somebody else knows."""
        self._registry.gauge(self._group, name, help_text, ["client-id"]).of(self._client_id).read = read

    def changed(self, connection: WatchedConnection, before: State, now_ms: float) -> None:
        """A connection has moved to another state."""
        after = connection.peer.state
        if after is State.NEGOTIATING:
            self._created.record(1, now_ms)
        if before in _OPEN and after not in _OPEN:
            self._closed.record(1, now_ms)
            self._count_bytes(connection, self._node(connection.node), now_ms)
            self._counted.pop(connection, None)
        if before is State.AUTHENTICATING and after is State.READY:
            self._let_in.record(1, now_ms)
        elif before is State.AUTHENTICATING and isinstance(connection.peer.failure, AuthenticationFailed):
            self._refused.record(1, now_ms)

    def sent(self, connection: WatchedConnection, now_ms: float) -> None:
        """A request leaves."""
        self._requests.record(1, now_ms)
        self._node(connection.node).requests.record(1, now_ms)

    def answered(self, connection: WatchedConnection, latency_ms: float, now_ms: float) -> None:
        """Its answer came."""
        numbers = self._node(connection.node)
        self._responses.record(1, now_ms)
        numbers.responses.record(1, now_ms)
        numbers.latency.record(latency_ms, now_ms)
        self._count_bytes(connection, numbers, now_ms)

    def _count_bytes(self, connection: WatchedConnection, numbers: _NodeNumbers, now_ms: float) -> None:
        out_before, in_before = self._counted.get(connection, (0, 0))
        bytes_out, bytes_in = connection.bytes_out - out_before, connection.bytes_in - in_before
        self._counted[connection] = (connection.bytes_out, connection.bytes_in)
        for window, count in (
            (self._outgoing, bytes_out),
            (numbers.outgoing, bytes_out),
            (self._incoming, bytes_in),
            (numbers.incoming, bytes_in),
        ):
            window.record(count, now_ms)

    def _window(self, name: str, help_text: str, stats: tuple[Stat, ...]) -> Window:
        return self._registry.window(self._group, name, help_text, ["client-id"], stats=stats).of(self._client_id)

    def _node(self, node: Node) -> _NodeNumbers:
        found = self._nodes.get(node.id)
        if found is None:
            found = self._nodes[node.id] = _NodeNumbers(self._maker(node))
        return found

    def _maker(self, node: Node) -> Callable[[str, str, tuple[Stat, ...]], Window]:
        name = f"node-coordinator-{COORDINATOR_IDS - node.id}" if node.id > COORDINATOR_IDS // 2 else f"node-{node.id}"

        def make(metric: str, help_text: str, stats: tuple[Stat, ...]) -> Window:
            family = self._registry.window(self._node_group, metric, help_text, ["client-id", "node-id"], stats=stats)
            return family.of(self._client_id, name)

        return make
