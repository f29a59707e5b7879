"""DeleteTopics: remove topics, by name or from version 6 on by id (cluster/topics.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.forwarding import decided
from ottla.broker.quotas.mutations import mutation_quota
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.pacing import Pace
from ottla.broker.requests.served import Quota, Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.topics import delete_topics
from ottla.errors import BrokerError
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DELETE_CLUSTER = Need(AclOperation.DELETE, AclResource.CLUSTER)
DELETE_TOPIC = Need(AclOperation.DELETE, AclResource.TOPIC, Refused.ENTRY, unless=DELETE_CLUSTER, is_forwarded=True)
DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY, unless=DELETE_CLUSTER, is_forwarded=True)
SERVES = Served(DeleteTopicsRequest, is_paced=True, needs=(DELETE_TOPIC, DESCRIBE_TOPIC), quota=Quota.MUTATION)


async def handle(broker: Broker, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    refused: list[DeletableTopicResult] = []
    if broker.access.is_on:
        with broker.pacing.turn(context.connection) as pace:
            refused = await _take_refused(broker, request, context, pace)
    if refused and not request.topics and not request.topic_names:
        return DeleteTopicsResponse(responses=refused)
    answer = await decided(broker, request, context, _decide)
    answer.responses += refused
    return answer


async def _take_refused(
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext, pace: Pace
) -> list[DeletableTopicResult]:
    """Leave in the request what may be deleted; returns the answers for the rest.

    Who may not describe a topic is not told whether it exists, nor the name behind an id. Who may is told that a topic
    does not exist, whether he might delete it or not. Who knows the id of a topic need not describe it to delete it.
    """
    named = [_Named(name, name, ZERO_UUID) for name in request.topic_names]
    named += [_Named(_name_of(broker, each), each.name, each.topic_id) for each in request.topics]
    names = {each.resource for each in named if each.resource is not None}
    described = await DESCRIBE_TOPIC.met_by_many(broker, context, names, pace)
    deletable = await DELETE_TOPIC.met_by_many(broker, context, names, pace)
    by_name = {each for each in described if each in deletable or broker.image.topic(each) is None}
    refused = [
        each
        for each in named
        if each.resource is not None and each.resource not in (deletable if each.name is None else by_name)
    ]
    await pace.step()
    gone = {(each.name, each.topic_id) for each in refused}
    request.topic_names = [name for name in request.topic_names if (name, ZERO_UUID) not in gone]
    request.topics = [each for each in request.topics if (each.name, each.topic_id) not in gone]
    await pace.step()
    error = DELETE_TOPIC.refusal(context)
    return [
        _refused(each.resource if each.resource in described else each.name, each.topic_id, error) for each in refused
    ]


class _Named(NamedTuple):
    """A topic of the request: what it is, if anything, and how it was named."""

    resource: str | None
    name: str | None
    topic_id: bytes


def _name_of(broker: Broker, each: DeleteTopicState) -> str | None:
    return broker.image.topic_name(each.topic_id) if each.name is None else each.name


async def _decide(broker: Broker, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
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


def _refused(name: str | None, topic_id: bytes, error: BrokerError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
