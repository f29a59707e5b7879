"""confluent-kafka's Producer over ours: produce() now, callbacks from poll() and flush().

1. produce() never waits: a message for a topic that is not known yet waits in the backlog, a full queue
   (queue.buffering.max.messages, queue.buffering.max.kbytes) raises BufferError.
2. What becomes of a message is known to its callback, called from poll(), flush(), commit_transaction() and close().
3. purge() gives up what waits or is in flight, with _PURGE_QUEUE or _PURGE_INFLIGHT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final, Self

from ottla.client.producer.producer import Producer as OurProducer
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions.states import TransactionMisuse
from ottla.client.producer.values import BufferExhausted, RecordMetadata, RecordPurged, SendFailed
from ottla.compat.confluent_kafka.backlog import Backlog
from ottla.compat.confluent_kafka.cluster import ClusterMetadata, cluster_id, list_topics
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException, error_of, exception_of
from ottla.compat.confluent_kafka.messages import TIMESTAMP_CREATE_TIME, Message, TopicPartition, bytes_of, headers_of
from ottla.compat.confluent_kafka.partitioners import PARTITIONERS
from ottla.compat.confluent_kafka.serving import Serving
from ottla.compat.confluent_kafka.settings import configure
from ottla.compat.confluent_kafka.statistics import Statistics
from ottla.errors import OttlaError
from ottla.values import OffsetAndMetadata

# Defaults that a program can see, and limits that are librdkafka's. max.block.ms is one look at the cluster.
DEFAULTS: Final = {
    "client.id": "rdkafka",
    "partitioner.class": PARTITIONERS["consistent_random"],
    "enable.idempotence": False,
    "max.block.ms": 1_000,
    "delivery.timeout.ms": 300_000,
    "batch.size": 1_000_000,
    "buffer.memory": 1 << 30,
}
NO_PARTITION: Final = -1
QUEUE_MESSAGES: Final = 100_000
MISSING_TOPIC_MS: Final = 30_000
REPORTS_LIMIT_S: Final = 5.0
CLOSE_LIMIT_S: Final = 30.0
NO_TRANSACTIONAL_ID: Final = "The Transactional API requires transactional.id to be configured"


class Producer:
    """See the module."""

    def __init__(self, config: Any = None, /, **keywords: Any) -> None:
        self._configuration = configure("producer", config, keywords, ProducerSettings)
        settings: dict[str, Any] = DEFAULTS | self._configuration.ours
        try:
            self._ours = OurProducer(settings)
        except OttlaError as error:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, f"Failed to create producer: {error}")) from error
        here = self._configuration.here
        self._settings = settings
        self._on_delivery = self._configuration.callback("on_delivery")
        self._only_errors = bool(here.get("delivery.report.only.error"))
        self._messages_limit = int(here.get("queue.buffering.max.messages", QUEUE_MESSAGES)) or None  # type: ignore[arg-type]
        self._waiting = 0
        self._serving = Serving(self._configuration)
        self._serving.attach(self._ours._core.network)
        if self._configuration.callback("stats_cb") is not None:  # a producer counts its connections for nobody else
            core = self._ours._core
            core.network.measure(core.metrics.registry, "producer", self._ours.settings.client_id)
        self._backlog = Backlog(self._ours.partitions_for, settings["delivery.timeout.ms"] / 1000, _missing_s(here))
        self._statistics = Statistics("producer", str(settings["client.id"]), self._ours._core.network)
        self._topics: set[str] = set()

    def __len__(self) -> int:
        """Messages that are not acknowledged, and events that were not served yet."""
        return len(self._backlog) + max(self._waiting, len(self._ours)) + len(self._serving)

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
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
        on_report = on_delivery or callback or self._on_delivery
        arguments: dict[str, Any] = {
            "key": bytes_of(key, "key"),
            "partition": None if partition == NO_PARTITION else partition,
            "timestamp_ms": timestamp or None,
            "headers": headers_of(headers),
        }
        data = bytes_of(value, "value")
        if self._messages_limit is not None and len(self) >= self._messages_limit:
            raise BufferError("Local: Queue full")
        if self._backlog.knows(topic):
            self._send_now(topic, data, arguments, on_report)
        else:
            self._topics.add(topic)
            self._send_later(topic, data, arguments, on_report)

    def _send_now(
        self, topic: str, data: bytes | None, arguments: dict[str, Any], on_report: Callable[..., Any] | None
    ) -> None:
        try:
            self._send(topic, data, arguments, on_report, monotonic())
        except BufferExhausted:
            raise BufferError("Local: Queue full") from None
        except OttlaError as error:
            raise exception_of(error) from None

    def _send_later(
        self, topic: str, data: bytes | None, arguments: dict[str, Any], on_report: Callable[..., Any] | None
    ) -> None:
        began = monotonic()
        sent = _sent(topic, data, arguments)
        send = partial(self._send, topic, data, arguments, on_report, began)
        self._backlog.put(topic, send, lambda error: self._failed(error, sent, began, on_report))

    def _send(
        self,
        topic: str,
        data: bytes | None,
        arguments: dict[str, Any],
        on_report: Callable[..., Any] | None,
        began: float,
    ) -> None:
        if on_report is None:
            self._ours.produce(topic, data, **arguments)
            return
        future = self._ours.send(topic, data, **arguments)
        with self._serving.changed:
            self._waiting += 1
        sent = _sent(topic, data, arguments)
        future.add_done_callback(lambda done: self._ended(done, sent, began, on_report))

    def _ended(self, future: Any, message: Message, began: float, on_report: Callable[..., Any]) -> None:
        error = future.exception()
        if error is None:
            _fill(message, future.result())
        with self._serving.changed:
            self._waiting -= 1
            self._failed(error, message, began, on_report)
            self._serving.changed.notify_all()

    def _failed(
        self, error: BaseException | None, message: Message, began: float, on_report: Callable[..., Any] | None
    ) -> None:
        message._latency = monotonic() - began
        message._error = None if error is None else error_of(error)
        if on_report is not None and (error is not None or not self._only_errors):
            self._serving.put(partial(on_report, message._error, message))

    def produce_batch(
        self,
        topic: str,
        messages: Sequence[dict[str, Any]],
        partition: int = NO_PARTITION,
        callback: Callable[..., Any] | None = None,
        on_delivery: Callable[..., Any] | None = None,
    ) -> int:
        """Queue several; returns how many were accepted. One that was not has its error under "_error"."""
        count = 0
        for each in messages:
            arguments = {name: each[name] for name in ("value", "key", "headers", "timestamp") if name in each}
            report = each.get("callback") or each.get("on_delivery") or on_delivery or callback
            try:
                self.produce(topic, partition=each.get("partition", partition), callback=report, **arguments)
                count += 1
            except KafkaException as error:
                each["_error"] = error.args[0]
            except BufferError as error:
                each["_error"] = KafkaError(KafkaError._QUEUE_FULL, str(error))
        return count

    # --- serving ---

    def poll(self, timeout: float = -1) -> int:
        """Call the callbacks that are due, waiting for the first one; returns how many were called."""
        deadline = None if timeout is None or timeout < 0 else monotonic() + timeout
        self._serving.wait(deadline, lambda: deadline is not None or self._waiting > 0 or len(self._backlog) > 0)
        return self._serve()

    def _serve(self) -> int:
        return self._serving.serve(self._statistics_text)

    def flush(self, timeout: float = -1) -> int:
        """Wait until everything is acknowledged and call the callbacks; returns how many are left."""
        deadline = None if timeout is None or timeout < 0 else monotonic() + timeout
        self._backlog.wait(deadline)
        try:
            self._ours.flush(None if deadline is None else max(deadline - monotonic(), 0))
        except (SendFailed, TimeoutError):
            pass  # the callbacks say it, which is all that confluent-kafka does
        except OttlaError as error:
            raise exception_of(error) from None
        self._wait_for_reports(deadline)
        self._serve()
        return len(self)

    def _wait_for_reports(self, deadline: float | None) -> None:
        """What became of every message is known; the last reports may still be on their way from the loop."""
        limit = monotonic() + REPORTS_LIMIT_S
        end = limit if deadline is None else min(deadline, limit)
        changed = self._serving.changed
        with changed:
            while self._waiting and not len(self._ours) and (left := end - monotonic()) > 0:
                changed.wait(left)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Give up what waits, what is in flight, or both; the callbacks hear of it from the next poll()."""
        if in_queue:
            self._backlog.purge(RecordPurged())
        self._ours._loop.run(self._ours._core.purge(waiting=in_queue, in_flight=in_flight))
        if blocking:
            self._wait_for_reports(None)

    def close(self, timeout: float = CLOSE_LIMIT_S) -> bool:
        """Send what is queued and end; returns whether everything was sent."""
        self._backlog.wait(monotonic() + timeout)
        self._backlog.close(RecordPurged("because the producer was closed"))
        try:
            self._ours.close(timeout)
        except (SendFailed, TimeoutError):
            return False
        finally:
            self._serve()
        return True

    # --- about ---

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        return list_topics(self._settings, topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str:
        return cluster_id(self._settings, timeout)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Not possible here: the login is part of the settings."""
        raise KafkaException(
            KafkaError(KafkaError._NOT_IMPLEMENTED, "credentials cannot be changed: make a new Producer")
        )

    def _statistics_text(self) -> str:
        metrics = self._ours.metrics()
        total = {key.name: value for key, value in metrics.items() if key.group == "producer-metrics"}
        facts = {
            "replyq": len(self._serving),
            "msg_cnt": len(self) - len(self._serving),
            "msg_max": self._messages_limit or 0,
            "msg_size_max": self._settings["buffer.memory"],
            "txmsgs": int(total.get("record-send-total", 0)),
            "txmsg_bytes": int(
                sum(v for k, v in metrics.items() if (k.group, k.name) == ("producer-topic-metrics", "byte-total"))
            ),
        }
        return self._statistics.text(metrics, facts, self._statistics.topics({}, set(self._topics)))

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
        self._backlog.wait(None if timeout is None or timeout < 0 else monotonic() + timeout)
        self._transact(self._ours.commit_transaction, _or_none(timeout))
        self._wait_for_reports(None)
        self._serve()

    def abort_transaction(self, timeout: float = -1) -> None:
        self._backlog.purge(RecordPurged("because the transaction was aborted"))
        self._transact(self._ours.abort_transaction, _or_none(timeout))
        self._wait_for_reports(None)
        self._serve()

    def _transact(self, call: Callable[..., Any], *arguments: Any) -> None:
        if self._ours.settings.transactional_id is None:
            raise KafkaException(KafkaError(KafkaError._NOT_CONFIGURED, NO_TRANSACTIONAL_ID))
        try:
            call(*arguments)
        except TransactionMisuse as error:  # a fault of the caller's order, which leaves the producer as it was
            raise exception_of(error) from None
        except OttlaError as error:
            fatal = not error.aborts_transaction and not error.retriable
            raise exception_of(error, fatal=fatal, txn_requires_abort=error.aborts_transaction) from None
        except TimeoutError as error:
            raise exception_of(error) from None


def _sent(topic: str, data: bytes | None, arguments: dict[str, Any]) -> Message:
    return Message(topic, arguments["partition"], None, arguments["key"], data, arguments["headers"] or None)


def _fill(message: Message, metadata: RecordMetadata) -> None:
    message._partition = metadata.partition
    message._offset = metadata.offset
    message._timestamp = (TIMESTAMP_CREATE_TIME, metadata.timestamp_ms)


def _missing_s(here: Any) -> float:
    return float(here.get("topic.metadata.propagation.max.ms", MISSING_TOPIC_MS)) / 1000


def _or_none(timeout: float | None) -> float | None:
    return None if timeout is None or timeout < 0 else timeout
