"""Where a node listens when its command does not say it: for clients, as a controller, for metrics.

1. Clients: --listen, or `listeners` of the settings; else the address by which this machine reaches the cluster, and
   the first port from 9092 on that is free. Port 0 is any free one, chosen here and kept.
2. The controller: --controller-listen, else the host of the first listener for clients and the next port that is free.
3. Metrics and the console: as always, unless another node of this machine has that port.

Whoever joins writes the choice down (node_file.py), so that a node has the same ports whenever it starts.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final

from ottla.cli.output import Failure
from ottla.light_dataclasses import dataclass

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings
    from ottla.broker.settings.endpoints import Endpoint, SecurityProtocol

FIRST_PORT: Final = 9092
TRIED_PORTS: Final = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Where one node is."""

    endpoints: tuple[Endpoint, ...]
    advertised_host: str
    controller: tuple[str, int]
    admin: str | None
    """Where metrics are; None leaves that to the settings."""
    nodes: tuple[str, int] | None = None
    """Where other brokers of a secured cluster are let in."""

    @property
    def client_address(self) -> str:
        return _address(self.advertised_host, self.endpoints[0].port)

    @property
    def controller_address(self) -> str:
        return _address(*self.controller)

    @property
    def nodes_address(self) -> str:
        assert self.nodes is not None, "of a secured node"
        return _address(*self.nodes)


def choose_place(
    settings: BrokerSettings, controller_listen: str | None, default_host: str, *, secure: bool = False
) -> Place:
    """See the module."""
    from ottla.broker.settings.endpoints import Endpoint, parse_address

    written = set(settings.configured_names())
    protocol: SecurityProtocol = "SASL_SSL" if secure else "PLAINTEXT"
    if "listeners" in written:
        endpoints = tuple(_with_port(each) for each in settings.endpoints)
    else:
        endpoints = (Endpoint(protocol, protocol, default_host, free_port(default_host, FIRST_PORT)),)
    for each in endpoints:
        if each.protocol != protocol:
            raise Failure(
                f"the listener {each} is not {protocol}, as all are of a cluster that begins with --new-cluster"
                f"{' --secure' if secure else ''}. For others make it as Kafka's are made: a file, kafka-storage "
                "format, `ottla broker start --config FILE` (docs/clusters.md)"
            )
    host = endpoints[0].host
    if "advertised.listeners" in written:
        host = settings.advertised_endpoints[0].host
    if controller_listen is not None:
        where, port = parse_address("--controller-listen", controller_listen)
        controller = where, port or free_port(where, 0)
    else:
        used = {each.port for each in endpoints}
        controller = host, free_port(host, endpoints[0].port + 1, used)
    nodes = (host, free_port(host, controller[1] + 1, {each.port for each in endpoints})) if secure else None
    return Place(endpoints, host, controller, None if "ottla.admin.listener" in written else _admin(settings), nodes)


def _with_port(endpoint: Endpoint) -> Endpoint:
    return endpoint if endpoint.port else endpoint._replace(port=free_port(endpoint.host, 0))


def _admin(settings: BrokerSettings) -> str | None:
    if (address := settings.admin_address) is None or not _is_in_use(*address):
        return None
    return _address(address[0], free_port(address[0], 0))


def free_port(host: str, first: int, but: frozenset[int] | set[int] = frozenset()) -> int:
    """The first port from there on that nobody has; any free one from 0 on."""
    if not first:
        with socket.create_server((host, 0), family=_family(host)) as server:
            return int(server.getsockname()[1])
    for port in range(first, min(first + TRIED_PORTS, 1 << 16)):
        if port not in but and not _is_in_use(host, port):
            return port
    raise Failure(f"no port of {host} from {first} on is free; say one with --listen and --controller-listen")


def _is_in_use(host: str, port: int) -> bool:
    """Whether somebody listens there. Whether this machine has such an address is said by who opens it."""
    if not port:
        return False
    try:
        socket.create_server((host, port), family=_family(host)).close()
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def own_address(host: str, port: int) -> str:
    """The address of this machine by which it reaches another; nothing is sent."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as sock:
            sock.connect(address)
            return str(sock.getsockname()[0])
    except OSError as error:
        raise Failure(
            f"nobody knows a way to {host}: {error.strerror or error}. Check the address after --join"
        ) from None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
