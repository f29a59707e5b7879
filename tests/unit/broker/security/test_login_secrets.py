"""No secret of a login is shown: not in logs at their most talkative, errors, metrics, reprs or settings."""

from __future__ import annotations

import logging
import secrets

import pytest
from tests.unit.broker.security.logins import NOW, SCRAM, Rules, handshake, token

from ottla import Admin
from ottla.broker.security.login import Login
from ottla.errors import OttlaError
from ottla.net.sasl.plain import PlainUsers
from ottla.net.sasl.scram import scram_keys
from ottla.net.sasl.scram_server import Credential
from ottla.testing import KafkaBroker

RIGHT, WRONG, TOKEN = (secrets.token_hex(12) for _ in range(3))


def test_a_broker_says_nothing_of_what_clients_and_settings_told_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},OAUTHBEARER",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{RIGHT}";'
        ),
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
            "OAuthBearerUnsecuredValidatorCallbackHandler"
        ),
        "connection.failed.authentication.delay.ms": 0,
    }
    said = []
    with KafkaBroker(settings) as broker:
        for mechanism in ("PLAIN", SCRAM, "OAUTHBEARER"):
            secret = {"sasl_username": "alice", "sasl_password": WRONG}
            if mechanism == "OAUTHBEARER":
                secret = {"sasl_oauthbearer_token_provider": lambda: f"{TOKEN}.{TOKEN}.{TOKEN}"}  # type: ignore[dict-item]
            client = {
                "bootstrap_servers": broker.bootstrap_servers,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": mechanism,
                **secret,
            }
            with pytest.raises(OttlaError) as refused, Admin(**client) as admin:
                admin.list_topics()
            said.append(repr(refused.value) + str(refused.value))
        with Admin(**{**client, "sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": RIGHT}) as admin:
            admin.list_topics()
        said.append(broker.call(lambda server: server.registry.text(0)))
        said.append(broker.call(lambda server: repr(vars(server.broker.settings)) + repr(server.settings)))
    shown = caplog.text + "".join(said)
    assert "no login" in caplog.text
    for secret_text in (RIGHT, WRONG, TOKEN):
        assert secret_text not in shown


def test_nothing_that_holds_a_secret_shows_it() -> None:
    login = Login(Rules())
    login.received(handshake(SCRAM), NOW)
    login.received(token(b"n,,n=alice,r=abc"), NOW)
    keys = scram_keys(SCRAM, RIGHT, salt=RIGHT.encode(), iterations=4096)
    shown = repr(PlainUsers({"alice": RIGHT}, key=b"k")) + repr(Credential(keys, "alice")) + repr(vars(login))
    assert RIGHT not in shown
    assert keys.stored_key.hex() not in shown
