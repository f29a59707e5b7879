"""FakeBroker: the door to the fake cluster. The story is in this folder's __init__.py."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ottla.clock import Clock, SystemClock
from ottla.net.link import Listener, Transport
from ottla.net.transport import TcpTransport
from ottla.protocol.api import APIS
from ottla.protocol.header import RequestHeader
from ottla.protocol.schema import Message
from ottla.records import BatchBuilder, Record
from ottla.testing.fake import data_answers as data
from ottla.testing.fake import group_answers as groups
from ottla.testing.fake import transaction_answers as transactions
from ottla.testing.fake.bending import Bending
from ottla.testing.fake.cluster import FakeCluster
from ottla.testing.fake.log import FakeLog
from ottla.testing.fake.rules import Asked
from ottla.testing.fake.wire import FakeDoor, Pace
from ottla.values import Node, OffsetAndMetadata, TopicPartition

T = TypeVar("T")

LIMIT_S: Final = 30
LAST_LOOK_S: Final = 0.01
TURNS_TO_LET_IN: Final = 5
HOST: Final = "127.0.0.1"

ANSWERS: Final[Mapping[str, Callable[[FakeCluster, Asked], Message | None]]] = {
    "Metadata": data.describe,
    "Produce": data.take_records,
    "ListOffsets": data.list_offsets,
    "OffsetForLeaderEpoch": data.end_of_epochs,
    "CreateTopics": data.create_topics,
    "SaslHandshake": data.refuse_login,
    "FindCoordinator": groups.find_coordinator,
    "JoinGroup": groups.join_group,
    "SyncGroup": groups.sync_group,
    "Heartbeat": groups.heartbeat,
    "LeaveGroup": groups.leave_group,
    "ConsumerGroupHeartbeat": groups.consumer_heartbeat,
    "OffsetCommit": groups.commit_offsets,
    "OffsetFetch": groups.fetch_offsets,
    "TxnOffsetCommit": groups.commit_offsets_in_transaction,
    "InitProducerId": transactions.init_producer_id,
    "AddPartitionsToTxn": transactions.add_partitions,
    "AddOffsetsToTxn": transactions.add_offsets,
    "EndTxn": transactions.end_transaction,
}
KNOWN: Final = ("ApiVersions", "Fetch", *ANSWERS)
# Clients speak version 3; 4 and 5 are for brokers.
CLIENT_VERSIONS: Final = {"AddPartitionsToTxn": (0, 3)}


class FakeBroker(Bending):
    """A cluster of fake nodes with the ids 1, 2, ... Use it with `with`, or `async with` when a transport is given."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        auto_create_topics: bool = False,
        transaction_version: int = 2,
        tls: ssl.SSLContext | None = None,
        requests_limit: int = 100_000,
        transport: Transport | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__()
        self.clock: Clock = clock or SystemClock()
        self.pace = Pace()
        self.cluster = FakeCluster(
            nodes=nodes, clock=self.clock, auto_create=auto_create_topics, transaction_version=transaction_version
        )
        self.cluster.versions.update(CLIENT_VERSIONS)
        self.requests: deque[Asked] = deque(maxlen=requests_limit)
        self.troubles: list[Exception] = []
        self._counts: Counter[tuple[str, int]] = Counter()
        self._transport = transport or TcpTransport()
        self._tls = tls
        self._listeners: dict[int, Listener] = {}
        self._doors: dict[int, set[FakeDoor]] = {node: set() for node in self.cluster.node_ids}
        self._ports: dict[int, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event

    # --- life ---

    def start(self) -> Self:
        """Begin on a thread of its own."""
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="ottla-fake-broker", daemon=True)
        self._thread.start()
        ready.result(LIMIT_S)
        return self

    def stop(self) -> None:
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        if thread.is_alive():
            loop.call_soon_threadsafe(self._stop.set)
            thread.join(LIMIT_S)
        self._thread = self._loop = None
        self._raise_troubles()

    def _raise_troubles(self) -> None:
        if self.troubles:
            raise RuntimeError(f"the fake could not answer {len(self.troubles)} requests") from self.troubles[0]

    def _run(self, ready: Future[None]) -> None:
        async def whole_life() -> None:
            self._stop = asyncio.Event()
            try:
                await self._open()
            except BaseException as error:
                ready.set_exception(error)
                raise
            ready.set_result(None)
            await self._stop.wait()
            await self._close()

        asyncio.run(whole_life())

    async def _open(self) -> None:
        self._loop = asyncio.get_running_loop()
        for node in self.cluster.node_ids:
            await self._listen(node)

    async def _listen(self, node: int) -> None:
        def door() -> FakeDoor:
            made = FakeDoor(self, node, self._doors[node].discard)
            self._doors[node].add(made)
            return made

        listener = await self._transport.serve(HOST, self._ports.get(node, 0), door, tls=self._tls)
        self._listeners[node] = listener
        self._ports[node] = listener.port
        self.cluster.nodes.setdefault(node, Node(node, HOST, listener.port))

    async def _close(self) -> None:
        for node in list(self._listeners):
            await self._shut(node)
        # One that was accepted just now opens in a moment, and is shut then; it must not be left behind.
        await asyncio.sleep(LAST_LOOK_S)

    async def _shut(self, node: int) -> None:
        # asyncio loses the socket of somebody who is let in while the door closes: those who knocked come in first.
        for _ in range(TURNS_TO_LET_IN):
            await asyncio.sleep(0)
        self._listeners.pop(node).close()
        for door in list(self._doors[node]):
            door.break_off()
            await door.done()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self._close()
        self._raise_troubles()

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None or self._thread is None:
            work.close()
            raise RuntimeError("the fake is not running on a thread of its own: use `with FakeBroker() as fake:`")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    # --- answering, on the loop ---

    def begin(self, node: int, api: str, header: RequestHeader, message: Message) -> Asked:
        with self.lock:
            asked = self.script.begin(node, api, header.request_api_version, header.client_id, message)
            self.requests.append(asked)
            self._counts[api, node] += 1
            return asked

    def respond(self, asked: Asked, *, waited_ms: float) -> Message | None:
        with self.lock:
            response = self._unbent(asked, waited_ms)
            if response is None:
                return None
            if (throttle := asked.bends.get("throttle")) is not None:
                setattr(response, "throttle_time_ms", throttle.value)  # noqa: B010 (most answers have it)
        if (change := asked.bends.get("change")) is not None:
            changed: Message | None = change.value(asked.message, response)
            return changed
        return response

    def is_open(self, node: int) -> bool:
        return node in self._listeners

    def is_patient(self, asked: Asked, waited_ms: float) -> bool:
        if asked.api != "Fetch" or "answer" in asked.bends:
            return False
        return waited_ms < float(asked.message.max_wait_ms) and not asked.failed

    def _unbent(self, asked: Asked, waited_ms: float) -> Message | None:
        if (scripted := asked.bends.get("answer")) is not None:
            made: Message | None = scripted.value(asked.message)
            return made
        if asked.api == "Fetch":
            return data.give_records(self.cluster, asked, waited_ms=waited_ms)
        if asked.api == "ApiVersions":
            rows = sorted(APIS.values(), key=lambda row: row.key)
            return data.api_versions(
                self.cluster, asked, (row.name for row in rows if row.name in KNOWN or self.script.knows(row.name))
            )
        if asked.api not in ANSWERS:
            raise NotImplementedError(f"the fake has no answer to {asked.api}; give it one with answer()")
        return ANSWERS[asked.api](self.cluster, asked)

    # --- looking ---

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, as clients want them."""
        if not self._ports:
            raise RuntimeError("the fake is not running: use `with FakeBroker() as fake:`")
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def address(self, node: int) -> str:
        """Where one node really listens."""
        return f"{HOST}:{self._ports[node]}"

    def asked(self, api: str, node: int | None = None) -> int:
        """How many requests of an API came."""
        with self.lock:
            return sum(count for (name, at), count in self._counts.items() if name == api and node in (None, at))

    def log(self, topic: str, partition: int = 0) -> FakeLog:
        return self.cluster.log(topic, partition)

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        """Every record that is in the partition."""
        with self.lock:
            return self.log(topic, partition).records()

    def committed(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed."""
        with self.lock:
            return dict(self.cluster.group(group).offsets)

    def open_connections(self, node: int | None = None) -> int:
        return sum(len(doors) for at, doors in self._doors.items() if node in (None, at))

    # --- changing the cluster ---

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Leaders are the nodes in turn."""
        with self.lock:
            self.cluster.create(topic, partitions)

    def append(self, topic: str, values: Iterable[bytes], partition: int = 0) -> int:
        """Put records into a partition as one batch; returns the base offset."""
        with self.lock:
            builder = BatchBuilder(size_limit_bytes=1 << 30)
            for value in values:
                builder.append(self.clock.now_ms(), None, value)
            return self.log(topic, partition).append(builder.close())

    def move_leader(self, topic: str, partition: int, to: int, *, new_epoch: bool = True) -> None:
        """Another node leads; -1 is nobody."""
        with self.lock:
            log = self.log(topic, partition)
            log.leader = to
            log.leader_epoch += new_epoch

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Lose the end of a partition and begin a new epoch, as an unclean election does."""
        with self.lock:
            log = self.log(topic, partition)
            log.truncate(offset)
            log.leader_epoch += 1

    def trim(self, topic: str, partition: int, offset: int) -> None:
        """Lose the beginning of a partition, as retention does."""
        with self.lock:
            self.log(topic, partition).start_offset = offset

    def forget_producers(self, topic: str, partition: int = 0) -> None:
        """Forget sequence numbers, as a partition does whose producers were silent for too long."""
        with self.lock:
            log = self.log(topic, partition)
            log.writers.clear()
            log.has_forgotten = True

    def rebalance(self, group: str) -> None:
        """Let the member join again."""
        with self.lock:
            self.cluster.group(group).must_rejoin = True

    def assign(self, group: str, partitions: Iterable[tuple[str, int]] | None) -> None:
        """What the member of the new protocol shall have; None is everything it subscribed to."""
        with self.lock:
            chosen = None if partitions is None else [TopicPartition(*each) for each in partitions]
            self.cluster.group(group).target = chosen

    def advertise(self, node: int, host: str, port: int) -> None:
        """Tell clients another address of a node than the one where it listens."""
        with self.lock:
            self.cluster.nodes[node] = Node(node, host, port)

    def offer(self, api: str, lowest: int, highest: int) -> None:
        """Tell clients these versions of an API."""
        with self.lock:
            self.cluster.versions[api] = (lowest, highest)

    def slow_down(self, *, before_ms: float = 0.0, piece_bytes: int = 0, between_ms: float = 0.0) -> None:
        """Look at each request that much later, and write answers in pieces with pauses."""
        self.pace = Pace(before_ms, piece_bytes, between_ms)

    def stop_node(self, node: int) -> None:
        """Nobody listens there any more, and every connection breaks."""
        self._on_loop(self._shut(node))

    def start_node(self, node: int) -> None:
        """Listen again, at the same port."""
        self._on_loop(self._listen(node))

    def break_connections(self, node: int | None = None) -> None:
        """Every connection breaks; new ones are welcome."""

        async def break_all() -> None:
            for at, doors in self._doors.items():
                for door in list(doors) if node in (None, at) else ():
                    door.break_off()

        self._on_loop(break_all())
