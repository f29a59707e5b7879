"""AlterUserScramCredentials: set and remove SCRAM credentials; one result per user (cluster/credentials.py).

Version 0 only. What comes is the salted password, what is kept are the keys made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.credentials import alter_user_scram_credentials
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER, Refused.ENTRY)
SERVES = Served(AlterUserScramCredentialsRequest, is_paced=True, needs=(ALTER_CLUSTER,))


async def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    try:
        ALTER_CLUSTER.check(broker, context)
        plan = await broker.link.change(lambda image: alter_user_scram_credentials(image, request))
    except BrokerError as error:
        return AlterUserScramCredentialsResponse(results=_refusals(request, error))
    return AlterUserScramCredentialsResponse(results=plan.answers)


def _refusals(request: AlterUserScramCredentialsRequest, error: BrokerError) -> list[AlterUserScramCredentialsResult]:
    users = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
    return [
        AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=str(error)) for user in users
    ]
