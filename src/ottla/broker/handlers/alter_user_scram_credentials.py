"""AlterUserScramCredentials: set and remove SCRAM credentials; one result per user (cluster/credentials.py).

Version 0 only. What comes is the salted password, what is kept are the keys made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.credentials import alter_user_scram_credentials
from ottla.errors import BrokerError
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: AlterUserScramCredentialsRequest, context: RequestContext) -> Later[Any]:
    def answer(given: Any) -> AlterUserScramCredentialsResponse:
        if isinstance(given, BrokerError):
            return AlterUserScramCredentialsResponse(results=_refusals(request, given))
        return AlterUserScramCredentialsResponse(results=given.answers)

    return broker.change(lambda image: alter_user_scram_credentials(image, request), answer)


def _refusals(request: AlterUserScramCredentialsRequest, error: BrokerError) -> list[AlterUserScramCredentialsResult]:
    users = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
    return [
        AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=str(error)) for user in users
    ]
