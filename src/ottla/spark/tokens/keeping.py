"""When a token is asked for, renewed and replaced: a function of what is held and of the time.

1. After RENEWAL_RATIO of its time a token is renewed. It stays the same token: tasks that have it go on with it.
2. A token at the end of its longest life is replaced by a new one; then tasks that run have a quarter of its time left
   to end. What is planned later gets the new one.
3. What failed is tried again after a tenth of the time that is left, at least RETRY_AT_LEAST_MS and at most
   RETRY_AT_MOST_MS.
"""

from __future__ import annotations

import enum
from typing import Final

from ottla.client.admin.credentials import DelegationToken
from ottla.light_dataclasses import dataclass, field, replace

RENEWAL_RATIO: Final = 0.75
RETRY_PART: Final = 0.1
RETRY_AT_LEAST_MS: Final = 1_000.0
RETRY_AT_MOST_MS: Final = 60_000.0


class Step(enum.Enum):
    """What to do for a cluster now."""

    WAIT = "wait"
    RENEW = "renew"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Held:
    """A token, since when it is good for `token.expiry_timestamp_ms`, and when something has to be done for it."""

    token: DelegationToken
    since_ms: float
    due_ms: float = field(default=0.0)

    @classmethod
    def begin(cls, token: DelegationToken, now_ms: float) -> Held:
        """A token that was created or renewed just now."""
        return cls(token, now_ms, now_ms + RENEWAL_RATIO * (token.expiry_timestamp_ms - now_ms))

    def renewed(self, expiry_ms: int, now_ms: float) -> Held:
        return Held.begin(replace(self.token, expiry_timestamp_ms=expiry_ms), now_ms)

    def failed(self, now_ms: float) -> Held:
        """Nothing could be done; when it is tried again."""
        left_ms = max(0.0, self.token.expiry_timestamp_ms - now_ms)
        pause_ms = min(RETRY_AT_MOST_MS, max(RETRY_AT_LEAST_MS, RETRY_PART * left_ms))
        return replace(self, due_ms=now_ms + pause_ms)


def next_step(held: Held | None, now_ms: float) -> Step:
    """What to do for a cluster with this token, if it has one."""
    if held is None:
        return Step.CREATE
    if now_ms < held.due_ms:
        return Step.WAIT
    token = held.token
    may_live_longer = now_ms < token.expiry_timestamp_ms < token.max_timestamp_ms
    return Step.RENEW if may_live_longer else Step.CREATE
