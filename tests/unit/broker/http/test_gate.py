"""The gate of the HTTP door: decisions on the head of a request, without a socket."""

import asyncio
import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.http.gate import Gate, Head
from ottla.broker.http.parts import KNOWN, PUBLIC, Csrf, HttpError, Route, may
from ottla.broker.http.sessions import IDLE_MS, LIFE_MS, LIMIT, Sessions
from ottla.broker.security.needs import Need
from ottla.errors import TopicAuthorizationFailed
from ottla.protocol.access import AclOperation, AclResource

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
READ = Need(AclOperation.READ, AclResource.TOPIC)
HOST = ("localhost:9644",)


async def nothing(call):
    return None


def route(method="GET", right=KNOWN, **options):
    return Route(method, "/x/{topic}", nothing, right, "for tests", **options)


class Login:
    """Whose password is their name backwards."""

    async def fits(self, login):
        return login.password == login.user[::-1]

    def holder(self, user):
        return lambda: True


def sessions(now=lambda: 0.0):
    counter = iter(range(1, 10_000))
    return Sessions(now, lambda size: next(counter).to_bytes(size))


def gate(broker=None, *, login=None, hosts=None, is_read_only=False, kept=None):
    return Gate(broker, login, kept or sessions(), "open-token", hosts, is_read_only)


def admit(made, asked, head):
    return asyncio.run(made.admit(asked, head))


def refusal(made, asked, head):
    with pytest.raises(HttpError) as caught:
        admit(made, asked, head)
    return caught.value.status.value, caught.value.name


# -- Host -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9644", "[::1]:9644", "LOCALHOST:1"])
def test_loopback_names_are_answered_on_the_loopback(host):
    gate().check_host((host,))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9644", "localhost.evil.example", "", "10.0.0.1"])
def test_a_page_that_points_its_name_here_reads_nothing(host):
    with pytest.raises(HttpError, match="localhost"):
        gate().check_host((host,))


@pytest.mark.parametrize("hosts", [(), ("localhost", "localhost")])
def test_one_host_is_needed(hosts):
    with pytest.raises(HttpError, match="one Host"):
        gate().check_host(hosts)


@pytest.mark.parametrize("host", ["10.1.2.3:9644", "[fe80::1]:9644", "broker-1:9644", "Broker-1", "localhost"])
def test_elsewhere_addresses_and_own_names_are_answered(host):
    gate(hosts={"broker-1"}).check_host((host,))


def test_elsewhere_a_strange_name_is_answered_only_where_a_route_says_so():
    made = gate(hosts={"broker-1"})
    with pytest.raises(HttpError, match=r"ottla\.admin\.allowed\.hosts"):
        made.check_host(("evil.example",))
    made.check_host(("evil.example",), any_host=True)


@given(st.text(max_size=60))
def test_any_host_is_judged_without_harm(host):
    for hosts in (None, {"broker-1"}):
        with suppress(HttpError):
            gate(hosts=hosts).check_host((host,))


# -- login ------------------------------------------------------------------------------------------------------------


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_without_logins_everybody_is_anonymous():
    caller = admit(gate(), route(), Head(HOST, peer="127.0.0.1"))
    assert (caller.context.principal, caller.context.client_host) == ("User:ANONYMOUS", "127.0.0.1")
    assert caller.is_known


def test_a_password_is_enough_for_a_request():
    caller = admit(gate(login=Login()), route(), Head(HOST, authorization=basic("alice", "ecila")))
    assert caller.context.principal == "User:alice"


@pytest.mark.parametrize("text", ["", basic("alice", "wrong"), "Basic ???", "Bearer x"])
def test_without_the_right_password_nothing_is_answered(text):
    assert refusal(gate(login=Login()), route(), Head(HOST, authorization=text)) == (401, "LOGIN_NEEDED")


def test_a_browser_is_not_asked_for_a_password_by_a_box():
    for site, asked in (("", True), ("same-origin", False)):
        with pytest.raises(HttpError) as caught:
            admit(gate(login=Login()), route(), Head(HOST, fetch_site=site))
        assert ("WWW-Authenticate" in caught.value.headers) is asked


def test_a_session_is_known_by_its_cookie_until_it_is_closed():
    kept = sessions()
    cookie, opened = kept.open("alice", lambda: True)
    made = gate(login=Login(), kept=kept)
    caller = admit(made, route(), Head(HOST, cookie=cookie))
    assert (caller.context.principal, caller.token) == ("User:alice", opened.token)
    kept.close(cookie)
    assert refusal(made, route(), Head(HOST, cookie=cookie)) == (401, "LOGIN_NEEDED")


def test_public_routes_are_for_everybody():
    caller = admit(gate(login=Login()), route(right=PUBLIC), Head(HOST))
    assert (caller.is_known, caller.context.principal) == (False, "User:ANONYMOUS")


# -- rights -----------------------------------------------------------------------------------------------------------


def test_the_authorizer_of_the_wire_decides(make_broker):
    broker = make_broker(**{"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}).broker
    made = gate(broker, login=Login())
    asked = route(right=may(READ, "topic"))
    admin = admit(made, asked, Head(HOST, authorization=basic("admin", "nimda")))
    made.authorize(asked, admin, {"topic": "orders"})
    alice = admit(made, asked, Head(HOST, authorization=basic("alice", "ecila")))
    with pytest.raises(TopicAuthorizationFailed):
        made.authorize(asked, alice, {"topic": "orders"})


def test_nothing_is_changed_where_the_console_is_read_only():
    made = gate(is_read_only=True)
    caller = admit(made, route("POST"), Head(HOST, content_type="application/json", token="open-token"))
    with pytest.raises(HttpError, match="read-only"):
        made.authorize(route("POST"), caller, {})
    made.authorize(route("GET"), caller, {})


# -- CSRF -------------------------------------------------------------------------------------------------------------

JSON = "application/json"


def change(**head):
    return Head(HOST, **{"content_type": JSON, "token": "open-token", **head})


def test_a_change_needs_the_token_of_its_page():
    admit(gate(), route("POST"), change())
    for token in ("", "wrong", "open-toke"):
        assert refusal(gate(), route("POST"), change(token=token)) == (403, "TOKEN_NEEDED")


def test_a_session_has_a_token_of_its_own():
    kept = sessions()
    cookie, opened = kept.open("alice", lambda: True)
    made = gate(login=Login(), kept=kept)
    admit(made, route("DELETE"), change(cookie=cookie, token=opened.token))
    assert refusal(made, route("DELETE"), change(cookie=cookie)) == (403, "TOKEN_NEEDED")


def test_a_password_needs_no_token():
    admit(gate(login=Login()), route("POST"), change(token="", authorization=basic("alice", "ecila")))


@pytest.mark.parametrize(
    "head",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:8000"},
        {"fetch_site": "cross-site"},
        {"fetch_site": "same-site"},
    ],
)
@pytest.mark.parametrize("csrf", Csrf)
def test_what_another_sites_page_sends_is_refused(head, csrf):
    assert refusal(gate(), route("POST", csrf=csrf), change(**head)) == (403, "CROSS_SITE")


def test_what_our_own_page_sends_is_not():
    admit(gate(), route("POST"), change(origin="http://localhost:9644", fetch_site="same-origin"))


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_form_can_send_is_refused(kind):
    for csrf in Csrf:
        status, _ = refusal(gate(), route("POST", csrf=csrf), change(content_type=kind))
        assert status == 415


def test_programs_without_a_session_change_by_content_type():
    admit(
        gate(),
        route("POST", csrf=Csrf.CONTENT),
        change(token="", content_type="application/vnd.schemaregistry.v1+json"),
    )


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_ends_when_it_is_not_used_and_after_its_life():
    now = [0.0]
    kept = sessions(lambda: now[0])
    cookie, _ = kept.open("alice", lambda: True)
    now[0] = IDLE_MS
    assert kept.find(cookie) is not None
    now[0] = 2 * IDLE_MS + 1
    assert kept.find(cookie) is None
    cookie, _ = kept.open("alice", lambda: True)
    while now[0] < 2 * IDLE_MS + 1 + LIFE_MS:
        assert kept.find(cookie) is not None
        now[0] += IDLE_MS / 2
    now[0] += IDLE_MS / 2
    assert kept.find(cookie) is None


def test_a_session_ends_with_the_password_it_was_opened_with():
    holds = [True]
    kept = sessions()
    cookie, _ = kept.open("alice", lambda: holds[0])
    assert kept.find(cookie) is not None
    holds[0] = False
    assert kept.find(cookie) is None


def test_there_is_a_limit_and_the_one_that_rested_longest_goes():
    kept = sessions()
    first, _ = kept.open("alice", lambda: True)
    second, _ = kept.open("bob", lambda: True)
    for _ in range(LIMIT - 2):
        kept.open("x", lambda: True)
    assert kept.find(first) is not None
    kept.open("y", lambda: True)
    assert (len(kept), kept.find(second)) == (LIMIT, None)
    assert kept.find(first) is not None


def test_nothing_of_a_session_is_shown():
    cookie, opened = sessions().open("alice", lambda: True)
    assert cookie not in repr(opened)
    assert opened.token not in repr(opened)
