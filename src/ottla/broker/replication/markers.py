"""Writes the marker that ends a transaction into a partition: here, or where it is led.

A marker that could not be written is an error; the coordinator tries again, with the leader of then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.markers import WriteMarkers
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.cluster.topic_names import GROUP_METADATA
from ottla.errors import BrokerError, BrokerNotAvailable, NotLeaderOrFollower, OttlaError, broker_error
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.log.origin import AppendOrigin
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def write_marker(broker: Broker, markers: WriteMarkers, name: TopicPartition) -> None:
    """Returns when the marker is committed, and raises what stopped it. A partition that is gone needs none."""
    if broker.image.partition(name.topic, name.partition) is None:
        return
    partition = broker.replicas.get(name)
    if partition is None or not partition.is_leader:
        await _send_marker(broker, markers, name)
    else:
        await _append_marker(broker, markers, partition)


async def _append_marker(broker: Broker, markers: WriteMarkers, partition: Partition) -> None:
    now_ms = broker.clock.now_ms()
    batch = end_transaction_batch(
        EndTransactionMarker(markers.commit, markers.coordinator_epoch),
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        timestamp_ms=now_ms,
    )
    result = partition.append(
        bytearray(batch),
        acks=ACKS_ALL,
        now_ms=now_ms,
        origin=AppendOrigin.COORDINATOR,
        transaction_version=markers.transaction_version,
    )
    if partition.name.topic == GROUP_METADATA:
        broker.groups.runtime.replay_marker(
            partition.name.partition,
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            committed=markers.commit,
        )
    broker.progress.appended(partition)
    await broker.progress.commits.committed(partition, result.next_offset)


async def _send_marker(broker: Broker, markers: WriteMarkers, name: TopicPartition) -> None:
    marker = WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.commit,
        topics=[WritableTxnMarkerTopic(name=name.topic, partition_indexes=[name.partition])],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version or 0,
    )
    try:
        answer = await broker.link.ask_leader(*name, WriteTxnMarkersRequest(markers=[marker]))
    except BrokerNotAvailable as error:
        # It left, and the image has no other leader yet.
        raise NotLeaderOrFollower(str(error)) from error
    except BrokerError:
        raise
    except OttlaError as error:
        raise NotLeaderOrFollower(str(error)) from error
    assert isinstance(answer, WriteTxnMarkersResponse)
    code = answer.markers[0].topics[0].partitions[0].error_code
    if code:
        raise broker_error(code, str(name))
