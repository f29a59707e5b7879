"""From security settings to logins that really happen, over memory."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable

import pytest
from tests.unit.client.fake_cluster import FakeCluster, run

from ottla.client.security import Security, security_of
from ottla.client.settings import ClientSettings
from ottla.errors import (
    AuthenticationFailed,
    InvalidSetting,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from ottla.net.sasl.oauthbearer import unsecured_token
from ottla.net.sasl.oauthbearer_server import read_first
from ottla.net.sasl.plain import read_plain
from ottla.net.sasl.scram import scram_keys
from ottla.net.sasl.scram_server import Credential, Decoys, ScramServer
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.schema import Message
from ottla.testing.clock import ManualClock

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def security(**settings: object) -> Security:
    given = ClientSettings(**{"bootstrap_servers": "a:1", "security_protocol": "SASL_PLAINTEXT", **settings})
    return security_of(given, clock=ManualClock(), random=random.Random(1))


class FakeLogin:
    """A broker's half: the user alice with the password pencil, or the tokens that are taken."""

    def __init__(self, mechanisms: list[str], *, session_ms: int = 0, tokens: Callable[[str], bool] = bool) -> None:
        self.mechanisms = mechanisms
        self.session_ms = session_ms
        self.tokens = tokens
        self.is_complete = False
        self.extensions: dict[str, str] = {}
        self._step: Callable[[bytes], bytes] = self._plain

    def answer(self, request: Message) -> Message:
        if isinstance(request, SaslHandshakeRequest):
            return self._handshake(request.mechanism)
        assert isinstance(request, SaslAuthenticateRequest)
        try:
            said = self._step(bytes(request.auth_bytes))
        except AuthenticationFailed as error:
            return SaslAuthenticateResponse(error_code=58, error_message=str(error), auth_bytes=b"")
        return SaslAuthenticateResponse(error_code=0, auth_bytes=said, session_lifetime_ms=self.session_ms)

    def _handshake(self, mechanism: str) -> Message:
        if mechanism not in self.mechanisms:
            return SaslHandshakeResponse(error_code=33, mechanisms=self.mechanisms)
        if mechanism.startswith("SCRAM"):
            alice = Credential(scram_keys(mechanism, "pencil", salt=b"salt", iterations=4096), "alice")
            self._scram = ScramServer(
                mechanism,
                lambda user, *_: alice if user == "alice" else None,
                decoys=Decoys(b"s"),
                random_bytes=random.Random(5).randbytes,
            )
            self._step = self._scram_step
        elif mechanism == "OAUTHBEARER":
            self._step = self._token
        return SaslHandshakeResponse(error_code=0, mechanisms=self.mechanisms)

    def _plain(self, message: bytes) -> bytes:
        if read_plain(message) != ("alice", "pencil"):
            raise AuthenticationFailed("wrong")
        self.is_complete = True
        return b""

    def _scram_step(self, message: bytes) -> bytes:
        said = self._scram.answered(message)
        self.is_complete = self._scram.identity is not None
        return said

    def _token(self, message: bytes) -> bytes:
        if message == b"\x01":
            raise AuthenticationFailed("bad token")
        token, extensions, _ = read_first(message)
        self.extensions = dict(extensions)
        self.is_complete = self.tokens(token)
        return b"" if self.is_complete else b'{"status":"invalid_token"}'


def logs_in(login: Callable[[], FakeLogin], **settings: object) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        for broker in cluster.brokers.values():
            broker.login = login
        client = cluster.client(security_protocol="SASL_PLAINTEXT", **settings)
        try:
            await client.refresh_metadata(timeout_ms=5000)
            await client.ready(2, timeout_ms=5000)
        finally:
            await client.close()

    run(scenario)


# --- logins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_and_a_password_are_enough(mechanism: str) -> None:
    logs_in(lambda: FakeLogin([mechanism]), sasl_mechanism=mechanism, sasl_username="alice", sasl_password="pencil")


def test_the_words_of_kafka_python() -> None:
    given = {"sasl_plain_username": "alice", "sasl_plain_password": "pencil"}
    logs_in(lambda: FakeLogin(["PLAIN"]), sasl_mechanism="PLAIN", **given)


@pytest.mark.parametrize(("module", "mechanism"), [(PLAIN, "PLAIN"), (SCRAM, "SCRAM-SHA-512")])
def test_the_words_of_java(module: str, mechanism: str) -> None:
    jaas = f'{module} required username="alice" password="pencil";'
    logs_in(lambda: FakeLogin([mechanism]), sasl_mechanism=mechanism, sasl_jaas_config=jaas)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_raised_at_once_and_not_tried_again(mechanism: str) -> None:
    with pytest.raises(SaslAuthenticationFailed) as failed:
        logs_in(lambda: FakeLogin([mechanism]), sasl_mechanism=mechanism, sasl_username="alice", sasl_password="wrong")
    assert "Check the user name" in str(failed.value)


def test_a_mechanism_the_broker_does_not_have_is_told_with_those_it_has() -> None:
    with pytest.raises(UnsupportedSaslMechanism, match="the broker offers SCRAM-SHA-512"):
        logs_in(lambda: FakeLogin(["SCRAM-SHA-512"]), sasl_mechanism="PLAIN", sasl_username="a", sasl_password="b")


def test_passwords_are_in_no_log_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(SaslAuthenticationFailed) as failed:
        logs_in(lambda: FakeLogin(["PLAIN"]), sasl_mechanism="PLAIN", sasl_username="alice", sasl_password="hunter2")
    assert "hunter2" not in caplog.text + str(failed.value)


def test_a_session_that_ends_is_renewed_on_the_same_connection() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        logins: list[FakeLogin] = []

        def login() -> FakeLogin:
            logins.append(FakeLogin(["PLAIN"], session_ms=10_000))
            return logins[-1]

        cluster.brokers[1].login = cluster.brokers[2].login = login
        settings = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "pencil"}
        client = cluster.client(security_protocol="SASL_PLAINTEXT", **settings)
        await client.ready(-1, timeout_ms=1000)
        asked = cluster.brokers[1].asked("SaslAuthenticate")
        await cluster.clock.advance(9_600)
        assert cluster.brokers[1].asked("SaslAuthenticate") == asked + 1
        assert len(cluster.brokers[1].doors) == 1
        await client.close()

    run(scenario)


# --- tokens ----------------------------------------------------------------------------------------------------------


def with_tokens(provider: object, *, takes: Callable[[str], bool] = bool, **settings: object) -> None:
    logs_in(
        lambda: FakeLogin(["OAUTHBEARER"], tokens=takes),
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_provider=provider,
        **settings,
    )


def test_a_function_gives_the_token() -> None:
    with_tokens(lambda: "abc", takes=lambda token: token == "abc")


def test_an_async_function_gives_the_token() -> None:
    async def provide() -> str:
        await asyncio.sleep(0)
        return "abc"

    with_tokens(provide, takes=lambda token: token == "abc")


def test_the_callback_of_confluent_kafka_gives_the_token_and_its_end() -> None:
    logs_in(
        lambda: FakeLogin(["OAUTHBEARER"], tokens=lambda token: token == "abc"),
        sasl_mechanism="OAUTHBEARER",
        oauth_cb=lambda config: ("abc", 1_800_000_000.0),
    )


def test_the_provider_of_kafka_python_gives_the_token() -> None:
    class Provider:
        def token(self) -> str:
            return "abc"

    with_tokens(Provider(), takes=lambda token: token == "abc")


def test_java_makes_a_token_without_a_signature_of_its_jaas_entry() -> None:
    jaas = f'{OAUTH} required unsecuredLoginStringClaim_sub="alice" extension_traceId="7";'
    logins: list[FakeLogin] = []

    def login() -> FakeLogin:
        logins.append(FakeLogin(["OAUTHBEARER"]))
        return logins[-1]

    logs_in(login, sasl_mechanism="OAUTHBEARER", sasl_jaas_config=jaas)
    assert logins[0].extensions == {"traceId": "7"}


def test_a_token_that_is_not_taken_is_raised() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="bad token"):
        with_tokens(lambda: "abc", takes=lambda token: False)


@pytest.mark.parametrize("provider", [lambda: 7, lambda: None, lambda: ("x",)])
def test_what_is_no_token_is_told(provider: Callable[[], object]) -> None:
    with pytest.raises(AuthenticationFailed, match="must give a text"):
        with_tokens(provider)


def test_a_provider_that_fails_is_told_without_its_words() -> None:
    def fail() -> str:
        raise RuntimeError("secret inside")

    with pytest.raises(AuthenticationFailed, match="RuntimeError") as failed:
        with_tokens(fail)
    assert "secret inside" not in str(failed.value)


def test_a_token_is_renewed_before_it_ends() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        given: list[str] = []

        async def provide() -> str:
            now_s = cluster.clock.now_ms() / 1000
            given.append(unsecured_token({"sub": "a", "exp": now_s + 100}))
            return given[-1]

        used: list[str] = []
        for broker in cluster.brokers.values():
            broker.login = lambda: FakeLogin(["OAUTHBEARER"], tokens=lambda token: not used.append(token))  # type: ignore[func-returns-value]
        client = cluster.client(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            oauth_cb=provide,
            metadata_max_age_ms=10**9,
        )
        await client.ready(-1, timeout_ms=1000)
        await client.ready(-1, timeout_ms=1000)
        assert (len(given), used) == (1, given)
        await _until(lambda: len(given) == 2, cluster, 81_000)
        await client.refresh_metadata(timeout_ms=1000)
        await client.ready(2, timeout_ms=1000)
        assert used[-1] == given[-1]
        await client.close()

    run(scenario)


async def _until(condition: Callable[[], bool], cluster: FakeCluster, advance_ms: float) -> None:
    """Time passes by the clock, but a provider is called in a thread, which has a time of its own."""
    await cluster.clock.advance(advance_ms)
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not happen")


# --- what is refused before there is a connection ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sasl_mechanism": "DIGEST-MD5"}, "DIGEST-MD5 is not there; choose one of PLAIN"),
        ({"sasl_mechanism": "PLAIN"}, r"needs sasl\.username and sasl\.password"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": "a"}, r"needs sasl\.username"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": "a\0", "sasl_password": "b"}, "NUL"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": f"{SCRAM} required;"}, "wants PlainLoginModule"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_jaas_config": f"{PLAIN} required;"},
            "only one of them",
        ),
        ({"sasl_mechanism": "OAUTHBEARER"}, r"sasl\.oauthbearer\.token\.provider"),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_method": "oidc"}, r"token\.endpoint\.url"),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": "https://x"}, "client"),
        (
            {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "file:///etc/passwd",
                "sasl_oauthbearer_client_id": "i",
                "sasl_oauthbearer_client_secret": "s",
            },
            "https://",
        ),
    ],
)
def test_what_cannot_work_is_refused_at_once(settings: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidSetting, match=why):
        security(**settings)


def test_a_context_of_ones_own_is_used_and_excludes_the_others() -> None:
    context = ssl.create_default_context()
    assert security(security_protocol="SSL", ssl_context=context).tls is context
    with pytest.raises(InvalidSetting, match=r"ssl\.context and ssl\.truststore\.location"):
        security(security_protocol="SSL", ssl_context=context, ssl_cafile="x")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"ssl_truststore_type": "JKS", "ssl_truststore_location": "x.jks"}, "x.jks cannot be read"),
        ({"ssl_keystore_password": "x"}, r"no ssl\.keystore\.location"),
        ({"ssl_truststore_password": "x"}, r"no ssl\.truststore\.location"),
        ({"ssl_cafile": "nowhere.pem"}, "cannot be read"),
        ({"ssl_protocol": "TLSv1.2", "ssl_enabled_protocols": "TLSv1.3"}, r"below all of ssl\.enabled\.protocols"),
    ],
)
def test_tls_that_cannot_work_is_refused_at_once(settings: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidSetting, match=why):
        security(security_protocol="SSL", **settings)


def test_plaintext_needs_nothing() -> None:
    assert security(security_protocol="PLAINTEXT") == Security()
