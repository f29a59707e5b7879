"""TLS handshakes of a listener, within the limits of connections.

A handshake costs before anything can be asked. So it is a connection from its first byte: counted, made to wait and
turned away at the same limits and rates, whether it ever ends or not.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Protocol

from ottla.broker.observe.log_limit import LineLimit
from ottla.broker.quotas.connections import Arrival

log = logging.getLogger(__name__)
log.addFilter(LineLimit())


class ListenerTls(Protocol):
    """What a listener with TLS has to say (security/tls_listener.py)."""

    @property
    def context(self) -> ssl.SSLContext:
        """For handshakes that begin now."""

    def handshake_ended(self, address: str, failure: str | None) -> None:
        """None is a success."""

    def principal_of(self, certificate: bytes | None) -> str:
        """Who shows this certificate; TlsHandshakeFailed when nobody knows."""


class Handshakes:
    """ServerTls (net/tls/stream.py) of one listener."""

    def __init__(
        self,
        tls: ListenerTls,
        arrived: Callable[[str], Arrival],
        refusal: Callable[[str], str | None],
        left: Callable[[str], None],
    ) -> None:
        """`arrived` says whether an address comes too fast, `refusal` why it may not connect now, or counts it in;
        `left` counts it out."""
        self._tls = tls
        self._arrived = arrived
        self._refusal = refusal
        self._left = left

    @property
    def context(self) -> ssl.SSLContext:
        return self._tls.context

    def admits(self, address: str) -> float | None:
        arrival = self._arrived(address)
        if arrival.is_refused:
            log.info("a connection from %s is turned away: its address makes too many of them", address)
            return None
        refusal = self._refusal(address)
        if refusal is not None:
            log.warning("a connection from %s is turned away: %s", address, refusal)
            return None
        return arrival.wait_ms

    def ended(self, address: str, failure: str | None) -> None:
        if failure is not None:
            self._left(address)
        self._tls.handshake_ended(address, failure)
