"""ExpireDelegationToken: its owner or a renewer lets a token end, at once or later (cluster/delegation_tokens.py).

Versions 1 and 2. A period below 0 takes the token away; who is logged in with it stays so until his session ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.delegation_tokens import refused_at_ms
from ottla.cluster.delegation_tokens import expire_token
from ottla.errors import NONE, BrokerError
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(ExpireDelegationTokenRequest)


async def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    try:
        expiry_ms = await _expire(broker, request, context)
    except BrokerError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=refused_at_ms(error))
    return ExpireDelegationTokenResponse(error_code=NONE, expiry_timestamp_ms=expiry_ms)


async def _expire(broker: Broker, request: ExpireDelegationTokenRequest, context: RequestContext) -> int:
    broker.tokens.check_request(context)
    now_ms = broker.clock.now_ms()
    token_id = broker.tokens.index(broker.image).find(bytes(request.hmac)).id
    plan = await broker.link.change(
        lambda image: expire_token(image, token_id, request.expiry_time_period_ms, context.principal, now_ms=now_ms)
    )
    return plan.token.expiry_ms
