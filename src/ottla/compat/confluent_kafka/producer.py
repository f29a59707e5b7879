"""confluent-kafka's Producer over ours: produce() now, callbacks from poll() and flush()."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final

from ottla.client.producer.producer import Producer as OurProducer
from ottla.client.producer.values import BufferExhausted, RecordMetadata, SendFailed
from ottla.compat.confluent_kafka.cluster import ClusterMetadata, list_topics
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException, error_of, exception_of
from ottla.compat.confluent_kafka.messages import TIMESTAMP_CREATE_TIME, Message, TopicPartition, bytes_of, headers_of
from ottla.compat.confluent_kafka.settings import merged, split
from ottla.errors import OttlaError
from ottla.values import OffsetAndMetadata

# Defaults that a program can see. Waiting for room is what librdkafka does not do: it raises BufferError.
DEFAULTS: Final = {
    "partitioner.class": "consistent_random",
    "enable.idempotence": "false",
    "max.block.ms": 1_000,
    "delivery.timeout.ms": 300_000,
    "batch.size": 1_000_000,
}
NO_PARTITION: Final = -1
REPORTS_LIMIT_S: Final = 5.0


class Producer:
    """See the module."""

    def __init__(self, config: Any = None, /, **keywords: Any) -> None:
        settings, self._callbacks = split(merged(config, keywords), DEFAULTS)
        if "transactional.id" in settings:
            settings["enable.idempotence"] = "true"
        try:
            self._ours = OurProducer(settings)
        except OttlaError as error:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from error
        self._settings = settings
        self._reports: deque[tuple[Callable[..., Any], KafkaError | None, Message]] = deque()
        self._waiting = 0
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """Messages that are not acknowledged, or whose callback was not called yet."""
        return max(self._waiting, len(self._ours)) + len(self._reports)

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- producing ---

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = NO_PARTITION,
        callback: Callable[..., Any] | None = None,
        on_delivery: Callable[..., Any] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Queue a message; `callback(error, message)` is called from poll() or flush()."""
        on_report = on_delivery or callback or self._callbacks.get("on_delivery")
        arguments: dict[str, Any] = {
            "key": bytes_of(key, "key"),
            "partition": None if partition == NO_PARTITION else partition,
            "timestamp_ms": timestamp or None,
            "headers": headers_of(headers),
        }
        try:
            if on_report is None:
                self._ours.produce(topic, bytes_of(value, "value"), **arguments)
            else:
                self._produce_with(topic, value, arguments, on_report)
        except BufferExhausted as error:
            raise BufferError(f"Local: Queue full: {error}") from None
        except OttlaError as error:
            raise exception_of(error) from None

    def _produce_with(self, topic: str, value: Any, arguments: dict[str, Any], on_report: Callable[..., Any]) -> None:
        began = monotonic()
        data = bytes_of(value, "value")
        future = self._ours.send(topic, data, **arguments)
        self._waiting += 1
        sent = Message(topic, arguments["partition"], None, arguments["key"], data, arguments["headers"] or None)
        future.add_done_callback(lambda done: self._ended(done, sent, began, on_report))

    def _ended(self, future: Any, message: Message, began: float, on_report: Callable[..., Any]) -> None:
        error = future.exception()
        message._latency = monotonic() - began
        if error is None:
            self._fill(message, future.result())
        else:
            message._error = error_of(error)
        with self._changed:
            self._waiting -= 1
            if error is not None or not self._callbacks.get("delivery.report.only.error"):
                self._reports.append((on_report, message._error, message))
            self._changed.notify_all()

    @staticmethod
    def _fill(message: Message, metadata: RecordMetadata) -> None:
        message._partition = metadata.partition
        message._offset = metadata.offset
        message._timestamp = (TIMESTAMP_CREATE_TIME, metadata.timestamp_ms)

    def produce_batch(
        self, topic: str, messages: Sequence[dict[str, Any]], partition: int = NO_PARTITION, **more: Any
    ) -> int:
        """Queue several; returns how many were taken. One that was not has its error under "_error"."""
        count = 0
        for each in messages:
            arguments: dict[str, Any] = {name: each.get(name) for name in ("value", "key", "headers") if name in each}
            callback = each.get("callback") or more.get("on_delivery") or more.get("callback")
            try:
                self.produce(topic, partition=each.get("partition", partition), callback=callback, **arguments)
                count += 1
            except (KafkaException, BufferError) as error:
                each["_error"] = error.args[0]
        return count

    # --- serving ---

    def poll(self, timeout: float = -1) -> int:
        """Call the callbacks that are due, waiting for the first one; returns how many were called."""
        deadline = None if timeout is None or timeout < 0 else monotonic() + timeout
        with self._changed:
            while not self._reports and self._waiting:
                left = None if deadline is None else deadline - monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(1.0 if left is None else min(left, 1.0))
        return self._serve()

    def _serve(self) -> int:
        served = 0
        while self._reports:
            on_report, error, message = self._reports.popleft()
            served += 1
            on_report(error, message)
        return served

    def flush(self, timeout: float = -1) -> int:
        """Wait until everything is acknowledged and call the callbacks; returns how many are left."""
        deadline = None if timeout is None or timeout < 0 else monotonic() + timeout
        try:
            self._ours.flush(None if deadline is None else max(deadline - monotonic(), 0))
        except SendFailed:
            pass  # told by the callbacks, which is all that confluent-kafka does
        except TimeoutError:
            pass
        self._wait_for_reports(deadline)
        self._serve()
        return len(self)

    def _wait_for_reports(self, deadline: float | None) -> None:
        """What became of every message is known; the last reports may still be on their way from the loop."""
        limit = monotonic() + REPORTS_LIMIT_S
        end = limit if deadline is None else min(deadline, limit)
        with self._changed:
            while self._waiting and not len(self._ours) and (left := end - monotonic()) > 0:
                self._changed.wait(left)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Not possible here: what was taken is sent or fails by delivery.timeout.ms."""
        raise KafkaException(KafkaError(KafkaError._NOT_IMPLEMENTED, "purge() is not there; use close(timeout)"))

    def close(self, timeout: float = 30.0) -> bool:
        """Send what is queued and end; returns whether everything was sent."""
        try:
            self._ours.close(timeout)
        except (SendFailed, TimeoutError):
            return False
        finally:
            self._serve()
        return True

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        return list_topics(self._settings, topic, timeout)

    # --- transactions ---

    def init_transactions(self, timeout: float = -1) -> None:
        self._transact(self._ours.init_transactions, _or_none(timeout))

    def begin_transaction(self) -> None:
        self._transact(self._ours.begin_transaction)

    def send_offsets_to_transaction(
        self, positions: Sequence[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        offsets = {
            each.ours: OffsetAndMetadata(each.offset, each.metadata or "") for each in positions if each.offset >= 0
        }
        self._transact(self._ours.send_offsets_to_transaction, offsets, group_metadata, _or_none(timeout))

    def commit_transaction(self, timeout: float = -1) -> None:
        self._transact(self._ours.commit_transaction, _or_none(timeout))
        self._serve()

    def abort_transaction(self, timeout: float = -1) -> None:
        self._transact(self._ours.abort_transaction, _or_none(timeout))
        self._serve()

    def _transact(self, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except OttlaError as error:
            fatal = not error.aborts_transaction and not error.retriable
            raise exception_of(error, fatal=fatal, txn_requires_abort=error.aborts_transaction) from None
        except TimeoutError as error:
            raise exception_of(error) from None


def _or_none(timeout: float | None) -> float | None:
    return None if timeout is None or timeout < 0 else timeout
