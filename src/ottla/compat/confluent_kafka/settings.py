"""What a program wrote for librdkafka, as settings of ours.

1. Every property of librdkafka is read as librdkafka reads it (property_values.py) and goes with the others as there
   (property_rules.py); what librdkafka refuses is refused with its sentence. properties.py says what becomes of each.
2. Defaults that decide what a program sees are librdkafka's: CRC-32 of keys, committed records only, no idempotence,
   client.id rdkafka. Those about speed are ours.
3. Callbacks and the properties that the classes here act on themselves are kept apart for them.
4. Warnings go to the program's `logger` when it has one, else to logging: properties of the other kind of client and
   deprecated ones as in librdkafka, and one line, once, with those that have no effect here and why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.client.settings import ClientSettings
from ottla.compat.confluent_kafka import property_rules
from ottla.compat.confluent_kafka.properties import DEPRECATED, Property, properties
from ottla.compat.confluent_kafka.property_rules import ClientKind
from ottla.compat.confluent_kafka.property_values import Parsed, parse, refuse
from ottla.compat.confluent_kafka.translation import translated
from ottla.light_dataclasses import dataclass

log = logging.getLogger("ottla.compat.confluent_kafka")

Callback = Callable[..., Any]
_CALLABLE: Final = {"error_cb": TypeError, "stats_cb": TypeError, "throttle_cb": ValueError, "oauth_cb": TypeError}
_BY_KIND: Final[Mapping[str, tuple[str, ...]]] = {"producer": ("on_delivery",), "consumer": ("on_commit",)}
_warned: set[str] = set()


@dataclass(frozen=True)
class Configuration:
    """A configuration that was read: for our client, for the classes here, and for the program's own code."""

    ours: dict[str, Any]
    here: Mapping[str, Parsed]
    callbacks: Mapping[str, Callback]
    logger: Any

    def callback(self, name: str) -> Callback | None:
        return self.callbacks.get(name)

    def warn(self, text: str, *arguments: Any) -> None:
        """To the program's logger, or to ours."""
        target = self.logger if hasattr(self.logger, "warning") else log
        target.warning(text, *arguments)


def configure(
    kind: ClientKind, config: Any, keywords: Mapping[str, Any], declared: type[ClientSettings]
) -> Configuration:
    """Read what a constructor of confluent-kafka takes."""
    written = _flat(merged(config, keywords))
    logger = written.pop("logger", None)
    callbacks = _callbacks(kind, written)
    values: dict[str, Parsed] = {}
    found: dict[str, Property] = {}
    for name, value in written.items():
        each, parsed = _parsed(kind, str(name), value)
        found[each.name] = each
        values.pop(each.name, None)
        if parsed is not None:
            values[each.name] = parsed
    property_rules.check(kind, values)
    if not values.get("bootstrap.servers"):
        refuse("No `bootstrap.servers` configured: client will not be able to connect to Kafka cluster")
    used = {name: value for name, value in values.items() if found[name].scope in ("*", kind[0].upper())}
    ours = translated(used, callbacks.get("oauth_cb"), {each.name for each in declared.declared()})
    read = Configuration(ours, used, callbacks, logger)
    _warn(read, kind, values, found.values())
    return read


def merged(config: Any, keywords: Mapping[str, Any]) -> dict[Any, Any]:
    """The dictionary of the constructor and its keywords, which win."""
    if (config is None and not keywords) or (config is not None and not isinstance(config, Mapping)):
        raise TypeError("expected configuration dict")
    return {**(config or {}), **keywords}


def _flat(written: dict[Any, Any]) -> dict[Any, Any]:
    """The properties of default.topic.config are like any other."""
    topic = written.pop("default.topic.config", {})
    return {**written, **{name: topic[name] for name in topic.keys()}}  # noqa: SIM118  # what is no dict raises as there


def _callbacks(kind: ClientKind, written: dict[Any, Any]) -> dict[str, Callback]:
    found = {}
    for name, error in _CALLABLE.items():
        if name in written:
            found[name] = written.pop(name)
            if not callable(found[name]):
                raise error(f"expected {name} property as a callable function")
    for name in _BY_KIND[kind]:
        if name in written:
            found[name] = written.pop(name)
            if not callable(found[name]):
                refuse(f"{name} requires a callable object")
    return found


def _parsed(kind: ClientKind, name: str, value: object) -> tuple[Property, Parsed]:
    if name == "delivery.report.only.error" and kind == "producer" and not isinstance(value, bool):
        raise TypeError(f"Expected {name} to be bool type, not {type(value).__name__}")
    return parse(name, value)


def _warn(read: Configuration, kind: ClientKind, values: Mapping[str, Parsed], found: Iterable[Property]) -> None:
    other: ClientKind = "consumer" if kind == "producer" else "producer"
    unused = []
    for each in found:
        name = each.name
        if each.scope == other[0].upper():
            read.warn(
                "Configuration property %s is a %s property and will be ignored by this %s instance", name, other, kind
            )
        elif name in DEPRECATED:
            read.warn("Configuration property %s is deprecated: %s", name, each.why_unused or "use another")
        elif each.why_unused is not None and name in values and name not in _warned:
            _warned.add(name)
            unused.append(f"{name} ({each.why_unused})")
    if unused:
        read.warn("settings of librdkafka that have no effect here: %s", ", ".join(unused))
    for text in property_rules.warnings(values):
        read.warn("%s", text)


def known_names() -> frozenset[str]:
    """Every name that librdkafka has a property for."""
    return frozenset(properties())
