"""Settings that change while the broker runs: checked first, and rolled back when a subscriber fails.

    dynamic = DynamicSettings(static)
    dynamic.subscribe({"max.connections"}, lambda old, new: limits.set(new.max_connections))
    dynamic.replace("cluster-wide", {"max.connections": "100"})      # frozenset({"max.connections"})
    dynamic.current.max_connections                                   # 100

1. A value for this broker wins over one for all brokers, that over the file, that over the default. What is no longer
   set falls back to the next of them.
2. `check` says whether values could be applied and changes nothing; `replace` takes the whole set of one scope, as the
   metadata store keeps it, and returns the names whose values really changed.
3. Kafka's rules: what cannot change while running is refused; what is per broker is refused for all brokers; keys and
   certificates change only with a listener's prefix.
4. Who must act on a change registers with `subscribe`. When one of them fails, those already notified get the
   old values again and nothing has changed.
5. What has no effect here and only tunes Kafka (threads, buffers) is accepted, because tools set it; it is logged.
6. `load` never fails: values from the store that no longer fit are passed over one by one and logged, and so are those
   that a subscriber cannot use, because a broker that does not start cannot be repaired through its settings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.without_effect import names_without_effect
from ottla.errors import InvalidConfig, InvalidSetting
from ottla.settings import Dynamic, Source

log = logging.getLogger(__name__)

Subscriber: TypeAlias = Callable[[BrokerSettings, BrokerSettings], None]

# Kafka wants a listener's prefix for these when they change while running; without one nobody knows whose they are.
ONLY_WITH_LISTENER: Final = frozenset(
    {
        *("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password"),
        *("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.type", "ssl.truststore.location"),
        *("ssl.truststore.password", "ssl.truststore.certificates"),
    }
)


class NotApplied(InvalidSetting):
    """Settings could not be applied, and what held before goes on to hold.
    Mend what is named, and set them again."""

    def __init__(self, names: frozenset[str], cause: Exception) -> None:
        why = cause.detail if isinstance(cause, InvalidSetting) else str(cause)
        super().__init__(f"{', '.join(sorted(names))}: {why}")
        self.names = names


class DynamicSettings:
    """The settings of a running broker."""

    def __init__(self, static: BrokerSettings) -> None:
        self._static = static
        self._values: dict[Dynamic, Mapping[str, str]] = {"cluster-wide": {}, "per-broker": {}}
        self._subscribers: list[tuple[frozenset[str], Subscriber]] = []
        self.current = static

    def subscribe(self, names: Iterable[str], subscriber: Subscriber) -> None:
        """Call `subscriber(old, new)` whenever one of these settings has changed. It must not wait."""
        self._subscribers.append((frozenset(names), subscriber))

    def values(self, scope: Dynamic) -> Mapping[str, str]:
        """What is set in a scope, as it was written."""
        return dict(self._values[scope])

    def check(self, scope: Dynamic, values: Mapping[str, str]) -> BrokerSettings:
        """The settings as they would be; InvalidSetting or UnknownSetting when they cannot be so."""
        _check_scope(scope, values)
        layers = {**self._values, scope: values}
        return self._static.replaced({**layers["cluster-wide"], **layers["per-broker"]}, source=Source.DYNAMIC)

    def replace(self, scope: Dynamic, values: Mapping[str, str]) -> frozenset[str]:
        """Make these the values of a scope; what was there before and is not in them is gone."""
        new = self.check(scope, values)
        old = self.current
        names = changed(old, new)
        self._notify(old, new, names)
        for why, useless in names_without_effect((name, values.get(name)) for name in names if name in values).items():
            log.warning("changed while running, but without effect: %s (%s)", ", ".join(useless), why)
        self.current = new
        self._values[scope] = dict(values)
        return names

    def load(self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]) -> None:
        """The values that the store has, without those that do not fit or cannot be used."""
        self._load("cluster-wide", self._fitting("cluster-wide", cluster_wide))
        self._load("per-broker", self._fitting("per-broker", per_broker))

    def pass_over(self, names: Collection[str]) -> None:
        """Go on without these values, whichever scope they were set in."""
        for scope, values in self._values.items():
            self.replace(scope, {name: value for name, value in values.items() if name not in names})

    # -- inside ------------------------------------------------------------------------------------------------------

    def _load(self, scope: Dynamic, values: Mapping[str, str]) -> None:
        """Each attempt has fewer values. Stores of keys go first: without them a listener may still do the rest of what
        it was told, as to ask for certificates."""
        if not values and not self._values[scope]:
            return  # nothing was set and nothing is
        while True:
            try:
                self.replace(scope, values)
                return
            except NotApplied as problem:
                log.error("stored %s settings are not used: %s", scope, problem)
                useless = problem.names & values.keys()
                stores = {name for name in useless if is_of_store(name)}
                if not useless:
                    return
                values = {name: value for name, value in values.items() if name not in (stores or useless)}

    def _fitting(self, scope: Dynamic, values: Mapping[str, str]) -> dict[str, str]:
        fitting: dict[str, str] = {}
        for name, value in values.items():
            try:
                self.check(scope, {**fitting, name: value})
            except InvalidConfig as error:
                log.error("a stored %s setting is not used: %s", scope, error)
            else:
                fitting[name] = value
        return fitting

    def _notify(self, old: BrokerSettings, new: BrokerSettings, names: frozenset[str]) -> None:
        done: list[Subscriber] = []
        for wanted, subscriber in self._subscribers:
            if not wanted & names:
                continue
            done.append(subscriber)
            try:
                subscriber(old, new)
            except Exception as cause:
                _roll_back(reversed(done), old, new)
                raise NotApplied(wanted & names, cause) from cause


def is_of_store(name: str) -> bool:
    """Whether a key, with a listener's prefix or without, names a key or trust store, or what opens it."""
    declared = BrokerSettings.setting_of(name)
    return declared is not None and declared.name in ONLY_WITH_LISTENER


def changed(old: BrokerSettings, new: BrokerSettings) -> frozenset[str]:
    """The names whose values differ; a value for one listener goes by its full name."""
    before, after = old.as_dict(), new.as_dict()
    names = {name for name, value in after.items() if before[name] != value}
    return frozenset(names | _prefixed_differences(old, new))


def _prefixed_differences(old: BrokerSettings, new: BrokerSettings) -> set[str]:
    before, after = old.listener_values(), new.listener_values()
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _check_scope(scope: Dynamic, values: Mapping[str, str]) -> None:
    for key in values:
        if key in ONLY_WITH_LISTENER:
            raise InvalidSetting(f"{key} changes only for one listener; write listener.name.<listener>.{key}")
        declared = BrokerSettings.setting_of(key)
        per_broker = declared is not None and (declared.name != key or declared.dynamic == "per-broker")
        if scope == "cluster-wide" and per_broker:
            raise InvalidSetting(f"{key} is each broker's own; set it for a broker, not for all of them")


def _roll_back(subscribers: Iterable[Subscriber], old: BrokerSettings, new: BrokerSettings) -> None:
    for each in subscribers:
        try:
            each(new, old)
        except Exception:
            log.exception("a setting that could not be applied could not be rolled back either")
