"""One fetch on its way to an answer: read, and read again when something changed, until there is enough or time is
over.

    Attempt        of a few partitions, read all at once each time
    WideAttempt    of many: read with pauses, and a change of one partition costs a read of that one

What goes into the answer, in which order, and what a session already knows, is the same for both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.fetch.reader import Reader
from ottla.broker.fetch.sessions import FetchKey, FetchPlan, FetchPosition, LastSent
from ottla.broker.replication.partition import NO_EPOCH, Partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.pacing import Pace
from ottla.broker.requests.running import Work, awaited, resolve
from ottla.errors import (
    BrokerError,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
)
from ottla.light_dataclasses import dataclass, field
from ottla.metrics import OTHER
from ottla.protocol.api import APIS
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

FETCH = APIS[1]
READ_COMMITTED = 1
ZSTD_SINCE = 10
TOPIC_IDS_SINCE = 13
PARTITION_BYTES = 60
"""About what an answer says of a partition and its topic beside the records."""
READ_AT_ONCE = 32
"""Partitions of a wide fetch between two looks at the clock."""


@dataclass(slots=True)
class Read:
    """What every partition had."""

    partitions: list[tuple[FetchKey, PartitionData]] = field(default_factory=list)
    size_bytes: int = 0
    with_records: int = 0  # so many of the partitions
    is_urgent: bool = False  # the client must hear of it at once

    def add(self, key: FetchKey, data: PartitionData) -> None:
        self.partitions.append((key, data))
        size_bytes = size_of(data)
        if size_bytes:
            self.size_bytes += size_bytes
            self.with_records += 1
        self.is_urgent = self.is_urgent or is_urgent(data)


class Attempt:
    """One fetch on its way to an answer: read, and read again when something changed."""

    def __init__(
        self,
        broker: Broker,
        request: FetchRequest,
        context: RequestContext,
        plan: FetchPlan,
        readable: Collection[str] | None = None,
        *,
        is_heard: bool = False,
    ) -> None:
        """`readable` are the topics that who asks may read; None is all of them. `is_heard`: what a follower says of
        itself is known already."""
        self._broker = broker
        self._request = request
        self._context = context
        self._plan = plan
        self._readable = readable
        self._read_committed = request.isolation_level == READ_COMMITTED
        self._version = context.api_version
        self._uses_ids = context.api_version >= TOPIC_IDS_SINCE
        self._reader = Reader(broker, request, context.api_version)
        self._is_first_read = not is_heard
        self._now_ms = broker.clock.monotonic_ms()
        self._named = self._named_now() if self._reader.is_follower else None
        # fetch.max.bytes is for clients; how much a follower takes at a time is its own setting.
        limit_bytes = request.max_bytes if self._reader.is_follower else broker.settings.fetch_max_bytes
        self._max_bytes = min(request.max_bytes, limit_bytes)
        charges = context.charges
        if charges is not None and charges.fetch_max_bytes is not None and not charges.is_exempt:
            self._max_bytes = int(min(self._max_bytes, charges.fetch_max_bytes))
        self._min_bytes = min(request.min_bytes, self._max_bytes)  # more than that is never read
        self._read = Read()

    def answer(self) -> FetchResponse | Work[FetchResponse]:
        """Now, or in turn where many consumers are answered: producers are heard in between (waiting/next_turn.py)."""
        if self._reader.is_follower or self._broker.progress.fetch_purgatory.turns.has_room():
            return self._answer()
        return self._answer_in_turn()

    async def _answer_in_turn(self) -> FetchResponse:
        its_turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._broker.progress.fetch_purgatory.turns.add(partial(resolve, its_turn, None))
        await its_turn
        return await awaited(self._answer())

    def _answer(self) -> FetchResponse | Work[FetchResponse]:
        if self._may_wait_unread() and (wanted := self._by_name()) and all(map(self._is_quiet, wanted.values())):
            return self._wait_unread(wanted)
        has_enough = self._has_enough()
        if has_enough or self._request.max_wait_ms <= 0 or not self._plan.wanted:
            return self._throttled(self._now_ms) or self._respond()
        return self._wait()

    async def _wait(self) -> FetchResponse:
        deadline_ms = self._broker.clock.monotonic_ms() + self._request.max_wait_ms
        wanted = {TopicPartition(key.topic, key.partition): position for key, position in self._plan.wanted}
        purgatory = self._broker.progress.fetch_purgatory
        if self._reader.is_follower and self._min_bytes <= 1:
            # One look when it wakes finds what all partitions have got in this turn, and how far they are committed.
            await purgatory.wait(partial(self._has_news, wanted), wanted, deadline_ms, partial(self._is_news, wanted))
            self._read_all()
        else:
            await purgatory.wait(self._has_enough, wanted, deadline_ms)
        return self._throttled(self._broker.clock.monotonic_ms()) or self._respond()

    # A consumer that has all there is: nearly all that wait. Nothing is read before there is something.

    def _may_wait_unread(self) -> bool:
        """Whether nothing could be said to this consumer but records; then a few comparisons tell if there are any."""
        return (
            self._min_bytes <= 1
            and self._request.max_wait_ms > 0
            and not self._reader.is_follower
            and not self._request.rack_id
            and self._readable is None
            and self._version >= ZSTD_SINCE
        )

    def _by_name(self) -> dict[TopicPartition, tuple[FetchKey, FetchPosition]] | None:
        """What is wanted of each partition; None where one is wanted twice."""
        found = {TopicPartition(each[0].topic, each[0].partition): each for each in self._plan.wanted}
        return found if len(found) == len(self._plan.wanted) else None

    def _is_quiet(self, wanted: tuple[FetchKey, FetchPosition]) -> bool:
        """Whether a consumer has all there is of a partition, which is what it takes it for."""
        key, position = wanted
        partition = self._broker.replicas.get((key.topic, key.partition))
        if partition is None or not partition.is_leader or partition.offline is not None:
            return False
        if position.max_bytes < 0 or (self._uses_ids and partition.topic_id != key.topic_id):
            return False
        expected = NO_EPOCH, partition.leader_epoch
        if position.current_leader_epoch not in expected or position.last_fetched_epoch not in expected:
            return False
        return position.fetch_offset == self._limit_of(partition)

    def _limit_of(self, partition: Partition) -> int:
        """Up to where a consumer may read."""
        return partition.end.last_stable_offset if self._read_committed else partition.end.high_watermark

    async def _wait_unread(self, wanted: Mapping[TopicPartition, tuple[FetchKey, FetchPosition]]) -> FetchResponse:
        """Read when it is this consumer's turn: then there may be more than what woke it."""
        deadline_ms = self._broker.clock.monotonic_ms() + self._request.max_wait_ms
        purgatory = self._broker.progress.fetch_purgatory
        is_news = partial(self._has_come, wanted)
        came = await purgatory.wait(lambda: any(map(is_news, wanted)), wanted, deadline_ms, is_news, in_turn=True)
        self._read_all()
        if came and not self._is_enough(self._read):
            await purgatory.wait(self._has_enough, wanted, deadline_ms)
        return self._throttled(self._broker.clock.monotonic_ms()) or self._respond()

    def _has_come(self, wanted: Mapping[TopicPartition, tuple[FetchKey, FetchPosition]], name: Hashable) -> bool:
        assert isinstance(name, TopicPartition)
        return not self._is_quiet(wanted[name])

    # A follower.

    def _has_news(self, wanted: Mapping[TopicPartition, FetchPosition]) -> bool:
        return any(self._is_news(wanted, name) for name in wanted)

    def _is_news(self, wanted: Mapping[TopicPartition, FetchPosition], name: Hashable) -> bool:
        """Whether a follower has something to fetch from a partition, or must hear of it; without reading."""
        assert isinstance(name, TopicPartition)
        partition, position = self._broker.replicas.get(name), wanted[name]
        if partition is None or partition.in_sync is None or partition.offline is not None:
            return True
        if partition.leader_epoch != position.current_leader_epoch >= 0:
            return True
        return partition.end.log_end_offset > position.fetch_offset and not self._reader.is_throttled(partition)

    def _has_enough(self) -> bool:
        self._read_all()
        return self._is_enough(self._read)

    def _is_enough(self, read: Read) -> bool:
        return read.is_urgent or read.size_bytes >= self._min_bytes

    def _read_all(self) -> None:
        self._read = Read()
        for key, wanted in self._plan.wanted:
            self._add(self._read, key, wanted)
        self._is_first_read = False

    def _add(self, read: Read, key: FetchKey, wanted: FetchPosition) -> None:
        """Read one more partition, with what is left of the bytes for all."""
        if self._named is not None and (key[0], key[2]) not in self._named and self._is_idle(key, wanted):
            return
        limit_bytes = min(wanted.max_bytes, max(self._max_bytes - read.size_bytes, 0))
        read.add(key, self._read_one(key, wanted, limit_bytes, is_first=read.size_bytes == 0))

    def _read_one(self, key: FetchKey, wanted: FetchPosition, limit_bytes: int, *, is_first: bool) -> PartitionData:
        try:
            partition = self._partition(key)
            self._reader.check(partition, wanted.current_leader_epoch)
            if self._version < ZSTD_SINCE and partition.log.settings.compression_type == "zstd":
                raise UnsupportedCompressionType(
                    f"{partition.name} is compressed by zstd, which Fetch {ZSTD_SINCE} knows"
                )
            if wanted.max_bytes < 0:
                raise UnknownServerError(f"nobody can send {wanted.max_bytes} bytes of {partition.name}")
            diverging = divergence(partition, wanted)
            if diverging is not None:
                return _data(key, partition, diverging_epoch=diverging)
            if self._reader.is_follower:
                if self._is_first_read:
                    self._reader.note(partition, wanted)
                # It has all there is, as at every first look of one that waits, or may not have more now.
                if wanted.fetch_offset == partition.end.log_end_offset or self._reader.is_throttled(partition):
                    return _data(key, partition)
            elif (preferred := self._reader.preferred(partition, wanted.fetch_offset)) is not None:
                return _data(key, partition, preferred_read_replica=preferred)
            if limit_bytes <= 0 and not is_first:
                return _data(key, partition)
            if not self._reader.is_follower and wanted.fetch_offset == self._limit_of(partition):
                return _data(key, partition, aborted_transactions=[] if self._read_committed else None)
            found = partition.read(
                wanted.fetch_offset,
                limit_bytes,
                read_committed=self._read_committed,
                at_least_one_batch=is_first,
                is_follower=self._reader.is_follower,
            )
        except BrokerError as error:
            return PartitionData(
                partition_index=key.partition,
                error_code=error.code,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
        aborted = None
        if self._read_committed:
            aborted = [
                AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in found.aborted or ()
            ]
        return _data(key, partition, records=found.slice, aborted_transactions=aborted)

    def _named_now(self) -> set[tuple[bytes, int]] | None:
        """What a follower names in this request, beside what its session knows; None when all must be read."""
        if self._plan.session is None or self._plan.is_full:
            return None
        return {(topic.topic_id, each.partition) for topic in self._request.topics for each in topic.partitions}

    def _is_idle(self, key: FetchKey, wanted: FetchPosition) -> bool:
        assert self._plan.session is not None, "only sessions know what was sent last"
        partition = self._broker.replicas.get((key.topic, key.partition))
        last_sent = self._plan.session.last_sent.get(key)
        if partition is not None and self._uses_ids and partition.topic_id != key.topic_id:
            return False
        now_ms = self._now_ms if self._is_first_read else None
        return self._reader.is_idle(partition, wanted, last_sent, now_ms)

    def _partition(self, key: FetchKey) -> Partition:
        if self._readable is not None and key.topic not in self._readable:
            raise TopicAuthorizationFailed(key.topic)
        if self._uses_ids and not key.topic:
            raise UnknownTopicId()
        partition = self._broker.replicas.get((key.topic, key.partition))
        if partition is None:
            raise UnknownTopicOrPartition(f"{key.topic}-{key.partition}")
        if self._uses_ids and partition.topic_id != key.topic_id:
            raise UnknownTopicId(f"{key.topic} is another topic now")  # deleted, and made again under the same name
        return partition

    def _throttled(self, now_ms: float) -> FetchResponse | None:
        """An answer without records, when there are more than the client's quota allows now. They count as not sent."""
        if self._context.charges is None:
            return None
        size_bytes = self._read.size_bytes + self._read.with_records * PARTITION_BYTES
        wait_ms = self._context.charges.fetch(size_bytes, now_ms)
        return (
            FetchResponse(session_id=self._plan.session_id, responses=[], throttle_time_ms=wait_ms) if wait_ms else None
        )

    def _respond(self) -> FetchResponse:
        topics: list[FetchableTopicResponse] = []
        for key, data in self._read.partitions:
            self._put(topics, key, data)
        return FetchResponse(session_id=self._plan.session_id, responses=topics)

    def _put(self, topics: list[FetchableTopicResponse], key: FetchKey, data: PartitionData) -> None:
        """Add what is news to the answer, in the order of the request: a topic may come more than once."""
        size_bytes = size_of(data)
        is_refused = bool(data.error_code) or data.diverging_epoch.epoch >= 0
        sent = LastSent(data.high_watermark, data.log_start_offset, data.preferred_read_replica, is_refused)
        if not self._plan.is_news(key, sent, size_bytes):
            return
        if not topics or (topics[-1].topic_id, topics[-1].topic) != (key.topic_id, key.topic):
            topics.append(FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id, partitions=[]))
        topics[-1].partitions.append(data)
        if data.error_code:
            self._count_failure(key.topic, data.error_code)
        elif not self._reader.is_follower:
            self._broker.topic_metrics.fetched(key.topic, size_bytes)
        elif size_bytes:
            self._broker.topic_metrics.replicated_out.value += size_bytes
            self._reader.count_sent(self._broker.replicas.get((key.topic, key.partition)), size_bytes)

    def _count_failure(self, topic: str, error_code: int) -> None:
        broker = self._broker
        broker.request_metrics.failed(FETCH, error_code)
        if not self._reader.is_follower:
            # The names of topics that do not exist are the client's invention.
            broker.topic_metrics.fetch_failed(OTHER if broker.image.topic(topic) is None else topic)


class WideAttempt(Attempt):
    """One over many partitions. It is watched from before its first look on, so that each partition is looked at once,
    and again only when something has changed there."""

    def __init__(
        self,
        broker: Broker,
        request: FetchRequest,
        context: RequestContext,
        plan: FetchPlan,
        readable: Collection[str] | None,
        pace: Pace,
    ) -> None:
        super().__init__(broker, request, context, plan, readable)
        self._pace = pace
        self._has_read = False
        self._ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # the wait
        self._positions: dict[TopicPartition, tuple[FetchKey, FetchPosition]] = {}
        self._changed: set[TopicPartition] = set()  # since they were read
        self._sizes: dict[TopicPartition, int] = {}  # of what could be read where something was there, or came
        self._size_bytes = 0

    async def answer(self) -> FetchResponse:
        if self._request.max_wait_ms > 0 and self._plan.wanted:
            await self._read_and_wait()
        else:
            await self._read_with_pauses()
        if (throttled := self._throttled(self._broker.clock.monotonic_ms())) is not None:
            return throttled
        topics: list[FetchableTopicResponse] = []
        for key, data in self._read.partitions:
            self._put(topics, key, data)
            await self._pace.step()
        return FetchResponse(session_id=self._plan.session_id, responses=topics)

    async def _read_and_wait(self) -> None:
        self._positions = {TopicPartition(entry[0].topic, entry[0].partition): entry for entry in self._plan.wanted}
        purgatory, deadline_ms = (
            self._broker.progress.fetch_purgatory,
            self._broker.clock.monotonic_ms() + self._request.max_wait_ms,
        )
        watch = purgatory.wait(lambda: False, self._positions, deadline_ms, self._note_change)
        watch.add_done_callback(lambda _: resolve(self._ends, None))  # its time is over
        try:
            await self._read_with_pauses()
            if self._is_enough(self._read):
                return
            self._count_first_read()
            self._pace.release()
            await self._ends  # what else changes in the same turn is noted, too
            if watch.done():
                watch.result()  # what a look at a change has raised
        finally:
            purgatory.abandon(watch, next(iter(self._positions)))
        await self._read_again()

    async def _read_with_pauses(self) -> None:
        read, wanted = Read(), self._plan.wanted
        for first in range(0, len(wanted), READ_AT_ONCE):
            for key, position in wanted[first : first + READ_AT_ONCE]:
                self._add(read, key, position)
            await self._pace.step()
        self._is_first_read = False
        self._has_read = True
        self._read = read

    def _count_first_read(self) -> None:
        """What was read, and what changed since, while others were read."""
        for key, data in self._read.partitions:
            if data.records:
                self._sizes[TopicPartition(key.topic, key.partition)] = len(data.records)
        self._size_bytes = sum(self._sizes.values())
        for name in list(self._changed):
            self._note_change(name)

    def _note_change(self, name: Hashable) -> bool:
        """It is watched until it is read again: never met."""
        assert isinstance(name, TopicPartition)
        self._changed.add(name)
        if not self._has_read or self._ends.done():
            return False
        key, wanted = self._positions[name]
        data = self._read_one(key, wanted, wanted.max_bytes, is_first=True)
        size_bytes = size_of(data)
        self._size_bytes += size_bytes - self._sizes.get(name, 0)
        self._sizes[name] = size_bytes
        if self._size_bytes >= self._min_bytes or is_urgent(data):
            resolve(self._ends, None)
        return False

    async def _read_again(self) -> None:
        """What is different now; and what had records, which may be gone since."""
        again = {*self._changed, *(key[1:] for key, data in self._read.partitions if data.records)}
        if not again:
            return
        before, read = dict(self._read.partitions), Read()
        for first in range(0, len(self._plan.wanted), READ_AT_ONCE):
            for key, wanted in self._plan.wanted[first : first + READ_AT_ONCE]:
                if key[1:] in again:
                    self._add(read, key, wanted)
                elif (known := before.get(key)) is not None:
                    read.add(key, known)
            await self._pace.step()
        self._read = read


def size_of(data: PartitionData) -> int:
    return 0 if data.records is None else len(data.records)


def is_urgent(data: PartitionData) -> bool:
    return data.error_code != 0 or data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0


def _data(key: FetchKey, partition: Partition, **values: Any) -> PartitionData:
    end = partition.end
    return PartitionData(
        partition_index=key.partition,
        error_code=0,
        high_watermark=end.high_watermark,
        last_stable_offset=end.last_stable_offset,
        log_start_offset=end.log_start_offset,
        **{"aborted_transactions": None, "records": b"", **values},
    )


def divergence(partition: Partition, wanted: FetchPosition) -> EpochEndOffset | None:
    """Where the fetcher's log and ours went apart, when it names an epoch that ended earlier here (KIP-595)."""
    if wanted.last_fetched_epoch < 0:
        return None
    end = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if end.epoch < 0 or end.end_offset < 0 or wanted.fetch_offset < partition.log.log_start_offset:
        raise OffsetOutOfRange(f"{partition.name} does not know where epoch {wanted.last_fetched_epoch} ends")
    if end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None
