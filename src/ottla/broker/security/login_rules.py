"""Settings to the ways to log in at one listener.

    sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN                    or listener.name.<listener>.sasl.enabled.mechanisms
    listener.name.<listener>.plain.sasl.jaas.config=<module> required user_alice="..." user_bob="...";

1. What cannot work is refused before the listener opens: a mechanism that is not there, PLAIN without users, a JAAS
   module that does not fit. No refusal shows a secret, and no text is ever a class to be loaded.
2. Rules do not change; when a setting does, new ones are made (logins.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.security.scram_users import ScramUsers
from ottla.broker.settings import BrokerSettings
from ottla.clock import Clock
from ottla.errors import InvalidSetting
from ottla.net.sasl.jaas import MODULES, JaasEntry, parse_jaas
from ottla.net.sasl.plain import KEY_BYTES, PlainServer, PlainUsers
from ottla.net.sasl.scram import HASHES
from ottla.net.sasl.scram_server import ScramServer
from ottla.net.sasl.server import ServerMechanism

USER_PREFIX: Final = "user_"
MECHANISMS: Final = ("PLAIN", *HASHES, "OAUTHBEARER", "GSSAPI")

if TYPE_CHECKING:
    from ottla.broker.security.key_sets import MakeKeySet

MakeServer: TypeAlias = Callable[[], ServerMechanism]


class ListenerRules:
    """LoginRules of one listener under one set of settings."""

    def __init__(
        self, settings: BrokerSettings, listener: str, *, users: ScramUsers, key_set: MakeKeySet, clock: Clock
    ) -> None:
        self._listener = listener
        self._users = users
        self._key_set = key_set
        self._clock = clock
        own = settings.for_listener(listener)
        self.mechanisms = tuple(dict.fromkeys(each.upper() for each in own.sasl_enabled_mechanisms))
        self.receive_limit_bytes = own.sasl_server_max_receive_size
        self._refuse_unknown()
        self._written = settings.listener_values().keys()
        by_mechanism = {each: settings.for_listener(listener, each) for each in self.mechanisms}
        self._max_reauth_ms = {name: float(each.connections_max_reauth_ms) for name, each in by_mechanism.items()}
        self._servers = {name: self._maker(name, each) for name, each in by_mechanism.items()}

    def server(self, mechanism: str) -> ServerMechanism:
        return self._servers[mechanism]()

    def max_reauth_ms(self, mechanism: str) -> float:
        return self._max_reauth_ms[mechanism]

    def _refuse_unknown(self) -> None:
        for each in self.mechanisms:
            if each not in MECHANISMS:
                raise InvalidSetting(
                    f"the listener {self._listener} offers {each} (sasl.enabled.mechanisms), which Ottla cannot do; "
                    f"choose from {', '.join(MECHANISMS)}"
                )
        if not self.mechanisms:
            raise InvalidSetting(f"the listener {self._listener} wants logins, but sasl.enabled.mechanisms is empty")

    def _maker(self, mechanism: str, settings: BrokerSettings) -> MakeServer:
        if mechanism in HASHES:
            if self._key_of(mechanism) in self._written:
                self._jaas_entry(mechanism, settings)
            return partial(self._scram_server, mechanism)
        if mechanism == "OAUTHBEARER":
            return self._oauth_maker(settings)
        entry = self._jaas_entry(mechanism, settings)
        if mechanism == "GSSAPI":
            return self._gssapi_maker(settings, entry.options)
        users = PlainUsers(self._passwords(entry.options), key=os.urandom(KEY_BYTES))
        return partial(PlainServer, users)

    def _scram_server(self, mechanism: str) -> ServerMechanism:
        return ScramServer(
            mechanism, self._users.credential_of, decoys=self._users.decoys(mechanism), random_bytes=os.urandom
        )

    def _oauth_maker(self, settings: BrokerSettings) -> MakeServer:
        from ottla.broker.security.token_rules import token_check  # it loads an HTTP client, which few need
        from ottla.net.sasl.oauthbearer_server import OAuthBearerServer

        config = settings.sasl_jaas_config
        entry = None if config is None else parse_jaas(config.value)
        options = entry.options if entry is not None and entry.kind == MODULES["OAUTHBEARER"] else {}
        return partial(OAuthBearerServer, token_check(settings, options, self._key_set, self._clock.now_ms))

    def _gssapi_maker(self, settings: BrokerSettings, options: Mapping[str, str]) -> MakeServer:
        from ottla.net.sasl.gssapi_server import GssapiServer, KerberosContext, kerberos_credentials
        from ottla.net.sasl.kerberos_names import ShortNames

        principal, keytab = options.get("principal", ""), options.get("keyTab")
        _, _, realm = principal.partition("@")
        if not realm:
            raise InvalidSetting(
                f'the listener {self._listener} offers GSSAPI, so its sasl.jaas.config must have principal="kafka/host@'
                'REALM" and keyTab="/path"'
            )
        credentials = kerberos_credentials(principal, keytab)
        names = ShortNames(settings.sasl_kerberos_principal_to_local_rules, realm)
        return lambda: GssapiServer(KerberosContext(credentials), names)

    def _jaas_entry(self, mechanism: str, settings: BrokerSettings) -> JaasEntry:
        key = self._key_of(mechanism)
        if settings.sasl_jaas_config is None:
            raise InvalidSetting(f"the listener {self._listener} offers {mechanism}, so {key} must be set")
        entry = parse_jaas(settings.sasl_jaas_config.value)
        if entry.kind != MODULES[mechanism]:
            raise InvalidSetting(f"{key}: the module must be {MODULES[mechanism]}, not {entry.kind}")
        return entry

    def _key_of(self, mechanism: str) -> str:
        return f"listener.name.{self._listener.lower()}.{mechanism.lower()}.sasl.jaas.config"

    def _passwords(self, options: Mapping[str, str]) -> dict[str, str]:
        found = {name.removeprefix(USER_PREFIX): text for name, text in options.items() if name.startswith(USER_PREFIX)}
        if not all(user and password for user, password in found.items()):
            raise InvalidSetting(f"the listener {self._listener} has a user for PLAIN without a name or a password")
        if not found:
            raise InvalidSetting(
                f"the listener {self._listener} offers PLAIN, but its sasl.jaas.config has no users: write "
                'user_alice="password" behind the module'
            )
        return found
