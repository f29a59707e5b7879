"""The logins of a listener, made from the broker's settings and kept as they change. Loaded where somebody logs in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.security.login_rules import MECHANISMS, ListenerRules
from ottla.broker.security.logins import ListenerLogins, LoginMetrics
from ottla.broker.security.scram_users import ScramUsers
from ottla.broker.security.token_logins import token_logins
from ottla.broker.settings import BrokerSettings
from ottla.metrics import Registry

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.security.key_sets import KeySet, KeySets, KeySource, MakeKeySet

_OF_LISTENERS: Final = (
    *("sasl.enabled.mechanisms", "sasl.jaas.config", "connections.max.reauth.ms"),
    "sasl.kerberos.principal.to.local.rules",
)


def make_logins(broker: Broker, listener: str, registry: Registry, key_set: MakeKeySet) -> ListenerLogins:
    """InvalidSetting says what is missing. `key_set` gives the keys that tokens are signed with."""
    users = ScramUsers(lambda: broker.image, token_logins(broker).credential_of)

    def rules(settings: BrokerSettings, key_set: MakeKeySet = key_set) -> ListenerRules:
        return ListenerRules(settings, listener, users=users, key_set=key_set, clock=broker.clock)

    made = ListenerLogins(
        rules(broker.settings),
        clock=broker.clock,
        random=broker.random,
        metrics=LoginMetrics(registry, listener),
        delay_ms=lambda: broker.settings.connection_failed_authentication_delay_ms,
    )

    def changed(_: BrokerSettings, new: BrokerSettings) -> None:
        made.rules = rules(new)

    def check(settings: BrokerSettings) -> None:
        rules(settings, unread_keys)

    def unread_keys(source: KeySource) -> KeySet:
        from ottla.broker.security.key_sets import KeySet

        return KeySet(source, clock=broker.clock, background=broker.background)

    broker.dynamic.subscribe(set(_names(listener)), changed)
    broker.settings_checks.append(check)  # a change that would be refused must not be kept
    return made


class LazyKeySets:
    """The sets of keys of all listeners; what reads them is loaded when the first one is asked for."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sets: KeySets | None = None

    def of(self, source: KeySource) -> KeySet:
        if self._sets is None:
            from ottla.broker.security.key_sets import KeySets

            self._sets = KeySets(self._broker.clock, self._broker.background)
        return self._sets.of(source)

    async def first_read(self) -> None:
        if self._sets is not None:
            await self._sets.first_read()

    def close(self) -> None:
        if self._sets is not None:
            self._sets.close()


def _names(listener: str) -> Iterator[str]:
    """What the rules of a listener are made of, in all the forms it may be set."""
    for name in _OF_LISTENERS:
        yield name
        yield f"listener.name.{listener.lower()}.{name}"
        for mechanism in MECHANISMS:
            yield f"listener.name.{listener.lower()}.{mechanism.lower()}.{name}"
