"""A token for a client's id and secret, from an OpenID Connect provider (client credentials grant, RFC 6749 4.4).

One POST to the token endpoint; the id and the secret travel in the Authorization header, and are in no error and no
log. What may pass (no connection, a server error) is tried again with a growing wait, for as long as
sasl.login.retry.backoff.max.ms says, as Java does; a refusal is raised at once with the provider's words.

The request blocks, so it runs in a thread.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial

from ottla.clock import Clock
from ottla.errors import AuthenticationFailed, InvalidSetting
from ottla.light_dataclasses import dataclass, field
from ottla.net.retries import Backoff
from ottla.net.sasl.oauthbearer import Token, claims_of
from ottla.net.sasl.provider import ProviderUnreachable, ask


@dataclass(frozen=True)
class Endpoint:
    """Where to ask, and as whom."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    timeout_ms: float = 10_000
    tls: ssl.SSLContext | None = field(default=None, repr=False)  # None: what the system trusts

    def __post_init__(self) -> None:
        if urllib.parse.urlsplit(self.url).scheme not in ("http", "https"):
            raise InvalidSetting(
                f"sasl.oauthbearer.token.endpoint.url={self.url}; it must begin with https:// or http://"
            )


def from_endpoint(
    endpoint: Endpoint, *, clock: Clock, backoff: Backoff, limit_ms: float
) -> Callable[[], Awaitable[Token]]:
    """A fetch from the endpoint, tried again for `limit_ms`."""

    async def fetch() -> Token:
        deadline_ms = clock.monotonic_ms() + limit_ms
        attempt = 0
        while True:
            try:
                asking = partial(ask, request_to(endpoint), timeout_ms=endpoint.timeout_ms, tls=endpoint.tls)
                answer = await asyncio.get_running_loop().run_in_executor(None, asking)
                return token_in(answer, clock.now_ms())
            except ProviderUnreachable:
                wait_ms = backoff.delay_ms(attempt)
                attempt += 1
                if clock.monotonic_ms() + wait_ms >= deadline_ms:
                    raise
                await clock.sleep(wait_ms)

    return fetch


def token_in(answer: bytes, now_ms: float) -> Token:
    """The token of an answer, and when it ends."""
    try:
        fields = json.loads(answer)
        value = fields["access_token"]
        assert isinstance(value, str)
    except (ValueError, KeyError, TypeError, AssertionError):
        raise AuthenticationFailed(
            "the token endpoint answered without an access_token; is it the right URL?"
        ) from None
    life_s, ends_s = fields.get("expires_in"), claims_of(value).get("exp")
    if isinstance(life_s, int | float):
        return Token(value, now_ms + life_s * 1000)
    return Token(value, ends_s * 1000 if isinstance(ends_s, int | float) else None)


def request_to(endpoint: Endpoint) -> urllib.request.Request:
    """The POST."""
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    credentials = base64.b64encode(f"{endpoint.client_id}:{endpoint.client_secret}".encode()).decode()
    headers = {"Accept": "application/json", "Authorization": f"Basic {credentials}"}
    return urllib.request.Request(endpoint.url, urllib.parse.urlencode(form).encode(), headers, method="POST")
