"""Fetch: read record batches from partitions that this broker leads.

The answer holds slices of files, not records (network/processor.py sends them). It is given when min_bytes can be
read, when a partition has an error, or after max_wait_ms. max_bytes, at most fetch.max.bytes, limits the whole answer
and partition_max_bytes each partition; the first batch of the first partition with data is always whole, so that a
large record cannot block a reader. read_committed reads up to the last stable offset and names the aborted
transactions.

Versions: 7 sessions, 9 leader epoch check, 12 diverging epochs, 13 topic ids, 15 replica state in a tag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.answers import Later
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.replication.fetch_sessions import FetchKey, FetchPlan, Told, Wanted
from ottla.broker.replication.partition import Partition
from ottla.broker.waiting.fetch import WaitingFetch
from ottla.errors import BrokerError, UnknownServerError, UnknownTopicId, UnknownTopicOrPartition
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
TOPIC_IDS_SINCE = 13


def handle(broker: Broker, request: FetchRequest, context: RequestContext) -> Message | Later[Message | None]:
    replica_id = request.replica_id if context.api_version < 15 else request.replica_state.replica_id
    uses_ids = context.api_version >= TOPIC_IDS_SINCE
    try:
        plan = broker.fetch_sessions.plan(
            request.session_id,
            request.session_epoch,
            _wanted(broker, request, uses_ids),
            _forgotten(broker, request, uses_ids),
            uses_topic_ids=uses_ids,
            is_follower=replica_id >= 0,
            now_ms=broker.clock.monotonic_ms(),
        )
    except BrokerError as error:
        return FetchResponse(error_code=error.code, responses=[])
    return _Attempt(broker, request, context, plan).answer()


def _wanted(broker: Broker, request: FetchRequest, uses_ids: bool) -> list[tuple[FetchKey, Wanted]]:
    found = []
    for topic in request.topics:
        name = (broker.image.topic_name(topic.topic_id) or "") if uses_ids else topic.topic
        for partition in topic.partitions:
            position = Wanted(
                fetch_offset=partition.fetch_offset,
                max_bytes=partition.partition_max_bytes,
                current_leader_epoch=partition.current_leader_epoch,
                last_fetched_epoch=partition.last_fetched_epoch,
                log_start_offset=partition.log_start_offset,
            )
            found.append((FetchKey(topic.topic_id, name, partition.partition), position))
    return found


def _forgotten(broker: Broker, request: FetchRequest, uses_ids: bool) -> list[FetchKey]:
    found = []
    for topic in request.forgotten_topics_data:
        name = (broker.image.topic_name(topic.topic_id) or "") if uses_ids else topic.topic
        found += [FetchKey(topic.topic_id, name, partition) for partition in topic.partitions]
    return found


class _Attempt:
    """One fetch on its way to an answer: read, and read again when something changed."""

    def __init__(self, broker: Broker, request: FetchRequest, context: RequestContext, plan: FetchPlan) -> None:
        self._broker = broker
        self._request = request
        self._context = context
        self._plan = plan
        self._read_committed = request.isolation_level == READ_COMMITTED
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
        if not force and not is_urgent and size_bytes < self._request.min_bytes:
            return False
        self._given = self._response(read)
        self._later.give(self._given)
        return True

    def _read_all(self) -> tuple[list[tuple[FetchKey, PartitionData]], int, bool]:
        read = []
        left_bytes = min(self._request.max_bytes, self._broker.settings.fetch_max_bytes)
        size_bytes = 0
        is_urgent = False
        for key, wanted in self._plan.wanted:
            limit_bytes = min(wanted.max_bytes, max(left_bytes, 0))
            data = self._read_one(key, wanted, limit_bytes, is_first=size_bytes == 0)
            taken = len(data.records) if data.records is not None else 0
            size_bytes += taken
            left_bytes -= taken
            is_urgent = is_urgent or data.error_code != 0 or data.diverging_epoch.epoch >= 0
            read.append((key, data))
        return read, size_bytes, is_urgent

    def _read_one(self, key: FetchKey, wanted: Wanted, limit_bytes: int, *, is_first: bool) -> PartitionData:
        try:
            partition = self._partition(key)
            partition.check_leader(wanted.current_leader_epoch)
            if wanted.max_bytes < 0:
                raise UnknownServerError(f"nobody can send {wanted.max_bytes} bytes of {partition.name}")
            diverging = _divergence(partition, wanted)
            if diverging is not None:
                return _data(key, partition, diverging_epoch=diverging)
            if limit_bytes <= 0 and not is_first:
                return _data(key, partition)
            found = partition.read(
                wanted.fetch_offset, limit_bytes, read_committed=self._read_committed, at_least_one_batch=is_first
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

    def _partition(self, key: FetchKey) -> Partition:
        if self._context.api_version >= TOPIC_IDS_SINCE and not key.topic:
            raise UnknownTopicId()
        partition = self._broker.replicas.get(TopicPartition(key.topic, key.partition))
        if partition is None:
            raise UnknownTopicOrPartition(f"{key.topic}-{key.partition}")
        return partition

    def _response(self, read: list[tuple[FetchKey, PartitionData]]) -> FetchResponse:
        topics: dict[tuple[bytes, str], FetchableTopicResponse] = {}
        for key, data in read:
            size_bytes = len(data.records) if data.records is not None else 0
            told = Told(data.high_watermark, data.log_start_offset, data.preferred_read_replica, bool(data.error_code))
            if not self._plan.is_news(key, told, size_bytes) and data.diverging_epoch.epoch < 0:
                continue
            topic = topics.get((key.topic_id, key.topic))
            if topic is None:
                topic = FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id, partitions=[])
                topics[key.topic_id, key.topic] = topic
            topic.partitions.append(data)
            self._broker.topic_metrics.fetched(key.topic, size_bytes)
        return FetchResponse(session_id=self._plan.session_id, responses=list(topics.values()))


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
    if end.epoch < 0 or end.end_offset < 0:
        return None
    if end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None
