"""Fetch: read record batches from partitions that this broker leads, or follows.

The answer holds slices of files, not records (network/processor.py sends them). It is given when min_bytes can be
read, when a partition has an error, or after max_wait_ms. max_bytes, at most fetch.max.bytes, limits the whole answer
and partition_max_bytes each partition; the first batch of the first partition with data is always whole, so that a
large record cannot block a reader. read_committed reads up to the last stable offset and names the aborted
transactions.

A fetch of more than WIDE_PARTITIONS is read in stints, and while it waits only the partition that changed is looked at:
otherwise one consumer of everything would make every append cost a look at everything.

A follower names itself: it reads up to the end of the log, and by asking for an offset says that it has all before it.
A consumer from version 11 on may be sent to a replica near it, and is served by followers up to what they know to be
committed (KIP-392).

Versions: 7 sessions, 9 leader epoch check, 12 diverging epochs, 13 topic ids, 15 replica state in a tag.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.fetch.reader import Reader, replica_of
from ottla.broker.fetch.sessions import FetchKey, FetchPlan, Told, Wanted
from ottla.broker.fetch.waiting import WaitingFetch
from ottla.broker.replication.partition import Partition
from ottla.broker.requests.answers import Later
from ottla.broker.requests.long_work import LongLater, Steps, at_once
from ottla.errors import BrokerError, OffsetOutOfRange, UnknownServerError, UnknownTopicId, UnknownTopicOrPartition
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

READ_COMMITTED = 1
WIDE_PARTITIONS: Final = 256
FOLLOWER_PARTITIONS: Final = 16
TOPIC_IDS_SINCE = 13

# What every partition gave, how many bytes that is, and whether the client must hear of it at once.
Read: TypeAlias = tuple[list[tuple[FetchKey, PartitionData]], int, bool]


def handle(broker: Broker, request: FetchRequest, context: RequestContext) -> Message | Later[Message | None]:
    count = sum([len(topic.partitions) for topic in request.topics]) + broker.fetch_sessions.size_of(request.session_id)
    # A follower waits at every leader for all it has: what changes anywhere must not cost a look at all of it.
    if count > (FOLLOWER_PARTITIONS if _is_follower(request, context) else WIDE_PARTITIONS):
        return broker.long_work.do(_wide(broker, request, context), context.connection)
    try:
        plan = _plan(broker, request, context, _wanted(broker, request, context))
    except BrokerError as error:
        return FetchResponse(error_code=error.code, responses=[])
    return _Attempt(broker, request, context, plan).answer()


def _wide(broker: Broker, request: FetchRequest, context: RequestContext) -> Steps[Any]:
    wanted = []
    for each in _wanted(broker, request, context):
        wanted.append(each)
        yield
    try:
        plan = _plan(broker, request, context, wanted)
    except BrokerError as error:
        return FetchResponse(error_code=error.code, responses=[])
    return (yield from _WideAttempt(broker, request, context, plan).steps())


def _plan(
    broker: Broker, request: FetchRequest, context: RequestContext, wanted: Iterable[tuple[FetchKey, Wanted]]
) -> FetchPlan:
    uses_ids = context.api_version >= TOPIC_IDS_SINCE
    return broker.fetch_sessions.plan(
        request.session_id,
        request.session_epoch,
        wanted,
        _forgotten(broker, request, uses_ids),
        uses_topic_ids=uses_ids,
        is_follower=_is_follower(request, context),
        now_ms=broker.clock.monotonic_ms(),
        name_of=partial(_name, broker),
    )


def _is_follower(request: FetchRequest, context: RequestContext) -> bool:
    return replica_of(request, context.api_version)[0] >= 0


def _wanted(broker: Broker, request: FetchRequest, context: RequestContext) -> Iterator[tuple[FetchKey, Wanted]]:
    uses_ids = context.api_version >= TOPIC_IDS_SINCE
    for topic in request.topics:
        name = _name(broker, topic.topic_id) if uses_ids else topic.topic
        for partition in topic.partitions:
            position = Wanted(
                fetch_offset=partition.fetch_offset,
                max_bytes=partition.partition_max_bytes,
                current_leader_epoch=partition.current_leader_epoch,
                last_fetched_epoch=partition.last_fetched_epoch,
                log_start_offset=partition.log_start_offset,
            )
            yield FetchKey(topic.topic_id, name, partition.partition), position


def _forgotten(broker: Broker, request: FetchRequest, uses_ids: bool) -> list[FetchKey]:
    found = []
    for topic in request.forgotten_topics_data:
        name = _name(broker, topic.topic_id) if uses_ids else topic.topic
        found += [FetchKey(topic.topic_id, name, partition) for partition in topic.partitions]
    return found


def _name(broker: Broker, topic_id: bytes) -> str:
    """The name of a topic; a follower may ask for one that only the controller's orders have told us of yet."""
    return broker.image.topic_name(topic_id) or broker.replicas.topic_name(topic_id) or ""


class _Attempt:
    """One fetch on its way to an answer: read, and read again when something changed."""

    def __init__(self, broker: Broker, request: FetchRequest, context: RequestContext, plan: FetchPlan) -> None:
        self._broker = broker
        self._request = request
        self._context = context
        self._plan = plan
        self._read_committed = request.isolation_level == READ_COMMITTED
        self._uses_ids = context.api_version >= TOPIC_IDS_SINCE
        self._reader = Reader(broker, request, context.api_version)
        self._is_first_look = True
        self._now_ms = broker.clock.monotonic_ms()
        self._named = self._named_now() if self._reader.is_follower else None
        # fetch.max.bytes is for clients; how much a follower takes at a time is its own setting.
        limit_bytes = request.max_bytes if _is_follower(request, context) else broker.settings.fetch_max_bytes
        self._max_bytes = min(request.max_bytes, limit_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)  # more than that is never read
        self._later: Later[Any] = Later()

    def answer(self) -> Message | Later[Message | None]:
        if self._try_answer(force=self._request.max_wait_ms <= 0 or not self._plan.wanted):
            return self._given
        deadline_ms = self._broker.clock.monotonic_ms() + self._request.max_wait_ms
        keys = [TopicPartition(key.topic, key.partition) for key, _ in self._plan.wanted]
        self._broker.fetch_purgatory.wait(WaitingFetch(lambda force: self._try_answer(force=force)), keys, deadline_ms)
        return self._later

    def _try_answer(self, *, force: bool) -> bool:
        read, size_bytes, is_urgent = self._read_all()
        if not force and not is_urgent and size_bytes < self._min_bytes:
            return False
        self._given = at_once(self._responding(read))
        self._later.give(self._given)
        return True

    def _read_all(self) -> Read:
        return at_once(self._reading())

    def _reading(self) -> Steps[Read]:
        read = []
        left_bytes = self._max_bytes
        size_bytes = 0
        is_urgent = False
        for key, wanted in self._plan.wanted:
            if self._named is not None and (key[0], key[2]) not in self._named and self._is_idle(key, wanted):
                yield
                continue
            limit_bytes = min(wanted.max_bytes, max(left_bytes, 0))
            data = self._read_one(key, wanted, limit_bytes, is_first=size_bytes == 0)
            taken = len(data.records) if data.records is not None else 0
            size_bytes += taken
            left_bytes -= taken
            is_urgent = is_urgent or _is_urgent(data)
            read.append((key, data))
            yield
        self._is_first_look = False
        return read, size_bytes, is_urgent

    def _read_one(self, key: FetchKey, wanted: Wanted, limit_bytes: int, *, is_first: bool) -> PartitionData:
        try:
            partition = self._partition(key)
            self._reader.check(partition, wanted.current_leader_epoch)
            if wanted.max_bytes < 0:
                raise UnknownServerError(f"nobody can send {wanted.max_bytes} bytes of {partition.name}")
            diverging = _divergence(partition, wanted)
            if diverging is not None:
                return _data(key, partition, diverging_epoch=diverging)
            preferred = self._reader.preferred(partition, wanted.fetch_offset)
            if preferred is not None:
                return _data(key, partition, preferred_read_replica=preferred)
            if self._reader.is_follower:
                if self._is_first_look:
                    self._reader.note(partition, wanted)
                if self._reader.is_throttled(partition):
                    return _data(key, partition)
            if limit_bytes <= 0 and not is_first:
                return _data(key, partition)
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
        """What a follower names in this request, beside what its session knows; None when all must be looked at."""
        if self._plan.session is None or self._plan.is_full:
            return None
        return {(topic.topic_id, each.partition) for topic in self._request.topics for each in topic.partitions}

    def _is_idle(self, key: FetchKey, wanted: Wanted) -> bool:
        assert self._plan.session is not None, "only sessions know what was told"
        partition, told = self._broker.replicas.get((key.topic, key.partition)), self._plan.session.told.get(key)
        if partition is not None and self._uses_ids and partition.topic_id != key.topic_id:
            return False
        now_ms = self._now_ms if self._is_first_look else None
        return self._reader.is_idle(partition, wanted, told, now_ms)

    def _partition(self, key: FetchKey) -> Partition:
        if self._uses_ids and not key.topic:
            raise UnknownTopicId()
        partition = self._broker.replicas.get(TopicPartition(key.topic, key.partition))
        if partition is None:
            raise UnknownTopicOrPartition(f"{key.topic}-{key.partition}")
        if self._uses_ids and partition.topic_id != key.topic_id:
            raise UnknownTopicId(f"{key.topic} is another topic now")  # deleted, and made again under the same name
        return partition

    def _responding(self, read: list[tuple[FetchKey, PartitionData]]) -> Steps[FetchResponse]:
        topics: dict[tuple[bytes, str], FetchableTopicResponse] = {}
        for key, data in read:
            yield
            size_bytes = len(data.records) if data.records is not None else 0
            told = Told(data.high_watermark, data.log_start_offset, data.preferred_read_replica, bool(data.error_code))
            if not self._plan.is_news(key, told, size_bytes) and data.diverging_epoch.epoch < 0:
                continue
            topic = topics.get((key.topic_id, key.topic))
            if topic is None:
                topic = FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id, partitions=[])
                topics[key.topic_id, key.topic] = topic
            topic.partitions.append(data)
            if not self._reader.is_follower:
                self._broker.topic_metrics.fetched(key.topic, size_bytes)
            elif size_bytes:
                self._reader.gave(self._broker.replicas.get((key.topic, key.partition)), size_bytes)
        return FetchResponse(session_id=self._plan.session_id, responses=list(topics.values()))


class _WideAttempt(_Attempt):
    """One over many partitions."""

    def __init__(self, broker: Broker, request: FetchRequest, context: RequestContext, plan: FetchPlan) -> None:
        super().__init__(broker, request, context, plan)
        self._later = LongLater()
        self._is_answering = False
        self._waits_for: dict[TopicPartition, tuple[FetchKey, Wanted]] = {}
        self._sizes: dict[TopicPartition, int] = {}  # of what could be read where something was there, or came
        self._size_bytes = 0

    def steps(self) -> Steps[Any]:
        read, size_bytes, is_urgent = yield from self._reading()
        if self._request.max_wait_ms <= 0 or is_urgent or size_bytes >= self._min_bytes:
            return (yield from self._responding(read))
        self._wait(read)
        # Once more: what came while we read was told to nobody, because nobody was waiting yet.
        read, size_bytes, is_urgent = yield from self._reading()
        if is_urgent or size_bytes >= self._min_bytes:
            self._answer_soon()
        return self._later

    def _wait(self, read: list[tuple[FetchKey, PartitionData]]) -> None:
        self._waits_for = {TopicPartition(each[0].topic, each[0].partition): each for each in self._plan.wanted}
        for key, data in read:
            if data.records:
                self._sizes[TopicPartition(key.topic, key.partition)] = len(data.records)
        self._size_bytes = sum(self._sizes.values())
        deadline_ms = self._broker.clock.monotonic_ms() + self._request.max_wait_ms
        self._broker.fetch_purgatory.wait(WaitingFetch(self._told), self._waits_for, deadline_ms, self._changed)

    def _told(self, is_over: bool) -> bool:
        if is_over:
            self._answer_soon()
        return self._is_answering

    def _changed(self, name: Hashable) -> bool:
        assert isinstance(name, TopicPartition)
        if self._is_answering:
            return True
        key, wanted = self._waits_for[name]
        data = self._read_one(key, wanted, wanted.max_bytes, is_first=True)
        size_bytes = 0 if data.records is None else len(data.records)
        self._size_bytes += size_bytes - self._sizes.get(name, 0)
        self._sizes[name] = size_bytes
        if self._size_bytes >= self._min_bytes or _is_urgent(data):
            self._answer_soon()
        return self._is_answering

    def _answer_soon(self) -> None:
        if self._is_answering:  # what came while we looked once more has seen to it
            return
        self._is_answering = True
        self._broker.long_work.do_later(self._answering(), self._context.connection).when_given(self._later.give)

    def _answering(self) -> Steps[FetchResponse]:
        read, _, _ = yield from self._reading()
        return (yield from self._responding(read))


def _is_urgent(data: PartitionData) -> bool:
    return data.error_code != 0 or data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0


def _data(key: FetchKey, partition: Partition, **values: Any) -> PartitionData:
    log = partition.log
    return PartitionData(
        partition_index=key.partition,
        error_code=0,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        **{"aborted_transactions": None, "records": b"", **values},
    )


def _divergence(partition: Partition, wanted: Wanted) -> EpochEndOffset | None:
    """Where the fetcher's log and ours went apart, when it names an epoch that ended earlier here (KIP-595)."""
    if wanted.last_fetched_epoch < 0:
        return None
    end = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if end.epoch < 0 or end.end_offset < 0 or wanted.fetch_offset < partition.log.log_start_offset:
        raise OffsetOutOfRange(f"{partition.name} does not know where epoch {wanted.last_fetched_epoch} ends")
    if end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None
