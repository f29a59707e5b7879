"""Internal topics are written by the broker, and by a client that calls itself __admin_client, as in Kafka."""

from __future__ import annotations

import pytest

from ottla.errors import name_of_code
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "__consumer_offsets"


@pytest.mark.parametrize(
    ("client_id", "outcome"),
    [("test", "INVALID_TOPIC_EXCEPTION"), ("__admin_client", "NONE"), ("", "INVALID_TOPIC_EXCEPTION")],
)
def test_only_the_admin_client_writes_to_an_internal_topic(broker, batch, client_id, outcome):
    broker.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    data = PartitionProduceData(index=0, records=batch("x", key=b"k"))
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )
    answer = broker.ask(request, 12, client_id=client_id)
    assert name_of_code(answer.responses[0].partition_responses[0].error_code) == outcome
