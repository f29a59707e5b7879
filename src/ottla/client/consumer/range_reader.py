"""RangeReader: exactly the records of some offset ranges, as Arrow batches. Spark tasks and read_topic() read with it.

    with RangeReader(bootstrap_servers="localhost:9092") as reader:
        for batch in reader.read(ranges, schema):
            ...

It is a third face of the consumer's core, beside the sync and the asyncio one: the same fetcher, sessions, isolation
and leader changes, but no group, no subscription and no records as objects.

1. Every record with start <= offset < end that is there under the isolation level, in the order of offsets within a
   range, once. Fetching stops at the end of a range. Gaps of compaction, aborted transactions and markers are passed.
2. What is gone (ranges.py) raises DataLost, or, if that is allowed, is told once per range in the log and passed over.
3. Nothing waits for ever: when no range moves for `poll_timeout_ms`, ReadTimedOut names the place and what is known.
   Time that the caller takes between two batches does not count.
4. One read at a time. A reader that was forked raises ForkedClient.
5. Memory: what is fetched ahead (queued.max.bytes) and one portion that is being decoded (portions.py).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from ottla.client.cluster_view import ClusterView, PartitionInfo
from ottla.client.consumer.arrow_tables import Rows, RowShape
from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.offset_reset import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.consumer.portions import Portions
from ottla.client.consumer.ranges import DataLost, Lost, Range, ReadTimedOut, find_loss, sentence, waves
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.consumer.subscription import LogTruncated
from ottla.client.deadline import Deadline
from ottla.client.loop import ClientClosed
from ottla.client.thread_waits import ThreadWaits
from ottla.errors import InvalidSetting, OffsetOutOfRange, OttlaError, UnknownTopicOrPartition
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.values import ZERO_UUID, OffsetAndTimestamp, TopicPartition, uuid_to_text

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S: Final = 5.0
POLL_TIMEOUT_MS: Final = 120_000
QUIET_S: Final = 1.0
"""After so long without a record the reader asks the brokers whether there is anything left to wait for."""
LOOK_LIMIT_MS: Final = 5_000.0
UNKNOWN_TOPIC_S: Final = 5.0
"""A topic that nobody knows for so long is gone: a broker that just started may not know it yet."""


class ReaderSettings(ConsumerSettings):
    """A consumer's, with defaults for somebody who reads few partitions and uses all that it asks for."""

    max_partition_fetch_bytes = replace(ConsumerSettings.max_partition_fetch_bytes, default=4_194_304)
    queued_max_bytes = replace(ConsumerSettings.queued_max_bytes, default=33_554_432)
    auto_offset_reset = replace(ConsumerSettings.auto_offset_reset, default="none")
    enable_auto_commit = replace(ConsumerSettings.enable_auto_commit, default=False)
    allow_auto_create_topics = replace(ConsumerSettings.allow_auto_create_topics, default=False)

    def validate(self) -> None:
        super().validate()
        if self.group_id is not None:
            raise InvalidSetting("group.id: ranges of offsets are read without a group; leave it out")
        if self.auto_offset_reset != "none" or self.enable_auto_commit or self.allow_auto_create_topics:
            raise InvalidSetting(
                "auto.offset.reset, enable.auto.commit and allow.auto.create.topics mean nothing to a reader of "
                "ranges; leave them out"
            )


class RangeReader(ThreadWaits):
    """Reads ranges of offsets. Arguments are settings of a consumer, without those about groups."""

    def __init__(self, config: Mapping[str, object] | None = None, **settings: Any) -> None:
        self._settings = ReaderSettings(config, **settings).named("reader")
        self._closed = False
        self._prepare_to_wait()
        self._core = ConsumerCore(self._settings, news=self._news.set, wake_loop=self._wake, portions_ahead=2)
        self._begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise ClientClosed(self._settings.client_id)

    def read(
        self,
        ranges: Iterable[Range],
        schema: pyarrow.Schema,
        *,
        fail_on_data_loss: bool = True,
        poll_timeout_ms: float = POLL_TIMEOUT_MS,
    ) -> Iterator[pyarrow.RecordBatch]:
        """The records of these ranges with the columns of `schema`: any of topic, partition, offset, timestamp,
        timestampType, key, value, headers."""
        self._ready()
        if not self._polling.acquire(blocking=False):
            raise RuntimeError("this RangeReader is reading already; finish that, or make another one")
        try:
            shape = RowShape(schema)
            portions = Portions()
            wanted = list(ranges)
            ids = {each.topic: each.topic_id for each in wanted if each.topic_id is not None}
            for wave in waves(wanted):
                policy = _Policy(fail_on_data_loss, poll_timeout_ms)
                yield from _Wave(self, wave, ids, shape, policy).batches(portions)
            yield from portions.rest()
        finally:
            self._polling.release()
            self._rest()

    def _rest(self) -> None:
        """Nothing is fetched for nobody."""
        if not self._closed and not self._loop.is_closed:
            self._core.unsubscribe()

    # --- questions about partitions ---

    def partitions_of(self, topic: str, *, timeout_ms: float | None = None) -> tuple[PartitionInfo, ...]:
        """The partitions of a topic, each at its index; a topic that is not there is an error at once."""
        return self._run(self._partitions_of(topic, self._timeout_ms(timeout_ms)))

    async def _partitions_of(self, topic: str, timeout_ms: float) -> tuple[PartitionInfo, ...]:
        """Asked for just now, not out of what is known: somebody who reads once cannot wait until the topic is made."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        view = ClusterView().updated(await self._core.network.ask_any(request, timeout_ms=timeout_ms))
        found = view.topics[topic]
        if found.error is not None:
            raise type(found.error)(f"topic {topic!r}")
        return found.partitions

    def first_offsets(
        self, names: Collection[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Where each log begins."""
        return self._edges(names, EARLIEST_TIMESTAMP, timeout_ms)

    def end_offsets(
        self, names: Collection[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read under the isolation level."""
        return self._edges(names, LATEST_TIMESTAMP, timeout_ms)

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none."""
        return self._run(self._core.list_offsets(times_ms, self._timeout_ms(timeout_ms)))

    def _edges(
        self, names: Collection[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        found = self._run(self._core.list_offsets(dict.fromkeys(names, timestamp), self._timeout_ms(timeout_ms)))
        return {name: each.offset for name, each in found.items() if each is not None}

    def _timeout_ms(self, timeout_ms: float | None) -> float:
        return self._settings.call_timeout_ms if timeout_ms is None else timeout_ms

    @property
    def is_usable(self) -> bool:
        """Whether this process can read with it."""
        return not self._closed and not self._loop.is_closed

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """End everything within `timeout` seconds. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self._end(Deadline(self._core.clock, timeout * 1000))
        except OttlaError as error:
            log.debug("a reader was closed in a hurry: %s", error)


class _Policy(NamedTuple):
    fail_on_data_loss: bool
    poll_timeout_ms: float


class _Wave:
    """One read of ranges that are all of different partitions."""

    def __init__(
        self,
        reader: RangeReader,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        topic_ids: Mapping[str, str],
        shape: RowShape,
        policy: _Policy,
    ) -> None:
        self._reader = reader
        self._core = reader._core
        self._topic_ids = topic_ids
        self._shape = shape
        self._policy = policy
        self._ends = {name: end for name, (_, end) in ranges.items()}
        self._positions = {name: start for name, (start, _) in ranges.items()}
        self._reported: set[TopicPartition] = set()
        self._suspected: dict[TopicPartition, Lost] = {}
        self._unknown_since: dict[str, float] = {}
        self._checked_version = -1

    def batches(self, portions: Portions) -> Iterator[pyarrow.RecordBatch]:
        self._core.assign_ranges({name: (start, self._ends[name]) for name, start in self._positions.items()})
        self._reader._run(self._core.want_topics())
        if self._other_topics():
            # What a kept reader knows may be older than the topic: what counts is what a broker says now.
            self._reader._run(self._core.network.refresh_metadata(timeout_ms=self._policy.poll_timeout_ms))
        while self._positions:
            for batch in self._next_rows(portions.row_target).batches:
                yield from portions.add(batch)

    def _next_rows(self, row_target: int) -> Rows:
        """Wait until a range moved, or ended."""
        clock = self._core.clock
        deadline = Deadline(clock, self._policy.poll_timeout_ms)
        check_at_ms = clock.monotonic_ms() + QUIET_S * 1000
        while True:
            self._reader._news.clear()
            self._attend()
            rows = Rows(self._shape, self._ends)
            is_refused = self._take(rows, row_target)
            if self._topic_ids and (lost := self._lose_other_topics()):
                rows.leave_out(lost)
                return rows
            if self._note_progress() or rows.count:
                return rows
            if deadline.is_over:
                raise ReadTimedOut(self._progress_text())
            now_ms = clock.monotonic_ms()
            if is_refused or now_ms >= check_at_ms:
                if self._find_losses(now_ms / 1000, deadline.left_ms()):
                    return rows
                check_at_ms = now_ms + QUIET_S * 1000
            self._reader._news.wait(min(deadline.left_s(), max(0.0, check_at_ms - now_ms) / 1000))

    def _take(self, rows: Rows, row_target: int) -> bool:
        """Decode what is there; True when a broker said that an offset is out of range."""
        try:
            self._core.reader.read_rows(rows, row_target)
        except OffsetOutOfRange as error:
            log.debug("%s", error)
            return True
        return False

    def _note_progress(self) -> bool:
        """Where each range is now; those that are read are done."""
        done = []
        moved = False
        with self._core.lock:
            for name, before in self._positions.items():
                state = self._core.subscription.get(name)
                if state is None or state.position is None or state.position.offset == before:
                    continue
                moved = True
                self._positions[name] = state.position.offset
                if state.is_read:
                    done.append(name)
        self._finish(done)
        return moved

    def _finish(self, names: list[TopicPartition]) -> None:
        if names:
            self._core.finish(names)
            for name in names:
                del self._positions[name]

    def _attend(self) -> None:
        """Errors that the loop met: a log that was cut off is a loss, everything else is raised."""
        while self._core.attention:
            item = self._core.attention.popleft()
            if isinstance(item, LogTruncated) and item.topic_partition in self._positions:
                why = "its log was cut off by an unclean election"
                start = item.offset if item.diverging_offset is None else item.diverging_offset
                self._lose(item.topic_partition, Lost(start, max(start + 1, item.offset), why, is_sure=True))
            elif isinstance(item, Exception) and not self._core.is_resolved(item):
                raise item

    # --- losses ---

    def _find_losses(self, now: float, limit_ms: float) -> bool:
        """Ask where the logs begin and end; True when something was found out that changes what is left."""
        gone = self._unknown_topics(now)
        leader_of = self._core.network.metadata.leader_of
        asked = [name for name in self._positions if name not in gone and leader_of(name) is not None]
        found = {name: Lost(self._positions[name], self._ends[name], "its topic is gone", True) for name in gone}
        found.update(self._losses_of(asked, min(limit_ms, LOOK_LIMIT_MS)))
        before, self._suspected = self._suspected, found
        acted = False
        for name, lost in found.items():
            # One look may fall between two leaders; the second must see the same.
            if lost.is_sure or before.get(name) == lost:
                self._lose(name, lost)
                acted = True
        return acted

    def _unknown_topics(self, now: float) -> set[TopicPartition]:
        """Partitions whose topic nobody knows, for longer than a broker takes to hear of it."""
        metadata = self._core.network.metadata
        topics = {name.topic for name in self._positions}
        unknown = {topic for topic in topics if isinstance(metadata.error_of(topic), UnknownTopicOrPartition)}
        self._unknown_since = {topic: self._unknown_since.get(topic, now) for topic in unknown}
        return {name for name in self._positions if now - self._unknown_since.get(name.topic, now) >= UNKNOWN_TOPIC_S}

    def _lose_other_topics(self) -> list[TopicPartition]:
        """A topic that was deleted and made again has another id, and none of the records that were asked for. Looked
        at after the records were taken: whatever they were fetched by, metadata knows by now."""
        metadata = self._core.network.metadata
        if metadata.version == self._checked_version:
            return []
        self._checked_version = metadata.version
        others = self._other_topics()
        lost = [name for name in self._positions if name.topic in others]
        for name in lost:
            why = "its topic was deleted and made anew"
            self._lose(name, Lost(self._positions[name], self._ends[name], why, is_sure=True))
        return lost

    def _other_topics(self) -> set[str]:
        """Topics that have another id than the one that was asked for, as far as is known."""
        known = {topic: self._core.network.metadata.topic_id(topic) for topic in self._topic_ids}
        return {
            topic
            for topic, found in known.items()
            if found is not None and found != ZERO_UUID and uuid_to_text(found) != self._topic_ids[topic]
        }

    def _losses_of(self, names: list[TopicPartition], limit_ms: float) -> dict[TopicPartition, Lost]:
        try:
            starts = self._reader.first_offsets(names, timeout_ms=limit_ms)
            ends = self._reader.end_offsets(names, timeout_ms=limit_ms)
        except OttlaError as error:
            if not error.retriable:
                raise
            log.debug("nobody says where the logs begin and end: %s", error)
            return {}
        found = {}
        for name in names:
            lost = find_loss(
                self._positions[name],
                self._ends[name],
                log_start=starts.get(name),
                log_end=ends.get(name),
                high_watermark=self._high_watermark(name),
            )
            if lost is not None:
                found[name] = lost
        return found

    def _high_watermark(self, name: TopicPartition) -> int | None:
        with self._core.lock:
            state = self._core.subscription.get(name)
            return None if state is None else state.high_watermark

    def _lose(self, name: TopicPartition, lost: Lost) -> None:
        if self._policy.fail_on_data_loss:
            raise DataLost(sentence(name, lost))
        if name not in self._reported:
            self._reported.add(name)
            log.warning("%s; going on with what is left, as failOnDataLoss=false says", sentence(name, lost))
        if lost.end >= self._ends[name]:
            self._finish([name])
            return
        self._positions[name] = lost.end
        self._core.seek(name, lost.end)

    def _progress_text(self) -> str:
        name, position = next(iter(self._positions.items()))
        with self._core.lock:
            state = self._core.subscription.get(name)
            high, stable = (None, None) if state is None else (state.high_watermark, state.last_stable_offset)
        metadata = self._core.network.metadata
        if stable is not None and high is not None and stable <= position < high:
            why = f"an open transaction holds back what is behind offset {stable}"
        elif metadata.leader_of(name) is None:
            why = f"no leader is known ({metadata.error_of(name.topic) or metadata.failure or 'nobody answers'})"
        else:
            why = f"the leader says that the log ends at offset {high}" if high is not None else "the leader is silent"
        others = f", and {len(self._positions) - 1} more ranges wait" if len(self._positions) > 1 else ""
        return (
            f"{name} at offset {position}, to be read up to {self._ends[name]}, did not move for "
            f"{self._policy.poll_timeout_ms:.0f} ms: {why}{others}"
        )
