"""DeleteTopics: remove topics, by name or from version 6 on by id (cluster/topics.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.quotas.mutations import mutation_quota
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Quota, Served
from ottla.cluster.topics import delete_topics
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    DeleteTopicsRequest,
    is_forwarded=True,
    is_paced=True,
    needs=(
        Need(
            AclOperation.DELETE,
            AclResource.TOPIC,
            lambda request: [*request.topic_names, *(topic.name for topic in request.topics if topic.name)],
        ),
    ),
    quota=Quota.MUTATION,
)


async def handle(broker: Broker, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    version = context.api_version
    quota = mutation_quota(context.charges, request, context.api_version, broker.clock.monotonic_ms)
    try:
        plan = await broker.link.change(
            lambda image: delete_topics(image, request, quota.rules(broker.topic_rules), version=version)
        )
    except BrokerError as error:
        named = [(name, ZERO_UUID) for name in request.topic_names]
        named += [(topic.name or "", topic.topic_id) for topic in request.topics]
        return DeleteTopicsResponse(responses=[_refused(name, topic_id, error) for name, topic_id in named])
    return quota.throttled(DeleteTopicsResponse(responses=plan.answers))


def _refused(name: str, topic_id: bytes, error: BrokerError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
