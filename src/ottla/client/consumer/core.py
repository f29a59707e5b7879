"""The middle of a consumer: what both faces share. It runs on a loop, and lets a caller's thread take records.

Shared between the caller and the loop, under one lock: the subscription with its positions, and the buffer. The loop
fetches ahead into the buffer; poll() takes records out of it in the caller's own thread and wakes the loop when a
piece is used up. What only the caller may do waits in `attention` until its next poll: errors to raise, partitions
given and taken by the group, callbacks of commits.

1. The caller's thread reads records by `reader` (buffer_reader.py), which never waits and only wakes the loop.
2. `news` is called on the loop whenever a waiting poll should look again.
3. Everything that waits is a coroutine for the loop.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.background import Background
from ottla.client.cluster_view import ClusterView, PartitionInfo
from ottla.client.connections import coordinator_node
from ottla.client.consumer.buffer import FetchBuffer
from ottla.client.consumer.buffer_reader import BufferReader
from ottla.client.consumer.fetcher import Fetcher, FetchLimits, FetchOrder
from ottla.client.consumer.heap import keep_heap
from ottla.client.consumer.isolation import LEVELS
from ottla.client.consumer.metrics import ConsumerMetrics
from ottla.client.consumer.offset_reset import ResetPolicy
from ottla.client.consumer.positions import Positions, aside
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.consumer.subscription import Mode, NoOffsetForPartition, Subscription
from ottla.client.network import NetworkClient
from ottla.clock import Clock, SystemClock
from ottla.errors import OttlaError, RequestTimedOut
from ottla.net.link import Transport
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.values import Node, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer.group import Group

T = TypeVar("T")

log = logging.getLogger(__name__)


class ConsumerCore(Background):
    """One consumer, without a face."""

    def __init__(
        self,
        settings: ConsumerSettings,
        *,
        news: Callable[[], None],
        wake_loop: Callable[[], None],
        portions_ahead: int = 1,
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        super().__init__(clock or SystemClock(), news, wake_loop)
        self._portions_ahead = portions_ahead
        self._transport, self._random = transport, random
        self.random_bytes: Callable[[int], bytes] = os.urandom if random is None else random.randbytes
        keep_heap()
        self.settings = settings
        self.lock = threading.Lock()
        self.subscription = Subscription(settings.reset_policy)
        self.buffer = FetchBuffer()
        self.reader = BufferReader(self.subscription, self.buffer, self.lock, settings, wake_loop)
        self.network: NetworkClient
        self.group: Group | None = None
        self.positions: Positions
        self.metrics = ConsumerMetrics(settings.client_id)
        self._fetcher: Fetcher
        self._moved: asyncio.Event
        self._seen_version = -1
        self._seen_failure: OttlaError | None = None
        self._closed = False

    # --- life, on the loop ---

    async def start(self) -> None:
        self._moved = asyncio.Event()
        self.network = NetworkClient.from_settings(
            self.settings, transport=self._transport, clock=self.clock, random=self._random
        )
        self.network.measure(self.metrics.registry, "consumer", self.settings.client_id)
        self.network.push_metrics(self.metrics.registry, self.settings)
        self.network.metadata.want_only(())
        self._fetcher = Fetcher(
            self.subscription, self.buffer, self.network.metadata, limits_of(self.settings, self._portions_ahead)
        )
        if self.settings.group_id is not None:
            from ottla.client.consumer.group import Group

            self.group = Group(self, self.settings.group_id)
        self.positions = Positions(
            self.network,
            self.subscription,
            self.lock,
            isolation=LEVELS[self.settings.isolation_level],
            committed=None if self.group is None else self.group.committed_for_start,
            fail=self.fail,
            moved=self._positions_moved,
        )
        await self.network.start()
        self.network.on_update(self.wake)
        self._start_steps("ottla-consumer")

    async def close(self, timeout_ms: float) -> None:
        """End everything that runs, saying goodbye to the brokers if there is time."""
        if self._closed:
            return
        self._closed = True
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        await self._end_tasks()
        await self.positions.close()
        await self._close_fetch_sessions(min(timeout_ms, 1_000))
        await self.network.close(timeout_ms=max(0.0, deadline_ms - self.clock.monotonic_ms()))
        with self.lock:
            self.buffer.clear()

    async def _close_fetch_sessions(self, timeout_ms: float) -> None:
        async def send_goodbye(node_id: int, request: Any, at_most: int | None) -> None:
            try:
                if (way := self._idle_way(node_id)) is not None:
                    await self.network.send(way, request, at_most=at_most, timeout_ms=timeout_ms)
            except OttlaError as error:
                log.debug("broker %s was not told that the fetch session ends: %s", node_id, error)

        await asyncio.gather(*(send_goodbye(*each) for each in self._fetcher.goodbyes()))

    def _idle_way(self, node_id: int) -> Node | int | None:
        """A connection to this broker on which no fetch waits for records: behind one a goodbye would wait, too. None
        when there is none; the broker forgets the session by itself then, but only when it needs the place."""
        node = self.network.metadata.node(node_id)
        ways: list[Node | int] = [node_id] if node is None else [node_id, coordinator_node(node)]
        for way in ways:
            if self.network.can_send_now(way) and not self.network.in_flight(way):
                return way
        return None

    # --- what goes on in the background ---

    def _step(self) -> float:
        try:
            self._apply_metadata()
            until_ms = min(self.positions.start_what_is_due(), self._send_fetches())
            if self.group is not None:
                until_ms = min(until_ms, self.group.step())
        except Exception as error:
            # A fault here would leave a consumer that silently stands still.
            log.exception("the consumer failed in itself")
            self.fail(error)
            until_ms = self.clock.monotonic_ms() + 1_000
        return until_ms

    def _apply_metadata(self) -> None:
        metadata = self.network.metadata
        self._raise_refusal(metadata.failure)
        if metadata.version == self._seen_version:
            return
        self._seen_version = metadata.version
        with self.lock:
            for state in self.subscription:
                if (info := metadata.partition(state.name)) is not None and self.subscription.leader_is(
                    state.name, info.leader_epoch
                ):
                    self.buffer.drop([state.name])
                if not state.is_fetchable:
                    state.retry_at_ms = 0.0  # what it waited for may have come
            pattern_moved = self.subscription.mode is Mode.PATTERN and self.subscription.matched(self._visible_topics())
        self._raise_topic_errors()
        if self.group is not None:
            self.group.metadata_changed(subscription_changed=pattern_moved)

    def _raise_refusal(self, failure: OttlaError | None) -> None:
        """A cluster that will never describe itself to us, because of a wrong login for example, is no reason to wait;
        the next poll raises every such answer once."""
        if failure is not self._seen_failure:
            self._seen_failure = failure
            if failure is not None and failure.invalid_configuration:
                self.fail(copy.copy(failure))

    def _visible_topics(self) -> list[str]:
        metadata = self.network.metadata
        hidden = self.settings.exclude_internal_topics
        return [topic for topic in metadata.topics() if not (hidden and metadata.is_internal(topic))]

    def _raise_topic_errors(self) -> None:
        """What no waiting mends about a subscribed topic is told to the next poll."""
        for topic in self.subscription.topics:
            error = self.network.metadata.error_of(topic)
            if error is not None and error.invalid_configuration:
                self.fail(error)

    def _send_fetches(self) -> float:
        now_ms = self.clock.monotonic_ms()
        with self.lock:
            orders = self._fetcher.plan(now_ms, self._may_ask)
            retry_ms = self._fetcher.next_retry_ms(now_ms)
        for order in orders:
            self.spawn(self._fetch(order))
        if self._fetcher.needs_metadata:
            self._fetcher.needs_metadata = False
            self.network.wake()
        return retry_ms

    def _may_ask(self, node: Node) -> bool:
        return not self.network.is_unreachable(node)

    async def _fetch(self, order: FetchOrder) -> None:
        clock = self.network.clock
        try:
            node = aside(self.network, order.node) if order.express else order.node
            response = await self.network.send(node, order.request, at_most=order.at_most)
        except OttlaError as error:
            log.debug("no answer to a fetch from broker %s: %s", order.node.id, error)
            with self.lock:
                self._fetcher.failed(order, error, clock.monotonic_ms())
            if error.invalid_configuration:
                self.fail(error)
            self.wake()
            return
        now_ms = clock.monotonic_ms()
        with self.lock:
            has_news = self._fetcher.answered(order, response, now_ms)
        self.metrics.fetched(response, now_ms - order.sent_ms, now_ms)
        # The next fetch leaves first: a caller that is told now would take the interpreter for itself, and the broker
        # would wait until it has read everything. Tasks run in the order of their making, before this call.
        self._send_fetches()
        if has_news:
            asyncio.get_running_loop().call_soon(self._news)
        self.wake()

    def is_resolved(self, error: Exception) -> bool:
        """Whether the caller did meanwhile what this error asks for: assign() and then seek() is no mistake, but the
        loop may look for a beginning between the two."""
        if not isinstance(error, NoOffsetForPartition) or not error.partitions:
            return False
        with self.lock:
            return not self.subscription.has_no_beginning(error.partitions)

    def attend(self, item: Any) -> None:
        """Something for the caller to do at its next poll."""
        self.attention.append(item)
        self._news()

    def stir(self) -> None:
        """A poll that waits should look again how long it may."""
        self._news()

    def _positions_moved(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
        self.wake()

    # --- what the user asks for; from any thread ---

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        with self.lock:
            self.subscription.assign(partitions)
            self._drop_unassigned()

    def assign_ranges(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Read exactly these offsets, each from its first to before its last, and nothing else."""
        with self.lock:
            self.subscription.assign(ranges.keys())
            for name, (start, stop) in ranges.items():
                self.subscription.read_range(name, start, stop)
            self.buffer.clear()

    def finish(self, names: Collection[TopicPartition]) -> None:
        """These are not wanted any more; the others go on."""
        with self.lock:
            self.subscription.remove(names)
            self.buffer.drop(names)

    def set_group_assignment(self, partitions: Collection[TopicPartition]) -> None:
        with self.lock:
            self.subscription.set_assignment(partitions)
            self._drop_unassigned()

    def _drop_unassigned(self) -> None:
        kept = self.subscription.assigned()
        self.buffer.drop([name for name in self.buffer.names() if name not in kept])

    def unsubscribe(self) -> None:
        with self.lock:
            self.subscription.unsubscribe()
            self.buffer.clear()

    def seek(self, name: TopicPartition, offset: int, offset_epoch: int | None = None) -> None:
        with self.lock:
            self.subscription.seek(name, offset, offset_epoch=offset_epoch)
            self.buffer.drop([name])
        self._wake_loop()

    def reset(self, names: Collection[TopicPartition], policy: ResetPolicy) -> None:
        """Go where the policy says, when it is needed."""
        with self.lock:
            for name in names or self.subscription.assigned():
                self.subscription.request_reset(name, policy)
            self.buffer.drop(names or self.subscription.assigned())
        self._wake_loop()

    def pause(self, names: Collection[TopicPartition]) -> None:
        with self.lock:
            self.subscription.pause(names)
            self.buffer.pause(names)

    def resume(self, names: Collection[TopicPartition]) -> None:
        with self.lock:
            self.subscription.resume(names)
            self.buffer.resume(names)
        self._wake_loop()
        self.stir()  # what is in the buffer of these makes no news again

    # --- what is waited for; on the loop ---

    async def want_topics(self) -> None:
        """Keep metadata of exactly what is read."""
        pattern = self.subscription.mode is Mode.PATTERN
        also = frozenset() if self.group is None else self.group.also_wanted
        self.network.metadata.want_only(None if pattern else self.subscription.topics | also)
        if pattern:
            self._seen_version = -1
        self.network.wake()
        self.wake()

    async def position(self, name: TopicPartition, timeout_ms: float) -> int:
        """Where the next record is, waiting until it is known."""
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        while True:
            moved = self._moved
            with self.lock:
                state = self.subscription.state(name)
                if state.has_position and state.position is not None:
                    return state.position.offset
            self._raise_failure()
            left_ms = deadline_ms - self.clock.monotonic_ms()
            try:
                async with self.clock.timeout(max(0.0, left_ms)):
                    await moved.wait()
            except TimeoutError:
                raise RequestTimedOut(f"the position of {name} is not known after {timeout_ms:.0f} ms") from None

    def _raise_failure(self) -> None:
        for item in list(self.attention):
            if isinstance(item, Exception):
                self.attention.remove(item)
                raise item

    async def partitions_for(self, topic: str, timeout_ms: float) -> tuple[PartitionInfo, ...]:
        self.network.metadata.want(topic, now_ms=self.clock.monotonic_ms())
        return await self.network.wait_for(
            lambda known: known.partitions_of(topic), timeout_ms=timeout_ms, what=f"the partitions of {topic}"
        )

    async def topics(self, timeout_ms: float) -> dict[str, tuple[PartitionInfo, ...]]:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        view = ClusterView().updated(await self.network.ask_any(request, timeout_ms=timeout_ms))
        return {name: topic.partitions for name, topic in view.topics.items() if topic.error is None}

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        now_ms = self.clock.monotonic_ms()
        if self.network.metadata.want(*{name.topic for name in timestamps}, now_ms=now_ms):
            self.network.wake()
        return await self.positions.list_offsets(timestamps, timeout_ms)


def limits_of(settings: ConsumerSettings, portions_ahead: int) -> FetchLimits:
    return FetchLimits(
        min_bytes=settings.fetch_min_bytes,
        max_wait_ms=settings.fetch_max_wait_ms,
        max_bytes=settings.fetch_max_bytes,
        partition_max_bytes=settings.max_partition_fetch_bytes,
        portions_ahead=portions_ahead,
        queued_max_bytes=settings.queued_max_bytes,
        isolation=LEVELS[settings.isolation_level],
        rack=settings.client_rack,
        check_crcs=settings.check_crcs,
        retry_ms=settings.retry_backoff_ms,
        preferred_for_ms=settings.metadata_max_age_ms,
    )
