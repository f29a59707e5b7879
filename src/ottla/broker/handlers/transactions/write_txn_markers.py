"""WriteTxnMarkers: write commit and abort markers into partitions of this broker.

Asked by transaction coordinators, and by the tool that ends hanging transactions.

The answer comes when every marker is committed or refused. A partition that is not here is UNKNOWN_TOPIC_OR_PARTITION;
an old producer epoch is INVALID_PRODUCER_EPOCH and an old coordinator epoch TRANSACTION_COORDINATOR_FENCED, because the
log knows newer ones. From version 2 on the transaction's version comes with the marker: in version 2 of transactions an
end raises the epoch, so a marker with the epoch that is known already is refused, too. A marker of a producer that
cannot be (a negative id or epoch) is INVALID_REQUEST for its partitions and keeps no other marker from being written.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.markers import WriteMarkers
from ottla.broker.replication.markers import write_marker
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Running
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.errors import NONE, BrokerError, InvalidRequest, UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class _Outcome(NamedTuple):
    producer_id: int
    partition: TopicPartition
    code: int


ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER)
CLUSTER_ACTION = Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, Refused.ENTRY, unless=ALTER_CLUSTER)
SLICES = Slices("markers", "markers", Slices("topics", "topics"))
SERVES = Served(WriteTxnMarkersRequest, slices=SLICES, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    if not CLUSTER_ACTION.is_met(broker, context):
        return _refusal(request, CLUSTER_ACTION.code)
    writing = [
        (marker.producer_id, name, Running(_write(broker, marker, name)))
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
        for name in (TopicPartition(topic.name, index),)
    ]
    return _response([_Outcome(producer_id, name, await each.wait()) for producer_id, name, each in writing])


def _refusal(request: WriteTxnMarkersRequest, code: int) -> WriteTxnMarkersResponse:
    return _response(
        [
            _Outcome(marker.producer_id, TopicPartition(topic.name, index), code)
            for marker in request.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        ]
    )


async def _write(broker: Broker, marker: WritableTxnMarker, name: TopicPartition) -> int:
    """The error code; all markers are appended before the first is awaited."""
    partition = broker.replicas.get(name)
    try:
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise InvalidRequest(f"no producer has id {marker.producer_id} and epoch {marker.producer_epoch}")
        if partition is None or partition.offline is not None:
            raise UnknownTopicOrPartition(str(name))
        await write_marker(broker, _markers(marker, name), name)
    except BrokerError as error:
        return error.code
    return NONE


def _markers(marker: WritableTxnMarker, name: TopicPartition) -> WriteMarkers:
    return WriteMarkers(
        transactional_id="",
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        commit=marker.transaction_result,
        partitions=(name,),
        transaction_version=marker.transaction_version,
        generation=0,
    )


def _response(outcomes: list[_Outcome]) -> WriteTxnMarkersResponse:
    """By producer and topic, however the request had them."""
    codes: dict[int, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for producer_id, name, code in outcomes:
        codes[producer_id][name.topic][name.partition] = code
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index, code in by_index.items()
                        ],
                    )
                    for topic, by_index in topics.items()
                ],
            )
            for producer_id, topics in codes.items()
        ]
    )
