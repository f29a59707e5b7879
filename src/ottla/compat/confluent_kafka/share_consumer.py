"""confluent-kafka's ShareConsumer over ours: poll() returns Messages, acknowledged one by one or by the next poll.

1. In the implicit mode the next poll() or commit accepts what the last poll() gave, and acknowledge() is refused. In
   the explicit mode every message must be acknowledged before the next poll().
2. The callback of acknowledgements is called inside poll(), commit_sync(), commit_async() and close(); the consumer
   cannot be used from there.
3. What librdkafka refuses for share consumers is refused with its sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.client.consumer.consumer import ConcurrentUse
from ottla.client.share.in_flight import AcknowledgeType as OurType
from ottla.client.share.in_flight import NotHeld, UnacknowledgedRecords
from ottla.client.share.records import ShareRecord
from ottla.client.share.settings import REFUSED, ShareConsumerSettings
from ottla.client.share.share_consumer import ShareConsumer as OurShareConsumer
from ottla.compat.confluent_kafka.consumer import _message
from ottla.compat.confluent_kafka.errors import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
    error_of,
    exception_of,
)
from ottla.compat.confluent_kafka.messages import Message, TopicPartition
from ottla.compat.confluent_kafka.model import AcknowledgeType, Messages
from ottla.compat.confluent_kafka.serving import Serving
from ottla.compat.confluent_kafka.settings import configure, merged
from ottla.compat.confluent_kafka.statistics import Statistics
from ottla.errors import OttlaError
from ottla.values import TopicPartition as OurPartition

Callback = Callable[[dict[TopicPartition, set[int]], "KafkaException | None"], Any]

MODE: Final = "share.acknowledgement.mode"
DEFAULTS: Final = {"client.id": "rdkafka", "allow.auto.create.topics": False}
TURN_S: Final = 1.0
NOT_APPLICABLE: Final = (
    "auto.offset.reset", "enable.auto.commit", "enable.partition.eof", "group.instance.id", "group.protocol",
    "group.remote.assignor", "isolation.level", "partition.assignment.strategy", "queued.max.messages.kbytes",
)  # fmt: skip
BROKER_SIDE: Final = ("session.timeout.ms", "heartbeat.interval.ms")
INVALID: Final = "Local: Invalid argument or configuration"
ERRONEOUS: Final = "Local: Erroneous state"


def _check_applicable(written: Mapping[Any, Any]) -> None:
    failed = "Failed to create share consumer: "
    if "group.id" not in written:
        raise ValueError("Failed to create consumer: group.id must be set")
    if "on_commit" in written:
        raise ValueError("on_commit is not supported on ShareConsumer")
    for name in written:
        if name in NOT_APPLICABLE:
            raise ValueError(f"{failed}`{name}` is not applicable for share consumer")
        if name in BROKER_SIDE:
            why = "is not supported for `group.protocol=consumer` or share consumer. It is defined broker side"
            raise ValueError(f"{failed}`{name}` {why}")


class ShareConsumer:
    """See the module."""

    def __init__(self, config: Any = None, /, **keywords: Any) -> None:
        written = merged(config, keywords)
        _check_applicable(written)
        mode = written.pop(MODE, "implicit")
        self._configuration = configure("consumer", written, {}, ShareConsumerSettings)
        ours = {name: value for name, value in self._configuration.ours.items() if name not in REFUSED}
        settings = DEFAULTS | ours | {MODE: mode}
        try:
            self._ours = OurShareConsumer(settings)
        except OttlaError as error:
            failed = f"Failed to create share consumer: {error}"
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, failed)) from error
        self._is_explicit = mode == "explicit"
        self._serving = Serving(self._configuration)
        self._serving.attach(self._ours._core.network)
        self._statistics = Statistics("consumer", str(settings["client.id"]), self._ours._core.network)
        self._records: dict[tuple[str, int, int], ShareRecord] = {}
        self._callback: Callback | None = None
        self._is_calling_back = False
        self._closed = False

    def __enter__(self) -> ShareConsumer:
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, exc_traceback: Any) -> None:
        self.close()

    # --- what to read ---

    def subscribe(self, topics: list[str]) -> None:
        """Read these topics instead of those before."""
        self._check_usable()
        if not isinstance(topics, list) or not all(isinstance(each, str) for each in topics):
            raise TypeError("expected list of topic unicode strings")
        if len(set(topics)) < len(topics) or not all(topics):
            raise ValueError(f"Failed to subscribe: {INVALID}")
        if topics:
            self._call(self._ours.subscribe, topics)
        else:
            self.unsubscribe()

    def unsubscribe(self) -> None:
        self._check_usable()
        self._call(self._ours.unsubscribe)

    def subscription(self) -> list[str]:
        self._check_usable()
        return sorted(self._ours.subscription())

    # --- reading ---

    def poll(self, timeout: float = -1) -> Messages:
        """Messages, or errors as messages; none when `timeout` seconds are over."""
        self._check_usable()
        if not self._ours.subscription():
            raise IllegalStateException("Consumer is not subscribed to any topics")
        clock = self._ours._core.clock
        deadline_ms = None if timeout < 0 else clock.monotonic_ms() + timeout * 1000
        while True:
            self._serving.serve(self._statistics_text)
            left_s = TURN_S if deadline_ms is None else (deadline_ms - clock.monotonic_ms()) / 1000
            try:
                found = self._call(self._ours.poll, max(0.0, min(left_s, TURN_S)))
            except KafkaException as error:
                return Messages([Message(error=error.args[0])])
            if found or left_s <= 0:
                return self._messages(found)

    def _messages(self, found: list[ShareRecord]) -> Messages:
        self._records = {(each.topic, each.partition, each.offset): each for each in found}
        messages = []
        for record in found:
            message = _message(record)
            message._delivery_count = record.delivery_count
            messages.append(message)
        return Messages(messages)

    # --- acknowledging ---

    def acknowledge(self, message: Message, ack_type: int = AcknowledgeType.ACCEPT) -> None:
        """Say what was done with a message of the last poll."""
        self._check_usable()
        if not isinstance(message, Message):
            raise TypeError(f"argument 1 must be confluent_kafka.cimpl.Message, not {type(message).__name__}")
        where = (message.topic(), message.partition(), message.offset())
        self._acknowledge(where, ack_type, "message")

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, ack_type: int = AcknowledgeType.ACCEPT
    ) -> None:
        """The same by its place."""
        self._check_usable()
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        self._acknowledge((topic, partition, offset), ack_type, "offset")

    def _acknowledge(self, where: tuple[Any, Any, Any], ack_type: int, what: str) -> None:
        topic, partition, offset = where
        if not isinstance(ack_type, int):
            raise TypeError(f"'{type(ack_type).__name__}' object cannot be interpreted as an integer")
        if topic is None or (partition or 0) < 0 or (offset or 0) < 0:
            raise ValueError(f"Failed to acknowledge {what}: {INVALID}")
        if not self._is_explicit:
            raise IllegalStateException(f"Failed to acknowledge {what}: {ERRONEOUS}")
        if ack_type not in (1, 2, 3):
            raise ValueError(f"Failed to acknowledge {what}: {INVALID}")
        record = self._records.get(where)
        try:
            if record is None:
                raise NotHeld
            self._ours.acknowledge(record, OurType(ack_type))
        except NotHeld:
            raise IllegalStateException(f"Failed to acknowledge {what}: {ERRONEOUS}") from None

    def commit_sync(self, timeout: float = 60) -> dict[TopicPartition, KafkaException | None]:
        """Send what was said and wait for the answers, by partition."""
        self._check_usable()
        limit = self._ours._settings.call_timeout_ms / 1000 if timeout < 0 else timeout
        result = self._call(self._ours.commit, timeout=limit)
        return {
            TopicPartition(name.topic, name.partition): None if error is None else exception_of(error)
            for name, error in result.items()
        }

    def commit_async(self) -> None:
        """The same without waiting."""
        self._check_usable()
        self._call(self._ours.commit_async)

    def set_acknowledgement_commit_callback(self, callback: Callback | None) -> None:
        """`callback(offsets, exception)` hears what became of acknowledgements."""
        self._check_usable()
        if callback is not None and not callable(callback):
            raise TypeError("callback must be callable or None")
        self._callback = callback
        self._ours.set_acknowledgement_commit_callback(None if callback is None else self._call_back)

    def _call_back(self, offsets: Mapping[OurPartition, frozenset[int]], error: OttlaError | None) -> None:
        if self._callback is None:
            return
        self._is_calling_back = True
        try:
            found = {TopicPartition(name.topic, name.partition): set(each) for name, each in offsets.items()}
            self._callback(found, None if error is None else exception_of(error))
        finally:
            self._is_calling_back = False

    # --- about ---

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Not possible here: the login is part of the settings."""
        self._check_usable()
        raise KafkaException(
            KafkaError(KafkaError._NOT_IMPLEMENTED, "credentials cannot be changed: make a new ShareConsumer")
        )

    def _statistics_text(self) -> str:
        metrics = self._ours.metrics()
        total = {key.name: value for key, value in metrics.items() if key.group.startswith("consumer-share-")}
        assigned: dict[OurPartition, dict[str, Any]] = {each: {} for each in self._ours.assignment()}
        facts = {
            "replyq": len(self._serving),
            "rxmsgs": int(total.get("records-consumed-total", 0)),
            "rxmsg_bytes": int(total.get("bytes-fetched-total", 0)),
            "cgrp": {"assignment_size": len(assigned)},
        }
        return self._statistics.text(metrics, facts, self._statistics.topics(assigned, set()))

    def close(self) -> None:
        """Send what was said of messages, give back the others, and leave the group."""
        if not self._closed:
            self._closed = True
            self._call(self._ours.close)

    # --- small parts ---

    def _check_usable(self) -> None:
        if self._closed:
            raise IllegalStateException("Share consumer closed")
        if self._is_calling_back:
            raise IllegalStateException("Share consumer APIs cannot be called from the acknowledgement callback")

    def _call(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except ConcurrentUse as error:
            raise ConcurrentModificationException(str(error)) from None
        except UnacknowledgedRecords as error:
            raise IllegalStateException(str(error)) from None
        except (OttlaError, TimeoutError) as error:
            raise KafkaException(error_of(error)) from None
