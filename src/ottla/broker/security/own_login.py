"""How this broker logs in at the others of its cluster.

    sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
    listener.name.<listener>.scram-sha-512.sasl.jaas.config=<module> required username="broker" password="...";

1. The mechanism must be one that the listener of brokers offers: this broker is also logged in at.
2. Every connection asks anew, so a password that changes while running is used from the next connection on.
3. What cannot work is refused at the start; no refusal shows a secret.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from ottla.broker.settings import BrokerSettings
from ottla.errors import InvalidSetting
from ottla.net.handshake import Authenticator
from ottla.net.sasl.authenticator import Mechanism, SaslAuthenticator
from ottla.net.sasl.jaas import MODULES, parse_jaas
from ottla.net.sasl.plain import PlainClient
from ottla.net.sasl.scram import HASHES, ScramClient


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


def own_login(settings: Callable[[], BrokerSettings]) -> Callable[[], Authenticator] | None:
    """Makes the authenticator of a new connection to another broker; None where brokers need no login."""
    if not settings().inter_broker_listener.protocol.startswith("SASL"):
        return None
    _secret_in(settings())

    def authenticator() -> Authenticator:
        return SaslAuthenticator(_secret_in(settings()).client())

    return authenticator


def own_principal(settings: BrokerSettings) -> str | None:
    """Whom this broker logs in as at the others; None where brokers need no login."""
    if not settings.inter_broker_listener.protocol.startswith("SASL"):
        return None
    return f"User:{_secret_in(settings).username}"


def _secret_in(settings: BrokerSettings) -> _Secret:
    listener = settings.inter_broker_listener.name
    mechanism = settings.for_listener(listener).sasl_mechanism_inter_broker_protocol.upper()
    offered = settings.for_listener(listener).sasl_enabled_mechanisms
    if mechanism not in HASHES and mechanism != "PLAIN":
        raise InvalidSetting(
            f"sasl.mechanism.inter.broker.protocol={mechanism}: brokers log in with PLAIN or {', '.join(HASHES)}"
        )
    if mechanism not in {each.upper() for each in offered}:
        raise InvalidSetting(
            f"sasl.mechanism.inter.broker.protocol={mechanism}, but the listener {listener} offers {', '.join(offered)}"
        )
    key = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    given = settings.for_listener(listener, mechanism).sasl_jaas_config
    entry = None if given is None else parse_jaas(given.value)
    if entry is None or entry.kind != MODULES[mechanism]:
        raise InvalidSetting(f"brokers log in at {listener} with {mechanism}, so {key} must have {MODULES[mechanism]}")
    username, password = entry.options.get("username"), entry.options.get("password")
    if not username or not password:
        raise InvalidSetting(f"brokers log in at {listener}, so {key} must have a username and a password")
    return _Secret(mechanism, username, password)
