"""DeleteTopics: remove topics, by name or from version 6 on by id (cluster/topics.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.topics import delete_topics
from ottla.errors import BrokerError
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: DeleteTopicsRequest, context: RequestContext) -> Later[Any]:
    def answer(given: Any) -> DeleteTopicsResponse:
        if not isinstance(given, BrokerError):
            return DeleteTopicsResponse(responses=given.answers)
        named = [(name, ZERO_UUID) for name in request.topic_names]
        named += [(topic.name or "", topic.topic_id) for topic in request.topics]
        return DeleteTopicsResponse(responses=[_refused(name, topic_id, given) for name, topic_id in named])

    version = context.api_version
    return broker.change(lambda image: delete_topics(image, request, broker.topic_rules, version=version), answer)


def _refused(name: str, topic_id: bytes, error: BrokerError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
