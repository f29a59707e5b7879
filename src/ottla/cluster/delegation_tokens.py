"""Plans for delegation tokens (KIP-48, KIP-373): create, renew, expire, find, and remove what is too old.

1. A token has two ends: `expiry_ms`, which renewing moves, and `max_ms`, which nothing moves. Past either of them it is
   good for nothing, whether it is still there or not.
2. A token is found by its HMAC, which is its password: HMAC-SHA512 of its id with the secret key that all brokers have.
   `TokenIndex` knows all tokens of an image by a digest of it, so a look-up costs the same however many there are and
   tells nothing by its time. The HMAC itself is neither kept nor printed.
3. The owner and the renewers may renew and expire a token; nobody else, whatever rights he has. As in Kafka 4.3, a
   token that is too old cannot be renewed by anybody, and expired at once (a period below 0) by the two.
4. Times are milliseconds that fit into 64 bits; a sum that would not is the largest number that does.
5. A kept text that makes no sense is no token: it is told in the log, and the others go on.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Final

from ottla.cluster.changes import Change, SetStoredValue
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import DelegationToken, StoredKey
from ottla.cluster.shared_map import SharedMap
from ottla.cluster.token_text import DamagedToken, read_token, token_text
from ottla.errors import (
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
)
from ottla.light_dataclasses import dataclass, field, replace
from ottla.light_tuples import NamedTuple
from ottla.settings import Password

log = logging.getLogger(__name__)

KIND: Final = "delegation-token"
USER: Final = "User:"
LATEST_MS: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What delegation.token.* say; `secret_key` is in no repr."""

    secret_key: Password = field(repr=False)
    max_lifetime_ms: int
    expiry_time_ms: int

    def hmac_of(self, token_id: str) -> bytes:
        """The password of a token."""
        import hmac

        return hmac.digest(self.secret_key.value.encode(), token_id.encode(), "sha512")


class TokenPlan(NamedTuple):
    """Changes to commit, and the token that is true when they are committed."""

    changes: tuple[Change, ...]
    token: DelegationToken


class Sweep(NamedTuple):
    """Changes that remove tokens, and which ones."""

    changes: tuple[Change, ...]
    removed: tuple[DelegationToken, ...]


# --- what there is ---------------------------------------------------------------------------------------------------


def token_key(token_id: str) -> StoredKey:
    return StoredKey(KIND, token_id)


def token_in(image: ClusterImage, token_id: str) -> DelegationToken | None:
    """The token of that id, too old or not; None when there is none."""
    text = image.stored_values.get(token_key(token_id))
    return None if text is None else _readable(token_id, text)


def _readable(token_id: str, text: str) -> DelegationToken | None:
    try:
        token = read_token(token_id, text)
        if token.id != token_id:
            raise DamagedToken(f"delegation token {token_id!r} says that it is {token.id!r}")
        return token
    except DamagedToken as problem:
        log.warning("%s", problem)
        return None


class TokenIndex:
    """The tokens of an image, by id, by the digest of their HMAC and counted by owner. It follows from one image to the
    next by what differs, so it costs what was changed."""

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules
        self._stored: SharedMap[StoredKey, str] = SharedMap()
        self._by_digest: dict[bytes, str] = {}
        self.tokens: dict[str, DelegationToken] = {}
        self.owners: Counter[str] = Counter()

    def follow(self, image: ClusterImage) -> None:
        before, self._stored = self._stored, image.stored_values
        if self._stored is before:
            return
        for key in self._stored.differences(before):
            if key.kind == KIND:
                self._remove(key.key)
                token = token_in(image, key.key)
                if token is not None:
                    self._add(token)

    def find(self, secret: bytes) -> DelegationToken:
        """The token that has this HMAC; raises DelegationTokenNotFound."""
        token_id = self._by_digest.get(_digest(secret))
        if token_id is None:
            raise DelegationTokenNotFound
        return self.tokens[token_id]

    def _add(self, token: DelegationToken) -> None:
        self.tokens[token.id] = token
        self._by_digest[_digest(self._rules.hmac_of(token.id))] = token.id
        self.owners[token.owner] += 1

    def _remove(self, token_id: str) -> None:
        token = self.tokens.pop(token_id, None)
        if token is not None:
            del self._by_digest[_digest(self._rules.hmac_of(token_id))]
            self.owners[token.owner] -= 1
            if not self.owners[token.owner]:
                del self.owners[token.owner]


def _digest(secret: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(secret).digest()


# --- plans -----------------------------------------------------------------------------------------------------------


def create_token(
    token_id: str,
    owner: str,
    requester: str,
    renewers: Iterable[str],
    max_lifetime_ms: int,
    *,
    now_ms: int,
    rules: TokenRules,
) -> TokenPlan:
    """A new token; a wished lifetime of 0 or less is the longest one."""
    renewers = tuple(renewers)
    check_renewers(renewers)
    lifetime_ms = min(max_lifetime_ms, rules.max_lifetime_ms) if max_lifetime_ms > 0 else rules.max_lifetime_ms
    max_ms = _later(now_ms, lifetime_ms)
    expiry_ms = min(max_ms, _later(now_ms, rules.expiry_time_ms))
    return _kept(DelegationToken(token_id, owner, requester, renewers, now_ms, expiry_ms, max_ms))


def check_renewers(renewers: Iterable[str]) -> None:
    """Only users can renew a token."""
    if not all(each.startswith(USER) for each in renewers):
        raise InvalidPrincipalType("only principals of type User can renew a token")


def renew_token(
    image: ClusterImage, token_id: str, period_ms: int, principal: str, *, now_ms: int, rules: TokenRules
) -> TokenPlan:
    """Move its expiry to now and the period, at most expiry.time.ms, and never past its last moment."""
    token = _there(image, token_id)
    if token.is_expired(now_ms):
        raise DelegationTokenExpired
    _check_right(token, principal)
    period_ms = min(period_ms, rules.expiry_time_ms) if period_ms > 0 else rules.expiry_time_ms
    return _kept(replace(token, expiry_ms=min(token.max_ms, _later(now_ms, period_ms))))


def expire_token(image: ClusterImage, token_id: str, period_ms: int, principal: str, *, now_ms: int) -> TokenPlan:
    """Let it end after the period; at once, and gone, when that is below 0."""
    token = _there(image, token_id)
    _check_right(token, principal)
    if period_ms < 0:
        return TokenPlan((SetStoredValue(token_key(token.id), None),), replace(token, expiry_ms=now_ms))
    if token.is_expired(now_ms):
        raise DelegationTokenExpired
    return _kept(replace(token, expiry_ms=min(token.max_ms, _later(now_ms, period_ms))))


def remove_expired(image: ClusterImage, token_ids: Iterable[str], now_ms: int) -> Sweep:
    """Take away those of these tokens that are too old."""
    there = (token_in(image, token_id) for token_id in token_ids)
    old = tuple(token for token in there if token is not None and token.is_expired(now_ms))
    return Sweep(tuple(SetStoredValue(token_key(token.id), None) for token in old), old)


def _there(image: ClusterImage, token_id: str) -> DelegationToken:
    token = token_in(image, token_id)
    if token is None:
        raise DelegationTokenNotFound
    return token


def _check_right(token: DelegationToken, principal: str) -> None:
    if not token.is_for(principal):
        raise DelegationTokenOwnerMismatch


def _kept(token: DelegationToken) -> TokenPlan:
    return TokenPlan((SetStoredValue(token_key(token.id), token_text(token)),), token)


def _later(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, LATEST_MS)
