"""Messages and partitions as confluent-kafka shows them: methods instead of attributes, offsets with names."""

from __future__ import annotations

from typing import Any, Final

from ottla.compat.confluent_kafka.errors import KafkaError
from ottla.values import TopicPartition as OurPartition

OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
OFFSET_STORED: Final = -1000
OFFSET_INVALID: Final = -1001
TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2


class TopicPartition:
    """A partition, maybe with an offset; it can be changed, as there."""

    __slots__ = ("error", "leader_epoch", "metadata", "offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: KafkaError | None = None

    @property
    def ours(self) -> OurPartition:
        return OurPartition(self.topic, self.partition)

    def _key(self) -> tuple[str, int]:
        return self.topic, self.partition

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, TopicPartition) else NotImplemented

    def __lt__(self, other: TopicPartition) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )


class Message:
    """A record that came, or was sent, or failed."""

    __slots__ = (
        "_delivery_count", "_error", "_headers", "_key", "_latency", "_leader_epoch", "_offset", "_partition",
        "_timestamp", "_topic", "_value",
    )  # fmt: skip

    def __init__(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: Any = None,
        value: Any = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        error: KafkaError | None = None,
        timestamp: tuple[int, int] = (TIMESTAMP_NOT_AVAILABLE, -1),
        latency: float | None = None,
        leader_epoch: int | None = None,
        delivery_count: int | None = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._headers = headers
        self._timestamp = timestamp
        self._error = error
        self._latency = latency
        self._leader_epoch = leader_epoch
        self._delivery_count = delivery_count

    def topic(self) -> str | None:
        return self._topic

    def partition(self) -> int | None:
        return self._partition

    def offset(self) -> int | None:
        return self._offset

    def key(self) -> Any:
        return self._key

    def value(self) -> Any:
        return self._value

    deserialized_key = key
    deserialized_value = value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        """What kind of time, and milliseconds."""
        return self._timestamp

    def error(self) -> KafkaError | None:
        return self._error

    def latency(self) -> float | None:
        """Seconds from produce() to its acknowledgement; None for messages that were consumed."""
        return self._latency

    def leader_epoch(self) -> int | None:
        return self._leader_epoch

    def delivery_count(self) -> int | None:
        """How often a share group delivered it; None for others."""
        return self._delivery_count

    def set_topic(self, topic: str) -> None:
        self._topic = topic

    def set_key(self, key: Any) -> None:
        self._key = key

    def set_value(self, value: Any) -> None:
        self._value = value

    def set_headers(self, headers: list[tuple[str, bytes | None]] | None) -> None:
        self._headers = headers

    def set_error(self, error: KafkaError | None) -> None:
        self._error = error

    def __len__(self) -> int:
        return len(self._value) if self._value is not None else 0

    def __bool__(self) -> bool:
        return True  # an empty message is a message


def bytes_of(data: object, what: str) -> bytes | None:
    """Text and bytes are taken, as confluent-kafka does."""
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"{what} must be bytes or text, not {type(data).__name__}")


def headers_of(headers: Any) -> list[tuple[str, bytes | None]]:
    """A list of pairs, or a dictionary."""
    if not headers:
        return []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [(key, bytes_of(value, f"header {key!r}")) for key, value in pairs]
