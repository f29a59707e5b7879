"""ShareAcknowledge: a member of a share group says what became of records that it acquired here (KIP-932).

The answer comes when what was said is kept. Epoch -1 ends the session: what the member still has is released. From
version 2 on locks can be renewed (is_renew_ack, KIP-1222), and the answer says how long they last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.broker.sharing.requests import (
    MOVED,
    Acknowledging,
    Leader,
    leader_of,
    nodes_of,
    refused_topics,
    session_key,
)
from ottla.broker.sharing.sessions import FINAL_EPOCH, INITIAL_EPOCH, Place
from ottla.errors import NONE, BrokerError, InvalidShareSessionEpoch
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
READ_TOPIC = Need(AclOperation.READ, AclResource.TOPIC, Refused.ENTRY)
SERVES = Served(ShareAcknowledgeRequest, needs=(READ_GROUP, READ_TOPIC))


async def handle(broker: Broker, request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
    try:
        key = session_key(broker, request.group_id, request.member_id)
        READ_GROUP.check(broker, context, key.group_id)
        if request.share_session_epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpoch("a share session begins with a fetch")
        is_end = request.share_session_epoch == FINAL_EPOCH
        if is_end:
            broker.sharing.sessions.find(key)
        else:
            broker.sharing.sessions.go_on(key, request.share_session_epoch)
    except BrokerError as error:
        return ShareAcknowledgeResponse(
            error_code=error.code, error_message=error.brief, responses=[], node_endpoints=[]
        )
    refused = refused_topics(broker, context, READ_TOPIC, {topic.topic_id for topic in request.topics})
    acknowledging = Acknowledging(broker, key, refused, is_renewing=request.is_renew_ack)
    for topic in request.topics:
        for each in topic.partitions:
            acknowledging.begin(Place(topic.topic_id, each.partition_index), each.acknowledgement_batches)
    kept = await acknowledging.errors()
    if is_end:
        broker.sharing.close_session(key)
    return _answer(broker, context, key.group_id, kept)


def _answer(
    broker: Broker, context: RequestContext, group_id: str, kept: Mapping[Place, BrokerError | None]
) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders: list[Leader] = []
    for place, error in kept.items():
        leader = Leader()
        if error is not None and error.code in MOVED:
            leader = leader_of(broker, place)
            leaders.append(leader)
        topic = topics.setdefault(place.topic_id, ShareAcknowledgeTopicResponse(topic_id=place.topic_id, partitions=[]))
        topic.partitions.append(
            PartitionData(
                partition_index=place.partition,
                error_code=NONE if error is None else error.code,
                error_message=None if error is None else error.brief,
                current_leader=LeaderIdAndEpoch(**leader._asdict()),
            )
        )
    return ShareAcknowledgeResponse(
        error_code=NONE,
        acquisition_lock_timeout_ms=broker.sharing.leaders.limits_of(group_id).lock_ms,
        responses=list(topics.values()),
        node_endpoints=[NodeEndpoint(**each._asdict()) for each in nodes_of(broker, leaders, context.listener)],
    )
