"""Logins: the vectors of the RFCs, both halves against each other, and what a hostile other side may say."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import AuthenticationFailed, InvalidSetting, SaslAuthenticationFailed, UnsupportedSaslMechanism
from ottla.net.connection import ApiVersionTable
from ottla.net.handshake import Ask, Authenticated
from ottla.net.sasl.authenticator import SaslAuthenticator
from ottla.net.sasl.oauthbearer import OAuthBearerClient, Token, claims_of, unsecured_token
from ottla.net.sasl.oauthbearer_server import read_first
from ottla.net.sasl.plain import PlainClient, read_plain
from ottla.net.sasl.scram import ScramClient, ScramKeys, scram_keys
from ottla.net.sasl.scram_server import Credential, Decoys, ScramServer
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.schema import Versions

VERSIONS = ApiVersionTable({17: Versions(0, 1), 36: Versions(0, 2)})
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


def scram_client(mechanism: str = "SCRAM-SHA-256", password: str = "pencil") -> ScramClient:
    nonce = base64.b64decode("rOprNGfwEbeRWgbNEkqO")
    return ScramClient(mechanism, "user", password, random_bytes=lambda _: nonce)


def server_for(mechanism: str, users: dict[str, ScramKeys]) -> ScramServer:
    def credential_of(user: str, _: str, is_token: bool) -> Credential | None:
        return Credential(users[user], user) if user in users else None

    return ScramServer(mechanism, credential_of, decoys=Decoys(b"secret"), random_bytes=random.Random(1).randbytes)


# --- SCRAM -----------------------------------------------------------------------------------------------------------


def test_the_example_of_rfc_7677() -> None:
    client = scram_client()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = client.answered(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert client.answered(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@given(NAMES, NAMES, st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]), st.booleans())
def test_both_halves_understand_each_other(user: str, password: str, mechanism: str, token: bool) -> None:
    keys = scram_keys(mechanism, password, salt=b"salt", iterations=4096)
    server = server_for(mechanism, {user: keys})
    client = ScramClient(mechanism, user, password, random_bytes=random.Random(2).randbytes, token=token)
    final = client.answered(server.answered(client.first()))
    assert final is not None
    assert client.answered(server.answered(final)) is None
    assert server.identity is not None
    assert (server.identity.name, server.identity.by_token) == (user, token)


@pytest.mark.parametrize("user", ["user", "nobody"])
def test_a_wrong_password_and_an_unknown_user_look_the_same(user: str) -> None:
    keys = scram_keys("SCRAM-SHA-256", "right", salt=b"s", iterations=4096)
    client = ScramClient("SCRAM-SHA-256", user, "wrong", random_bytes=random.Random(2).randbytes)
    server = server_for("SCRAM-SHA-256", {"user": keys})
    final = client.answered(server.answered(client.first()))
    assert final is not None
    with pytest.raises(AuthenticationFailed, match=f"user '{user}' or the password is wrong"):
        server.answered(final)
    assert server.identity is None


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    client = scram_client()
    client.answered(b"r=rOprNGfwEbeRWgbNEkqOxyz,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(AuthenticationFailed, match="may be a stranger"):
        client.answered(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=c2FsdA==,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO,s=c2FsdA==,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=1",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=4095",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=100001",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=999999999",
        b"r=rOprNGfwEbeRWgbNEkqOx,s=???,i=4096",
        b"e=unknown-user",
        b"\xff\xfe",
        b"",
    ],
)
def test_a_challenge_that_is_not_safe_ends_the_login(challenge: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        scram_client().answered(challenge)


@pytest.mark.parametrize("count", [4_096, 100_000])
def test_as_many_iterations_as_are_safe_are_made(count: int) -> None:
    assert scram_client().answered(b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=%d" % count)


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_of_a_client_break_the_server(message: bytes, after_first: bool) -> None:
    server = server_for("SCRAM-SHA-256", {"user": scram_keys("SCRAM-SHA-256", "p", salt=b"s", iterations=4096)})
    if after_first:
        server.answered(scram_client().first())
    with pytest.raises(AuthenticationFailed):
        server.answered(message)
    assert server.identity is None


def test_a_login_for_somebody_else_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match="somebody else"):
        server_for("SCRAM-SHA-256", {}).answered(b"n,a=admin,n=user,r=abc")


# --- PLAIN -----------------------------------------------------------------------------------------------------------


@given(NAMES, NAMES)
def test_plain_is_read_as_it_was_said(user: str, password: str) -> None:
    client = PlainClient(user, password)
    assert read_plain(client.first()) == (user, password)
    assert client.answered(b"") is None


@pytest.mark.parametrize("message", [b"", b"\0a", b"\0\0p", b"\0u\0", b"admin\0user\0p", b"\xff\0u\0p", b"\0a\0b\0c"])
def test_other_bytes_are_no_plain_login(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        read_plain(message)


def test_plain_needs_both_and_no_nul() -> None:
    for user, password in [("", "p"), ("u", ""), ("u\0", "p")]:
        with pytest.raises(InvalidSetting):
            PlainClient(user, password)


# --- OAUTHBEARER -----------------------------------------------------------------------------------------------------


def test_the_form_of_rfc_7628() -> None:
    client = OAuthBearerClient(Token("abc.def-1"), {"traceId": "7"})
    assert client.first() == b"n,,\x01auth=Bearer abc.def-1\x01traceId=7\x01\x01"
    assert read_first(client.first()) == ("abc.def-1", {"traceId": "7"}, "")
    assert client.answered(b"") is None


def test_a_refusal_is_acknowledged_and_then_told() -> None:
    client = OAuthBearerClient(Token("abc"))
    assert client.answered(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        client.answered(b"")


@pytest.mark.parametrize("token", ["", "two words", "abc\x01auth=x", "ä"])
def test_what_is_no_token_is_not_sent(token: str) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        OAuthBearerClient(Token(token))
    assert not token or token not in str(failed.value)


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": ""}, {"a": "x\x01y"}])
def test_an_extension_that_could_be_something_else_is_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting):
        OAuthBearerClient(Token("abc"), extensions)


def test_claims_are_found_in_a_token_and_nothing_in_other_texts() -> None:
    assert claims_of(unsecured_token({"sub": "alice", "exp": 5})) == {"sub": "alice", "exp": 5}
    assert claims_of("opaque") == {}
    assert claims_of("a.b.c") == {}


# --- the exchange ----------------------------------------------------------------------------------------------------


def test_a_login_from_handshake_to_session() -> None:
    authenticator = SaslAuthenticator(PlainClient("user", "pencil"))
    assert authenticator.start(VERSIONS) == Ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    step = authenticator.answered(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
    assert step == Ask(SaslAuthenticateRequest(auth_bytes=b"\0user\0pencil"), 2)
    done = authenticator.answered(SaslAuthenticateResponse(error_code=0, auth_bytes=b"", session_lifetime_ms=5000))
    assert done == Authenticated(5000)


def test_a_mechanism_that_is_not_offered_is_told_with_those_that_are() -> None:
    authenticator = SaslAuthenticator(PlainClient("user", "pencil"))
    authenticator.start(VERSIONS)
    with pytest.raises(UnsupportedSaslMechanism, match=r"sasl\.mechanism is PLAIN, the broker offers GSSAPI, SCRAM"):
        authenticator.answered(SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-512", "GSSAPI"]))


def test_a_refused_login_has_the_brokers_words() -> None:
    authenticator = SaslAuthenticator(PlainClient("user", "pencil"))
    authenticator.start(VERSIONS)
    authenticator.answered(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
    with pytest.raises(SaslAuthenticationFailed, match="Invalid username or password"):
        authenticator.answered(
            SaslAuthenticateResponse(error_code=58, error_message="Invalid username or password", auth_bytes=b"")
        )


@pytest.mark.parametrize("ranges", [{}, {17: Versions(0, 0), 36: Versions(0, 2)}, {17: Versions(0, 1)}])
def test_a_broker_without_the_framed_exchange_is_refused(ranges: dict[int, Versions]) -> None:
    with pytest.raises(AuthenticationFailed):
        SaslAuthenticator(PlainClient("user", "pencil")).start(ApiVersionTable(ranges))


def test_secrets_are_not_printed() -> None:
    keys = scram_keys("SCRAM-SHA-256", "pencil", salt=b"s", iterations=4096)
    shown = repr([PlainClient("user", "pencil"), scram_client(), OAuthBearerClient(Token("pencil")), Token("pencil")])
    shown += repr(read_plain(b"\0user\0pencil")) + repr(SaslAuthenticateRequest(auth_bytes=b"\0user\0pencil"))
    assert "pencil" not in shown
    assert repr(keys) == "ScramKeys(iterations=4096)"
