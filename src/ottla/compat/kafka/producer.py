"""KafkaProducer over ours: send() returns a future of kafka-python's shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from ottla.client.producer.producer import Producer as OurProducer
from ottla.client.producer.values import RecordMetadata as OurMetadata
from ottla.compat.kafka.errors import KafkaTimeoutError
from ottla.compat.kafka.settings import ours
from ottla.compat.kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.values import TopicPartition

# kafka-python's own defaults; all others that can be seen are Java's in both.
DEFAULTS: Final = {"linger_ms": 0, "batch_size": 16_384}
FOREVER_S: Final = 60.0 * 60 * 24


class RecordMetadata:
    """Where a record is."""

    __slots__ = ("_ours",)

    def __init__(self, metadata: OurMetadata) -> None:
        self._ours = metadata

    topic = property(lambda self: self._ours.topic)
    partition = property(lambda self: self._ours.partition)
    offset = property(lambda self: self._ours.offset)
    timestamp = property(lambda self: self._ours.timestamp_ms)
    topic_partition = property(lambda self: TopicPartition(self._ours.topic, self._ours.partition))
    serialized_key_size = property(lambda self: self._ours.serialized_key_size)
    serialized_value_size = property(lambda self: self._ours.serialized_value_size)

    def __repr__(self) -> str:
        return f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, offset={self.offset})"


class FutureRecordMetadata:
    """What becomes of one record."""

    def __init__(self, future: Any) -> None:
        self._ours = future

    @property
    def is_done(self) -> bool:
        return bool(self._ours.done())

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for it; `timeout` in seconds, as kafka-python has it here."""
        try:
            return RecordMetadata(self._ours.result(timeout))
        except TimeoutError:
            raise KafkaTimeoutError(f"Timeout after waiting for {timeout} secs.") from None

    def succeeded(self) -> bool:
        return self.is_done and self._ours.exception() is None

    def failed(self) -> bool:
        return self.is_done and self._ours.exception() is not None

    @property
    def value(self) -> RecordMetadata | None:
        return RecordMetadata(self._ours.result()) if self.succeeded() else None

    @property
    def exception(self) -> BaseException | None:
        error: BaseException | None = self._ours.exception() if self.is_done else None
        return error

    def retriable(self) -> bool:
        return bool(getattr(self.exception, "retriable", False))

    def add_callback(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Self:
        """Call it with the metadata behind `arguments` when the record was written."""

        def ended(future: Any) -> None:
            if future.exception() is None:
                call(*arguments, RecordMetadata(future.result()), **named)

        self._ours.add_done_callback(ended)
        return self

    def add_errback(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Self:
        """Call it with the error behind `arguments` when the record was not written."""

        def ended(future: Any) -> None:
            if (error := future.exception()) is not None:
                call(*arguments, error, **named)

        self._ours.add_done_callback(ended)
        return self

    def add_both(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Self:
        self.add_callback(call, *arguments, **named)
        return self.add_errback(call, *arguments, **named)


class KafkaProducer:
    """See the module."""

    def __init__(self, **configs: Any) -> None:
        settings = DEFAULTS | configs
        if settings.get("acks") not in (None, "all", -1, "-1"):
            settings.setdefault("enable_idempotence", False)
        self._ours = OurProducer(**ours(settings, keep=("max_in_flight_requests_per_connection",)))

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: list[tuple[str, bytes]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        future = self._ours.send(topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)
        return FutureRecordMetadata(future)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent has its result. What failed is raised; kafka-python leaves that to the futures."""
        try:
            self._ours.flush(timeout)
        except TimeoutError as error:
            raise KafkaTimeoutError(str(error)) from None

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        self._ours.close(FOREVER_S if timeout is None else timeout)

    def partitions_for(self, topic: str) -> set[int]:
        return {each.partition for each in self._ours.partitions_for(topic)}

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has told us about itself."""
        return not self._ours._core.network.metadata.is_bootstrapping

    def metrics(self, raw: bool = False) -> Mapping[Any, float]:
        return self._ours.metrics()

    def init_transactions(self) -> None:
        self._ours.init_transactions()

    def begin_transaction(self) -> None:
        self._ours.begin_transaction()

    def commit_transaction(self) -> None:
        self._ours.commit_transaction()

    def abort_transaction(self) -> None:
        self._ours.abort_transaction()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        group = ConsumerGroupMetadata(group_metadata) if isinstance(group_metadata, str) else group_metadata
        self._ours.send_offsets_to_transaction({key: each.ours for key, each in offsets.items()}, group)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
