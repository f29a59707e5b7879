"""What both faces of the producer do: how records get in, flush, transactions, close, and looking. One text for two.

async_calls.py is that text; sync_calls.py is made of it by `make faces` and is the same without `await`. What a task
and a thread do in their own way (begin, wait for memory and for answers, end) is named at the top of the class without
a body, and stands in async_producer.py and producer.py with one: a task gives its turn away and waits for a future, a
thread stands at a lock. send() and produce() themselves are in hot_path.py.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.client.arguments import callable_of, seconds_of, topic_of
from ottla.client.deadline import Deadline
from ottla.client.group_metadata import GroupMetadata
from ottla.client.metadata import PartitionInfo
from ottla.client.producer.batches.append_choice import AsyncHotPath, RowWriter, SendFuture, TopicState
from ottla.client.producer.batches.buffer_pool import Place
from ottla.client.producer.batches.futures import ManyFuture, Run
from ottla.client.producer.batches.waiting import time_out_explained
from ottla.client.producer.core import CLOSE_LIMIT_S, ProducerCore
from ottla.client.producer.intake import Prepared, pair_of, record_of
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.client.producer.values import BufferExhausted, HeaderItems, ProducerRecord, headers_of
from ottla.errors import OttlaError
from ottla.metrics import MetricKey
from ottla.values import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.producer.batches.arrow_columns import ArrowRows
    from ottla.client.producer.inspection import Inspection

T = TypeVar("T")
log = logging.getLogger(__name__)


class AsyncProducerCalls(AsyncHotPath):
    """Everything of a producer but its life and its waits."""

    settings: ProducerSettings
    _core: ProducerCore

    # --- in its own way ---

    async def _ready(self) -> object:
        """Raise when no call can be made; begin if need be."""
        raise NotImplementedError

    async def _usable(self, topic: str) -> None:
        """Raise when no record can be sent; begin if need be."""
        raise NotImplementedError

    def _has_begun(self) -> bool:
        """Whether there may be something to flush; raises where nobody may ask."""
        raise NotImplementedError

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the client's loop do it."""
        raise NotImplementedError

    async def _give_turn(self) -> None:
        """Let the sender have its turn."""
        raise NotImplementedError

    async def _wait_at(self, place: Place, deadline: Deadline) -> None:
        """Wait for memory; BufferExhausted when the time is over."""
        raise NotImplementedError

    async def _wait_for_batches(self, deadline: Deadline | None) -> None:
        """Wait until every record that was taken is done; TimeoutError when the time is over."""
        raise NotImplementedError

    async def _end(self, timeout: float) -> bool:
        """close() without its errors; False when it was closed already."""
        raise NotImplementedError

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
        # The turn comes first, and between the room and the record nothing is waited for: a turn takes a batch that is
        # due and empty away, and without linger every empty one is due.
        await self._give_turn()
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
        return await self._run(self._core.find_topic(topic, partition, deadline.left_ms()))

    # --- waiting for everything ---

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until it is known what became of it. Raises SendFailed when records failed
        that nobody was told of, TimeoutError after `timeout` seconds."""
        if not self._has_begun():
            return
        clock = self._core.clock
        began_ms = clock.monotonic_ms()
        await self._wait_for_all(None if timeout is None else Deadline(clock, seconds_of(timeout) * 1000))
        now_ms = clock.monotonic_ms()
        self._core.metrics.took("flush", now_ms - began_ms, now_ms)
        if (failed := self._core.failures.take()) is not None:
            raise failed

    async def _wait_for_all(self, deadline: Deadline | None) -> None:
        accumulator = self._core.accumulator
        accumulator.change_flushing(1)
        try:
            self._core.loop.wake()
            with time_out_explained(accumulator.why_not_delivered):
                await self._wait_for_batches(deadline)
        finally:
            accumulator.change_flushing(-1)

    async def _wait_or_abort(self, deadline: Deadline) -> None:
        """At the end: send what was taken, or abort the open transaction."""
        transactions = self._core.transactions
        if transactions is None or not transactions.has_open_transaction:
            await self._wait_for_all(deadline)
            return
        try:
            await self._run(self._core.calls.abort(timeout_ms=deadline.left_ms()))
        except OttlaError as error:
            log.warning("the open transaction could not be aborted; the coordinator will do it: %s", error)

    async def close(self, timeout: float = CLOSE_LIMIT_S) -> None:
        """Send what was taken, abort an open transaction, end everything; at most `timeout` seconds. Raises
        SendFailed when records failed that nobody was told of. Calling it again does nothing."""
        if await self._end(timeout) and (failed := self._core.failures.take()) is not None:
            raise failed

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
        await self._transact(self._core.calls.init_transactions, timeout)

    async def begin_transaction(self) -> None:
        """From here on, what is sent counts only if commit_transaction() succeeds."""
        await self._ready()
        await self._run(self._core.calls.begin())

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: GroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit these positions of a consumer group with the transaction."""
        await self._ready()
        await self._run(self._core.calls.send_offsets(offsets, group_metadata, self._limit_ms(timeout)))

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait for all records and make them count. After an error: abort, or close if the error says so."""
        await self._transact(self._core.calls.commit, timeout)

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """Wait for all records and offsets and leave the transaction open, for Admin.end_transaction to end, by
        whichever process has what this gives. Afterwards close() aborts nothing; init_transactions() begins again."""
        return await self._transact(self._core.calls.prepare, timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Make sure that nothing of the transaction counts."""
        await self._transact(self._core.calls.abort, timeout)

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

    async def _transact(self, call: Callable[..., Coroutine[Any, Any, T]], timeout: float | None) -> T:
        await self._ready()
        self.is_hot = False
        return await self._run(call(timeout_ms=self._limit_ms(timeout)))

    def _limit_ms(self, timeout: float | None) -> float:
        return float(self.settings.max_block_ms) if timeout is None else seconds_of(timeout) * 1000

    # --- looking ---

    async def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """What is known of a topic's partitions; waits at most max.block.ms for it."""
        await self._ready()
        await self._state_of(topic_of(topic), None, self._deadline())
        return self._core.network.metadata.partitions_of(topic) or ()

    def metrics(self) -> dict[MetricKey, float]:
        """All numbers under Java's names."""
        return self._core.metrics.snapshot(self._core.clock.monotonic_ms())

    def inspect(self) -> Inspection:
        """What is where, now: queues, memory, requests in flight."""
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
