"""DescribeDelegationToken: the tokens that whoever asks may see, with their HMACs.

1. Versions 1 to 3; from 3 on the answer tells who asked for each token.
2. Everybody sees the tokens that he owns or may renew; others with DESCRIBE on the token, or DESCRIBE_TOKENS on its
   owner. What he may not see is left out, without a word.
3. Owners in the request choose: tokens that one of them owns or may renew. No list asks for all tokens, an empty one
   for none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.delegation_tokens import split_principal
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.delegation_tokens import TokenRules
from ottla.cluster.model import DelegationToken
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

REQUESTER_SINCE: Final = 3

DESCRIBE_TOKENS = Need(AclOperation.DESCRIBE_TOKENS, AclResource.USER, Refused.LEFT_OUT, when="tokens of others")
DESCRIBE_TOKEN = Need(AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN, Refused.LEFT_OUT, when="tokens of others")
SERVES = Served(DescribeDelegationTokenRequest, is_paced=True, needs=(DESCRIBE_TOKEN, DESCRIBE_TOKENS))


async def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    try:
        broker.tokens.check_request(context)
        rules = broker.tokens.rules_in_effect()
    except BrokerError as error:
        return DescribeDelegationTokenResponse(error_code=error.code, tokens=[])
    is_asked_for, may_see = _choice(request), _view(broker, context)
    tokens = []
    with broker.pacing.turn(context.connection) as pace:
        for _, token in sorted(broker.tokens.index(broker.image).tokens.items()):
            if is_asked_for(token) and may_see(token):
                tokens.append(_described(token, rules, context.api_version))
            await pace.step()
    return DescribeDelegationTokenResponse(error_code=NONE, tokens=tokens)


def _choice(request: DescribeDelegationTokenRequest) -> Callable[[DelegationToken], bool]:
    if request.owners is None:
        return lambda token: True
    owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    return lambda token: not owners.isdisjoint((token.owner, *token.renewers))


def _view(broker: Broker, context: RequestContext) -> Callable[[DelegationToken], bool]:
    def may_see(token: DelegationToken) -> bool:
        return (
            token.is_for(context.principal)
            or DESCRIBE_TOKEN.is_met(broker, context, token.id)
            or DESCRIBE_TOKENS.is_met(broker, context, token.owner)
        )

    return may_see


def _described(token: DelegationToken, rules: TokenRules, version: int) -> DescribedDelegationToken:
    owner, requester = split_principal(token.owner), split_principal(token.requester)
    if version < REQUESTER_SINCE:
        requester = "", ""
    renewers = [split_principal(each) for each in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=rules.hmac_of(token.id),
        renewers=[DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, name in renewers],
    )
