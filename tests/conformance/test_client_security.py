"""Our client logs in at Apache Kafka: every mechanism it has, with and without TLS, and what it says when it may not.

One broker with a port for each way. Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping

import pytest
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.conformance.secure_broker import MODULE, REAUTH_MS, Doors, secure_broker
from tests.conformance.transaction_probes import Wire
from tests.unit.net.sasl.test_scram_server import final_of

from ottla.client.network import NetworkClient
from ottla.client.settings import ClientSettings
from ottla.errors import (
    AuthenticationFailed,
    NotConnected,
    OttlaError,
    SaslAuthenticationFailed,
    broker_error,
)
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command"),
]


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    try:
        jars = find_jars("4.3")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    with secure_broker(jars, tmp_path_factory.mktemp("kafka")) as doors:
        yield doors


def describe(settings: Mapping[str, object], *, stay_s: float = 0) -> int:
    """Log in, learn of the cluster and talk to its broker, again after a while; gives the number of brokers."""

    async def visit() -> int:
        client = NetworkClient.from_settings(ClientSettings(**settings))
        try:
            await client.refresh_metadata(timeout_ms=20_000)
            await client.ready(1, timeout_ms=20_000)
            await asyncio.sleep(stay_s)
            await client.refresh_metadata(timeout_ms=20_000)
            return len(client.metadata.nodes())
        finally:
            await client.close()

    return asyncio.run(visit())


@pytest.mark.parametrize("door", ["LOGIN", "BOTH"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_logs_in(doors: Doors, door: str, mechanism: str) -> None:
    login = {"sasl_mechanism": mechanism, "sasl_username": "alice", "sasl_password": "pencil"}
    assert describe(doors.settings(door, **login)) == 1


@pytest.mark.parametrize("door", ["LOGIN", "BOTH"])
def test_a_token_is_taken(doors: Doors, door: str) -> None:
    jaas = f'{MODULE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";'
    assert describe(doors.settings(door, sasl_mechanism="OAUTHBEARER", sasl_jaas_config=jaas)) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told(doors: Doors, mechanism: str) -> None:
    login = {"sasl_mechanism": mechanism, "sasl_username": "alice", "sasl_password": "wrong"}
    with pytest.raises(AuthenticationFailed, match="did not accept the credentials"):
        describe(doors.settings("LOGIN", **login))


class KafkasServer:
    """The server's half of SCRAM at Apache Kafka, as the tests of ours want it (tests/unit/net/sasl)."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        assert self._wire.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1).error_code == 0

    def answered(self, message: bytes) -> bytes:
        answer = self._wire.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message)
        return bytes(answer.auth_bytes)


def test_kafka_refuses_the_nonce_of_an_old_librdkafka_as_we_do(doors: Doors) -> None:
    address = f"127.0.0.1:{doors.ports['LOGIN']}"
    with Wire(address) as wire:
        login = KafkasServer(wire)
        assert login.answered(final_of(login, user="alice").encode()).startswith(b"v=")
    with Wire(address) as wire:
        login = KafkasServer(wire)
        final = final_of(login, user="alice", repeated="abc")
        with pytest.raises(SaslAuthenticationFailed, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
            login.answered(final.encode())


def test_a_session_is_renewed_while_the_client_stays(doors: Doors) -> None:
    login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice", "sasl_password": "pencil"}
    assert describe(doors.settings("LOGIN", **login), stay_s=2.5 * REAUTH_MS / 1000) == 1


def test_tls_alone(doors: Doors) -> None:
    assert describe(doors.settings("TLS")) == 1


def test_a_client_that_shows_its_certificate(doors: Doors) -> None:
    papers = {"ssl_certfile": str(doors.papers.client), "ssl_keyfile": str(doors.papers.client_key)}
    assert describe(doors.settings("MUTUAL", **papers)) == 1


def test_a_client_that_has_none_is_not_let_in(doors: Doors) -> None:
    with pytest.raises(OttlaError):
        describe(doors.settings("MUTUAL"))


def test_a_broker_nobody_vouches_for_is_not_trusted(doors: Doors) -> None:
    with pytest.raises(AuthenticationFailed, match="is not trusted"):
        describe(doors.settings("TLS", ssl_cafile=str(doors.papers.other_ca)))


def test_plaintext_at_a_tls_port_is_explained(doors: Doors) -> None:
    settings = {"bootstrap_servers": f"localhost:{doors.ports['TLS']}"}
    with pytest.raises(NotConnected, match=r"TLS.*security\.protocol here is PLAINTEXT"):
        describe(settings)


def test_no_login_where_one_is_wanted_is_explained(doors: Doors) -> None:
    settings = {"bootstrap_servers": f"127.0.0.1:{doors.ports['LOGIN']}"}
    with pytest.raises(AuthenticationFailed, match=r"wants a login by .*: set it to SASL_PLAINTEXT"):
        describe(settings)
