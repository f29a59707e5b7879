"""Tokens at the server: what is read, what is believed, and what is refused by its algorithm, key or claims."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from ottla.errors import InvalidSetting
from ottla.net.sasl.oauthbearer import OAuthBearerClient, Token, unsecured_token
from ottla.net.sasl.oauthbearer_server import OAuthBearerServer, TokenRefused, read_first
from ottla.net.sasl.server import Identity, LoginRefused
from ottla.net.sasl.signed_tokens import PublicKey, SignedTokens, UnknownKey, read_keys
from ottla.net.sasl.token_claims import ClaimRules, UnsecuredTokens, identity_in

NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000.0
CLAIMS: dict[str, Any] = {"sub": "alice", "iat": NOW_S - 100, "exp": NOW_S + 60}
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
JWKS = [
    {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "r"},
    {**ECAlgorithm.to_jwk(EC.public_key(), as_dict=True), "kid": "e"},
    {**OKPAlgorithm.to_jwk(ED.public_key(), as_dict=True), "kid": "o"},
]


def keys(*entries: dict[str, Any]) -> tuple[PublicKey, ...]:
    return read_keys(json.dumps({"keys": entries or JWKS}).encode())


def checked(token: str, *entries: dict[str, Any], **rules: Any) -> Identity:
    known = keys(*entries)
    return SignedTokens(lambda: known, ClaimRules(**rules)).check(token, NOW_MS)


def signed(algorithm: str = "RS256", kid: str | None = "r", **claims: Any) -> str:
    key: Any = {"R": RSA, "P": RSA, "E": EC}[algorithm[0]] if algorithm != "EdDSA" else ED
    return jwt.encode({**CLAIMS, **claims}, key, algorithm, headers={"kid": kid} if kid else None)


def by_hand(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


# --- signatures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "kid"),
    [("RS256", "r"), ("RS512", "r"), ("PS256", "r"), ("ES256", "e"), ("EdDSA", "o"), ("RS256", None)],
)
def test_a_token_signed_with_a_known_key_is_good_until_its_end(algorithm: str, kid: str | None) -> None:
    assert checked(signed(algorithm, kid)) == Identity("alice", expires_ms=(NOW_S + 60) * 1000.0)


def test_a_token_without_a_signature_is_refused_whatever_it_calls_itself() -> None:
    for algorithm in ("none", "None", "nOnE", "", None, 7):
        with pytest.raises(TokenRefused, match="not signed with a public key"):
            checked(by_hand({"alg": algorithm, "kid": "r"}, CLAIMS))
    with pytest.raises(TokenRefused, match="signature is wrong"):
        checked(by_hand({"alg": "RS256", "kid": "r"}, CLAIMS))


@pytest.mark.parametrize("form", [Encoding.PEM, Encoding.DER])
def test_a_public_key_is_never_used_as_a_shared_secret(form: Encoding) -> None:
    secret = RSA.public_key().public_bytes(form, PublicFormat.SubjectPublicKeyInfo)
    unsigned = by_hand({"alg": "HS256", "kid": "r"}, CLAIMS).rpartition(".")[0]
    signature = base64.urlsafe_b64encode(hmac.digest(secret, unsigned.encode(), hashlib.sha256)).rstrip(b"=").decode()
    with pytest.raises(TokenRefused, match="not signed with a public key"):
        checked(f"{unsigned}.{signature}")


def test_a_secret_key_in_the_set_is_left_out() -> None:
    secret = {"kty": "oct", "k": base64.urlsafe_b64encode(b"x" * 32).decode(), "kid": "s", "alg": "HS256"}
    assert [key.kid for key in keys(secret, *JWKS)] == ["r", "e", "o"]
    with pytest.raises(InvalidSetting, match="has none"):
        keys(secret)


def test_keys_for_encryption_and_broken_ones_are_left_out() -> None:
    broken = {"kty": "RSA", "n": "AQAB", "kid": "b"}
    assert [key.kid for key in keys({**JWKS[0], "use": "enc"}, broken, JWKS[1])] == ["e"]


def test_a_key_that_names_its_algorithm_counts_for_no_other() -> None:
    assert checked(signed("RS256"), {**JWKS[0], "alg": "RS256"}).name == "alice"
    with pytest.raises(UnknownKey):
        checked(signed("PS256"), {**JWKS[0], "alg": "RS256"})


def test_another_key_and_changed_claims_are_found_out() -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.raises(TokenRefused, match="signature is wrong"):
        checked(jwt.encode(CLAIMS, other, "RS256", headers={"kid": "r"}))
    header, _, signature = signed().split(".")
    claims = by_hand({}, {**CLAIMS, "sub": "admin"}).split(".")[1]
    with pytest.raises(TokenRefused, match="signature is wrong"):
        checked(f"{header}.{claims}.{signature}")


def test_a_key_that_is_not_there_is_told_apart_because_the_set_may_be_old() -> None:
    with pytest.raises(UnknownKey):
        checked(signed(kid="new"))


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"b64": False}])
def test_a_header_that_wants_more_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused, match="wants something"):
        checked(by_hand({"alg": "RS256", **header}, CLAIMS))


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[1,null]}', b"[" * 100_000])
def test_what_is_no_set_of_keys_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidSetting):
        read_keys(text)


@given(st.text(max_size=200))
def test_no_text_is_taken_for_a_token(text: str) -> None:
    for check in (SignedTokens(keys, ClaimRules()).check, UnsecuredTokens(ClaimRules()).check):
        with pytest.raises(TokenRefused):
            check(text, NOW_MS)


# --- claims --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"sub": None}, "no claim 'sub'"),
        ({"sub": " "}, "no claim 'sub'"),
        ({"sub": ["alice"]}, "no claim 'sub'"),
        ({"exp": None}, "no end"),
        ({"exp": True}, "no time"),
        ({"exp": "1700000060"}, "no time"),
        ({"exp": float("inf")}, "no time"),
        ({"exp": 10**400}, "no time"),
        ({"iat": 10**400}, "no time"),
        ({"exp": NOW_S - 30}, "expired"),
        ({"iat": None}, "when it was made"),
        ({"iat": NOW_S + 31}, "not good yet"),
        ({"iat": NOW_S + 100, "exp": NOW_S + 50}, "ended before it was made"),
        ({"nbf": NOW_S + 31}, "not good yet"),
    ],
)
def test_claims_that_do_not_fit_are_refused(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        identity_in({**CLAIMS, **claims}, ClaimRules(), NOW_MS)


def test_clocks_may_differ_a_little() -> None:
    late = {**CLAIMS, "exp": NOW_S - 29}
    assert identity_in(late, ClaimRules(), NOW_MS).name == "alice"
    with pytest.raises(TokenRefused):
        identity_in(late, ClaimRules(skew_ms=0), NOW_MS)


@pytest.mark.parametrize(
    ("rules", "claims", "is_good"),
    [
        ({"issuer": "us"}, {"iss": "us"}, True),
        ({"issuer": "us"}, {"iss": "them"}, False),
        ({"issuer": "us"}, {}, False),
        ({"audiences": ("a", "b")}, {"aud": "b"}, True),
        ({"audiences": ("a", "b")}, {"aud": ["x", "a"]}, True),
        ({"audiences": ("a", "b")}, {"aud": "ab"}, False),
        ({"audiences": ("a",)}, {}, False),
        ({"audiences": ("a",)}, {"aud": {"a": 1}}, False),
        ({"sub_claim": "client"}, {"client": "app"}, True),
        ({"sub_claim": "client"}, {}, False),
        ({"required_scope": frozenset({"kafka"})}, {"scope": "read kafka"}, True),
        ({"required_scope": frozenset({"kafka"}), "scope_claim": "scp"}, {"scp": ["kafka"]}, True),
        ({"required_scope": frozenset({"kafka"})}, {"scope": "kafkas"}, False),
    ],
)
def test_what_is_expected_must_be_there(rules: dict[str, Any], claims: dict[str, Any], is_good: bool) -> None:
    if is_good:
        assert identity_in({**CLAIMS, **claims}, ClaimRules(**rules), NOW_MS)
    else:
        with pytest.raises(TokenRefused):
            identity_in({**CLAIMS, **claims}, ClaimRules(**rules), NOW_MS)


def test_unsecured_tokens_are_only_those_without_a_signature() -> None:
    tokens = UnsecuredTokens(ClaimRules(needs_issue_time=False))
    assert tokens.check(unsecured_token({"sub": "bob", "exp": NOW_S + 5}), NOW_MS).name == "bob"
    with pytest.raises(TokenRefused, match="it is signed"):
        tokens.check(signed(), NOW_MS)
    with pytest.raises(TokenRefused, match="it is signed"):
        tokens.check(by_hand({"alg": "none"}, CLAIMS, b"x"), NOW_MS)


# --- the exchange --------------------------------------------------------------------------------------------------


def server() -> OAuthBearerServer:
    def check(token: str) -> Identity:
        if token != "good":
            raise TokenRefused("a reason for the log")
        return Identity("alice")

    return OAuthBearerServer(check)


def test_a_good_token_logs_in_at_once() -> None:
    login = server()
    assert login.answered(OAuthBearerClient(Token("good"), {"traceId": "7"}).first()) == b""
    assert login.identity == Identity("alice")


def test_a_bad_token_is_told_in_two_steps() -> None:
    login, client = server(), OAuthBearerClient(Token("bad"))
    said = login.answered(client.first())
    assert said == b'{"status":"invalid_token"}'
    last = client.answered(said)
    assert last == b"\x01"
    with pytest.raises(LoginRefused) as refused:
        login.answered(last)
    assert (refused.value.answer_text, login.identity) == ('{"status":"invalid_token"}', None)
    assert "for the log" in refused.value.reason


def test_the_authorization_id_must_be_the_user() -> None:
    assert server().answered(b"n,a=alice,\x01auth=Bearer good\x01\x01") == b""
    with pytest.raises(LoginRefused, match="somebody else"):
        server().answered(b"n,a=admin,\x01auth=Bearer good\x01\x01")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer good\x01x=1\x01x=2\x01\x01",
        b"n,,\x01auth=Bearer bad\x01auth=Bearer good\x01\x01",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer g\xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"g" * 70_000 + b"\x01\x01",
    ],
)
def test_a_message_of_another_form_is_refused(message: bytes) -> None:
    with pytest.raises(LoginRefused):
        server().answered(message)


@given(st.binary(max_size=300))
def test_no_bytes_of_a_client_break_the_exchange(message: bytes) -> None:
    with pytest.raises(LoginRefused):
        server().answered(message)


def test_what_was_said_is_not_shown() -> None:
    assert "good" not in repr(read_first(b"n,,\x01auth=Bearer good\x01\x01"))
