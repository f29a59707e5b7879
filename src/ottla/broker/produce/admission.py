"""Produce requests of one client on their way to the partitions: which batch goes where, and what is refused before.

    admission = Admission(broker, context, acks, timeout_ms, answers)
    results = admission.add(request.topics)          # for each request; what is refused is said at once
    for partition, write in admission.writes: ...    # the rest is for broker.writer

1. Batches of requests that came together are one write for each partition, in the order of the requests. A batch that
   is not plain (compressed, part of a transaction, with a guard) is a write of its own.
2. Internal topics are written by the broker only, and by a client that calls itself ADMIN_CLIENT, as in Kafka; it needs
   the right to write there like any other.
3. What goes wrong with one batch is said in its result and concerns no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.produce.answers import Answers
from ottla.broker.produce.frames import Produce, ProduceResults, Topic
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.writes import ProduceResult, Write
from ottla.errors import BrokerError, InvalidTopicException, UnknownTopicId, UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple
from ottla.records.compression import Compression
from ottla.records.layout import ATTRIBUTES_AT, COMPRESSION_MASK, HEADER_BYTES, TRANSACTIONAL_BIT
from ottla.storage.producers.check import VerificationGuard
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.requests.context import RequestContext

ZSTD_SINCE: Final = 7
MANY_PARTITIONS: Final = 256
SLOW_BYTES: Final = 16 * 1024  # 16 MiB at most when decompressed, which takes 50 ms
CODEC_AT: Final = ATTRIBUTES_AT + 1
NO_RECORDS: Final = memoryview(b"")
ADMIN_CLIENT: Final = "__admin_client"

Guards: TypeAlias = Mapping[TopicPartition, VerificationGuard]
Refused: TypeAlias = Mapping[TopicPartition, BrokerError]


def topic_name(broker: Broker, topic: Topic) -> str | None:
    """The name of a topic that a request names or gives the id of; None for an id that nobody has."""
    return topic if isinstance(topic, str) else broker.image.topic_name(topic)


def wants_schemas(broker: Broker, request: Produce) -> bool:
    """Whether records are for a topic that takes only such with a known schema (registry/validation.py)."""
    for topic, partitions in request.topics:
        name = topic_name(broker, topic)
        for index, _ in partitions:
            partition = None if name is None else broker.replicas.get((name, index))
            if partition is not None and partition.checks_schemas:
                return True
    return False


class Traits(NamedTuple):
    """What must be known of a request before anything is done for it."""

    takes_long: bool
    """Nobody can say, before he has done it, how long the append will take."""
    is_transactional: bool
    """A batch is part of a transaction, as the first of its partition says."""
    is_wide: bool = False
    """It has more partitions than can be looked at without a pause."""


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


class Admission:
    """See the module. Partitions that are `refused` are not written to, nor are `denied` topics."""

    __slots__ = (
        "_acks",
        "_answers",
        "_broker",
        "_denied",
        "_guards",
        "_is_admin",
        "_open",
        "_refused",
        "_timeout_ms",
        "_zstd_allowed",
        "writes",
    )

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        acks: int,
        timeout_ms: int,
        answers: Answers,
        *,
        denied: Mapping[Topic, BrokerError] | None = None,
        refused: Refused | None = None,
        guards: Guards | None = None,
    ) -> None:
        self._broker = broker
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._answers = answers
        self._denied = denied
        self._refused = refused
        self._guards = guards
        self._zstd_allowed = context.api_version >= ZSTD_SINCE
        self._is_admin = context.client_id == ADMIN_CLIENT
        self._open: dict[Partition, Write] = {}  # takes more plain batches
        self.writes: list[tuple[Partition, Write]] = []

    def add(self, topics: Iterable[tuple[Topic, list[tuple[int, memoryview | None]]]]) -> ProduceResults:
        """One request, or a part of it."""
        return [(topic, self._add(topic, partitions)) for topic, partitions in topics]

    def _add(self, topic: Topic, partitions: list[tuple[int, memoryview | None]]) -> list[ProduceResult]:
        broker = self._broker
        name = topic if type(topic) is str else topic_name(broker, topic)
        error = None if self._denied is None else self._denied.get(topic)
        has_rules = error is not None or name is None or name in broker.internal_topics or bool(self._refused)
        results = []
        for index, records in partitions:
            result = ProduceResult(index)
            results.append(result)
            partition = None if has_rules or name is None else broker.replicas.get((name, index))
            if partition is None:
                try:
                    partition = self._partition(name, index, error)
                except BrokerError as refusal:
                    result.error = refusal
                    broker.writer.count_refusal(name, refusal, 0 if records is None else len(records))
                    continue
            self._write_of(partition, records).add(NO_RECORDS if records is None else records, result)
        return results

    def _write_of(self, partition: Partition, records: memoryview | None) -> Write:
        guard = self._guards.get(partition.name) if self._guards else None
        is_plain = guard is None and records is not None and len(records) >= HEADER_BYTES and not records[CODEC_AT]
        if is_plain and (known := self._open.get(partition)) is not None:
            return known
        write = Write(
            self._answers,
            self._acks,
            self._timeout_ms,
            is_plain=is_plain,
            zstd_allowed=self._zstd_allowed,
            guard=guard,
        )
        self._answers.begun(1)
        self.writes.append((partition, write))
        if is_plain:
            self._open[partition] = write
        else:
            self._open.pop(partition, None)
        return write

    def _partition(self, topic: str | None, index: int, error: BrokerError | None) -> Partition:
        broker = self._broker
        if error is not None:
            raise error
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
