"""Values that the tests of the cluster room share."""

from __future__ import annotations

import pytest

from ottla.cluster.changes import CreateTopic, RegisterBroker, SetFeature, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, Endpoint, Partition, Topic

CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def a_broker(broker_id: int, rack: str | None = None, *, fenced: bool = False) -> Broker:
    return Broker(broker_id, (Endpoint("PLAINTEXT", "localhost", 9092 + broker_id),), 1, rack, fenced=fenced)


def a_topic(name: str, partitions: int = 1, broker_id: int = 1) -> Topic:
    return Topic(
        name, name.encode().ljust(16, b"\1")[:16], (Partition((broker_id,), (broker_id,), broker_id),) * partitions
    )


@pytest.fixture
def image() -> ClusterImage:
    """One broker, one topic with two partitions."""
    first = [SetFeature("metadata.version", 30), RegisterBroker(a_broker(1)), CreateTopic(a_topic("orders", 2))]
    return apply_all(ClusterImage(CLUSTER), first)
