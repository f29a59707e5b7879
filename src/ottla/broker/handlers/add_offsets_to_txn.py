"""AddOffsetsToTxn: the partition that keeps a group's offsets becomes part of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.coordinator import TOPIC
from ottla.broker.requests.answers import Later
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: AddOffsetsToTxnRequest, context: RequestContext) -> Later[Any]:
    if broker.image.partition_count(TOPIC) is None:
        # The group may be one that nobody has asked for yet; its offsets need their home all the same.
        broker.create_internal_topic(TOPIC)
    home = TopicPartition(TOPIC, broker.groups.partition_of(request.group_id))
    index = broker.transactions.partition_of(request.transactional_id)
    return broker.transactions.runtime.call(
        index, lambda shard, token, now_ms: shard.add_offsets_to_txn(token, request, context, now_ms, home)
    )
