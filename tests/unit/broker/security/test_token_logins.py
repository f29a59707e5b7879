"""Logging in with a delegation token: what a login is checked against, for whom and until when."""

from __future__ import annotations

import base64
from random import Random

import pytest

from ottla.broker.security import token_logins
from ottla.broker.security.token_logins import TokenLogins
from ottla.cluster.changes import apply_all
from ottla.cluster.delegation_tokens import TokenRules, create_token, expire_token
from ottla.cluster.image import ClusterImage
from ottla.net.sasl.scram import ScramClient
from ottla.net.sasl.scram_server import Decoys, ScramServer
from ottla.net.sasl.server import Identity, LoginRefused
from ottla.settings import Password
from ottla.testing.clock import ManualClock

RULES = TokenRules(Password("a secret of the brokers"), max_lifetime_ms=10_000, expiry_time_ms=1_000)
MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


class Place:
    """A cluster with tokens, and the logins of a broker in it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.image = ClusterImage("c")
        self.logins = self.make_logins(RULES)

    def make_logins(self, rules: TokenRules | None) -> TokenLogins:
        return TokenLogins(rules, image=lambda: self.image, clock=self.clock, random_bytes=Random(1).randbytes)

    def create(self, token_id: str = "one", owner: str = "User:alice") -> str:
        """A new token; gives its password."""
        now_ms = self.clock.now_ms()
        plan = create_token(token_id, owner, "User:carol", (), -1, now_ms=now_ms, rules=RULES)
        self.image = apply_all(self.image, plan.changes)
        return base64.b64encode(RULES.hmac_of(token_id)).decode()

    def log_in(
        self, mechanism: str, token_id: str, password: str, logins: TokenLogins | None = None
    ) -> Identity | None:
        """Both sides of a login, to its end."""

        def credential_of(user: str, mechanism: str, is_token: bool) -> object:
            assert is_token
            return (logins or self.logins).credential_of(user, mechanism)

        client = ScramClient(mechanism, token_id, password, random_bytes=Random(2).randbytes, token=True)
        server = ScramServer(
            mechanism,
            credential_of,  # type: ignore[arg-type]
            decoys=Decoys(b"decoys"),
            random_bytes=Random(3).randbytes,
        )
        said = client.first()
        while said is not None:
            said = client.answered(server.answered(said))  # type: ignore[assignment]
        return server.identity


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_owner_of_a_token_logs_in_with_it_until_it_ends(place: Place, mechanism: str) -> None:
    password = place.create()
    expected = Identity("alice", by_token=True, expires_ms=place.clock.now_ms() + 1_000)
    assert place.log_in(mechanism, "one", password) == expected


def test_whoever_logs_in_is_a_user(place: Place) -> None:
    password = place.create(owner="Service:reports:daily")
    identity = place.log_in("SCRAM-SHA-256", "one", password)
    assert identity is not None
    assert identity.name == "reports:daily"


@pytest.mark.parametrize("token_id", ["one", "two"])
def test_a_wrong_password_and_no_token_are_refused_alike(place: Place, token_id: str) -> None:
    place.create()
    with pytest.raises(LoginRefused) as refused:
        place.log_in("SCRAM-SHA-256", token_id, "wrong")
    assert (refused.value.answer_text, refused.value.last_bytes) == (None, b"e=invalid-proof")


def test_a_token_that_is_too_old_or_gone_logs_nobody_in(place: Place) -> None:
    old, gone = place.create("old"), place.create("gone")
    assert place.log_in("SCRAM-SHA-256", "gone", gone) is not None
    plan = expire_token(place.image, "gone", -1, "User:alice", now_ms=place.clock.now_ms())
    place.image = apply_all(place.image, plan.changes)
    place.clock.move(1_001)
    for token_id, password in (("old", old), ("gone", gone)):
        with pytest.raises(LoginRefused):
            place.log_in("SCRAM-SHA-256", token_id, password)


def test_a_broker_with_another_secret_or_none_knows_no_tokens(place: Place) -> None:
    password = place.create()
    other = TokenRules(Password("another secret"), 10_000, 1_000)
    for rules in (other, None):
        with pytest.raises(LoginRefused):
            place.log_in("SCRAM-SHA-256", "one", password, place.make_logins(rules))


def test_the_keys_of_a_token_are_made_once_and_kept_within_bounds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(token_logins, "KEYS_KEPT", 2)
    monkeypatch.setattr(token_logins, "scram_keys", lambda mechanism, password, **_: made.append(password) or object())
    passwords = {token_id: place.create(token_id) for token_id in ("a", "b", "c")}
    for token_id in ("a", "b", "a", "c", "a", "b"):
        assert place.logins.credential_of(token_id, "SCRAM-SHA-256") is not None
    assert made == [passwords[token_id] for token_id in ("a", "b", "c", "b")]
