"""Delegation tokens from end to end: made by somebody with a password, used by somebody without, and their end.

Our broker with logins, our clients, over a socket of this machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla import Admin, Consumer, Producer, aio
from ottla.client.admin.credentials import DelegationToken, Principal, ScramMechanism, ScramUpsertion
from ottla.errors import (
    AuthenticationFailed,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
)
from ottla.testing import KafkaBroker
from ottla.values import TopicPartition

MODULE = "org.apache.kafka.common.security"
SECRET_KEY = "shared by all brokers"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required"
    ' username="admin" password="admin-secret" user_admin="admin-secret" user_alice="pencil" user_bob="crayon";',
    "delegation.token.secret.key": SECRET_KEY,
    "connection.failed.authentication.delay.ms": "0",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(SETTINGS) as running:
        yield running


def by_password(broker: KafkaBroker, user: str = "alice", password: str = "pencil") -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


def by_token(
    broker: KafkaBroker, token: DelegationToken, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        **token.login_settings(mechanism),
    }


@pytest.fixture
def alice(broker: KafkaBroker) -> Iterator[Admin]:
    with Admin(by_password(broker)) as admin:
        yield admin


@pytest.fixture
def token(alice: Admin) -> Iterator[DelegationToken]:
    made = alice.create_delegation_token(timeout=HANG_S)
    yield made
    if made.token_id in {each.token_id for each in alice.describe_delegation_tokens(timeout=HANG_S)}:
        alice.expire_delegation_token(made.hmac, timeout=HANG_S)


@pytest.mark.parametrize("mechanism", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_records_are_written_and_read_with_a_token(
    broker: KafkaBroker, token: DelegationToken, mechanism: ScramMechanism
) -> None:
    topic = f"by-token-{mechanism.name.lower()}"
    login = by_token(broker, token, mechanism)
    with Producer(login) as producer:
        producer.send(topic, b"by a token").result(HANG_S)
    with Consumer({**login, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        (record,) = consumer.poll(HANG_S)
        assert record.value == b"by a token"


def test_who_came_by_a_token_cannot_handle_tokens(broker: KafkaBroker, token: DelegationToken) -> None:
    with Admin(by_token(broker, token)) as admin:
        for call in (
            admin.create_delegation_token,
            admin.describe_delegation_tokens,
            lambda **limit: admin.renew_delegation_token(token.hmac, **limit),
            lambda **limit: admin.expire_delegation_token(token.hmac, **limit),
        ):
            with pytest.raises(DelegationTokenRequestNotAllowed):
                call(timeout=HANG_S)


def test_a_token_is_renewed_by_its_owner_and_its_renewers(broker: KafkaBroker, alice: Admin) -> None:
    token = alice.create_delegation_token(renewers=[Principal("User", "bob")], max_lifetime_ms=3_600_000)
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 3_600_000
    assert alice.renew_delegation_token(token.hmac, period_ms=60_000) < token.expiry_timestamp_ms
    with Admin(by_password(broker, "bob", "crayon")) as bob:
        assert bob.renew_delegation_token(token.hmac) == token.max_timestamp_ms
        assert token.token_id in {each.token_id for each in bob.describe_delegation_tokens()}
    with Admin(by_password(broker, "admin", "admin-secret")) as admin, pytest.raises(DelegationTokenOwnerMismatch):
        admin.renew_delegation_token(token.hmac)
    alice.expire_delegation_token(token.hmac)
    with pytest.raises(DelegationTokenNotFound):
        alice.renew_delegation_token(token.hmac)


def test_a_token_that_is_gone_logs_nobody_in(broker: KafkaBroker, alice: Admin) -> None:
    token = alice.create_delegation_token()
    alice.expire_delegation_token(token.hmac)
    with pytest.raises(AuthenticationFailed), Admin(by_token(broker, token)) as admin:
        admin.list_topics(timeout=HANG_S)


def test_a_token_is_no_password_of_a_user_and_a_password_no_token(broker: KafkaBroker, alice: Admin) -> None:
    alice.alter_user_scram_credentials([ScramUpsertion("carol", "chalk")])
    carol = {**by_password(broker, "carol", "chalk"), "sasl.mechanism": "SCRAM-SHA-512"}
    with Admin(carol) as admin:
        token = admin.create_delegation_token()
        assert token.owner == Principal("User", "carol")
    jaas = token.login_settings()["sasl.jaas.config"]
    for wrong in (jaas.replace(' tokenauth="true"', ""), jaas.replace(token.token_id, "carol")):
        login = {**by_token(broker, token), "sasl.jaas.config": wrong}
        with pytest.raises(AuthenticationFailed), Admin(login) as admin:
            admin.list_topics(timeout=HANG_S)


def test_a_session_ends_with_its_token(broker: KafkaBroker, alice: Admin) -> None:
    token = alice.create_delegation_token(max_lifetime_ms=1_500)
    with Admin(by_token(broker, token)) as admin:
        admin.list_topics(timeout=HANG_S)
        with pytest.raises(AuthenticationFailed):
            ask_until_refused(admin)


def ask_until_refused(admin: Admin) -> None:
    """When the session is over the client must log in again, and cannot."""
    while True:
        admin.list_topics(timeout=HANG_S)


def test_the_same_calls_in_asyncio(broker: KafkaBroker) -> None:
    async def calls() -> None:
        async with aio.Admin(by_password(broker)) as admin:
            token = await admin.create_delegation_token(timeout=HANG_S)
            assert await admin.renew_delegation_token(token.hmac, timeout=HANG_S) >= token.expiry_timestamp_ms
            told = await admin.describe_delegation_tokens([Principal("User", "alice")], timeout=HANG_S)
            assert {each.token_id: each.hmac for each in told}[token.token_id] == token.hmac
            await admin.expire_delegation_token(token.hmac, timeout=HANG_S)

    asyncio.run(calls())
