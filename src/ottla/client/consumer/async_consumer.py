"""The asyncio face: the same calls as Consumer, awaited where they wait, on the caller's own loop and without a thread.

    async with AsyncConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        async for record in consumer:
            ...

1. Nothing is connected before the first call that is awaited, or `async with`.
2. poll() is for one task at a time. Cancelling it loses nothing: records are taken in one step, and a change of the
   group that it had begun goes on, with its listener; the next poll, or the end, waits for it.
3. poll() lets the other tasks have their turn, also when records are there; heartbeats go on while the application
   awaits something else, but not while it computes.
4. Listeners and callbacks of commits may be coroutines; they are awaited inside poll().
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.arguments import callable_of, partition_of, partitions_of, seconds_of, topic_of
from ottla.client.cluster_view import PartitionInfo
from ottla.client.connections import within
from ottla.client.consumer.callbacks import CallbackDue, CommitCallback
from ottla.client.consumer.consumer import ConcurrentUse, WokenUp
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
from ottla.client.consumer.membership.decisions import Change, Revoke
from ottla.client.consumer.offset_reset import EARLIEST, EARLIEST_TIMESTAMP, LATEST, LATEST_TIMESTAMP
from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.client.deadline import Deadline
from ottla.client.loop import ClientClosed, ForkedClient
from ottla.clock import Clock
from ottla.errors import OttlaError
from ottla.net.link import Transport
from ottla.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    import pyarrow


class AsyncConsumer(ConsumerFace):
    """Reads records. Arguments are topics to subscribe to and one mapping of settings; keywords are settings too."""

    def __init__(
        self,
        *arguments: str | Mapping[str, object],
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        self._first_topics = self._prepare(arguments, settings)
        self._news = asyncio.Event()
        self._is_polling = False
        self._woken = False
        self._starting: asyncio.Task[None] | None = None
        self._errand: asyncio.Task[None] | None = None
        self._process_id = os.getpid()
        self._core = ConsumerCore(
            self._settings, news=self._news.set, wake_loop=self._wake, transport=transport, clock=clock, random=random
        )

    async def start(self) -> Self:
        """Begin; every other call does it too if need be."""
        self._check_usable()
        if self._process_id != os.getpid():
            raise ForkedClient(f"{self._settings.client_id} in process {os.getpid()}")
        loop = asyncio.get_running_loop()
        if self._starting is None:
            self._starting = loop.create_task(self._start())
        self._check_loop(self._starting, loop)
        if not self._starting.done():
            await asyncio.shield(self._starting)
        self._starting.result()
        return self

    def _check_loop(self, starting: asyncio.Task[None], loop: asyncio.AbstractEventLoop) -> None:
        if starting.get_loop() is not loop:
            raise RuntimeError(f"{self._settings.client_id} belongs to another event loop; make one for this loop")

    async def _start(self) -> None:
        await self._core.start()
        if self._first_topics:
            self._subscribe(self._first_topics, None, None)
            await self._subscription_changed()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    def _wake(self) -> None:
        # Before the start there is nobody to wake; the start looks at everything anyway.
        if self._starting is not None and self._starting.done():
            self._core.wake()

    # --- what to read ---

    async def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: object = None,
    ) -> None:
        """Read these topics, or those that match a pattern, as a member of the group."""
        await self.start()
        self._subscribe(topics, pattern, listener)
        await self._subscription_changed()

    async def _subscription_changed(self) -> None:
        await self._core.want_topics()
        await self._group.subscription_changed()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without sharing them with a group."""
        await self.start()
        self._core.assign(partitions_of(partitions))
        await self._core.want_topics()

    async def unsubscribe(self) -> None:
        """Read nothing any more: leave the group, forget the assignment."""
        await self.start()
        if self._core.group is not None and self._core.subscription.is_group_managed:
            await self._leave(self._timeout_ms(None))
        self._core.unsubscribe()
        self._left, self._left_at = [], 0
        await self._core.want_topics()

    # --- reading ---

    async def poll(
        self, timeout: float | None = None, *, max_records: int | None = None, timeout_ms: float | None = None
    ) -> list[ConsumerRecord]:
        """Records, at most `max_records` (max.poll.records); waits up to `timeout` seconds (1) for the first."""
        limit = self._settings.max_poll_records if max_records is None else max_records
        if self._left_at < len(self._left):
            return self._pop_left(limit)
        found = await self._poll(seconds(timeout, timeout_ms, 1.0), self._core.reader.read, limit)
        return self._delivered(found) if found else []

    async def poll_arrow(
        self, timeout: float | None = None, *, max_records: int | None = None, timeout_ms: float | None = None
    ) -> pyarrow.Table | None:
        """The same as an Arrow table; see Consumer.poll_arrow."""
        reader = self._core.reader
        take, rows = (reader.read_portion, TABLE_ROWS) if max_records is None else (reader.read_table, max_records)
        table = await self._poll(seconds(timeout, timeout_ms, 1.0), take, rows)
        if table is not None:
            self._core.metrics.records_returned(table.num_rows, self._core.network.clock.monotonic_ms())
        return table

    async def _poll(self, timeout: float, take: Any, limit: int) -> Any:
        await self.start()
        checked_limit(limit)
        self._check_subscribed()
        if self._is_polling:
            raise ConcurrentUse()
        self._is_polling = True
        try:
            return await self._poll_until(Deadline(self._core.clock, timeout * 1000), take, limit)
        finally:
            self._is_polling = False

    async def _poll_until(self, deadline: Deadline, take: Any, limit: int) -> Any:
        core = self._core
        core.metrics.polled(core.network.clock.monotonic_ms())
        await core.clock.sleep(0)
        while True:
            self._notify_polled()
            self._news.clear()
            if core.attention or self._woken or self._errand is not None:
                await self._attend()
            found = take(limit)
            if found:
                return found
            if deadline.is_over:
                return found
            await self._wait_for_news(min(deadline.left_ms(), self._turn_ms()))
            self._check_usable()

    async def _wait_for_news(self, limit_ms: float) -> None:
        """A timer that is news too costs less than a time-out, which throws an exception into this task."""
        timer = self._core.clock.call_later(limit_ms, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    def _notify_polled(self) -> None:
        """Whoever waits in poll() keeps pace, however long it is, and has done what earlier polls gave."""
        group = self._core.group
        if group is not None and group.polled(self._core.network.clock.monotonic_ms()):
            group.commit_soon(self._consumed())

    async def _attend(self) -> None:
        """What only the caller may do: raise errors, tell listeners, run callbacks."""
        if self._woken:
            self._woken = False
            raise WokenUp()
        await self._errand_done()
        while self._core.attention:
            item = self._core.attention.popleft()
            if isinstance(item, Exception):
                if self._core.is_resolved(item):
                    continue
                raise item
            if isinstance(item, CallbackDue):
                await self._do_whole(_awaited(item.callback(item.offsets, item.error)))
            else:
                await self._do_whole(self._change(item))

    async def _do_whole(self, errand: Coroutine[Any, Any, None]) -> None:
        """Do it in a task of its own, which goes on if this poll is cancelled: nobody else would do the rest, and a
        group waits for it."""
        self._errand = asyncio.get_running_loop().create_task(errand)
        await self._errand_done()

    async def _errand_done(self) -> None:
        errand = self._errand
        if errand is None or errand is asyncio.current_task():
            return
        try:
            await asyncio.shield(errand)
        finally:
            if errand.done():
                self._errand = None

    async def _end_errand(self, limit_ms: float) -> Exception | None:
        """Before this member leaves: what a cancelled poll began comes to its end, or is cut off when the time is
        over. Gives its error."""
        errand = self._errand
        if errand is None or errand is asyncio.current_task():
            return None
        if not await within(errand, self._core.clock, limit_ms):
            errand.cancel()
            await asyncio.wait((errand,))
        self._errand = None
        error = None if errand.cancelled() else errand.exception()
        return error if isinstance(error, Exception) else None

    async def _change(self, change: Change, commit_limit_ms: float | None = None) -> None:
        """Carry out what the group decided, with the listener; its error comes out when all is done."""
        if isinstance(change, Revoke) and self._commits_by_itself:
            await self._group.commit_before_revoke(self._consumed(), commit_limit_ms)
        failure: BaseException | None = None
        called = self._listener.calls(change)
        if called is not None and called[0] != "assigned":
            failure = await self._call_listener(*called)
        self._carry_out(change)
        if called is not None and called[0] == "assigned":
            failure = await self._call_listener(*called)
        self._group.carried_out(change)
        if failure is not None:
            raise failure

    async def _call_listener(self, kind: str, method: Any, partitions: list[TopicPartition]) -> BaseException | None:
        clock = self._core.network.clock
        begun_ms = clock.monotonic_ms()
        try:
            await _awaited(method(partitions))
        except BaseException as error:
            return error
        finally:
            now_ms = clock.monotonic_ms()
            self._core.metrics.listened(kind, now_ms - begun_ms, now_ms)
        return None

    def wakeup(self) -> None:
        """Let a poll() in another task raise WokenUp, the one that waits now or the next."""
        self._woken = True
        self._news.set()

    async def __aiter__(self) -> AsyncGenerator[ConsumerRecord, None]:
        """Records one by one, without end; or until none comes for consumer.timeout.ms."""
        limit_ms = self._settings.consumer_timeout_ms
        wait = ITERATION_WAIT_S if limit_ms is None else limit_ms / 1000
        while not self._closed:
            if self._left_at >= len(self._left):
                try:
                    records = await self.poll(wait)
                except ClientClosed:  # by another task, which is how it tells this one to end
                    return
                if not records:
                    if limit_ms is not None:
                        return
                    continue
                self._left, self._left_at = records, 0
            while self._left_at < len(self._left):
                record = self._left[self._left_at]
                self._left_at += 1
                yield record

    # --- positions ---

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """The first offset that there is, of these or of all that are assigned; looked up when it is needed."""
        await self.start()
        self._core.reset(checked_partitions(partitions), EARLIEST)
        self._forget_left(self._partitions_or_all(partitions))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Behind the last record, of these or of all that are assigned; looked up when it is needed."""
        await self.start()
        self._core.reset(checked_partitions(partitions), LATEST)
        self._forget_left(self._partitions_or_all(partitions))

    async def seek_to_time(self, times_ms: Mapping[TopicPartition, int], *, timeout: float | None = None) -> None:
        """The first record at or after these times (ms since 1970), or the end if there is none."""
        for partition, each in (await self.offsets_for_times(times_ms, timeout=timeout)).items():
            if each is None:
                await self.seek_to_end(partition)
            else:
                self.seek(partition, OffsetAndMetadata(each.offset, "", each.leader_epoch))

    async def position(self, partition: TopicPartition, *, timeout: float | None = None) -> int:
        """The offset of the next record."""
        await self.start()
        held = self._held_position(partition)
        if held is not None:
            return held
        return await self._core.position(partition_of(partition), self._timeout_ms(timeout))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each."""
        return await self._edges(partitions, EARLIEST_TIMESTAMP, timeout)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each that this consumer can see."""
        return await self._edges(partitions, LATEST_TIMESTAMP, timeout)

    async def _edges(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        await self.start()
        wanted = dict.fromkeys(partitions_of(partitions), timestamp)
        found = await self._core.list_offsets(wanted, self._timeout_ms(timeout))
        return {partition: each.offset for partition, each in found.items() if each is not None}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none."""
        await self.start()
        return await self._core.list_offsets(self._checked_times(times_ms), self._timeout_ms(timeout))

    async def committed(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these, or for all that are assigned."""
        await self.start()
        return await self._group.committed(self._partitions_or_all(partitions), self._timeout_ms(timeout))

    async def commit(self, offsets: Offsets | ConsumerRecord | None = None, *, timeout: float | None = None) -> None:
        """Commit what polls gave, or these offsets, or the offset after a record; returns when the group has them."""
        await self.start()
        found = await self._group.commit(self._offsets(offsets), self._timeout_ms(timeout))
        self._interceptors.on_commit(found)

    def commit_async(
        self, offsets: Offsets | ConsumerRecord | None = None, callback: CommitCallback | None = None
    ) -> None:
        """The same without waiting; `callback(offsets, error)` is called, or awaited, by a later poll()."""
        self._check_usable()
        on_commit = None if callback is None else callable_of(callback, "the callback of a commit")
        self._group.commit_in_background(self._offsets(offsets), on_commit, self._interceptors)

    # --- the cluster ---

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, each at its index."""
        await self.start()
        return await self._core.partitions_for(topic_of(topic), self._timeout_ms(timeout))

    async def topics(self, *, timeout: float | None = None) -> dict[str, tuple[PartitionInfo, ...]]:
        """All topics this consumer may read."""
        await self.start()
        return await self._core.topics(self._timeout_ms(timeout))

    def enforce_rebalance(self, reason: str = "") -> None:
        """Ask the group to share the partitions again."""
        self._check_usable()
        self._group.rejoin(reason)

    # --- the end ---

    async def close(self, timeout: float = CLOSE_TIMEOUT_S, *, commit: bool = True) -> None:
        """Commit if auto commit is on (unless `commit` is False), leave the group and end everything, within `timeout`
        seconds."""
        if self._closed:
            return
        self._commits_by_itself &= commit
        if self._starting is None or self._process_id != os.getpid():
            self._closed = True
            return
        self._check_loop(self._starting, asyncio.get_running_loop())
        await asyncio.wait((self._starting,))
        deadline = Deadline(self._core.clock, seconds_of(timeout) * 1000)
        failure: Exception | None = None
        try:
            if self._core.group is not None:
                failure = await self._leave_quietly(timeout * 1000)
        finally:
            self._closed = True
            self._interceptors.close()
            await self._core.close(deadline.left_ms())
            self._news.set()
        if failure is not None:
            raise failure

    async def _leave_quietly(self, timeout_ms: float) -> Exception | None:
        """Leaving may fail without harm: the group notices by itself. An error of the listener is the user's."""
        try:
            if self._core.subscription.is_group_managed:
                await self._leave(timeout_ms)
            elif self._commits_by_itself:
                await self._group.commit_before_revoke(self._consumed(), timeout_ms)
        except OttlaError:
            return None
        except Exception as error:
            return error
        return None

    async def _leave(self, timeout_ms: float) -> None:
        """Give the partitions back, with the listener, then say goodbye to the group."""
        deadline = Deadline(self._core.clock, timeout_ms)
        failure = await self._end_errand(timeout_ms)
        leaving = asyncio.get_running_loop().create_task(self._group.leave(deadline.left_ms()))
        leaving.add_done_callback(lambda _: self._news.set())
        while not leaving.done():
            self._news.clear()
            while self._core.attention:
                item = self._core.attention.popleft()
                if isinstance(item, Exception | CallbackDue):
                    continue
                try:
                    await self._change(item, deadline.left_ms())
                except Exception as error:
                    failure = error
            if not leaving.done():
                await self._news.wait()
        if failure is not None:
            raise failure


async def _awaited(outcome: Any) -> None:
    if inspect.isawaitable(outcome):
        await outcome
