"""Settings: altered, described, listed."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cluster.changes import AlterConfig, Change, CreateTopic, RegisterBroker, SetFeature, apply_all
from ottla.cluster.config_layers import (
    ConfigRules,
    ConfigSource,
    PlainSecrets,
    TopicsInEffect,
    broker_in_effect,
    topic_in_effect,
)
from ottla.cluster.configs import alter_configs_plan, incremental_alter_configs_plan
from ottla.cluster.described import describe_configs, list_config_resources
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS, Broker, ConfigResource, Partition, ResourceType, Topic
from ottla.errors import ERRORS, InvalidConfig, InvalidSetting, PolicyViolation, UnsupportedVersion
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages import describe_configs as describing
from ottla.settings import LIST, LONG, Alias, NoEffect, Password, Settings, Source, setting

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


class BrokerSettings(Settings):
    log_retention_ms = setting(
        "log.retention.ms",
        LONG,
        default=None,
        synonyms=[Alias("log.retention.hours", lambda hours: int(hours) * 3_600_000)],
        dynamic="cluster-wide",
        doc="How long.",
    )
    num_partitions = setting("num.partitions", int, default=1, doc="How many.")
    max_connections = setting("max.connections", int, default=100, at_least=1, dynamic="cluster-wide", doc="How many.")
    log_cleanup_policy = setting("log.cleanup.policy", LIST, default=("delete",), dynamic="cluster-wide", doc="What.")
    min_insync_replicas = setting("min.insync.replicas", int, default=1, dynamic="cluster-wide", doc="How many.")
    ssl_key_password = setting("ssl.key.password", Password, default=None, dynamic="per-broker", doc="Secret.")
    group_consumer_session_timeout_ms = setting(
        "group.consumer.session.timeout.ms", int, default=45_000, dynamic="cluster-wide", doc="How long."
    )


class GroupSettings(Settings):
    consumer_session_timeout_ms = setting(
        "consumer.session.timeout.ms", int, default=45_000, at_least=1, doc="How long."
    )
    share_auto_offset_reset = setting(
        "share.auto.offset.reset",
        str,
        default="latest",
        no_effect=NoEffect("feature", "share groups are not served yet"),
        doc="Where.",
    )


def rules(**more: Any) -> ConfigRules:
    given = {"log.retention.hours": "2", "ssl.key.password": "swordfish"}
    return ConfigRules(1, BrokerSettings(given), GroupSettings, loggers={"root": "INFO", "ottla": "DEBUG"}, **more)


@pytest.fixture
def image() -> ClusterImage:
    first: list[Change] = [
        RegisterBroker(Broker(1, ())),
        CreateTopic(Topic("t", b"\1" * 16, (Partition((1,), (1,), 1),))),
    ]
    return apply_all(ClusterImage("c"), first)


def setting_of(image: ClusterImage, kind: int, name: str, **values: str) -> ClusterImage:
    texts = tuple((key.replace("_", "."), value) for key, value in values.items())
    return apply_all(image, [AlterConfig(ConfigResource(ResourceType(kind), name), texts)])


def code(answer: Any) -> str:
    found = ERRORS[answer.error_code]
    return "NONE" if found is None else found.name


def alter(image: ClusterImage, kind: int, name: str, *ops: tuple[str, int, str | None], **more: Any) -> tuple[Any, str]:
    configs = [incremental_alter_configs.AlterableConfig(name=k, config_operation=op, value=v) for k, op, v in ops]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    plan = incremental_alter_configs_plan(image, request, rules(**more))
    return plan, code(plan.answers[0])


def after(image: ClusterImage, kind: int, name: str, *ops: tuple[str, int, str | None], **more: Any) -> dict[str, str]:
    plan, outcome = alter(image, kind, name, *ops, **more)
    assert outcome == "NONE", plan.answers
    return dict(apply_all(image, plan.changes).config(ConfigResource(ResourceType(kind), name)))


def test_single_settings_are_set_and_deleted(image: ClusterImage) -> None:
    image = setting_of(image, TOPIC, "t", retention_ms="5", segment_ms="6")
    assert after(image, TOPIC, "t", ("retention.ms", SET, "7"), ("segment.ms", DELETE, None)) == {"retention.ms": "7"}


def test_lists_are_appended_to_and_subtracted_from_beginning_with_the_default(image: ClusterImage) -> None:
    once = after(image, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
    assert once == {"cleanup.policy": "delete,compact"}
    image = setting_of(image, TOPIC, "t", cleanup_policy="delete,compact")
    assert after(image, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == once
    assert after(image, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("kind", "name", "op", "expected"),
    [
        (TOPIC, "t", ("retention.ms", SET, "x"), "INVALID_CONFIG"),
        (TOPIC, "t", ("retention.sm", SET, "1"), "INVALID_CONFIG"),
        (TOPIC, "t", ("retention.ms", APPEND, "1"), "INVALID_CONFIG"),
        (TOPIC, "t", ("what", SUBTRACT, "1"), "INVALID_CONFIG"),
        (TOPIC, "t", ("retention.ms", SET, None), "INVALID_REQUEST"),
        (TOPIC, "t", ("retention.ms", 9, "1"), "INVALID_REQUEST"),
        (TOPIC, "t", ("cleanup.policy", SET, "compact" + "," * 32768), "INVALID_CONFIG"),
        (TOPIC, "missing", ("retention.ms", SET, "1"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "", ("retention.ms", SET, "1"), "INVALID_REQUEST"),
        (TOPIC, "a b", ("retention.ms", SET, "1"), "INVALID_TOPIC_EXCEPTION"),
        (3, "t", ("retention.ms", SET, "1"), "INVALID_REQUEST"),
        (BROKER, "1", ("num.partitions", SET, "4"), "INVALID_REQUEST"),
        (BROKER, "1", ("max.connections", SET, "0"), "INVALID_REQUEST"),
        (BROKER, "1", ("max.connection", SET, "1"), "INVALID_REQUEST"),
        (BROKER, "2", ("max.connections", SET, "1"), "INVALID_REQUEST"),
        (BROKER, "x", ("max.connections", SET, "1"), "INVALID_REQUEST"),
        (BROKER, "", ("ssl.key.password", SET, "1"), "INVALID_REQUEST"),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "1"), "INVALID_REQUEST"),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "0"), "INVALID_CONFIG"),
        (GROUP, "g", ("what", SET, "0"), "INVALID_CONFIG"),
        (METRICS, "", ("interval.ms", SET, "1000"), "INVALID_REQUEST"),
        (METRICS, "m", ("interval.ms", SET, "99"), "INVALID_REQUEST"),
        (METRICS, "m", ("what", SET, "99"), "INVALID_REQUEST"),
        (METRICS, "m", ("match", SET, "client_id=["), "INVALID_CONFIG"),
        (METRICS, "m", ("match", SET, "colour=red"), "INVALID_CONFIG"),
        (LOGGER, "1", ("ottla", SET, "LOUD"), "INVALID_CONFIG"),
        (LOGGER, "1", ("what", SET, "INFO"), "INVALID_CONFIG"),
        (LOGGER, "1", ("ottla", APPEND, "INFO"), "INVALID_REQUEST"),
        (LOGGER, "1", ("root", DELETE, None), "INVALID_REQUEST"),
        (LOGGER, "2", ("ottla", SET, "INFO"), "INVALID_REQUEST"),
    ],
)
def test_what_cannot_be_set_is_refused(
    image: ClusterImage, kind: int, name: str, op: tuple[str, int, str | None], expected: str
) -> None:
    plan, outcome = alter(image, kind, name, op)
    assert (outcome, plan.changes, plan.log_levels) == (expected, (), ())


@pytest.mark.parametrize(
    ("kind", "name", "op"),
    [
        (BROKER, "1", ("max.connections", SET, "7")),
        (BROKER, "1", ("ssl.key.password", SET, "7")),
        (BROKER, "", ("max.connections", SET, "7")),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "7")),
        (METRICS, "m", ("interval.ms", SET, "100")),
        (METRICS, "m", ("match", SET, "client_id=app-.*")),
    ],
)
def test_every_kind_of_resource_keeps_what_is_set(
    image: ClusterImage, kind: int, name: str, op: tuple[str, int, str]
) -> None:
    assert after(image, kind, name, op) == {op[0]: op[2]}


@pytest.mark.parametrize(
    ("kind", "name", "op"),
    [
        (TOPIC, "t", ("local.retention.bytes", SET, "7")),
        (GROUP, "g", ("share.auto.offset.reset", SET, "earliest")),
    ],
)
def test_what_has_no_effect_is_refused_with_the_reason(
    image: ClusterImage, kind: int, name: str, op: tuple[str, int, str]
) -> None:
    plan, outcome = alter(image, kind, name, op)
    assert outcome == "INVALID_CONFIG"
    assert plan.changes == ()
    assert any(words in plan.answers[0].error_message for words in ("not served", "not moved"))


class NoSecrets(PlainSecrets):
    def encode(self, text: str) -> str:
        raise InvalidSetting("all could read it")


class Reversed(PlainSecrets):
    def encode(self, text: str) -> str:
        return f"<{text[::-1]}>"

    def decode(self, text: str) -> str:
        if not text.startswith("<"):
            raise InvalidSetting("it is not reversed")
        return text[-2:0:-1]


def test_a_secret_is_refused_where_others_can_read_the_store(image: ClusterImage) -> None:
    plan, outcome = alter(image, BROKER, "1", ("ssl.key.password", SET, "swordfish2"), secrets=NoSecrets())
    assert (outcome, plan.changes) == ("INVALID_REQUEST", ())
    assert "swordfish2" not in plan.answers[0].error_message
    assert alter(image, BROKER, "1", ("ssl.key.password", DELETE, None), secrets=NoSecrets())[1] == "NONE"
    assert alter(image, BROKER, "1", ("max.connections", SET, "7"), secrets=NoSecrets())[1] == "NONE"


def test_a_secret_is_encoded_for_the_store_and_decoded_for_whoever_checks_it(image: ClusterImage) -> None:
    seen: list[object] = []

    def check(settings: Settings) -> None:
        seen.append(settings.written(Source.DYNAMIC))

    how: dict[str, Any] = {"secrets": Reversed(), "check_broker": check}
    image = apply_all(image, alter(image, BROKER, "1", ("ssl.key.password", SET, "swordfish2"), **how)[0].changes)
    assert image.config(ConfigResource(ResourceType.BROKER, "1")) == {"ssl.key.password": "<2hsifdrows>"}
    plan, outcome = alter(image, BROKER, "1", ("max.connections", SET, "7"), **how)
    assert outcome == "NONE"
    assert seen == [
        {"ssl.key.password": "swordfish2"},
        {"ssl.key.password": "swordfish2", "max.connections": "7"},
    ]
    assert "swordfish2" not in repr(plan.changes)


def test_a_secret_that_cannot_be_decoded_is_passed_over_and_can_be_replaced(
    image: ClusterImage, caplog: pytest.LogCaptureFixture
) -> None:
    image = setting_of(image, BROKER, "1", ssl_key_password="of another broker")
    assert after(image, BROKER, "1", ("ssl.key.password", SET, "ab"), secrets=Reversed()) == {
        "ssl.key.password": "<ba>"
    }
    assert "ssl.key.password is stored and not used: A setting" in caplog.text
    assert "of another broker" not in caplog.text


def test_what_was_set_without_effect_can_still_be_deleted(image: ClusterImage) -> None:
    image = setting_of(image, METRICS, "m", interval_ms="100")
    assert after(image, METRICS, "m", ("interval.ms", DELETE, None)) == {}


def test_a_resource_is_changed_as_a_whole_or_not_at_all(image: ClusterImage) -> None:
    plan, outcome = alter(image, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "x"))
    assert (outcome, plan.changes) == ("INVALID_CONFIG", ())
    plan, outcome = alter(image, TOPIC, "t", ("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    assert (outcome, plan.changes) == ("INVALID_REQUEST", ())


def test_a_value_that_is_there_already_is_no_change_except_for_brokers(image: ClusterImage) -> None:
    image = setting_of(setting_of(image, TOPIC, "t", retention_ms="5"), BROKER, "1", max_connections="5")
    assert alter(image, TOPIC, "t", ("retention.ms", SET, "5"))[0].changes == ()
    assert len(alter(image, BROKER, "1", ("max.connections", SET, "5"))[0].changes) == 1


def test_a_resource_named_twice_is_refused_twice(image: ClusterImage) -> None:
    one = incremental_alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[one, one], validate_only=False)
    answers = incremental_alter_configs_plan(image, request, rules()).answers
    assert [code(each) for each in answers] == ["INVALID_REQUEST"] * 2


def test_min_insync_replicas_is_guarded_while_eligible_leaders_are_on(image: ClusterImage) -> None:
    image = apply_all(image, [SetFeature("eligible.leader.replicas.version", 1)])
    assert alter(image, BROKER, "1", ("min.insync.replicas", SET, "2"))[1] == "INVALID_CONFIG"
    assert alter(image, BROKER, "", ("min.insync.replicas", DELETE, None))[1] == "INVALID_CONFIG"
    assert alter(image, BROKER, "", ("min.insync.replicas", SET, "2"))[1] == "NONE"


def test_log_levels_are_planned_and_not_stored(image: ClusterImage) -> None:
    plan, outcome = alter(image, LOGGER, "1", ("ottla", SET, "WARN"), ("root", SET, "ERROR"))
    assert (outcome, plan.changes, plan.log_levels) == ("NONE", (), (("ottla", "WARN"), ("root", "ERROR")))


def test_a_policy_and_the_limits_of_groups_are_asked(image: ClusterImage) -> None:
    seen = []

    def policy(resource: ConfigResource, values: Any) -> None:
        seen.append((resource, dict(values)))
        raise PolicyViolation

    def check_group(values: Any) -> None:
        raise InvalidConfig

    assert alter(image, TOPIC, "t", ("retention.ms", SET, "5"), policy=policy)[1] == "POLICY_VIOLATION"
    assert seen == [((2, "t"), {"retention.ms": "5"})]
    op = ("consumer.session.timeout.ms", SET, "5")
    assert alter(image, GROUP, "g", op, check_group=check_group)[1] == "INVALID_CONFIG"


def replace_all(
    image: ClusterImage, kind: int, name: str, values: dict[str, str | None], *, only_check: bool = False
) -> Any:
    configs = [alter_configs.AlterableConfig(name=key, value=value) for key, value in values.items()]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=only_check)
    return alter_configs_plan(image, request, rules())


def test_alter_configs_replaces_everything(image: ClusterImage) -> None:
    image = setting_of(image, TOPIC, "t", retention_ms="5", segment_ms="6")
    plan = replace_all(image, TOPIC, "t", {"segment.ms": "7"})
    assert apply_all(image, plan.changes).topic_config("t") == {"segment.ms": "7"}
    assert replace_all(image, TOPIC, "t", {"segment.ms": "7"}, only_check=True).changes == ()
    assert code(replace_all(image, TOPIC, "t", {"segment.ms": None}).answers[0]) == "INVALID_REQUEST"
    assert code(replace_all(image, LOGGER, "1", {"ottla": "INFO"}).answers[0]) == "INVALID_REQUEST"


# --- what is told ---


def describe(image: ClusterImage, kind: int, name: str, *keys: str, everything: bool = True) -> Any:
    resource = describing.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = describing.DescribeConfigsRequest(
        resources=[resource], include_synonyms=everything, include_documentation=everything
    )
    (result,) = describe_configs(image, request, rules())
    return result


def levels(entry: Any) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


def test_a_topic_setting_tells_every_layer(image: ClusterImage) -> None:
    image = setting_of(image, TOPIC, "t", retention_ms="5")
    image = setting_of(setting_of(image, BROKER, "1", log_retention_ms="6"), BROKER, "", log_retention_ms="7")
    (entry,) = describe(image, TOPIC, "t", "retention.ms").configs
    assert (entry.name, entry.value, entry.config_source) == ("retention.ms", "5", ConfigSource.TOPIC)
    assert levels(entry) == [
        ("retention.ms", "5", ConfigSource.TOPIC),
        ("log.retention.ms", "6", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "7", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "2", ConfigSource.STATIC_BROKER),
    ]
    assert (entry.config_type, entry.read_only, entry.is_sensitive) == (5, False, False)
    assert "kept" in entry.documentation


def test_names_of_older_units_are_told_after_the_first_name_only(image: ClusterImage) -> None:
    """As Kafka does: a file with log.retention.hours alone leaves retention.ms a default with another value."""
    (entry,) = describe(image, TOPIC, "t", "retention.ms").configs
    assert (entry.value, entry.config_source, levels(entry)) == ("7200000", ConfigSource.DEFAULT, [])
    image = setting_of(image, BROKER, "", log_retention_ms="7")
    (entry,) = describe(image, BROKER, "1", "log.retention.ms").configs
    assert levels(entry) == [
        ("log.retention.ms", "7", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "2", ConfigSource.STATIC_BROKER),
    ]


def test_a_number_is_told_as_it_is_read_not_as_it_was_written(image: ClusterImage) -> None:
    image = setting_of(image, TOPIC, "t", min_cleanable_dirty_ratio="0.70")
    (entry,) = describe(image, TOPIC, "t", "min.cleanable.dirty.ratio").configs
    assert levels(entry)[0] == ("min.cleanable.dirty.ratio", "0.7", ConfigSource.TOPIC)


def test_what_only_topics_have_has_no_level_below_the_topic(image: ClusterImage) -> None:
    (entry,) = describe(image, TOPIC, "t", "leader.replication.throttled.replicas").configs
    assert (entry.value, levels(entry)) == ("", [])


def test_a_topic_inherits_what_the_broker_decides(image: ClusterImage) -> None:
    assert topic_in_effect(image, "t", rules()).retention_ms == 2 * 3_600_000
    image = setting_of(image, BROKER, "", log_retention_ms="7")
    assert topic_in_effect(image, "t", rules()).retention_ms == 7
    (entry,) = describe(image, TOPIC, "t", "retention.ms").configs
    assert (entry.value, entry.config_source) == ("7", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_what_a_topic_has_is_remembered_until_a_setting_changes(image: ClusterImage) -> None:
    remembered = TopicsInEffect(rules())
    assert remembered.of(image, "t") is remembered.of(image, "t")
    changed = setting_of(image, BROKER, "", log_retention_ms="7")
    assert remembered.of(changed, "t").retention_ms == 7
    assert remembered.of(image, "t").retention_ms == 2 * 3_600_000


def test_topics_without_settings_of_their_own_share_one_object(image: ClusterImage) -> None:
    image = setting_of(image, TOPIC, "t", retention_ms="7")
    remembered = TopicsInEffect(rules())
    assert remembered.of(image, "one") is remembered.of(image, "other")
    assert remembered.of(image, "t").retention_ms == 7
    assert remembered.of(image, "other") == topic_in_effect(image, "other", rules())


def test_topics_that_are_gone_are_not_remembered_for_ever(image: ClusterImage) -> None:
    remembered = TopicsInEffect(rules())
    for number in range(1_000):
        remembered.of(image, f"gone-{number}")
    assert len(remembered._found) < 200


def test_synonyms_and_documentation_are_told_on_demand_only(image: ClusterImage) -> None:
    for entry in describe(image, TOPIC, "t", everything=False).configs:
        assert (entry.synonyms, entry.documentation) == ([], None)
    names = [entry.name for entry in describe(image, TOPIC, "t").configs]
    assert "retention.ms" in names
    assert "internal.segment.bytes" not in names


def test_a_broker_tells_its_settings_but_no_secret(image: ClusterImage) -> None:
    image = setting_of(image, BROKER, "1", max_connections="6", ssl_key_password="hunter2")
    told = {entry.name: entry for entry in describe(image, BROKER, "1").configs}
    assert (told["max.connections"].value, told["max.connections"].config_source) == ("6", ConfigSource.DYNAMIC_BROKER)
    assert levels(told["max.connections"])[-1] == ("max.connections", "100", ConfigSource.DEFAULT)
    assert told["num.partitions"].read_only
    assert not told["max.connections"].read_only
    assert told["log.retention.ms"].value == str(2 * 3_600_000)
    secret = told["ssl.key.password"]
    assert (secret.value, secret.is_sensitive, secret.config_type) == (None, True, 9)
    assert levels(secret) == [
        ("ssl.key.password", None, ConfigSource.DYNAMIC_BROKER),
        ("ssl.key.password", None, ConfigSource.STATIC_BROKER),
    ]
    assert "hunter2" not in repr(told)
    assert "swordfish" not in repr(told)


def test_all_brokers_tell_only_what_was_set_for_all(image: ClusterImage) -> None:
    image = setting_of(setting_of(image, BROKER, "", max_connections="6"), BROKER, "1", max_connections="7")
    (entry,) = describe(image, BROKER, "").configs
    assert (entry.name, entry.value, entry.config_source) == (
        "max.connections",
        "6",
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
    )
    assert levels(entry) == [("max.connections", "6", ConfigSource.DYNAMIC_DEFAULT_BROKER)]


def test_a_group_inherits_from_the_broker(image: ClusterImage) -> None:
    image = setting_of(image, BROKER, "", group_consumer_session_timeout_ms="9")
    told = {entry.name: entry for entry in describe(image, GROUP, "g").configs}
    session = told["consumer.session.timeout.ms"]
    assert (session.value, session.config_source) == ("9", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert levels(told["share.auto.offset.reset"]) == [("share.auto.offset.reset", "latest", ConfigSource.DEFAULT)]
    image = setting_of(image, GROUP, "g", consumer_session_timeout_ms="8")
    (session,) = describe(image, GROUP, "g", "consumer.session.timeout.ms").configs
    assert (session.value, session.config_source) == ("8", ConfigSource.GROUP)


def test_client_metrics_and_loggers_are_told(image: ClusterImage) -> None:
    image = setting_of(image, METRICS, "m", interval_ms="100")
    told = {entry.name: (entry.value, entry.config_source) for entry in describe(image, METRICS, "m").configs}
    assert told["interval.ms"] == ("100", ConfigSource.CLIENT_METRICS)
    assert told["match"] == ("", ConfigSource.DEFAULT)
    told = {entry.name: (entry.value, entry.config_source) for entry in describe(image, LOGGER, "1").configs}
    assert told == {"root": ("INFO", 6), "ottla": ("DEBUG", 6)}


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (TOPIC, "x", "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "a b", "INVALID_TOPIC_EXCEPTION"),
        (BROKER, "2", "INVALID_REQUEST"),
        (BROKER, "x", "INVALID_REQUEST"),
        (LOGGER, "", "INVALID_REQUEST"),
        (GROUP, "", "INVALID_REQUEST"),
        (METRICS, "", "INVALID_REQUEST"),
        (77, "x", "INVALID_REQUEST"),
    ],
)
def test_what_cannot_be_told_is_refused(image: ClusterImage, kind: int, name: str, expected: str) -> None:
    result = describe(image, kind, name)
    assert (code(result), result.configs) == (expected, [])


def test_a_stored_value_that_is_not_accepted_any_more_is_passed_over(
    image: ClusterImage, caplog: pytest.LogCaptureFixture
) -> None:
    image = apply_all(image, [AlterConfig(ALL_BROKERS, (("max.connections", "7"), ("was.once", "1")))])
    assert broker_in_effect(image, rules()).as_dict()["max.connections"] == 7
    assert "was.once" in caplog.text
    image = setting_of(image, TOPIC, "t", retention_ms="5", was_once="1", segment_ms="no")
    settings = topic_in_effect(image, "t", rules())
    assert (settings.retention_ms, settings.segment_ms) == (5, 604_800_000)


def test_resources_are_listed_by_type(image: ClusterImage) -> None:
    image = setting_of(setting_of(image, METRICS, "m", interval_ms="100"), GROUP, "g", consumer_session_timeout_ms="8")

    def listed(types: list[int], version: int = 1) -> list[tuple[int, str]]:
        return [
            (each.resource_type, each.resource_name) for each in list_config_resources(image, types, version=version)
        ]

    assert listed([]) == [(2, "t"), (4, "1"), (8, "1"), (16, "m"), (32, "g")]
    assert listed([GROUP, TOPIC]) == [(2, "t"), (32, "g")]
    assert listed([], version=0) == [(16, "m")]
    with pytest.raises(UnsupportedVersion):
        listed([TOPIC], version=0)
    with pytest.raises(UnsupportedVersion):
        listed([3])
