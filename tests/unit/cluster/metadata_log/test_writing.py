"""At which version records are written, and what no record can say."""

from __future__ import annotations

import pytest
from tests.unit.cluster.metadata_log.values import CLUSTER

from ottla.cluster.changes import (
    AlterConfig,
    Change,
    ChangePartition,
    CreateAcl,
    CreateTopic,
    IllegalChange,
    RegisterBroker,
    SetController,
    SetFeature,
    SetStoredValue,
    UnregisterBroker,
    apply_all,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.writing import records_for
from ottla.cluster.model import (
    METADATA_VERSION,
    AclBinding,
    AclEntry,
    AclPattern,
    Broker,
    ConfigResource,
    Partition,
    ResourceType,
    StoredKey,
    Topic,
)
from ottla.light_dataclasses import replace
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.protocol.metadata_log.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from ottla.protocol.metadata_log.topics import PartitionRecord

TOPIC = Topic("t", b"t" * 16, (Partition((1,), (1,), 1, directories=(b"d" * 16,), elr=(1,)),))
BROKER = Broker(1, (), epoch=5, directories=(b"d" * 16,), fenced=True, cordoned_directories=())


def at_level(level: int, *changes: Change) -> ClusterImage:
    return apply_all(ClusterImage(CLUSTER), [SetFeature(METADATA_VERSION, level), *changes])


def versions(image: ClusterImage, *changes: Change) -> list[tuple[str, int]]:
    return [(type(written.record).__name__, written.version) for written in records_for(changes, image)]


@pytest.mark.parametrize(("level", "version"), [(7, 0), (16, 0), (17, 1), (22, 1), (23, 2), (30, 2)])
def test_partitions_are_written_at_the_version_of_the_level(level: int, version: int) -> None:
    image = at_level(level)
    assert versions(image, CreateTopic(TOPIC)) == [("TopicRecord", 0), ("PartitionRecord", version)]
    (_, written) = records_for([CreateTopic(TOPIC)], image)
    assert isinstance(written.record, PartitionRecord)
    assert bool(written.record.directories) == (version >= 1)
    assert bool(written.record.eligible_leader_replicas) == (version >= 2)
    written.encode()


@pytest.mark.parametrize(("level", "version"), [(7, 1), (8, 2), (16, 2), (17, 3), (29, 3), (30, 4)])
def test_brokers_are_written_at_the_version_of_the_level(level: int, version: int) -> None:
    (written,) = records_for([RegisterBroker(replace(BROKER, in_controlled_shutdown=True))], at_level(level))
    assert isinstance(written.record, RegisterBrokerRecord)
    assert written.version == version
    assert (written.record.cordoned_log_dirs is not None) == (level >= 30)
    written.encode()


def test_a_registration_changes_at_the_lowest_version_that_can_say_it() -> None:
    image = at_level(30, RegisterBroker(BROKER))
    unfenced = replace(BROKER, fenced=False)
    for changed, version in (
        (unfenced, 0),
        (replace(BROKER, in_controlled_shutdown=True), 1),
        (replace(BROKER, directories=(b"e" * 16,)), 2),
        (replace(unfenced, cordoned_directories=(b"d" * 16,)), 3),
    ):
        (written,) = records_for([RegisterBroker(changed)], image)
        assert isinstance(written.record, BrokerRegistrationChangeRecord)
        assert written.version == version


@pytest.mark.parametrize("changed", [{"epoch": 6}, {"rack": "r"}, {"incarnation_id": b"i" * 16}])
def test_what_a_change_cannot_say_is_a_new_registration(changed: dict[str, object]) -> None:
    image = at_level(30, RegisterBroker(BROKER))
    assert versions(image, RegisterBroker(replace(BROKER, **changed))) == [("RegisterBrokerRecord", 4)]  # type: ignore[arg-type]


def test_the_end_of_a_controlled_shutdown_is_a_new_registration() -> None:
    image = at_level(30, RegisterBroker(replace(BROKER, in_controlled_shutdown=True)))
    assert versions(image, RegisterBroker(BROKER)) == [("RegisterBrokerRecord", 4)]


@pytest.mark.parametrize(
    "changed",
    [
        {"partition_epoch": 0, "isr": ()},
        {"partition_epoch": 2, "isr": ()},
        {"partition_epoch": 1, "leader": -1},
        {"partition_epoch": 1, "leader_epoch": 2},
    ],
)
def test_epochs_that_no_record_could_give_are_refused(changed: dict[str, object]) -> None:
    image = at_level(30, CreateTopic(TOPIC))
    after = replace(TOPIC.partitions[0], **changed)  # type: ignore[arg-type]
    with pytest.raises(IllegalChange, match="no record"):
        list(records_for([ChangePartition(TOPIC.id, 0, after)], image))


def test_changes_build_on_each_other() -> None:
    elected = replace(TOPIC.partitions[0], leader_epoch=1, partition_epoch=1)
    again = replace(elected, leader_epoch=2, partition_epoch=2)
    changes = [CreateTopic(TOPIC), ChangePartition(TOPIC.id, 0, elected), ChangePartition(TOPIC.id, 0, again)]
    assert len(list(records_for(changes, at_level(30)))) == 4


def test_settings_of_a_new_topic_come_before_its_partitions_as_kafka_writes_them() -> None:
    setting = AlterConfig(ConfigResource(ResourceType.TOPIC, TOPIC.name), (("retention.ms", "1"),))
    other = AlterConfig(ConfigResource(ResourceType.BROKER, ""), (("retention.ms", "2"),))
    kinds = [
        type(written.record).__name__ for written in records_for([CreateTopic(TOPIC), setting, other], at_level(30))
    ]
    partitions = ["PartitionRecord"] * len(TOPIC.partitions)
    assert kinds == ["TopicRecord", "ConfigRecord", *partitions, "ConfigRecord"]


def test_what_has_no_record_is_refused_or_said_elsewhere() -> None:
    image = at_level(30)
    binding = AclBinding(
        AclPattern(AclResource.TOPIC, PatternType.LITERAL, "t"),
        AclEntry("User:a", "*", AclOperation.READ, AclPermission.ALLOW),
    )
    assert versions(image, SetController(1, 1)) == []
    with pytest.raises(IllegalChange, match="needs an id"):
        versions(image, CreateAcl(binding))
    with pytest.raises(IllegalChange, match="not registered"):
        versions(image, UnregisterBroker(9))
    with pytest.raises(TypeError):
        versions(image, SetStoredValue(StoredKey("election-asked", ""), ""))
