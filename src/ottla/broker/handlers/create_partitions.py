"""CreatePartitions: give topics more partitions (cluster/partitions.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.partitions import create_partitions
from ottla.errors import BrokerError
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: CreatePartitionsRequest, context: RequestContext) -> Later[Any]:
    def answer(given: Any) -> CreatePartitionsResponse:
        if isinstance(given, BrokerError):
            return CreatePartitionsResponse(results=[_refused(topic.name, given) for topic in request.topics])
        return CreatePartitionsResponse(results=given.answers)

    return broker.change(lambda image: create_partitions(image, request, broker.topic_rules, broker.random), answer)


def _refused(name: str, error: BrokerError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=str(error))
