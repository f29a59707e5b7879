"""Whatever large thing a broker loads, starts or stops: somebody who asks about another topic is answered soon."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.replication.manager import ReplicaManager
from ottla.broker.replication.partition import ACKS_ALL
from ottla.broker.replication.roles import Moves
from ottla.broker.server import Server
from ottla.broker.settings import BrokerSettings
from ottla.cli import collecting
from ottla.protocol.header import encode_request
from ottla.protocol.messages.create_topics import CreatableTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.stored import encode_key, encode_value
from ottla.protocol.stored.offsets import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue
from ottla.records import BatchBuilder
from ottla.storage.log.origin import AppendOrigin

LIMIT_S = 0.3
BUSY_LIMIT_S = 1.0  # for the samples, which run beside other tests: what is not in slices took longer also there
STOP_LIMIT_S = 30.0
AFTER_START_S = 15.0  # jobs that walk over all partitions have run then
MB = 1_000_000
GROUPS, COMMITS_PER_BATCH = 500, 20
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


class Ping:
    """Asks for the offsets of a topic again and again, from a thread, and remembers the longest wait."""

    def __init__(self, port: int) -> None:
        self.waits_s: list[float] = []
        self.failure: Exception | None = None
        self._port = port
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    async def __aenter__(self) -> Ping:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over.set()
        await asyncio.to_thread(self._thread.join)  # the broker that it asks lives on this loop

    @property
    def longest_s(self) -> float:
        assert self.failure is None, self.failure
        assert len(self.waits_s) > 1  # a short load leaves time for few
        return max(self.waits_s)

    def _run(self) -> None:
        try:
            with self._connected() as link:
                while not self._is_over.wait(0.005):
                    began_s = time.perf_counter()
                    self._ask(link)
                    self.waits_s.append(time.perf_counter() - began_s)
        except Exception as error:
            self.failure = error

    def _connected(self) -> socket.socket:
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                link = socket.create_connection(("127.0.0.1", self._port), timeout=60)
                began_s = time.perf_counter()  # the port is open: from now on whoever asks is answered soon
                self._ask(link)
                self.waits_s.append(time.perf_counter() - began_s)
                return link
            time.sleep(0.01)

    def _ask(self, link: socket.socket) -> None:
        partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name="other", partitions=[partition])]
        )
        frame = b"".join(map(bytes, encode_request(request, version=5, correlation_id=1, client_id="ping")))
        link.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", _exactly(link, 4))
        answer = _exactly(link, size)
        assert b"other" in answer


def _exactly(link: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = link.recv(size - len(found))
        assert piece, "the broker has closed the connection"
        found += piece
    return found


def commits() -> list[bytes]:
    """Batches with commits of many groups, as groups of many partitions write them."""
    batches = []
    for group in range(GROUPS):
        builder = BatchBuilder(size_limit_bytes=MB)
        for partition in range(COMMITS_PER_BATCH):
            key = OffsetCommitKey(group=f"group-{group}", topic="orders", partition=partition)
            value = OffsetCommitValue(offset=group, metadata="", commit_timestamp=int(time.time() * 1000))
            builder.append(0, encode_key(key), encode_value(value, 3))
        batches.append(bytes(builder.close()))
    return batches


def transactions() -> list[bytes]:
    batches = []
    for number in range(GROUPS):
        builder = BatchBuilder(size_limit_bytes=MB)
        value = TransactionLogValue(
            producer_id=number,
            producer_epoch=0,
            transaction_timeout_ms=60_000,
            transaction_status=0,
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=int(time.time() * 1000),
            transaction_start_timestamp_ms=-1,
        )
        key = TransactionLogKey(transactional_id=f"transaction-{number}")
        builder.append(0, encode_key(key), encode_value(value, 0))
        batches.append(bytes(builder.close()))
    return batches


async def fill(broker: Broker, topic: str, batches: list[bytes], size_bytes: int) -> None:
    partition = broker.replicas.get((topic, 0))
    assert partition is not None
    while partition.log.size_bytes < size_bytes:
        for batch in batches:
            now_ms = broker.clock.now_ms()
            partition.append(bytearray(batch), acks=ACKS_ALL, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        await asyncio.sleep(0)
    broker.progress.appended(partition)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture(autouse=True)
def collected_as_in_a_broker() -> Iterator[None]:
    """The brokers of these tests live in the process of the tests, with all that the tests have loaded."""
    usual = gc.get_threshold()
    collecting.collect_for_service()
    gc.collect()
    yield
    gc.callbacks.remove(collecting.freeze_survivors)
    gc.set_threshold(*usual)
    gc.unfreeze()


def settings(directory: Path, port: int) -> BrokerSettings:
    return BrokerSettings(
        {
            "log.dirs": str(directory),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "log.cleaner.enable": "false",
        }
    )


async def make_topics(broker: Broker, *names: str, partitions: int = 2) -> None:
    for name in names:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        await broker.link.create_topic(topic)


@pytest.mark.parametrize(
    ("size_bytes", "limit_s"), [(2 * MB, BUSY_LIMIT_S), pytest.param(200 * MB, LIMIT_S, marks=pytest.mark.long)]
)
def test_a_large_coordinator_is_loaded_while_others_are_served(
    tmp_path: Path, port: int, size_bytes: int, limit_s: float
) -> None:
    async def story() -> tuple[float, float]:
        server = Server(settings(tmp_path, port))
        await server.start()
        await make_topics(server.broker, "other", OFFSETS, TRANSACTIONS)
        await fill(server.broker, OFFSETS, commits(), size_bytes)
        await fill(server.broker, TRANSACTIONS, transactions(), size_bytes // 4)
        await server.stop()

        server = Server(settings(tmp_path, port))
        async with Ping(port) as at_start:
            await server.start()  # returns when everything is loaded
        broker = server.broker
        assert broker.loads.is_idle
        assert sum(len(shard.groups) for _, shard in broker.groups.runtime.shards()) == GROUPS
        assert sum(len(shard.transactions) for _, shard in broker.transactions.runtime.shards()) == GROUPS

        async with Ping(port) as at_fail_over:
            await asyncio.sleep(0.1)
            for coordinator, topic in ((broker.groups, OFFSETS), (broker.transactions, TRANSACTIONS)):
                partition = broker.replicas.get((topic, 0))
                assert partition is not None
                coordinator.load(partition)
            assert broker.groups.runtime.is_loading
            await broker.loads.wait()
        load_ms = broker.groups.runtime.load_ms[2]
        print(f"{size_bytes // MB} MB: loaded in {load_ms / 1000:.1f} s")
        await server.stop()
        return at_start.longest_s, at_fail_over.longest_s

    at_start_s, at_fail_over_s = asyncio.run(story())
    print(f"longest wait at start {at_start_s * 1000:.0f} ms, at a fail-over {at_fail_over_s * 1000:.0f} ms")
    assert at_start_s < limit_s
    assert at_fail_over_s < limit_s


@pytest.mark.parametrize(
    ("topics", "limit_s"), [(10, BUSY_LIMIT_S), pytest.param(500, LIMIT_S, marks=pytest.mark.long)]
)
def test_many_partitions_are_made_opened_and_stopped_while_others_are_served(
    tmp_path: Path, port: int, topics: int, limit_s: float
) -> None:
    async def story() -> tuple[float, float, float]:
        server = Server(settings(tmp_path, port))
        await server.start()
        await make_topics(server.broker, "other", partitions=1)
        async with Ping(port) as making:
            await make_topics(server.broker, *(f"many-{number}" for number in range(topics)), partitions=20)
            await asyncio.sleep(0.2)
        for partition in list(server.broker.replicas):
            builder = BatchBuilder(size_limit_bytes=MB)
            builder.append(0, None, b"x")
            now_ms = server.broker.clock.now_ms()
            partition.append(bytearray(builder.close()), acks=ACKS_ALL, now_ms=now_ms)
        began_s = time.perf_counter()
        await server.stop()
        stop_s = time.perf_counter() - began_s

        server = Server(settings(tmp_path, port))
        async with Ping(port) as starting:
            await server.start()
            await asyncio.sleep(AFTER_START_S if limit_s == LIMIT_S else 0.5)
        await server.stop()
        return making.longest_s, starting.longest_s, stop_s

    making_s, starting_s, stop_s = asyncio.run(story())
    print(f"{topics * 20} partitions, longest wait while they are made {making_s * 1000:.0f} ms,", end=" ")
    print(f"from the open port on {starting_s * 1000:.0f} ms; stopped in {stop_s:.1f} s")
    assert making_s < limit_s
    assert starting_s < limit_s
    assert stop_s < STOP_LIMIT_S


def test_no_port_is_open_before_the_partitions_are(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds it open is answered: with 10,000 partitions he had waited for a second, and on a busy machine for
    fifteen."""
    open_at_first_partition: list[bool] = []

    async def story() -> None:
        server = Server(settings(tmp_path, port))
        await server.start()
        await make_topics(server.broker, "other")
        await server.stop()
        apply_roles = ReplicaManager.apply_roles

        async def watched(*arguments: Any, **named: Any) -> Moves:
            open_at_first_partition.append(_is_open(port))
            return await apply_roles(*arguments, **named)

        monkeypatch.setattr(ReplicaManager, "apply_roles", watched)
        server = Server(settings(tmp_path, port))
        await server.start()
        assert _is_open(port)
        await server.stop()

    asyncio.run(story())
    assert open_at_first_partition[0] is False


def _is_open(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0
