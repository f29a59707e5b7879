"""Listeners as texts become endpoints: PLAINTEXT://127.0.0.1:9092, SECURE://[::1]:9093, CLIENTS://:9092.

1. An endpoint has a name, a protocol, a host and a port. The name may be a protocol's, or one that
   listener.security.protocol.map gives a protocol.
2. An empty host is every interface; port 0 is any free port. Neither can be advertised: a client cannot connect to
   them. What to advertise instead is known once the sockets are bound; `advertise` fills it in.
3. Names are unique, and so are ports, except that an IPv4 and an IPv6 listener may share one.
4. `is_loopback` is decided from the text, never by asking a name server: a name that is not localhost counts as
   reachable from elsewhere.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast, get_args

from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple

SecurityProtocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
PROTOCOLS: Final[tuple[str, ...]] = get_args(SecurityProtocol)

_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(.*?)/?")
_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:/\s]*))(?::([^:/\s]*))?")
_PORT_LIMIT: Final = 65_535
_FORM: Final = "write NAME://host:port, like PLAINTEXT://127.0.0.1:9092; an IPv6 address stands in brackets"


class Endpoint(NamedTuple):
    """One place to listen on, or to connect to."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int

    @property
    def address(self) -> str:
        """host:port, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def is_any_interface(self) -> bool:
        return is_any_interface(self.host)

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


@lru_cache(maxsize=64)  # asked for the same few names with every HTTP request
def is_loopback(host: str) -> bool:
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_any_interface(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def parse_address(key: str, text: str) -> tuple[str, int]:
    """host and port of "host:port"."""
    try:
        return _host_and_port(text.strip())
    except ValueError as problem:
        raise InvalidSetting(f"{key}={text!r}: {problem}; write host:port, like 127.0.0.1:9644") from None


def _host_and_port(text: str) -> tuple[str, int]:
    """ValueError says what is wrong with it."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError("this is no address")
    host, port = found[1] or found[2], found[3]
    if not port:
        # A number alone is mostly a port whose host was left out.
        raise ValueError("the host is missing" if host.isdecimal() else "the port is missing")
    if not port.isascii() or not port.isdecimal():
        raise ValueError(f"the port {port!r} is no number")
    if len(port) > 5 or int(port) > _PORT_LIMIT:
        raise ValueError(f"the port {port[:20]} is above {_PORT_LIMIT}, the highest there is")
    return host, int(port)


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """Listener names (in capitals) to protocols."""
    key = "listener.security.protocol.map"
    found: dict[str, SecurityProtocol] = {}
    for pair in (part.strip() for part in text.split(",") if part.strip()):
        name, _, protocol = (word.strip().upper() for word in pair.partition(":"))
        if not name or protocol not in PROTOCOLS:
            raise InvalidSetting(f"{key} has {pair!r}; write NAME:PROTOCOL, the protocol one of {', '.join(PROTOCOLS)}")
        if name in found:
            raise InvalidSetting(f"{key} names {name} twice; a listener has one protocol")
        found[name] = cast(SecurityProtocol, protocol)
    return found


def parse_listeners(key: str, texts: Sequence[str], protocols: Mapping[str, SecurityProtocol]) -> tuple[Endpoint, ...]:
    """The endpoints of `listeners` or `advertised.listeners`; `key` is which of them, for the errors."""
    endpoints = tuple(_parse_listener(key, text, protocols) for text in texts)
    if not endpoints:
        raise InvalidSetting(f"{key} is empty; {_FORM}")
    _refuse_same_names(key, endpoints)
    if key == "listeners":
        _refuse_same_ports(endpoints)
    else:
        _refuse_unreachable(key, endpoints)
    return endpoints


def _parse_listener(key: str, text: str, protocols: Mapping[str, SecurityProtocol]) -> Endpoint:
    found = _LISTENER.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError("the name before :// is missing")
        host, port = _host_and_port(found[2])
    except ValueError as problem:
        raise InvalidSetting(f"{key} has {text!r}: {problem}; {_FORM}") from None
    name = found[1].upper()
    if name not in protocols:
        raise InvalidSetting(
            f"{key} has {text!r}, but nothing says which protocol {name} speaks; "
            f"add {name}:PLAINTEXT (or SSL, SASL_SSL, SASL_PLAINTEXT) to listener.security.protocol.map"
        )
    return Endpoint(name, protocols[name], host, port)


def _refuse_same_names(key: str, endpoints: Iterable[Endpoint]) -> None:
    seen: dict[str, Endpoint] = {}
    for each in endpoints:
        if each.name in seen:
            raise InvalidSetting(
                f"{key} has {seen[each.name]} and {each}; a listener name may come once, so give one of them another "
                "name and a protocol in listener.security.protocol.map"
            )
        seen[each.name] = each


def _refuse_same_ports(endpoints: Sequence[Endpoint]) -> None:
    for number, each in enumerate(endpoints):
        for other in endpoints[:number]:
            if each.port and each.port == other.port and not _different_families(each.host, other.host):
                raise InvalidSetting(f"listeners has {other} and {each} with the same port; give each its own")


def _different_families(one: str, other: str) -> bool:
    try:
        return ipaddress.ip_address(one).version != ipaddress.ip_address(other).version
    except ValueError:
        return False


def _refuse_unreachable(key: str, endpoints: Iterable[Endpoint]) -> None:
    for each in endpoints:
        if each.host and each.is_any_interface:
            raise InvalidSetting(
                f"{key} has {each}; no client can connect to {each.host}: give an address or name that clients reach"
            )


def advertise(endpoints: Sequence[Endpoint], bound: Sequence[Endpoint], hostname: str) -> tuple[Endpoint, ...]:
    """What to tell clients: port 0 becomes the port that was bound, an empty host this machine's name."""
    ports = {each.name: each.port for each in bound}
    return tuple(
        each._replace(host=each.host or hostname, port=each.port or ports.get(each.name, 0)) for each in endpoints
    )


def parse_networks(name: str, texts: Iterable[str]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Networks, or single addresses."""
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise InvalidSetting(f"{name}: {error}; give addresses, or networks such as 10.1.0.0/16") from None
