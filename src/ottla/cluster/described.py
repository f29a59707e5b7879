"""How settings are described: DescribeConfigs and ListConfigResources.

1. Every entry has its value, where it comes from, and on demand all weaker values (synonyms) and its documentation.
2. A secret is null everywhere.
3. A broker describes its own settings, or those of all brokers (the name ""), of which only what was set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.cluster.config_layers import (
    ConfigRules,
    ConfigSource,
    Level,
    broker_in_effect,
    broker_levels,
    levels_of_broker_setting,
    levels_of_group_setting,
    levels_of_listener_setting,
    levels_of_topic_setting,
    listener_settings,
    topic_in_effect,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS, ConfigResource, ResourceType
from ottla.cluster.plan import FINE, refusal
from ottla.cluster.topic_names import check_name
from ottla.errors import BrokerError, InvalidRequest, UnknownTopicOrPartition, UnsupportedVersion
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.protocol.messages.list_config_resources import ConfigResource as ListedResource
from ottla.settings import Setting, Settings

_TYPES: Final = ("BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD")
TYPES: Final = {name: number for number, name in enumerate(_TYPES, 1)}
"""Kafka's numbers for the types of settings."""


def describe_configs(
    image: ClusterImage, request: DescribeConfigsRequest, rules: ConfigRules
) -> list[DescribeConfigsResult]:
    """One result per resource of the request."""
    return [describe_resource(image, resource, request, rules) for resource in request.resources]


def describe_resource(
    image: ClusterImage, resource: DescribeConfigsResource, request: DescribeConfigsRequest, rules: ConfigRules
) -> DescribeConfigsResult:
    """The result for one resource of the request."""
    entries: list[DescribeConfigsResourceResult] = []
    outcome = FINE
    try:
        entries = _entries(image, resource, request, rules)
    except BrokerError as error:
        outcome = refusal(error)
    wanted = frozenset(resource.configuration_keys or ())
    return DescribeConfigsResult(
        **outcome,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[entry for entry in entries if not wanted or entry.name in wanted],
    )


def _entries(
    image: ClusterImage, resource: DescribeConfigsResource, request: DescribeConfigsRequest, rules: ConfigRules
) -> list[DescribeConfigsResourceResult]:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _topic_entries(image, name, request, rules)
        case ResourceType.BROKER:
            return _broker_entries(image, name, request, rules)
        case ResourceType.GROUP:
            return _group_entries(image, name, request, rules)
        case ResourceType.CLIENT_METRICS:
            return _metrics_entries(image, name, request, rules)
        case ResourceType.BROKER_LOGGER:
            return _logger_entries(name, rules)
    raise InvalidRequest(f"unsupported resource type {resource.resource_type}")


def _topic_entries(
    image: ClusterImage, name: str, request: DescribeConfigsRequest, rules: ConfigRules
) -> list[DescribeConfigsResourceResult]:
    check_name(name)
    if image.topic(name) is None:
        raise UnknownTopicOrPartition(f"the topic {name!r} does not exist")
    settings, own = topic_in_effect(image, name, rules), image.topic_config(name)
    return [
        _entry(each, settings, levels_of_topic_setting(image, each, own, rules), request)
        for each in settings.declared()
        if not each.name.startswith("internal.") or each.name in own
    ]


def _broker_entries(
    image: ClusterImage, name: str, request: DescribeConfigsRequest, rules: ConfigRules
) -> list[DescribeConfigsResourceResult]:
    if not name:
        return _all_brokers_entries(image, request, rules)
    _check_broker_id(name, rules)
    settings = broker_in_effect(image, rules)
    entries = [
        _entry(each, settings, levels_of_broker_setting(image, each, rules), request, read_only=each.dynamic is None)
        for each in settings.declared()
    ]
    return entries + _listener_entries(image, request, rules)


def _listener_entries(
    image: ClusterImage, request: DescribeConfigsRequest, rules: ConfigRules
) -> list[DescribeConfigsResourceResult]:
    entries = []
    for key, setting in listener_settings(image, rules).items():
        levels = levels_of_listener_setting(image, key, setting, rules)
        secret, read_only = setting.sensitive, setting.dynamic is None
        entries.append(_result(key, setting, levels[0].text, levels, request, secret=secret, read_only=read_only))
    return entries


def _all_brokers_entries(
    image: ClusterImage, request: DescribeConfigsRequest, rules: ConfigRules
) -> list[DescribeConfigsResourceResult]:
    entries = []
    for name in image.config(ALL_BROKERS):
        setting = rules.broker_settings.get(name)
        secret = setting is None or setting.sensitive  # what this version does not know may be one
        levels = [
            level
            for level in broker_levels(image, [name], rules, secret=secret)
            if level.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
        ]
        entries.append(_result(name, setting, levels[0].text, levels, request, secret=secret, read_only=False))
    return entries


def _check_broker_id(name: str, rules: ConfigRules) -> None:
    if not name.isascii() or not name.isdigit():
        raise InvalidRequest(f"a broker id must be an integer, but it is {name!r}")
    if int(name) != rules.broker_id:
        raise InvalidRequest(f"unexpected broker id, expected {rules.broker_id} or empty string, but received {name}")


def _group_entries(
    image: ClusterImage, name: str, request: DescribeConfigsRequest, rules: ConfigRules
) -> list[DescribeConfigsResourceResult]:
    if not name:
        raise InvalidRequest("the group name must not be empty")
    own = image.config(ConfigResource(ResourceType.GROUP, name))
    broker = broker_in_effect(image, rules).as_dict()
    inherited = {each.name: broker.get(f"group.{each.name}") for each in rules.group.declared()}
    settings = rules.group({key: value for key, value in {**inherited, **own}.items() if value is not None})
    return [
        _entry(each, settings, levels_of_group_setting(image, each, own, rules), request)
        for each in settings.declared()
    ]


def _metrics_entries(
    image: ClusterImage, name: str, request: DescribeConfigsRequest, rules: ConfigRules
) -> list[DescribeConfigsResourceResult]:
    if not name:
        raise InvalidRequest("the name of a client metrics subscription must not be empty")
    own = image.config(ConfigResource(ResourceType.CLIENT_METRICS, name))
    settings = rules.client_metrics(own)
    return [
        _entry(
            each,
            settings,
            [Level(each.name, own[each.name], ConfigSource.CLIENT_METRICS)] if each.name in own else [],
            request,
        )
        for each in settings.declared()
    ]


def _logger_entries(name: str, rules: ConfigRules) -> list[DescribeConfigsResourceResult]:
    if not name:
        raise InvalidRequest("the broker id must not be empty")
    _check_broker_id(name, rules)
    return [
        DescribeConfigsResourceResult(
            name=logger,
            value=level,
            read_only=False,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            is_sensitive=False,
            synonyms=[],
        )
        for logger, level in sorted(rules.loggers.items())
    ]


# --- one entry -------------------------------------------------------------------------------------------------------


def _entry(
    setting: Setting[Any],
    settings: Settings,
    levels: list[Level],
    request: DescribeConfigsRequest,
    *,
    read_only: bool = False,
) -> DescribeConfigsResourceResult:
    value = settings.as_dict()[setting.name] if not setting.sensitive else None
    text = None if value is None else setting.text(value)
    return _result(setting.name, setting, text, levels, request, secret=setting.sensitive, read_only=read_only)


def _result(
    name: str,
    setting: Setting[Any] | None,
    text: str | None,
    levels: list[Level],
    request: DescribeConfigsRequest,
    *,
    secret: bool,
    read_only: bool,
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=text,
        read_only=read_only,
        config_source=levels[0].source if levels else ConfigSource.DEFAULT,
        is_sensitive=secret,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.text, source=each.source) for each in levels]
        if request.include_synonyms
        else [],
        config_type=TYPES.get(setting.kind.name, 0) if setting else 0,
        documentation=setting.documentation if setting and request.include_documentation else None,
    )


# --- which resources there are ---------------------------------------------------------------------------------------


def list_config_resources(image: ClusterImage, types: list[int], *, version: int) -> list[ListedResource]:
    """The names of resources; UnsupportedVersion when a type cannot be listed. No types asks for all."""
    supported = tuple(ResourceType) if version >= 1 else (ResourceType.CLIENT_METRICS,)
    for wanted in types:
        if wanted not in supported:
            raise UnsupportedVersion(f"resources of type {wanted} cannot be listed in version {version}")
    brokers = [str(broker_id) for broker_id in image.brokers]
    names: Mapping[ResourceType, list[str]] = {
        ResourceType.TOPIC: list(image.topics()),
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.CLIENT_METRICS: _with_configs(image, ResourceType.CLIENT_METRICS),
        ResourceType.GROUP: _with_configs(image, ResourceType.GROUP),
    }
    return [
        ListedResource(resource_name=name, resource_type=kind)
        for kind in supported
        if not types or kind in types
        for name in names[kind]
    ]


def _with_configs(image: ClusterImage, kind: ResourceType) -> list[str]:
    return [resource.name for resource in image.configs if resource.type is kind]
