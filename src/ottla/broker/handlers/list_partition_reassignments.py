"""ListPartitionReassignments: the moves of partitions that are under way; null topics asks for all. Version 0 only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.effects import RequestContext
from ottla.cluster.reassignments import list_partition_reassignments
from ottla.errors import NONE
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    topics = list_partition_reassignments(broker.image, request)
    return ListPartitionReassignmentsResponse(error_code=NONE, topics=topics)
