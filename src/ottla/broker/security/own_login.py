"""How this broker logs in at the others of its cluster, and at its controllers.

    sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
    listener.name.<listener>.scram-sha-512.sasl.jaas.config=<module> required username="broker" password="...";

    sasl.mechanism.inter.broker.protocol=GSSAPI
    listener.name.<listener>.gssapi.sasl.jaas.config=<module> required principal="kafka/host@REALM" keyTab="/path";

    sasl.mechanism.controller.protocol=SCRAM-SHA-512
    listener.name.<listener of controllers>.scram-sha-512.sasl.jaas.config=...

1. The mechanism must be one that the listener of brokers offers: this broker is also logged in at. What controllers
   offer is their affair.
2. Every connection asks anew, so a password that changes while running is used from the next connection on. A token is
   fetched before the first connection and renewed before it ends (net/sasl/token_login.py). A ticket of Kerberos is
   made from the same keytab with which clients are let in here, for the service of the host that is connected to.
3. What cannot work is refused at the start; no refusal shows a secret.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.settings import BrokerSettings
from ottla.clock import Clock
from ottla.errors import InvalidSetting
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.net.handshake import Authenticator
from ottla.net.retries import Backoff, RandomSource
from ottla.net.sasl.authenticator import Mechanism, SaslAuthenticator
from ottla.net.sasl.jaas import MODULES, parse_jaas
from ottla.net.sasl.plain import PlainClient
from ottla.net.sasl.scram import HASHES, ScramClient
from ottla.net.sasl.server import LoginRefused

if TYPE_CHECKING:
    from ottla.net.sasl.oauthbearer import Token

MECHANISMS: Final = ("PLAIN", *HASHES, "OAUTHBEARER", "GSSAPI")
KAFKA_SERVICE: Final = "kafka"
READ_TIMEOUT_MS: Final = 10_000


class Peer(NamedTuple):
    """Who is logged in at: the listener, its protocol, by which mechanism, and what the setting of that is called."""

    listener: str
    protocol: str
    mechanism: str
    setting: str
    offers: tuple[str, ...] | None = None  # None where that is not known here


def brokers(settings: BrokerSettings) -> Peer:
    endpoint = settings.inter_broker_listener
    own = settings.for_listener(endpoint.name)
    mechanism = own.sasl_mechanism_inter_broker_protocol.upper()
    offers = tuple(own.sasl_enabled_mechanisms)
    return Peer(endpoint.name, endpoint.protocol, mechanism, "sasl.mechanism.inter.broker.protocol", offers)


def controllers(settings: BrokerSettings) -> Peer:
    endpoint = settings.controller_listener
    mechanism = settings.sasl_mechanism_controller_protocol.upper()
    return Peer(endpoint.name, endpoint.protocol, mechanism, "sasl.mechanism.controller.protocol")


PeerOf: TypeAlias = Callable[[BrokerSettings], Peer]


@dataclass(frozen=True)
class OwnLogin:
    """How to log in at a host; `prepare` is awaited before connecting, if there is something to prepare."""

    authenticator: Callable[[str], Authenticator]
    prepare: Callable[[str], Awaitable[None]] | None = None
    close: Callable[[], Awaitable[None]] | None = None


class _Secret(NamedTuple):
    """Who we are, by which mechanism."""

    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"<a login by {self.mechanism}>"

    def client(self) -> Mechanism:
        if self.mechanism in HASHES:
            return ScramClient(self.mechanism, self.username, self.password, random_bytes=os.urandom)
        return PlainClient(self.username, self.password)


def own_login(
    settings: Callable[[], BrokerSettings], clock: Clock, random: RandomSource, peer_of: PeerOf = brokers
) -> OwnLogin | None:
    """For connections to other brokers, or to controllers; None where they need no login."""
    if not peer_of(settings()).protocol.startswith("SASL"):
        return None
    mechanism = _mechanism(peer_of(settings()))
    if mechanism == "OAUTHBEARER":
        return _token_login(settings(), peer_of, clock, random)
    if mechanism == "GSSAPI":
        return _ticket_login(settings, peer_of)
    _secret_in(settings(), peer_of)
    return OwnLogin(lambda _: SaslAuthenticator(_secret_in(settings(), peer_of).client()))


def own_principal(settings: BrokerSettings) -> str | None:
    """Whom this broker logs in as at the others; None where brokers need no login, or where only a token that comes
    from elsewhere says it."""
    if not settings.inter_broker_listener.protocol.startswith("SASL"):
        return None
    mechanism = _mechanism(brokers(settings))
    if mechanism == "GSSAPI":
        return f"User:{_ticket_in(settings, brokers).short_name}"
    if mechanism != "OAUTHBEARER":
        return f"User:{_secret_in(settings, brokers).username}"
    name = _options(settings, brokers)[1].get("unsecuredLoginStringClaim_sub")
    return None if name is None else f"User:{name}"


def _mechanism(peer: Peer) -> str:
    if peer.mechanism not in MECHANISMS:
        raise InvalidSetting(f"{peer.setting}={peer.mechanism}: brokers log in with {', '.join(MECHANISMS)}")
    if peer.offers is not None and peer.mechanism not in {each.upper() for each in peer.offers}:
        raise InvalidSetting(
            f"{peer.setting}={peer.mechanism}, but the listener {peer.listener} offers {', '.join(peer.offers)}"
        )
    return peer.mechanism


def _options(settings: BrokerSettings, peer_of: PeerOf) -> tuple[str, Mapping[str, str]]:
    """The options of the JAAS entry, and the setting where they should stand."""
    peer = peer_of(settings)
    key = f"listener.name.{peer.listener.lower()}.{peer.mechanism.lower()}.sasl.jaas.config"
    config = settings.for_listener(peer.listener, peer.mechanism).sasl_jaas_config
    entry = None if config is None else parse_jaas(config.value)
    if entry is None or entry.kind != MODULES[peer.mechanism]:
        raise InvalidSetting(
            f"brokers log in at {peer.listener} with {peer.mechanism}, so {key} must have {MODULES[peer.mechanism]}"
        )
    return key, entry.options


def _secret_in(settings: BrokerSettings, peer_of: PeerOf) -> _Secret:
    mechanism = _mechanism(peer_of(settings))
    key, options = _options(settings, peer_of)
    username, password = options.get("username"), options.get("password")
    if not username or not password:
        raise InvalidSetting(f"brokers log in at each other, so {key} must have a username and a password")
    return _Secret(mechanism, username, password)


# -- tickets of Kerberos ---------------------------------------------------------------------------------------------


class _Ticket(NamedTuple):
    """Whose ticket, from which keytab, for which service of the other brokers."""

    service: str
    principal: str
    keytab: str
    short_name: str  # as brokers with the same rules know us


def _ticket_in(settings: BrokerSettings, peer_of: PeerOf) -> _Ticket:
    from ottla.net.sasl.kerberos_names import ShortNames

    key, options = _options(settings, peer_of)
    principal, keytab = options.get("principal", ""), options.get("keyTab")
    realm = principal.partition("@")[2]
    if not realm or not keytab:
        raise InvalidSetting(
            f"brokers log in at each other with GSSAPI, so {key} must have "
            'principal="kafka/host@REALM" and keyTab="/path"'
        )
    own = settings.for_listener(peer_of(settings).listener, "GSSAPI")
    try:
        short_name = ShortNames(own.sasl_kerberos_principal_to_local_rules, realm).of(principal)
    except LoginRefused as refused:
        raise InvalidSetting(f"{key}: other brokers would not let this one in: {refused}") from None
    service = own.sasl_kerberos_service_name or options.get("serviceName") or KAFKA_SERVICE
    return _Ticket(service, principal, keytab, short_name)


def _ticket_login(settings: Callable[[], BrokerSettings], peer_of: PeerOf) -> OwnLogin:
    from ottla.net.sasl.kerberos_login import KerberosLogin

    def login() -> KerberosLogin:
        ticket = _ticket_in(settings(), peer_of)
        return KerberosLogin(ticket.service, principal=ticket.principal, keytab=ticket.keytab)

    login()  # refused now and not at the first connection
    return OwnLogin(lambda host: SaslAuthenticator(login().mechanism(host)), lambda host: login().prepare(host))


# -- tokens ----------------------------------------------------------------------------------------------------------


def _token_login(settings: BrokerSettings, peer_of: PeerOf, clock: Clock, random: RandomSource) -> OwnLogin:
    from ottla.net.sasl.oauthbearer import OAuthBearerClient
    from ottla.net.sasl.token_login import TokenLogin

    backoff = Backoff(settings.sasl_login_retry_backoff_ms, settings.sasl_login_retry_backoff_max_ms, random)
    login = TokenLogin(_token_source(settings, peer_of, clock, backoff), clock=clock, backoff=backoff)
    return OwnLogin(
        lambda _: SaslAuthenticator(OAuthBearerClient(login.token())), lambda _: login.prepare(), login.close
    )


def _token_source(
    settings: BrokerSettings, peer_of: PeerOf, clock: Clock, backoff: Backoff
) -> Callable[[], Awaitable[Token]]:
    from ottla.broker.security.key_sets import check_allowed
    from ottla.net.sasl.oidc import Endpoint, from_endpoint
    from ottla.net.sasl.provider import provider_tls
    from ottla.net.sasl.token_login import CLAIM, from_claims

    key, options = _options(settings, peer_of)
    url = settings.sasl_oauthbearer_token_endpoint_url
    if not url:
        if f"{CLAIM}sub" in options:
            return from_claims(options, clock)
        raise InvalidSetting(f"brokers log in with OAUTHBEARER: set sasl.oauthbearer.token.endpoint.url, or see {key}")
    check_allowed(url, settings.ottla_oauthbearer_allowed_urls, "sasl.oauthbearer.token.endpoint.url")
    secret = settings.sasl_oauthbearer_client_credentials_client_secret
    client_id = settings.sasl_oauthbearer_client_credentials_client_id or options.get("clientId")
    client_secret = options.get("clientSecret") if secret is None else secret.value
    if not client_id or not client_secret:
        raise InvalidSetting("sasl.oauthbearer.token.endpoint.url needs the broker's client id and secret")
    endpoint = Endpoint(
        url,
        client_id,
        client_secret,
        settings.sasl_oauthbearer_scope or options.get("scope"),
        settings.sasl_login_read_timeout_ms or READ_TIMEOUT_MS,
        provider_tls(options) if url.startswith("https") else None,
    )
    limit_ms = settings.sasl_login_retry_backoff_max_ms
    return from_endpoint(endpoint, clock=clock, backoff=backoff, limit_ms=limit_ms)
