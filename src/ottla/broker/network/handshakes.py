"""TLS handshakes of a listener, within the limits of connections.

A handshake costs before anything can be asked. So it is a connection from its first byte: counted, and turned away at
the same limits, whether it ever ends or not.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Protocol

from ottla.broker.observe.log_limit import LineLimit

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

    def __init__(self, tls: ListenerTls, refusal: Callable[[str], str | None], left: Callable[[str], None]) -> None:
        """`refusal` says why an address may not connect now, or counts it in; `left` counts it out."""
        self._tls = tls
        self._refusal = refusal
        self._left = left

    @property
    def context(self) -> ssl.SSLContext:
        return self._tls.context

    def admits(self, address: str) -> bool:
        refusal = self._refusal(address)
        if refusal is not None:
            log.warning("a connection from %s is turned away: %s", address, refusal)
        return refusal is None

    def ended(self, address: str, failure: str | None) -> None:
        if failure is not None:
            self._left(address)
        self._tls.handshake_ended(address, failure)
