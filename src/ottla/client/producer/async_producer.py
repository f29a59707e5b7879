"""The asyncio face of the producer: the same names, awaited where they wait. It runs on the caller's loop, no thread.

    async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
        future = await producer.send("orders", b"value", key=b"key")     # there is room for it
        print((await future).offset)                                     # the broker has it

1. `await send(...)` gives a future as soon as the record is in a batch, and `await future` its metadata; so a thousand
   records can be on their way. `send_and_wait` is both.
2. The promises of the sync face hold here too: bounded waits, failures told once, close() within its time.
3. A batch that became full gives the loop one turn, so that a loop of sends cannot keep the network waiting.
4. Belongs to the loop it was started on. Cancelling a call is safe: a record that was taken is still sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.arguments import callable_of, seconds_of, topic_of
from ottla.client.connections import within
from ottla.client.deadline import Deadline
from ottla.client.group_metadata import GroupMetadata
from ottla.client.loop import ClientClosed, ForkedClient
from ottla.client.metadata import PartitionInfo
from ottla.client.producer.batches.append_choice import AsyncHotPath, ProducerBatch, RowWriter, SendFuture, TopicState
from ottla.client.producer.batches.buffer_pool import Place
from ottla.client.producer.batches.futures import ManyFuture, Run
from ottla.client.producer.batches.waiting import await_done, time_out_explained
from ottla.client.producer.core import ProducerCore
from ottla.client.producer.intake import Prepared, pair_of, record_of
from ottla.client.producer.producer import CLOSE_LIMIT_S, EXIT_LIMIT_S, NETWORK_CLOSE_MS
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.client.producer.values import BufferExhausted, HeaderItems, ProducerRecord, RecordMetadata, headers_of
from ottla.clock import Clock
from ottla.errors import OttlaError
from ottla.metrics import MetricKey
from ottla.net.link import Transport
from ottla.values import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.producer.batches.arrow_columns import ArrowRows
    from ottla.client.producer.inspection import Inspection

log = logging.getLogger(__name__)


class AsyncProducer(AsyncHotPath):
    """Sends records to Kafka from asyncio code."""

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: object,
    ) -> None:
        self.settings = ProducerSettings(config, **settings).named("producer")
        self._core = ProducerCore(self.settings, self, wake=self._wake, transport=transport, clock=clock, chance=random)
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._starting = asyncio.Lock()
        self._process = os.getpid()

    async def start(self) -> Self:
        """Begin to live on the running loop; send() does it by itself. Does not wait for a broker."""
        if self._core.is_closed:
            raise ClientClosed(self.settings.client_id)
        self._check_loop()
        async with self._starting:
            if self._event_loop is None:
                self._event_loop = asyncio.get_running_loop()
                await self._core.start()
        return self

    def _wake(self, call: Callable[[], None]) -> None:
        assert self._event_loop is not None, "a producer that was not started has nothing to send"
        self._event_loop.call_soon_threadsafe(call)

    async def _usable(self, topic: str) -> None:
        if self._process != os.getpid():
            self.is_hot = False
            raise ForkedClient(f"{self.settings.client_id} in process {os.getpid()}")
        self._core.check_may_send(topic)
        self._check_loop()
        if self._event_loop is None:
            await self.start()

    def _check_loop(self) -> None:
        if self._event_loop is not None and self._event_loop is not asyncio.get_running_loop():
            raise RuntimeError(f"{self.settings.client_id} belongs to another event loop; make one for this loop")

    # --- sending ---

    async def _send_slowly(
        self,
        topic: str | ProducerRecord,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: HeaderItems | None,
        on_delivery: Callable[..., object] | None,
        wants_future: bool,
    ) -> SendFuture | None:
        """What send() and produce() do when something has to be decided or waited for."""
        core = self._core
        record = record_of(topic, value, key, partition, timestamp_ms, headers)
        if on_delivery is not None:
            callable_of(on_delivery, "on_delivery")
        await self._usable(record.topic)
        deadline = self._deadline()
        record, span = core.intake.begin(record)
        try:
            state = await self._state_of(record.topic, record.partition, deadline)
            future = await self._put(state, core.prepare(record, state), record.timestamp_ms, deadline)
        except OttlaError as error:
            core.intake.refused(error, span)
            raise
        core.intake.watch(future, on_delivery, span)
        return future if wants_future else None

    async def send_and_wait(self, topic: str | ProducerRecord, value: Any = None, **record: Any) -> RecordMetadata:
        """Send a record and wait until the broker has it."""
        future = await self.send(topic, value, **record)
        return await future

    async def _put(
        self, state: TopicState, prepared: Prepared, timestamp_ms: int | None, deadline: Deadline
    ) -> SendFuture:
        key, value, headers, partition, needed_bytes = prepared
        while True:
            future: SendFuture | None = state.put(key, value, headers, timestamp_ms, partition, True)
            if future is not None:
                return future
            await self._make_room_for(state, key, partition, needed_bytes, deadline)

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        partition: int | None = None,
        headers: HeaderItems | None = None,
        timestamp_ms: int | None = None,
    ) -> ManyFuture:
        """Send a list of values, or of (key, value) tuples: one future for all. All are checked before one is sent."""
        await self._usable(topic_of(topic))
        deadline = self._deadline()
        state = await self._state_of(topic, partition, deadline)
        now_ms = self._core.clock.now_ms() if timestamp_ms is None else timestamp_ms
        headers = headers_of(headers)
        many = self._core.intake.prepare_many(topic, values, headers, partition, now_ms)
        runs: list[Run] = []
        if many is None:  # something of the user's must see each record
            for key, value in map(pair_of, values):
                future = await self.send(
                    topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
                )
                runs.append(future.as_run())
            return ManyFuture(runs, now_ms)
        index = 0
        while (index := many.put(state, index, runs)) < len(many.items):
            await self._make_room_for(state, many.key_of(index), partition, many.needed_bytes(index), deadline)
        return ManyFuture(runs, many.timestamp_ms)

    async def send_arrow(self, topic: str | None, table: Any, *, wants_future: bool = False) -> ManyFuture | None:
        """Send the rows of a pyarrow Table or RecordBatch: columns value, and key, partition, timestamp, headers if
        they are there; column topic if `topic` is None. The whole table is checked before a row is sent; each wait for
        memory is at most max.block.ms, and the error says how many rows were taken. See arrow_columns.py."""
        await self._usable(topic or "")
        now_ms = self._core.clock.now_ms()
        parts = self._core.intake.prepare_arrow(topic, table)
        runs: list[Run] | None = [] if wants_future else None
        rows_before = 0
        for rows in parts:
            await self._put_rows(rows, now_ms, runs, rows_before)
            rows_before += rows.count
        if runs is None:
            return None
        from ottla.client.producer.batches.arrow_columns import RowTimes

        return ManyFuture(runs, RowTimes(parts, now_ms))

    async def _put_rows(self, rows: ArrowRows, now_ms: int, runs: list[Run] | None, rows_before: int) -> None:
        if self._core.intake.wants_each:
            for record in rows.records():
                future = await self.send(record)
                if runs is not None:
                    runs.append(future.as_run())
            return
        states = [
            await self._state_of(name, rows.highest_partition(place), self._deadline())
            for place, name in enumerate(rows.topics)
        ]
        writer = RowWriter(rows, states, now_ms)
        row = 0
        while (row := writer.put(row, runs)) < rows.count:
            wish = rows.key_at(row), rows.partition_at(row), rows.needed_bytes(row)
            try:
                await self._make_room_for(states[rows.place_at(row)], *wish, self._deadline())
            except BufferExhausted as error:
                raise BufferExhausted(f"{error.detail}; the first {rows_before + row} rows were taken") from None

    def _deadline(self) -> Deadline:
        return Deadline(self._core.clock, self.settings.max_block_ms)

    async def _make_room_for(
        self, state: TopicState, key: bytes | None, partition: int | None, needed_bytes: int, deadline: Deadline
    ) -> None:
        # The turn comes first, and between the room and the record nothing is awaited: a turn takes a batch that is due
        # and empty away, and without linger every empty one is due.
        await self._core.clock.sleep(0)
        place = self._core.make_room(state, key, partition, needed_bytes, None)
        while (waiting := place) is not None:
            try:
                await self._wait_at(waiting, deadline)
                place = self._core.make_room(state, key, partition, needed_bytes, waiting)
            except BaseException:
                self._core.accumulator.leave(waiting)
                raise

    async def _state_of(self, topic: str, partition: int | None, deadline: Deadline) -> TopicState:
        state = self._core.known_state(topic, partition)
        if state is not None:
            return state
        return await self._core.find_topic(topic, partition, deadline.left_ms())

    async def _wait_at(self, place: Place, deadline: Deadline) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place.notify = lambda: None if granted.done() else granted.set_result(None)
        self._core.loop.wake()
        self._core.accumulator.press()  # on one thread there is nothing to gain from a portion
        left_ms = deadline.left_ms()
        began_ms = self._core.clock.monotonic_ms()
        in_time = place.is_granted or await within(granted, self._core.clock, left_ms)
        now_ms = self._core.clock.monotonic_ms()
        self._core.metrics.took("bufferpool-wait", now_ms - began_ms, now_ms)
        if not in_time:
            raise BufferExhausted(self._core.exhausted(place, left_ms))
        if self._core.is_closed:
            self._core.check_may_send("")

    # --- waiting for everything ---

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until it is known what became of it. Raises SendFailed when records failed
        that nobody was told of, TimeoutError after `timeout` seconds."""
        if self._event_loop is None:
            return
        self._check_loop()
        clock = self._core.clock
        began_ms = clock.monotonic_ms()
        limit_ms = None if timeout is None else seconds_of(timeout) * 1000
        with time_out_explained(self._core.accumulator.why_not_delivered):
            async with clock.timeout(limit_ms):
                await self._wait_for_all()
        self._core.metrics.took("flush", clock.monotonic_ms() - began_ms, clock.monotonic_ms())
        if (failed := self._core.failures.take()) is not None:
            raise failed

    async def _wait_for_all(self) -> None:
        accumulator = self._core.accumulator
        accumulator.change_flushing(1)
        try:
            self._core.loop.wake()
            for batch in accumulator.deliveries():
                await _Batch(batch)
        finally:
            accumulator.change_flushing(-1)

    async def close(self, timeout: float = CLOSE_LIMIT_S) -> None:
        """Send what was taken, abort an open transaction, end everything; at most `timeout` seconds. Raises
        SendFailed when records failed that nobody was told of. Calling it again does nothing."""
        core = self._core
        if core.is_closed:
            return
        self._check_loop()
        core.is_closed = True
        self.is_hot = False
        if self._event_loop is not None:
            deadline = Deadline(core.clock, seconds_of(timeout) * 1000)
            await self._finish_unless_cancelled(deadline)
            left_ms = max(EXIT_LIMIT_S, deadline.left_s()) * 1000
            await core.close(timeout_ms=min(NETWORK_CLOSE_MS, left_ms))
        if (failed := core.failures.take()) is not None:
            raise failed

    async def _finish_unless_cancelled(self, deadline: Deadline) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                await self._finish(deadline)
        except asyncio.CancelledError:
            self._core.is_closed = False  # it did not happen: what was taken is still sent, and it can be called again
            raise

    async def _finish(self, deadline: Deadline) -> None:
        if self._core.transactions is None or not self._core.transactions.has_open_transaction:
            async with self._core.clock.timeout(deadline.left_ms()):
                await self._wait_for_all()
            return
        try:
            await self._core.calls.abort(timeout_ms=deadline.left_ms())
        except OttlaError as error:
            log.warning("the open transaction could not be aborted; the coordinator will do it: %s", error)

    async def stop(self, timeout: float = CLOSE_LIMIT_S) -> None:
        """aiokafka's name for close()."""
        await self.close(timeout)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        try:
            await self.close()
        except OttlaError as failed:
            # The first error is the one to see; this one must not hide it.
            log.error("while leaving after %s: %s", type(error).__name__, failed)

    # --- transactions ---

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Get the producer's identity, ending what a predecessor with this transactional.id left open."""
        await self.start()
        await self._core.calls.init_transactions(timeout_ms=self._limit_ms(timeout))

    async def begin_transaction(self) -> None:
        """From here on, what is sent counts only if commit_transaction() succeeds."""
        await self.start()
        await self._core.calls.begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: GroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit these positions of a consumer group with the transaction."""
        await self.start()
        await self._core.calls.send_offsets(offsets, group_metadata, self._limit_ms(timeout))

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait for all records and make them count. After an error: abort, or close if the error says so."""
        await self.start()
        self.is_hot = False
        await self._core.calls.commit(timeout_ms=self._limit_ms(timeout))

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """Wait for all records and offsets and leave the transaction open, for Admin.end_transaction to end, by
        whichever process has what this gives. Afterwards close() aborts nothing; init_transactions() begins again."""
        await self.start()
        self.is_hot = False
        return await self._core.calls.prepare(timeout_ms=self._limit_ms(timeout))

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Make sure that nothing of the transaction counts."""
        await self.start()
        self.is_hot = False
        await self._core.calls.abort(timeout_ms=self._limit_ms(timeout))

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """begin, and at the end of the block commit; an exception in the block aborts and goes on."""
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            try:
                await self.abort_transaction()
            except OttlaError as error:
                log.error("the transaction could not be aborted: %s", error)
            raise
        try:
            await self.commit_transaction()
        except OttlaError:
            with contextlib.suppress(OttlaError):
                await self.abort_transaction()
            raise

    def _limit_ms(self, timeout: float | None) -> float:
        return float(self.settings.max_block_ms) if timeout is None else seconds_of(timeout) * 1000

    # --- looking ---

    async def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """What is known of a topic's partitions; waits at most max.block.ms for it."""
        await self.start()
        await self._state_of(topic_of(topic), None, self._deadline())
        return self._core.network.metadata.partitions_of(topic) or ()

    def metrics(self) -> dict[MetricKey, float]:
        """All numbers under Java's names."""
        return self._core.metrics.snapshot(self._core.clock.monotonic_ms())

    def inspect(self) -> Inspection:
        """What is where, now: queues, memory, requests in flight."""
        if self._event_loop is None:
            raise RuntimeError(f"{self.settings.client_id} was not started yet; await start(), or send something")
        from ottla.client.producer.inspection import inspected

        return inspected(self._core)

    def __len__(self) -> int:
        """Records that were taken and whose fate is not known."""
        return sum(batch.record_count for batch in self._core.accumulator.deliveries())

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        state = "closed" if self._core.is_closed else f"{len(self)} waiting"
        return f"<AsyncProducer {self.settings.client_id} {state}>"


class _Batch:
    """Wait until every record of a batch is done, also when it is split meanwhile."""

    def __init__(self, batch: ProducerBatch) -> None:
        self._batch = batch

    def __await__(self) -> Any:
        delivery = self._batch.delivery
        if delivery.parts is None and not delivery.is_done:
            yield from await_done(delivery, 0)
        if delivery.parts is not None:
            for index in range(self._batch.record_count):
                if not delivery.is_done_at(index):
                    yield from await_done(delivery, index)
