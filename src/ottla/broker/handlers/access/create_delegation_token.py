"""CreateDelegationToken: a token to log in with, for whoever asks or, with a right, for somebody else (KIP-48, 373).

1. Versions 1 to 3; from 3 on the request may name an owner, and the answer tells who asked. A token for somebody else
   needs CREATE_TOKENS on that user.
2. The answer has the token's HMAC, which is its password: it is told here and to whoever may describe the token.
3. As in Kafka an answer without a token still names the owner and who asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.delegation_tokens import refused_at_ms, split_principal
from ottla.broker.security.needs import Need
from ottla.cluster.delegation_tokens import check_renewers, create_token
from ottla.cluster.model import DelegationToken
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.values import random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

REQUESTER_SINCE: Final = 3

CREATE_TOKENS = Need(AclOperation.CREATE_TOKENS, AclResource.USER, when="a token for somebody else")
SERVES = Served(CreateDelegationTokenRequest, is_paced=True, needs=(CREATE_TOKENS,))


async def handle(
    broker: Broker, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    owner = _owner(request, context)
    try:
        token = await _create(broker, request, context, owner)
    except BrokerError as error:
        return _refusal(error, owner, context)
    return _answer(owner, context, token, broker.tokens.rules_in_effect().hmac_of(token.id))


def check(broker: Broker, request: CreateDelegationTokenRequest, context: RequestContext) -> None:
    """Raise unless who asks may have such a token, as far as this broker decides it; controllers count on that."""
    broker.tokens.check_request(context)
    if (owner := _owner(request, context)) != context.principal:
        CREATE_TOKENS.check(broker, context, owner)


def _owner(request: CreateDelegationTokenRequest, context: RequestContext) -> str:
    if not request.owner_principal_name:
        return context.principal
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


async def _create(
    broker: Broker, request: CreateDelegationTokenRequest, context: RequestContext, owner: str
) -> DelegationToken:
    check(broker, request, context)
    renewers = [f"{each.principal_type}:{each.principal_name}" for each in request.renewers]
    check_renewers(renewers)
    rules = broker.tokens.rules_in_effect()
    broker.tokens.check_count(broker.image, owner)
    plan = create_token(
        uuid_to_text(random_uuid(broker.random.randbytes)),
        owner,
        context.principal,
        renewers,
        request.max_lifetime_ms,
        now_ms=broker.clock.now_ms(),
        rules=rules,
    )
    await broker.link.change(lambda image: plan)
    return plan.token


def _answer(
    owner: str, context: RequestContext, token: DelegationToken, secret: bytes
) -> CreateDelegationTokenResponse:
    response = _named(owner, context, token.issue_ms)
    response.expiry_timestamp_ms = token.expiry_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id = token.id
    response.hmac = secret
    return response


def _refusal(error: BrokerError, owner: str, context: RequestContext) -> CreateDelegationTokenResponse:
    response = _named(owner, context, refused_at_ms(error))
    response.error_code = error.code
    return response


def _named(owner: str, context: RequestContext, time_ms: int) -> CreateDelegationTokenResponse:
    owner_type, owner_name = split_principal(owner)
    requester = split_principal(context.principal) if context.api_version >= REQUESTER_SINCE else ("", "")
    return CreateDelegationTokenResponse(
        error_code=NONE,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
        token_id="",
        hmac=b"",
    )
