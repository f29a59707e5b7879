"""KafkaProducer over ours: send() returns a future of kafka-python's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from ottla.client.producer.producer import Producer as OurProducer
from ottla.client.producer.values import SendFailed
from ottla.compat.kafka import settings
from ottla.compat.kafka.bootstrap import wait_for_cluster
from ottla.compat.kafka.errors import BrokerResponseError, IllegalStateError, KafkaTimeoutError, theirs, translates
from ottla.compat.kafka.partitioner import ClusterSnapshot, Partitioner, is_built_in
from ottla.compat.kafka.producer.future import FutureRecordMetadata, RecordMetadata
from ottla.compat.kafka.serializer import Serializer, serializer_of
from ottla.compat.kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.errors import OttlaError
from ottla.values import TopicPartition

__all__ = ["FutureRecordMetadata", "KafkaProducer", "RecordMetadata"]

FOREVER_S: Final = 60.0 * 60 * 24
_BYTES: Final = (bytes, bytearray, memoryview, type(None))


@translates
class KafkaProducer:
    """See the module."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = settings.PRODUCER

    def __init__(self, **configs: Any) -> None:
        if unknown := {name: value for name, value in configs.items() if name not in self.DEFAULT_CONFIG}:
            raise ValueError(f"Unrecognized configs: {unknown}")
        self.config = {**self.DEFAULT_CONFIG, **configs}
        self._key_serializer = serializer_of(self.config["key_serializer"], "key_serializer")
        self._value_serializer = serializer_of(self.config["value_serializer"], "value_serializer")
        self._partitioner = None if is_built_in(self.config["partitioner"]) else self.config["partitioner"]
        ours = settings.ours(configs, self.DEFAULT_CONFIG)
        if self._partitioner is not None and not isinstance(self._partitioner, Partitioner):
            ours["partitioner_class"] = self._partitioner
            self._partitioner = None
        self._ours = OurProducer(**ours)
        self._closed = False
        try:
            wait_for_cluster(self._ours._loop, self._ours._core.network, self.config)
        except BaseException:
            self.close(0)
            raise

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: list[tuple[str, bytes]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        if self._closed:
            raise IllegalStateError("KafkaProducer already closed!")
        if value is None and key is None:
            raise ValueError("Need at least one: key or value")
        pairs = _checked_headers(headers)
        key_bytes = _serialized(self._key_serializer, topic, pairs, key, "key")
        value_bytes = _serialized(self._value_serializer, topic, pairs, value, "value")
        size = sum(len(name.encode()) + len(data) for name, data in pairs) if pairs else -1
        future = FutureRecordMetadata(size)
        if partition is None and self._partitioner is not None:
            partition = self._chosen(self._partitioner, topic, key, key_bytes, value, value_bytes)
        try:
            sent = self._ours.send(
                topic, value_bytes, key=key_bytes, headers=pairs, partition=partition, timestamp_ms=timestamp_ms
            )
        except OttlaError as error:
            known = theirs(error)
            if isinstance(known, BrokerResponseError):
                return future.fail(known)
            raise known from error
        sent.add_done_callback(future.ours_ended)
        return future

    def _chosen(self, partitioner: Any, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any) -> int:
        infos = self._ours.partitions_for(topic)
        cluster = ClusterSnapshot({topic: [(each.partition, each.leader is not None) for each in infos]})
        found = partitioner.partition(topic, key, key_bytes, value, value_bytes, cluster)
        if found is None:
            raise ValueError(f"Partitioner did not assign a partition for topic {topic}!")
        return int(found)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent has its result; what failed is in the futures."""
        try:
            self._ours.flush(timeout)
        except SendFailed:
            pass
        except TimeoutError as error:
            raise KafkaTimeoutError(str(error)) from None

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Send what is queued and end; what fails is in the futures."""
        self._closed = True
        try:
            self._ours.close(FOREVER_S if timeout is None else timeout)
        except (SendFailed, TimeoutError):
            pass

    def partitions_for(self, topic: str) -> set[int]:
        return {each.partition for each in self._ours.partitions_for(topic)}

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has told us about itself."""
        return not self._ours._core.network.metadata.is_bootstrapping

    def metrics(self, raw: bool = False) -> Any:
        """Numbers by group and name; `raw` by our own keys."""
        found = self._ours.metrics()
        return found if raw else grouped(found)

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
        self._ours.send_offsets_to_transaction({key: each.ours for key, each in offsets.items()}, group.ours)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return (
            f"<KafkaProducer client_id={self.config['client_id']} transactional_id={self.config['transactional_id']}>"
        )


def grouped(metrics: Mapping[Any, float]) -> dict[str, dict[str, float]]:
    """Numbers as kafka-python's metrics() shows them."""
    found: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        found.setdefault(key.group, {})[key.name] = value
    return found


def _checked_headers(headers: Any) -> list[tuple[str, bytes]]:
    if headers is None:
        return []
    if not isinstance(headers, list):
        raise TypeError("headers must be list-type")
    for each in headers:
        fits = isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) and isinstance(each[1], bytes)
        if not fits:
            raise TypeError("All headers items must be (str, bytes) tuples")
    return headers


def _serialized(serializer: Serializer | None, topic: str, headers: Any, data: Any, what: str) -> Any:
    found = data if serializer is None else serializer.serialize(topic, headers, data)
    if type(found) not in _BYTES:
        raise TypeError(f"Unsupported type for serialized {what}: {type(found)}")
    return found if found is None or isinstance(found, bytes) else bytes(found)
