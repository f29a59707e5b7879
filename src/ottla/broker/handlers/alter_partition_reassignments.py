"""AlterPartitionReassignments: move partitions to other brokers, or stop a move (cluster/reassignments.py).

Version 1 can forbid that the number of replicas changes, and the answer repeats that wish. On a cluster of one broker
the only target is that broker, and it is reached at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.reassignments import alter_partition_reassignments
from ottla.errors import NONE, BrokerError
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: AlterPartitionReassignmentsRequest, context: RequestContext) -> Later[Any]:
    def answer(given: Any) -> AlterPartitionReassignmentsResponse:
        refused = given if isinstance(given, BrokerError) else None
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=NONE if refused is None else refused.code,
            error_message=None if refused is None else str(refused),
            responses=given.answers if refused is None else [],
        )

    return broker.change(lambda image: alter_partition_reassignments(image, request), answer)
