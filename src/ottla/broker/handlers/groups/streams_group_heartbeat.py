"""StreamsGroupHeartbeat: join, stay in and leave a group of Kafka Streams members (KIP-1071).

1. A broker whose group.coordinator.rebalance.protocols does not name `streams` answers UNSUPPORTED_VERSION.
2. The topics of a topology must have legal names, must not be Kafka's own, and its sender must be allowed to describe
   them.
3. Internal topics that the topology needs (repartition topics, changelogs) are created for the member if it may create
   them, with the partitions that the coordinator found and the settings that the topology asks for. The answer does not
   wait for them: it says that they are missing, and what kept them from being created the last time; the next heartbeat
   finds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Work, awaited
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.topic_names import is_legal_name
from ottla.errors import BrokerError, StreamsInvalidTopology, UnsupportedVersion
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, when="every topic of the topology that it brings")
CREATE_CLUSTER = Need(AclOperation.CREATE, AclResource.CLUSTER)
CREATE_TOPIC = Need(
    AclOperation.CREATE,
    AclResource.TOPIC,
    Refused.LEFT_OUT,
    when="internal topics that are missing; a status says which",
    unless=CREATE_CLUSTER,
)
SERVES = Served(StreamsGroupHeartbeatRequest, is_paced=True, needs=(READ_GROUP, DESCRIBE_TOPIC, CREATE_TOPIC))

MISSING_INTERNAL_TOPICS: Final = 3
NAMED_LIMIT: Final = 3  # failures in the detail of a status; the rest is counted


def handle(broker: Broker, request: StreamsGroupHeartbeatRequest, context: RequestContext) -> Message | Work[Message]:
    if "streams" not in broker.settings.group_coordinator_rebalance_protocols:
        raise UnsupportedVersion("group.coordinator.rebalance.protocols does not name streams")
    READ_GROUP.check(broker, context, request.group_id)
    if request.topology is not None:
        _check_topics(broker, context, request.topology)
    answer = broker.groups.answer(request.group_id, GroupShard.streams_group_heartbeat, request, context)
    if isinstance(answer, StreamsGroupHeartbeatResponse) and not answer.status:
        return answer
    return _answer_and_create(broker, request, context, answer)


async def _answer_and_create(
    broker: Broker, request: StreamsGroupHeartbeatRequest, context: RequestContext, answering: Message | Work[Message]
) -> Message:
    answer = await awaited(answering)
    assert isinstance(answer, StreamsGroupHeartbeatResponse)
    missing = next((each for each in answer.status or () if each.status_code == MISSING_INTERNAL_TOPICS), None)
    if missing is not None:
        _create_missing(broker, context, request.group_id, missing)
    return answer


def _check_topics(broker: Broker, context: RequestContext, topology: Topology) -> None:
    from ottla.broker.coordinators.groups.streams.topology import named_topics

    names = named_topics(topology)
    if prohibited := sorted(names & broker.internal_topics):
        raise StreamsInvalidTopology(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
    if illegal := sorted(name for name in names if not is_legal_name(name)):
        raise StreamsInvalidTopology(f"Topic names {','.join(illegal)} are not valid topic names.")
    if len(DESCRIBE_TOPIC.met_by(broker, context, names)) < len(names):
        raise DESCRIBE_TOPIC.refusal(context)


def _create_missing(broker: Broker, context: RequestContext, group_id: str, status: Status) -> None:
    """Begin to create the internal topics of the group; the status says what stands in the way."""
    try:
        shard = broker.groups.runtime.shard_of(broker.groups.partition_of(group_id))
    except BrokerError:
        return  # it has just moved to another broker, which will be asked next
    topics = shard.missing_streams_topics(group_id)
    allowed = CREATE_TOPIC.met_by(broker, context, set(topics))
    if len(allowed) < len(topics):
        refused = ", ".join(sorted(topics.keys() - allowed))
        status.status_detail += f"; Unauthorized to CREATE on topics {refused}."
        return
    failed = broker.topics_on_demand.create_described(topics.values(), context)
    if failed:
        status.status_detail += f"; Creation failed: {_summary(failed)}."


def _summary(failed: Mapping[str, str]) -> str:
    named: Iterable[str] = (f"{topic} ({why})" for topic, why in sorted(failed.items())[:NAMED_LIMIT])
    more = f" and {len(failed) - NAMED_LIMIT} more" if len(failed) > NAMED_LIMIT else ""
    return ", ".join(named) + more
