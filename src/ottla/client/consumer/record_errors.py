"""Records that cannot be handed out: where they are, and how to go on.

The position stays before such a record, so every poll meets it again until the user seeks past it:

    except (DeserializationFailed, CorruptRecord) as error:
        consumer.seek(error.topic_partition, error.offset + 1)
"""

from __future__ import annotations

from typing import Any, Final

from ottla.errors import CorruptMessage, OttlaError
from ottla.values import TopicPartition

NOWHERE: Final = TopicPartition("", -1)


class DeserializationFailed(OttlaError):
    """A deserializer failed. Seek to the offset after `error.offset` to go on without this record."""

    def __init__(self, detail: str | None = None, topic_partition: TopicPartition = NOWHERE, offset: int = -1) -> None:
        super().__init__(detail)
        self.topic_partition = topic_partition
        self.offset = offset


class CorruptRecord(CorruptMessage):
    """A record batch from the broker fails its CRC or its layout.
    Seek to the offset after `error.offset` to go on without it; if it happens often, look for a faulty disk."""

    def __init__(self, detail: str | None = None, topic_partition: TopicPartition = NOWHERE, offset: int = -1) -> None:
        super().__init__(detail)
        self.topic_partition = topic_partition
        self.offset = offset


def undeserializable(record: Any, cause: Exception) -> DeserializationFailed:
    """The error for a record whose key or value the user's deserializer did not take."""
    where = TopicPartition(record.topic, record.partition)
    what = f"{where} at offset {record.offset}: {type(cause).__name__}: {cause}"
    return DeserializationFailed(what, where, record.offset)


def corrupt_at(topic: str, partition: int, offset: int, cause: CorruptMessage) -> CorruptRecord:
    """The error for bytes that are no sound batch."""
    where = TopicPartition(topic, partition)
    return CorruptRecord(f"{where} at offset {offset}: {cause.detail}", where, offset)
