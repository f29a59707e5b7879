"""A live view of a producer: what waits where, how much memory is used, what is in flight.

A picture of one moment, taken from another thread: numbers of different lines may be a moment apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.light_dataclasses import dataclass
from ottla.values import Node, TopicPartition

if TYPE_CHECKING:
    from ottla.client.producer.core import ProducerCore


@dataclass(frozen=True, slots=True)
class QueueView:
    """One partition with something waiting or in flight."""

    partition: TopicPartition
    batch_count: int
    record_count: int
    waiting_bytes: int
    oldest_ms: float
    in_flight_count: int
    leader: Node | None
    is_muted: bool
    retry_count: int

    def __str__(self) -> str:
        leader = "no leader" if self.leader is None else f"leader {self.leader.id}"
        muted = ", muted" if self.is_muted else ""
        tries = f", try {self.retry_count + 1}" if self.retry_count else ""
        waiting = f"{self.batch_count} batches, {self.record_count} records, {self.waiting_bytes} bytes"
        flight = f"{self.in_flight_count} in flight ({leader}{muted}{tries})"
        return f"{self.partition}: {waiting}, oldest {self.oldest_ms:.0f} ms; {flight}"


@dataclass(frozen=True, slots=True)
class Inspection:
    """A producer at one moment."""

    client_id: str
    queues: tuple[QueueView, ...]
    memory_bytes: int
    available_bytes: int
    pooled_bytes: int
    waiting_callers: int
    in_flight_batches: int
    in_flight_requests: dict[int, int]
    incomplete_batches: int
    flushing: int
    identity: str
    transaction_state: str

    def __str__(self) -> str:
        used = self.memory_bytes - self.available_bytes
        lines = [
            f"producer {self.client_id}: {self.identity}, {self.transaction_state}",
            f"memory: {used} of {self.memory_bytes} bytes used, {self.pooled_bytes} pooled,"
            f" {self.waiting_callers} callers waiting",
            f"in flight: {self.in_flight_batches} batches"
            + "".join(f", {count} requests to {node}" for node, count in self.in_flight_requests.items()),
        ]
        if self.flushing:
            lines.append(f"flushing: {self.flushing} calls wait for {self.incomplete_batches} batches")
        return "\n".join([*lines, *(f"  {queue}" for queue in self.queues)])

    __repr__ = __str__


def inspected(core: ProducerCore) -> Inspection:
    """The picture of now."""
    accumulator, manager = core.accumulator, core.transactions
    in_flight = list(core.sender.in_flight)
    now_ms = core.clock.monotonic_ms()
    with accumulator.lock:
        names = {*(queue.name for queue in accumulator.busy), *(batch.queue.name for batch in in_flight)}
        pool = accumulator.pool
        views = []
        for name in sorted(names):
            queue = accumulator.queues[name]
            batches = list(queue.batches)
            views.append(
                QueueView(
                    partition=name,
                    batch_count=len(batches),
                    record_count=sum(batch.record_count for batch in batches),
                    waiting_bytes=sum(batch.size_bytes for batch in batches),
                    oldest_ms=max((now_ms - batch.created_ms for batch in batches), default=0.0),
                    in_flight_count=sum(batch.queue is queue for batch in in_flight),
                    leader=queue.leader,
                    is_muted=queue.is_muted,
                    retry_count=max((batch.attempts for batch in batches), default=0),
                )
            )
        return Inspection(
            client_id=core.settings.client_id,
            queues=tuple(views),
            memory_bytes=pool.total_bytes,
            available_bytes=pool.available_bytes,
            pooled_bytes=pool.pooled_bytes,
            waiting_callers=pool.waiting_count,
            in_flight_batches=len(in_flight),
            in_flight_requests={node.id: core.network.in_flight(node) for node in core.network.metadata.nodes()},
            incomplete_batches=len(accumulator.incomplete),
            flushing=accumulator.flushing_count,
            identity="not idempotent" if manager is None else f"identity {manager.identity}",
            transaction_state="no transactions"
            if manager is None or not manager.is_transactional
            else f"transaction {manager.transactional_id}: {manager.state.value}",
        )
