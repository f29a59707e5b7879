"""Records of produce requests on their way into the logs.

    appending = Appending(broker, acks, context)
    answers, uncommitted = appending.add(request)   # for each request; nothing is written yet
    appending.append()                              # now the answers say what became of the records

1. Requests that came together may be added together. Records for the same partition are then appended in their
   order, by one write where they are simple (`append_run` of storage/log/append.py), else one by one.
2. What goes wrong with one partition is said in its outcome and concerns no other.
3. `uncommitted` is what must be waited for before the request is answered: with acks=all everything, with acks=1 what
   one durable replica has not synced yet, because a producer that was answered can read it.
4. Where it may take long (`Traits.takes_long`), `append_with_pauses` does the same and leaves others their turn: a few
   kilobytes of compressed records may be a hundred megabytes to check, and a request may have thousands of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.produce.committed import Uncommitted, count_refusal
from ottla.broker.produce.frames import Produce, ProduceResult, ProduceResults, Topic
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.requests.pacing import Pace
from ottla.errors import BrokerError, InvalidTopicException, UnknownTopicId, UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple
from ottla.records.checks import PlacedBatch, RecordsCheck
from ottla.records.compression import Compression
from ottla.records.layout import ATTRIBUTES_AT, COMPRESSION_MASK, HEADER_BYTES, NO_TIMESTAMP, TRANSACTIONAL_BIT
from ottla.storage.log.append import AppendResult
from ottla.storage.log.record_errors import RecordsRefused
from ottla.storage.producers.check import VerificationGuard
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.requests.context import RequestContext

ZSTD_SINCE = 7
MANY_PARTITIONS = 256
SLOW_BYTES = 16 * 1024  # 16 MiB at most when decompressed, which takes 50 ms
CODEC_AT = ATTRIBUTES_AT + 1
NO_RECORDS = memoryview(b"")

Guards: TypeAlias = Mapping[TopicPartition, VerificationGuard]
RefusedPartitions: TypeAlias = Mapping[TopicPartition, BrokerError]
Part: TypeAlias = tuple[memoryview, ProduceResult, list[Uncommitted]]


def topic_name(broker: Broker, topic: Topic) -> str | None:
    """The name of a topic that a request names or gives the id of; None for an id that nobody has."""
    return topic if isinstance(topic, str) else broker.image.topic_name(topic)


def waits_for_commit(partition: Partition, acks: int) -> bool:
    """Whether a request that has just appended is answered when that is committed: see promise 3."""
    return acks == ACKS_ALL or (acks == 1 and partition.in_sync is None and partition.needs_flush)


class Traits(NamedTuple):
    """What must be known of a request before anything is done for it."""

    takes_long: bool
    """Nobody can say, before he has done it, how long the append will take."""
    is_transactional: bool
    """A batch is part of a transaction, as the first of its partition says."""
    is_wide: bool = False
    """It has more partitions than can be looked at without a pause."""


ADMIN_CLIENT: Final = "__admin_client"
PLAIN: Final = Traits(takes_long=False, is_transactional=False)


def traits_of(request: Produce) -> Traits:
    count = attributes = 0
    for _, partitions in request.topics:
        count += len(partitions)
        for _, records in partitions:
            if records is not None and len(records) >= HEADER_BYTES:
                attributes |= records[CODEC_AT]
    if not attributes and count <= MANY_PARTITIONS:
        return PLAIN
    is_compressed = bool(attributes & COMPRESSION_MASK)
    is_wide = count > MANY_PARTITIONS
    return Traits(is_compressed or is_wide, bool(attributes & TRANSACTIONAL_BIT), is_wide)


def is_slow(records: memoryview) -> bool:
    """Whether one batch alone may take longer than others should wait; the other codecs are ten times as fast."""
    return len(records) > SLOW_BYTES and records[CODEC_AT] & COMPRESSION_MASK == Compression.GZIP


class Appending:
    """One or more requests of one client with the same acks. Partitions that are `refused` are not written to. Internal
    topics are written by the broker only, and by a client that calls itself ADMIN_CLIENT, as in Kafka; it needs the
    right to write there like any other."""

    __slots__ = ("_acks", "_broker", "_guards", "_is_admin", "_parts", "_refused", "_zstd_allowed")

    def __init__(
        self,
        broker: Broker,
        acks: int,
        context: RequestContext,
        refused: RefusedPartitions | None = None,
        guards: Guards | None = None,
    ) -> None:
        self._broker = broker
        self._acks = acks
        self._zstd_allowed = context.api_version >= ZSTD_SINCE
        self._is_admin = context.client_id == ADMIN_CLIENT
        self._refused = refused
        self._guards = guards
        self._parts: dict[Partition, list[Part]] = {}

    def add(self, request: Produce) -> tuple[ProduceResults, list[Uncommitted]]:
        """Add a request; its answers are true and its list is complete after `append`."""
        uncommitted: list[Uncommitted] = []
        answers = [(topic, self._add(topic, partitions, uncommitted)) for topic, partitions in request.topics]
        return answers, uncommitted

    async def add_with_pauses(self, request: Produce, pace: Pace) -> tuple[ProduceResults, list[Uncommitted]]:
        uncommitted: list[Uncommitted] = []
        answers: ProduceResults = []
        for topic, partitions in request.topics:
            outcomes: list[ProduceResult] = []
            for start in range(0, len(partitions), MANY_PARTITIONS):
                outcomes += self._add(topic, partitions[start : start + MANY_PARTITIONS], uncommitted)
                await pace.step()
            answers.append((topic, outcomes))
        return answers, uncommitted

    def _add(
        self, topic: Topic, partitions: list[tuple[int, memoryview | None]], uncommitted: list[Uncommitted]
    ) -> list[ProduceResult]:
        name = topic if isinstance(topic, str) else topic_name(self._broker, topic)
        has_rules = name is None or name in self._broker.internal_topics or bool(self._refused)
        outcomes = []
        for index, records in partitions:
            outcome = ProduceResult(index)
            outcomes.append(outcome)
            partition = None if has_rules or name is None else self._broker.replicas.get((name, index))
            if partition is None:
                try:
                    partition = self._partition(name, index)
                except BrokerError as error:
                    outcome.refuse(error)
                    count_refusal(self._broker, name, error, 0 if records is None else len(records))
                    continue
            part = NO_RECORDS if records is None else records, outcome, uncommitted
            known = self._parts.get(partition)
            if known is None:
                self._parts[partition] = [part]
            else:
                known.append(part)
        return outcomes

    def append(self) -> None:
        """Append all that was added."""
        now_ms = self._broker.clock.now_ms()
        for partition, parts in self._parts.items():
            if not self._guards and self._append_run(partition, parts, now_ms):
                continue
            for part in parts:
                self._append_one(partition, part, now_ms)

    async def append_with_pauses(self, pace: Pace) -> None:
        now_ms = self._broker.clock.now_ms()
        for partition, parts in self._parts.items():
            for part in parts:
                if is_slow(part[0]):
                    await self._append_slowly(partition, part, now_ms, pace)
                else:
                    self._append_one(partition, part, now_ms)
                await pace.step()

    async def _append_slowly(self, partition: Partition, part: Part, now_ms: int, pace: Pace) -> None:
        """Look into the batch piece by piece first, so that nobody waits until all of it was seen."""
        inspection = partition.log.inspect_batch(part[0], now_ms=now_ms, zstd_allowed=self._zstd_allowed)
        checked = None
        try:
            checked = await pace.run(inspection)
        except BrokerError as error:
            # One that is there already was taken then, and is not judged again; the log says where it is.
            if not (isinstance(error, RecordsRefused) and partition.log.has_batch(part[0])):
                self._refuse(partition, part, error)
                return
        self._append_one(partition, part, now_ms, checked)

    def _refuse(self, partition: Partition, part: Part, error: BrokerError) -> None:
        part[1].refuse(error)
        count_refusal(self._broker, partition.name.topic, error, len(part[0]))

    def _partition(self, topic: str | None, index: int) -> Partition:
        broker = self._broker
        if topic is None:
            raise UnknownTopicId()
        if topic in broker.internal_topics and not self._is_admin:
            raise InvalidTopicException(f"{topic} is written by the broker only")
        partition = broker.replicas.get((topic, index))
        if partition is None:
            raise UnknownTopicOrPartition(f"{topic}-{index}")
        if self._refused and partition.name in self._refused:
            raise self._refused[partition.name]
        return partition

    def _append_run(self, partition: Partition, parts: list[Part], now_ms: int) -> bool:
        """All by one write; False when they must go one by one."""
        try:
            batches = partition.append_run([part[0] for part in parts], acks=self._acks, now_ms=now_ms)
        except BrokerError as error:
            for part in parts:
                self._refuse(partition, part, error)
            return True
        if batches is None:
            return False
        self._appended(partition, parts, batches, NO_TIMESTAMP, partition.end.log_start_offset)
        return True

    def _append_one(self, partition: Partition, part: Part, now_ms: int, checked: RecordsCheck | None = None) -> None:
        guards = self._guards
        try:
            result = partition.append(
                part[0],
                acks=self._acks,
                now_ms=now_ms,
                zstd_allowed=self._zstd_allowed,
                guard=guards.get(partition.name) if guards else None,
                checked=checked,
            )
        except BrokerError as error:
            self._refuse(partition, part, error)
            return
        self._appended(partition, (part,), (result,), result.log_append_time_ms, result.log_start_offset)

    def _appended(
        self,
        partition: Partition,
        parts: list[Part] | tuple[Part],
        places: Sequence[PlacedBatch | AppendResult],
        append_time_ms: int,
        log_start_offset: int,
    ) -> None:
        """All of them were appended; `places` begin with the first and the last offset of each."""
        broker = self._broker
        size_bytes = record_count = 0
        broker.progress.appended(partition)
        wants_all = self._acks == ACKS_ALL
        waits_from = partition.end.high_watermark if waits_for_commit(partition, self._acks) else None
        for (records, outcome, uncommitted), place in zip(parts, places, strict=True):
            first_offset, last_offset = place[0], place[1]
            outcome.base_offset = first_offset
            outcome.log_append_time_ms = append_time_ms
            outcome.log_start_offset = log_start_offset
            size_bytes += len(records)
            record_count += last_offset - first_offset + 1
            if waits_from is not None and last_offset >= waits_from:
                uncommitted.append(Uncommitted(partition, last_offset + 1, outcome, wants_all))
        broker.topic_metrics.produced(partition.name.topic, size_bytes, record_count, len(parts))
