"""Delegation tokens in this broker: who may ask for them, and when they are removed. token_logins.py logs in with them.

1. A token stands for somebody, so whoever asks about tokens must have said who he is by other means: not on a PLAINTEXT
   listener, not over TLS without a certificate, and not with a token.
2. Tokens are found by an index of the image that counts now. One owner has at most ottla.delegation.tokens.per.owner
   of them; who wants one more is answered POLICY_VIOLATION.
3. Tokens that are too old are removed by whoever decides for the cluster: the controller, or a broker that is alone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.cluster.delegation_tokens import TokenIndex, TokenRules, remove_expired
from ottla.cluster.image import ClusterImage
from ottla.errors import (
    BrokerError,
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
    PolicyViolation,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.settings import BrokerSettings

log = logging.getLogger(__name__)

ANONYMOUS: Final = "User:ANONYMOUS"
_BY_THE_CONTROLLER: Final = (
    DelegationTokenAuthDisabled,
    DelegationTokenNotFound,
    DelegationTokenExpired,
    DelegationTokenOwnerMismatch,
)


class DelegationTokens:
    """`rules` are what delegation.token.* say; None when tokens are switched off."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.rules = token_rules(settings)
        self._per_owner = settings.ottla_delegation_tokens_per_owner
        self._index: TokenIndex | None = None

    def check_request(self, context: RequestContext) -> None:
        """See promise 1."""
        is_unknown = context.security_protocol == "SSL" and context.principal == ANONYMOUS
        if context.by_token or context.security_protocol == "PLAINTEXT" or is_unknown:
            raise DelegationTokenRequestNotAllowed

    def rules_in_effect(self) -> TokenRules:
        """The rules, where there are tokens."""
        if self.rules is None:
            raise DelegationTokenAuthDisabled
        return self.rules

    def index(self, image: ClusterImage) -> TokenIndex:
        """All tokens of the image that counts now."""
        if self._index is None:
            self._index = TokenIndex(self.rules_in_effect())
        self._index.follow(image)
        return self._index

    def check_count(self, image: ClusterImage, owner: str) -> None:
        if self.index(image).owners[owner] >= self._per_owner:
            raise PolicyViolation(
                f"{owner} has {self._per_owner} delegation tokens, and ottla.delegation.tokens.per.owner allows no "
                "more; expire some of them"
            )


def token_rules(settings: BrokerSettings) -> TokenRules | None:
    """What the settings say of tokens; None when there is no secret to make them with."""
    secret = settings.delegation_token_secret_key or settings.delegation_token_master_key
    if secret is None or not secret.value:
        return None
    return TokenRules(secret, settings.delegation_token_max_lifetime_ms, settings.delegation_token_expiry_time_ms)


async def remove_expired_tokens(broker: Broker) -> None:
    """See promise 3; done now and then by a job."""
    link = broker.link
    decides = link.is_alone or (broker.member is not None and broker.member.role.is_active)
    if broker.tokens.rules is None or not decides:
        return
    now_ms = broker.clock.now_ms()
    old = [token.id for token in broker.tokens.index(broker.image).tokens.values() if token.is_expired(now_ms)]
    if not old:
        return
    try:
        sweep = await link.change(lambda image: remove_expired(image, old, now_ms))
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
