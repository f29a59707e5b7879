"""Metadata: who the brokers are and who leads which partition; the first thing every client asks.

A null topic list (from version 1) or an empty one (version 0) asks for all topics. A topic that does not exist is made
when auto.create.topics.enable says so and the request allows it (always before version 4); the answer is then
LEADER_NOT_AVAILABLE until it is there, as clients expect. Topics can be asked for by id from version 12 on; as in Kafka
one id is enough to make names count for nothing, because the Java admin client leaves an empty name beside each id. A
topic that is named twice is described once, as in Kafka. One request makes at most CREATED_LIMIT topics; the others do
not exist yet, and the client asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.pacing import Pace
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster import model
from ottla.cluster.image import ClusterImage
from ottla.errors import (
    BrokerError,
    InvalidRequest,
    InvalidTopicException,
    LeaderNotAvailable,
    ListenerNotFound,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

NULL_IS_ALL_SINCE = 1
AUTO_CREATE_FLAG_SINCE = 4
LISTENER_ERROR_SINCE = 6
BY_ID_SINCE = 12
CREATED_LIMIT: Final = 1_000
NO_OPERATIONS: Final = 0


CREATE_CLUSTER = Need(AclOperation.CREATE, AclResource.CLUSTER)
DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.ENTRY, when="topics asked for by name or id")
LIST_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.LEFT_OUT, when="all topics")
CREATE_TOPIC = Need(
    AclOperation.CREATE, AclResource.TOPIC, Refused.ENTRY, when="topics that it may create", unless=CREATE_CLUSTER
)
DESCRIBE_CLUSTER = Need(
    AclOperation.DESCRIBE, AclResource.CLUSTER, Refused.LEFT_OUT, when="to be told the operations on the cluster"
)
SERVES = Served(
    MetadataRequest,
    entries=WIDE_ENTRIES,
    is_paced=True,
    needs=(DESCRIBE_TOPIC, LIST_TOPIC, CREATE_TOPIC, DESCRIBE_CLUSTER),
)


async def handle(broker: Broker, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    with broker.pacing.turn(context.connection) as pace:
        topics = await _topics(broker, request, context, pace)
        for topic in topics if request.include_topic_authorized_operations else ():
            if topic.name is not None and topic.error_code != DESCRIBE_TOPIC.code:
                topic.topic_authorized_operations = broker.access.operations(context, AclResource.TOPIC, topic.name)
            await pace.step()
    image = broker.image
    answer = MetadataResponse(
        brokers=[_broker(one, context.listener) for one in image.brokers.values() if _is_shown(one, context.listener)],
        cluster_id=image.cluster_id,
        controller_id=broker.link.controller_for_clients,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        may_describe = DESCRIBE_CLUSTER.is_met(broker, context)
        answer.cluster_authorized_operations = (
            broker.access.operations(context, AclResource.CLUSTER) if may_describe else NO_OPERATIONS
        )
    return answer


def _is_shown(one: model.Broker, listener: str) -> bool:
    return not one.fenced and one.endpoint(listener) is not None


def _broker(one: model.Broker, listener: str) -> MetadataResponseBroker:
    endpoint = one.endpoint(listener)
    assert endpoint is not None
    return MetadataResponseBroker(node_id=one.id, host=endpoint.host, port=endpoint.port, rack=one.rack)


async def _topics(
    broker: Broker, request: MetadataRequest, context: RequestContext, pace: Pace
) -> list[MetadataResponseTopic]:
    asked = request.topics
    asks_all = asked is None if context.api_version >= NULL_IS_ALL_SINCE else not asked
    if asks_all or asked is None:
        return await _all_topics(broker, context, pace)
    names: dict[str | None, None] = {}
    ids: dict[bytes, None] = {}
    for one in asked:
        if one.topic_id != ZERO_UUID:
            ids[one.topic_id] = None
        else:
            names[one.name] = None
        await pace.step()
    found = []
    if context.api_version < BY_ID_SINCE and (ids or None in names):
        for one in asked:
            found.append(_missing(one.name or "", one.topic_id, InvalidRequest()))
            await pace.step()
        return found
    if ids:
        for topic_id in ids:
            found.append(_topic_by_id(broker, topic_id, context))
            await pace.step()
        return found
    may_create = request.allow_auto_topic_creation or context.api_version < AUTO_CREATE_FLAG_SINCE
    creations_left = CREATED_LIMIT if may_create else 0
    for name in names:
        is_missing = name is not None and broker.image.topic(name) is None
        found.append(_asked_topic(broker, name, is_missing and creations_left > 0, context))
        creations_left -= is_missing
        await pace.step()
    return found


async def _all_topics(broker: Broker, context: RequestContext, pace: Pace) -> list[MetadataResponseTopic]:
    found = []
    for name in sorted(LIST_TOPIC.met_by(broker, context, list(broker.image.topics()))):
        topic = broker.image.topic(name)
        if topic is not None:  # it may be gone since we began
            found.append(_topic(broker, topic, context))
        await pace.step()
    return found


def _topic_by_id(broker: Broker, topic_id: bytes, context: RequestContext) -> MetadataResponseTopic:
    topic = broker.image.topic_by_id(topic_id)
    if topic is None:
        return _missing(None, topic_id, UnknownTopicId())
    if not DESCRIBE_TOPIC.is_met(broker, context, topic.name):
        return _missing(None, topic_id, DESCRIBE_TOPIC.refusal(context))  # its id is no secret, its name is
    return _topic(broker, topic, context)


def _asked_topic(broker: Broker, name: str | None, may_create: bool, context: RequestContext) -> MetadataResponseTopic:
    if name is None:
        return _missing(None, ZERO_UUID, UnknownTopicId())
    if not DESCRIBE_TOPIC.is_met(broker, context, name):
        return _missing(name, ZERO_UUID, DESCRIBE_TOPIC.refusal(context))
    topic = broker.image.topic(name)
    if topic is None and may_create and not _creates(broker, context, name):
        return _missing(name, ZERO_UUID, CREATE_TOPIC.refusal(context))
    refused = {}
    if topic is None and may_create:
        refused = broker.topics_on_demand.create_missing([name], context)
    topic = broker.image.topic(name)
    if topic is not None:
        return _topic(broker, topic, context)
    error = refused.get(name) or UnknownTopicOrPartition()
    if not broker.is_legal_topic_name(name):
        error = InvalidTopicException()
    return _missing(name, ZERO_UUID, error)


def _creates(broker: Broker, context: RequestContext, name: str) -> bool:
    """Whether asking for a topic that does not exist may create it; where nothing is created, nothing is needed."""
    return not broker.settings.auto_create_topics_enable or CREATE_TOPIC.is_met(broker, context, name)


def _missing(name: str | None, topic_id: bytes, error: BrokerError) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error.code, name=name, topic_id=topic_id, partitions=[])


def _topic(broker: Broker, topic: model.Topic, context: RequestContext) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in broker.internal_topics,
        partitions=[_partition(broker, index, one, context) for index, one in enumerate(topic.partitions)],
    )


def _partition(
    broker: Broker, index: int, state: model.Partition, context: RequestContext
) -> MetadataResponsePartition:
    error_code, leader_id = leader_of(broker.image, state, context.listener)
    if error_code == ListenerNotFound.code and context.api_version < LISTENER_ERROR_SINCE:
        error_code = LeaderNotAvailable.code
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=[replica for replica in state.replicas if not broker.image.is_active(replica)],
    )


def leader_of(image: ClusterImage, state: model.Partition, listener: str) -> tuple[int, int]:
    """Error code and id of the leader as clients of a listener see it; -1 when they cannot reach one."""
    leader = image.brokers.get(state.leader)
    if leader is None or leader.fenced:
        return LeaderNotAvailable.code, model.NO_LEADER
    if leader.endpoint(listener) is None:
        return ListenerNotFound.code, model.NO_LEADER
    return 0, leader.id
