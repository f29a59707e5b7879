"""CreateTopics: make topics. What is allowed is decided in cluster/topics.py, in one line with all other changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.quotas.mutations import mutation_quota
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Quota, Served
from ottla.cluster.topics import create_topics
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    CreateTopicsRequest,
    is_forwarded=True,
    is_paced=True,
    needs=(Need(AclOperation.CREATE, AclResource.TOPIC, lambda request: [topic.name for topic in request.topics]),),
    quota=Quota.MUTATION,
)


async def handle(broker: Broker, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    quota = mutation_quota(context.charges, request, context.api_version, broker.clock.monotonic_ms)
    try:
        plan = await broker.link.change(
            lambda image: create_topics(image, request, quota.rules(broker.topic_rules), broker.random)
        )
    except BrokerError as error:
        return CreateTopicsResponse(topics=[_refused(topic.name, error) for topic in request.topics])
    return quota.throttled(CreateTopicsResponse(topics=plan.answers))


def _refused(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=str(error))
