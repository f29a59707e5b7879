"""DeleteShareGroupOffsets: forget where a share group is in some topics; it must have no members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.broker.sharing.group_offsets import GroupOffsets
from ottla.broker.sharing.requests import check_enabled
from ottla.errors import NONE, BrokerError, InvalidGroupId, UnknownTopicOrPartition
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

DELETE_GROUP = Need(AclOperation.DELETE, AclResource.GROUP)
READ_TOPIC = Need(AclOperation.READ, AclResource.TOPIC, Refused.ENTRY)
SERVES = Served(DeleteShareGroupOffsetsRequest, slices=Slices("topics", "responses"), needs=(DELETE_GROUP, READ_TOPIC))


async def handle(
    broker: Broker, request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    check_enabled(broker)
    DELETE_GROUP.check(broker, context, request.group_id)
    if not request.group_id:
        raise InvalidGroupId("a share group has a name")
    names = [topic.topic_name for topic in request.topics]
    allowed = READ_TOPIC.met_by(broker, context, set(names))
    errors: dict[str, BrokerError | None] = {}
    ids = {name: topic_id for name in names if (topic_id := broker.image.topic_id(name)) is not None}
    for name in names:
        if name not in allowed:
            errors[name] = READ_TOPIC.refusal(context)
        elif name not in ids:
            errors[name] = UnknownTopicOrPartition("This server does not host this topic-partition.")  # tools print it
    wanted = {name: topic_id for name, topic_id in ids.items() if name not in errors}
    try:
        result = await GroupOffsets(broker, request.group_id).delete(list(wanted.values()))
    except BrokerError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.brief, responses=[])
    errors |= {name: result[topic_id] for name, topic_id in wanted.items()}
    return DeleteShareGroupOffsetsResponse(
        error_code=NONE, responses=[_topic(name, ids.get(name, ZERO_UUID), errors[name]) for name in names]
    )


def _topic(name: str, topic_id: bytes, error: BrokerError | None) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic_id,
        error_code=NONE if error is None else error.code,
        error_message=None if error is None else error.brief,
    )
