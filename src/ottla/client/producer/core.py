"""The parts of a producer put together, under either face.

What a face adds is waiting and threads. Everything here either belongs to the loop (start, close, calls of the
transaction manager) or is safe from any thread because it only reads, or goes through the accumulator's lock
(prepare, make_room). What the user's own code does to records is in intake.py, the calls of transactions are in
transaction_calls.py.
"""

from __future__ import annotations

import asyncio
import os
import random as random_module
import threading
import weakref
from collections.abc import Callable
from typing import Final

from ottla.client.metadata import Metadata, PartitionInfo
from ottla.client.network import NetworkClient
from ottla.client.producer.batches.accumulator import RecordAccumulator
from ottla.client.producer.batches.append_choice import HotPath, TopicState
from ottla.client.producer.batches.buffer_pool import Place
from ottla.client.producer.intake import Intake, Prepared
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.sending.failures import Failures
from ottla.client.producer.sending.outcomes import Outcomes
from ottla.client.producer.sending.sender import Sender
from ottla.client.producer.sending.sender_loop import SenderLoop
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions.calls import TransactionCalls
from ottla.client.producer.transactions.manager import TransactionManager
from ottla.client.producer.transactions.states import TransactionState
from ottla.client.producer.values import ProducerClosed, ProducerRecord, RecordPurged, RecordPurgedInFlight
from ottla.clock import Clock, SystemClock
from ottla.net.link import Transport
from ottla.net.retries import Backoff
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.values import TopicPartition

CLOSE_LIMIT_S: Final = 30.0
EXIT_LIMIT_S: Final = 1.0
NETWORK_CLOSE_MS: Final = 2_000.0

_faces: Final[weakref.WeakSet[HotPath]] = weakref.WeakSet()


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
        self.intake = Intake(settings)
        self.calls = TransactionCalls(self)
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
        self.network.push_metrics(self.metrics.registry, self.settings)
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
        self.face.quick_room = self.quick_room
        self.network.on_update(self._metadata_changed)
        self._add_gauges()
        _faces.add(self.face)
        await self.network.start()
        self.refresh_heat()
        self.loop.turn_soon()

    async def purge(self, *, waiting: bool, in_flight: bool) -> None:
        """Give up records that were not sent yet, and those whose answer is not there, without waiting for them."""
        if waiting:
            for batch in self.accumulator.take_all(lambda batch: True):
                self.outcomes.give_up(batch, RecordPurged(), is_unknown=batch.attempts > 0)
        if in_flight:
            for batch in list(self.sender.in_flight):
                if not batch.delivery.is_done:
                    self.outcomes.give_up(batch, RecordPurgedInFlight(), is_unknown=True)

    async def close(self, *, timeout_ms: float) -> None:
        """Give up what is left and end everything that runs."""
        self.accumulator.is_closed = True
        error = ProducerClosed()
        for batch in self.accumulator.take_all(lambda batch: True):
            self.outcomes.give_up(batch, error, is_unknown=batch.attempts > 0)
        self.loop.stop()
        if self.transactions is not None:
            self.transactions.close()
        began_ms = self.clock.monotonic_ms()
        if self.settings.acks_on_wire == 0:
            await self._wait_until_sent(timeout_ms)
        await self.network.close(timeout_ms=max(0.0, timeout_ms - (self.clock.monotonic_ms() - began_ms)))
        await self.loop.drained()
        for batch in self.accumulator.take_all(lambda batch: True):
            self.outcomes.give_up(batch, error, is_unknown=True)
        for batch in self.accumulator.deliveries():
            self.outcomes.give_up(batch, error, is_unknown=True)
        self.intake.interceptors.close()

    async def _wait_until_sent(self, timeout_ms: float) -> None:
        """With acks=0 nobody says that records arrived, and a socket that is closed while an answer comes in takes
        along what the broker has not read yet. Who answers a question has read everything before it."""
        network = self.network
        nodes = [
            each for each in network.metadata.nodes() if network.versions_of(each) and not network.is_unreachable(each)
        ]
        question = ApiVersionsRequest()
        asked = [network.send(node, question, version=0, timeout_ms=timeout_ms) for node in nodes]
        await asyncio.gather(*asked, return_exceptions=True)

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
            adaptive=settings.partitioner_adaptive_partitioning_enable,
            # The machine's clock is read where records are written, without a call into Python for each.
            now_ms=None if isinstance(self.clock, SystemClock) else self.clock.now_ms,
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
            availability_limit_ms=settings.partitioner_availability_timeout_ms,
        )

    def _add_gauges(self) -> None:
        accumulator, pool = self.accumulator, self.accumulator.pool
        gauge = self.metrics.gauge
        gauge("buffer-total-bytes", "Memory for records.", lambda: pool.total_bytes)
        gauge("buffer-available-bytes", "Memory that is free.", lambda: pool.available_bytes)
        gauge("waiting-threads", "Callers that wait for memory.", lambda: pool.waiting_count)
        gauge("requests-in-flight", "Batches without an answer.", lambda: len(self.sender.in_flight))
        gauge("incomplete-batches", "Batches that are not acknowledged.", lambda: accumulator.incomplete_count)

    # --- when the hot path may be taken ---

    def refresh_heat(self) -> None:
        """Let records take the hot path, or not: after anything that may change the answer."""
        manager = self.transactions
        hot = self.intake.is_plain and not self.is_closed
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
                raise type(error)(f"topic {topic!r}")
            return self.known_state(topic, partition)

        what = f"topic {topic}" if partition is None else f"partition {partition} of topic {topic}"
        began_ms = self.clock.monotonic_ms()
        try:
            return await self.network.wait_for(known, timeout_ms=timeout_ms, what=what)
        finally:
            now_ms = self.clock.monotonic_ms()
            self.metrics.took("metadata-wait", now_ms - began_ms, now_ms)

    def _metadata_changed(self) -> None:
        for topic in list(self.face.topic_states):
            infos = self.network.metadata.partitions_of(topic)
            if infos:
                self._state_for(topic, infos)

    # --- records, any thread ---

    def prepare(self, record: ProducerRecord, state: TopicState) -> Prepared:
        """Bytes and partition of a record; raises what is wrong with it."""
        return self.intake.prepare(record, state, self.accumulator.available.get(state.topic, ()))

    def make_room(
        self, state: TopicState, key: bytes | None, partition: int | None, needed_bytes: int, place: Place | None
    ) -> Place | None:
        """A batch with room for the next try, or a place to wait at."""
        now_ms = self.clock.monotonic_ms()
        self.network.metadata.want(state.topic, now_ms=now_ms)
        if partition is None and key is not None and not self.settings.partitioner_ignore_keys:
            partition = state.partition_of(key)
        return self.accumulator.make_room(state, partition, needed_bytes, now_ms, place)

    def quick_room(self, state: TopicState, key: bytes | None, partition: int | None, needed_bytes: int) -> bool:
        """Room for a record of the hot path, if there is some without waiting; the slow way decides all else."""
        if partition is not None and partition >= state.partition_count:
            return False
        if partition is None and key is not None and not self.settings.partitioner_ignore_keys:
            partition = state.partition_of(key)
        now_ms = self.clock.monotonic_ms()
        self.network.metadata.want(state.topic, now_ms=now_ms)
        place = self.accumulator.make_room(state, partition, needed_bytes, now_ms)
        if place is not None:
            self.accumulator.leave(place)
        return place is None

    def exhausted(self, place: Place, waited_ms: float) -> str:
        """Why a caller gets no memory; counted."""
        self.metrics.exhausted.record(1, self.clock.monotonic_ms())
        pool = self.accumulator.pool
        return (
            f"{place.size_bytes} bytes were wanted for {waited_ms:.0f} ms; buffer.memory is {pool.total_bytes} and"
            f" {pool.available_bytes} are free"
        )


def _forked() -> None:
    """In a child process nobody sends what is written into batches: every record takes the slow way and is refused."""
    for face in list(_faces):
        face.is_hot = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
