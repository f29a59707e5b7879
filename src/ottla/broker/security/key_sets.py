"""The public keys that tokens are signed with: read at the start, and again and again while the broker runs.

1. A set comes from a file (file:///...) or an address that stands in ottla.oauthbearer.allowed.urls, which is empty by
   default: no setting alone makes a broker connect somewhere or read a file (CVE-2025-27817).
2. It is read anew every sasl.oauthbearer.jwks.endpoint.refresh.ms. A token with a key that is not there brings that
   forward, once in SOONER_MS at most: keys change, and anybody can invent a key's name.
3. When reading fails the keys that were read before stay; it is tried again with growing waits. A broker that starts
   waits for the first try and no longer; until keys were read no token is taken.
4. The reading is done in a thread; a login never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ottla.broker.requests.running import Background
from ottla.clock import Clock, Timer
from ottla.errors import InvalidSetting, OttlaError
from ottla.light_tuples import NamedTuple
from ottla.net.sasl.provider import ask
from ottla.net.sasl.signed_tokens import JWKS_LIMIT_BYTES, PublicKey, read_keys

log = logging.getLogger(__name__)

SOONER_MS: Final = 10_000
SCHEMES: Final = ("https", "http", "file")


class KeySource(NamedTuple):
    """Where a set of keys comes from, and how often it is read."""

    url: str
    refresh_ms: float
    backoff_ms: float
    backoff_max_ms: float
    timeout_ms: float
    tls: ssl.SSLContext | None = None

    def read(self) -> bytes:
        """The set as text. Blocks."""
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme != "file":
            request = urllib.request.Request(self.url, headers={"Accept": "application/json"})
            return ask(request, timeout_ms=self.timeout_ms, tls=self.tls)
        try:
            with Path(urllib.parse.unquote(parts.path)).open("rb") as file:
                return file.read(JWKS_LIMIT_BYTES)
        except OSError as error:
            raise InvalidSetting(f"sasl.oauthbearer.jwks.endpoint.url: {error.strerror}: {parts.path}") from None


def check_allowed(url: str, allowed: tuple[str, ...], name: str) -> None:
    """InvalidSetting unless the address may be asked."""
    if urllib.parse.urlsplit(url).scheme not in SCHEMES:
        raise InvalidSetting(f"{name}={url}: it must begin with https://, http:// or file://")
    if url not in allowed:
        raise InvalidSetting(f"{name}={url} is not in ottla.oauthbearer.allowed.urls; a broker asks nobody else")


class KeySet:
    """One set of keys, kept fresh. Belongs to the broker's loop."""

    def __init__(self, source: KeySource, *, clock: Clock, background: Background) -> None:
        self._source = source
        self._clock = clock
        self._background = background
        self._keys: tuple[PublicKey, ...] = ()
        self._failures = 0
        self._began_ms = -float("inf")
        self._is_reading = False
        self._is_closed = False
        self._timer: Timer | None = None
        self.was_tried = asyncio.Event()
        """It was read for the first time, or could not be."""

    @property
    def source(self) -> KeySource:
        return self._source

    def keys(self) -> tuple[PublicKey, ...]:
        return self._keys

    def start(self) -> None:
        """Read it now, and keep it fresh."""
        self._timer = None
        if not self._is_reading and not self._is_closed:
            self._is_reading = True
            self._began_ms = self._clock.monotonic_ms()
            self._background.start(self._read())

    def sooner(self) -> None:
        """Somebody came with a key that is not there."""
        if self._clock.monotonic_ms() - self._began_ms >= SOONER_MS:
            if self._timer is not None:
                self._timer.cancel()
            self.start()

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    async def _read(self) -> None:
        source = self._source
        try:
            self._keys = await asyncio.get_running_loop().run_in_executor(None, lambda: read_keys(source.read()))
            self._failures = 0
        except OttlaError as error:
            self._failures += 1
            log.warning("the keys of tokens could not be read, it is tried again: %s", error)
        finally:
            self._is_reading = False
            self.was_tried.set()
        if not self._is_closed:
            self._timer = self._clock.call_later(self._wait_ms(), self.start)

    def _wait_ms(self) -> float:
        if not self._failures:
            return self._source.refresh_ms
        return float(min(self._source.backoff_ms * 2 ** min(self._failures, 30), self._source.backoff_max_ms))


class KeySets:
    """The sets of all listeners, one for each source."""

    def __init__(self, clock: Clock, background: Background) -> None:
        self._clock = clock
        self._background = background
        self._sets: list[KeySet] = []

    def of(self, source: KeySource) -> KeySet:
        for known in self._sets:
            if known.source[:-1] == source[:-1]:
                return known
        made = KeySet(source, clock=self._clock, background=self._background)
        self._sets.append(made)
        made.start()
        return made

    async def first_read(self) -> None:
        """Wait until every set was read once, or could not be: who comes with a good token should not be refused only
        because the broker has just started."""
        for each in self._sets:
            await each.was_tried.wait()

    def close(self) -> None:
        for each in self._sets:
            each.close()


MakeKeySet = Callable[[KeySource], KeySet]
