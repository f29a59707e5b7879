"""Which request goes to which broker, and what its answer means. Plain: no socket, no clock, no thread.

1. Every broker has at most one request on its way, because the requests of a share session count.
2. Records are fetched when somebody waits for some and none are buffered, never ahead: what is fetched is locked, and
   another consumer may be idle. Acknowledgements of what was delivered before go with that fetch.
3. They go by themselves (ShareAcknowledge) when somebody asks for it, when nobody fetches and their lock is half over,
   when one of them is a RENEW (a fetch with one brings no records), or when their partition is not ours any more.
4. With a limit of records (the workers') one broker at a time is asked, in turns: exactly so many records come.
5. Whatever is wrong with a whole answer, or when none comes, ends the session: its records are not ours any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from ottla.client.consumer.record_choice import FetchedRecords, end_offset_of
from ottla.client.metadata import Metadata
from ottla.client.share.batches import acknowledged_topics, fetch_topics, forgotten_topics
from ottla.client.share.in_flight import AcknowledgeType, Held, InFlight, NotHeld, Outcome
from ottla.client.share.session import ShareSession
from ottla.errors import (
    BrokerError,
    OttlaError,
    ShareSessionNotFound,
    UnknownServerError,
    UnknownTopicOrPartition,
    broker_error,
)
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse
from ottla.values import ZERO_UUID, Node, TopicPartition

log = logging.getLogger(__name__)

BATCH_OPTIMIZED: Final = 0
RECORD_LIMIT: Final = 1
ACQUIRE_MODES: Final = {"batch_optimized": BATCH_OPTIMIZED, "record_limit": RECORD_LIMIT}
NEVER_MS: Final = float("inf")
RENEWING_VERSION: Final = 2
"""The first version of both requests that knows RENEW and limits of records (Kafka 4.2)."""


class ShareLimits(NamedTuple):
    """The settings that requests are about."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    check_crcs: bool = True
    retry_ms: float = 100


class Demand(NamedTuple):
    """What is wanted now: records (0 none), exactly so many or whole batches; acknowledgements sent at once."""

    records: int = 0
    acquire_mode: int = BATCH_OPTIMIZED
    send_acks: bool = False


class SharePiece(NamedTuple):
    """Records of one partition from one answer; `end_offset` is behind the last whole batch."""

    name: TopicPartition
    records: FetchedRecords
    acquired: dict[int, Held]
    end_offset: int


@dataclass(frozen=True, slots=True)
class ShareOrder:
    """One request to send: show it again with its answer."""

    node: Node
    request: ShareFetchRequest | ShareAcknowledgeRequest
    acks: dict[TopicPartition, list[Held]]
    sent_ms: float
    version: int | None = None
    is_last: bool = False


@dataclass(slots=True)
class ShareAnswer:
    """What came of a request."""

    outcomes: list[Outcome] = field(default_factory=list)
    pieces: list[SharePiece] = field(default_factory=list)
    errors: list[OttlaError] = field(default_factory=list)


class ShareRequests:
    """Plans the requests of one share consumer."""

    def __init__(
        self, in_flight: InFlight, metadata: Metadata, limits: ShareLimits, *, group_id: str, member_id: str
    ) -> None:
        self._in_flight = in_flight
        self._metadata = metadata
        self._limits = limits
        self._group_id, self._member_id = group_id, member_id
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.lock_ms: int | None = None
        self.needs_metadata = False  # somebody should wake the task that refreshes it
        self._sessions: dict[int, ShareSession] = {}
        self._nodes: dict[int, Node] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._under_way: dict[int, ShareOrder] = {}
        self._retry_at_ms: dict[TopicPartition | int, float] = {}
        self._last_asked = -1

    @property
    def is_busy(self) -> bool:
        return bool(self._under_way)

    # --- planning ---

    def plan(self, now_ms: float, reachable: Callable[[Node], bool], demand: Demand) -> list[ShareOrder]:
        """Requests to send now."""
        sources = self._sources(now_ms, reachable) if demand.records else {}
        orders = [
            self._acknowledge(node_id, now_ms)
            for node_id in self._in_flight.nodes_with_acks()
            if node_id not in self._under_way and self._acks_go_alone(node_id, sources.get(node_id), now_ms, demand)
        ]
        for node_id in self._to_ask(sources, demand):
            orders.append(self._fetch(node_id, sources[node_id], now_ms, demand))
        return orders

    def _acks_go_alone(
        self, node_id: int, fetched: Sequence[TopicPartition] | None, now_ms: float, demand: Demand
    ) -> bool:
        acks = list(self._in_flight.acks(node_id, now_ms))
        if not acks:
            return False
        if demand.send_acks or any(held.ack == AcknowledgeType.RENEW for held in acks):
            return True
        if fetched is None:
            return any(held.renew_at_ms <= now_ms for held in acks)
        return any(held.name not in fetched for held in acks)

    def _sources(self, now_ms: float, reachable: Callable[[Node], bool]) -> dict[int, list[TopicPartition]]:
        """Which broker can be asked for which partitions."""
        found: dict[int, list[TopicPartition]] = {}
        for name in sorted(self.assigned):
            if self._retry_at_ms.get(name, 0.0) > now_ms:
                continue
            node = self._metadata.leader_of(name)
            topic_id = self._metadata.topic_id(name.topic)
            if node is None or topic_id in (None, ZERO_UUID):
                self._wait(name, now_ms)
                self._ask_for_metadata()
            elif self._retry_at_ms.get(node.id, 0.0) <= now_ms:
                if reachable(node):
                    self._nodes[node.id] = node
                    found.setdefault(node.id, []).append(name)
                else:
                    self._wait(node.id, now_ms)
        return found

    def _to_ask(self, sources: dict[int, list[TopicPartition]], demand: Demand) -> list[int]:
        free = [node_id for node_id in sources if node_id not in self._under_way]
        if demand.acquire_mode != RECORD_LIMIT:
            return free
        if any(isinstance(order.request, ShareFetchRequest) for order in self._under_way.values()) or not free:
            return []
        self._last_asked = min((each for each in free if each > self._last_asked), default=min(free))
        return [self._last_asked]

    def next_due_ms(self, now_ms: float) -> float:
        """When to plan again by ourselves: for what was refused, or for acknowledgements that must go."""
        self._retry_at_ms = {key: at_ms for key, at_ms in self._retry_at_ms.items() if at_ms > now_ms}
        free = [each for each in self._in_flight.nodes_with_acks() if each not in self._under_way]
        acks = [self._in_flight.next_ack_ms(each, now_ms) for each in free]
        return min((*acks, *self._retry_at_ms.values()), default=NEVER_MS)

    def _wait(self, key: TopicPartition | int, now_ms: float) -> None:
        self._retry_at_ms[key] = now_ms + self._limits.retry_ms

    # --- building ---

    def _fetch(self, node_id: int, names: Iterable[TopicPartition], now_ms: float, demand: Demand) -> ShareOrder:
        session = self._sessions.setdefault(node_id, ShareSession())
        wanted = {name: self._metadata.topic_id(name.topic) or ZERO_UUID for name in names}
        self._topic_ids.update({name.topic: topic_id for name, topic_id in wanted.items()})
        acks = self._take(node_id, now_ms) if session.is_open else {}
        step = session.fetch(wanted)
        request = ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=step.epoch,
            max_wait_ms=self._wait_ms(),
            min_bytes=self._limits.min_bytes,
            max_bytes=self._limits.max_bytes,
            max_records=demand.records,
            batch_size=demand.records,
            share_acquire_mode=demand.acquire_mode,
            topics=fetch_topics(step.added, acks, self._topic_ids),
            forgotten_topics_data=forgotten_topics(step.forgotten),
        )
        version = RENEWING_VERSION if demand.acquire_mode == RECORD_LIMIT else None
        return self._sent(ShareOrder(self._nodes[node_id], request, acks, now_ms, version))

    def _wait_ms(self) -> int:
        """While a broker waits for records nothing else can be asked of it, and locks must be renewed in time."""
        return self._limits.max_wait_ms if self.lock_ms is None else min(self._limits.max_wait_ms, self.lock_ms // 4)

    def _acknowledge(self, node_id: int, now_ms: float, *, is_last: bool = False) -> ShareOrder:
        session = self._sessions[node_id]
        acks = self._take(node_id, now_ms)
        renews = any(held.ack == AcknowledgeType.RENEW for sent in acks.values() for held in sent)
        step = session.close() if is_last else session.acknowledge()
        request = ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=step.epoch,
            is_renew_ack=renews,
            topics=acknowledged_topics(acks, self._topic_ids),
        )
        version = RENEWING_VERSION if renews else None
        return self._sent(ShareOrder(self._nodes[node_id], request, acks, now_ms, version, is_last))

    def _take(self, node_id: int, now_ms: float) -> dict[TopicPartition, list[Held]]:
        acks: dict[TopicPartition, list[Held]] = {}
        for held in self._in_flight.take(node_id, now_ms):
            acks.setdefault(held.name, []).append(held)
        return acks

    def _sent(self, order: ShareOrder) -> ShareOrder:
        self._under_way[order.node.id] = order
        return order

    def goodbyes(self, now_ms: float) -> list[ShareOrder]:
        """The last request to every broker that is free; what is not acknowledged is released by them."""
        return [
            self._acknowledge(node_id, now_ms, is_last=True)
            for node_id, session in self._sessions.items()
            if session.is_open and node_id not in self._under_way
        ]

    # --- answers ---

    def failed(self, order: ShareOrder, error: OttlaError, now_ms: float) -> ShareAnswer:
        """No answer came."""
        del self._under_way[order.node.id]
        self._wait(order.node.id, now_ms)
        self._ask_for_metadata()
        return ShareAnswer(self._lose(order, error))

    def answered(self, order: ShareOrder, response: Any, now_ms: float) -> ShareAnswer:
        del self._under_way[order.node.id]
        if response.error_code:
            return self._refused_whole(order, broker_error(response.error_code, response.error_message), now_ms)
        session = self._sessions[order.node.id]
        session.lost() if order.is_last else session.answered()
        if response.acquisition_lock_timeout_ms > 0:
            self.lock_ms = response.acquisition_lock_timeout_ms
        answer = ShareAnswer(self._in_flight.expire(now_ms))
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        unanswered = dict(order.acks)
        for name, data in self._partitions(response):
            sent = unanswered.pop(name, [])
            if isinstance(response, ShareFetchResponse):
                self._end_acks(answer, sent, data.acknowledge_error_code, data.acknowledge_error_message, now_ms)
                self._take_records(order, name, data, answer, nodes, now_ms)
            else:
                self._end_acks(answer, sent, data.error_code, data.error_message, now_ms)
                self._learn_leader(name, data, nodes)
        for sent in unanswered.values():
            self._end_acks(answer, sent, UnknownTopicOrPartition.code, "the answer does not name it", now_ms)
        if order.is_last:
            answer.outcomes += self._in_flight.lose(order.node.id, NotHeld("the share session is closed"))
        return answer

    def _refused_whole(self, order: ShareOrder, error: BrokerError, now_ms: float) -> ShareAnswer:
        log.info("broker %s ended our share session: %s", order.node.id, error)
        if not isinstance(error, ShareSessionNotFound):
            self._wait(order.node.id, now_ms)
        answer = ShareAnswer(self._lose(order, error))
        if not error.retriable and error.code != UnknownServerError.code:
            answer.errors.append(error)
        return answer

    def _lose(self, order: ShareOrder, error: OttlaError) -> list[Outcome]:
        self._sessions[order.node.id].lost()
        return self._in_flight.lose(order.node.id, error)

    def _end_acks(
        self, answer: ShareAnswer, sent: Sequence[Held], code: int, message: str | None, now_ms: float
    ) -> None:
        error = broker_error(code, message) if code else None
        answer.outcomes += self._in_flight.answered(
            sent, error, now_ms, retry_ms=self._limits.retry_ms, lock_ms=float(self.lock_ms or 0)
        )

    def _partitions(self, response: Any) -> Iterator[tuple[TopicPartition, Any]]:
        topics = {topic_id: name for name, topic_id in self._topic_ids.items()}
        for topic in response.responses:
            if (name := topics.get(topic.topic_id)) is not None:
                for data in topic.partitions:
                    yield TopicPartition(name, data.partition_index), data

    def _take_records(
        self,
        order: ShareOrder,
        name: TopicPartition,
        data: PartitionData,
        answer: ShareAnswer,
        nodes: list[Node],
        now_ms: float,
    ) -> None:
        if data.error_code:
            self._refused(order, name, data, answer, nodes, now_ms)
            return
        if not data.acquired_records:
            return
        ranges = [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records]
        acquired = self._in_flight.acquire(name, order.node.id, ranges, order.sent_ms, float(self.lock_ms or 0))
        first = ranges[0][0]
        content = data.records or b""
        records = FetchedRecords(name.topic, name.partition, content, first, check_crcs=self._limits.check_crcs)
        answer.pieces.append(SharePiece(name, records, acquired, end_offset_of(content, first)))

    def _refused(
        self,
        order: ShareOrder,
        name: TopicPartition,
        data: PartitionData,
        answer: ShareAnswer,
        nodes: list[Node],
        now_ms: float,
    ) -> None:
        error = broker_error(data.error_code, f"{name} at broker {order.node.id}")
        self._wait(name, now_ms)
        if self._learn_leader(name, data, nodes):
            self._retry_at_ms.pop(name, None)
        elif error.refresh_metadata or error.retriable:
            log.debug("fetching %s again after: %s", name, error)
            self._ask_for_metadata()
        elif error.code == UnknownServerError.code:
            log.warning("fetching %s again: %s", name, error)
        else:
            answer.errors.append(error)

    def _learn_leader(self, name: TopicPartition, data: Any, nodes: list[Node]) -> bool:
        leader = data.current_leader
        return leader.leader_id >= 0 and self._metadata.leader_changed(
            name, leader.leader_id, leader.leader_epoch, nodes
        )

    def _ask_for_metadata(self) -> None:
        self._metadata.request_update()
        self.needs_metadata = True
