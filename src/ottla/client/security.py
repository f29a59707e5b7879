"""Settings to what a connection needs: a TLS context, and a way to log in.

    security.protocol    TLS    login
    PLAINTEXT            no     no
    SSL                  yes    no (the certificate may say who we are)
    SASL_PLAINTEXT       no     sasl.mechanism
    SASL_SSL             yes    sasl.mechanism

Everything that can be checked without a network is checked here: files that cannot be read, a mechanism that is not
there, a user without a password. InvalidSetting says which setting, and never shows a secret.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

from ottla.client.security_settings import SecuritySettings
from ottla.clock import Clock
from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass
from ottla.net.handshake import Authenticator
from ottla.net.retries import RandomSource
from ottla.settings import Password


@dataclass(frozen=True)
class Security:
    """What a connection needs; None where nothing is wanted. A login is for one host; `prepare` is awaited before
    connecting there."""

    tls: ssl.SSLContext | None = None
    authenticator: Callable[[str], Authenticator] | None = None
    prepare: Callable[[str], Awaitable[None]] | None = None
    close: Callable[[], Awaitable[None]] | None = None


def security_of(settings: SecuritySettings, *, clock: Clock, random: RandomSource) -> Security:
    """What the settings want. Hashes, tokens and the reading of certificates are loaded by those who want them."""
    tls = tls_of(settings) if settings.security_protocol.endswith("SSL") else None
    if not settings.security_protocol.startswith("SASL"):
        return Security(tls)
    from ottla.client.logins import login_of

    login = login_of(settings, clock=clock, random=random)
    return Security(tls, login.authenticator, login.prepare, login.close)


# --- TLS -------------------------------------------------------------------------------------------------------------


def tls_of(settings: SecuritySettings) -> ssl.SSLContext:
    """The context of ssl.context, or one made of the other ssl settings."""
    if settings.ssl_context is not None:
        _refuse_others(settings)
        return settings.ssl_context
    from ottla.net.tls import TlsOptions, client_context
    from ottla.net.tls.options import wanted_versions

    return client_context(
        TlsOptions(
            ca_location=settings.ssl_truststore_location,
            ca_text=_seen(settings.ssl_truststore_certificates),
            ca_type=settings.ssl_truststore_type,
            ca_password=_seen(settings.ssl_truststore_password),
            crl_location=settings.ssl_crl_location,
            store_location=settings.ssl_keystore_location,
            store_type=settings.ssl_keystore_type,
            store_password=_seen(settings.ssl_keystore_password),
            certificate_location=settings.ssl_certificate_location,
            key_location=settings.ssl_key_location,
            certificate_text=_seen(settings.ssl_keystore_certificate_chain),
            key_text=_seen(settings.ssl_keystore_key),
            key_password=_seen(settings.ssl_key_password),
            check_hostname=settings.ssl_endpoint_identification_algorithm == "https",
            check_certificate=settings.enable_ssl_certificate_verification,
            versions=wanted_versions(settings.ssl_enabled_protocols, settings.ssl_protocol),
            ciphers=settings.ssl_cipher_suites,
        )
    )


def _refuse_others(settings: SecuritySettings) -> None:
    default = type(settings).declared()
    others = [
        each.name
        for each in default
        if each.name.startswith("ssl.") and each.name != "ssl.context" and settings.source(each.name).value != "default"
    ]
    if others:
        raise InvalidSetting(f"ssl.context and {', '.join(others)} are given; put everything into the context")


def _seen(secret: Password | None) -> str | None:
    return None if secret is None else secret.value
