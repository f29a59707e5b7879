"""Tokens for OAUTHBEARER: fetched before a connection is made, and renewed before they end.

A connection logs in without waiting (net/handshake.py), but a token may have to be fetched first. So `prepare` is
awaited before connecting, and a task renews the token at four fifths of its life: when a broker asks for a new login
during a long session, a fresh one is there.

1. One fetch at a time; whoever needs the token meanwhile waits for the same one.
2. A fetch that fails while the old token is still good is logged and tried again with a growing wait.
3. A provider is a function without arguments, or with one (confluent-kafka's oauth_cb, which is given the text of
   sasl.oauthbearer.config and here an empty one). It is called in a thread and may be async. It gives a text, or
   (text, end of life in seconds since 1970, ...) as confluent-kafka wants it, or a Token.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ottla.clock import Clock
from ottla.errors import AuthenticationFailed, InvalidSetting, OttlaError
from ottla.net.retries import Backoff
from ottla.net.sasl.oauthbearer import Token, claims_of, unsecured_token

log = logging.getLogger(__name__)

RENEW_AT: Final = 0.8  # of its life; sasl.login.refresh.window.factor of Java
RENEW_AT_LEAST_MS: Final = 1_000
UNSECURED_LIFE_S: Final = 3600
CLAIM: Final = "unsecuredLoginStringClaim_"


class TokenLogin:
    """The token that connections log in with."""

    def __init__(self, fetch: Callable[[], Awaitable[Token]], *, clock: Clock, backoff: Backoff) -> None:
        self._fetch = fetch
        self._clock = clock
        self._backoff = backoff
        self._token: Token | None = None
        self._fetching: asyncio.Task[Token] | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Have a token that is still good; raises why there is none."""
        token = self._token
        if token is None or (token.expires_ms is not None and token.expires_ms <= self._clock.now_ms()):
            await self._fetched()

    def token(self) -> Token:
        """The newest token; `prepare` comes first."""
        if self._token is None:
            raise AuthenticationFailed("no token was fetched yet")
        return self._token

    async def close(self) -> None:
        """End the task that renews."""
        tasks = [task for task in (self._fetching, self._renewing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fetched(self) -> Token:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_once(), name="ottla-token")
        # Somebody else may wait for the same task; being cancelled here must not take it from them.
        return await asyncio.shield(self._fetching)

    async def _fetch_once(self) -> Token:
        self._token = token = await self._fetch()
        if token.expires_ms is not None and (self._renewing is None or self._renewing.done()):
            self._renewing = asyncio.get_running_loop().create_task(self._keep_fresh(), name="ottla-token-renewal")
        return token

    async def _keep_fresh(self) -> None:
        attempt = 0
        while (token := self._token) is not None and token.expires_ms is not None:
            life_ms = token.expires_ms - self._clock.now_ms()
            wait_ms = max(life_ms * RENEW_AT, RENEW_AT_LEAST_MS) if not attempt else self._backoff.delay_ms(attempt - 1)
            await self._clock.sleep(wait_ms)
            try:
                await self._fetched()
                attempt = 0
            except OttlaError as error:
                attempt += 1
                log.warning("the token could not be renewed, it is tried again: %s", error)


def from_provider(provider: Callable[..., Any]) -> Callable[[], Awaitable[Token]]:
    """A fetch from a function of the user's."""
    arguments = ("",) if _wants_one(provider) else ()

    async def fetch() -> Token:
        try:
            value = await asyncio.to_thread(provider, *arguments)
            return as_token(await value if inspect.isawaitable(value) else value)
        except OttlaError:
            raise
        except Exception as error:
            raise AuthenticationFailed(f"the token provider failed with {type(error).__name__}") from error

    return fetch


def from_claims(options: Mapping[str, str], clock: Clock) -> Callable[[], Awaitable[Token]]:
    """Java's token without a signature, made of the options of a JAAS entry."""
    try:
        life_s = float(options.get("unsecuredLoginLifetimeSeconds", UNSECURED_LIFE_S))
    except ValueError:
        raise InvalidSetting("unsecuredLoginLifetimeSeconds in sasl.jaas.config is not a number") from None
    claims = {name.removeprefix(CLAIM): value for name, value in options.items() if name.startswith(CLAIM)}

    async def fetch() -> Token:
        now_s = clock.now_ms() / 1000
        token = unsecured_token({**claims, "iat": now_s, "exp": now_s + life_s})
        return Token(token, (now_s + life_s) * 1000)

    return fetch


def as_token(value: object) -> Token:
    """A token of what a provider gave."""
    if isinstance(value, Token):
        return value
    if isinstance(value, str):
        ends = claims_of(value).get("exp")
        return Token(value, ends * 1000 if isinstance(ends, int | float) else None)
    if isinstance(value, tuple) and len(value) >= 2 and isinstance(value[0], str):
        extensions = value[3] if len(value) > 3 and isinstance(value[3], dict) else {}
        return Token(value[0], float(value[1]) * 1000, extensions)
    raise AuthenticationFailed("the token provider must give a text, or (text, end of life in seconds since 1970)")


def _wants_one(provider: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(provider).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in positional and each.default is each.empty for each in parameters)
