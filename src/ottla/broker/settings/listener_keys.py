"""Settings of one listener: listener.name.<listener>.<setting>, or with a SASL mechanism before the setting.

    listener.name.secure.ssl.keystore.location
    listener.name.clients.scram-sha-512.sasl.jaas.config

A prefix on a setting that no listener has of its own is unknown, as a setting of that name would be.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from ottla.errors import UnknownSetting
from ottla.light_tuples import NamedTuple

PREFIX: Final = "listener.name."

# Kafka lets these be set per listener; everything that begins with ssl. or sasl. too.
PER_LISTENER: Final = frozenset(
    {
        *("max.connections", "max.connection.creation.rate", "num.network.threads"),
        *("principal.builder.class", "connections.max.reauth.ms"),
    }
)
PER_MECHANISM: Final = frozenset(
    {
        *("sasl.jaas.config", "sasl.login.class", "sasl.login.callback.handler.class"),
        *("sasl.server.callback.handler.class", "connections.max.reauth.ms"),
    }
)


class ListenerKey(NamedTuple):
    """A parsed key with a listener's prefix. `text` is the key in one spelling, whatever the user's capitals."""

    listener: str
    mechanism: str
    setting: str

    @property
    def text(self) -> str:
        mechanism = f"{self.mechanism}." if self.mechanism else ""
        return f"{PREFIX}{self.listener.lower()}.{mechanism}{self.setting}"


def parse_listener_key(key: str, declared: Container[str]) -> ListenerKey | None:
    """The parts of a key with a listener's prefix, None without one; UnknownSetting when the rest is nothing."""
    if not key.startswith(PREFIX):
        return None
    listener, _, rest = key.removeprefix(PREFIX).partition(".")
    if rest in declared and (rest in PER_LISTENER or rest.startswith(("ssl.", "sasl."))):
        return ListenerKey(listener.upper(), "", rest)
    mechanism, _, setting = rest.partition(".")
    if setting in PER_MECHANISM and setting in declared:
        return ListenerKey(listener.upper(), mechanism.lower(), setting)
    what = f"{rest!r} cannot be set for one listener" if rest in declared else f"there is no setting {rest!r}"
    raise UnknownSetting(f"{key!r}: {what}")
