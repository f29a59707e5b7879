"""Connections of clients: how many, by which library, what they have sent and not been answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from ottla.broker.observe.metric_table import LOOP
from ottla.broker.observe.state.readings import Readings
from ottla.metrics import OTHER

SOFTWARE_LIMIT: Final = 100
NO_LIMIT: Final = 2**63 - 1
_SOCKETS: Final = "kafka_server_socket_server_metrics_"
_CHANNEL: Final = "kafka_network_requestchannel_"
_SERVER: Final = "kafka_network_socketserver_"


class ClientConnection(Protocol):
    """What is read of a connection."""

    @property
    def listener(self) -> str: ...
    @property
    def client_software(self) -> tuple[str, str]: ...
    @property
    def unbegun_count(self) -> int: ...
    @property
    def is_sending(self) -> bool: ...


class Network(Protocol):
    """What is read of the acceptor."""

    @property
    def connections(self) -> Sequence[ClientConnection]: ...
    @property
    def opened(self) -> Mapping[str, int]: ...
    @property
    def closed(self) -> Mapping[str, int]: ...
    @property
    def waiting_bytes(self) -> tuple[int, int]: ...


def read_network(network: Network, listeners: Collection[str], out: Readings) -> None:
    connections = network.connections
    open_now = Counter(each.listener for each in connections)
    for listener in listeners:
        out.put(f"{_SOCKETS}connection_count", open_now[listener], listener, LOOP)
        out.put(f"{_SOCKETS}connection_creation_total", network.opened.get(listener, 0), listener, LOOP)
        out.put(f"{_SOCKETS}connection_close_total", network.closed.get(listener, 0), listener, LOOP)
    _read_software(connections, out)
    out.put(f"{_CHANNEL}requestqueuesize", sum(each.unbegun_count for each in connections))
    out.put(f"{_CHANNEL}responsequeuesize", sum(each.is_sending for each in connections), LOOP)
    size_bytes, limit_bytes = network.waiting_bytes
    out.put(f"{_SERVER}memorypoolused", size_bytes)
    out.put(f"{_SERVER}memorypoolavailable", NO_LIMIT if limit_bytes <= 0 else max(0, limit_bytes - size_bytes))


def _read_software(connections: Sequence[ClientConnection], out: Readings) -> None:
    name = f"{_SOCKETS}connections_software"
    out.none(name)
    found = Counter((*each.client_software, each.listener) for each in connections)
    for labels, count in found.most_common(SOFTWARE_LIMIT):
        out.put(name, count, *labels, LOOP)
    rest = found.total() - sum(count for _, count in found.most_common(SOFTWARE_LIMIT))
    if rest:
        out.put(name, rest, OTHER, OTHER, OTHER, LOOP)
