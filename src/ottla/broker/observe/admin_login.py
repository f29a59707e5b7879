"""Who may read metrics where the admin listener wants a login (ottla.admin.login): HTTP Basic with a user's password.

1. The users are those of SCRAM. The password is hashed as a login would hash it and compared in constant time; for a
   user who does not exist the same work is done with a credential of nobody.
2. Hashing takes milliseconds: it is done in a thread, one at a time, so that guessing cannot take the broker's time.
   A refusal waits connection.failed.authentication.delay.ms.
3. Whoever may Describe the cluster may read; others who are known are told that they may not.
4. Neither a password nor the header is ever logged.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.observe.verdict import Verdict
from ottla.broker.requests.context import RequestContext
from ottla.broker.security.access import Access
from ottla.broker.security.scram_users import ScramUsers
from ottla.clock import Clock
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.net.sasl.scram import HASHES, ScramKeys, scram_keys
from ottla.protocol.access import AclOperation, AclResource

PREFERRED: Final = tuple(sorted(HASHES, reverse=True))  # SCRAM-SHA-512 first
LISTENER: Final = "ADMIN"


class BasicLogin(NamedTuple):
    """A name and a password."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"BasicLogin({self.user!r})"


def basic_login(headers: Sequence[str]) -> BasicLogin | None:
    """What the Authorization header says; None where there is none, or two, or none that can be read."""
    found = [line.partition(":")[2].strip() for line in headers if line.lower().startswith("authorization:")]
    if len(found) != 1:
        return None
    scheme, _, encoded = found[0].partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return BasicLogin(user, password) if colon and user and password else None


@dataclass
class AdminLogin:
    """Asks who wants to read. `delay_ms` is how long a refusal waits."""

    users: ScramUsers
    access: Access
    clock: Clock
    delay_ms: Callable[[], float]

    def __post_init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()

    async def verdict(self, headers: Sequence[str], host: str) -> Verdict:
        """May whoever sent these headers from that host read?"""
        login = basic_login(headers)
        if login is None:
            return Verdict.UNKNOWN
        if not await self.fits(login):
            return Verdict.UNKNOWN
        return Verdict.WELCOME if self._may_read(login.user, host) else Verdict.REFUSED

    async def fits(self, login: BasicLogin) -> bool:
        """Whether this is the password of that user; a refusal waits."""
        mechanism, keys, exists = self._kept(login.user)
        async with self._one_at_a_time:
            fits = await asyncio.to_thread(_fits, mechanism, login.password, keys)
        if fits and exists:
            return True
        await self.clock.sleep(self.delay_ms())
        return False

    def holder(self, user: str) -> Callable[[], bool]:
        """Whether the user still has the password that he has now; a session lasts for as long."""
        _, keys, _ = self._kept(user)

        def holds() -> bool:
            _, now, exists = self._kept(user)
            return exists and hmac.compare_digest(now.stored_key, keys.stored_key)

        return holds

    def _kept(self, user: str) -> tuple[str, ScramKeys, bool]:
        for mechanism in PREFERRED:
            if (found := self.users.credential_of(user, mechanism, False)) is not None:
                return mechanism, found.keys, True
        return PREFERRED[0], self.users.decoys(PREFERRED[0]).keys_of(user, PREFERRED[0]), False

    def _may_read(self, user: str, host: str) -> bool:
        context = RequestContext(0, "", host, f"User:{user}", LISTENER, api_name="metrics")
        return self.access.allows(context, AclOperation.DESCRIBE, AclResource.CLUSTER)


def _fits(mechanism: str, password: str, keys: ScramKeys) -> bool:
    made = scram_keys(mechanism, password, salt=keys.salt, iterations=keys.iterations)
    return hmac.compare_digest(made.stored_key, keys.stored_key)
