"""A plain client of a cluster cannot pose as a broker: from an address that is no broker's its connection ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.conformance.transaction_probes import Wire
from tests.patience import HANG_S

import ottla
from ottla.broker.cluster.broker_addresses import BrokerAddresses
from ottla.protocol.api import api_of
from ottla.protocol.messages import stop_replica, write_txn_markers
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from ottla.testing import KafkaCluster

STRANGER = "127.0.0.2"
FAR_EPOCH = 1_000
FAR_OFFSET = 1_000


def orders(broker_id: int, topic_id: bytes) -> dict[str, Any]:
    """What a client could do harm with, by name."""
    controller = {"controller_id": 2, "controller_epoch": FAR_EPOCH, "broker_epoch": -1}
    gone = stop_replica.StopReplicaPartitionState(partition_index=0, leader_epoch=FAR_EPOCH, delete_partition=True)
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=[write_txn_markers.WritableTxnMarkerTopic(name="clicks", partition_indexes=[0])],
        coordinator_epoch=FAR_EPOCH,
    )
    return {
        "LeaderAndIsr": LeaderAndIsrRequest(**controller, topic_states=[], live_leaders=[]),
        "StopReplica": stop_replica.StopReplicaRequest(
            **controller,
            topic_states=[stop_replica.StopReplicaTopicState(topic_name="clicks", partition_states=[gone])],
        ),
        "UpdateMetadata": UpdateMetadataRequest(**controller, topic_states=[], live_brokers=[]),
        "ControlledShutdown": ControlledShutdownRequest(broker_id=broker_id, broker_epoch=-1),
        "AlterPartition": AlterPartitionRequest(broker_id=broker_id, topics=[]),
        "AllocateProducerIds": AllocateProducerIdsRequest(broker_id=broker_id),
        "WriteTxnMarkers": write_txn_markers.WriteTxnMarkersRequest(markers=[marker]),
        "Fetch of a follower": _fetch((broker_id + 1) % 3, topic_id),
    }


def _fetch(replica_id: int, topic_id: bytes, offset: int = FAR_OFFSET) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica_id, replica_epoch=-1),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
        forgotten_topics_data=[],
    )


def test_what_brokers_send_each_other_is_not_taken_from_a_client(
    on_zookeeper: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    includes: Callable[[BrokerAddresses, str], bool] = BrokerAddresses.includes
    monkeypatch.setattr(BrokerAddresses, "includes", lambda self, who: who != STRANGER and includes(self, who))
    leader = on_zookeeper.leader_of("clicks", 0)
    server = on_zookeeper.server(leader)
    topic = on_zookeeper.call(lambda: server.broker.image.topic("clicks"))
    assert topic is not None
    known = on_zookeeper.call(lambda: (server.broker.image.brokers, server.broker.image.controller_epoch))
    for name, request in orders(leader, topic.id).items():
        with Wire(server.info.bootstrap_servers, source=STRANGER) as wire, pytest.raises(ConnectionError):
            pytest.fail(f"{name} was answered: {wire.ask(request, api_of(request).versions.max)}")
    assert on_zookeeper.call(lambda: (server.broker.image.brokers, server.broker.image.controller_epoch)) == known
    with Wire(server.info.bootstrap_servers, source=STRANGER) as wire:
        read = wire.ask(_fetch(-1, topic.id, offset=0), 17).responses[0].partitions[0]
        assert (read.error_code, read.high_watermark) == (0, 0), "it may read, and nothing has been written"
    with ottla.Producer(bootstrap_servers=on_zookeeper.bootstrap_servers) as producer:
        assert producer.send("clicks", b"1", partition=0).result(HANG_S).offset == 0
    on_zookeeper.check_replicas("clicks", 3)
