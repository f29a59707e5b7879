"""Plans that change settings: IncrementalAlterConfigs and AlterConfigs.

1. A resource is changed as a whole or not at all; the other resources of the request do not suffer from it.
2. A topic's, group's or client-metrics' values are checked together with all it has (INVALID_CONFIG), a broker's
   against the whole of its settings (INVALID_REQUEST, as Kafka does): unknown names, types, bounds, rules between
   settings, and whether it may change while running, for one broker or for all.
3. A broker takes only changes for itself or for all brokers.
4. What has no effect here (`Setting.no_effect`) is refused with the reason, unless it is set to its default or only
   tunes threads and buffers, which tools of Kafka set without asking.
5. A broker's secret is encoded before it is stored (ConfigRules.secrets): in ZooKeeper it is encrypted, or refused
   where the broker has nothing to encrypt it with.
6. Kafka keeps a broker setting that nobody declared, for plug-ins; here it is refused with the nearest name, because a
   setting that nobody reads is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from ottla.cluster.changes import AlterConfig, Change
from ottla.cluster.client_metrics import check_client_metrics
from ottla.cluster.config_layers import ConfigRules, broker_in_effect, topic_defaults
from ottla.cluster.image import ClusterImage
from ottla.cluster.loggers import LogLevel, planned_levels
from ottla.cluster.model import ALL_BROKERS, ConfigResource, ResourceType
from ottla.cluster.plan import FINE, ErrorFields, refusal, repeated
from ottla.cluster.topic_names import check_name
from ottla.errors import BrokerError, BrokerIdNotRegistered, InvalidConfig, InvalidRequest, UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.settings import LIST, REQUIRED, Setting, Settings, Source

VALUE_LIMIT: Final = 32767
ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"
MIN_INSYNC: Final = "min.insync.replicas"

Values = Mapping[str, str | None]


class Operation(IntEnum):
    """What IncrementalAlterConfigs may do to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigPlan(NamedTuple):
    """What to commit, what to answer, and which log levels to set (they are stored nowhere)."""

    changes: tuple[Change, ...]
    answers: list[Any]
    log_levels: tuple[LogLevel, ...] = ()


def incremental_alter_configs_plan(
    image: ClusterImage, request: incremental_alter_configs.IncrementalAlterConfigsRequest, rules: ConfigRules
) -> ConfigPlan:
    """Set, delete, append to and subtract from single settings."""
    levels: list[LogLevel] = []

    def decide(resource: incremental_alter_configs.AlterConfigsResource) -> list[Change]:
        if resource.resource_type == ResourceType.BROKER_LOGGER:
            _check_own_broker(resource.resource_name, rules)
            levels.extend(planned_levels(resource, rules))
            return []
        return _incremental_changes(image, resource, rules)

    changes, outcomes = _each_resource(request.resources, decide)
    answers = answers_for(request.resources, outcomes, incremental_alter_configs.AlterConfigsResourceResponse)
    return ConfigPlan((), answers) if request.validate_only else ConfigPlan(changes, answers, tuple(levels))


def alter_configs_plan(
    image: ClusterImage, request: alter_configs.AlterConfigsRequest, rules: ConfigRules
) -> ConfigPlan:
    """Replace all settings of the resources."""

    def decide(resource: alter_configs.AlterConfigsResource) -> list[Change]:
        return _replacing_changes(image, resource, rules)

    changes, outcomes = _each_resource(request.resources, decide)
    answers = answers_for(request.resources, outcomes, alter_configs.AlterConfigsResourceResponse)
    return ConfigPlan(() if request.validate_only else changes, answers)


def answers_for(resources: Sequence[Any], outcomes: Sequence[ErrorFields], answer: Callable[..., Any]) -> list[Any]:
    """What `answer` makes of every resource and its outcome."""
    return [
        answer(**outcome, resource_type=resource.resource_type, resource_name=resource.resource_name)
        for resource, outcome in zip(resources, outcomes, strict=True)
    ]


def _each_resource(
    resources: Sequence[Any], decide: Callable[[Any], list[Change]]
) -> tuple[tuple[Change, ...], list[ErrorFields]]:
    twice = repeated((each.resource_type, each.resource_name) for each in resources)
    changes: list[Change] = []
    outcomes: list[ErrorFields] = []
    for resource in resources:
        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise InvalidRequest("each resource must appear at most once")
            changes += decide(resource)
            outcomes.append(FINE)
        except BrokerError as error:
            outcomes.append(refusal(error))
    return tuple(changes), outcomes


# --- what is to be set -----------------------------------------------------------------------------------------------


def _incremental_changes(
    image: ClusterImage, requested: incremental_alter_configs.AlterConfigsResource, rules: ConfigRules
) -> list[Change]:
    resource = _resource(image, requested, rules)
    _check_keys([each.name for each in requested.configs])
    _check_nulls([e.name for e in requested.configs if e.value is None and e.config_operation != Operation.DELETE])
    own = image.config(resource)
    values = {each.name: _new_value(own, each, _declared(resource, rules)) for each in requested.configs}
    return _changes(image, resource, values, values, rules)


def _replacing_changes(
    image: ClusterImage, requested: alter_configs.AlterConfigsResource, rules: ConfigRules
) -> list[Change]:
    resource = _resource(image, requested, rules)
    _check_keys([each.name for each in requested.configs])
    _check_nulls([each.name for each in requested.configs if each.value is None])
    requested_values = {each.name: each.value for each in requested.configs}
    # What is not named goes; a policy sees only what was named, because old policies were written for that.
    values: Values = {**dict.fromkeys(image.config(resource)), **requested_values}
    return _changes(image, resource, values, requested_values, rules)


def _resource(image: ClusterImage, requested: Any, rules: ConfigRules) -> ConfigResource:
    kinds = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
    if requested.resource_type not in kinds:
        raise InvalidRequest(f"unknown resource type {requested.resource_type}")
    resource = ConfigResource(ResourceType(requested.resource_type), requested.resource_name)
    if resource.type is ResourceType.BROKER and resource.name:
        if rules.is_controller:
            _check_known_node(image, resource.name)
        else:
            _check_own_broker(resource.name, rules)
    return resource


def _check_known_node(image: ClusterImage, name: str) -> None:
    """A controller keeps the settings of every node that it knows."""
    if _node_id(name) not in image.brokers and _node_id(name) not in image.controllers:
        raise BrokerIdNotRegistered(f"no broker with id {name} is registered")


def _node_id(name: str) -> int:
    if not name.isascii() or not name.isdigit():
        raise InvalidRequest(f"a node id must be an integer, but it is {name!r}")
    return int(name)


def _check_own_broker(name: str, rules: ConfigRules) -> None:
    if _node_id(name) != rules.broker_id:
        raise InvalidRequest(f"unexpected broker id, expected {rules.broker_id}, but received {name}")


def _check_keys(names: Sequence[str]) -> None:
    if twice := repeated(names):
        raise InvalidRequest(f"duplicate config keys: {', '.join(sorted(twice))}")


def _check_nulls(names: Sequence[str]) -> None:
    if names:
        raise InvalidRequest(f"null value not supported for: {', '.join(names)}")


def _declared(resource: ConfigResource, rules: ConfigRules) -> Mapping[str, Setting[Any]]:
    of: type[Settings] | Settings = {
        ResourceType.TOPIC: rules.topic,
        ResourceType.GROUP: rules.group,
        ResourceType.CLIENT_METRICS: rules.client_metrics,
    }.get(resource.type, rules.broker)
    return {each.name: each for each in of.declared()}


def _new_value(
    own: Mapping[str, str], config: incremental_alter_configs.AlterableConfig, declared: Mapping[str, Setting[Any]]
) -> str | None:
    if config.config_operation not in tuple(Operation):
        raise InvalidRequest(f"unknown operation type {config.config_operation}")
    if config.config_operation == Operation.DELETE:
        return None
    if config.config_operation == Operation.SET:
        return config.value
    setting = declared.get(config.name)
    if setting is None or setting.kind is not LIST:
        verb = Operation(config.config_operation).name
        raise InvalidConfig(f"can't {verb} to key {config.name} because its type is not LIST")
    parts = [part for part in (config.value or "").split(",") if part]
    present = _parts(own.get(config.name), setting)
    if config.config_operation == Operation.APPEND:
        return ",".join(dict.fromkeys([*present, *parts]))
    return ",".join(part for part in present if part not in parts)


def _parts(text: str | None, setting: Setting[Any]) -> list[str]:
    if text is None:
        text = "" if setting.default is REQUIRED else setting.text(setting.default)
    return [part for part in text.split(",") if part]


# --- may it be set ---------------------------------------------------------------------------------------------------


def _changes(
    image: ClusterImage, resource: ConfigResource, values: Values, named: Values, rules: ConfigRules
) -> list[Change]:
    own = image.config(resource)
    _check_values(image, resource, values)
    readable = rules.readable(own) if resource == rules.broker_resource else own
    after = {**readable, **values}
    _CHECKS[resource.type](image, resource, {name: text for name, text in after.items() if text is not None}, rules)
    _refuse_without_effect(resource, values, rules)
    stored = _stored(resource, values, rules)
    if rules.policy is not None:
        rules.policy(resource, named)
    # A broker's change is made even when nothing differs: files behind it (keys, certificates) may have changed.
    again = resource.type is ResourceType.BROKER
    changed = tuple((name, text) for name, text in stored.items() if again or own.get(name) != text)
    return [AlterConfig(resource, changed)] if changed else []


def _check_values(image: ClusterImage, resource: ConfigResource, values: Values) -> None:
    for name, text in values.items():
        if text is not None and len(text) > VALUE_LIMIT:
            raise InvalidConfig(f"the value of {name} has {len(text)} characters; the limit is {VALUE_LIMIT}")
    if resource.type is not ResourceType.BROKER or MIN_INSYNC not in values or not image.feature(ELIGIBLE_LEADERS):
        return
    if resource.name:
        raise InvalidConfig(f"broker-level {MIN_INSYNC} cannot be altered while {ELIGIBLE_LEADERS} is on")
    if values[MIN_INSYNC] is None:
        raise InvalidConfig(f"cluster-level {MIN_INSYNC} cannot be removed while {ELIGIBLE_LEADERS} is on")


def _refuse_without_effect(resource: ConfigResource, values: Values, rules: ConfigRules) -> None:
    for name, text in values.items():
        setting = _setting(resource, name, rules)
        mark = None if setting is None else setting.no_effect
        if setting is None or mark is None or mark.kind == "tuning" or text is None or setting.is_default(text):
            continue
        # As all that is wrong with a broker's settings, see 2.
        refused = InvalidRequest if resource.type is ResourceType.BROKER else InvalidConfig
        raise refused(f"{name} has no effect: {mark.sentence}")


def _stored(resource: ConfigResource, values: Values, rules: ConfigRules) -> Values:
    """The values as they are stored: a broker's secrets are encoded."""
    if resource.type is not ResourceType.BROKER:
        return values
    return {
        name: text if text is None or not rules.is_secret(name) else _encoded(name, text, rules)
        for name, text in values.items()
    }


def _encoded(name: str, text: str, rules: ConfigRules) -> str:
    try:
        encoded = rules.secrets.encode(text)
    except InvalidConfig as problem:
        raise InvalidRequest(f"{name} is a secret: {problem.detail}") from None
    if len(encoded) > VALUE_LIMIT:
        raise InvalidRequest(f"{name} has {len(encoded)} characters when it is encrypted; the limit is {VALUE_LIMIT}")
    return encoded


def _setting(resource: ConfigResource, name: str, rules: ConfigRules) -> Setting[Any] | None:
    if resource.type is ResourceType.BROKER:
        return rules.broker.setting_of(name)
    return _declared(resource, rules).get(name)


def check_topic_values(image: ClusterImage, values: Mapping[str, str], rules: ConfigRules) -> None:
    """InvalidConfig when a topic cannot have these values."""
    topic_defaults(image, rules).for_topic(values)


def _check_topic(image: ClusterImage, resource: ConfigResource, values: Mapping[str, str], rules: ConfigRules) -> None:
    if not resource.name:
        raise InvalidRequest("default topic resources are not allowed")
    check_name(resource.name)
    check_topic_values(image, values, rules)
    if image.topic(resource.name) is None:
        raise UnknownTopicOrPartition(f"the topic {resource.name!r} does not exist")


def _check_broker(image: ClusterImage, resource: ConfigResource, values: Mapping[str, str], rules: ConfigRules) -> None:
    single = [name for name in values if _is_per_broker(name, rules)]
    if single and not resource.name:
        names = ", ".join(sorted(single))
        raise InvalidRequest(
            f"cannot update these configs at default cluster level, broker id must be specified: {names}"
        )
    if rules.is_controller and resource.name and resource != rules.broker_resource:
        return  # that broker has checked it, before it passed it on
    try:
        broker_in_effect(image, rules).replaced(values, source=Source.DYNAMIC)
        if resource.name and rules.check_broker is not None:
            common = image.config(ALL_BROKERS)
            rules.check_broker(rules.broker.replaced({**common, **values}, source=Source.DYNAMIC))
    except InvalidConfig as problem:
        raise InvalidRequest(str(problem)) from problem


def _is_per_broker(name: str, rules: ConfigRules) -> bool:
    setting = rules.broker_settings.get(name)
    return setting is not None and setting.dynamic == "per-broker"


def _check_group(image: ClusterImage, resource: ConfigResource, values: Mapping[str, str], rules: ConfigRules) -> None:
    if not resource.name:
        raise InvalidRequest("default group resources are not allowed")
    rules.group(values)
    if rules.check_group is not None:
        rules.check_group(values)


def _check_metrics(
    image: ClusterImage, resource: ConfigResource, values: Mapping[str, str], rules: ConfigRules
) -> None:
    check_client_metrics(resource.name, values, rules.client_metrics, rules.check_pattern)


_CHECKS: Final[
    Mapping[ResourceType, Callable[[ClusterImage, ConfigResource, Mapping[str, str], ConfigRules], None]]
] = {
    ResourceType.TOPIC: _check_topic,
    ResourceType.BROKER: _check_broker,
    ResourceType.GROUP: _check_group,
    ResourceType.CLIENT_METRICS: _check_metrics,
}
