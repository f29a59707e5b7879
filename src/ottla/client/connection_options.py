"""What all connections of a client have in common, read from its settings."""

from __future__ import annotations

import math
from typing import Final

from ottla import __version__
from ottla.client.security import Security, security_of
from ottla.client.settings import ClientSettings
from ottla.clock import Clock
from ottla.light_dataclasses import dataclass
from ottla.net.link import LinkSettings, Transport
from ottla.net.peer import PeerSettings
from ottla.net.retries import RandomSource

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
    security: Security
    security_protocol: str


def connection_options(
    settings: ClientSettings, transport: Transport, clock: Clock, random: RandomSource
) -> ConnectionOptions:
    """What the settings say about every connection."""
    idle_ms = settings.connections_max_idle_ms
    in_flight = settings.as_dict().get("max.in.flight.requests.per.connection")
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
            waits_for_much=True,
        ),
        security=security_of(settings, clock=clock, random=random),
        security_protocol=settings.security_protocol,
    )


def _buffer(size: int) -> int | None:
    return None if size < 0 else size
