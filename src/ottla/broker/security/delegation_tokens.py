"""Delegation tokens in this broker: who may ask for them, and how somebody logs in with one.

    broker.tokens.rules                       what delegation.token.* say; None when tokens are switched off
    broker.tokens.check_request(context)      raises when tokens cannot be handled over this connection, or at all
    broker.tokens.credential(id, mechanism)   what a SCRAM login with a token is checked against

1. A token stands for somebody, so whoever asks about tokens must have said who he is by other means: not on a PLAINTEXT
   listener, not over TLS without a certificate, and not with a token.
2. A login with a token is SCRAM with tokenauth=true: the user is the token's id, the password its HMAC in base64. The
   keys for that are made at the first login with a token and kept for the next ones, at most CREDENTIALS_KEPT of them:
   they cost thousands of hashes.
3. A token that is too old logs nobody in, whether or not it has been removed yet.
4. Tokens that are too old are removed by whoever decides for the cluster: the controller, or a broker that is alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.clock import Clock
from ottla.cluster.credentials import ITERATIONS_AT_LEAST, MECHANISMS
from ottla.cluster.delegation_tokens import TokenRules, remove_expired, token_in
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import DelegationToken, ScramCredential
from ottla.errors import (
    BrokerError,
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.settings import BrokerSettings

log = logging.getLogger(__name__)

ANONYMOUS: Final = "User:ANONYMOUS"
CREDENTIALS_KEPT: Final = 1_000
SALT_BYTES: Final = 20
_BY_THE_CONTROLLER: Final = (
    DelegationTokenAuthDisabled,
    DelegationTokenNotFound,
    DelegationTokenExpired,
    DelegationTokenOwnerMismatch,
)
_HASHES: Final = {each.name: each.hash_name for each in MECHANISMS.values()}


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """What a login with a token is checked against, whom it makes of its client, and until when."""

    token: DelegationToken
    keys: ScramCredential = field(repr=False)

    @property
    def principal(self) -> str:
        """Whoever logs in with the token is its owner. SCRAM knows users only, whatever type the owner has."""
        return f"User:{split_principal(self.token.owner)[1]}"

    @property
    def expiry_ms(self) -> int:
        return min(self.token.expiry_ms, self.token.max_ms)


class DelegationTokens:
    """See the module. `image` gives the newest image of the cluster."""

    def __init__(
        self,
        settings: BrokerSettings,
        *,
        image: Callable[[], ClusterImage],
        clock: Clock,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.rules = token_rules(settings)
        self._image = image
        self._clock = clock
        self._random_bytes = random_bytes
        self._keys: dict[tuple[str, str], ScramCredential] = {}

    def check_request(self, context: RequestContext) -> None:
        """See promise 1."""
        if context.by_token or context.security_protocol == "PLAINTEXT":
            raise DelegationTokenRequestNotAllowed
        if context.security_protocol == "SSL" and context.principal == ANONYMOUS:
            raise DelegationTokenRequestNotAllowed

    def rules_in_effect(self) -> TokenRules:
        """The rules, where there are tokens."""
        if self.rules is None:
            raise DelegationTokenAuthDisabled
        return self.rules

    def credential(self, token_id: str, mechanism: str) -> TokenCredential | None:
        """What to check a login with a token against; None when there is no such token, or it is too old."""
        token = None if self.rules is None else token_in(self._image(), token_id)
        if self.rules is None or token is None or token.is_expired(self._clock.now_ms()):
            return None
        key = (token_id, mechanism)
        keys = self._keys.pop(key, None) or self._make_keys(self.rules.hmac_of(token_id), _HASHES[mechanism])
        self._keys[key] = keys  # at the end of the line: the one that nobody used for longest goes first
        if len(self._keys) > CREDENTIALS_KEPT:
            del self._keys[next(iter(self._keys))]
        return TokenCredential(token, keys)

    def _make_keys(self, secret: bytes, hash_name: str) -> ScramCredential:
        salt = self._random_bytes(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(hash_name, base64.b64encode(secret), salt, ITERATIONS_AT_LEAST)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        return ScramCredential(
            iterations=ITERATIONS_AT_LEAST,
            salt=salt,
            stored_key=hashlib.new(hash_name, client_key).digest(),
            server_key=hmac.digest(salted, b"Server Key", hash_name),
        )


def token_rules(settings: BrokerSettings) -> TokenRules | None:
    """What the settings say of tokens; None when there is no secret to make them with."""
    secret = settings.delegation_token_secret_key or settings.delegation_token_master_key
    if secret is None or not secret.value:
        return None
    return TokenRules(secret, settings.delegation_token_max_lifetime_ms, settings.delegation_token_expiry_time_ms)


async def remove_expired_tokens(broker: Broker) -> None:
    """See promise 4; done now and then by a job."""
    link = broker.link
    decides = link.is_alone or (link.role is not None and link.role.is_active)
    if broker.tokens.rules is None or not decides:
        return
    now_ms = broker.clock.now_ms()
    if not remove_expired(broker.image, now_ms).changes:
        return
    try:
        sweep = await link.change(lambda image: remove_expired(image, now_ms))
    except BrokerError as error:
        log.warning("delegation tokens that are too old could not be removed, it is tried again: %s", error)
        return
    for token in sweep.removed:
        log.info("the delegation token %s of %s is too old and was removed", token.id, token.owner)


def refused_at_ms(error: BrokerError) -> int:
    """The time in an answer that refuses. Apache Kafka 4.3 has 0 where its controller refuses, else -1."""
    return 0 if isinstance(error, _BY_THE_CONTROLLER) else -1


def split_principal(principal: str) -> tuple[str, str]:
    """Type and name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name
