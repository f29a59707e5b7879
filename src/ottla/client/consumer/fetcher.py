"""Which broker to ask for which partitions, and what its answer means. Plain: no socket, no clock, no thread.

1. Every broker has at most one fetch on its way, in a session (fetch_session.py), and a partition is in at most one.
   Asked is the leader, or the replica it recommended (KIP-392) for as long as metadata.max.age.ms says.
   A partition that was just placed (assigned, sought) does not wait behind a fetch that waits at its broker: it is
   asked for once, outside the session and by another way (`express`).
2. A partition is fetched ahead: on from the end of what is buffered, while less than max.partition.fetch.bytes of it
   wait, or twice as much when the loop has a thread of its own: one portion is received then while another is used.
   All together the buffer holds at most queued.max.bytes: a fetch is sent only when there is room for what it
   may bring. A batch that is larger than every limit is still fetched, alone, so that reading goes on.
   One fetch asks for a portion that the broker can give in a few milliseconds, not for all there is (fetch.max.bytes).
3. An answer counts only if the partition is still in the turn it was asked in (subscription.py): after a seek, a
   rebalance or a reset it is forgotten.
4. Errors, per partition: a leader that moved, a topic that was made again, an epoch that is behind or ahead ask for
   metadata and a little time; an offset out of range begins again where auto.offset.reset says, or stands in the line
   as an error, as do refused access and damaged data: poll() raises them when their turn comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ottla.client.consumer.buffer import FetchBuffer, Piece
from ottla.client.consumer.fetch_session import FINAL_EPOCH, FetchSession, RequestedPartition, SessionRequest
from ottla.client.consumer.isolation import READ_COMMITTED, CommittedOnly
from ottla.client.consumer.record_choice import FetchedRecords, end_offset_of
from ottla.client.consumer.subscription import PartitionState, Subscription
from ottla.client.metadata import Metadata
from ottla.errors import (
    BrokerError,
    CorruptMessage,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    OffsetOutOfRange,
    OttlaError,
    UnknownErrorCode,
    UnknownLeaderEpoch,
    UnknownServerError,
    broker_error,
)
from ottla.light_dataclasses import dataclass
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.values import ZERO_UUID, Node, TopicPartition

log = logging.getLogger(__name__)

SHORT_WAIT_MS: Final = 5
PORTION_BYTES_MIN: Final = 2_097_152
FAR_MS: Final = 30.0
NEAR_MS: Final = 10.0
SESSION_ERRORS: Final = (FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError)
BY_NAME_MAX: Final = 12
"""The last version of Fetch that asks for topics by name."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The settings that fetching is about."""

    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 52_428_800
    partition_max_bytes: int = 1_048_576
    portions_ahead: int = 1
    queued_max_bytes: int = 67_108_864
    isolation: int = 0
    rack: str = ""
    check_crcs: bool = True
    retry_ms: float = 100
    preferred_for_ms: float = 300_000


@dataclass(frozen=True, slots=True)
class FetchOrder:
    """One fetch to send: show it again with its answer."""

    node: Node
    request: FetchRequest
    at_most: int | None
    turns: Mapping[TopicPartition, int]
    asked: Mapping[TopicPartition, RequestedPartition]
    reserved_bytes: int
    sent_ms: float = 0.0
    express: bool = False  # beside the session, to be answered at once


class Fetcher:
    """Plans the fetches of one consumer."""

    def __init__(
        self, subscription: Subscription, buffer: FetchBuffer, metadata: Metadata, limits: FetchLimits
    ) -> None:
        self._subscription = subscription
        self._buffer = buffer
        self._metadata = metadata
        self._limits = limits
        self._sessions: dict[int, FetchSession] = {}
        self._under_way: dict[tuple[int, bool], FetchOrder] = {}  # by node, and whether it is an express one
        self._portions: dict[int, int] = {}  # how much a broker is asked for at a time, if it is more than the least
        self._quiet: dict[int, int] = {}  # how many answers without news a broker gave in a row
        self.needs_metadata = False  # somebody should wake the task that refreshes it

    @property
    def reserved_bytes(self) -> int:
        """What the fetches on their way may bring."""
        return sum(order.reserved_bytes for order in self._under_way.values())

    def plan(self, now_ms: float, reachable: Callable[[Node], bool]) -> list[FetchOrder]:
        """Fetches to send now."""
        busy = {name: turn for order in self._under_way.values() for name, turn in order.turns.items()}
        by_node: dict[tuple[Node, bool], list[PartitionState]] = {}
        full: set[int] = set()
        for state in self._subscription.fetchable():
            if busy.get(state.name) == state.turn or state.retry_at_ms > now_ms or state.is_fetched:
                continue
            if self._buffer.has_failure(state.name):
                continue
            node = self._source(state, now_ms)
            if node is None:
                self._ask_for_metadata()
            elif self._is_full(state):
                full.add(node.id)
            elif not reachable(node):
                state.retry_at_ms = now_ms + self._limits.retry_ms  # nobody tells us when it can be reached again
            else:
                express = (node.id, False) in self._under_way
                if not express or (state.express_turn != state.turn and (node.id, True) not in self._under_way):
                    by_node.setdefault((node, express), []).append(state)
        orders = [
            self._express(node, states, now_ms) if express else self._order(node, states, node.id in full, now_ms)
            for (node, express), states in by_node.items()
        ]
        return [order for order in orders if order is not None]

    def _express(self, node: Node, states: list[PartitionState], now_ms: float) -> FetchOrder | None:
        room = self._limits.queued_max_bytes - self._buffer.line_bytes - self.reserved_bytes
        if room <= 0:
            return None
        asked = {state.name: self._asked(state) for state in states}
        request = FetchSession(epoch=FINAL_EPOCH).build(asked)
        for state in states:
            state.express_turn = state.turn
        max_bytes = min(PORTION_BYTES_MIN, self._limits.max_bytes, room)
        order = FetchOrder(
            node=node,
            request=self._request(request, max(max_bytes, 1), 0),
            at_most=None if request.by_id else BY_NAME_MAX,
            turns={state.name: state.turn for state in states},
            asked=asked,
            reserved_bytes=max_bytes,
            sent_ms=now_ms,
            express=True,
        )
        self._under_way[node.id, True] = order
        return order

    def _is_full(self, state: PartitionState) -> bool:
        waiting = self._buffer.size_of(state.name)
        return waiting > 0 and waiting >= self._limits.portions_ahead * self._limits.partition_max_bytes

    def _wait_ms(self, node_id: int, others_are_full: bool) -> int:
        """How long the broker may wait for records: briefly, at first, while another partition of its may be drained
        any moment, because nothing else can be asked of it meanwhile."""
        if not others_are_full:
            return self._limits.max_wait_ms
        return min(self._limits.max_wait_ms, SHORT_WAIT_MS << min(self._quiet.get(node_id, 0), 10))

    def next_retry_ms(self, now_ms: float) -> float:
        """When a partition that was refused may be asked for again; inf when none waits."""
        waiting = (state.retry_at_ms for state in self._subscription.fetchable() if state.retry_at_ms > now_ms)
        return min(waiting, default=float("inf"))

    def _source(self, state: PartitionState, now_ms: float) -> Node | None:
        """The recommended replica while it may be used, else the leader."""
        if state.preferred_replica is not None:
            info = self._metadata.partition(state.name)
            node = self._metadata.node(state.preferred_replica)
            offline = info is not None and state.preferred_replica in info.offline
            if node is not None and not offline and now_ms < state.preferred_until_ms:
                return node
            state.preferred_replica = None
        return self._metadata.leader_of(state.name)

    def _order(
        self, node: Node, states: list[PartitionState], others_are_full: bool, now_ms: float
    ) -> FetchOrder | None:
        room = self._limits.queued_max_bytes - self._buffer.line_bytes - self.reserved_bytes
        portion = min(self._limits.max_bytes, self._portions.get(node.id, PORTION_BYTES_MIN))
        wanted_bytes = min(portion, len(states) * self._limits.partition_max_bytes)
        is_idle = self._buffer.line_bytes == 0 and not self._under_way
        if room < min(wanted_bytes, self._limits.queued_max_bytes // 4) and not is_idle:
            return None
        max_bytes = max(min(portion, room), 1)
        asked = {state.name: self._asked(state) for state in states}
        session = self._sessions.setdefault(node.id, FetchSession())
        order = FetchOrder(
            node=node,
            request=self._request(session.build(asked), max_bytes, self._wait_ms(node.id, others_are_full)),
            at_most=None if session.by_id else BY_NAME_MAX,
            turns={state.name: state.turn for state in states},
            asked=asked,
            reserved_bytes=min(wanted_bytes, max_bytes),
            sent_ms=now_ms,
        )
        self._under_way[node.id, False] = order
        return order

    def _asked(self, state: PartitionState) -> RequestedPartition:
        epoch = state.position.leader_epoch if state.position is not None else None
        return RequestedPartition(
            topic_id=self._metadata.topic_id(state.name.topic) or ZERO_UUID,
            fetch_offset=state.fetch_offset,
            max_bytes=self._limits.partition_max_bytes,
            leader_epoch=-1 if epoch is None else epoch,
        )

    def _request(self, session: SessionRequest, max_bytes: int, max_wait_ms: int) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self._limits.min_bytes,
            max_bytes=max_bytes,
            isolation_level=self._limits.isolation,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=session.topics,
            forgotten_topics_data=session.forgotten,
            rack_id=self._limits.rack,
        )

    def goodbyes(self) -> list[tuple[int, FetchRequest, int | None]]:
        """What to tell the brokers at the end: (node id, request, highest version)."""
        found: list[tuple[int, FetchRequest, int | None]] = []
        for node_id, session in self._sessions.items():
            if (last := session.close()) is not None:
                request = self._request(last, self._limits.max_bytes, 0)
                found.append((node_id, request, None if last.by_id else BY_NAME_MAX))
        return found

    # --- answers ---

    def failed(self, order: FetchOrder, error: OttlaError, now_ms: float) -> None:
        """No answer came."""
        self._under_way.pop((order.node.id, order.express), None)
        if not order.express:
            self._sessions[order.node.id].failed()
        self._wait_before_retry(order, now_ms)
        self._ask_for_metadata()

    def _answered_badly(self, order: FetchOrder, error: OttlaError, now_ms: float) -> None:
        """The answer is an error as a whole. A lost session is opened again at once; anything else may last."""
        log.info("broker %s ended our fetch session: %s", order.node.id, error)
        if not isinstance(error, SESSION_ERRORS):
            self._wait_before_retry(order, now_ms)

    def _wait_before_retry(self, order: FetchOrder, now_ms: float) -> None:
        for name in order.turns:
            if (state := self._current(order, name)) is not None:
                state.retry_at_ms = now_ms + self._limits.retry_ms
                state.preferred_replica = None

    def answered(self, order: FetchOrder, response: FetchResponse, now_ms: float) -> bool:
        """True when poll() has something new to look at."""
        self._under_way.pop((order.node.id, order.express), None)
        fits = not response.error_code if order.express else self._sessions[order.node.id].answered(response)
        if not fits:
            if response.error_code:
                self._answered_badly(order, broker_error(response.error_code), now_ms)
            return False
        before = len(self._buffer)
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        for name, data in _partitions(order, response):
            state = self._current(order, name)
            if state is not None and state.fetch_offset == order.asked[name].fetch_offset:
                self._take(order, state, data, nodes, now_ms)
        has_news = len(self._buffer) > before
        if order.express:
            return has_news
        self._learn_portion(order, response, now_ms)
        self._quiet[order.node.id] = 0 if has_news else self._quiet.get(order.node.id, 0) + 1
        return has_news

    def _learn_portion(self, order: FetchOrder, response: FetchResponse, now_ms: float) -> None:
        """Near brokers are asked for little at a time, so that records come early and memory is used again while it is
        warm; far ones for as much as their distance asks for."""
        portion = self._portions.get(order.node.id, PORTION_BYTES_MIN)
        size = sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
        if size < order.request.max_bytes * 3 // 4:
            return
        took_ms = now_ms - order.sent_ms
        if took_ms > FAR_MS:
            self._portions[order.node.id] = min(portion * 2, max(self._limits.max_bytes, PORTION_BYTES_MIN))
        elif took_ms < NEAR_MS:
            self._portions[order.node.id] = max(portion // 2, PORTION_BYTES_MIN)

    def _current(self, order: FetchOrder, name: TopicPartition) -> PartitionState | None:
        """The partition, if nothing happened to it since it was asked for."""
        state = self._subscription.get(name)
        return state if state is not None and state.turn == order.turns.get(name) else None

    def _take(
        self, order: FetchOrder, state: PartitionState, data: PartitionData, nodes: list[Node], now_ms: float
    ) -> None:
        if data.error_code:
            self._refused(order, state, data, nodes, now_ms)
            return
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset if data.last_stable_offset >= 0 else None
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until_ms = now_ms + self._limits.preferred_for_ms
        if data.records:
            self._keep(state, data, data.records)

    def _keep(self, state: PartitionState, data: PartitionData, content: memoryview) -> None:
        offset = state.fetch_offset
        end_offset = end_offset_of(content, offset)
        isolation = None
        if self._limits.isolation == READ_COMMITTED:
            aborted = data.aborted_transactions or ()
            isolation = CommittedOnly((each.producer_id, each.first_offset) for each in aborted)
        records = FetchedRecords(
            state.name.topic,
            state.name.partition,
            content,
            offset,
            isolation=isolation,
            check_crcs=self._limits.check_crcs,
        )
        if end_offset == offset and records.is_drained:
            return  # a batch that was cut off; it comes whole when its partition is asked for first
        self._buffer.add(Piece(state.name, state.turn, records, len(content)))
        state.fetch_offset = end_offset
        self._subscription.served(state.name)

    def _refused(
        self, order: FetchOrder, state: PartitionState, data: PartitionData, nodes: list[Node], now_ms: float
    ) -> None:
        error = broker_error(data.error_code, f"{state.name} at broker {order.node.id}")
        read_from_follower = state.preferred_replica is not None
        state.preferred_replica = None
        state.retry_at_ms = now_ms + self._limits.retry_ms
        leader = data.current_leader
        if leader.leader_id >= 0 and self._metadata.leader_changed(
            state.name, leader.leader_id, leader.leader_epoch, nodes
        ):
            state.retry_at_ms = now_ms
        if isinstance(error, OffsetOutOfRange):
            if read_from_follower:
                state.retry_at_ms = now_ms  # a follower may lag; the leader knows
            else:
                self._out_of_range(state)
        elif error.code == UnknownServerError.code and not isinstance(error, UnknownErrorCode):
            log.warning("fetching %s again: %s", state.name, error)
        elif isinstance(error, CorruptMessage) or not error.retriable:
            self._fail(state, error)
        elif not isinstance(error, UnknownLeaderEpoch):
            log.debug("fetching %s again after: %s", state.name, error)
            self._ask_for_metadata()

    def _ask_for_metadata(self) -> None:
        self._metadata.request_update()
        self.needs_metadata = True

    def _out_of_range(self, state: PartitionState) -> None:
        if self._subscription.default_reset.decides and not self._buffer.size_of(state.name):
            log.info("offset %s of %s is out of range; beginning anew", state.fetch_offset, state.name)
            self._subscription.request_reset(state.name)
        else:
            self._fail(state, OffsetOutOfRange(f"{state.name} at offset {state.fetch_offset}"))

    def _fail(self, state: PartitionState, error: BrokerError) -> None:
        self._buffer.add(Piece(state.name, state.turn, None, error=error, offset=state.fetch_offset))


def _partitions(order: FetchOrder, response: FetchResponse) -> Iterator[tuple[TopicPartition, PartitionData]]:
    names = {asked.topic_id: name.topic for name, asked in order.asked.items() if asked.topic_id != ZERO_UUID}
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for data in topic.partitions:
            where = TopicPartition(name, data.partition_index)
            if where in order.asked:
                yield where, data
