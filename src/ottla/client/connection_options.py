"""What all connections of a client have in common, read from its settings."""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla import __version__
from ottla.client.security import security_of
from ottla.client.settings import ClientSettings
from ottla.clock import Clock
from ottla.net.handshake import Authenticator
from ottla.net.peer import PeerSettings, RandomSource
from ottla.net.transport import LinkSettings, Transport
from ottla.values import Node

ANSWER_LIMIT_BYTES: Final = 1 << 30
IN_FLIGHT_LIMIT: Final = 100  # for clients that declare no limit of their own, as Java's consumer


@dataclass(frozen=True)
class ConnectionOptions:
    """What all connections of a client have in common."""

    transport: Transport
    clock: Clock
    random: RandomSource
    peer: PeerSettings
    link: LinkSettings
    tls: ssl.SSLContext | None
    authenticator: Callable[[Node], Callable[[], Authenticator]] | None
    security_protocol: str


def connection_options(
    settings: ClientSettings, transport: Transport, clock: Clock, random: RandomSource
) -> ConnectionOptions:
    """What the settings say about every connection."""
    idle_ms = settings.connections_max_idle_ms
    in_flight = settings.as_dict().get("max.in.flight.requests.per.connection")
    security = security_of(settings)
    return ConnectionOptions(
        transport=transport,
        clock=clock,
        random=random,
        peer=PeerSettings(
            client_id=settings.client_id or None,
            software_version=__version__,
            in_flight_limit=in_flight if isinstance(in_flight, int) else IN_FLIGHT_LIMIT,
            reconnect_backoff_ms=settings.reconnect_backoff_ms,
            reconnect_backoff_max_ms=max(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms),
            setup_timeout_ms=settings.socket_connection_setup_timeout_ms,
            setup_timeout_max_ms=settings.socket_connection_setup_timeout_max_ms,
            idle_limit_ms=math.inf if idle_ms < 0 else idle_ms,
        ),
        link=LinkSettings(
            frame_limit_bytes=ANSWER_LIMIT_BYTES,
            handshake_limit_ms=settings.socket_connection_setup_timeout_max_ms,
            send_buffer_bytes=_buffer(settings.send_buffer_bytes),
            receive_buffer_bytes=_buffer(settings.receive_buffer_bytes),
        ),
        tls=security.tls,
        authenticator=security.authenticator,
        security_protocol=settings.security_protocol,
    )


def _buffer(size: int) -> int | None:
    return None if size < 0 else size
