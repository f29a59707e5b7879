"""A broker of its own and its metadata log: directories of replicas, leaders after a start, snapshots."""

import asyncio
import json
from pathlib import Path

from ottla.broker.cluster.alone import AloneLink
from ottla.broker.requests.running import next_turn
from ottla.broker.server import Server, running
from ottla.broker.settings import BrokerSettings
from ottla.protocol.messages.create_topics import CreatableTopic
from ottla.values import TopicPartition


def settings(*directories: Path, **more: str) -> BrokerSettings:
    return BrokerSettings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": ",".join(map(str, directories)),
            "ottla.admin.listener": "",
        }
        | more
    )


async def create(server: Server, name: str, partitions: int) -> None:
    await server.broker.link.create_topic(
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    )


async def idle(server: Server) -> None:
    """What was begun beside the changes is done."""
    link = server.broker.link
    assert isinstance(link, AloneLink)
    while not link.is_idle:
        await next_turn()


def directories_of(server: Server, name: str) -> list[tuple[bytes, ...]]:
    topic = server.broker.image.topic(name)
    assert topic is not None
    return [partition.directories for partition in topic.partitions]


def actual(server: Server, name: str, partitions: int) -> list[tuple[bytes | None]]:
    found = [server.broker.replicas.logs.directory_of(TopicPartition(name, index)) for index in range(partitions)]
    return [(directory.directory_id,) for directory in found if directory is not None]


def test_where_there_are_several_directories_the_log_says_which_has_a_replica(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(settings(first, second)) as server:
            await create(server, "t", 4)
            await idle(server)
            told = directories_of(server, "t")
            assert told == actual(server, "t", 4)
            assert len(set(told)) == 2
        async with running(settings(first, second)) as server:
            assert directories_of(server, "t") == told

    asyncio.run(run())


def test_a_log_that_was_moved_while_the_broker_was_down_is_told(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(settings(first, second)) as server:
            await create(server, "t", 2)
            await idle(server)
        here = next(path for path in (first, second) if (path / "t-0").is_dir())
        there = second if here == first else first
        (here / "t-0").rename(there / "t-0")
        async with running(settings(first, second)) as server:
            assert directories_of(server, "t") == actual(server, "t", 2)

    asyncio.run(run())


def test_leaders_stay_after_a_stop_in_order_and_begin_an_epoch_after_a_crash(tmp_path: Path) -> None:
    async def epochs(*, crash: bool) -> tuple[int, int]:
        server = Server(settings(tmp_path))
        await server.start()
        if server.broker.image.topic("t") is None:
            await create(server, "t", 1)
        partition = server.broker.replicas.get(TopicPartition("t", 0))
        assert partition is not None
        assert partition.is_leader
        told = server.broker.image.partition("t", 0)
        assert told is not None
        assert told.leader_epoch == partition.leader_epoch
        found = (told.leader_epoch, server.broker.link.epoch)
        await (server.crash() if crash else server.stop())
        return found

    async def run() -> None:
        lives = [await epochs(crash=crash) for crash in (False, True, False, False)]
        assert [leader_epoch for leader_epoch, _ in lives] == [0, 0, 1, 1]
        assert [broker_epoch for _, broker_epoch in lives] == sorted({broker_epoch for _, broker_epoch in lives})
        mark = json.loads((tmp_path / ".kafka_cleanshutdown").read_text())
        assert mark == {"version": 0, "brokerEpoch": lives[-1][1]}

    asyncio.run(run())


def test_a_snapshot_is_made_while_the_broker_serves(tmp_path: Path) -> None:
    async def run() -> None:
        small = {"metadata.log.max.record.bytes.between.snapshots": "1000", "metadata.max.retention.bytes": "1000"}
        async with running(settings(tmp_path, **small)) as server:
            for number in range(20):
                await create(server, f"t{number}", 3)
            await idle(server)
            folder = tmp_path / "__cluster_metadata-0"
            (snapshot,) = folder.glob("*.checkpoint")
            assert int(snapshot.name[:20]) > 0
        async with running(settings(tmp_path)) as server:
            assert all(len(directories_of(server, f"t{number}")) == 3 for number in range(20))

    asyncio.run(run())
