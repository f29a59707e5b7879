"""GSSAPI without Kerberos: the order of messages, what is refused, and the rules for short names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidSetting
from ottla.net.sasl.gssapi_server import NO_LAYER, GssapiServer
from ottla.net.sasl.kerberos_names import ShortNames
from ottla.net.sasl.server import Identity, LoginRefused

NAMES = ShortNames(["DEFAULT"], "REALM")


class FakeContext:
    """A ticket is b"ticket"; wrapped is in brackets."""

    def __init__(self, answer: bytes = b"proof") -> None:
        self.is_established = False
        self._answer = answer

    def accept(self, token: bytes) -> bytes:
        if token != b"ticket":
            raise LoginRefused("no ticket")
        self.is_established = True
        return self._answer

    def peer(self) -> str:
        return "alice/host@REALM"

    def wrap(self, message: bytes) -> bytes:
        return b"(" + message + b")"

    def unwrap(self, message: bytes) -> bytes:
        if message[:1] + message[-1:] != b"()":
            raise LoginRefused("not wrapped")
        return message[1:-1]


def server(answer: bytes = b"proof") -> GssapiServer:
    return GssapiServer(FakeContext(answer), NAMES)


@pytest.mark.parametrize("authorization", [b"", b"alice", b"kafka@localhost", b"admin", b"\xff"])
def test_the_user_is_the_tickets_whatever_the_client_asks_to_act_as(authorization: bytes) -> None:
    login = server()
    assert login.answered(b"ticket") == b"proof"
    assert login.answered(b"") == b"(" + NO_LAYER + b")"
    assert login.identity is None
    assert login.answered(b"(" + NO_LAYER + authorization + b")") == b""
    assert login.identity == Identity("alice")


def test_without_a_proof_of_the_server_the_offer_comes_at_once() -> None:
    assert server(answer=b"").answered(b"ticket") == b"(" + NO_LAYER + b")"


@pytest.mark.parametrize("last", [b"", b"()", b"(\x01)", b"(\x02\0\0\0)", b"(\x04\0\0\0)", b"(\x00\0\0\0)"])
def test_the_last_message_takes_no_layer(last: bytes) -> None:
    login = server()
    login.answered(b"ticket")
    login.answered(b"")
    with pytest.raises(LoginRefused):
        login.answered(last)
    assert login.identity is None


def test_a_wrong_ticket_and_a_message_at_the_wrong_time_are_refused() -> None:
    with pytest.raises(LoginRefused):
        server().answered(b"other")
    login = server()
    login.answered(b"ticket")
    with pytest.raises(LoginRefused):
        login.answered(b"more")


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_no_bytes_of_a_client_let_it_in(messages: list[bytes]) -> None:
    login = server()
    try:
        for each in messages:
            login.answered(each)
    except LoginRefused:
        pass
    assert login.identity is None


@pytest.mark.parametrize(
    ("rules", "full_name", "short_name"),
    [
        (["DEFAULT"], "alice@REALM", "alice"),
        (["DEFAULT"], "kafka/broker.org@REALM", "kafka"),
        (["RULE:[1:$1]"], "alice@OTHER", "alice"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "alice@OTHER", "alice"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@REALM", "bob"),
        (["RULE:[2:$1-$2](app-.*)s/-/_/g", "DEFAULT"], "app/a-b@X", "app_a_b"),
        (["RULE:[2:$1-$2]s/-/_/"], "app/a-b@X", "app_a-b"),
        (["RULE:[1:$1](.*)s/(.)(.*)/$2$1/"], "alice@X", "licea"),
        (["RULE:[1:$1]/L"], "ALICE@X", "alice"),
        (["RULE:[1:$1]/U"], "alice@X", "ALICE"),
    ],
)
def test_the_first_rule_that_fits_gives_the_short_name(rules: list[str], full_name: str, short_name: str) -> None:
    assert ShortNames(rules, "REALM").of(full_name) == short_name


@pytest.mark.parametrize("full_name", ["alice@OTHER", "alice", "@REALM", "a/b/c@REALM", "", "alice@REALM@REALM"])
def test_who_fits_no_rule_is_not_let_in(full_name: str) -> None:
    with pytest.raises(LoginRefused):
        NAMES.of(full_name)


def test_a_rule_that_leaves_a_long_name_is_refused() -> None:
    with pytest.raises(LoginRefused, match="no short name"):
        ShortNames(["RULE:[1:$1@$0]"], "REALM").of("alice@REALM")


@pytest.mark.parametrize("rule", ["RULE", "RULE:[3:$1]", "RULE:[1:$1](()", "default", "RULE:[1:$1](.*)s/a/", ""])
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(InvalidSetting):
        ShortNames([rule], "REALM")
