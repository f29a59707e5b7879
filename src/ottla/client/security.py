"""Settings to what a connection needs: a TLS context and a way to log in."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from ottla.client.security_settings import SecuritySettings
from ottla.errors import InvalidSetting
from ottla.net.handshake import Authenticator
from ottla.values import Node


@dataclass(frozen=True)
class Security:
    """What a connection needs; None where nothing is wanted."""

    tls: ssl.SSLContext | None = None
    authenticator: Callable[[Node], Callable[[], Authenticator]] | None = None


def security_of(settings: SecuritySettings) -> Security:
    """Read the settings; InvalidSetting says what is missing or does not fit."""
    if settings.security_protocol != "PLAINTEXT":
        raise InvalidSetting(f"security.protocol={settings.security_protocol} is not there yet")
    return Security()
