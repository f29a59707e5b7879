"""Sessions of browsers: who logged in with a password keeps a cookie instead of it.

1. The cookie is 32 random bytes that no script can read (HttpOnly) and that no other site's page sends along
   (SameSite=Strict). Its token is other random bytes, which the page sends with every change.
2. A session ends when it was not used for IDLE_MS, after LIFE_MS anyway, and with the password it was opened with:
   `holds` is asked every time.
3. There are at most LIMIT of them; the one that was not used for longest goes first.
4. Nothing of a session is ever logged or shown.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from ottla.light_dataclasses import dataclass, field

LIMIT: Final = 1_000
IDLE_MS: Final = 30 * 60 * 1_000
LIFE_MS: Final = 12 * 60 * 60 * 1_000
KEY_BYTES: Final = 32


@dataclass
class Session:
    """Somebody who logged in."""

    user: str
    token: str = field(repr=False)
    holds: Callable[[], bool] = field(repr=False)
    opened_ms: float
    used_ms: float

    def fits(self, token: str) -> bool:
        return hmac.compare_digest(self.token.encode(), token.encode())


class Sessions:
    """By the texts of their cookies."""

    def __init__(self, monotonic_ms: Callable[[], float], random_bytes: Callable[[int], bytes]) -> None:
        self._monotonic_ms = monotonic_ms
        self._random_bytes = random_bytes
        self._sessions: dict[str, Session] = {}  # the one that was used last is the last

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, user: str, holds: Callable[[], bool]) -> tuple[str, Session]:
        """A new session, and the text of its cookie."""
        now_ms = self._monotonic_ms()
        cookie, token = self._random_bytes(KEY_BYTES).hex(), self._random_bytes(KEY_BYTES).hex()
        made = self._sessions[cookie] = Session(user, token, holds, now_ms, now_ms)
        while len(self._sessions) > LIMIT:
            del self._sessions[next(iter(self._sessions))]
        return cookie, made

    def find(self, cookie: str) -> Session | None:
        found = self._sessions.pop(cookie, None)
        now_ms = self._monotonic_ms()
        if found is None or now_ms - found.used_ms > IDLE_MS or now_ms - found.opened_ms > LIFE_MS or not found.holds():
            return None
        found.used_ms = now_ms
        self._sessions[cookie] = found
        return found

    def close(self, cookie: str) -> None:
        self._sessions.pop(cookie, None)
