"""The sync face of the producer: send, flush, transactions, close. It waits; it decides nothing.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        future = producer.send("orders", b"value", key=b"key")
        producer.produce("orders", b"no future, flush() or close() raises if it fails")
        print(future.result().offset)

send() and produce() themselves stand in hot_path.py, which this class inherits; _send_slowly() here is the rest of
them. The package's docstring has the whole path, file by file.

1. send() waits at most max.block.ms, for metadata or for memory, and then raises. What it raises was not sent.
2. A failure is told once: by the future, by on_delivery, or else raised by flush(), close() or the end of `with`.
3. close() waits at most its timeout (30 s) and may be called twice. An open transaction is aborted, unless it was
   prepared for somebody else to end. After it, and in a forked child, every call raises at once.
4. Ctrl-C interrupts every wait; what was taken is still sent.
5. Any thread may call; callbacks run on the producer's own thread and must not wait for it.
6. A producer that is dropped or forgotten at exit says how many records were not sent.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ottla.client.arguments import callable_of, seconds_of, topic_of
from ottla.client.deadline import Deadline
from ottla.client.group_metadata import GroupMetadata
from ottla.client.loop import BackgroundLoop
from ottla.client.metadata import PartitionInfo
from ottla.client.producer.batches.append_choice import HotPath, ProducerBatch, RowWriter, SendFuture, TopicState
from ottla.client.producer.batches.buffer_pool import Place
from ottla.client.producer.batches.futures import ManyFuture, Run
from ottla.client.producer.batches.waiting import time_out_explained, wait_until_done
from ottla.client.producer.core import ProducerCore
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

log = logging.getLogger(__name__)

CLOSE_LIMIT_S: Final = 30.0
EXIT_LIMIT_S: Final = 1.0
NETWORK_CLOSE_MS: Final = 2_000.0
PATIENCE_S: Final = 0.02
"""How long a caller waits for a good portion of memory; then it takes the first bytes that are free."""

_alive: Final[weakref.WeakSet[Producer]] = weakref.WeakSet()


class Producer(HotPath):
    """Sends records to Kafka from ordinary, blocking code."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        self.settings = ProducerSettings(config, **settings).named("producer")
        self._loop = BackgroundLoop(f"ottla {self.settings.client_id}")
        self._core = ProducerCore(self.settings, self, wake=self._loop.call_soon)
        self._closing = threading.Lock()
        self._loop.run(self._core.start())
        _alive.add(self)

    # --- sending ---

    def _send_slowly(
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
        self._check_usable(record.topic)
        deadline = self._deadline()
        record, span = core.intake.begin(record)
        try:
            state = self._state_of(record.topic, record.partition, deadline)
            future = self._put(state, core.prepare(record, state), record.timestamp_ms, deadline)
        except OttlaError as error:
            core.intake.refused(error, span)
            raise
        core.intake.watch(future, on_delivery, span)
        return future if wants_future else None

    def _put(self, state: TopicState, prepared: Prepared, timestamp_ms: int | None, deadline: Deadline) -> SendFuture:
        key, value, headers, partition, needed_bytes = prepared
        while True:
            future: SendFuture | None = state.put(key, value, headers, timestamp_ms, partition, True)
            if future is not None:
                return future
            self._make_room_for(state, key, partition, needed_bytes, deadline)

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        partition: int | None = None,
        headers: HeaderItems | None = None,
        timestamp_ms: int | None = None,
    ) -> ManyFuture:
        """Send a list of values, or of (key, value) tuples: one future for all. All are checked before one is sent;
        when waiting for memory takes too long the error says how many were."""
        self._check_usable(topic_of(topic))
        deadline = self._deadline()
        state = self._state_of(topic, partition, deadline)
        now_ms = self._core.clock.now_ms() if timestamp_ms is None else timestamp_ms
        headers = headers_of(headers)
        many = self._core.intake.prepare_many(topic, values, headers, partition, now_ms)
        runs: list[Run] = []
        if many is None:  # something of the user's must see each record
            for key, value in map(pair_of, values):
                future = self.send(
                    topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
                )
                runs.append(future.as_run())
            return ManyFuture(runs, now_ms)
        index = 0
        while (index := many.put(state, index, runs)) < len(many.items):
            self._make_room_for(state, many.key_of(index), partition, many.needed_bytes(index), deadline)
        return ManyFuture(runs, many.timestamp_ms)

    def send_arrow(self, topic: str | None, table: Any, *, wants_future: bool = False) -> ManyFuture | None:
        """Send the rows of a pyarrow Table or RecordBatch: columns value, and key, partition, timestamp, headers if
        they are there; column topic if `topic` is None. The whole table is checked before a row is sent; each wait for
        memory is at most max.block.ms, and the error says how many rows were taken. See arrow_columns.py."""
        self._check_usable(topic or "")
        now_ms = self._core.clock.now_ms()
        parts = self._core.intake.prepare_arrow(topic, table)
        runs: list[Run] | None = [] if wants_future else None
        rows_before = 0
        for rows in parts:
            self._put_rows(rows, now_ms, runs, rows_before)
            rows_before += rows.count
        if runs is None:
            return None
        from ottla.client.producer.batches.arrow_columns import RowTimes

        return ManyFuture(runs, RowTimes(parts, now_ms))

    def _put_rows(self, rows: ArrowRows, now_ms: int, runs: list[Run] | None, rows_before: int) -> None:
        if self._core.intake.wants_each:
            for record in rows.records():
                future = self.send(record)
                if runs is not None:
                    runs.append(future.as_run())
            return
        states = [
            self._state_of(name, rows.highest_partition(place), self._deadline())
            for place, name in enumerate(rows.topics)
        ]
        writer = RowWriter(rows, states, now_ms)
        row = 0
        while (row := writer.put(row, runs)) < rows.count:
            wish = rows.key_at(row), rows.partition_at(row), rows.needed_bytes(row)
            try:
                self._make_room_for(states[rows.place_at(row)], *wish, self._deadline())
            except BufferExhausted as error:
                raise BufferExhausted(f"{error.detail}; the first {rows_before + row} rows were taken") from None

    def _deadline(self) -> Deadline:
        return Deadline(self._core.clock, self.settings.max_block_ms)

    def _make_room_for(
        self, state: TopicState, key: bytes | None, partition: int | None, needed_bytes: int, deadline: Deadline
    ) -> None:
        place = self._core.make_room(state, key, partition, needed_bytes, None)
        while (waiting := place) is not None:
            try:
                self._wait_at(waiting, deadline)
                place = self._core.make_room(state, key, partition, needed_bytes, waiting)
            except BaseException:
                self._core.accumulator.leave(waiting)
                raise

    def _state_of(self, topic: str, partition: int | None, deadline: Deadline) -> TopicState:
        state = self._core.known_state(topic, partition)
        if state is not None:
            return state
        left_ms = deadline.left_ms()
        return self._loop.run(self._core.find_topic(topic, partition, left_ms))

    def _wait_at(self, place: Place, deadline: Deadline) -> None:
        """Wait for memory. The line is served by the loop, so the loop itself must not stand in it."""
        clock = self._core.clock
        began_ms = clock.monotonic_ms()
        gate = threading.Event()
        place.notify = gate.set
        if place.is_granted:
            return
        self._core.loop.wake()
        is_loop = threading.get_ident() == self._core.thread_id
        granted = (not is_loop and gate.wait(min(PATIENCE_S, deadline.left_s()))) or place.is_granted
        if not granted:
            self._core.accumulator.press()
            granted = (not is_loop and gate.wait(deadline.left_s())) or place.is_granted
        now_ms = clock.monotonic_ms()
        self._core.metrics.took("bufferpool-wait", now_ms - began_ms, now_ms)
        if self._core.is_closed:
            self._check_usable("")
        if not granted:
            raise BufferExhausted(self._core.exhausted(place, now_ms - began_ms))

    def _check_usable(self, topic: str) -> None:
        self._loop.check_fork()
        self._core.check_may_send(topic)

    # --- waiting for everything ---

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until it is known what became of it. Raises SendFailed when records failed
        that nobody was told of, TimeoutError after `timeout` seconds."""
        self._loop.check_fork()
        clock = self._core.clock
        began_ms = clock.monotonic_ms()
        self._wait_for_all(None if timeout is None else Deadline(clock, seconds_of(timeout) * 1000))
        now_ms = clock.monotonic_ms()
        self._core.metrics.took("flush", now_ms - began_ms, now_ms)
        if (failed := self._core.failures.take()) is not None:
            raise failed

    def _wait_for_all(self, deadline: Deadline | None) -> None:
        accumulator = self._core.accumulator
        accumulator.change_flushing(1)
        try:
            self._core.loop.wake()
            with time_out_explained(accumulator.why_not_delivered):
                # The newest is mostly done last: one wait, where one for each batch would cost the sender time.
                for batch in reversed(accumulator.deliveries()):
                    if not batch.delivery.is_done:
                        _wait_for_batch(batch, deadline)
        finally:
            accumulator.change_flushing(-1)

    def close(self, timeout: float = CLOSE_LIMIT_S) -> None:
        """Send what was taken, abort an open transaction, end everything; at most `timeout` seconds. Raises
        SendFailed when records failed that nobody was told of. Calling it again does nothing."""
        with self._closing:
            if self._core.is_closed:
                return
            self._loop.check_fork()
            deadline = Deadline(self._core.clock, seconds_of(timeout) * 1000)
            self._core.is_closed = True
            self.is_hot = False
            _alive.discard(self)
            try:
                self._finish(deadline)
            finally:
                self._loop.close(max(EXIT_LIMIT_S, deadline.left_s()))
        if (failed := self._core.failures.take()) is not None:
            raise failed

    def _finish(self, deadline: Deadline) -> None:
        core = self._core
        with contextlib.suppress(TimeoutError):
            if core.transactions is not None and core.transactions.has_open_transaction:
                self._abort_at_close(deadline)
            else:
                self._wait_for_all(deadline)
        core.accumulator.is_closed = True
        left_ms = max(EXIT_LIMIT_S, deadline.left_s()) * 1000
        self._loop.run(core.close(timeout_ms=min(NETWORK_CLOSE_MS, left_ms)))

    def _abort_at_close(self, deadline: Deadline) -> None:
        try:
            left = deadline.left_s()
            self._loop.run(self._core.calls.abort(timeout_ms=left * 1000))
        except OttlaError as error:
            log.warning("the open transaction could not be aborted; the coordinator will do it: %s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except OttlaError as failed:
            # The first error is the one to see; this one must not hide it.
            log.error("while leaving after %s: %s", type(error).__name__, failed)

    # --- transactions ---

    def init_transactions(self, timeout: float | None = None) -> None:
        """Get the producer's identity, ending what a predecessor with this transactional.id left open."""
        self._transact(self._core.calls.init_transactions, timeout)

    def begin_transaction(self) -> None:
        """From here on, what is sent counts only if commit_transaction() succeeds."""
        self._loop.check_fork()
        self._loop.run(self._core.calls.begin())

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: GroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit these positions of a consumer group with the transaction."""
        self._loop.check_fork()
        self._loop.run(self._core.calls.send_offsets(offsets, group_metadata, self._limit_ms(timeout)))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait for all records and make them count. After an error: abort, or close if the error says so."""
        self._transact(self._core.calls.commit, timeout)

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """Wait for all records and offsets and leave the transaction open, for Admin.end_transaction to end, by
        whichever process has what this gives. Afterwards close() aborts nothing; init_transactions() begins again."""
        self._loop.check_fork()
        self.is_hot = False
        return self._loop.run(self._core.calls.prepare(timeout_ms=self._limit_ms(timeout)))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Make sure that nothing of the transaction counts."""
        self._transact(self._core.calls.abort, timeout)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """begin, and at the end of the block commit; an exception in the block aborts and goes on."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            try:
                self.abort_transaction()
            except OttlaError as error:
                log.error("the transaction could not be aborted: %s", error)
            raise
        try:
            self.commit_transaction()
        except OttlaError:
            with contextlib.suppress(OttlaError):
                self.abort_transaction()
            raise

    def _transact(self, call: Callable[..., Any], timeout: float | None) -> None:
        self._loop.check_fork()
        self.is_hot = False
        self._loop.run(call(timeout_ms=self._limit_ms(timeout)))

    def _limit_ms(self, timeout: float | None) -> float:
        return float(self.settings.max_block_ms) if timeout is None else seconds_of(timeout) * 1000

    # --- looking ---

    def partitions_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """What is known of a topic's partitions; waits at most max.block.ms for it."""
        self._loop.check_fork()
        deadline = self._deadline()
        self._state_of(topic_of(topic), None, deadline)
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
        return f"<Producer {self.settings.client_id} {'closed' if self._core.is_closed else f'{len(self)} waiting'}>"


def _wait_for_batch(batch: ProducerBatch, deadline: Deadline | None) -> None:
    """Until every record of a batch is done, also when it is split meanwhile."""
    delivery = batch.delivery
    while not delivery.is_done:
        if delivery.parts is not None:
            for index in range(batch.record_count):
                if not delivery.is_done_at(index):
                    wait_until_done(delivery, index, _left(deadline))
            return
        wait_until_done(delivery, 0, _left(deadline))


def _left(deadline: Deadline | None) -> float | None:
    return None if deadline is None else deadline.left_s()


def _at_exit() -> None:
    for producer in list(_alive):
        waiting = len(producer)
        if not waiting:
            continue
        try:
            producer.close(EXIT_LIMIT_S)
        except OttlaError as error:
            log.error("the program ends and the producer %s was not closed: %s", producer.settings.client_id, error)
        else:
            log.warning(
                "the program ends and the producer %s was not closed; %d records were sent at the last moment."
                " Call close(), or use it in a with block",
                producer.settings.client_id,
                waiting,
            )


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alive.clear)  # they are the parent's to close
