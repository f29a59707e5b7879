"""Nothing that can be set is ignored in silence, and nothing that seems to protect does nothing.

What a setting does is not listed by hand: the sources are searched for somebody who reads it."""

from __future__ import annotations

import ast
import logging
from functools import cache
from pathlib import Path

import pytest

import ottla
from ottla.broker.quotas import limits
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.access import AUTHORIZERS
from ottla.broker.settings.dynamic import DynamicSettings
from ottla.broker.settings.group_level import LIMITS, GroupLevelSettings
from ottla.broker.settings.without_effect import warnings, without_effect_table
from ottla.cluster import quotas
from ottla.cluster.client_metrics import ClientMetricsSettings
from ottla.cluster.config_layers import ConfigRules
from ottla.cluster.configs import incremental_alter_configs_plan
from ottla.cluster.image import ClusterImage
from ottla.errors import InvalidRequest, InvalidSetting
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.storage.settings import TopicSettings
from ottla.testing.broker import KafkaBroker

SOURCE = Path(ottla.__file__).parent
ROOMS = ("broker", "cluster", "storage", "tables")
FILES = ("table_settings.py",)  # the worker of a table reads its settings, not the broker
READ_ELSEWHERE = {"ottla.log.level", "ottla.log.format"}  # by the command that starts a broker, which sets up the logs
EVERY = [
    (group, each)
    for group in (BrokerSettings, TopicSettings, GroupLevelSettings, ClientMetricsSettings)
    for each in group.declared()
]
MARKED = [(group, each) for group, each in EVERY if each.no_effect is not None]
PROTECTIONS = sorted(each.name for group, each in MARKED if each.no_effect.kind == "protection")
OTHER_THAN_DEFAULT = {
    "zookeeper.ssl.crl.enable": "true",
    "zookeeper.ssl.ocsp.enable": "true",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "1",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "1",
    "sasl.oauthbearer.assertion.claim.jti.include": "true",
    "sasl.oauthbearer.assertion.algorithm": "ES256",
}


@cache
def attributes_read() -> frozenset[str]:
    """Every name that is read as an attribute where brokers are made of."""
    names = set()
    inside = [each for room in ROOMS for each in (SOURCE / room).rglob("*.py")]
    for path in (*inside, *(SOURCE / name for name in FILES)):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
    return frozenset(names)


def is_read(each) -> bool:
    """Directly, or as a limit of what groups set, or because a setting that is read falls back to it."""
    heirs = [other for _, other in EVERY if each.name in [alias.name for alias in (*other.synonyms, *other.aliases)]]
    limits = {name for limit in LIMITS.values() for name in limit}
    read = attributes_read()
    own = each.attribute in read or each.name in READ_ELSEWHERE or each.name in limits
    return own or any(other.attribute in read for other in heirs)


@pytest.mark.parametrize("group", [BrokerSettings, TopicSettings, GroupLevelSettings], ids=lambda each: each.__name__)
def test_a_setting_that_nobody_reads_says_that_it_has_no_effect(group) -> None:
    silent = [each.name for each in group.declared() if each.no_effect is None and not is_read(each)]
    assert silent == [], "either something acts on these, or their declarations get a `no_effect`"


def test_a_setting_that_somebody_reads_does_not_say_that_it_has_no_effect() -> None:
    limits = {name for limit in LIMITS.values() for name in limit}
    read = {each.name for group, each in MARKED if group is BrokerSettings and each.attribute in attributes_read()}
    assert read - limits == set(), "these act, so the mark `no_effect` goes"


def test_a_reason_says_why_in_words() -> None:
    for _, each in MARKED:
        assert not each.no_effect.sentence.endswith("."), each.name
        assert f"No effect here: {each.no_effect.sentence}." in each.documentation


def test_the_document_has_the_table_of_the_declarations() -> None:
    document = SOURCE.parents[1] / "docs" / "settings.md"
    if not document.exists():
        pytest.skip("the documents are not installed with the package; run it in the repository")
    assert without_effect_table() in document.read_text(), "write what without_effect_table() returns into the document"


# --- at the start ----------------------------------------------------------------------------------------------------


def other_value(name: str) -> str:
    if name in OTHER_THAN_DEFAULT:
        return OTHER_THAN_DEFAULT[name]
    return "something"


@pytest.mark.parametrize("name", PROTECTIONS)
def test_what_would_only_seem_to_protect_is_refused_with_the_reason(name) -> None:
    declared = BrokerSettings.setting_of(name)
    with pytest.raises(InvalidSetting) as refused:
        BrokerSettings({name: other_value(name)})
    assert f"would protect nobody: {declared.no_effect.sentence}" in str(refused.value)
    assert name in str(refused.value)
    assert not declared.sensitive or other_value(name) not in str(refused.value)


@pytest.mark.parametrize("name", PROTECTIONS)
def test_the_default_of_such_a_setting_misleads_nobody(name) -> None:
    declared = BrokerSettings.setting_of(name)
    if declared.default is not None:
        BrokerSettings({name: declared.text(declared.default)})


def test_it_is_refused_for_a_single_listener_too() -> None:
    for name, value in (("principal.builder.class", "org.example.Builder"), ("ssl.provider", "SunJSSE")):
        with pytest.raises(InvalidSetting, match=rf"listener\.name\.plaintext\.{name}.* would protect nobody"):
            BrokerSettings({f"listener.name.plaintext.{name}": value})


MEMBER = {"zookeeper.connect": "127.0.0.1:2181", "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
BY_LOGIN = {**MEMBER, "security.inter.broker.protocol": "SASL_PLAINTEXT"}
BY_ADDRESS = {"zookeeper.connect": "127.0.0.1:2181", "listeners": "PLAINTEXT://127.0.0.1:0"}


@pytest.mark.parametrize("others", [{}, BY_ADDRESS])
def test_super_users_without_an_authorizer_are_refused_however_the_broker_starts(others) -> None:
    with pytest.raises(InvalidSetting, match="without an authorizer everybody may do everything"):
        BrokerSettings({"super.users": "User:admin", **others})
    with pytest.raises(InvalidSetting, match="without an authorizer everybody may do everything"):
        KafkaBroker({"super.users": "User:admin", **others})


def test_super_users_may_name_the_brokers_of_a_cluster_and_the_broker_says_that_they_do_no_more() -> None:
    settings = BrokerSettings({"super.users": "User:admin", **BY_LOGIN})
    assert warnings(settings) == [
        "super.users only names brokers: without authorizer.class.name everybody may do everything"
    ]
    assert warnings(settings.replaced({"authorizer.class.name": AUTHORIZERS[0]})) == []


ENCODER = {
    "password.encoder.secret": "hunter2",
    "password.encoder.old.secret": "hunter1",
    "password.encoder.cipher.algorithm": "AES/GCM/NoPadding",
    "password.encoder.iterations": "5000",
}


@pytest.mark.parametrize("name", ENCODER)
def test_what_encrypts_secrets_in_zookeeper_is_refused_where_there_is_none(name) -> None:
    with pytest.raises(InvalidSetting, match=f"{name} would protect nobody") as refused:
        BrokerSettings({name: ENCODER[name]})
    assert "hunter" not in str(refused.value)
    BrokerSettings({**BY_ADDRESS, **ENCODER})


def test_what_was_set_without_effect_is_named_in_one_line_by_reason() -> None:
    assert warnings(BrokerSettings()) == []
    assert warnings(BrokerSettings({"num.partitions": "2", "num.io.threads": "8"})) == []
    set_ones = {"num.io.threads": "9", "num.network.threads": "4", "unstable.api.versions.enable": "true"}
    assert warnings(BrokerSettings(set_ones)) == [
        "set, but without effect: num.io.threads, num.network.threads (one loop serves everything, there are no such "
        "threads); unstable.api.versions.enable (unstable versions of APIs are not offered)"
    ]


# --- while running ---------------------------------------------------------------------------------------------------


def test_what_only_tunes_kafka_may_change_and_is_logged(caplog) -> None:
    dynamic = DynamicSettings(BrokerSettings())
    with caplog.at_level(logging.WARNING):
        dynamic.replace("cluster-wide", {"num.io.threads": "16"})
    assert "changed while running, but without effect: num.io.threads (one loop" in caplog.text


def test_what_would_only_seem_to_protect_cannot_change() -> None:
    dynamic = DynamicSettings(BrokerSettings())
    with pytest.raises(InvalidSetting, match="would protect nobody"):
        dynamic.replace("per-broker", {"principal.builder.class": "org.example.Builder"})
    assert dynamic.current == BrokerSettings()


def test_everything_that_can_change_while_running_acts_or_only_tunes_or_is_refused() -> None:
    """So no change while running is accepted and then means something that does not happen."""
    changing = [each for group, each in MARKED if group is BrokerSettings and each.dynamic is not None]
    assert {each.no_effect.kind for each in changing} <= {"tuning", "feature", "protection"}
    assert {each.name for each in changing if each.no_effect.kind == "tuning"} == {
        *("num.network.threads", "num.io.threads", "background.threads", "num.recovery.threads.per.data.dir"),
        *("group.coordinator.cached.buffer.max.bytes", "share.coordinator.cached.buffer.max.bytes"),
        *("sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter"),
        *("sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds"),
        *("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"),
        *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor"),
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("principal.builder.class", "org.example.Builder"),
        ("metric.reporters", "org.example.Reporter"),
        ("listener.name.plaintext.ssl.provider", "SunJSSE"),
    ],
)
def test_a_change_without_effect_is_answered_with_the_reason(name, value) -> None:
    reason = BrokerSettings.setting_of(name).no_effect.sentence
    code, message = altered(name, value)
    assert code == InvalidRequest.code
    assert reason in message


@pytest.mark.parametrize(
    ("name", "value"), [("num.io.threads", "16"), ("metric.reporters", ""), ("max.connections", "9")]
)
def test_a_change_that_acts_or_only_tunes_or_is_the_default_is_accepted(name, value) -> None:
    assert altered(name, value) == (0, None)


def altered(name: str, value: str) -> tuple[int, str | None]:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    per_broker = name.startswith("listener.") or BrokerSettings.setting_of(name).dynamic == "per-broker"
    resource = AlterConfigsResource(resource_type=4, resource_name="1" if per_broker else "", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    rules = ConfigRules(1, BrokerSettings(), GroupLevelSettings)
    (answer,) = incremental_alter_configs_plan(ClusterImage("c"), request, rules).answers
    return answer.error_code, answer.error_message


# --- quotas ----------------------------------------------------------------------------------------------------------


def test_every_quota_that_can_be_set_has_somebody_who_measures_it() -> None:
    """The names in broker/quotas/limits.py are those that AlterClientQuotas accepts, and each is used."""
    accepted = {*quotas._CLIENT_KEYS, *quotas._IP_KEYS}
    constants = {name: value for name, value in vars(limits).items() if isinstance(value, str) and value in accepted}
    assert set(constants.values()) == accepted
    nodes = [node for path in (SOURCE / "broker").rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert constants.keys() - used == set()
