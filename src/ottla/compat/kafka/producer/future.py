"""kafka.producer.future: what becomes of one record."""

from __future__ import annotations

import threading
from typing import Any, Self

from ottla.compat.kafka.errors import KafkaTimeoutError, theirs
from ottla.compat.kafka.future import Future
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition


class RecordMetadata(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class FutureRecordMetadata(Future):
    """What becomes of one record; get() waits for it."""

    def __init__(self, header_size: int = -1) -> None:
        super().__init__()
        self._header_size = header_size
        self._ended = threading.Event()

    def ours_ended(self, done: Any) -> None:
        """Our client's future is done."""
        error = done.exception()
        if error is None:
            self.success(self._metadata(done.result()))
        else:
            self.failure(theirs(error))
        self._ended.set()

    def fail(self, error: BaseException) -> Self:
        self.failure(error)
        self._ended.set()
        return self

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for it; `timeout` in seconds, as kafka-python has it here."""
        if not self._ended.wait(timeout):
            raise KafkaTimeoutError(f"Timeout after waiting for {timeout} secs.")
        if self.exception is not None:
            raise self.exception
        found: RecordMetadata = self.value
        return found

    def _metadata(self, found: Any) -> RecordMetadata:
        partition = TopicPartition(found.topic, found.partition)
        return RecordMetadata(
            found.topic,
            found.partition,
            partition,
            found.offset,
            found.timestamp_ms,
            None,
            found.serialized_key_size,
            found.serialized_value_size,
            self._header_size,
        )
