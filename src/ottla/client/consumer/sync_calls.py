# Made from async_calls.py by `make faces` (packaging/faces.py). Change that file, not this one.
"""What both faces of the consumer do: subscribe, poll, positions, commits, close. One text for two.

async_calls.py is that text; sync_calls.py is made of it by `make faces` and is the same without `await`. What a task
and a thread do in their own way is named without a body at the top of the class, and stands in async_consumer.py and
consumer.py with one; how they wait is in ../task_waits.py and ../thread_waits.py. A task may be cancelled in the middle
of a change of the group, which then has to go on without it; a thread sees a change through itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ottla.client.arguments import callable_of, partition_of, partitions_of, seconds_of, topic_of
from ottla.client.cluster_view import PartitionInfo
from ottla.client.consumer.callbacks import CallbackDue, CommitCallback
from ottla.client.consumer.face import (
    CLOSE_TIMEOUT_S,
    ITERATION_WAIT_S,
    TABLE_ROWS,
    ConcurrentUse,
    ConsumerFace,
    Offsets,
    WokenUp,
    checked_limit,
    checked_partitions,
    seconds,
)
from ottla.client.consumer.membership.decisions import Change, Revoke
from ottla.client.consumer.offset_reset import EARLIEST, EARLIEST_TIMESTAMP, LATEST, LATEST_TIMESTAMP
from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.client.deadline import Deadline
from ottla.client.thread_waits import ThreadWaits
from ottla.errors import OttlaError
from ottla.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    import pyarrow


class ConsumerCalls(ConsumerFace, ThreadWaits):
    """Everything of a consumer but its constructor and what its kind of caller does in its own way."""

    # --- in its own way ---

    _iteration_ends_with: tuple[type[Exception], ...] = ()
    """Errors of a poll that end an iteration without being raised."""
    _errand: Any = None
    """What a poll that was cancelled left in the middle; a thread leaves nothing."""

    def _finish_errand(self) -> None:
        """Wait for it, and raise its error."""
        raise NotImplementedError

    def _whole(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Call something of the user's to its end, whatever becomes of this poll."""
        raise NotImplementedError

    def _commit_before_revoke(self, limit_ms: float | None) -> BaseException | None:
        """Commit what polls gave; gives the error with which a change goes on all the same."""
        raise NotImplementedError

    def _leave(self, timeout_ms: float) -> None:
        """Give the partitions back, with the listener, then say goodbye to the group."""
        raise NotImplementedError

    # --- what to read ---

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: object = None,
    ) -> None:
        """Read these topics, or those that match a pattern, as a member of the group."""
        self._ready()
        self._subscribe(topics, pattern, listener)
        self._subscription_changed()

    def _subscription_changed(self) -> None:
        self._run(self._core.want_topics())
        self._run(self._group.subscription_changed())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without sharing them with a group."""
        self._ready()
        self._core.assign(partitions_of(partitions))
        self._run(self._core.want_topics())

    def unsubscribe(self) -> None:
        """Read nothing any more: leave the group, forget the assignment."""
        self._ready()
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
        self._ready()
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
        self._give_turn()
        while True:
            self._notify_polled()
            self._news.clear()
            if core.attention or self._woken or self._errand is not None:
                self._attend()
            found = take(limit)
            if found:
                return found
            if deadline.is_over:
                return found
            self._wait_for_news(min(deadline.left_ms(), self._turn_ms()))

    def _notify_polled(self) -> None:
        """Whoever waits in poll() keeps pace, however long it is, and has done what earlier polls gave."""
        group = self._core.group
        if group is not None and group.polled(self._core.network.clock.monotonic_ms()):
            self._soon(group.commit_soon, self._consumed())

    def _attend(self) -> None:
        """What only the caller may do: raise errors, tell listeners, run callbacks."""
        if self._woken:
            self._woken = False
            raise WokenUp()
        if self._errand is not None:
            self._finish_errand()
        while self._core.attention:
            item = self._core.attention.popleft()
            if isinstance(item, Exception):
                if self._core.is_resolved(item):
                    continue
                raise item
            if isinstance(item, CallbackDue):
                self._whole(item.callback, item.offsets, item.error)
            else:
                self._whole(self._change, item)

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
        self._soon(self._group.carried_out, change)
        if failure is not None:
            raise failure

    def _change_last(self, deadline: Deadline) -> Exception | None:
        """Carry out what the group decided while this member leaves it; gives the last error of a listener."""
        failure: Exception | None = None
        while self._core.attention:
            item = self._core.attention.popleft()
            if isinstance(item, Exception | CallbackDue):
                continue
            try:
                self._change(item, deadline.left_ms())
            except Exception as error:
                failure = error
        return failure

    def _call_listener(self, kind: str, method: Any, partitions: list[TopicPartition]) -> BaseException | None:
        clock = self._core.network.clock
        begun_ms = clock.monotonic_ms()
        try:
            self._finish(method(partitions))
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
                try:
                    records = self.poll(wait)
                except self._iteration_ends_with:
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

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """The first offset that there is, of these or of all that are assigned; looked up when it is needed."""
        self._ready()
        self._core.reset(checked_partitions(partitions), EARLIEST)
        self._forget_left(self._partitions_or_all(partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Behind the last record, of these or of all that are assigned; looked up when it is needed."""
        self._ready()
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
        self._ready()
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
        self._ready()
        wanted = dict.fromkeys(partitions_of(partitions), timestamp)
        found = self._run(self._core.list_offsets(wanted, self._timeout_ms(timeout)))
        return {partition: each.offset for partition, each in found.items() if each is not None}

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none."""
        self._ready()
        return self._run(self._core.list_offsets(self._checked_times(times_ms), self._timeout_ms(timeout)))

    def committed(
        self, *partitions: TopicPartition, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for these, or for all that are assigned."""
        self._ready()
        return self._run(self._group.committed(self._partitions_or_all(partitions), self._timeout_ms(timeout)))

    def commit(self, offsets: Offsets | ConsumerRecord | None = None, *, timeout: float | None = None) -> None:
        """Commit what polls gave, or these offsets, or the offset after a record; returns when the group has them."""
        self._ready()
        found = self._run(self._group.commit(self._offsets(offsets), self._timeout_ms(timeout)))
        self._interceptors.on_commit(found)

    def commit_async(
        self, offsets: Offsets | ConsumerRecord | None = None, callback: CommitCallback | None = None
    ) -> None:
        """The same without waiting; `callback(offsets, error)` is called by a later poll()."""
        self._check_usable()
        on_commit = None if callback is None else callable_of(callback, "the callback of a commit")
        self._soon(self._group.commit_in_background, self._offsets(offsets), on_commit, self._interceptors)

    # --- the cluster ---

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, each at its index."""
        self._ready()
        return self._run(self._core.partitions_for(topic_of(topic), self._timeout_ms(timeout)))

    def topics(self, *, timeout: float | None = None) -> dict[str, tuple[PartitionInfo, ...]]:
        """All topics this consumer may read."""
        self._ready()
        return self._run(self._core.topics(self._timeout_ms(timeout)))

    def enforce_rebalance(self, reason: str = "") -> None:
        """Ask the group to share the partitions again."""
        self._check_usable()
        self._soon(self._group.rejoin, reason)

    # --- the end ---

    def close(self, timeout: float = CLOSE_TIMEOUT_S, *, commit: bool = True) -> None:
        """Commit if auto commit is on (unless `commit` is False), leave the group and end everything, within `timeout`
        seconds. A second call does nothing."""
        if self._closed:
            return
        self._commits_by_itself &= commit
        if not self._has_begun():
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
            self._end(deadline)
        if failure is not None:
            raise failure

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

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
