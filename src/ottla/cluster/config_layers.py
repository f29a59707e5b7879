"""Where the value of a setting comes from: Kafka's layers, from the strongest to the weakest.

    topic, group, client metrics     its own value, set while running
    this broker, set while running   DYNAMIC_BROKER
    all brokers, set while running   DYNAMIC_DEFAULT_BROKER
    this broker's file               STATIC_BROKER
    what Kafka always had            DEFAULT

1. A topic's setting falls back to the broker's under the broker's names (log.retention.ms and its elders for
   retention.ms); a group's to the broker's with "group." before it. As in Kafka the elders are listed only after a
   value under the first of the names: with nothing but log.retention.hours, retention.ms is listed as a default.
2. The layers are computed from the image and what the broker was started with, and kept nowhere: there is no second
   place that could disagree.
3. A value that was set while running and that this version does not accept any more is passed over with a warning, as
   in Kafka: a broker that does not start because of it could not be told to forget it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from itertools import dropwhile
from typing import Any, Final, Protocol

from ottla.cluster.client_metrics import ClientMetricsSettings
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS, ConfigResource, ResourceType
from ottla.errors import InvalidConfig
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.settings import REQUIRED, Setting, Settings, Source
from ottla.storage.settings import BROKER_KEYS, TopicSettings

log = logging.getLogger(__name__)

REMEMBERED_BEYOND: Final = 64


class ConfigSource(IntEnum):
    """Kafka's numbers for where a value comes from."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Level(NamedTuple):
    """One value that a setting has somewhere; the text is None when it is a secret."""

    name: str
    text: str | None
    source: ConfigSource


class Secrets(Protocol):
    """How secrets that are set while running are stored; each raises InvalidConfig when it cannot."""

    def encode(self, text: str) -> str: ...

    def decode(self, text: str) -> str: ...

    def is_outdated(self, text: str) -> bool:
        """Whether it should be encoded anew."""


class PlainSecrets:
    """As they are: the store is the broker's own."""

    def encode(self, text: str) -> str:
        return text

    def decode(self, text: str) -> str:
        return text

    def is_outdated(self, text: str) -> bool:
        return False


Policy = Callable[[ConfigResource, Mapping[str, str | None]], None]


@dataclass(frozen=True)
class ConfigRules:
    """What plans about settings must know of this broker.

    `broker` holds what it was started with (file, environment, command line) and nothing set while running. `group`
    declares what a group may set; `check_group` raises InvalidConfig for rules between those and the broker's limits,
    `check_broker` for settings of this broker that it could not apply (a certificate that cannot be read).
    `check_pattern` raises for a regular expression of a client-metrics resource that cannot be read.
    `policy` sees what is about to be set and raises PolicyViolation. `loggers` are the names and levels of the logs.
    `secrets` encodes this broker's secrets for the store, and decodes them.
    `is_controller`: it keeps the settings of all nodes, which each of them has checked before it passed them on.
    """

    broker_id: int
    broker: Settings
    group: type[Settings]
    topic: type[TopicSettings] = TopicSettings
    client_metrics: type[Settings] = ClientMetricsSettings
    check_group: Callable[[Mapping[str, str]], None] | None = None
    check_broker: Callable[[Settings], None] | None = None
    check_pattern: Callable[[str], object] = re.compile
    policy: Policy | None = None
    loggers: Mapping[str, str] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=PlainSecrets)
    is_controller: bool = False

    @cached_property
    def static_texts(self) -> Mapping[str, str]:
        """What the broker was started with, by the name it was written under; secrets are empty."""
        written = self.broker.written(Source.STATIC)
        others = {key: setting for key in written if (setting := self.broker.setting_of(key)) and setting.name != key}
        prefixed = {key: "" if each.sensitive else each.text(written[key]) for key, each in others.items()}
        return {**prefixed, **dict(self._texts(Source.STATIC))}

    @cached_property
    def default_texts(self) -> Mapping[str, str]:
        return dict(self._texts(Source.DEFAULT))

    def _texts(self, wanted: Source) -> Iterable[tuple[str, str]]:
        """From the weakest to the strongest of a name, so that the strongest is the last."""
        entries = self.broker.entries() if wanted is Source.DEFAULT else self.broker.written_entries()
        for entry in entries:
            for name, text, source in reversed(entry.synonyms):
                if source is wanted and text is not None:
                    yield name, text
                elif source is wanted is Source.STATIC and entry.setting.sensitive:
                    yield name, ""  # that it is set may be shown, but not to what

    @cached_property
    def broker_settings(self) -> Mapping[str, Setting[Any]]:
        return {each.name: each for each in self.broker.declared()}

    def is_secret(self, name: str) -> bool:
        """Whether a key of this broker, with a listener's prefix or without, is a secret."""
        setting = self.broker.setting_of(name)
        return setting is not None and setting.sensitive

    def readable(self, stored: Mapping[str, str]) -> dict[str, str]:
        """This broker's values with its secrets decoded; those that cannot be are passed over and logged."""
        found: dict[str, str] = {}
        for name, text in stored.items():
            try:
                found[name] = self.secrets.decode(text) if self.is_secret(name) else text
            except InvalidConfig as problem:
                log.error("%s is stored and not used: %s", name, problem)
        return found

    @property
    def broker_resource(self) -> ConfigResource:
        return ConfigResource(ResourceType.BROKER, str(self.broker_id))


# --- what is in effect -----------------------------------------------------------------------------------------------


def broker_in_effect(image: ClusterImage, rules: ConfigRules) -> Settings:
    """The broker's settings with what was set while running over them."""
    values = {**image.config(ALL_BROKERS), **rules.readable(image.config(rules.broker_resource))}
    try:
        return rules.broker.replaced(values, source=Source.DYNAMIC)
    except InvalidConfig:
        return _one_by_one(rules.broker, values)


def _one_by_one(settings: Settings, values: Mapping[str, str]) -> Settings:
    for name, value in values.items():
        try:
            settings = settings.replaced({name: value}, source=Source.DYNAMIC)
        except InvalidConfig as problem:
            log.warning("a broker setting that was set while running is passed over: %s", problem)
    return settings


def topic_defaults(image: ClusterImage, rules: ConfigRules) -> TopicSettings:
    """What a topic has that sets nothing."""
    values = {**rules.static_texts, **image.config(ALL_BROKERS), **image.config(rules.broker_resource)}
    return rules.topic.from_broker(values)


def topic_in_effect(image: ClusterImage, name: str, rules: ConfigRules) -> TopicSettings:
    """What a topic has."""
    return _over(topic_defaults(image, rules), image.topic_config(name), name, rules)


def _over(defaults: TopicSettings, values: Mapping[str, str], name: str, rules: ConfigRules) -> TopicSettings:
    if not values:
        return defaults
    try:
        return defaults.for_topic(values)
    except InvalidConfig as problem:
        log.warning("settings of topic %s are passed over: %s", name, problem)
        known = {each.name for each in rules.topic.declared()}
        settings = _one_by_one(defaults, {key: value for key, value in values.items() if key in known})
        assert isinstance(settings, TopicSettings)
        return settings


class TopicsInEffect:
    """topic_in_effect, remembered until a setting changes: a start with ten thousand partitions asks that often.

    Topics come and go without a setting of their own, so what is remembered is bounded by how many there are now.
    """

    def __init__(self, rules: ConfigRules) -> None:
        self._rules = rules
        self._configs: object = None
        self._found: dict[str, TopicSettings] = {}
        self._defaults: TopicSettings | None = None

    def of(self, image: ClusterImage, name: str) -> TopicSettings:
        if image.configs is not self._configs or len(self._found) > 2 * len(image.topics_by_name) + REMEMBERED_BEYOND:
            self._configs, self._found, self._defaults = image.configs, {}, None
        found = self._found.get(name)
        if found is None:
            self._defaults = self._defaults or topic_defaults(image, self._rules)
            found = self._found[name] = _over(self._defaults, image.topic_config(name), name, self._rules)
        return found


# --- the layers ------------------------------------------------------------------------------------------------------


def broker_levels(image: ClusterImage, names: Iterable[str], rules: ConfigRules, *, secret: bool) -> list[Level]:
    """Every value that the broker has under one of these names, the strongest first, from the first name's on."""
    wanted = list(names)
    layers = (
        (image.config(rules.broker_resource), ConfigSource.DYNAMIC_BROKER),
        (image.config(ALL_BROKERS), ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (rules.static_texts, ConfigSource.STATIC_BROKER),
        (rules.default_texts, ConfigSource.DEFAULT),
    )
    found = (
        Level(name, None if secret else texts[name], source)
        for texts, source in layers
        for name in wanted
        if name in texts
    )
    return list(dropwhile(lambda level: level.name != wanted[0], found))


def listener_settings(image: ClusterImage, rules: ConfigRules) -> dict[str, Setting[Any]]:
    """What is set for single listeners of this broker (listener.name.<name>.<setting>), with its declaration."""
    keys = sorted({*image.config(rules.broker_resource), *rules.static_texts} - rules.broker_settings.keys())
    return {key: setting for key in keys if (setting := rules.broker.setting_of(key)) is not None}


def levels_of_listener_setting(image: ClusterImage, key: str, setting: Setting[Any], rules: ConfigRules) -> list[Level]:
    """A listener that sets nothing has what the broker has."""
    return broker_levels(image, (key, setting.name), rules, secret=setting.sensitive)


def levels_of_broker_setting(image: ClusterImage, setting: Setting[Any], rules: ConfigRules) -> list[Level]:
    names = (setting.name, *_ELDERS.get(setting.name, ()))
    return broker_levels(image, names, rules, secret=setting.sensitive)


_ELDERS: Final = {
    each.synonyms[0].name: tuple(other.name for other in each.synonyms[1:])
    for each in TopicSettings.declared()
    if each.synonyms
}
"""The broker's older names for the same meaning in other units, by its first one."""


def levels_of_topic_setting(
    image: ClusterImage, setting: Setting[Any], own: Mapping[str, str], rules: ConfigRules
) -> list[Level]:
    """`own` is what the topic set."""
    names = [other.name for other in setting.synonyms] or [name for name in (setting.name,) if name in BROKER_KEYS]
    inherited = broker_levels(image, names, rules, secret=setting.sensitive) if names else []
    return _own_level(setting, own, ConfigSource.TOPIC) + inherited


def levels_of_group_setting(
    image: ClusterImage, setting: Setting[Any], own: Mapping[str, str], rules: ConfigRules
) -> list[Level]:
    """`own` is what the group set."""
    name = f"group.{setting.name}"
    levels = _own_level(setting, own, ConfigSource.GROUP)
    if name not in rules.broker_settings:
        return _with_default(levels, setting, setting.name)
    return levels + broker_levels(image, [name], rules, secret=setting.sensitive)


def _own_level(setting: Setting[Any], own: Mapping[str, str], source: ConfigSource) -> list[Level]:
    if setting.name not in own:
        return []
    return [Level(setting.name, None if setting.sensitive else _normal(setting, own[setting.name]), source)]


def _normal(setting: Setting[Any], text: str) -> str:
    """0.70 is shown as 0.7; what this version does not accept any more as it was written."""
    try:
        return setting.text(setting.accept(text))
    except InvalidConfig:
        return text


def _with_default(levels: list[Level], setting: Setting[Any], name: str) -> list[Level]:
    if setting.default in (REQUIRED, None) or any(level.source is ConfigSource.DEFAULT for level in levels):
        return levels
    text = None if setting.sensitive else setting.text(setting.default)
    return [*levels, Level(name, text, ConfigSource.DEFAULT)]
