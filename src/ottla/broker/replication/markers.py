"""Writes the marker that ends a transaction into a partition: here, or where it is led.

A marker that could not be written is told as an error; the coordinator tries again, with whoever leads then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.groups import coordinator as groups
from ottla.broker.coordinators.transactions.markers import WriteMarkers
from ottla.broker.replication.partition import ACKS_ALL
from ottla.cluster.model import NO_LEADER
from ottla.errors import BrokerError, NotLeaderOrFollower, broker_error
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.log.origin import AppendOrigin
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def write_marker(
    broker: Broker, markers: WriteMarkers, name: TopicPartition, told: Callable[[BrokerError | None], None]
) -> None:
    """`told` is called when the marker is committed, or with what stopped it. A partition that is gone needs none."""
    if broker.image.partition(name.topic, name.partition) is None:
        told(None)
        return
    partition = broker.replicas.get(name)
    if partition is None or not partition.is_leader:
        _send_marker(broker, markers, name, told)
        return
    now_ms = broker.clock.now_ms()
    batch = end_transaction_batch(
        EndTransactionMarker(markers.commit, markers.coordinator_epoch),
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        timestamp_ms=now_ms,
    )
    try:
        result = partition.append(
            bytearray(batch),
            acks=ACKS_ALL,
            now_ms=now_ms,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=markers.transaction_version,
        )
    except BrokerError as error:
        told(error)
        return
    if name.topic == groups.TOPIC:
        broker.groups.runtime.replay_marker(
            name.partition,
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            committed=markers.commit,
        )
    broker.appended(partition)
    broker.commits.when_committed(partition, result.next_offset, told)


def _send_marker(
    broker: Broker, markers: WriteMarkers, name: TopicPartition, told: Callable[[BrokerError | None], None]
) -> None:
    state = broker.image.partition(name.topic, name.partition)
    if broker.member is None or state is None or state.leader in (NO_LEADER, broker.id):
        told(NotLeaderOrFollower(f"{name} is led elsewhere"))
        return
    marker = WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.commit,
        topics=[WritableTxnMarkerTopic(name=name.topic, partition_indexes=[name.partition])],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version or 0,
    )

    def answered(given: Any) -> None:
        if isinstance(given, Exception):
            told(given if isinstance(given, BrokerError) else NotLeaderOrFollower(str(given)))
            return
        code = given.markers[0].topics[0].partitions[0].error_code
        told(broker_error(code, str(name)) if code else None)

    broker.member.ask(state.leader, WriteTxnMarkersRequest(markers=[marker]), answered)
