"""A cluster as the controller of a metadata log sees it: three brokers, one topic on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from ottla.cluster.changes import Change, CreateTopic, RegisterBroker, SetFeature, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batch_plans import planned
from ottla.cluster.model import Broker, Endpoint, FeatureRange, Partition, Topic
from ottla.cluster.quorum_controller.rules import ControllerRules

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
TOPIC_ID = b"topic of orders!"


def directory_of(broker_id: int) -> bytes:
    return (1000 + broker_id).to_bytes(16)


def a_broker(broker_id: int, *, fenced: bool = False, in_controlled_shutdown: bool = False) -> Broker:
    return Broker(
        broker_id,
        (Endpoint("PLAINTEXT", "localhost", 9092 + broker_id),),
        epoch=10 + broker_id,
        features=(FeatureRange("metadata.version", 7, 30),),
        directories=(directory_of(broker_id),),
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        incarnation_id=broker_id.to_bytes(16),
    )


def a_partition(replicas: Iterable[int], isr: Iterable[int] | None = None, leader: int | None = None) -> Partition:
    replicas = tuple(replicas)
    isr = replicas if isr is None else tuple(isr)
    return Partition(
        replicas,
        isr,
        replicas[0] if leader is None else leader,
        leader_epoch=5,
        partition_epoch=7,
        directories=tuple(directory_of(each) for each in replicas),
    )


class Stage:
    """An image that moves as a reader of the log would move it: by records."""

    def __init__(self) -> None:
        self.rules = ControllerRules(min_insync_replicas=lambda image, topic: 2)
        self.next_offset = 100
        first: list[Change] = [SetFeature("metadata.version", 30), SetFeature("eligible.leader.replicas.version", 1)]
        first += [RegisterBroker(a_broker(broker_id)) for broker_id in (1, 2, 3)]
        first.append(CreateTopic(Topic("orders", TOPIC_ID, (a_partition((1, 2, 3)), a_partition((2, 3, 1))))))
        self.image = apply_all(ClusterImage(CLUSTER), first)

    def make(self, changes: Iterable[Change]) -> ClusterImage:
        """The changes come true; IllegalChange when no record can say one of them."""
        changes = tuple(changes)
        plan = planned(self.image, changes, next_offset=self.next_offset, random_bytes=bytes)
        applied = apply_all(self.image, changes)
        assert plan.image.topics_by_name == applied.topics_by_name
        assert plan.image.brokers == applied.brokers
        self.next_offset += plan.record_count
        self.image = plan.image
        return self.image

    def partition(self, index: int = 0) -> Partition:
        found = self.image.partition("orders", index)
        assert found is not None
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def without_elr(stage: Stage) -> Callable[[], Stage]:
    def made() -> Stage:
        stage.make([SetFeature("eligible.leader.replicas.version", 0)])
        return stage

    return made
