"""The parts of a producer put together, under either face.

What a face adds is waiting and threads. Everything here either belongs to the loop (start, close, calls of the
transaction manager) or is safe from any thread because it only reads, or goes through the accumulator's lock
(prepare, make_room).
"""

from __future__ import annotations

import asyncio
import random as random_module
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ottla.client.connections import within
from ottla.client.group_metadata import GroupMetadata
from ottla.client.metadata import Metadata, PartitionInfo
from ottla.client.network import NetworkClient
from ottla.client.producer.accumulator import RecordAccumulator
from ottla.client.producer.append_choice import HotPath, SendFuture, TopicState, check_many
from ottla.client.producer.buffer_pool import Place
from ottla.client.producer.failures import Failures
from ottla.client.producer.futures import Run
from ottla.client.producer.interceptors import Interceptors
from ottla.client.producer.outcomes import Outcomes
from ottla.client.producer.partitioner import BUILT_IN
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.sender import Sender
from ottla.client.producer.sender_loop import SenderLoop
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.tracing import Tracing
from ottla.client.producer.transaction_states import Outcome, TransactionMisuse, TransactionState
from ottla.client.producer.transactions import TransactionManager
from ottla.client.producer.values import HeaderItems, ProducerClosed, ProducerRecord, RecordTooLargeToSend
from ottla.client.retries import Backoff
from ottla.client.serializers import as_serializer, serialize_plain
from ottla.clock import Clock, SystemClock
from ottla.errors import OttlaError, RequestTimedOut
from ottla.net.transport import Transport
from ottla.values import OffsetAndMetadata, TopicPartition

RECORD_OVERHEAD_BYTES: Final = 61 + 36
"""A batch's header and the most that lengths, time and offset of one record take."""


class Prepared(NamedTuple):
    """A record as bytes, and where it goes if that is decided."""

    key: bytes | None
    value: bytes | None
    headers: Any
    partition: int | None
    needed_bytes: int


class ProducerCore:
    """One producer without a face."""

    def __init__(
        self,
        settings: ProducerSettings,
        face: HotPath,
        *,
        wake: Callable[[Callable[[], None]], None],
        transport: Transport | None = None,
        clock: Clock | None = None,
        chance: random_module.Random | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.face = face
        self._chance = chance or random_module.Random()
        self._transport = transport
        self._wake = wake
        self.failures = Failures()
        self.metrics = ProducerMetrics(settings.client_id)
        self.interceptors = Interceptors(settings.interceptor_classes)
        self.tracing = Tracing.enabled() if settings.ottla_tracing_enable else None
        self._serialize_key = as_serializer(settings.key_serializer, "key")
        self._serialize_value = as_serializer(settings.value_serializer, "value")
        self._partitioner = settings.partitioner
        self.transactions = self._new_manager()
        self.accumulator = self._new_accumulator()
        self.network: NetworkClient
        self.sender: Sender
        self.loop: SenderLoop
        self.is_closed = False
        self.thread_id = 0

    # --- life, on the loop ---

    async def start(self) -> None:
        """Make what lives on the loop. Does not wait for a broker."""
        settings = self.settings
        self.thread_id = threading.get_ident()
        self.network = NetworkClient.from_settings(
            settings, transport=self._transport, clock=self.clock, random=self._chance
        )
        self.sender = self._new_sender(self.network)
        outcomes = Outcomes(
            self.sender,
            self.failures,
            self.metrics,
            retries=settings.retries,
            delivery_limit_ms=settings.delivery_limit_ms,
            batch_bytes=settings.batch_size,
        )
        self.loop = SenderLoop(
            self.sender,
            outcomes,
            self.network,
            self.metrics,
            acks=settings.acks_on_wire,
            request_timeout_ms=settings.request_timeout_ms,
            linger_ms=settings.linger_ms,
            wake=self._wake,
        )
        self.outcomes = outcomes
        self.loop.on_turn = self.refresh_heat
        self.network.on_update(self._metadata_changed)
        self._add_gauges()
        await self.network.start()
        self.refresh_heat()
        self.loop.turn_soon()

    async def close(self, *, timeout_ms: float) -> None:
        """Give up what is left and end everything that runs."""
        self.accumulator.is_closed = True
        error = ProducerClosed()
        for batch in self.accumulator.take_all(lambda batch: True):
            self.outcomes.give_up(batch, error, is_unknown=batch.attempts > 0)
        self.loop.stop()
        if self.transactions is not None:
            self.transactions.close()
        await self.network.close(timeout_ms=timeout_ms)
        await self.loop.drained()
        for batch in self.accumulator.take_all(lambda batch: True):
            self.outcomes.give_up(batch, error, is_unknown=True)
        for batch in self.accumulator.deliveries():
            self.outcomes.give_up(batch, error, is_unknown=True)
        self.interceptors.close()

    def _new_manager(self) -> TransactionManager | None:
        settings = self.settings
        if not settings.is_idempotent:
            return None
        return TransactionManager(
            transactional_id=settings.transactional_id,
            transaction_timeout_ms=settings.transaction_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
        )

    def _new_accumulator(self) -> RecordAccumulator:
        settings = self.settings
        # A batch larger than all memory could never be opened, and the smallest record must fit into one.
        accumulator = RecordAccumulator(
            batch_bytes=min(max(settings.batch_size, 1), settings.buffer_memory),
            memory_bytes=settings.buffer_memory,
            record_limit_bytes=min(settings.max_request_size, settings.buffer_memory),
            chance=self._chance,
            compression=settings.compression,
            level=settings.level,
            ignores_keys=settings.partitioner_ignore_keys,
        )
        if self.transactions is not None:
            accumulator.admit = self.transactions.maybe_add_partition
        return accumulator

    def _new_sender(self, network: NetworkClient) -> Sender:
        settings = self.settings
        return Sender(
            self.accumulator,
            network,
            self.transactions,
            backoff=Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, self._chance),
            linger_ms=settings.linger_ms,
            delivery_limit_ms=settings.delivery_limit_ms,
            request_limit_bytes=settings.max_request_size,
            in_flight_limit=settings.max_in_flight_requests_per_connection,
            adaptive=settings.partitioner_adaptive_partitioning_enable,
            availability_limit_ms=settings.partitioner_availability_timeout_ms,
        )

    def _add_gauges(self) -> None:
        pool = self.accumulator.pool
        gauge = self.metrics.gauge
        gauge("buffer-total-bytes", "Memory for records.", lambda: pool.total_bytes)
        gauge("buffer-available-bytes", "Memory that is free.", lambda: pool.available_bytes)
        gauge("waiting-threads", "Callers that wait for memory.", lambda: pool.waiting_count)
        gauge("requests-in-flight", "Batches without an answer.", lambda: len(self.sender.in_flight))

    # --- when the hot path may be taken ---

    @property
    def is_plain(self) -> bool:
        """Nothing of the user's has to be called for a record."""
        plain = self._serialize_key is serialize_plain and self._serialize_value is serialize_plain
        return plain and self._partitioner is None and not self.interceptors and self.tracing is None

    def refresh_heat(self) -> None:
        """Let records take the hot path, or not: after anything that may change the answer."""
        manager = self.transactions
        hot = self.is_plain and not self.is_closed
        if manager is not None:
            hot = hot and not manager.has_error
            if manager.is_transactional:
                hot = hot and manager.state is TransactionState.IN_TRANSACTION
        self.face.is_hot = hot

    def check_may_send(self, topic: str) -> None:
        """Raise when no record may be sent now, whatever it is."""
        if self.is_closed:
            raise ProducerClosed("send() after close()")
        manager = self.transactions
        if manager is None:
            return
        outside = manager.is_transactional and manager.state is not TransactionState.IN_TRANSACTION
        if outside or manager.has_error:
            # It raises before it adds anything, and knows the right words.
            manager.maybe_add_partition(TopicPartition(topic, 0))

    # --- topics ---

    def known_state(self, topic: str, partition: int | None) -> TopicState | None:
        """The state of a topic if its partitions, and this one, are known."""
        infos = self.network.metadata.partitions_of(topic)
        if not infos or (partition is not None and partition >= len(infos)):
            return None
        state: TopicState | None = self.face.topic_states.get(topic)
        if state is None or state.partition_count != len(infos):
            state = self._state_for(topic, infos)
        return state

    def _state_for(self, topic: str, infos: tuple[PartitionInfo, ...]) -> TopicState:
        with self.accumulator.lock:
            state: TopicState | None = self.face.topic_states.get(topic)
            if state is None:
                state = self.accumulator.new_state(topic, len(infos))
                self.face.topic_states[topic] = state
            state.set_partition_count(len(infos))
            self.accumulator.available[topic] = tuple(info.partition for info in infos if info.leader is not None)
        return state

    async def find_topic(self, topic: str, partition: int | None, timeout_ms: float) -> TopicState:
        """Wait until a topic and a partition of it are known."""

        def known(metadata: Metadata) -> TopicState | None:
            metadata.want(topic, now_ms=self.clock.monotonic_ms())
            error = metadata.error_of(topic)
            if error is not None and not error.retriable:
                raise error
            return self.known_state(topic, partition)

        what = f"topic {topic}" if partition is None else f"partition {partition} of topic {topic}"
        return await self.network.wait_for(known, timeout_ms=timeout_ms, what=what)

    def _metadata_changed(self) -> None:
        for topic in list(self.face.topic_states):
            infos = self.network.metadata.partitions_of(topic)
            if infos:
                self._state_for(topic, infos)

    # --- records, any thread ---

    def prepare(self, record: ProducerRecord, state: TopicState) -> Prepared:
        """Bytes and partition of a record; raises what is wrong with it."""
        key = self._serialize_key(record.topic, record.key)
        value = self._serialize_value(record.topic, record.value)
        partition = record.partition
        if partition is not None and partition < 0:
            raise ValueError(f"a partition is 0 or more, not {partition}")
        if partition is None and self._partitioner is not None:
            partition = self._custom_partition(state, key)
        headers = record.headers
        needed_bytes = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") + headers_bytes(headers)
        self._check_size(needed_bytes, record.topic)
        return Prepared(key, value, headers, partition, needed_bytes)

    def _custom_partition(self, state: TopicState, key: bytes | None) -> int | None:
        assert self._partitioner is not None, "asked before"
        everything = range(state.partition_count)
        chosen = self._partitioner(key, everything, self.accumulator.available.get(state.topic, ()))
        if chosen == BUILT_IN:
            return None
        if chosen not in everything:
            raise ValueError(f"the partitioner chose {chosen!r}; {state.topic} has {state.partition_count} partitions")
        return chosen

    def _check_size(self, needed_bytes: int, topic: str) -> None:
        for name in ("max.request.size", "buffer.memory"):
            limit = self.settings.max_request_size if name == "max.request.size" else self.settings.buffer_memory
            if needed_bytes > limit:
                raise RecordTooLargeToSend(f"{needed_bytes} bytes for {topic}, {name} is {limit}")

    def make_room(
        self, state: TopicState, key: bytes | None, partition: int | None, needed_bytes: int, place: Place | None
    ) -> Place | None:
        """A batch with room for the next try, or a place to wait at."""
        now_ms = self.clock.monotonic_ms()
        self.network.metadata.want(state.topic, now_ms=now_ms)
        if partition is None and key is not None and not self.settings.partitioner_ignore_keys:
            partition = state.partition_of(key)
        return self.accumulator.make_room(state, partition, needed_bytes, now_ms, place)

    def watch(self, future: SendFuture, on_delivery: Callable[..., object] | None, span: Any) -> None:
        """Register everybody who wants to hear what becomes of a record."""
        if self.interceptors:
            future.add_silent_callback(self.interceptors.on_acknowledgement)
        if span is not None:
            future.add_silent_callback(span.ended)
        if on_delivery is not None:
            future.add_delivery_callback(on_delivery)

    def begin(self, record: ProducerRecord) -> tuple[ProducerRecord, Any]:
        """The record as interceptors and tracing left it, and its span if there is one."""
        if self.interceptors:
            record = self.interceptors.on_send(record)
        return (record, None) if self.tracing is None else self.tracing.begin(record)

    def refused(self, error: OttlaError, span: Any) -> None:
        """A record could not be taken at all."""
        self.interceptors.on_acknowledgement(None, error)
        if span is not None:
            span.ended(None, error)

    def exhausted(self, place: Place, waited_ms: float) -> str:
        """Why a caller gets no memory; counted."""
        self.metrics.exhausted.record(1, self.clock.monotonic_ms())
        pool = self.accumulator.pool
        return (
            f"{place.size_bytes} bytes were wanted for {waited_ms:.0f} ms; buffer.memory is {pool.total_bytes} and"
            f" {pool.available_bytes} are free"
        )

    # --- lists of records ---

    def prepare_many(
        self,
        topic: str,
        values: Iterable[Any],
        headers: HeaderItems | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Many | None:
        """The list as bytes, checked; None when each record must be shown to somebody of the user's."""
        if self.interceptors or self.tracing is not None or self._partitioner is not None:
            return None
        items = values if type(values) is list else list(values)
        are_pairs = bool(items) and type(items[0]) is tuple
        items = self._serialized(topic, items, are_pairs)
        limit_bytes = min(self.settings.max_request_size, self.settings.buffer_memory) - headers_bytes(headers)
        too_large = check_many(items, are_pairs, limit_bytes)
        many = Many(items, are_pairs, headers, partition, self.clock.now_ms() if timestamp_ms is None else timestamp_ms)
        if too_large >= 0:
            self._check_size(many.needed_bytes(too_large), topic)
        return many

    def _serialized(self, topic: str, items: list[Any], are_pairs: bool) -> list[Any]:
        key_of, value_of = self._serialize_key, self._serialize_value
        if key_of is serialize_plain and value_of is serialize_plain:
            texts = any(type(each) is str for pair in items for each in pair) if are_pairs else str in map(type, items)
            if not texts:
                return items
        if are_pairs:
            return [(key_of(topic, key), value_of(topic, value)) for key, value in items]
        return [value_of(topic, value) for value in items]

    # --- transactions, on the loop ---

    def _manager(self, operation: str) -> TransactionManager:
        if self.transactions is None:
            raise TransactionMisuse(f"{operation} needs a producer with transactional.id")
        return self.transactions

    async def init_transactions(self, *, timeout_ms: float) -> None:
        await self._outcome(self._manager("init_transactions").initialize(), timeout_ms)

    async def begin_transaction(self) -> None:
        self._manager("begin_transaction").begin()
        self.refresh_heat()

    async def commit(self, *, timeout_ms: float) -> None:
        await self._outcome(self._manager("commit_transaction").begin_commit(), timeout_ms)

    async def abort(self, *, timeout_ms: float) -> None:
        """What was not delivered is meant to be lost, so nobody is told of it."""
        await self._outcome(self._manager("abort_transaction").begin_abort(), timeout_ms)
        self.failures.take()

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: GroupMetadata | str,
        timeout_ms: float,
    ) -> None:
        positions = {
            name: OffsetAndMetadata(offset) if isinstance(offset, int) else offset for name, offset in offsets.items()
        }
        who = GroupMetadata(group) if isinstance(group, str) else group
        await self._outcome(self._manager("send_offsets_to_transaction").send_offsets(positions, who), timeout_ms)

    async def _outcome(self, outcome: Outcome, timeout_ms: float) -> None:
        """Wait for the end of a call; after a time-out it goes on, and the same call made again waits for its end."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(lambda _: None if done.done() else done.set_result(None))
        self.refresh_heat()
        self.loop.turn_soon()
        if not await within(done, self.clock, timeout_ms):
            why = self.network.metadata.failure
            raise RequestTimedOut(
                f"{outcome.operation} took longer than {timeout_ms:.0f} ms; call it again to wait for its end"
                + (f" ({why})" if why else "")
            )
        outcome.acknowledge()
        self.refresh_heat()


class Many(NamedTuple):
    """A list of records as bytes, for send_many()."""

    items: list[Any]
    are_pairs: bool
    headers: HeaderItems | None
    partition: int | None
    timestamp_ms: int

    def put(self, state: TopicState, start: int, runs: list[Run]) -> int:
        """Write from `start` on; gives the index of the first that found no room."""
        return state.put_many(self.items, start, self.are_pairs, self.headers, self.timestamp_ms, self.partition, runs)

    def key_of(self, index: int) -> bytes | None:
        return self.items[index][0] if self.are_pairs else None

    def needed_bytes(self, index: int) -> int:
        item = self.items[index]
        parts = item if self.are_pairs else (item,)
        return RECORD_OVERHEAD_BYTES + sum(len(part or b"") for part in parts) + headers_bytes(self.headers)


def record_of(
    topic: str | ProducerRecord,
    value: Any,
    key: Any,
    partition: int | None,
    timestamp_ms: int | None,
    headers: HeaderItems | None,
) -> ProducerRecord:
    """The arguments of send() as a record; a record as it is."""
    if isinstance(topic, ProducerRecord):
        return topic
    if not isinstance(topic, str):
        raise TypeError(f"a topic is a str (or send a ProducerRecord), not {type(topic).__name__}")
    return ProducerRecord(topic, value, key, partition, timestamp_ms, headers or ())


def pair_of(item: Any) -> tuple[Any, Any]:
    """Key and value of an element of send_many()'s list."""
    return item if type(item) is tuple else (None, item)


def headers_bytes(headers: Any) -> int:
    """The most that these headers take."""
    if not headers:
        return 0
    items = headers.items() if isinstance(headers, dict) else headers
    return sum(15 + 4 * len(name) + len(value or b"") for name, value in items)
