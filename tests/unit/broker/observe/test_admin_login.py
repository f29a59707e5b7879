"""Metrics behind a login: who reads them, and what a stranger learns."""

import asyncio
import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.observe.admin_http import Watch, answer
from ottla.broker.observe.admin_login import AdminLogin, BasicLogin, basic_login
from ottla.broker.observe.verdict import Verdict
from ottla.broker.security.access import make_access
from ottla.broker.security.first_users import FirstUser, changes_for
from ottla.broker.security.scram_users import ScramUsers
from ottla.broker.settings import BrokerSettings
from ottla.clock import SystemClock
from ottla.cluster.changes import apply_all
from ottla.cluster.image import ClusterImage

USERS = [FirstUser("admin", "right"), FirstUser("alice", "hers")]
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def header(user, password):
    return f"Authorization: Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def verdicts(*headers):
    image = ClusterImage("cluster")
    image = apply_all(image, changes_for(image, USERS, lambda size: b"s" * size))
    settings = BrokerSettings({"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"})
    login = AdminLogin(ScramUsers(lambda: image), make_access(settings), SystemClock(), delay_ms=lambda: 0)

    async def ask():
        return [await login.verdict(each, "127.0.0.1") for each in headers]

    return asyncio.run(ask())


def test_only_a_known_user_with_the_right_reads():
    assert verdicts(
        [header("admin", "right")],
        [header("alice", "hers")],
        [header("admin", "wrong")],
        [header("nobody", "right")],
        [],
        [header("admin", "right"), header("admin", "right")],
        ["Authorization: Bearer abc"],
    ) == [Verdict.WELCOME, Verdict.REFUSED, *[Verdict.UNKNOWN] * 5]


@pytest.mark.parametrize("text", ["", "Basic", "Basic ???", "Basic YWJj", "Basic Og==", "Basic /////w==", "Digest x"])
def test_what_cannot_be_read_is_no_login(text):
    assert basic_login([f"Authorization: {text}"]) is None


@given(st.lists(st.text(max_size=80), max_size=4))
def test_any_headers_are_read_without_harm(lines):
    basic_login(lines)


def test_a_password_may_have_colons_and_is_not_printed():
    login = basic_login([header("admin", "a:b:c")])
    assert login == BasicLogin("admin", "a:b:c")
    assert "a:b" not in repr(login)


def page(path, verdict, reason=None):
    watch = Watch(lambda: "a_total 1\n", lambda: reason)
    raw = answer(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), watch, local_only=True, verdict=verdict)
    head, _, body = raw.decode().partition("\r\n\r\n")
    return int(head.split(" ")[1]), head, body


def test_a_stranger_learns_whether_the_broker_is_well_and_nothing_else():
    status, head, body = page("/metrics", Verdict.UNKNOWN)
    assert (status, "a_total" in body, 'WWW-Authenticate: Basic realm="ottla"' in head) == (401, False, True)
    assert page("/health/live", Verdict.UNKNOWN)[0] == 200
    assert page("/health/ready", Verdict.UNKNOWN, "/data/secret-project is full")[::2] == (503, "not ready\n")
    assert page("/health/ready", Verdict.WELCOME, "full")[2] == "not ready: full\n"


def test_who_is_known_and_may_not_is_told_so():
    assert page("/metrics", Verdict.REFUSED)[0] == 403
    assert page("/metrics", Verdict.WELCOME)[::2] == (200, "a_total 1\n")
