"""From sasl settings to a way to log in: which mechanism, as whom, and where the secret comes from.

A user and a password come from sasl.username and sasl.password or from sasl.jaas.config; a token from a function of the
user's, from an OIDC provider, or from the claims in sasl.jaas.config, in this order; a ticket of Kerberos from a keytab
or the system's cache. What cannot work is refused before there is a connection, and no refusal shows a secret.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.client.security_settings import SecuritySettings
from ottla.clock import Clock
from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass
from ottla.net.handshake import Authenticator
from ottla.net.retries import Backoff, RandomSource
from ottla.net.sasl.authenticator import SaslAuthenticator
from ottla.net.sasl.jaas import MODULES, JaasEntry, parse_jaas
from ottla.net.sasl.oauthbearer import OAuthBearerClient, Token, check_extensions
from ottla.net.sasl.plain import PlainClient
from ottla.net.sasl.scram import HASHES, ScramClient
from ottla.net.sasl.token_login import CLAIM, TokenLogin, from_claims, from_provider
from ottla.settings import Password

if TYPE_CHECKING:
    from ottla.net.sasl.oidc import Endpoint

MECHANISMS: Final = ("PLAIN", *HASHES, "OAUTHBEARER", "GSSAPI")
KAFKA_SERVICE: Final = "kafka"
_EXTENSION: Final = "extension_"


@dataclass(frozen=True)
class Login:
    """How to log in at a host; `prepare` is awaited before connecting, if there is something to prepare."""

    authenticator: Callable[[str], Authenticator]
    prepare: Callable[[str], Awaitable[None]] | None = None
    close: Callable[[], Awaitable[None]] | None = None


def login_of(settings: SecuritySettings, *, clock: Clock, random: RandomSource) -> Login:
    """The login that the settings want."""
    mechanism = settings.sasl_mechanism
    entry = _jaas_entry(settings, mechanism)
    if mechanism == "OAUTHBEARER":
        return _with_token(settings, entry, clock, random)
    if mechanism == "GSSAPI":
        return _with_ticket(settings, entry)
    return Login(_with_password(mechanism, settings, entry))


def _jaas_entry(settings: SecuritySettings, mechanism: str) -> JaasEntry | None:
    if mechanism not in MECHANISMS:
        known = ", ".join(MECHANISMS)
        raise InvalidSetting(f"sasl.mechanism={mechanism} is not there; choose one of {known}")
    if settings.sasl_jaas_config is None:
        return None
    if settings.sasl_username is not None or settings.sasl_password is not None:
        raise InvalidSetting("sasl.jaas.config and sasl.username or sasl.password are given; give only one of them")
    entry = parse_jaas(settings.sasl_jaas_config.value)
    if entry.kind != MODULES[mechanism]:
        wanted = MODULES[mechanism]
        raise InvalidSetting(
            f"sasl.jaas.config has the module {entry.module}, sasl.mechanism={mechanism} wants {wanted}"
        )
    return entry


def _with_password(
    mechanism: str, settings: SecuritySettings, entry: JaasEntry | None
) -> Callable[[str], Authenticator]:
    options = {} if entry is None else entry.options
    username = options.get("username") or settings.sasl_username
    password = options.get("password") or _seen(settings.sasl_password)
    if not username or not password:
        raise InvalidSetting(f"sasl.mechanism={mechanism} needs sasl.username and sasl.password, or sasl.jaas.config")
    if mechanism in HASHES:
        token = options.get("tokenauth", "").lower() == "true"

        def scram(_: str) -> Authenticator:
            return SaslAuthenticator(ScramClient(mechanism, username, password, random_bytes=os.urandom, token=token))

        return scram
    PlainClient(username, password)  # refused now and not at the first connection
    return lambda _: SaslAuthenticator(PlainClient(username, password))


def _with_ticket(settings: SecuritySettings, entry: JaasEntry | None) -> Login:
    from ottla.net.sasl.kerberos_login import KerberosLogin

    if settings.sasl_username is not None or settings.sasl_password is not None:
        raise InvalidSetting(
            "sasl.mechanism is GSSAPI (Kerberos), which is Java's default and has no sasl.username and sasl.password;"
            " set sasl.mechanism for a password, sasl.kerberos.principal and sasl.kerberos.keytab for Kerberos"
        )
    options = {} if entry is None else entry.options
    login = KerberosLogin(
        settings.sasl_kerberos_service_name or options.get("serviceName") or KAFKA_SERVICE,
        host=settings.sasl_kerberos_domain_name,
        principal=settings.sasl_kerberos_principal or options.get("principal"),
        keytab=settings.sasl_kerberos_keytab or options.get("keyTab"),
        cache=options.get("ticketCache"),
    )
    return Login(lambda host: SaslAuthenticator(login.mechanism(host)), login.prepare)


def _with_token(settings: SecuritySettings, entry: JaasEntry | None, clock: Clock, random: RandomSource) -> Login:
    backoff = Backoff(settings.sasl_login_retry_backoff_ms, settings.sasl_login_retry_backoff_max_ms, random)
    login = TokenLogin(_token_source(settings, entry, clock, backoff), clock=clock, backoff=backoff)
    extensions = _extensions(settings, entry)

    def authenticator(_: str) -> Authenticator:
        return SaslAuthenticator(OAuthBearerClient(login.token(), extensions))

    return Login(authenticator, lambda _: login.prepare(), login.close)


def _token_source(
    settings: SecuritySettings, entry: JaasEntry | None, clock: Clock, backoff: Backoff
) -> Callable[[], Awaitable[Token]]:
    provider, url = settings.sasl_oauthbearer_token_provider, settings.sasl_oauthbearer_token_endpoint_url
    if provider is not None and url is not None:
        raise InvalidSetting("a token provider and sasl.oauthbearer.token.endpoint.url are given; give one of them")
    if provider is not None:
        return from_provider(provider)
    options: Mapping[str, str] = {} if entry is None else entry.options
    if url is not None:
        from ottla.net.sasl.oidc import from_endpoint  # it loads an HTTP client, which few need

        limit_ms = settings.sasl_login_retry_backoff_max_ms
        return from_endpoint(_endpoint(settings, url, options), clock=clock, backoff=backoff, limit_ms=limit_ms)
    if settings.sasl_oauthbearer_method == "oidc" or settings.sasl_login_callback_handler_class is not None:
        raise InvalidSetting("OIDC needs sasl.oauthbearer.token.endpoint.url")
    if f"{CLAIM}sub" in options:
        return from_claims(options, clock)
    raise InvalidSetting(
        "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.token.provider (a function),"
        " or sasl.oauthbearer.token.endpoint.url with a client id and secret"
    )


def _endpoint(settings: SecuritySettings, url: str, options: Mapping[str, str]) -> Endpoint:
    from ottla.net.sasl.oidc import Endpoint
    from ottla.net.sasl.provider import provider_tls

    client_id = settings.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
    secret = _seen(settings.sasl_oauthbearer_client_credentials_client_secret) or options.get("clientSecret")
    if not client_id or not secret:
        needed = "sasl.oauthbearer.client.credentials.client.id and .client.secret"
        raise InvalidSetting(f"sasl.oauthbearer.token.endpoint.url needs {needed}")
    scope = settings.sasl_oauthbearer_scope or options.get("scope")
    tls = provider_tls(options) if url.startswith("https") else None
    return Endpoint(url, client_id, secret, scope, settings.sasl_login_read_timeout_ms, tls)


def _extensions(settings: SecuritySettings, entry: JaasEntry | None) -> dict[str, str]:
    options = {} if entry is None else entry.options
    found = {name.removeprefix(_EXTENSION): text for name, text in options.items() if name.startswith(_EXTENSION)}
    for pair in settings.sasl_oauthbearer_extensions:
        name, _, value = pair.partition("=")
        found[name] = value
    check_extensions(found)
    return found


def _seen(secret: Password | None) -> str | None:
    return None if secret is None else secret.value
