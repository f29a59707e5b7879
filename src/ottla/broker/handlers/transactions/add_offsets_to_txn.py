"""AddOffsetsToTxn: the partition that keeps a group's offsets becomes part of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.coordinator import TOPIC
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


WRITE_ID = Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID)
READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
SERVES = Served(AddOffsetsToTxnRequest, needs=(WRITE_ID, READ_GROUP))


async def handle(broker: Broker, request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    WRITE_ID.check(broker, context, request.transactional_id)
    READ_GROUP.check(broker, context, request.group_id)
    if broker.image.partition_count(TOPIC) is None:
        # The group may be one that nobody has asked for yet; its offsets need their partition all the same.
        broker.topics_on_demand.create_internal(TOPIC)
    offsets_partition = TopicPartition(TOPIC, broker.groups.partition_of(request.group_id))
    index = broker.transactions.partition_of(request.transactional_id)
    answer = await broker.transactions.runtime.call(
        index, lambda shard, token, now_ms: shard.add_offsets_to_txn(token, request, context, now_ms, offsets_partition)
    )
    assert isinstance(answer, AddOffsetsToTxnResponse)
    return answer
