"""Logging in with a delegation token: SCRAM with tokenauth=true, its id as user, its HMAC in base64 as password.

1. Whoever proves a token is its owner, until the token is too old; SCRAM knows users only, whatever type the owner has.
2. The keys that a login is checked against are made at the first login with a token and kept for the next ones, at most
   KEYS_KEPT of them: they cost thousands of hashes.
3. A token that is too old logs nobody in, whether or not it has been removed yet.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.security.delegation_tokens import split_principal
from ottla.clock import Clock
from ottla.cluster.delegation_tokens import TokenRules, token_in
from ottla.cluster.image import ClusterImage
from ottla.net.sasl.scram import ITERATIONS_AT_LEAST, SALT_BYTES, ScramKeys, scram_keys
from ottla.net.sasl.scram_server import Credential

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

KEYS_KEPT: Final = 1_000


class TokenLogins:
    """See the module. `rules` are None where there are no tokens; `image` gives the newest image of the cluster."""

    def __init__(
        self,
        rules: TokenRules | None,
        *,
        image: Callable[[], ClusterImage],
        clock: Clock,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._rules = rules
        self._image = image
        self._clock = clock
        self._random_bytes = random_bytes
        self._kept: dict[tuple[str, str], ScramKeys] = {}

    def credential_of(self, token_id: str, mechanism: str) -> Credential | None:
        """What to check a login with a token against; None when there is no such token, or it is too old."""
        rules = self._rules
        token = None if rules is None else token_in(self._image(), token_id)
        if rules is None or token is None or token.is_expired(self._clock.now_ms()):
            return None
        keys = self._keys(rules.hmac_of(token_id), token_id, mechanism)
        return Credential(keys, split_principal(token.owner)[1], min(token.expiry_ms, token.max_ms))

    def _keys(self, secret: bytes, token_id: str, mechanism: str) -> ScramKeys:
        keys = self._kept.pop((token_id, mechanism), None)
        if keys is None:
            password = base64.b64encode(secret).decode()
            salt = self._random_bytes(SALT_BYTES)
            keys = scram_keys(mechanism, password, salt=salt, iterations=ITERATIONS_AT_LEAST)
        self._kept[token_id, mechanism] = keys  # at the end: what was not used for longest is the first to go
        if len(self._kept) > KEYS_KEPT:
            del self._kept[next(iter(self._kept))]
        return keys


def token_logins(broker: Broker) -> TokenLogins:
    return TokenLogins(
        broker.tokens.rules,
        image=lambda: broker.image,
        clock=broker.clock,
        random_bytes=broker.random.randbytes,
    )
