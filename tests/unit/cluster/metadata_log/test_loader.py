"""What is shown of the metadata log, and when."""

from __future__ import annotations

import pytest
from tests.unit.cluster.metadata_log.values import CLUSTER

from ottla.cluster.changes import IllegalChange
from ottla.cluster.metadata_log.batches import MetadataBatch, control_batch, data_batch, read_batches
from ottla.cluster.metadata_log.levels import UnknownMetadataVersion
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.errors import CorruptMessage
from ottla.protocol.metadata_log import MetadataRecord, UnknownMetadataRecord, encode_record
from ottla.protocol.metadata_log.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from ottla.protocol.metadata_log.control import KRaftVersionRecord
from ottla.protocol.metadata_log.settings import ConfigRecord, FeatureLevelRecord
from ottla.protocol.metadata_log.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.protocol.metadata_log.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    ZkMigrationStateRecord,
)

TOPIC = b"t" * 16


def topic(name: str, topic_id: bytes = TOPIC) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id)


def partition(index: int, topic_id: bytes = TOPIC, **given: object) -> PartitionRecord:
    fields: dict[str, object] = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leader_epoch": 0}
    fields.update(removing_replicas=[], adding_replicas=[], partition_epoch=0, **given)
    return PartitionRecord(partition_id=index, topic_id=topic_id, **fields)  # type: ignore[arg-type]


def broker(broker_id: int, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id, incarnation_id=b"i" * 16, broker_epoch=epoch, end_points=[], features=[], rack=None
    )


class Log:
    """A loader that is fed with batches of records, one after the other."""

    def __init__(self) -> None:
        self.loader = MetadataLoader(CLUSTER)

    def add(self, *records: MetadataRecord) -> bool:
        first = self.loader.end_offset
        return self.loader.add(MetadataBatch(first, first + len(records) - 1, 1, 1_000 + first, records, ()))

    @property
    def topics(self) -> list[str]:
        return list(self.loader.image.topics())


@pytest.fixture
def log() -> Log:
    return Log()


# --- transactions ----------------------------------------------------------------------------------------------------


def test_a_batch_is_shown_as_a_whole_with_the_offset_of_its_last_record(log: Log) -> None:
    assert log.loader.image.change_number == -1
    assert log.add(topic("a"), partition(0), partition(1))
    assert log.loader.image.partition_count("a") == 2
    assert log.loader.image.change_number == 2
    assert log.loader.position == (2, 1, 1_000)
    assert log.loader.position.end_offset == log.loader.end_offset == 3


def test_the_middle_of_a_transaction_is_not_shown(log: Log) -> None:
    log.add(NoOpRecord())
    before = log.loader.image
    assert not log.add(BeginTransactionRecord(name="many"), topic("a"), partition(0))
    assert not log.add(partition(1))
    assert log.loader.in_transaction
    assert log.loader.image is before
    assert log.loader.position.offset == 0
    assert log.add(partition(2), EndTransactionRecord())
    assert not log.loader.in_transaction
    assert log.loader.image.partition_count("a") == 3
    assert log.loader.image.change_number == log.loader.end_offset - 1 == 6


def test_an_aborted_transaction_never_was(log: Log) -> None:
    log.add(BeginTransactionRecord(), topic("a"), partition(0))
    assert log.add(AbortTransactionRecord(reason="a new controller"))
    assert log.topics == []
    log.add(topic("a"), partition(0))
    assert log.topics == ["a"]


def test_what_stands_before_the_begin_in_its_batch_is_shown(log: Log) -> None:
    assert log.add(topic("a"), partition(0), BeginTransactionRecord(), topic("b", b"b" * 16))
    assert log.topics == ["a"]
    assert log.loader.position.offset == 1
    log.add(AbortTransactionRecord())
    assert log.topics == ["a"]


def test_a_transaction_may_stand_in_one_batch(log: Log) -> None:
    assert log.add(BeginTransactionRecord(), topic("a"), partition(0), EndTransactionRecord())
    assert log.topics == ["a"]


@pytest.mark.parametrize("end", [EndTransactionRecord(), AbortTransactionRecord()])
def test_transactions_begin_before_they_end_and_do_not_nest(end: MetadataRecord) -> None:
    with pytest.raises(IllegalChange, match="has not begun"):
        Log().add(end)
    log = Log()
    log.add(BeginTransactionRecord())
    with pytest.raises(IllegalChange, match="within another"):
        log.add(BeginTransactionRecord())


def test_a_gap_in_the_log_stops_the_reader(log: Log) -> None:
    log.add(NoOpRecord())
    with pytest.raises(IllegalChange, match="goes on at 5; 1 is the next one"):
        log.loader.add(MetadataBatch(5, 5, 1, 0, (NoOpRecord(),), ()))


# --- records ---------------------------------------------------------------------------------------------------------


def test_a_partition_changes_as_kafka_merges_it(log: Log) -> None:
    log.add(topic("a"), partition(0))
    log.add(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1]))
    found = log.loader.image.partition("a", 0)
    assert found is not None
    assert (found.isr, found.leader, found.leader_epoch, found.partition_epoch) == ((1,), 1, 0, 1)
    assert found.directories == (bytes(16), bytes(16))
    log.add(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1))
    found = log.loader.image.partition("a", 0)
    assert found is not None
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (1, 1, 2)


def test_several_changes_of_a_partition_in_one_batch_build_on_each_other(log: Log) -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=2)
    log.add(topic("a"), partition(0), change, change)
    found = log.loader.image.partition("a", 0)
    assert found is not None
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (2, 2, 2)


def test_a_topic_may_be_made_again_in_the_batch_that_removes_it(log: Log) -> None:
    log.add(topic("a"), partition(0), ConfigRecord(resource_type=2, resource_name="a", name="x", value="1"))
    log.add(RemoveTopicRecord(topic_id=TOPIC), topic("a", b"u" * 16), partition(0, b"u" * 16))
    assert log.loader.image.topic_id("a") == b"u" * 16
    assert log.loader.image.topic_config("a") == {}


def test_a_topic_that_came_and_went_in_one_batch_leaves_nothing(log: Log) -> None:
    log.add(topic("a"), partition(0), RemoveTopicRecord(topic_id=TOPIC))
    assert log.topics == []


@pytest.mark.parametrize(("name", "cleared"), [("a", ["a"]), ("", ["a", "b"])])
def test_eligible_leader_replicas_are_cleared_of_one_topic_or_of_all(log: Log, name: str, cleared: list[str]) -> None:
    elr = {"eligible_leader_replicas": [2], "last_known_elr": [1]}
    log.add(topic("a"), partition(0, **elr), partition(1))
    log.add(topic("b", b"b" * 16), partition(0, b"b" * 16, **elr), ClearElrRecord(topic_name=name))
    for there in ("a", "b"):
        found = log.loader.image.partition(there, 0)
        assert found is not None
        assert (found.elr, found.last_known_elr, found.partition_epoch) == (
            ((), (), 1) if there in cleared else ((2,), (1,), 0)
        )
    untouched = log.loader.image.partition("a", 1)
    assert untouched is not None
    assert untouched.partition_epoch == 0


def test_eligible_leader_replicas_of_a_topic_that_is_gone_cannot_be_cleared(log: Log) -> None:
    log.add(topic("a"), partition(0, eligible_leader_replicas=[2]))
    with pytest.raises(IllegalChange, match="no topic 'a'"):
        log.add(RemoveTopicRecord(topic_id=TOPIC), ClearElrRecord(topic_name="a"))


def test_all_are_cleared_but_those_of_topics_that_are_gone(log: Log) -> None:
    log.add(topic("a"), partition(0, eligible_leader_replicas=[2]))
    log.add(RemoveTopicRecord(topic_id=TOPIC), ClearElrRecord(topic_name=""))
    assert log.topics == []


def test_a_batch_of_ten_thousand_records_is_read_in_one_go(log: Log) -> None:
    """As many as Kafka puts into one batch; what grows with their square is seen here."""
    ids = [number.to_bytes(16) for number in range(1, 2501)]
    made = [(topic(f"t{number}", each), partition(0, each)) for number, each in enumerate(ids)]
    log.add(*(record for pair in made for record in pair))
    log.add(*(ClearElrRecord(topic_name=f"t{number}") for number in range(2500)))
    log.add(*(RemoveTopicRecord(topic_id=each) for each in ids))
    assert log.topics == []


def test_brokers_are_fenced_by_the_old_records_and_by_the_new(log: Log) -> None:
    log.add(broker(1, 0))
    assert not log.loader.image.is_active(1)
    log.add(UnfenceBrokerRecord(id=1, epoch=0))
    assert log.loader.image.is_active(1)
    log.add(FenceBrokerRecord(id=1, epoch=0))
    assert not log.loader.image.is_active(1)
    log.add(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=-1))
    assert log.loader.image.is_active(1)
    log.add(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, in_controlled_shutdown=1))
    assert log.loader.image.brokers[1].in_controlled_shutdown
    log.add(UnregisterBrokerRecord(broker_id=1, broker_epoch=0))
    assert not log.loader.image.brokers


def test_what_3x_left_of_a_migration_means_nothing(log: Log) -> None:
    assert log.add(ZkMigrationStateRecord(zk_migration_state=3))


@pytest.mark.parametrize(
    "record",
    [
        partition(0),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC),
        RemoveTopicRecord(topic_id=TOPIC),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=0),
        ConfigRecord(resource_type=3, resource_name="a", name="x", value="1"),
        ConfigRecord(resource_type=2, resource_name="a", name="x", value="1"),
        ClearElrRecord(topic_name="a"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_contradicts_what_is_known_stops_the_reader(log: Log, record: MetadataRecord) -> None:
    with pytest.raises(IllegalChange):
        log.add(record)


def test_as_many_directories_as_replicas_or_none(log: Log) -> None:
    log.add(topic("a"), partition(0, directories=[b"d" * 16, b"e" * 16]))
    for wrong in ({"directories": [b"d" * 16]}, {"replicas": [1]}):
        with pytest.raises(IllegalChange, match="directories"):
            log.add(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **wrong))  # type: ignore[arg-type]
        log.loader = MetadataLoader(CLUSTER)
        log.add(topic("a"), partition(0, directories=[b"d" * 16, b"e" * 16]))


def test_replicas_that_never_had_directories_have_none_when_they_are_others(log: Log) -> None:
    log.add(topic("a"), partition(0), PartitionChangeRecord(partition_id=0, topic_id=TOPIC, replicas=[1, 2, 3]))
    found = log.loader.image.partition("a", 0)
    assert found is not None
    assert found.directories == (bytes(16),) * 3


def test_a_change_of_an_earlier_registration_stops_the_reader(log: Log) -> None:
    log.add(broker(1, 7))
    with pytest.raises(IllegalChange, match="epoch 7, and a record is about 6"):
        log.add(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=6, fenced=-1))


@pytest.mark.parametrize("level", [6, 31])
def test_a_level_that_is_not_known_stops_the_reader(log: Log, level: int) -> None:
    with pytest.raises(UnknownMetadataVersion, match=f"metadata.version {level}; known here are 7 to 30"):
        log.add(FeatureLevelRecord(name="metadata.version", feature_level=level))


# --- bytes -----------------------------------------------------------------------------------------------------------


def test_an_unknown_record_is_told_with_its_offset() -> None:
    good = encode_record(NoOpRecord(), 0)
    data = data_batch([good, b"\x01\x1d\x00\x00"], base_offset=41, epoch=1, timestamp_ms=0)
    (batch,) = read_batches(data)
    assert len(batch.records) == 2
    assert batch.records[0] == NoOpRecord()
    with pytest.raises(UnknownMetadataRecord, match="at offset 42 of the metadata log: a record of type 29"):
        list(batch.records)


def test_a_long_batch_is_read_with_pauses_and_shown_at_the_end(log: Log) -> None:
    before, end = log.loader.image, log.loader.end_offset
    settings = [ConfigRecord(resource_type=4, resource_name=str(each), name="x", value="1") for each in range(1_200)]
    values = [encode_record(each, 0) for each in settings]
    (batch,) = read_batches(data_batch(values, base_offset=end, epoch=1, timestamp_ms=0))
    seen = [log.loader.image for _ in log.loader.steps(batch)]
    assert len(seen) == 4
    assert all(image is before for image in seen)
    assert len(log.loader.image.configs) == 1_200
    assert log.loader.end_offset == end + 1_200


def test_a_damaged_batch_stops_the_reader() -> None:
    data = bytearray(data_batch([encode_record(NoOpRecord(), 0)], base_offset=0, epoch=1, timestamp_ms=0))
    data[-1] ^= 1
    with pytest.raises(CorruptMessage):
        list(read_batches(data))


def test_a_batch_that_a_fetch_cut_off_is_left_out() -> None:
    whole = control_batch([KRaftVersionRecord(k_raft_version=1)], base_offset=0, epoch=1, timestamp_ms=0)
    (batch,) = read_batches(whole + whole[:-1])
    assert batch.controls == (KRaftVersionRecord(k_raft_version=1),)
