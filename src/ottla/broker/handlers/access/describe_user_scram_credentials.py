"""DescribeUserScramCredentials: which SCRAM mechanisms users have; never a secret (cluster/credentials.py).

Version 0 only. No users asks for all; a user without credentials is RESOURCE_NOT_FOUND at that user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.cluster.credentials import describe_user_scram_credentials
from ottla.errors import NONE
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(DescribeUserScramCredentialsRequest, needs=(Need(AclOperation.DESCRIBE, AclResource.CLUSTER),))


def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    results = describe_user_scram_credentials(broker.image, request)
    return DescribeUserScramCredentialsResponse(error_code=NONE, results=results)
