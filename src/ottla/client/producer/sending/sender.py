"""What to send now: the plan of one turn, made from queues, metadata, connections and the clock's number.

One turn, in this order:
1. The producer's identity first: what its transaction manager wants failed, and the one request it wants sent.
2. Batches whose delivery time is over fail, waiting or in flight.
3. Every queue is looked at: its first batch is ready, lingers, backs off, or has no leader (then metadata is asked).
4. Ready batches are drained per node, one batch of each partition into a request, beginning with another partition
   each time, up to max.request.size; as many requests as the node has room for.
5. What must happen later gives the time of the next turn; everything else wakes the sender by itself.

Promises: a partition's batches leave in order, the first one of an identity alone until the broker has taken it; with
one request in flight the partition is muted until it is answered; a batch in a request is in `in_flight` until the
request ended, and nobody uses its memory before. The plan changes queues and stamps, which belong to the loop, and
touches neither socket nor clock.
"""

from __future__ import annotations

import math
from typing import Final, Protocol, TypeAlias

from ottla.client.metadata import Metadata
from ottla.client.producer.batches.accumulator import RecordAccumulator
from ottla.client.producer.batches.append_choice import Drainer, PartitionQueue, ProducerBatch
from ottla.client.producer.transactions.manager import TransactionManager
from ottla.client.producer.transactions.states import PlannedRequest
from ottla.client.producer.values import DeliveryTimedOut
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.net.retries import Backoff
from ottla.values import Node

NO_LEADER_WAIT_MS: Final = 100.0
OTHERS_WAIT_MS: Final = 5.0  # for the answer to a request that is not ours: nobody tells us when it comes


class Network(Protocol):
    """The part of NetworkClient that a plan looks at."""

    metadata: Metadata

    def can_send_now(self, node: Node) -> bool: ...
    def in_flight(self, node: Node) -> int: ...
    def is_unreachable(self, node: Node) -> bool: ...
    def throttled_for_ms(self, node: Node) -> float: ...


@dataclass(frozen=True, slots=True)
class Send:
    """One produce request: these batches, each of another partition, to this node."""

    node: Node
    batches: tuple[ProducerBatch, ...]


@dataclass(frozen=True, slots=True)
class Connect:
    """There is something to send to this node, and no connection."""

    node: Node


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of the transaction manager."""

    planned: PlannedRequest


@dataclass(frozen=True, slots=True)
class Fail:
    """This batch is given up; `is_unknown` when a broker may have it all the same."""

    batch: ProducerBatch
    error: OttlaError
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """A leader is not known."""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Plan again at this time at the latest."""

    ms: float


Decision: TypeAlias = Send | Connect | Ask | Fail | RefreshMetadata | WakeAt


class Sender:
    """Plans turns; the loop in sender_loop.py carries them out."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        network: Network,
        transactions: TransactionManager | None,
        *,
        backoff: Backoff,
        linger_ms: float,
        delivery_limit_ms: float,
        request_limit_bytes: int,
        in_flight_limit: int,
        availability_limit_ms: float = 0,
    ) -> None:
        self.accumulator = accumulator
        self.network = network
        self.transactions = transactions
        self.in_flight: dict[ProducerBatch, None] = {}
        self.is_saturated = False
        self.drainer = Drainer(
            accumulator.busy,
            self.in_flight,
            transactions,
            linger_ms=linger_ms,
            request_limit_bytes=request_limit_bytes,
            mutes=in_flight_limit == 1,
        )
        self._backoff = backoff
        self._delivery_limit_ms = delivery_limit_ms
        self._in_flight_limit = in_flight_limit
        self._availability_limit_ms = availability_limit_ms
        self._starts: dict[int, int] = {}  # by node: where draining begins, so that nobody is always last
        self._avoided_nodes: frozenset[int] = frozenset()
        self._stuck_since_ms: dict[int, float] = {}  # by node: since when it takes nothing although there is something

    def plan(self, now_ms: float) -> list[Decision]:
        """Everything to do now, and when to look again."""
        out: list[Decision] = []
        wake_ms = self._plan_identity(out, now_ms)
        wake_ms = min(wake_ms, self._expire(out, now_ms))
        ready, check_ms = self._ready(out, now_ms)
        wake_ms = min(wake_ms, check_ms)
        self.is_saturated = bool(ready)
        for node, queues in ready.items():
            wake_ms = min(wake_ms, self._plan_node(out, node, queues, now_ms))
        if self._availability_limit_ms > 0 and ready:
            self._avoid_stuck(now_ms)
        if wake_ms < math.inf:
            out.append(WakeAt(wake_ms))
        return out

    # --- 1. identity ---

    def _plan_identity(self, out: list[Decision], now_ms: float) -> float:
        manager = self.transactions
        if manager is None:
            return math.inf
        if (abort := manager.resolve_errors(now_ms)) is not None:
            only_unsent = abort.only_unsent
            batches = self.accumulator.take_all(lambda batch: not only_unsent or batch.stamp is None)
            out.extend(Fail(batch, abort.error) for batch in batches)
        # Only the end of a transaction waits for batches, so they are counted only then; also those that are failed in
        # this turn, because they belong to the transaction and not to what comes after it.
        has_incomplete = not manager.is_completing or self.accumulator.incomplete_count > 0
        planned = manager.next_request(has_incomplete_batches=has_incomplete, now_ms=now_ms)
        if planned is not None:
            out.append(Ask(planned))
        return manager.due_ms(now_ms)

    # --- 2. expiry ---

    def _expire(self, out: list[Decision], now_ms: float) -> float:
        """Fail what is too old; the time of the next one."""
        limit_ms = now_ms - self._delivery_limit_ms
        oldest_ms = self.drainer.oldest_ms()
        if oldest_ms > limit_ms:
            return oldest_ms + self._delivery_limit_ms
        oldest_ms = math.inf
        for batch in self.in_flight:
            if batch.created_ms <= limit_ms and not batch.delivery.is_done:
                out.append(Fail(batch, self._too_late(batch), is_unknown=True))
            elif not batch.delivery.is_done:
                oldest_ms = min(oldest_ms, batch.created_ms)
        for queue in list(self.accumulator.busy):
            while queue.batches and queue.batches[0].created_ms <= limit_ms and queue.batches[0].record_count:
                with self.accumulator.lock:
                    batch = self.accumulator.take_first(queue)
                out.append(Fail(batch, self._too_late(batch), is_unknown=batch.attempts > 0))
            if queue.batches and queue.batches[0].record_count:
                oldest_ms = min(oldest_ms, queue.batches[0].created_ms)
        return oldest_ms + self._delivery_limit_ms

    def _too_late(self, batch: ProducerBatch) -> DeliveryTimedOut:
        where = f"{batch.delivery.record_count} records for {batch.queue.name}"
        how = "without a leader to send them to" if batch.queue.leader is None else f"after {batch.attempts} retries"
        reason = "" if batch.queue.last_error is None else f"; the last try ended with {batch.queue.last_error}"
        return DeliveryTimedOut(f"{where} waited for {self._delivery_limit_ms:.0f} ms, {how}{reason}")

    # --- 3. who is ready ---

    def _ready(self, out: list[Decision], now_ms: float) -> tuple[dict[Node, list[PartitionQueue]], float]:
        """The queues with something to send now, by their leaders, and when to look at the others."""
        version = self.network.metadata.version
        found = self.drainer.ready(version, now_ms, self._is_hurried, self._find_leader)
        ready, wake_ms, empty, leaderless_count = found
        for queue in empty:
            # Somebody opened its batch and did not write into it, yet or at all. It is not sent, and not kept for ever.
            self.accumulator.drop_empty(queue)
        if leaderless_count:
            out.append(RefreshMetadata())
            wake_ms = min(wake_ms, now_ms + NO_LEADER_WAIT_MS)
        return ready, wake_ms

    @property
    def _is_hurried(self) -> bool:
        return self.accumulator.is_hurried or (self.transactions is not None and self.transactions.is_completing)

    def _find_leader(self, queue: PartitionQueue) -> Node | None:
        """Ask the metadata, which have changed."""
        metadata = self.network.metadata
        info = metadata.partition(queue.name)
        queue.leader = None if info is None else info.leader
        epoch = None if info is None else info.leader_epoch
        queue.leader_epoch = -1 if epoch is None else epoch
        queue.leader_version = metadata.version
        return queue.leader

    # --- 4. drain ---

    def _plan_node(self, out: list[Decision], node: Node, queues: list[PartitionQueue], now_ms: float) -> float:
        """Requests for one node as far as it has room; when to look again if only time can help."""
        if not self.network.can_send_now(node):
            self._stuck_since_ms.setdefault(node.id, now_ms)
            return self._why_not_now(out, node, now_ms)
        self._stuck_since_ms.pop(node.id, None)
        room = self._in_flight_limit - self.network.in_flight(node)
        is_hurried = self._is_hurried
        start = self._starts.get(node.id, 0)
        with self.accumulator.lock:  # once for all requests: callers write beside us
            while room > 0:
                batches, start = self.drainer.drain(queues, start % len(queues), now_ms, is_hurried)
                if not batches:
                    break
                out.append(Send(node, tuple(batches)))
                room -= 1
        self._starts[node.id] = start
        self.is_saturated = self.is_saturated and room <= 0
        return self.drainer.next_ready_ms(queues, now_ms, self._is_hurried)

    def _why_not_now(self, out: list[Decision], node: Node, now_ms: float) -> float:
        if self.network.in_flight(node) > 0:
            if any(batch.queue.leader == node for batch in self.in_flight):
                return math.inf  # an answer to us will come, or the connection ends
            return now_ms + OTHERS_WAIT_MS
        self.is_saturated = False
        if (wait_ms := self.network.throttled_for_ms(node)) > 0:
            return now_ms + wait_ms
        out.append(Connect(node))
        return math.inf

    # --- 5. who takes nothing ---

    def _avoid_stuck(self, now_ms: float) -> None:
        """Let records without a key go past leaders that took nothing for partitioner.availability.timeout.ms."""
        limit_ms = self._availability_limit_ms
        stuck = frozenset(node for node, since_ms in self._stuck_since_ms.items() if now_ms - since_ms >= limit_ms)
        if stuck != self._avoided_nodes or stuck:
            self._avoided_nodes = stuck
            infos = [self.network.metadata.partitions_of(topic) or () for topic in list(self.accumulator.available)]
            self.accumulator.avoided = frozenset(
                info.name for each in infos for info in each if info.leader is not None and info.leader.id in stuck
            )

    # --- after an answer ---

    def backoff_ms(self, attempts: int) -> float:
        """How long a batch waits before its next try."""
        return self._backoff.delay_ms(max(0, attempts - 1))
