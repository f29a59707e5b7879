"""How a broker logs in at the others: from its settings, and what is refused at the start."""

from __future__ import annotations

from random import Random

import pytest

from ottla.broker.security.own_login import own_login, own_principal
from ottla.broker.settings import BrokerSettings
from ottla.errors import InvalidSetting
from ottla.testing.clock import ManualClock

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
BASE = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
}
KEY = "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TOKENS = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
URL, ALLOWED = "sasl.oauthbearer.token.endpoint.url", "ottla.oauthbearer.allowed.urls"
OAUTH = {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
TICKETS = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
GSSAPI = {"sasl.enabled.mechanisms": "GSSAPI", "sasl.mechanism.inter.broker.protocol": "GSSAPI"}
KEYTAB = f'{KERBEROS} required useKeyTab=true keyTab="/k" principal="kafka/host@REALM";'
RULES = "sasl.kerberos.principal.to.local.rules"
JAAS = f'{SCRAM} required username="b" password="hunter2";'


def test_brokers_without_login_need_none() -> None:
    settings = BrokerSettings({"listeners": "PLAINTEXT://127.0.0.1:0"})
    assert own_login(lambda: settings, ManualClock(), Random(1)) is None


@pytest.mark.parametrize("key", [KEY, "sasl.jaas.config", "listener.name.sasl_plaintext.sasl.jaas.config"])
def test_the_secret_may_stand_for_the_mechanism_the_listener_or_all(key: str) -> None:
    settings = BrokerSettings({**BASE, key: JAAS})
    assert own_login(lambda: settings, ManualClock(), Random(1)) is not None


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "must have ScramLoginModule"),
        ({KEY: JAAS.replace(SCRAM, PLAIN)}, "must have ScramLoginModule"),
        ({KEY: f'{SCRAM} required password="hunter2";'}, "a username and a password"),
        ({KEY: f'{SCRAM} required username="b";'}, "a username and a password"),
        ({KEY: 'com.evil.Module required username="b" password="hunter2";'}, "not known"),
        ({KEY: JAAS, "sasl.enabled.mechanisms": "PLAIN"}, "offers PLAIN"),
        ({KEY: JAAS, "sasl.mechanism.inter.broker.protocol": "NTLM"}, "brokers log in with"),
        (OAUTH, "must have OAuthBearerLoginModule"),
        ({**OAUTH, TOKENS: f"{BEARER} required;"}, "token.endpoint.url"),
        ({**OAUTH, TOKENS: f"{BEARER} required;", URL: "https://idp/token"}, "allowed.urls"),
        (
            {**OAUTH, TOKENS: f"{BEARER} required;", URL: "https://idp/token", ALLOWED: "https://idp/token"},
            "client id and secret",
        ),
        ({**GSSAPI, TICKETS: f"{KERBEROS} required;"}, "principal=.* and keyTab="),
        ({**GSSAPI, TICKETS: KEYTAB.replace("@REALM", "")}, "principal=.* and keyTab="),
        ({**GSSAPI, TICKETS: KEYTAB.replace("keyTab", "other")}, "principal=.* and keyTab="),
        ({**GSSAPI, TICKETS: KEYTAB, RULES: "RULE:[1:$1]"}, "would not let this one in"),
    ],
)
def test_what_cannot_work_is_refused_without_showing_a_secret(values: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidSetting, match=why) as refused:
        own_login(lambda: BrokerSettings({**BASE, **values}), ManualClock(), Random(1))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("rules", "name"), [("DEFAULT", "kafka"), ("RULE:[2:$1-$2]", "kafka-host")])
def test_a_broker_with_a_ticket_is_known_by_its_short_name(rules: str, name: str) -> None:
    settings = BrokerSettings({**BASE, **GSSAPI, TICKETS: KEYTAB, RULES: rules})
    assert own_principal(settings) == f"User:{name}"
