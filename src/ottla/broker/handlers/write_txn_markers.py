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
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.transactions.markers import WriteMarkers
from ottla.broker.replication.markers import write_marker
from ottla.broker.requests.answers import Later, gather
from ottla.errors import NONE, BrokerError, InvalidRequest, UnknownTopicOrPartition
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


def handle(broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext) -> Later[Any]:
    together: Later[Any] = Later()
    asked = [
        _write(broker, marker, TopicPartition(topic.name, index))
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    gather(asked, lambda outcomes: together.give(_response(outcomes)))
    return together


def _write(broker: Broker, marker: WritableTxnMarker, name: TopicPartition) -> Later[_Outcome]:
    later: Later[_Outcome] = Later()

    def told(error: BrokerError | None) -> None:
        later.give(_Outcome(marker.producer_id, name, NONE if error is None else error.code))

    if marker.producer_id < 0 or marker.producer_epoch < 0:
        told(InvalidRequest(f"no producer has id {marker.producer_id} and epoch {marker.producer_epoch}"))
        return later
    partition = broker.replicas.get(name)
    if partition is None or partition.offline is not None:
        told(UnknownTopicOrPartition(str(name)))
        return later
    markers = WriteMarkers(
        transactional_id="",
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        commit=marker.transaction_result,
        partitions=(name,),
        transaction_version=marker.transaction_version,
        generation=0,
    )
    write_marker(broker, markers, name, told)
    return later


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
