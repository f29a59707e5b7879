"""The sync face: a consumer for programs that are not async.

    with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        for record in consumer:
            ...

A thread of its own fetches ahead and keeps the membership alive; poll() returns what is there, in the caller's thread.
The names are Java's in snake_case; times are seconds (`timeout`) or milliseconds (`timeout_ms`).

1. poll() is for one thread at a time. wakeup() may be called from any thread, and the other calls do no harm there.
2. Every call ends: poll() after its timeout, the others after default.api.timeout.ms, close() after 30 s, unless they
   are told otherwise. Ctrl-C ends any of them.
3. Rebalance listeners run inside poll(), as in Java. Between polls the group cannot take a partition away; it waits,
   at most for max.poll.interval.ms.
4. In a process that was forked every call raises ForkedClient: the thread stayed in the parent.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Coroutine, Generator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.client.arguments import callable_of, partition_of, partitions_of, seconds_of, topic_of
from ottla.client.cluster_view import PartitionInfo
from ottla.client.consumer.callbacks import CallbackDue, CommitCallback
from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.face import (
    CLOSE_TIMEOUT_S,
    ITERATION_WAIT_S,
    TABLE_ROWS,
    ConsumerFace,
    Offsets,
    checked_limit,
    checked_partitions,
    seconds,
)
from ottla.client.consumer.listeners import Listener
from ottla.client.consumer.membership.decisions import Change, Revoke
from ottla.client.consumer.offset_reset import EARLIEST, EARLIEST_TIMESTAMP, LATEST, LATEST_TIMESTAMP
from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.client.deadline import Deadline
from ottla.client.loop import BackgroundLoop, ForkedClient
from ottla.errors import OttlaError
from ottla.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")
log = logging.getLogger(__name__)


class WokenUp(OttlaError):
    """wakeup() was called while this consumer was polling."""


class ConcurrentUse(OttlaError):
    """Two threads poll the same consumer. Give each thread a consumer of its own, or take turns."""


class Consumer(ConsumerFace):
    """Reads records. Arguments are topics to subscribe to and one mapping of settings; keywords are settings too."""

    def __init__(self, *arguments: str | Mapping[str, object], **settings: Any) -> None:
        topics = self._prepare(arguments, settings)
        self._loop = BackgroundLoop(f"ottla-{self._settings.client_id}")
        self._news = threading.Event()
        self._polling = threading.Lock()
        self._woken = False
        self._generator: Generator[ConsumerRecord, None, None] | None = None
        self._core = ConsumerCore(self._settings, news=self._news.set, wake_loop=self._wake, portions_ahead=2)
        self._loop.start()
        try:
            self._loop.run(self._core.start(), CLOSE_TIMEOUT_S)
            if topics:
                self.subscribe(topics)
        except BaseException:
            self._give_up_starting()
            raise

    def _give_up_starting(self) -> None:
        """What was begun is ended: connections, too, or their sockets would be left open."""
        self._closed = True
        try:
            self._loop.run(self._core.close(0), CLOSE_TIMEOUT_S)
        except Exception as error:
            log.debug("a consumer that could not start was not ended in order: %s", error)
        finally:
            self._loop.close(CLOSE_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _wake(self) -> None:
        self._loop.call_soon(self._core.wake)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the loop do it; whatever it does has a time limit of its own."""
        if self._closed:
            work.close()
            self._check_usable()
        return self._loop.run(work)

    # --- what to read ---

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: object = None,
    ) -> None:
        """Read these topics, or those that match a pattern, as a member of the group."""
        self._check_usable()
        if Listener(listener).has_coroutines:
            raise TypeError("this listener has coroutines, which only the consumer of ottla.aio can await")
        self._subscribe(topics, pattern, listener)
        self._run(self._core.want_topics())
        self._run(self._group.subscription_changed())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without sharing them with a group."""
        self._check_usable()
        self._core.assign(partitions_of(partitions))
        self._run(self._core.want_topics())

    def unsubscribe(self) -> None:
        """Read nothing any more: leave the group, forget the assignment."""
        self._check_usable()
        if self._core.group is not None and self._core.subscription.is_group_managed:
            self._leave(self._timeout_ms(None))
        self._core.unsubscribe()
        self._left, self._left_at = [], 0
        self._run(self._core.want_topics())

    # --- reading ---

    def poll(
        self, timeout: float | None = None, *, max_records: int | None = None, timeout_ms: float | None = None
    ) -> list[ConsumerRecord]:
        """Records, at most `max_records` (max.poll.records); waits up to `timeout` seconds (1) for the first."""
        limit = self._settings.max_poll_records if max_records is None else max_records
        if self._left_at < len(self._left):
            return self._pop_left(limit)
        found = self._poll(seconds(timeout, timeout_ms, 1.0), self._core.reader.read, limit)
        return self._delivered(found) if found else []

    def poll_arrow(
        self, timeout: float | None = None, *, max_records: int | None = None, timeout_ms: float | None = None
    ) -> pyarrow.Table | None:
        """The same as an Arrow table (topic, partition, offset, timestamp, key, value, headers), None without records.

        Whole batches are given, so there may be a few more rows than `max_records` asks for. Without it a table has
        about two megabytes of what was fetched. Interceptors and deserializers are not called: columns hold bytes.
        """
        reader = self._core.reader
        take, rows = (reader.read_portion, TABLE_ROWS) if max_records is None else (reader.read_table, max_records)
        table = self._poll(seconds(timeout, timeout_ms, 1.0), take, rows)
        if table is not None:
            self._core.metrics.records_returned(table.num_rows, self._core.network.clock.monotonic_ms())
        return table

    def _poll(self, timeout: float, take: Any, limit: int) -> Any:
        self._check_usable()
        self._loop.check_fork()
        checked_limit(limit)
        self._check_subscribed()
        if not self._polling.acquire(blocking=False):
            raise ConcurrentUse()
        try:
            return self._poll_until(Deadline(self._core.clock, timeout * 1000), take, limit)
        finally:
            self._polling.release()

    def _poll_until(self, deadline: Deadline, take: Any, limit: int) -> Any:
        core = self._core
        core.metrics.polled(core.network.clock.monotonic_ms())
        while True:
            self._notify_polled()
            self._news.clear()
            if core.attention or self._woken:
                self._attend()
            found = take(limit)
            if found:
                return found
            left_s = deadline.left_s()
            if left_s <= 0:
                return found
            self._news.wait(min(left_s, self._turn_ms() / 1000))

    def _notify_polled(self) -> None:
        """Whoever waits in poll() keeps pace, however long it is, and has done what earlier polls gave."""
        group = self._core.group
        if group is not None and group.polled(self._core.network.clock.monotonic_ms()):
            self._loop.call_soon(group.commit_soon, self._consumed())

    def _attend(self) -> None:
        """What only the caller may do: raise errors, tell listeners, run callbacks."""
        if self._woken:
            self._woken = False
            raise WokenUp()
        while self._core.attention:
            item = self._core.attention.popleft()
            if isinstance(item, Exception):
                if self._core.is_resolved(item):
                    continue
                raise item
            if isinstance(item, CallbackDue):
                item.callback(item.offsets, item.error)
            else:
                self._change(item)

    def _change(self, change: Change, commit_limit_ms: float | None = None) -> None:
        """Carry out what the group decided, with the listener; its error comes out when all is done. So does Ctrl-C:
        nobody would go on with a change that was left in the middle, and the whole group would wait for it."""
        failure: BaseException | None = None
        if isinstance(change, Revoke) and self._commits_by_itself:
            failure = self._commit_before_revoke(commit_limit_ms)
        called = self._listener.calls(change)
        if called is not None and called[0] != "assigned":
            failure = self._call_listener(*called) or failure
        self._carry_out(change)
        if called is not None and called[0] == "assigned":
            failure = self._call_listener(*called) or failure
        self._loop.call_soon(self._group.carried_out, change)
        if failure is not None:
            raise failure

    def _commit_before_revoke(self, limit_ms: float | None) -> BaseException | None:
        try:
            self._run(self._group.commit_before_revoke(self._consumed(), limit_ms))
        except OttlaError:  # the client itself has ended
            raise
        except BaseException as error:
            return error
        return None

    def _call_listener(self, kind: str, method: Any, partitions: list[TopicPartition]) -> BaseException | None:
        clock = self._core.network.clock
        begun_ms = clock.monotonic_ms()
        try:
            method(partitions)
        except BaseException as error:
            return error
        finally:
            now_ms = clock.monotonic_ms()
            self._core.metrics.listened(kind, now_ms - begun_ms, now_ms)
        return None

    def wakeup(self) -> None:
        """Let a poll() in another thread raise WokenUp, the one that waits now or the next."""
        self._woken = True
        self._news.set()

    def __iter__(self) -> Generator[ConsumerRecord, None, None]:
        """Records one by one, without end; or until none comes for consumer.timeout.ms."""
        limit_ms = self._settings.consumer_timeout_ms
        wait = ITERATION_WAIT_S if limit_ms is None else limit_ms / 1000
        while not self._closed:
            if self._left_at >= len(self._left):
                records = self.poll(wait)
                if not records:
                    if limit_ms is not None:
                        return
                    continue
                self._left, self._left_at = records, 0
            while self._left_at < len(self._left):
                record = self._left[self._left_at]
                self._left_at += 1
                yield record

    def __next__(self) -> ConsumerRecord:
        if self._generator is None:
            self._generator = iter(self)
        try:
            return next(self._generator)
        except StopIteration:
            self._generator = None
            raise

    # --- positions ---

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """The first offset that there is, of these or of all that are assigned; looked up when it is needed."""
        self._check_usable()
        self._core.reset(checked_partitions(partitions), EARLIEST)
        self._forget_left(self._partitions_or_all(partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Behind the last record, of these or of all that are assigned; looked up when it is needed."""
        self._check_usable()
        self._core.reset(checked_partitions(partitions), LATEST)
        self._forget_left(self._partitions_or_all(partitions))

    def seek_to_time(self, times_ms: Mapping[TopicPartition, int], *, timeout: float | None = None) -> None:
        """The first record at or after these times (ms since 1970), or the end if there is none."""
        found = self.offsets_for_times(times_ms, timeout=timeout)
        for partition, each in found.items():
            if each is None:
                self.seek_to_end(partition)
            else:
                self.seek(partition, OffsetAndMetadata(each.offset, "", each.leader_epoch))

    def position(self, partition: TopicPartition, *, timeout: float | None = None) -> int:
        """The offset of the next record."""
        held = self._held_position(partition)
        if held is not None:
            return held
        return self._run(self._core.position(partition_of(partition), self._timeout_ms(timeout)))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each."""
        return self._edges(partitions, EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each that this consumer can see."""
        return self._edges(partitions, LATEST_TIMESTAMP, timeout)

    def _edges(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions_of(partitions), timestamp)
        found = self._run(self._core.list_offsets(wanted, self._timeout_ms(timeout)))
        return {partition: each.offset for partition, each in found.items() if each is not None}

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none."""
        return self._run(self._core.list_offsets(self._checked_times(times_ms), self._timeout_ms(timeout)))

    def committed(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these, or for all that are assigned."""
        wanted = self._partitions_or_all(partitions)
        return self._run(self._group.committed(wanted, self._timeout_ms(timeout)))

    def commit(self, offsets: Offsets | ConsumerRecord | None = None, *, timeout: float | None = None) -> None:
        """Commit what polls gave, or these offsets, or the offset after a record; returns when the group has them."""
        self._check_usable()
        found = self._run(self._group.commit(self._offsets(offsets), self._timeout_ms(timeout)))
        self._interceptors.on_commit(found)

    def commit_async(
        self, offsets: Offsets | ConsumerRecord | None = None, callback: CommitCallback | None = None
    ) -> None:
        """The same without waiting; `callback(offsets, error)` is called by a later poll()."""
        self._check_usable()
        on_commit = None if callback is None else callable_of(callback, "the callback of a commit")
        self._loop.call_soon(self._group.commit_in_background, self._offsets(offsets), on_commit, self._interceptors)

    # --- the cluster ---

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, each at its index."""
        return self._run(self._core.partitions_for(topic_of(topic), self._timeout_ms(timeout)))

    def topics(self, *, timeout: float | None = None) -> dict[str, tuple[PartitionInfo, ...]]:
        """All topics this consumer may read."""
        return self._run(self._core.topics(self._timeout_ms(timeout)))

    def enforce_rebalance(self, reason: str = "") -> None:
        """Ask the group to share the partitions again."""
        self._check_usable()
        self._loop.call_soon(self._group.rejoin, reason)

    # --- the end ---

    def close(self, timeout: float = CLOSE_TIMEOUT_S, *, commit: bool = True) -> None:
        """Commit if auto commit is on (unless `commit` is False), leave the group and end everything, within `timeout`
        seconds. A second call does nothing."""
        if self._closed:
            return
        self._commits_by_itself &= commit
        try:
            self._loop.check_fork()
        except ForkedClient:
            self._closed = True
            return
        deadline = Deadline(self._core.clock, seconds_of(timeout) * 1000)
        failure: Exception | None = None
        try:
            if self._core.group is not None:
                failure = self._leave_quietly(timeout * 1000)
        finally:
            self._closed = True
            self._interceptors.close()
            left_s = deadline.left_s()
            try:
                self._loop.run(self._core.close(left_s * 1000), left_s + 1.0)
            except TimeoutError:
                pass
            self._loop.close(1.0)
        if failure is not None:
            raise failure

    def _leave_quietly(self, timeout_ms: float) -> Exception | None:
        """Leaving may fail without harm: the group notices by itself. An error of the listener is the user's."""
        try:
            if self._core.subscription.is_group_managed:
                self._leave(timeout_ms)
            elif self._commits_by_itself:
                self._run(self._group.commit_before_revoke(self._consumed(), timeout_ms))
        except OttlaError:
            return None
        except Exception as error:
            return error
        return None

    def _leave(self, timeout_ms: float) -> None:
        """Give the partitions back, with the listener, then say goodbye to the group."""
        deadline = Deadline(self._core.clock, timeout_ms)
        failure: Exception | None = None
        leaving = self._loop.submit(self._group.leave(timeout_ms))
        leaving.add_done_callback(lambda _: self._news.set())
        while not leaving.done() and not deadline.is_over:
            self._news.clear()
            while self._core.attention:
                item = self._core.attention.popleft()
                if isinstance(item, Exception | CallbackDue):
                    continue
                try:
                    self._change(item, deadline.left_ms())
                except Exception as error:
                    failure = error
            if not leaving.done():
                self._news.wait(deadline.left_s())
        if failure is not None:
            raise failure
