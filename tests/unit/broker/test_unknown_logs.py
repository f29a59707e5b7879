"""A broker beside logs that its metadata does not know: refused at the start, or kept as strays."""

import asyncio
import hashlib
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.golden.logs.reading import ARCHIVES, unpack

from ottla.broker.cluster.kraft.own_store import make_own_store
from ottla.broker.replication.manager import ReplicaManager
from ottla.broker.replication.orders import stops
from ottla.broker.requests.pacing import Pacing
from ottla.broker.server import Server, running
from ottla.broker.settings import BrokerSettings
from ottla.broker.world import World
from ottla.cluster.changes import CreateTopic, RemoveTopic, SetFeature, SetScramCredential, apply_all
from ottla.cluster.features import first_features
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.writing import records_for
from ottla.cluster.model import Partition, ScramCredential, ScramKey, Topic
from ottla.cluster.raft.format import write_bootstrap, write_first_voters
from ottla.cluster.raft.snapshots import DamagedSnapshot, Voters
from ottla.cluster.store.kraft import KRaftStore
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.metadata_log.control import KRaftVersionFeature, VoterEndpoint, VoterNode, VotersRecord
from ottla.records import BatchBuilder
from ottla.simulation.zookeeper_model import ZooKeeperModel
from ottla.storage.directory.checkpoints import MetaProperties, read_meta_properties, write_meta_properties
from ottla.storage.directory.manager import LogManager
from ottla.storage.directory.unknown_logs import OLD_STORE, OldStore, UnknownLogs
from ottla.storage.directory.unknown_logs import QUORUM_LOG as FOLDER
from ottla.storage.files import DiskFiles
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def settings(*directories: Path, **more: str) -> BrokerSettings:
    return BrokerSettings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": ",".join(map(str, directories)),
            "ottla.admin.listener": "",
        }
        | more
    )


def with_broker(directory: Path, act: Callable[[Server], Awaitable[None] | None], **more: str) -> None:
    async def run() -> None:
        async with running(settings(directory, **more)) as server:
            if (waiting := act(server)) is not None:
                await waiting

    asyncio.run(run())


def contents(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def own_store(directory: Path) -> KRaftStore:
    """The store of a broker that is not running."""
    meta = read_meta_properties(DiskFiles(), directory)
    assert meta is not None
    assert meta.cluster_id is not None
    assert meta.node_id is not None
    logs = LogManager(
        [directory],
        files=DiskFiles(),
        default_settings=TopicSettings(),
        cluster_id=meta.cluster_id,
        broker_id=meta.node_id,
    )
    logs.claim()
    store = make_own_store(settings(directory), World.real(), meta.cluster_id, meta.node_id, logs.directories[0])
    store.load()
    logs.close(is_clean=False)
    return store


async def make_topic(server: Server, name: str, topic_id: bytes) -> None:
    from ottla.cluster.plan import Plan

    topic = Topic(name, topic_id, (Partition((server.broker.id,), (server.broker.id,), server.broker.id),))
    await server.broker.link.change(lambda image: Plan((CreateTopic(topic),), []))


async def delete_topic(server: Server, topic_id: bytes) -> None:
    from ottla.cluster.plan import Plan

    await server.broker.link.change(lambda image: Plan((RemoveTopic(topic_id),), []))


def append(server: Server, name: str) -> None:
    partition = server.broker.replicas.get((name, 0))
    assert partition is not None
    batch = BatchBuilder()
    batch.append(0, b"key", b"value")
    partition.log.append_as_leader(bytearray(batch.close()), leader_epoch=0, now_ms=0)


def strays(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.endswith("-stray"))


# --- a cluster is not begun beside logs of another -------------------------------------------------------------------


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name)
def test_the_directory_of_a_kraft_node_opens_with_its_topics(archive: Path, tmp_path: Path) -> None:
    golden = unpack(archive, tmp_path)
    meta = read_meta_properties(DiskFiles(), golden.data)
    assert meta is not None

    def has_all(server: Server) -> None:
        assert (server.info.cluster_id, server.info.broker_id) == (meta.cluster_id, meta.node_id)
        known = {str(name) for name, _ in server.broker.image.partitions()}
        assert known >= {name for name in golden.partitions if not name.startswith("__cluster_metadata")}
        for name, partition in server.broker.image.partitions():
            led = server.broker.replicas.get(name)
            assert led is not None, name
            assert led.is_leader, name
            assert partition.leader_epoch == led.leader_epoch

    with_broker(golden.data, has_all)
    assert not strays(golden.data)
    with_broker(golden.data, has_all)


def test_the_metadata_of_builds_before_the_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / OLD_STORE).mkdir()
    before = contents(tmp_path)
    with pytest.raises(OldStore, match=r"before the metadata log. Bring its topics over"):
        with_broker(tmp_path, lambda server: None)
    assert contents(tmp_path) == before


def test_the_directory_of_a_broker_on_zookeeper_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    write_meta_properties(DiskFiles(), tmp_path, MetaProperties(0, CLUSTER, 3))
    with pytest.raises(UnknownLogs, match=r"node 3 .*ZooKeeper.*1 topic \(orders\).*zookeeper.connect"):
        with_broker(tmp_path, lambda server: None)
    assert not (tmp_path / FOLDER).exists()


def test_logs_whose_metadata_was_lost_are_refused(tmp_path: Path) -> None:
    with_broker(tmp_path, lambda server: make_topic(server, "orders", b"a" * 16))
    shutil.rmtree(tmp_path / FOLDER)
    with pytest.raises(UnknownLogs, match=rf"1 topic \(orders\).*{FOLDER} is missing.*restore that folder"):
        with_broker(tmp_path, lambda server: None)
    assert (tmp_path / "orders-0").is_dir()
    assert not strays(tmp_path)


def test_metadata_in_another_directory_is_pointed_at(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()

    async def live(*directories: Path) -> None:
        async with running(settings(*directories)) as server:
            await make_topic(server, "orders", b"a" * 16)

    asyncio.run(live(first, second))
    with pytest.raises(UnknownLogs, match=f"the metadata is in {first}. Name that directory first"):
        asyncio.run(live(second, first))


def test_what_waits_for_its_removal_or_is_set_aside_is_no_reason_to_refuse(tmp_path: Path) -> None:
    (tmp_path / f"old-0.{'a' * 32}-delete").mkdir()
    (tmp_path / f"old-0.{'a' * 32}-stray").mkdir()
    with_broker(tmp_path, lambda server: None)


# --- single logs that the cluster does not know ----------------------------------------------------------------------


def lost_topic(directory: Path) -> None:
    """A log with a record, of a topic that the cluster of the directory never heard of."""
    other = directory.parent / "other"

    async def fill(server: Server) -> None:
        await make_topic(server, "orders", b"x" * 16)
        append(server, "orders")

    with_broker(other, fill)
    with_broker(directory, lambda server: None)
    shutil.copytree(other / "orders-0", directory / "orders-0")


def test_a_log_that_nobody_knows_is_kept_as_a_stray(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = tmp_path / "data"
    lost_topic(data)
    records = (data / "orders-0" / f"{0:020}.log").read_bytes()
    with_broker(data, lambda server: None)
    (stray,) = strays(data)
    assert (stray / f"{0:020}.log").read_bytes() == records != b""
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text for text in warnings if str(stray) in text and "orders-0" in text]
    with_broker(data, lambda server: None)  # and it stays
    assert strays(data) == [stray]


def test_a_topic_of_the_same_name_gets_a_log_of_its_own(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lost_topic(data)
    store = own_store(data)
    store.commit([CreateTopic(Topic("orders", b"y" * 16, (Partition((0,), (0,), 0),)))])
    store.close()

    def is_empty(server: Server) -> None:
        partition = server.broker.replicas.get(("orders", 0))
        assert partition is not None
        assert partition.topic_id == b"y" * 16
        assert partition.log.log_end_offset == 0

    with_broker(data, is_empty)
    assert len(strays(data)) == 1
    assert (data / "orders-0").is_dir()


@pytest.mark.parametrize("made_again", [False, True])
def test_a_deletion_that_a_crash_interrupted_is_finished(made_again: bool, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with_broker(data, lambda server: make_topic(server, "orders", b"a" * 16))
    store = own_store(data)
    store.commit([RemoveTopic(b"a" * 16)])
    if made_again:
        store.commit([CreateTopic(Topic("orders", b"b" * 16, (Partition((0,), (0,), 0),)))])
    store.close()
    with_broker(data, lambda server: None)
    assert not strays(data)
    assert (data / "orders-0").is_dir() is made_again
    assert [path.name for path in data.iterdir() if path.name.endswith("-delete")]


def test_a_copy_that_nobody_knows_is_kept_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lost_topic(data)
    (data / "orders-0").rename(data / f"orders-0.{'b' * 32}-future")
    with_broker(data, lambda server: None)
    (stray,) = strays(data)
    assert (stray / f"{0:020}.log").stat().st_size


def test_a_topic_that_is_deleted_leaves_no_stray(tmp_path: Path) -> None:
    async def make_and_delete(server: Server) -> None:
        await make_topic(server, "orders", b"a" * 16)
        await delete_topic(server, b"a" * 16)
        assert server.broker.replicas.get(TopicPartition("orders", 0)) is None

    with_broker(tmp_path, make_and_delete)
    with_broker(tmp_path, lambda server: None)
    assert not strays(tmp_path)
    assert not (tmp_path / "orders-0").exists()


@pytest.mark.parametrize(("known_id", "is_kept"), [(b"y" * 16, True), (b"x" * 16, False), (None, False)])
def test_an_order_to_delete_does_not_reach_a_log_of_another_topic(
    known_id: bytes | None, is_kept: bool, tmp_path: Path
) -> None:
    logs = LogManager([tmp_path], files=DiskFiles(), default_settings=TopicSettings(), cluster_id=CLUSTER, broker_id=0)
    logs.open(0)
    logs.create(TopicPartition("orders", 0), b"x" * 16, TopicSettings(), 0)
    replicas = ReplicaManager(0, logs, settings_of=lambda image, topic: TopicSettings())
    known = () if known_id is None else (CreateTopic(Topic("orders", known_id, (Partition((1,), (1,), 1),))),)
    one = StopReplicaPartitionState(partition_index=0, leader_epoch=1, delete_partition=True)
    order = StopReplicaRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=1,
        topic_states=[StopReplicaTopicState(topic_name="orders", partition_states=[one])],
    )
    image = apply_all(ClusterImage(CLUSTER), known)
    pacing = Pacing(lambda: 0.0, None)
    with pacing.turn() as pace:
        asyncio.run(replicas.apply_roles(stops(order, image), image, 0, pace, are_orders=True))
    logs.close()
    assert len(strays(tmp_path)) == is_kept
    assert not (tmp_path / "orders-0").exists()


# --- ids -------------------------------------------------------------------------------------------------------------


def test_the_ids_of_a_formatted_directory_are_taken(tmp_path: Path) -> None:
    write_meta_properties(DiskFiles(), tmp_path, MetaProperties(1, CLUSTER, 7))

    def has_ids(server: Server) -> None:
        assert (server.info.cluster_id, server.info.broker_id) == (CLUSTER, 7)

    with_broker(tmp_path, has_ids)
    with_broker(tmp_path, has_ids)


def test_a_new_cluster_begins_with_what_was_formatted(tmp_path: Path) -> None:
    write_meta_properties(DiskFiles(), tmp_path, MetaProperties(1, CLUSTER, 7, b"d" * 16))
    credential = SetScramCredential(ScramKey("alice", 1), ScramCredential(4096, b"salt", b"stored", b"server"))
    first = [SetFeature("metadata.version", 29), SetFeature("group.version", 1), credential]
    write_bootstrap(DiskFiles(), tmp_path, records_for(first, ClusterImage(CLUSTER)), lambda: 0)
    voter = VoterNode(
        voter_id=7,
        voter_directory_id=b"d" * 16,
        endpoints=[VoterEndpoint(name="CONTROLLER", host="localhost", port=9093)],
        k_raft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    write_first_voters(DiskFiles(), tmp_path, Voters(1, VotersRecord(voters=[voter])), lambda: 0)

    def has_them(server: Server) -> None:
        image = server.broker.image
        assert dict(image.features) == {"metadata.version": 29, "group.version": 1}
        assert image.scram_credentials[credential.key] == credential.credential

    with_broker(tmp_path, has_them)
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"it is read for a new cluster only")
    with_broker(tmp_path, has_them)


def test_a_damaged_bootstrap_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"damaged")
    with pytest.raises(DamagedSnapshot, match=r"bootstrap\.checkpoint"):
        with_broker(tmp_path, lambda server: None)


def test_a_member_without_an_id_keeps_the_one_it_was_given(tmp_path: Path) -> None:
    zookeeper = ZooKeeperModel(CLUSTER, first_features())

    async def started_id() -> int:
        server = Server(settings(tmp_path), shared_store=zookeeper.join())
        try:
            return (await server.start()).broker_id
        finally:
            await server.stop()

    first = asyncio.run(started_id())
    assert first > 1_000  # reserved.broker.max.id: the cluster chose it
    assert asyncio.run(started_id()) == first
