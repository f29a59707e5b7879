"""Tokens for an id and a secret: the request, the answer, and a provider on loopback that has its moods."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from ottla.clock import SystemClock
from ottla.errors import AuthenticationFailed
from ottla.net.retries import Backoff
from ottla.net.sasl.oauthbearer import Token, unsecured_token
from ottla.net.sasl.oidc import Endpoint, from_endpoint, request_to, token_in
from ottla.net.sasl.provider import ProviderUnreachable


class Provider(BaseHTTPRequestHandler):
    """Answers with what stands in `moods`, the last one again and again."""

    moods: ClassVar[list[tuple[int, bytes]]] = []
    seen: ClassVar[list[tuple[str | None, bytes]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.seen.append((self.headers["Authorization"], self.rfile.read(length)))
        status, body = self.moods.pop(0) if len(self.moods) > 1 else self.moods[0]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    Provider.moods, Provider.seen = [], []
    server = HTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(url: str, limit_ms: float = 2000) -> Token:
    backoff = Backoff(1, 5, random.Random(1))
    source = from_endpoint(Endpoint(url, "me", "hunter2"), clock=SystemClock(), backoff=backoff, limit_ms=limit_ms)

    async def once() -> Token:
        return await source()

    return asyncio.run(once())


def test_the_request_has_id_and_secret_in_its_header_only() -> None:
    request = request_to(Endpoint("https://idp/token", "me", "hunter2", "kafka read"))
    assert request.get_header("Authorization") == "Basic " + base64.b64encode(b"me:hunter2").decode()
    assert request.data == b"grant_type=client_credentials&scope=kafka+read"
    assert "hunter2" not in repr(Endpoint("https://idp/token", "me", "hunter2"))


def test_the_answer_says_how_long_a_token_lives() -> None:
    assert token_in(b'{"access_token":"abc","expires_in":60}', now_ms=1000) == Token("abc", 61_000)


def test_without_a_word_the_token_itself_may_say_it() -> None:
    jwt = unsecured_token({"exp": 50})
    assert token_in(json.dumps({"access_token": jwt}).encode(), now_ms=0) == Token(jwt, 50_000)
    assert token_in(b'{"access_token":"opaque"}', now_ms=0) == Token("opaque", None)


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"{}", b'{"access_token":7}', b"null"])
def test_an_answer_without_a_token_is_refused(answer: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="right URL"):
        token_in(answer, 0)


def test_a_token_is_fetched(url: str) -> None:
    Provider.moods.append((200, b'{"access_token":"abc","expires_in":60}'))
    assert fetch(url).value == "abc"
    assert Provider.seen[0][1] == b"grant_type=client_credentials"


def test_what_may_pass_is_tried_again(url: str) -> None:
    Provider.moods += [(503, b"busy"), (500, b"oops"), (200, b'{"access_token":"abc"}')]
    assert fetch(url).value == "abc"
    assert len(Provider.seen) == 3


def test_a_refusal_is_raised_at_once_with_the_providers_words(url: str) -> None:
    Provider.moods.append((401, b'{"error":"invalid_client"}'))
    with pytest.raises(AuthenticationFailed, match="invalid_client") as failed:
        fetch(url)
    assert len(Provider.seen) == 1
    assert "hunter2" not in str(failed.value)


def test_nobody_there_is_told_when_time_is_over() -> None:
    with pytest.raises(ProviderUnreachable, match=r"127\.0\.0\.1:9"):
        fetch("http://127.0.0.1:9/token", limit_ms=20)
