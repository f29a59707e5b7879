"""A cluster for the producer's plain parts: metadata, connections and brokers with logs, all in plain Python.

`World.turn()` is one turn of the sender with its requests; the answers come when the test says so, bent as it likes.
The brokers keep logs as Kafka does: batches are checked for their sequence numbers, doubled ones are not appended.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from ottla.client.cluster_view import PartitionInfo
from ottla.client.producer.batches.accumulator import RecordAccumulator
from ottla.client.producer.batches.produce_frames import Accepted
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.sending.failures import Failures
from ottla.client.producer.sending.outcomes import Outcomes
from ottla.client.producer.sending.sender import Ask, Fail, Send, Sender, WakeAt
from ottla.client.producer.transactions.manager import TransactionManager
from ottla.client.producer.transactions.states import Kind
from ottla.errors import ConnectionClosed
from ottla.net.retries import Backoff
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.records import RecordBatch
from ottla.values import Node, TopicPartition

NODES = (Node(1, "one", 9092), Node(2, "two", 9092))


class FakeMetadata:
    """Every topic has `count` partitions, led in turn by the two nodes."""

    def __init__(self, count: int = 2) -> None:
        self.version = 1
        self.count = count
        self.updates_wanted = 0
        self.leaderless: set[int] = set()

    def partitions_of(self, topic: str) -> tuple[PartitionInfo, ...]:
        return tuple(self.partition(TopicPartition(topic, index)) for index in range(self.count))

    def partition(self, name: TopicPartition) -> PartitionInfo:
        leader = None if name.partition in self.leaderless else NODES[name.partition % 2]
        return PartitionInfo(name.topic, name.partition, leader, self.version)

    def request_update(self) -> None:
        self.updates_wanted += 1

    def leader_changed(self, name: TopicPartition, leader: int, epoch: int, nodes: Any) -> bool:
        self.version += 1
        return True

    def topic_name(self, topic_id: bytes) -> str | None:
        return None


class FakeNetwork:
    def __init__(self, metadata: FakeMetadata, limit: int = 5) -> None:
        self.metadata = metadata
        self.limit = limit
        self.requests: dict[int, list[Send]] = {node.id: [] for node in NODES}
        self.closed: set[int] = set()

    def can_send_now(self, node: Node) -> bool:
        return node.id not in self.closed and len(self.requests[node.id]) < self.limit

    def in_flight(self, node: Node) -> int:
        return len(self.requests[node.id])

    def is_unreachable(self, node: Node) -> bool:
        return False

    def throttled_for_ms(self, node: Node) -> float:
        return 0.0


@dataclass
class Log:
    """One partition as a broker keeps it."""

    values: list[bytes] = field(default_factory=list)
    next_sequence: dict[tuple[int, int], int] = field(default_factory=dict)
    batches: dict[tuple[int, int, int], int] = field(default_factory=dict)
    size_limit_bytes: int = 1 << 20

    def append(self, data: bytes) -> tuple[int, int]:
        """(error code, base offset)"""
        batch = RecordBatch(data)
        batch.check()
        if len(data) > self.size_limit_bytes and batch.record_count > 1:
            return 10, -1
        who = batch.producer_id, batch.producer_epoch
        first = batch.base_sequence
        if batch.producer_id >= 0:
            if (*who, first) in self.batches:
                return 0, self.batches[*who, first]
            # As Kafka: from a producer it knows nothing of, a broker takes any number. The client must not offer it.
            if first != self.next_sequence.get(who, first):
                return 45, -1
            self.next_sequence[who] = first + batch.record_count
            self.batches[*who, first] = len(self.values)
        offset = len(self.values)
        self.values += [record.value for record in batch]
        return 0, offset

    def restart(self) -> None:
        """A leader that comes from a snapshot knows of each producer only the newest batch."""
        newest: dict[tuple[int, int], int] = {}
        for producer_id, epoch, first in self.batches:
            newest[producer_id, epoch] = max(first, newest.get((producer_id, epoch), 0))
        self.batches = {key: offset for key, offset in self.batches.items() if newest[key[:2]] == key[2]}

    def truncate(self, offset: int) -> None:
        """An unclean election: what is from `offset` on is lost, and forgotten; nothing before it is."""
        for key in [key for key, first_offset in self.batches.items() if first_offset >= offset]:
            del self.batches[key]
            self.next_sequence[key[:2]] = min(self.next_sequence[key[:2]], key[2])
        del self.values[offset:]


class World:
    """Accumulator, sender and outcomes over a fake cluster; time moves when told."""

    def __init__(
        self,
        *,
        partitions: int = 2,
        batch_bytes: int = 200,
        memory_bytes: int = 100_000,
        in_flight_limit: int = 5,
        idempotent: bool = True,
        linger_ms: float = 5,
        delivery_limit_ms: float = 1000,
        request_limit_bytes: int = 1 << 20,
        retries: int = 1000,
        transactional_id: str | None = None,
    ) -> None:
        self.now_ms = 0.0
        self.metadata = FakeMetadata(partitions)
        self.network = FakeNetwork(self.metadata, in_flight_limit)
        self.manager = TransactionManager(transactional_id=transactional_id) if idempotent else None
        self.accumulator = RecordAccumulator(
            batch_bytes=batch_bytes, memory_bytes=memory_bytes, record_limit_bytes=1 << 20, chance=random.Random(1)
        )
        backoff = Backoff(100, 1000, random.Random(1))
        self.sender = Sender(
            self.accumulator,
            self.network,
            self.manager,
            backoff=backoff,
            linger_ms=linger_ms,
            delivery_limit_ms=delivery_limit_ms,
            request_limit_bytes=request_limit_bytes,
            in_flight_limit=in_flight_limit,
        )
        self.failures = Failures()
        self.outcomes = Outcomes(
            self.sender,
            self.failures,
            ProducerMetrics("test"),
            retries=retries,
            delivery_limit_ms=delivery_limit_ms,
            batch_bytes=batch_bytes,
        )
        self.logs = [Log() for _ in range(partitions)]
        self.state = self.accumulator.new_state("t", partitions)
        self.accumulator.available["t"] = tuple(range(partitions))
        self.wake_ms: float | None = None
        self._given_epoch = -1
        self.last: list[Any] = []

    def send(self, value: bytes, partition: int | None = 0, key: bytes | None = None) -> Any:
        """The future, or the place in line."""
        while True:
            future = self.state.put(key, value, None, 1, partition, True)
            if future is not None:
                return future
            needed = 97 + len(value) + len(key or b"")
            place = self.accumulator.make_room(self.state, partition, needed, self.now_ms)
            if place is not None:
                return place

    def turn(self) -> list[Any]:
        """Plan and carry out: requests wait for `answer`, identities are given at once."""
        self.last = self.sender.plan(self.now_ms)
        self.wake_ms = None
        for decision in self.last:
            match decision:
                case Send():
                    self.network.requests[decision.node.id].append(decision)
                case Fail():
                    self.outcomes.give_up(decision.batch, decision.error, is_unknown=decision.is_unknown)
                case Ask():
                    self.manager.answered(decision.planned, self._granted(decision.planned), self.now_ms)
                case WakeAt():
                    self.wake_ms = decision.ms
        return self.last

    def _granted(self, planned: Any) -> Any:
        """A coordinator that lets everybody have what they ask for; each end of a transaction bumps the epoch (V2)."""
        match planned.kind:
            case Kind.ADD_PARTITIONS:
                return AddPartitionsToTxnResponse(
                    results_by_topic_v3_and_below=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=0)
                                for index in topic.partitions
                            ],
                        )
                        for topic in planned.request.v3_and_below_topics
                    ]
                )
            case Kind.END:
                bumped = {"producer_id": 7, "producer_epoch": planned.request.producer_epoch + 1}
                return EndTxnResponse(error_code=0, **(bumped if self.manager.is_v2 else {}))
        self._given_epoch += 1
        return InitProducerIdResponse(error_code=0, producer_id=7, producer_epoch=self._given_epoch)

    def sent(self) -> list[Send]:
        return [decision for decision in self.last if isinstance(decision, Send)]

    def answer(self, node_id: int = 1, bend: str = "ok") -> None:
        """End the oldest request to a node: answered, refused before or after it was written, or hung up on."""
        send = self.network.requests[node_id].pop(0)
        if bend == "hang up before":
            self.outcomes.not_answered(send, ConnectionClosed("test"), self.now_ms)
            return
        words = []
        for batch in send.batches:
            if bend == "not leader":
                code, offset = 6, -1
            else:
                code, offset = self.logs[batch.queue.name.partition].append(self.bytes_of(batch))
                if bend == "not enough replicas after append" and code == 0:
                    code, offset = 20, -1
            words.append(
                PartitionProduceResponse(index=batch.queue.name.partition, error_code=code, base_offset=offset)
            )
        if bend == "hang up after":
            self.outcomes.not_answered(send, ConnectionClosed("test"), self.now_ms)
            return
        if all(word.error_code == 0 for word in words):  # as the loop does with an answer of nothing but good news
            self.outcomes.accepted(send, Accepted(0, [(word.base_offset, -1) for word in words]))
            return
        topic = TopicProduceResponse(name="t", partition_responses=words)
        self.outcomes.answered(send, ProduceResponse(responses=[topic]), self.now_ms, {})

    def bytes_of(self, batch: Any) -> bytes:
        stamp = batch.stamp
        if stamp is None:
            return bytes(batch.seal(-1, -1, -1, False))
        is_transactional = self.manager is not None and self.manager.is_transactional
        return bytes(batch.seal(stamp.producer_id, stamp.epoch, stamp.base_sequence, is_transactional))

    def has_requests(self) -> bool:
        return any(self.network.requests.values())
