"""AlterShareGroupOffsets: set where a share group begins; it must have no members. What was in flight is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.share.partitions import SharedTopic
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.broker.sharing.group_offsets import GroupOffsets
from ottla.broker.sharing.requests import check_enabled
from ottla.errors import NONE, BrokerError, InvalidGroupId, InvalidRequest, UnknownTopicOrPartition
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
READ_TOPIC = Need(AclOperation.READ, AclResource.TOPIC, Refused.ENTRY)
SLICES = Slices("topics", "responses", Slices("partitions", "partitions"))
SERVES = Served(AlterShareGroupOffsetsRequest, slices=SLICES, needs=(READ_GROUP, READ_TOPIC))


async def handle(
    broker: Broker, request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    check_enabled(broker)
    READ_GROUP.check(broker, context, request.group_id)
    if not request.group_id:
        raise InvalidGroupId("a share group has a name")
    refused = _refused(broker, request, context)
    wanted: dict[bytes, SharedTopic] = {}
    offsets: dict[tuple[bytes, int], int] = {}
    for topic in request.topics:
        topic_id = broker.image.topic_id(topic.topic_name)
        partitions = [each for each in topic.partitions if (topic.topic_name, each.partition_index) not in refused]
        if topic_id is not None and partitions:
            wanted[topic_id] = SharedTopic(topic.topic_name, frozenset(each.partition_index for each in partitions))
            offsets.update({(topic_id, each.partition_index): each.start_offset for each in partitions})
    result: dict[tuple[bytes, int], BrokerError | None] = {}
    try:
        if wanted or not refused:
            result = await GroupOffsets(broker, request.group_id).alter(wanted, offsets, context)
    except BrokerError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.brief, responses=[])
    return _answer(broker, request, refused, result)


def _refused(
    broker: Broker, request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> dict[tuple[str, int], BrokerError]:
    """Partitions that cannot be set, by name and number."""
    allowed = READ_TOPIC.met_by(broker, context, {topic.topic_name for topic in request.topics})
    found: dict[tuple[str, int], BrokerError] = {}
    for topic in request.topics:
        name, count = topic.topic_name, broker.image.partition_count(topic.topic_name) or 0
        for each in topic.partitions:
            place = (name, each.partition_index)
            if name not in allowed:
                found[place] = READ_TOPIC.refusal(context)
            elif not 0 <= each.partition_index < count:
                found[place] = UnknownTopicOrPartition(f"{name}-{each.partition_index}")
            elif each.start_offset < 0:
                found[place] = InvalidRequest(f"no group begins at offset {each.start_offset}")
    return found


def _answer(
    broker: Broker,
    request: AlterShareGroupOffsetsRequest,
    refused: dict[tuple[str, int], BrokerError],
    result: dict[tuple[bytes, int], BrokerError | None],
) -> AlterShareGroupOffsetsResponse:
    topics = []
    for topic in request.topics:
        topic_id = broker.image.topic_id(topic.topic_name) or ZERO_UUID
        partitions = []
        for each in topic.partitions:
            index = each.partition_index
            error = refused.get((topic.topic_name, index)) or result.get((topic_id, index))
            partitions.append(
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=index,
                    error_code=NONE if error is None else error.code,
                    error_message=None if error is None else error.brief,
                )
            )
        topics.append(
            AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=topic_id, partitions=partitions)
        )
    return AlterShareGroupOffsetsResponse(error_code=NONE, responses=topics)
