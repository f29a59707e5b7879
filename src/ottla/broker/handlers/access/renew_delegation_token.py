"""RenewDelegationToken: its owner or a renewer moves the end of a token (cluster/delegation_tokens.py).

Versions 1 and 2. Whoever knows the HMAC of a token can be told that it is too old; only the two may renew it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.delegation_tokens import refused_at_ms
from ottla.cluster.delegation_tokens import renew_token
from ottla.errors import NONE, BrokerError
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(RenewDelegationTokenRequest)


async def handle(
    broker: Broker, request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    try:
        expiry_ms = await _renew(broker, request, context)
    except BrokerError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=refused_at_ms(error))
    return RenewDelegationTokenResponse(error_code=NONE, expiry_timestamp_ms=expiry_ms)


async def _renew(broker: Broker, request: RenewDelegationTokenRequest, context: RequestContext) -> int:
    broker.tokens.check_request(context)
    rules, now_ms = broker.tokens.rules_in_effect(), broker.clock.now_ms()
    token_id = broker.tokens.index(broker.image).find(bytes(request.hmac)).id
    plan = await broker.link.change(
        lambda image: renew_token(
            image, token_id, request.renew_period_ms, context.principal, now_ms=now_ms, rules=rules
        )
    )
    return plan.token.expiry_ms
