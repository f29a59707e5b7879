"""DescribeUserScramCredentials: which SCRAM mechanisms users have; never a secret (cluster/credentials.py).

Version 0 only. No users asks for all; a user without credentials is RESOURCE_NOT_FOUND at that user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.credentials import describe_user_scram_credentials
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_CLUSTER = Need(AclOperation.DESCRIBE, AclResource.CLUSTER)
SERVES = Served(DescribeUserScramCredentialsRequest, is_paced=True, needs=(DESCRIBE_CLUSTER,))


def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    if not DESCRIBE_CLUSTER.is_met(broker, context):
        return _refusal(request, DESCRIBE_CLUSTER.refusal(context))
    results = describe_user_scram_credentials(broker.image, request)
    return DescribeUserScramCredentialsResponse(error_code=NONE, results=results)


def _refusal(request: DescribeUserScramCredentialsRequest, error: BrokerError) -> DescribeUserScramCredentialsResponse:
    """As Kafka refuses it: for the whole, and once more for every user, without the name."""
    message = str(error)
    result = DescribeUserScramCredentialsResult(
        user="", error_code=error.code, error_message=message, credential_infos=[]
    )
    results = [result] * len(request.users or [])
    return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=message, results=results)
