"""CreateTopics: make topics. What is allowed is decided in cluster/topics.py, in one line with all other changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.topics import create_topics
from ottla.errors import BrokerError
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: CreateTopicsRequest, context: RequestContext) -> Later[Any]:
    def answer(given: Any) -> CreateTopicsResponse:
        if isinstance(given, BrokerError):
            return CreateTopicsResponse(topics=[_refused(topic.name, given) for topic in request.topics])
        return CreateTopicsResponse(topics=given.answers)

    return broker.change(lambda image: create_topics(image, request, broker.topic_rules, broker.random), answer)


def _refused(name: str, error: BrokerError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=str(error))
