"""A cluster whose listener wants a login: brokers log in at each other, and strangers do not get far."""

from __future__ import annotations

import pytest

from ottla import Admin, NewTopic, Producer
from ottla.broker.security.first_users import FirstUser
from ottla.errors import SaslAuthenticationFailed
from ottla.testing import KafkaCluster

MODULE = "org.apache.kafka.common.security"
PLAIN = f'{MODULE}.plain.PlainLoginModule required username="broker" password="b-pw" user_broker="b-pw" user_al="a-pw";'
SCRAM = f'{MODULE}.scram.ScramLoginModule required username="broker" password="b-pw";'
LISTENER = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "security.inter.broker.protocol": "SASL_PLAINTEXT"}


def settings(mechanism: str, jaas: str) -> dict[str, object]:
    return {
        **LISTENER,
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": jaas,
    }


def as_user(cluster: KafkaCluster, mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": user,
        "sasl_password": password,
    }


def test_brokers_log_in_with_tokens() -> None:
    tokens = f'{MODULE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    handler = f"{MODULE}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    key = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
    with KafkaCluster(brokers=2, settings={**settings("OAUTHBEARER", tokens), key: handler}) as cluster:
        user = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_jaas_config": tokens.replace("broker", "al"),
        }
        with Admin(**user) as admin:
            admin.create_topics([NewTopic("clicks", 1, 2)])
        cluster.wait_for_copies("clicks", 1, 2)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_brokers_log_in_at_each_other(mechanism: str) -> None:
    users = [] if mechanism == "PLAIN" else [FirstUser("broker", "b-pw"), FirstUser("al", "a-pw")]
    jaas = PLAIN if mechanism == "PLAIN" else SCRAM
    with KafkaCluster(brokers=3, settings=settings(mechanism, jaas), users=users) as cluster:
        user = as_user(cluster, mechanism, "al", "a-pw")
        with Admin(**user) as admin:
            admin.create_topics([NewTopic("clicks", 2, 3)])
        with Producer(**user) as producer:
            for number in range(20):
                producer.send("clicks", f"{number}".encode())
            producer.flush()
        cluster.check_replicas("clicks", 2)
        with pytest.raises(SaslAuthenticationFailed), Admin(**as_user(cluster, mechanism, "al", "wrong")) as admin:
            admin.list_topics()
