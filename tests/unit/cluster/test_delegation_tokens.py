"""Delegation tokens: plans, ends, and the text that Apache Kafka 3.9 keeps of one."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest

from ottla.cluster.changes import SetStoredValue, apply_all
from ottla.cluster.delegation_tokens import (
    LATEST_MS,
    TokenIndex,
    TokenPlan,
    TokenRules,
    create_token,
    expire_token,
    remove_expired,
    renew_token,
    token_in,
    token_key,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.image_changes import changes_for
from ottla.cluster.model import DelegationToken
from ottla.cluster.token_text import DamagedToken, read_token, token_text
from ottla.errors import (
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
)
from ottla.settings import Password

SECRET_KEY = "whatever"
RULES = TokenRules(Password(SECRET_KEY), max_lifetime_ms=1_000, expiry_time_ms=100)
NOW_MS = 1_700_000_000_000
EMPTY = ClusterImage("c")


def create(token_id: str = "one", wished_ms: int = -1, now_ms: int = NOW_MS, rules: TokenRules = RULES) -> TokenPlan:
    return create_token(token_id, "User:alice", "User:carol", ["User:bob"], wished_ms, now_ms=now_ms, rules=rules)


def made(*token_ids: str) -> ClusterImage:
    return apply_all(EMPTY, [change for each in token_ids for change in create(each).changes])


def ends(plan: TokenPlan) -> tuple[int, int]:
    return plan.token.expiry_ms - NOW_MS, plan.token.max_ms - NOW_MS


# --- the text --------------------------------------------------------------------------------------------------------

# Written by kafka.zk.DelegationTokenInfoZNode of Apache Kafka 3.9.2, and the HMAC by its DelegationTokenManager.
KAFKAS_ID = "Wm9vS2VlcGVyLXRva2VuLQ"
KAFKAS_TEXT = (
    '{"issueTimestamp":1700000000000,"renewers":["User%3Abob","User%3ACN%3Dx%2C%20O%3Dy%2A%7E%2B%C3%A9"],'
    '"tokenRequester":"User%3Ajob%20runner","tokenId":"Wm9vS2VlcGVyLXRva2VuLQ","owner":"User%3Aalice",'
    '"expiryTimestamp":1700086400000,"maxTimestamp":1700604800000,"version":3}'
)
KAFKAS_HMAC = "lYNsK5VD4pDhXbkiFewqNwl+vlHYQ8IgSYocTGHU8qslUjt/+xkoPbsL/wAnUqUtcsQJVMcxaxWDSOi7QyDWOw=="
KAFKAS_TOKEN = DelegationToken(
    KAFKAS_ID,
    owner="User:alice",
    requester="User:job runner",
    renewers=("User:bob", "User:CN=x, O=y*~+é"),
    issue_ms=NOW_MS,
    expiry_ms=1_700_086_400_000,
    max_ms=1_700_604_800_000,
)


def test_a_token_is_kept_byte_for_byte_as_kafka_keeps_it() -> None:
    assert token_text(KAFKAS_TOKEN) == KAFKAS_TEXT
    assert read_token(KAFKAS_ID, KAFKAS_TEXT) == KAFKAS_TOKEN


def test_the_hmac_is_the_one_that_kafka_makes() -> None:
    assert base64.b64encode(RULES.hmac_of(KAFKAS_ID)).decode() == KAFKAS_HMAC


@pytest.mark.parametrize("version", [1, 2])
def test_older_texts_do_not_say_who_asked(version: int) -> None:
    text = KAFKAS_TEXT.replace('"tokenRequester":"User%3Ajob%20runner",', "").replace(
        '"version":3', f'"version":{version}'
    )
    assert read_token(KAFKAS_ID, text).requester == "User:alice"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", KAFKAS_TEXT.replace('"version":3', '"version":4'), KAFKAS_TEXT.replace("User%3Aalice", "alice")],
)
def test_a_text_that_makes_no_sense_is_no_token(text: str, caplog: Any) -> None:
    with pytest.raises(DamagedToken):
        read_token("one", text)
    image = apply_all(made("two"), [SetStoredValue(token_key("one"), text)])
    with caplog.at_level(logging.WARNING):
        assert [token.id for token in tokens_of(image)] == ["two"]
        assert token_in(image, "one") is None
    assert "'one'" in caplog.text


def test_a_token_under_another_name_is_no_token() -> None:
    image = apply_all(EMPTY, [SetStoredValue(token_key("other"), KAFKAS_TEXT)])
    assert list(tokens_of(image)) == []
    with pytest.raises(DelegationTokenNotFound):
        index_of(image).find(RULES.hmac_of("other"))


def test_tokens_survive_a_snapshot() -> None:
    image = made("one", "two")
    assert list(tokens_of(apply_all(EMPTY, list(changes_for(image))))) == list(tokens_of(image))


def test_no_secret_is_in_what_is_kept_or_printed() -> None:
    plan = create()
    hmac = RULES.hmac_of("one")
    shown = repr([RULES, plan, plan.token, made("one")]) + "".join(made("one").stored_values.values())
    for secret in (SECRET_KEY, hmac.hex(), base64.b64encode(hmac).decode(), repr(hmac)[2:-1]):
        assert secret not in shown


# --- creating --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wished_ms", "expected"), [(-1, (100, 1000)), (0, (100, 1000)), (50, (50, 50)), (5_000, (100, 1000))]
)
def test_a_token_ends_when_the_rules_and_its_maker_say(wished_ms: int, expected: tuple[int, int]) -> None:
    assert ends(create(wished_ms=wished_ms)) == expected


def test_a_lifetime_without_end_fits_into_the_answer() -> None:
    rules = TokenRules(Password("x"), LATEST_MS, LATEST_MS)
    token = create(wished_ms=LATEST_MS, rules=rules).token
    assert (token.expiry_ms, token.max_ms) == (LATEST_MS, LATEST_MS)


def test_only_users_can_be_renewers() -> None:
    with pytest.raises(InvalidPrincipalType):
        create_token("one", "User:a", "User:a", ["User:b", "Group:c"], -1, now_ms=NOW_MS, rules=RULES)


# --- renewing and expiring -------------------------------------------------------------------------------------------


def renew(image: ClusterImage, period_ms: int, principal: str, now_ms: int, token_id: str = "one") -> TokenPlan:
    return renew_token(image, token_id, period_ms, principal, now_ms=now_ms, rules=RULES)


def expire(image: ClusterImage, period_ms: int, principal: str, now_ms: int, token_id: str = "one") -> TokenPlan:
    return expire_token(image, token_id, period_ms, principal, now_ms=now_ms)


@pytest.mark.parametrize("principal", ["User:alice", "User:bob"])
@pytest.mark.parametrize(("period_ms", "expiry"), [(-1, 150), (0, 150), (20, 70), (5_000, 150)])
def test_renewing_moves_the_end(principal: str, period_ms: int, expiry: int) -> None:
    plan = renew(made("one", "two"), period_ms, principal, NOW_MS + 50)
    assert ends(plan) == (expiry, 1000)
    after = apply_all(made("one", "two"), plan.changes)
    assert token_in(after, "one") == plan.token
    assert token_in(after, "two") == create("two").token


def test_renewing_never_moves_it_past_the_last_moment() -> None:
    image = apply_all(EMPTY, create(wished_ms=120).changes)
    assert ends(renew(image, -1, "User:alice", NOW_MS + 90)) == (120, 120)


def test_a_token_that_is_too_old_cannot_be_renewed_whoever_asks() -> None:
    image = made("one")
    assert ends(renew(image, -1, "User:alice", NOW_MS + 100)) == (200, 1000)
    for principal in ("User:alice", "User:mallory"):
        with pytest.raises(DelegationTokenExpired):
            renew(image, -1, principal, NOW_MS + 101)


@pytest.mark.parametrize("change", [renew, expire])
@pytest.mark.parametrize("principal", ["User:carol", "User:mallory", "User:ANONYMOUS"])
def test_only_owner_and_renewers_may_change_a_token(change: Any, principal: str) -> None:
    with pytest.raises(DelegationTokenOwnerMismatch):
        change(made("one"), -1, principal, NOW_MS)


@pytest.mark.parametrize("change", [renew, expire])
def test_a_secret_of_no_token_finds_nothing(change: Any) -> None:
    with pytest.raises(DelegationTokenNotFound):
        change(made("one"), -1, "User:alice", NOW_MS, token_id="three")


def test_a_token_can_be_taken_away_at_once_also_when_it_is_too_old() -> None:
    for now_ms in (NOW_MS, NOW_MS + 5_000):
        plan = expire(made("one", "two"), -1, "User:bob", now_ms)
        assert plan.token.expiry_ms == now_ms
        assert [each.id for each in tokens_of(apply_all(made("one", "two"), plan.changes))] == ["two"]


def test_a_token_can_be_given_an_end() -> None:
    assert ends(expire(made("one"), 30, "User:alice", NOW_MS + 10)) == (40, 1000)
    assert ends(expire(made("one"), 0, "User:alice", NOW_MS + 10)) == (10, 1000)
    assert ends(expire(made("one"), LATEST_MS, "User:alice", NOW_MS + 10)) == (1000, 1000)
    with pytest.raises(DelegationTokenExpired):
        expire(made("one"), 30, "User:alice", NOW_MS + 101)


def test_tokens_that_are_too_old_are_removed_and_no_others() -> None:
    image = apply_all(made("one", "two"), renew(made("one", "two"), -1, "User:bob", NOW_MS + 90).changes)
    assert remove_expired(image, ["one", "two", "gone"], NOW_MS + 100).changes == ()
    sweep = remove_expired(image, ["one", "two", "gone"], NOW_MS + 101)
    assert [token.id for token in sweep.removed] == ["two"]
    assert [token.id for token in tokens_of(apply_all(image, sweep.changes))] == ["one"]


# --- the index -------------------------------------------------------------------------------------------------------


def index_of(image: ClusterImage) -> TokenIndex:
    index = TokenIndex(RULES)
    index.follow(image)
    return index


def tokens_of(image: ClusterImage) -> list[DelegationToken]:
    return [token for _, token in sorted(index_of(image).tokens.items())]


def test_the_index_follows_from_image_to_image_by_what_differs() -> None:
    index = index_of(made("one", "two"))
    assert index.find(RULES.hmac_of("two")).id == "two"
    assert index.owners == {"User:alice": 2}
    renewed = apply_all(made("one", "two"), renew(made("one", "two"), 50, "User:bob", NOW_MS + 10).changes)
    index.follow(renewed)
    assert index.tokens == {token.id: token for token in tokens_of(renewed)}
    index.follow(apply_all(renewed, expire(renewed, -1, "User:alice", NOW_MS + 10).changes))
    assert (set(index.tokens), index.owners) == ({"two"}, {"User:alice": 1})
    with pytest.raises(DelegationTokenNotFound):
        index.find(RULES.hmac_of("one"))


def test_a_look_up_makes_one_hmac_however_many_tokens_there_are(monkeypatch: Any) -> None:
    index = index_of(made(*(f"token-{number}" for number in range(200))))
    secret = RULES.hmac_of("token-7")
    monkeypatch.setattr(TokenRules, "hmac_of", lambda *_: pytest.fail("made again"))
    assert index.find(secret).id == "token-7"
