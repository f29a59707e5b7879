"""The login of a connection as a state machine: what is answered, what ends it, and for how long it is good."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.broker.security.logins import (
    ALICE,
    NOW,
    SCRAM,
    Rules,
    agreed,
    complete,
    frame,
    handshake,
    header_only,
    scram,
    token,
    told,
    versions,
)

from ottla.broker.security import login as login_module
from ottla.broker.security.login import PASS, Login, Now, Refuse, Reply, State
from ottla.net.sasl.scram import ScramClient
from ottla.protocol.api import APIS


def later(ms: float) -> Now:
    return Now(NOW.wall_ms + ms, NOW.monotonic_ms + ms)


# --- the usual way -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asks_versions", [True, False])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_is_complete_after_one_message(asks_versions: bool, version: int) -> None:
    login = Login(Rules())
    if asks_versions:
        assert login.received(versions(), NOW) is PASS
    said = agreed(login.received(handshake(), NOW))
    assert (said.error_code, said.mechanisms) == (0, ["PLAIN", SCRAM])
    end = login.received(token(ALICE, version), NOW)
    assert isinstance(end, Reply)
    assert end.identity is not None
    assert end.identity.name == "alice"
    answer = told(end, version)
    assert (answer.error_code, bytes(answer.auth_bytes), answer.session_lifetime_ms) == (0, b"", 0)
    assert login.received(header_only(3, 9), NOW) is PASS


@pytest.mark.parametrize("is_framed", [True, False])
def test_scram_is_complete_after_two_messages(is_framed: bool) -> None:
    login = Login(Rules())
    login.received(handshake(SCRAM, 1 if is_framed else 0), NOW)
    end = scram(login, is_framed=is_framed)
    assert isinstance(end, Reply)
    assert end.identity is not None
    assert end.identity.name == "alice"


def test_tokens_are_bare_after_a_handshake_of_version_0() -> None:
    login = Login(Rules())
    login.received(handshake(version=0), NOW)
    end = login.received(memoryview(ALICE), NOW)
    assert isinstance(end, Reply)
    assert end.answer == [b""]


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_a_failed_plain_login_is_told_in_the_words_of_kafka(message: bytes, text: str) -> None:
    login = Login(Rules())
    login.received(handshake(), NOW)
    end = login.received(token(message), NOW)
    assert isinstance(end, Refuse)
    assert end.is_login
    assert (told(end).error_code, told(end).error_message) == (58, text)
    assert login.state is State.FAILED


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "pencil")])
def test_an_unknown_user_and_a_wrong_password_hear_the_same(user: str, password: str) -> None:
    login = Login(Rules())
    login.received(handshake(SCRAM), NOW)
    answer = told(scram(login, user, password))
    assert answer.error_message == (
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {SCRAM}"
    )
    assert (answer.error_code, bytes(answer.auth_bytes)) == (58, b"e=invalid-proof")


def test_a_bare_token_that_is_refused_gets_no_answer() -> None:
    login = Login(Rules())
    login.received(handshake(version=0), NOW)
    end = login.received(memoryview(b"\0alice\0wrong"), NOW)
    assert isinstance(end, Refuse)
    assert end.answer is None


def test_a_mechanism_that_is_not_offered_is_refused_with_those_that_are() -> None:
    login = Login(Rules(("PLAIN",)))
    end = login.received(handshake(SCRAM), NOW)
    assert isinstance(end, Refuse)
    assert (agreed(end).error_code, agreed(end).mechanisms) == (33, ["PLAIN"])


def test_versions_are_asked_once() -> None:
    login = Login(Rules())
    assert login.received(versions(), NOW) is PASS
    assert isinstance(login.received(versions(), NOW), Refuse)


def test_versions_in_an_unknown_version_may_be_asked_again_but_not_for_ever() -> None:
    login = Login(Rules())
    answers = [login.received(header_only(18, 99), NOW) for _ in range(login_module.VERSION_TRIES)]
    assert answers == [PASS] * login_module.VERSION_TRIES
    assert isinstance(login.received(header_only(18, 99), NOW), Refuse)


def test_a_mechanism_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        identity = None

        def answered(self, message: bytes) -> bytes:
            return b"more"

    rules = Rules()
    monkeypatch.setattr(rules, "server", lambda mechanism: Endless())
    login = Login(rules)
    login.received(handshake(), NOW)
    steps = [login.received(token(b"x"), NOW) for _ in range(login_module.STEPS_LIMIT + 1)]
    assert [type(each) for each in steps[:-1]] == [Reply] * login_module.STEPS_LIMIT
    assert isinstance(steps[-1], Refuse)


# --- sessions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_reauth_ms", "token_ms", "lifetime_ms"),
    [(0, None, 0), (60_000, None, 60_000), (0, 5_000, 5_000), (60_000, 5_000, 5_000), (1_000, 5_000, 1_000)],
)
def test_a_login_is_good_for_as_long_as_settings_and_token_allow(
    max_reauth_ms: float, token_ms: float | None, lifetime_ms: int
) -> None:
    rules = Rules(max_reauth_ms=max_reauth_ms)
    rules.expires_ms = None if token_ms is None else NOW.wall_ms + token_ms
    login = Login(rules)
    login.received(handshake(SCRAM), NOW)
    assert told(scram(login)).session_lifetime_ms == lifetime_ms
    assert login.received(header_only(3, 9), later(lifetime_ms - 1 if lifetime_ms else 1e12)) is PASS
    if lifetime_ms:
        end = login.received(header_only(3, 9), later(lifetime_ms))
        assert isinstance(end, Refuse)
        assert not end.is_login


def test_another_login_begins_the_session_anew() -> None:
    login = complete(Rules(max_reauth_ms=10_000))
    assert isinstance(login.received(handshake(), later(9_000)), Reply)
    end = login.received(token(ALICE), later(9_000))
    assert isinstance(end, Reply)
    assert end.is_again
    assert login.received(header_only(3, 9), later(18_999)) is PASS
    assert isinstance(login.received(header_only(3, 9), later(19_000)), Refuse)


def test_another_login_may_come_after_the_end_of_the_session() -> None:
    login = complete(Rules(max_reauth_ms=10_000))
    assert isinstance(login.received(handshake(), later(10_001)), Reply)


def test_another_login_within_a_second_of_the_last_one_is_for_the_handler_to_refuse() -> None:
    login = complete()
    login.received(handshake(), later(0))
    login.received(token(ALICE), later(0))
    assert login.received(handshake(), later(999)) is PASS
    assert isinstance(login.received(handshake(), later(1_000)), Reply)


def test_another_login_cannot_change_the_user() -> None:
    login = complete()
    login.received(handshake(), NOW)
    end = login.received(token(b"\0bob\0other"), NOW)
    assert isinstance(end, Refuse)
    assert end.is_again
    assert told(end).error_message == "Cannot change principals during re-authentication from User.alice: User.bob"


def test_another_login_cannot_change_the_mechanism() -> None:
    login = complete()
    assert agreed(login.received(handshake(SCRAM), NOW)).error_code == 0
    client = ScramClient(SCRAM, "alice", "pencil", random_bytes=lambda count: b"c" * count)
    end = login.received(token(client.first()), NOW)
    assert told(end).error_message == (
        f"SASL mechanism '{SCRAM}' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )


def test_a_failed_login_that_repeats_another_says_so() -> None:
    rules = Rules()
    login = Login(rules)
    login.received(handshake(SCRAM), NOW)
    scram(login)
    login.received(handshake(SCRAM), NOW)
    assert "during re-authentication" in (told(scram(login, password="wrong")).error_message or "")


# --- nobody gets by: every API and version in every state before a login is complete -------------------------------


def new() -> Login:
    return Login(Rules())


def versions_asked() -> Login:
    login = new()
    login.received(versions(), NOW)
    return login


def half() -> Login:
    login = new()
    login.received(handshake(SCRAM), NOW)
    client = ScramClient(SCRAM, "alice", "pencil", random_bytes=lambda count: b"c" * count)
    login.received(token(client.first()), NOW)
    return login


def agreed_only() -> Login:
    login = new()
    login.received(handshake(), NOW)
    return login


def failed() -> Login:
    login = agreed_only()
    login.received(token(b"\0alice\0wrong"), NOW)
    return login


def wrong_mechanism() -> Login:
    login = new()
    login.received(handshake("NTLM"), NOW)
    return login


def expired() -> Login:
    return complete(Rules(max_reauth_ms=1), later(-10_000))


def again() -> Login:
    login = complete()
    login.received(handshake(), NOW)
    return login


ALL = [(key, version) for key, api in APIS.items() for version in (*range(api.versions.max + 2), -1)]
ALL += [(key, 0) for key in (-1, 32_767)]
FIRST, STEP = {17, 18}, {36}


@pytest.mark.parametrize(
    ("state", "permitted"),
    [
        (new, FIRST),
        (versions_asked, {17}),
        (agreed_only, STEP),
        (half, STEP),
        (failed, set[int]()),
        (wrong_mechanism, set[int]()),
        (expired, {17}),
        (again, STEP),
    ],
)
def test_no_request_passes_before_a_login_and_its_body_is_not_read(
    state: Callable[[], Login], permitted: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = {each: state() for each in ALL if each[0] not in permitted}

    def read(frame: memoryview) -> None:
        raise AssertionError("a body was read")

    monkeypatch.setattr(login_module, "decode_request", read)
    for each, login in logins.items():
        decision = login.received(header_only(*each), NOW)
        assert isinstance(decision, Refuse), each
        assert login.state is State.FAILED, each
        assert login.received(frame_of_metadata(), NOW) is not PASS


@pytest.mark.parametrize("state", [new, versions_asked, agreed_only, half, again])
def test_what_belongs_to_a_login_but_is_broken_ends_it(state: Callable[[], Login]) -> None:
    for key in (17, 36):
        for version in (*range(APIS[key].versions.max + 2), -1):
            login = state()
            assert isinstance(login.received(header_only(key, version), NOW), Refuse), (key, version)


def frame_of_metadata() -> memoryview:
    from ottla.protocol.messages.metadata import MetadataRequest

    return frame(MetadataRequest(topics=[]), 9)


@pytest.mark.parametrize("size", range(8))
@pytest.mark.parametrize("state", [new, versions_asked, agreed_only, half, failed])
def test_a_frame_without_a_whole_header_ends_the_connection(state: Callable[[], Login], size: int) -> None:
    assert isinstance(state().received(memoryview(b"\0" * size), NOW), Refuse)
