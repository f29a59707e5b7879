"""confluent-kafka's Consumer over ours: poll() returns a Message or None, consume() a list.

1. Offsets are "stored" when a message is handed over (enable.auto.offset.store) and committed from the store, by
   commit() or in the background by auto commit; store_offsets() stores by hand.
2. on_assign may set offsets and call assign(), as programs do to begin elsewhere.
3. An error that concerns the whole consumer is told once as a Message with error(); later polls go on.
4. With enable.partition.eof the end of each partition is told as a Message with error _PARTITION_EOF, once each time
   it is reached.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Final

from ottla.client.consumer.consumer import Consumer as OurConsumer
from ottla.client.consumer.settings import ConsumerSettings
from ottla.compat.confluent_kafka.cluster import ClusterMetadata, cluster_id, list_topics
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException, error_of, exception_of
from ottla.compat.confluent_kafka.messages import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
    TopicPartition,
)
from ottla.compat.confluent_kafka.missing_topics import MissingTopics
from ottla.compat.confluent_kafka.serving import Serving
from ottla.compat.confluent_kafka.settings import configure, merged
from ottla.compat.confluent_kafka.statistics import Statistics
from ottla.errors import OttlaError
from ottla.values import OffsetAndMetadata
from ottla.values import TopicPartition as OurPartition

log = logging.getLogger(__name__)

DEFAULTS: Final = {
    "client.id": "rdkafka",
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "range,roundrobin",
    "allow.auto.create.topics": False,
    "max.poll.records": 1_000,
}
AHEAD: Final = 1_000
POLL_FOREVER_S: Final = 1.0


class Consumer:
    """See the module."""

    def __init__(self, config: Any = None, /, **keywords: Any) -> None:
        if not {"group.id"} & set(merged(config, keywords)):
            raise ValueError("Failed to create consumer: group.id must be set")
        self._configuration = configure("consumer", config, keywords, ConsumerSettings)
        here = self._configuration.here
        self._auto_commit = bool(here.get("enable.auto.commit", True))
        self._auto_store = bool(here.get("enable.auto.offset.store", True))
        self._reports_end = bool(here.get("enable.partition.eof", False))
        self._commit_every_s = float(here.get("auto.commit.interval.ms") or 5_000) / 1000
        settings = DEFAULTS | self._configuration.ours
        settings["enable.auto.commit"] = False  # what counts is what was stored, which only we know
        if settings.get("group.protocol") == "consumer":
            settings.pop("partition.assignment.strategy")
        try:
            self._ours = OurConsumer(settings)
        except OttlaError as error:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"Failed to create consumer: {error}")) from error
        self._settings = settings
        self._on_commit = self._configuration.callback("on_commit")
        self._serving = Serving(self._configuration)
        self._serving.attach(self._ours._core.network)
        self._statistics = Statistics("consumer", str(settings["client.id"]), self._ours._core.network)
        self._ahead: deque[Any] = deque()
        self._stored: dict[OurPartition, OffsetAndMetadata] = {}
        self._at_end: set[OurPartition] = set()
        self._missing = MissingTopics(self._ours)
        self._commit_due = monotonic() + self._commit_every_s
        self._starts: dict[OurPartition, int] | None = None
        self._closed = False

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what to read ---

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: Callable[..., Any] | None = None,
        on_revoke: Callable[..., Any] | None = None,
        on_lost: Callable[..., Any] | None = None,
    ) -> None:
        """Join the group for these topics; a name that begins with ^ is a regular expression."""
        listener = _Listener(self, on_assign, on_revoke, on_lost)
        patterns = [each for each in topics if each.startswith("^")]
        self._check_open()
        self._missing.forget()
        if not patterns:
            self._call(self._ours.subscribe, list(topics), listener=listener)
            return
        plain = [
            "^" + "".join("\\" + c if not c.isalnum() else c for c in each) + "$"
            for each in topics
            if each not in patterns
        ]
        self._call(
            self._ours.subscribe, pattern="|".join(f"(?:{each})" for each in (*patterns, *plain)), listener=listener
        )

    def unsubscribe(self) -> None:
        self._commit_stored()
        self._call(self._ours.unsubscribe)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions; inside on_assign it says where to begin."""
        wanted = list(partitions)
        if self._starts is not None:
            self._starts.update({each.ours: each.offset for each in wanted})
            return
        self._check_open()
        self._ahead.clear()
        self._call(self._ours.assign, [each.ours for each in wanted])
        self._begin({each.ours: each.offset for each in wanted})

    incremental_assign = assign

    def unassign(self) -> None:
        if self._starts is None:
            self._call(self._ours.unsubscribe)

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        if self._starts is None:
            gone = {each.ours for each in partitions}
            self._call(self._ours.assign, [each for each in self._ours.assignment() if each not in gone])

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(*each) for each in sorted(self._ours.assignment())]

    def _begin(self, offsets: dict[OurPartition, int]) -> None:
        """Go to the offsets that were asked for; the named ones mean what they mean in librdkafka."""
        for partition, offset in offsets.items():
            if offset == OFFSET_BEGINNING:
                self._call(self._ours.seek_to_beginning, partition)
            elif offset == OFFSET_END:
                self._call(self._ours.seek_to_end, partition)
            elif offset not in (OFFSET_INVALID, OFFSET_STORED):
                self._call(self._ours.seek, partition, offset)

    # --- reading ---

    def poll(self, timeout: float | None = -1) -> Message | None:
        """The next message, an error as a message, or None when `timeout` seconds are over."""
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Up to so many messages; returns what is there when `timeout` is over."""
        self._check_open()
        deadline = None if timeout is None or timeout < 0 else monotonic() + timeout
        found: list[Message] = []
        self._serving.serve(self._statistics_text)
        while len(found) < num_messages:
            found += self._take(num_messages - len(found))
            if len(found) >= num_messages or not self._fill(found, deadline):
                break
        self._auto_commit_when_due()
        return found

    def _take(self, limit: int) -> list[Message]:
        messages: list[Message] = []
        while self._ahead and len(messages) < limit:
            record = self._ahead.popleft()
            if self._auto_store:
                partition = OurPartition(record.topic, record.partition)
                self._stored[partition] = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
            messages.append(_message(record))
        return messages

    def _fill(self, found: list[Message], deadline: float | None) -> bool:
        """Fetch what comes next; False when it is time to give back what there is."""
        left = POLL_FOREVER_S if deadline is None else deadline - monotonic()
        try:
            records = self._ours.poll(max(min(left, POLL_FOREVER_S), 0), max_records=AHEAD)
        except (OttlaError, TimeoutError) as error:
            found.append(Message(error=error_of(error)))
            return False
        self._serving.serve(self._statistics_text)
        self._ahead.extend(records)
        if records:
            self._at_end -= {OurPartition(each.topic, each.partition) for each in records}
            return True
        if news := self._missing.news() or self._ends():
            found += news
            return False
        return left > 0

    def _ends(self) -> list[Message]:
        if not self._reports_end:
            return []
        ends = []
        for partition in sorted(self._ours.assignment() - self._at_end):
            if self._ours.lag(partition) == 0:
                self._at_end.add(partition)
                position = self._ours.position(partition)
                ends.append(
                    Message(partition.topic, partition.partition, position, error=KafkaError(KafkaError._PARTITION_EOF))
                )
        return ends

    # --- offsets ---

    def store_offsets(self, message: Message | None = None, offsets: Iterable[TopicPartition] | None = None) -> None:
        """Say what was worked on; it is committed by the next commit."""
        for each in _named(message, offsets) or []:
            self._stored[each.ours] = OffsetAndMetadata(each.offset, each.metadata or "")

    def commit(
        self,
        message: Message | None = None,
        offsets: Iterable[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit what was stored, or what is named; without waiting unless asynchronous is False."""
        self._check_open()
        named = _named(message, offsets)
        if named is not None:
            wanted = {
                each.ours: OffsetAndMetadata(each.offset, each.metadata or "") for each in named if each.offset >= 0
            }
        else:
            wanted = self._take_stored()
        if not wanted:
            if named is None and not asynchronous:
                raise KafkaException(KafkaError(KafkaError._NO_OFFSET, "Commit failed: no offset is stored"))
            return None if asynchronous else []
        if asynchronous:
            self._call(self._ours.commit_async, wanted, self._committed)
            return None
        self._call(self._ours.commit, wanted)
        return [
            TopicPartition(each.topic, each.partition, offset.offset, offset.metadata)
            for each, offset in wanted.items()
        ]

    def _committed(self, offsets: Any, error: BaseException | None) -> None:
        if (callback := self._on_commit) is not None:
            partitions = [TopicPartition(each.topic, each.partition, it.offset) for each, it in (offsets or {}).items()]
            callback(None if error is None else error_of(error), partitions)
        elif error is not None:
            log.warning("offsets were not committed: %s", error)

    def _take_stored(self) -> dict[OurPartition, OffsetAndMetadata]:
        assigned = self._ours.assignment()
        wanted = {each: offset for each, offset in self._stored.items() if each in assigned}
        self._stored.clear()
        return wanted

    def _auto_commit_when_due(self) -> None:
        if self._auto_commit and monotonic() >= self._commit_due:
            self._commit_due = monotonic() + self._commit_every_s
            if wanted := self._take_stored():
                self._ours.commit_async(wanted, self._committed)

    def _commit_stored(self) -> None:
        """Before partitions go: what was handed over counts as done, when auto commit is on."""
        if self._auto_commit and (wanted := self._take_stored()):
            try:
                self._ours.commit(wanted)
            except (OttlaError, TimeoutError) as error:
                log.warning("offsets were not committed: %s", error)

    def committed(self, partitions: Iterable[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        wanted = list(partitions)
        limit = None if timeout < 0 else timeout
        found = self._call(self._ours.committed, *(each.ours for each in wanted), timeout=limit)
        for each in wanted:
            offset = found.get(each.ours)
            each.offset = OFFSET_INVALID if offset is None else offset.offset
            each.metadata = None if offset is None else offset.metadata
        return wanted

    def position(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Behind the last message that was handed over."""
        wanted = list(partitions)
        waiting = {OurPartition(each.topic, each.partition): each.offset for each in reversed(self._ahead)}
        for each in wanted:
            each.offset = waiting[each.ours] if each.ours in waiting else self._call(self._ours.position, each.ours)
        return wanted

    def seek(self, partition: TopicPartition) -> None:
        self._ahead = deque(each for each in self._ahead if (each.topic, each.partition) != partition.ours)
        self._at_end.discard(partition.ours)
        self._begin({partition.ours: partition.offset})

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._call(self._ours.pause, *(each.ours for each in partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._call(self._ours.resume, *(each.ours for each in partitions))

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        limit = None if timeout < 0 else timeout
        low = self._call(self._ours.beginning_offsets, [partition.ours], timeout=limit)[partition.ours]
        high = self._call(self._ours.end_offsets, [partition.ours], timeout=limit)[partition.ours]
        return low, high

    def offsets_for_times(self, partitions: Iterable[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """Where the times in the `offset` fields are; the end where no message is that late."""
        wanted = list(partitions)
        limit = None if timeout < 0 else timeout
        found = self._call(self._ours.offsets_for_times, {each.ours: each.offset for each in wanted}, timeout=limit)
        return [
            TopicPartition(*each.ours, OFFSET_END if found.get(each.ours) is None else found[each.ours].offset)
            for each in wanted
        ]

    # --- about ---

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        return list_topics(self._settings, topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str:
        return cluster_id(self._settings, timeout)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Not possible here: the login is part of the settings."""
        raise KafkaException(
            KafkaError(KafkaError._NOT_IMPLEMENTED, "credentials cannot be changed: make a new Consumer")
        )

    def _statistics_text(self) -> str:
        metrics = self._ours.metrics()
        total = {key.name: value for key, value in metrics.items() if key.group.startswith("consumer-")}
        assigned = {each: self._partition_numbers(each) for each in self._ours.assignment()}
        facts = {
            "replyq": len(self._serving),
            "rxmsgs": int(total.get("records-consumed-total", 0)),
            "rxmsg_bytes": int(total.get("bytes-consumed-total", 0)),
            "cgrp": {"rebalance_cnt": int(total.get("rebalance-total", 0)), "assignment_size": len(assigned)},
        }
        return self._statistics.text(metrics, facts, self._statistics.topics(assigned, set()))

    def _partition_numbers(self, partition: OurPartition) -> dict[str, Any]:
        lag = self._ours.lag(partition)
        stored = self._stored.get(partition)
        return {
            "consumer_lag": -1 if lag is None else lag,
            "stored_offset": OFFSET_INVALID if stored is None else stored.offset,
        }

    def consumer_group_metadata(self) -> Any:
        return self._ours.group_metadata()

    def memberid(self) -> str:
        return str(self._ours.group_metadata().member_id)

    def close(self) -> None:
        """Commit what was stored, when auto commit is on, and leave the group."""
        if not self._closed:
            self._commit_stored()
            self._closed = True
            self._call(self._ours.close)

    # --- small parts ---

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Consumer closed")

    def _call(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except (OttlaError, TimeoutError) as error:
            raise exception_of(error) from None


class _Listener:
    """The three callbacks as a listener of ours."""

    def __init__(self, consumer: Consumer, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self._consumer = consumer
        self._on_assign = on_assign
        self._on_revoke = on_revoke
        self._on_lost = on_lost

    def on_assigned(self, partitions: list[OurPartition]) -> None:
        consumer = self._consumer
        consumer._at_end -= set(partitions)
        if self._on_assign is None:
            return
        consumer._starts = {}
        try:
            self._on_assign(consumer, [TopicPartition(*each) for each in partitions])
            starts = {each: offset for each, offset in consumer._starts.items() if each in set(partitions)}
        finally:
            consumer._starts = None
        consumer._begin(starts)

    def on_revoked(self, partitions: list[OurPartition]) -> None:
        if self._on_revoke is not None:
            self._on_revoke(self._consumer, [TopicPartition(*each) for each in partitions])
        self._consumer._commit_stored()
        self._drop(partitions)

    def on_lost(self, partitions: list[OurPartition]) -> None:
        on_lost = self._on_lost or self._on_revoke
        if on_lost is not None:
            on_lost(self._consumer, [TopicPartition(*each) for each in partitions])
        self._drop(partitions)

    def _drop(self, partitions: list[OurPartition]) -> None:
        gone = set(partitions)
        consumer = self._consumer
        consumer._ahead = deque(each for each in consumer._ahead if (each.topic, each.partition) not in gone)
        for each in gone:
            consumer._stored.pop(each, None)


_TIMES: Final = {0: TIMESTAMP_CREATE_TIME, 1: TIMESTAMP_LOG_APPEND_TIME}


def _message(record: Any) -> Message:
    kind = _TIMES.get(int(record.timestamp_type), TIMESTAMP_NOT_AVAILABLE)
    headers = [tuple(each) for each in record.headers] or None
    return Message(
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        headers,
        timestamp=(kind, record.timestamp_ms),
        leader_epoch=record.leader_epoch,
    )


def _named(message: Message | None, offsets: Iterable[TopicPartition] | None) -> list[TopicPartition] | None:
    if message is not None:
        if message.error() is not None:
            raise KafkaException(message.error())
        return [TopicPartition(str(message.topic()), message.partition() or 0, (message.offset() or 0) + 1)]
    return None if offsets is None else list(offsets)
