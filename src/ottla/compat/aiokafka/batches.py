"""The batch that AIOKafkaProducer.create_batch() gives: records until it is full."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.light_tuples import NamedTuple

BATCH_OVERHEAD: Final = 61
RECORD_OVERHEAD: Final = 21


class BatchedRecord(NamedTuple):
    """A record of a batch."""

    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


class BatchMetadata(NamedTuple):
    """What append() says: where in the batch, and how large."""

    offset: int
    size: int
    timestamp: int


class BatchBuilder:
    """See the module."""

    def __init__(
        self,
        batch_size: int,
        key_serializer: Callable[[Any], Any] | None = None,
        value_serializer: Callable[[Any], Any] | None = None,
    ) -> None:
        self._limit = batch_size
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._size = BATCH_OVERHEAD
        self._closed = False
        self.records: list[BatchedRecord] = []

    def append(
        self, *, timestamp: int | None, key: Any, value: Any, headers: Sequence[tuple[str, bytes]] | None = ()
    ) -> BatchMetadata | None:
        """Add a record; None when the batch is full or closed."""
        if self._closed:
            return None
        raw_key = key if self._key_serializer is None else self._key_serializer(key)
        raw_value = value if self._value_serializer is None else self._value_serializer(value)
        pairs = list(headers or ())
        size = RECORD_OVERHEAD + len(raw_key or b"") + len(raw_value or b"")
        size += sum(len(name) + len(data) + 2 for name, data in pairs)
        if self.records and self._size + size > self._limit:
            self.close()
            return None
        self._size += size
        self.records.append(BatchedRecord(timestamp, raw_key, raw_value, pairs))
        now_ms = int(time.time() * 1000)
        return BatchMetadata(len(self.records) - 1, size, now_ms if timestamp is None else timestamp)

    def close(self) -> None:
        """No more records."""
        self._closed = True

    def size(self) -> int:
        """Bytes, as far as they are known before the batch is written."""
        return self._size

    def record_count(self) -> int:
        return len(self.records)
