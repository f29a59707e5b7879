"""DescribeQuorum and UnregisterBroker of a broker on its own; tests/cluster has them in a cluster."""

from __future__ import annotations

import pytest

from ottla.cluster import model
from ottla.errors import name_of_code
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest

METADATA = "__cluster_metadata"


def described(broker, topic=METADATA, index=0, version=2):
    request = DescribeQuorumRequest(
        topics=[TopicData(topic_name=topic, partitions=[PartitionData(partition_index=index)])]
    )
    answer = broker.ask(request, version)
    assert answer.error_code == 0
    return answer, answer.topics[0].partitions[0]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_controller_decides_alone(broker, version):
    answer, partition = described(broker, version=version)
    assert (partition.error_code, partition.leader_id) == (0, 1)
    assert partition.leader_epoch == broker.image.controller_epoch
    assert partition.high_watermark == broker.image.change_number
    assert [(each.replica_id, each.log_end_offset) for each in partition.current_voters] == [
        (1, broker.image.change_number)
    ]
    assert partition.observers == []
    if version >= 2:
        assert [(node.node_id, node.listeners[0].port) for node in answer.nodes] == [(1, 9092)]


def test_it_advances_with_every_change(broker):
    before = described(broker)[1].high_watermark
    broker.create_topic("orders")
    assert described(broker)[1].high_watermark > before


@pytest.mark.parametrize(("topic", "index"), [("orders", 0), (METADATA, 1)])
def test_there_is_no_other_partition(broker, topic, index):
    assert name_of_code(described(broker, topic, index)[1].error_code) == "UNKNOWN_TOPIC_OR_PARTITION"


def forget(broker, broker_id):
    return name_of_code(broker.ask(UnregisterBrokerRequest(broker_id=broker_id)).error_code)


def test_a_broker_that_lives_or_is_unknown_is_not_forgotten(broker):
    assert forget(broker, 1) == "INVALID_REQUEST"
    assert forget(broker, 7) == "BROKER_ID_NOT_REGISTERED"


def test_an_id_of_former_times_is_forgotten(broker):
    endpoint = model.Endpoint("PLAINTEXT", "localhost", 9092)
    broker.store.membership.register(model.Broker(7, (endpoint,)))
    broker.create_topic("orders")  # what is changed next is seen here
    assert forget(broker, 7) == "NONE"
    assert 7 not in broker.image.brokers
