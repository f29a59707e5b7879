"""Delegation tokens in one cluster of Apache Kafka 3.9 and Ottla: made, renewed and ended by either side, for both.

Needs Java and Kafka's jars (tests/conformance/kafka_jars.py): run by `make test-long`. Without Java,
tests/unit/cluster/test_delegation_tokens.py holds our text of a token against Kafka's.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.patience import HANG_S

from ottla.client.admin.admin import Admin
from ottla.client.admin.credentials import DelegationToken, Principal
from ottla.cluster.token_text import read_token, token_text
from ottla.errors import AuthenticationFailed
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.testing import KafkaBroker
from ottla.testing.zookeeper import missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from kazoo.client import KazooClient
from tests.cluster.mixed_cluster import KAFKAS_OWN, SMALL_JVM, STARTED
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.secure_broker import MODULE, free_ports
from tests.conformance.transaction_probes import Wire

from ottla.cluster.store.zookeeper.server import ZooKeeperServer

pytestmark = pytest.mark.long

USERS = 'username="admin" password="a" user_admin="a" user_alice="pencil" user_bob="crayon"'
COMMON = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.login.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required {USERS};",
    "listener.name.login.scram-sha-512.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
    "delegation.token.secret.key": "shared by both sides",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
}


class Both(NamedTuple):
    """Where each side asks for logins, and the ZooKeeper of both."""

    kafka: str
    ours: str
    zookeeper: str

    def admin(self, address: str, user: str = "alice", password: str = "pencil") -> Admin:
        login = {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}
        return Admin({"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT", **login})

    def accepts(self, address: str, token: DelegationToken) -> bool:
        login = {"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT", **token.login_settings()}
        try:
            with Admin(login) as admin:
                admin.list_topics(timeout=HANG_S)
        except AuthenticationFailed:
            return False
        return True


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    jars, scratch = jars_or_skip("3.9"), tmp_path_factory.mktemp("tokens")
    zookeeper = ZooKeeperServer(scratch / "zookeeper")
    zookeeper.start()
    kafka, address = begin_kafka(jars, scratch, zookeeper.connect)
    try:
        wait_for(lambda: STARTED.search((scratch / "kafka.log").read_bytes()) is not None)
        listeners = {"listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0"}
        settings = {**COMMON, **listeners, "broker.id": "0", "zookeeper.connect": zookeeper.connect}
        with KafkaBroker(settings, directory=scratch / "ours") as ours:
            (login,) = [each for each in ours.info.endpoints if each.listener == "LOGIN"]
            yield Both(address, f"127.0.0.1:{login.port}", zookeeper.connect)
    finally:
        kafka.kill()
        kafka.wait(HANG_S)
        zookeeper.stop()


def begin_kafka(jars: Path, scratch: Path, zookeeper: str) -> tuple[subprocess.Popen[bytes], str]:
    plain, login = free_ports(2)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},LOGIN://127.0.0.1:{login}"
    settings = {
        **KAFKAS_OWN,
        **COMMON,
        "broker.id": 1,
        "listeners": listeners,
        "log.dirs": scratch / "kafka",
        "zookeeper.connect": zookeeper,
    }
    properties = scratch / "kafka.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with (scratch / "kafka.log").open("wb") as log:
        command = ["java", *SMALL_JVM, "-cp", f"{jars}/*", "kafka.Kafka", str(properties)]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    return process, f"127.0.0.1:{login}"


def wait_for(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG_S
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def kept_text(both: Both, token_id: str) -> str:
    client = KazooClient(both.zookeeper)
    client.start(timeout=HANG_S)
    try:
        return str(client.get(f"/delegation_token/tokens/{token_id}")[0], "utf-8")
    finally:
        client.stop()
        client.close()


def created(wire: Wire, renewer: str) -> DelegationToken:
    """A token of alice's, made by that very broker."""
    log_in(wire)
    renewers = [CreatableRenewers(principal_type="User", principal_name=renewer)]
    made = wire.ask(CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1), 3)
    assert made.error_code == 0
    alice, times = (
        Principal("User", "alice"),
        (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms),
    )
    return DelegationToken(made.token_id, alice, alice, *times, hmac=bytes(made.hmac))


def log_in(wire: Wire) -> None:
    assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert wire.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0pencil"), 2).error_code == 0


def told(address: str, token_id: str) -> Any:
    """What that very broker tells of a token: an admin client would ask any of them."""
    with Wire(address) as wire:
        log_in(wire)
        answer = wire.ask(DescribeDelegationTokenRequest(owners=None), 3)
    assert answer.error_code == 0
    return next((each for each in answer.tokens if each.token_id == token_id), None)


def test_a_token_of_kafkas_works_on_our_side(both: Both) -> None:
    with Wire(both.kafka) as wire:
        token = created(wire, "bob")
    wait_for(lambda: told(both.ours, token.token_id) == told(both.kafka, token.token_id) is not None)
    assert both.accepts(both.ours, token)
    text = kept_text(both, token.token_id)
    assert token_text(read_token(token.token_id, text)) == text, "byte for byte"
    with both.admin(both.ours, "bob", "crayon") as bob:
        expiry_ms = bob.renew_delegation_token(token.hmac, period_ms=3_600_000, timeout=HANG_S)
    for side in (both.ours, both.kafka):
        wait_for(lambda side=side: told(side, token.token_id).expiry_timestamp == expiry_ms)  # type: ignore[misc]
    with both.admin(both.kafka) as alice:
        alice.expire_delegation_token(token.hmac, timeout=HANG_S)
    wait_for(lambda: told(both.ours, token.token_id) is None)
    assert not both.accepts(both.ours, token)


def test_a_token_of_ours_works_on_kafkas_side(both: Both) -> None:
    with Wire(both.ours) as wire:
        token = created(wire, "bob, the builder")
    assert told(both.ours, token.token_id) is not None
    wait_for(lambda: told(both.kafka, token.token_id) == told(both.ours, token.token_id))
    assert both.accepts(both.kafka, token)
    with both.admin(both.kafka) as alice:
        expiry_ms = alice.renew_delegation_token(token.hmac, timeout=HANG_S)
        for side in (both.ours, both.kafka):
            wait_for(lambda side=side: told(side, token.token_id).expiry_timestamp == expiry_ms)  # type: ignore[misc]
        alice.expire_delegation_token(token.hmac, timeout=HANG_S)
    wait_for(lambda: told(both.kafka, token.token_id) is None)
    wait_for(lambda: told(both.ours, token.token_id) is None)
    assert not both.accepts(both.kafka, token)
