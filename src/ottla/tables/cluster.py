"""What a worker asks of a cluster, Apache's or ours: topics with their settings, offsets, records, dead letters.

1. Records come by RangeReader, read_committed, of the topic with this id; a reader is kept for the next portion, and
   there are READERS of them: so much is fetched at once, however many tables a worker has.
2. Offsets are asked for at the leaders; an answer that is not there yet is an error that passes, and is asked again.
3. A dead letter is acknowledged before the commit that goes over its record. A worker that is killed between sends it
   again: a topic of dead letters has each at least once, with its origin in the headers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.range_reader import RangeReader
from ottla.client.consumer.ranges import TopicRange
from ottla.errors import OttlaError, TopicAlreadyExists, UnknownTopicOrPartition
from ottla.table_settings import PREFIX, TableSettings
from ottla.tables.columns import READ_SCHEMA
from ottla.tables.decoding import BadRecord
from ottla.tables.reach import PartitionOffsets, TopicDescription
from ottla.values import TopicPartition, uuid_to_text

if TYPE_CHECKING:
    from ottla.client.producer.producer import Producer

READERS: Final = 2
POLL_TIMEOUT_MS: Final = 30_000
DEAD: Final = "ottla.dead."


class TopicGone(OttlaError):
    """The topic of a table is not there any more. The table stays as it is; drop it with `ottla table drop`."""


class NoTopicId(OttlaError):
    """The brokers are too old for tables: without the id of a topic nobody knows whether it was made anew."""


class Cluster:
    """The clients of a worker, made when they are needed."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = dict(settings)
        self._lock = threading.Lock()
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._idle: list[RangeReader] = []
        self._readers = threading.Semaphore(READERS)
        self._dead_topics: set[str] = set()

    def admin(self) -> Admin:
        with self._lock:
            if self._admin is None:
                self._admin = Admin(self._settings)
            return self._admin

    def close(self) -> None:
        with self._lock:
            if self._admin is not None:
                self._admin.close(timeout=5.0)
            if self._producer is not None:
                self._producer.close(timeout=5.0)
            for reader in self._idle:
                reader.close()
            self._idle.clear()

    # -- topics --------------------------------------------------------------------------------------------------------

    def tables(self, names: Sequence[str] | None = None) -> dict[str, TableSettings]:
        """What topics say about their tables; all topics but the cluster's own without names."""
        wanted = names if names is not None else sorted(self.admin().list_topics(include_internal=False))
        resources = {name: ConfigResource(ConfigResourceType.TOPIC, name) for name in wanted}
        found = self.admin().describe_configs(resources.values()) if resources else {}
        return {
            name: TableSettings.of(
                {entry.name: entry.value for entry in found[resource].values() if entry.name.startswith(PREFIX)}
            )
            for name, resource in resources.items()
        }

    def describe(self, topic: str) -> TopicDescription:
        """Its id, and where its partitions begin and end."""
        try:
            described = self.admin().describe_topics([topic])[topic]
        except UnknownTopicOrPartition:
            raise TopicGone(f"there is no topic {topic}") from None
        if not described.topic_id:
            raise NoTopicId(f"the brokers tell no id of topic {topic}: tables want brokers of Kafka 2.8 and on")
        names = [TopicPartition(topic, each.partition) for each in described.partitions]
        starts = self.admin().list_offsets(dict.fromkeys(names, OffsetSpec.EARLIEST))
        ends = self.admin().list_offsets(dict.fromkeys(names, OffsetSpec.LATEST), isolation_level="read_committed")
        offsets = {
            name.partition: PartitionOffsets(starts[name].offset, max(ends[name].offset, starts[name].offset))
            for name in names
        }
        return TopicDescription(uuid_to_text(described.topic_id), offsets)

    # -- records -------------------------------------------------------------------------------------------------------

    def read(self, topic: str, topic_id: str, ranges: Mapping[int, tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        """The records of these ranges, all of them committed."""
        wanted = [TopicRange(topic, partition, start, end, topic_id) for partition, (start, end) in ranges.items()]
        with self._reader() as reader:
            yield from reader.read(wanted, READ_SCHEMA, poll_timeout_ms=POLL_TIMEOUT_MS)

    @contextmanager
    def _reader(self) -> Iterator[RangeReader]:
        with self._readers:
            with self._lock:
                reader = self._idle.pop() if self._idle else None
            if reader is None or not reader.is_usable:
                reader = RangeReader({**self._settings, "isolation.level": "read_committed"})
            try:
                yield reader
            except GeneratorExit:
                reader.close()
                raise
            except Exception:
                reader.close()
                raise
            with self._lock:
                self._idle.append(reader)

    # -- dead letters --------------------------------------------------------------------------------------------------

    def send_dead_letters(self, into: str, topic: str, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
        """Write records that are no rows, with the reason; all are acknowledged when this returns."""
        self._ensure_topic(into)
        producer = self._producer_of_letters()
        sent = [producer.send(into, **_letter(topic, batch, each)) for each in bad]
        producer.flush()
        for future in sent:
            future.result(timeout=0)

    def _producer_of_letters(self) -> Producer:
        from ottla.client.producer.producer import Producer

        with self._lock:
            if self._producer is None:
                self._producer = Producer({**self._settings, "acks": "all", "enable.idempotence": True})
            return self._producer

    def _ensure_topic(self, name: str) -> None:
        if name not in self._dead_topics:
            try:
                self.admin().create_topics([NewTopic(name, configs={})])
            except TopicAlreadyExists:
                pass
            self._dead_topics.add(name)


def _letter(topic: str, batch: pa.RecordBatch, bad: BadRecord) -> dict[str, Any]:
    """A record as it came, and behind its headers where it came from and why it is no row."""
    row = batch.slice(bad.row, 1).to_pylist()[0]
    known = {
        "reason": bad.reason,
        "topic": topic,
        "partition": str(bad.partition),
        "offset": str(bad.offset),
        "timestamp": str(row["timestamp"]),
    }
    headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
    headers += [(f"{DEAD}{name}", text.encode()) for name, text in known.items()]
    return {"key": row["key"], "value": row["value"], "headers": headers}
