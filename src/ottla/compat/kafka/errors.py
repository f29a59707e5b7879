"""kafka.errors: kafka-python's names for our errors. What is raised is one of ours; catching works either way."""

from __future__ import annotations

from typing import Any, Final

from ottla import errors
from ottla.client.loop import ClientClosed
from ottla.client.producer.values import BufferExhausted, DeliveryTimedOut, RecordTooLargeToSend

KafkaError = errors.OttlaError
BrokerResponseError = errors.BrokerError


class KafkaTimeoutError(errors.OttlaError, TimeoutError):
    """It took too long."""

    retriable = True


class NoBrokersAvailable(errors.OttlaError):
    """No broker could be reached."""

    retriable = True


class IllegalArgumentError(errors.OttlaError, ValueError):
    """An argument cannot be used."""


class NoError(errors.OttlaError):
    """It worked; never raised."""

    errno = 0


# Names that are not the name of our class with "Error" behind it.
_OTHERS: Final[dict[str, type[BaseException]]] = {
    "CorruptRecordError": errors.CorruptMessage,
    "CorruptRecordException": errors.CorruptMessage,
    "InvalidTopicError": errors.InvalidTopicException,
    "MessageSizeTooLargeError": errors.MessageTooLarge,
    "NotLeaderForPartitionError": errors.NotLeaderOrFollower,
    "NetworkExceptionError": errors.NetworkException,
    "UnknownError": errors.UnknownServerError,
    "KafkaConnectionError": errors.NotConnected,
    "KafkaConfigurationError": errors.InvalidSetting,
    "KafkaStorageError": errors.KafkaStorageError,
    "RecordTooLargeError": RecordTooLargeToSend,
    "KafkaBufferError": BufferExhausted,
    "BatchExpiredError": DeliveryTimedOut,
    "IllegalStateError": ClientClosed,
    "CommitFailedError": errors.RebalanceInProgress,
}


def __getattr__(name: str) -> Any:
    if name in _OTHERS:
        return _OTHERS[name]
    ours = getattr(errors, name.removesuffix("Error"), None) or getattr(errors, name, None)
    if name.endswith("Error") and isinstance(ours, type) and issubclass(ours, errors.OttlaError):
        return ours
    raise AttributeError(f"module 'ottla.compat.kafka.errors' has no attribute {name!r}")
