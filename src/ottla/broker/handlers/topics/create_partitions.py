"""CreatePartitions: give topics more partitions (cluster/partitions.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.forwarding import decided
from ottla.broker.quotas.mutations import mutation_quota
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Quota, Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.partitions import create_partitions
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


ALTER_TOPIC = Need(AclOperation.ALTER, AclResource.TOPIC, Refused.ENTRY, is_forwarded=True)
SERVES = Served(CreatePartitionsRequest, is_paced=True, needs=(ALTER_TOPIC,), quota=Quota.MUTATION)


async def handle(broker: Broker, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    with broker.pacing.turn(context.connection) as pace:
        request.topics, refused = await ALTER_TOPIC.split_many(
            broker, context, request.topics, lambda topic: topic.name, pace
        )
    answer = CreatePartitionsResponse(results=[])
    if request.topics or not refused:
        answer = await decided(broker, request, context, _decide)
    answer.results += [_refused(topic.name, ALTER_TOPIC.refusal(context)) for topic in refused]
    return answer


async def _decide(
    broker: Broker, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    quota = mutation_quota(context.charges, request, context.api_version, broker.clock.monotonic_ms)
    try:
        plan = await broker.link.change(
            lambda image: create_partitions(image, request, quota.rules(broker.topic_rules), broker.random)
        )
    except BrokerError as error:
        return CreatePartitionsResponse(results=[_refused(topic.name, error) for topic in request.topics])
    return quota.throttled(CreatePartitionsResponse(results=plan.answers))


def _refused(name: str, error: BrokerError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=str(error))
