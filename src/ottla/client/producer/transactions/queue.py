"""Requests of a transaction that wait for their turn, and the one that is on its way.

1. Order: Kind.priority, then the order in which they were asked for. A request that is tried again keeps its place.
2. One is on its way at a time. While the first one backs off, nobody overtakes it.
"""

from __future__ import annotations

import heapq
from typing import Final

from ottla.client.group_metadata import GroupMetadata
from ottla.client.producer.transactions import requests
from ottla.client.producer.transactions.states import (
    Destination,
    Kind,
    PlannedRequest,
    ProducerIdentity,
    TransactionalResult,
)
from ottla.errors import IllegalMove, OttlaError
from ottla.protocol.schema import Message
from ottla.values import OffsetAndMetadata, TopicPartition

NEVER_MS: Final = float("inf")


class PendingRequest:
    """A request before it has its final form: identity and version are filled in when it is sent."""

    __slots__ = ("commit", "group", "kind", "not_before_ms", "offsets", "order", "outcome", "partitions")

    def __init__(self, kind: Kind, outcome: TransactionalResult, order: int) -> None:
        self.kind, self.outcome, self.order = kind, outcome, order
        self.not_before_ms = 0.0
        self.partitions: set[TopicPartition] = set()
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.group = GroupMetadata("")
        self.commit = False

    def __lt__(self, other: PendingRequest) -> bool:
        return (self.kind.priority, self.order) < (other.kind.priority, other.order)

    def planned(
        self, transactional_id: str | None, identity: ProducerIdentity | None, *, timeout_ms: int, is_v2: bool
    ) -> PlannedRequest:
        """The request as it is sent now."""
        to: Destination = "any" if transactional_id is None else "transaction"
        if self.kind in (Kind.INIT_PRODUCER_ID, Kind.BUMP_EPOCH):
            current = identity if self.kind is Kind.BUMP_EPOCH else None
            init = requests.init_producer_id(transactional_id, timeout_ms, current)
            return PlannedRequest(self.kind, init, to, transactional_id, requests.INIT_VERSION_LIMIT, self.order)
        if transactional_id is None or identity is None:
            raise IllegalMove(f"{self.kind.name} without a transactional id or an identity")
        if self.kind is Kind.COMMIT_OFFSETS:
            commit = requests.commit_offsets(transactional_id, identity, self.offsets, self.group)
            limit = None if is_v2 else requests.V1_OFFSETS_VERSION_LIMIT
            return PlannedRequest(self.kind, commit, "group", self.group.group_id, limit, self.order)
        request, limit = self._for_transaction_coordinator(transactional_id, identity, is_v2=is_v2)
        return PlannedRequest(self.kind, request, to, transactional_id, limit, self.order)

    def _for_transaction_coordinator(
        self, key: str, identity: ProducerIdentity, *, is_v2: bool
    ) -> tuple[Message, int | None]:
        if self.kind is Kind.ADD_PARTITIONS:
            adding = requests.add_partitions(key, identity, self.partitions)
            return adding, requests.ADD_PARTITIONS_VERSION_LIMIT
        if self.kind is Kind.ADD_OFFSETS:
            return requests.add_offsets(key, identity, self.group.group_id), None
        end = requests.end_txn(key, identity, commit=self.commit)
        return end, None if is_v2 else requests.V1_END_VERSION_LIMIT


class RequestQueue:
    """Who waits, and who is on its way."""

    def __init__(self) -> None:
        self.in_flight: PendingRequest | None = None
        self._waiting: list[PendingRequest] = []
        self._order = 0

    def __bool__(self) -> bool:
        return self.in_flight is not None or bool(self._waiting)

    def add(self, kind: Kind, outcome: TransactionalResult) -> PendingRequest:
        self._order += 1
        pending = PendingRequest(kind, outcome, self._order)
        heapq.heappush(self._waiting, pending)
        return pending

    def again(self, pending: PendingRequest, not_before_ms: float) -> None:
        pending.not_before_ms = not_before_ms
        heapq.heappush(self._waiting, pending)

    def first(self, now_ms: float) -> PendingRequest | None:
        """Who may go now; it stays in the queue until `take`."""
        if self.in_flight is not None or not self._waiting or self._waiting[0].not_before_ms > now_ms:
            return None
        return self._waiting[0]

    def take(self) -> PendingRequest:
        return heapq.heappop(self._waiting)

    def came_back(self, planned: PlannedRequest) -> PendingRequest | None:
        """The request whose answer came; None after the queue was closed."""
        pending = self.in_flight
        if pending is not None and pending.order != planned.ticket:
            raise IllegalMove(f"an answer to {planned.kind.name}, which is not the request on its way")
        self.in_flight = None
        return pending

    def due_ms(self, now_ms: float) -> float:
        if self.in_flight is not None or not self._waiting:
            return NEVER_MS
        return max(now_ms, self._waiting[0].not_before_ms)

    def fail_waiting(self, error: OttlaError) -> None:
        waiting, self._waiting = self._waiting, []
        for pending in sorted(waiting):
            pending.outcome.fail(error)

    def close(self, error: OttlaError) -> None:
        self.fail_waiting(error)
        pending, self.in_flight = self.in_flight, None
        if pending is not None:
            pending.outcome.fail(error)
