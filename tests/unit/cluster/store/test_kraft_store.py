"""The store of a node that writes its metadata log alone, against the worst a disk may do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.cluster.changes import (
    AlterConfig,
    Change,
    ChangePartition,
    CreateAcl,
    CreateTopic,
    RemoveAcl,
    RemoveTopic,
    SetFeature,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log import batch_plans
from ottla.cluster.metadata_log.image_changes import changes_for
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.model import (
    AclBinding,
    AclEntry,
    AclPattern,
    Broker,
    ConfigResource,
    Endpoint,
    FeatureRange,
    Partition,
    ResourceType,
    Topic,
)
from ottla.cluster.raft.log import (
    METADATA_PARTITION,
    CommittedRecordsLost,
    DamagedMetadataLog,
    LogLimits,
    SnapshotRules,
)
from ottla.cluster.raft.quorum_state import DamagedQuorumState, QuorumState, read_quorum_state, write_quorum_state
from ottla.cluster.raft.snapshots import DamagedSnapshot
from ottla.cluster.raft.solo import LocalNode, OtherVoters
from ottla.cluster.store.interface import StoreClosed, StoreFailed
from ottla.cluster.store.kraft import KRaftNode, KRaftStore
from ottla.errors import DiskFull, OttlaError
from ottla.light_dataclasses import replace
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.testing.files import MemoryFiles

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
DATA = Path("/data")
FOLDER = DATA / str(METADATA_PARTITION)
DIRECTORY_ID = b"d" * 16
FIRST = (SetFeature("metadata.version", 30), SetFeature("group.version", 1))
CONTROLLER = Endpoint("CONTROLLER", "localhost", 9093)
NODE = KRaftNode(1, (CONTROLLER,), (FeatureRange("metadata.version", 7, 30),))
ME = Broker(1, (Endpoint("PLAINTEXT", "localhost", 9092),))
RULE = AclBinding(
    AclPattern(AclResource.TOPIC, PatternType.LITERAL, "orders"),
    AclEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW),
)


class Clock:
    """Milliseconds that only a test moves."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms


def open_store(
    files: MemoryFiles,
    *,
    clock: Clock | None = None,
    in_order: bool = False,
    node: LocalNode | None = None,
    limits: LogLimits | None = None,
    rules: SnapshotRules | None = None,
    settings_name_voters: bool = False,
) -> KRaftStore:
    if not files.exists(DATA):
        files.make_directory(DATA)
        files.sync_directory(DATA.parent)
    return KRaftStore(
        DATA,
        CLUSTER,
        files=files,
        node=replace(NODE, voters_are_settings=settings_name_voters),
        local=node or LocalNode(1, DIRECTORY_ID, in_order),
        now_ms=(clock or Clock()).now_ms,
        random_bytes=random.Random(1).randbytes,
        first=lambda: FIRST,
        limits=limits or LogLimits(),
        rules=rules or SnapshotRules(),
    )


def commits() -> list[list[Change]]:
    """Seven commits of one to three changes."""
    topics = [CreateTopic(Topic(f"t{n}", bytes([n + 1]) * 16, (Partition((1,), (1,), 1),))) for n in range(7)]
    return [
        [
            topic,
            *[
                AlterConfig(ConfigResource(ResourceType.TOPIC, topic.topic.name), ((f"k{k}", "v"),))
                for k in range(n % 3)
            ],
        ]
        for n, topic in enumerate(topics)
    ]


def content(image: ClusterImage) -> list[Change]:
    """All that a commit can change: not who leads, nor the registration of this life's controller."""
    told = replace(image, controllers=ClusterImage("").controllers, controller_id=-1, controller_epoch=0)
    return list(changes_for(told))


def reached(of: Sequence[Sequence[Change]]) -> list[list[Change]]:
    """What is true after no commit, after the first, and so on."""
    store = open_store(MemoryFiles())
    found = [content(store.load())]
    for changes in of:
        found.append(content(store.commit(changes)))
    return found


def run_until_it_fails(files: MemoryFiles, wanted: Sequence[Sequence[Change]]) -> int:
    """Commit until the disk fails; gives how many commits were acknowledged, -1 when not even the store was made. A
    snapshot is made in the middle."""
    acknowledged = -1
    try:
        store = open_store(files, rules=SnapshotRules(bytes_between=400))
        store.load()
        acknowledged = 0
        for changes in wanted:
            store.commit(changes)
            acknowledged += 1
            if store.upkeep_is_due:
                for _ in store.upkeep():
                    pass
    except OttlaError:
        pass
    return acknowledged


def operations_of_a_whole_run() -> int:
    files = MemoryFiles()
    assert run_until_it_fails(files, commits()) == len(commits())
    return len(files.trace)


OPERATIONS = operations_of_a_whole_run()
REACHED = reached(commits())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("part", range(8))
def test_after_a_crash_at_any_operation_all_that_was_acknowledged_is_there_and_no_half_commit(
    part: int, seed: int
) -> None:
    for number in range(1 + part, OPERATIONS + 1, 8):
        files = MemoryFiles(seed=seed)
        files.fail(number, for_ever=True)
        acknowledged = run_until_it_fails(files, commits())
        files.crash()
        recovered = open_store(files)
        found = content(recovered.load())
        assert found in REACHED, f"a state that no whole commit led to, after operation {number}"
        assert REACHED.index(found) in (max(acknowledged, 0), max(acknowledged, 0) + 1), number
        after = recovered.commit([SetFeature("share.version", 1)])
        recovered.close()
        assert content(open_store(files).load()) == content(after)


@pytest.mark.parametrize("seed", range(4))
def test_a_second_crash_during_recovery_loses_nothing(seed: int) -> None:
    for number in range(1, 30):
        files = MemoryFiles(seed=seed)
        assert run_until_it_fails(files, commits()) == len(commits())
        store = open_store(files)
        store.load()
        files.fail(lambda operation: operation.kind == "sync")
        with pytest.raises(StoreFailed):
            store.commit([SetFeature("share.version", 1)])
        files.crash()
        files.fail(number, for_ever=True)
        try:
            open_store(files).load()
        except OttlaError:
            pass
        files.crash()
        image = open_store(files).load()
        assert image.topic("t6") is not None
        # What recovery showed once stays: the unfinished commit is whole or gone, in this life and the next.
        assert content(open_store(files).load()) == content(image)


def test_the_image_is_what_any_reader_of_the_log_has() -> None:
    store = open_store(MemoryFiles())
    for changes in commits():
        store.commit(changes)
    loader = MetadataLoader(CLUSTER)
    for batch in store.quorum.log.batches(0, store.quorum.log.high_watermark):
        loader.add(batch)
    told = store.load()
    assert replace(told, controller_id=-1, controller_epoch=0) == loader.image
    assert told.change_number == store.quorum.log.end_offset - 1


def test_a_failed_sync_ends_all_commits_and_a_full_disk_only_one() -> None:
    files = MemoryFiles()
    store = open_store(files)
    store.load()
    files.fill(0)
    with pytest.raises(DiskFull):
        store.commit([SetFeature("share.version", 1)])
    assert not store.has_failed
    files.mend()
    assert store.commit([SetFeature("share.version", 1)]).feature("share.version") == 1
    files.fail(lambda operation: operation.kind == "sync")
    for _ in range(2):
        with pytest.raises(StoreFailed):
            store.commit([SetFeature("share.version", 0)])
    assert store.has_failed
    assert store.load().feature("share.version") == 1


def test_every_life_is_an_epoch_of_its_own_and_is_remembered_before_it_writes() -> None:
    files = MemoryFiles()
    for epoch in (1, 2, 3):
        store = open_store(files)
        image = store.load()
        assert (image.controller_id, image.controller_epoch) == (1, epoch)
        assert read_quorum_state(files, FOLDER) == QuorumState(epoch, 1, 1, DIRECTORY_ID)
        store.close()


def test_where_settings_name_the_voters_the_log_does_not() -> None:
    files = MemoryFiles()
    store = open_store(files, settings_name_voters=True)
    assert store.load().kraft_version == 0
    assert read_quorum_state(files, FOLDER) == QuorumState(1, 1, 1)
    store.close()
    assert open_store(files).load().kraft_version == 0, "what the log says stays"


def test_a_registration_has_the_offset_of_its_record_as_epoch() -> None:
    store = open_store(MemoryFiles())
    store.load()
    end = store.quorum.next_offset
    assert store.register(ME).epoch == end == store.load().brokers[1].epoch
    assert store.register(ME).epoch == end + 1


def test_a_commit_of_many_records_is_a_transaction_and_one_left_open_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_plans, "RECORDS_PER_BATCH", 3)
    files = MemoryFiles()
    store = open_store(files)
    many = CreateTopic(Topic("many", b"m" * 16, (Partition((1,), (1,), 1),) * 9))
    assert len(store.commit([many]).topics_by_name["many"].partitions) == 9
    pending = store.begin([RemoveTopic(b"m" * 16), *[SetFeature("share.version", 1)] * 9])
    pending.batches = pending.batches[:3]  # the power fails before the end of the transaction
    pending.write()
    again = open_store(files)
    assert again.load().topic("many") is not None
    assert again.load().feature("share.version") == 0
    assert again.commit([RemoveTopic(b"m" * 16)]).topic("many") is None
    assert open_store(files).load().topic("many") is None


def test_a_commit_of_many_records_that_the_disk_has_no_room_for_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_plans, "RECORDS_PER_BATCH", 3)
    files = MemoryFiles()
    store = open_store(files)
    before, end = content(store.load()), store.quorum.next_offset
    many = CreateTopic(Topic("many", b"m" * 16, (Partition((1,), (1,), 1),) * 9))
    files.fill(400)  # for the beginning of the transaction and a batch of it
    with pytest.raises(DiskFull):
        store.commit([many])
    assert store.quorum.next_offset == end
    files.mend()
    assert content(store.load()) == before
    assert store.commit([many]).topic("many") is not None
    store.close()
    assert len(open_store(files).load().topics_by_name["many"].partitions) == 9


@pytest.mark.parametrize("seed", range(10))
def test_what_is_read_after_a_failed_sync_is_still_there_after_a_power_cut(seed: int) -> None:
    files = MemoryFiles(seed=seed)
    store = open_store(files)
    store.load()
    files.fail(lambda operation: operation.kind == "sync")
    with pytest.raises(StoreFailed):
        store.commit([SetFeature("share.version", 1)])
    files.kill()  # the process alone: the kernel shows what it never wrote
    files.mend()
    shown = content(open_store(files).load())
    files.crash()
    assert content(open_store(files).load()) == shown


def test_partitions_that_change_again_and_again_are_told_in_one_commit() -> None:
    store = open_store(MemoryFiles())
    topic = store.commit([CreateTopic(Topic("t", b"t" * 16, (Partition((1,), (1,), 1),) * 3))]).topic("t")
    assert topic is not None
    changes = []
    partition = topic.partitions[1]
    for _ in range(3):
        partition = replace(
            partition, leader_epoch=partition.leader_epoch + 1, partition_epoch=partition.partition_epoch + 1
        )
        changes.append(ChangePartition(topic.id, 1, partition))
    after = store.commit(changes).topic("t")
    assert after is not None
    assert [each.leader_epoch for each in after.partitions] == [0, 3, 0]


def test_a_rule_gets_an_id_once_and_goes_by_it() -> None:
    files = MemoryFiles()
    store = open_store(files)
    first = store.commit([CreateAcl(RULE)])
    again = store.commit([CreateAcl(RULE)])
    assert first.acl_ids == again.acl_ids
    assert first.acl_ids[RULE] != bytes(16)
    store.close()
    store = open_store(files)
    assert list(store.load().acl_bindings()) == [RULE]
    assert list(store.commit([RemoveAcl(RULE)]).acl_bindings()) == []
    assert list(open_store(files).load().acl_bindings()) == []


def test_a_closed_store_says_so() -> None:
    store = open_store(MemoryFiles())
    store.load()
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.commit([SetFeature("share.version", 1)])


# --- snapshots -------------------------------------------------------------------------------------------------------


def fill(store: KRaftStore, count: int) -> None:
    for number in range(count):
        store.commit([AlterConfig(ConfigResource(ResourceType.BROKER, ""), (("log.retention.ms", str(number)),))])


def test_a_snapshot_is_made_when_the_log_has_grown_and_takes_the_place_of_what_was_before() -> None:
    files, clock = MemoryFiles(), Clock()
    store = open_store(
        files, clock=clock, rules=SnapshotRules(bytes_between=2_000), limits=LogLimits(retention_bytes=1_000)
    )
    store.load()
    assert not store.upkeep_is_due
    for _ in range(3):
        fill(store, 60)
        assert store.upkeep_is_due
        for _ in store.upkeep():
            pass
        assert not store.upkeep_is_due
    log = store.quorum.log
    assert len(log.snapshots) == 1
    assert log.start_offset == log.snapshots[0].end_offset == log.end_offset
    after = content(store.load())
    store.close()
    assert content(open_store(files).load()) == after


def test_a_snapshot_that_was_begun_twice_is_written_once() -> None:
    store = open_store(MemoryFiles(), rules=SnapshotRules(bytes_between=500))
    fill(store, 30)
    first, second = store.upkeep(), store.upkeep()
    for _ in first:
        pass
    fill(store, 1)
    written = store.quorum.log.newest_snapshot
    for _ in second:
        pass
    assert store.quorum.log.newest_snapshot == written


def test_what_is_old_is_put_together_too() -> None:
    clock = Clock()
    store = open_store(MemoryFiles(), clock=clock)
    fill(store, 1)
    assert not store.upkeep_is_due
    clock.ms += 3_600_000
    assert store.upkeep_is_due
    for _ in store.upkeep():
        pass
    clock.ms += 3_600_000
    assert not store.upkeep_is_due, "nothing has happened since"


def test_a_full_disk_puts_a_snapshot_off() -> None:
    files = MemoryFiles()
    store = open_store(files, rules=SnapshotRules(bytes_between=1))
    fill(store, 3)
    files.fill(0)
    for _ in store.upkeep():
        pass
    assert not store.has_failed
    assert store.quorum.log.newest_snapshot is None
    files.mend()
    fill(store, 1)
    for _ in store.upkeep():
        pass
    assert store.quorum.log.newest_snapshot is not None


def test_deletions_are_remembered_as_long_as_the_log_has_them() -> None:
    files = MemoryFiles()
    store = open_store(files)
    store.commit([CreateTopic(Topic("t", b"t" * 16, (Partition((1,), (1,), 1),)))])
    assert not store.was_deleted(b"t" * 16)
    store.commit([RemoveTopic(b"t" * 16)])
    assert store.was_deleted(b"t" * 16)
    store.close()
    store = open_store(files)
    store.load()
    assert store.was_deleted(b"t" * 16)


# --- what is refused -------------------------------------------------------------------------------------------------


def flip(files: MemoryFiles, path: Path, position: int) -> None:
    data = bytearray(files.read_bytes(path))
    data[position] ^= 1
    files.replace_bytes(path, bytes(data))


def log_file(files: MemoryFiles) -> Path:
    (name,) = [name for name in files.list_directory(FOLDER) if name.endswith(".log")]
    return FOLDER / name


@pytest.mark.parametrize(("where", "in_order"), [(30, False), (30, True), (-3, True), (300, False)])
def test_rot_is_told_from_a_torn_end(where: int, in_order: bool) -> None:
    files = MemoryFiles()
    assert run_until_it_fails(files, commits()[:2]) == 2
    path = log_file(files)
    before = files.read_bytes(path)
    flip(files, path, where)
    rotten = files.read_bytes(path)
    with pytest.raises(DamagedMetadataLog, match=r"00000000000000000000\.log: .*bytes"):
        open_store(files, in_order=in_order).load()
    assert files.read_bytes(path) == rotten, "nothing was cut off"
    files.replace_bytes(path, before)
    assert content(open_store(files, in_order=in_order).load()) == REACHED[2]


def test_a_torn_last_batch_is_dropped() -> None:
    files = MemoryFiles()
    store = open_store(files)
    store.commit(commits()[0])
    path = log_file(files)
    whole = len(files.read_bytes(path))
    store.commit(commits()[1])
    store.close()
    files.replace_bytes(path, files.read_bytes(path)[: whole + 20])
    assert content(open_store(files).load()) == REACHED[1]


def test_a_quorum_of_others_is_refused() -> None:
    files = MemoryFiles()
    open_store(files).load()
    with pytest.raises(OtherVoters, match="voters of its quorum are 1, and this is node 2"):
        open_store(files, node=LocalNode(2, DIRECTORY_ID, True)).load()
    with pytest.raises(OtherVoters, match="another directory"):
        open_store(files, node=LocalNode(1, b"e" * 16, True)).load()


def test_the_copy_of_an_observer_is_refused() -> None:
    files = MemoryFiles()
    files.make_directory(DATA)
    files.make_directory(FOLDER)
    write_quorum_state(files, FOLDER, QuorumState(leader_epoch=4, leader_id=3), 0)
    with pytest.raises(OtherVoters, match="follows the quorum of node 3"):
        open_store(files).load()


def test_a_quorum_state_that_makes_no_sense_is_refused() -> None:
    files = MemoryFiles()
    open_store(files).load()
    files.replace_bytes(FOLDER / "quorum-state", b'{"leaderId":')
    with pytest.raises(DamagedQuorumState):
        open_store(files).load()


def test_a_snapshot_without_its_end_is_refused() -> None:
    files = MemoryFiles()
    store = open_store(files, rules=SnapshotRules(bytes_between=1))
    fill(store, 3)
    for _ in store.upkeep():
        pass
    newest = store.quorum.log.newest_snapshot
    assert newest is not None
    path = store.quorum.log.snapshot_path(newest)
    store.close()
    files.replace_bytes(path, files.read_bytes(path)[:-10])
    with pytest.raises((DamagedSnapshot, CommittedRecordsLost)):
        open_store(files).load()
