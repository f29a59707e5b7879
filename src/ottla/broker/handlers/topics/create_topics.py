"""CreateTopics: make topics. What is allowed is decided in cluster/topics.py, in one line with all other changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.forwarding import decided
from ottla.broker.quotas.mutations import mutation_quota
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Quota, Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.topic_names import CLUSTER_METADATA
from ottla.cluster.topics import create_topics
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


CREATE_CLUSTER = Need(AclOperation.CREATE, AclResource.CLUSTER)
CREATE_TOPIC = Need(AclOperation.CREATE, AclResource.TOPIC, Refused.ENTRY, unless=CREATE_CLUSTER, is_forwarded=True)
DESCRIBE_CONFIGS = Need(
    AclOperation.DESCRIBE_CONFIGS,
    AclResource.TOPIC,
    Refused.LEFT_OUT,
    when="to be told its settings",
    is_forwarded=True,
)
SERVES = Served(CreateTopicsRequest, is_paced=True, needs=(CREATE_TOPIC, DESCRIBE_CONFIGS), quota=Quota.MUTATION)


async def handle(broker: Broker, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    with broker.pacing.turn(context.connection) as pace:
        request.topics, refused = await CREATE_TOPIC.split_many(broker, context, request.topics, _name, pace)
    answer = CreateTopicsResponse(topics=[])
    if request.topics or not refused:
        answer = await decided(broker, request, context, _decide)
    described = DESCRIBE_CONFIGS.met_by(broker, context, {topic.name for topic in answer.topics})
    answer.topics = [topic if topic.name in described else _without_settings(topic) for topic in answer.topics]
    refusal = CREATE_TOPIC.refusal(context)
    answer.topics += [_refused(topic.name, refusal) for topic in refused]
    return answer


def _name(topic: CreatableTopic) -> str | None:
    """The log of a cluster's metadata is nobody's to create, whatever he may."""
    return None if topic.name == CLUSTER_METADATA else topic.name


def _without_settings(made: CreatableTopicResult) -> CreatableTopicResult:
    if made.error_code:
        return made
    code = DESCRIBE_CONFIGS.code
    return CreatableTopicResult(name=made.name, topic_id=made.topic_id, error_code=0, topic_config_error_code=code)


async def _decide(broker: Broker, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
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
