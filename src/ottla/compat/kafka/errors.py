"""kafka.errors: kafka-python's tree of errors. What our client raises becomes one of these (`theirs`).

1. KafkaError, below it RetriableError and InvalidMetadataError, BrokerResponseError with errno, message, description,
   and a class for each code of a broker.
2. The error of ours is the __cause__.
"""

from __future__ import annotations

from typing import Any, Final

from ottla import errors
from ottla.client.closed import ClientClosed
from ottla.client.consumer.subscription import NotAssigned, SubscriptionConflict
from ottla.client.producer.values import (
    BufferExhausted,
    DeliveryTimedOut,
    ProducerClosed,
    RecordTooLargeToSend,
)
from ottla.compat.broker_errors import ErrorClass, Translation, broker_errors


class KafkaError(Exception):
    """Whatever goes wrong."""

    retriable = False
    invalid_metadata = False

    def __str__(self) -> str:
        name = type(self).__name__
        return f"{name}: {super().__str__()}" if self.args else name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.args == getattr(other, "args", None)

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class RetriableError(KafkaError):
    """Trying again may help."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """The cluster has changed."""

    invalid_metadata = True


class Cancelled(RetriableError):
    """A request was given up."""


class CommitFailedError(KafkaError):
    """The group has moved on."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(args or ("The offsets were not committed: the group has rebalanced meanwhile.",)))


class IllegalArgumentError(KafkaError):
    """An argument cannot be used."""


class IllegalStateError(KafkaError):
    """Not now."""


class KafkaConfigurationError(KafkaError):
    """A setting cannot be used."""


class KafkaConnectionError(InvalidMetadataError):
    """A broker cannot be reached."""


class KafkaProtocolError(KafkaError):
    """An answer cannot be understood."""


class CorrelationIdError(RetriableError, KafkaProtocolError):
    """An answer to another question."""


class InvalidReceiveError(KafkaProtocolError):
    """An answer is too large."""


class KafkaTimeoutError(RetriableError):
    """It took too long."""


class MetadataEmptyBrokerList(RetriableError):
    """The cluster names no brokers."""


class NoOffsetForPartitionError(KafkaError):
    """Nothing says where to begin."""


class LogTruncationError(KafkaError):
    """The log is shorter than what was read of it."""

    def __init__(self, divergent_offsets: Any, *args: object) -> None:
        self.divergent_offsets = divergent_offsets
        super().__init__(*(args or (f"truncated partitions: {divergent_offsets}",)))


class NodeNotReadyError(RetriableError):
    """The connection is not ready."""


class UnknownBrokerIdError(KafkaError):
    """There is no such broker."""


class QuotaViolationError(KafkaError):
    """Too much."""


class StaleMetadata(InvalidMetadataError):
    """What is known of the cluster is too old."""


class TooManyInFlightRequests(RetriableError):
    """Too many requests wait for their answers."""


class UnrecognizedBrokerVersion(KafkaError):
    """The broker is of no known version."""


class UnsupportedCodecError(KafkaError):
    """The codec is not installed."""


class TransactionAbortedError(KafkaError):
    """The record belonged to a transaction that was aborted."""

    message = "The record belonged to a transaction that was aborted"


class BrokerResponseError(KafkaError):
    """A broker said no."""

    errno: int | None = None
    message: str | None = None
    description: str | None = None

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


class AuthorizationError(BrokerResponseError):
    """The user is not allowed to."""


class NoError(BrokerResponseError):
    """It worked; never raised."""

    errno = 0
    message = "NO_ERROR"
    description = "No error."


_NAMES: Final = {
    -1: "UnknownError",
    2: "CorruptRecordError",
    4: "InvalidFetchRequestError",
    6: "NotLeaderForPartitionError",
    10: "MessageSizeTooLargeError",
    17: "InvalidTopicError",
    39: "InvalidReplicationAssignmentError",
    40: "InvalidConfigurationError",
    56: "KafkaStorageError",
    106: "FetchSessionTopicIdError",
}
_MESSAGES: Final = {
    -1: "UNKNOWN",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}
_AUTHORIZATION: Final = (29, 30, 31, 53, 65)
_NOT_RETRIABLE: Final = (2,)
_STALE: Final = (75,)


def _bases(error: type[errors.BrokerError], code: int) -> tuple[ErrorClass, ...]:
    if code in _AUTHORIZATION:
        return (AuthorizationError,)
    if code in _NOT_RETRIABLE:
        return (BrokerResponseError,)
    if error.refresh_metadata or code in _STALE:
        return InvalidMetadataError, BrokerResponseError
    return (RetriableError, BrokerResponseError) if error.retriable else (BrokerResponseError,)


_CLASSES: Final = broker_errors(_NAMES, _bases, __name__, messages=_MESSAGES)
globals().update(_CLASSES)
CorruptRecordException: Final = _CLASSES["CorruptRecordError"]
IncompatibleBrokerVersion: Final = _CLASSES["UnsupportedVersionError"]
kafka_errors: Final[dict[int, ErrorClass]] = {0: NoError} | {each.errno: each for each in _CLASSES.values()}


def for_code(error_code: int) -> ErrorClass:
    """The class of a code; for an unknown one a class of its own."""
    found = kafka_errors.get(error_code)
    return found or type("UnrecognizedBrokerError", (_CLASSES["UnknownError"],), {"errno": error_code})


def __getattr__(name: str) -> Any:  # for type checkers: the classes are made above
    raise AttributeError(f"module 'ottla.compat.kafka.errors' has no attribute {name!r}")


# The first that fits counts.
_LOCAL: Final[tuple[tuple[type[BaseException], ErrorClass], ...]] = (
    (RecordTooLargeToSend, _CLASSES["MessageSizeTooLargeError"]),
    (DeliveryTimedOut, KafkaTimeoutError),
    (BufferExhausted, KafkaTimeoutError),
    (ProducerClosed, IllegalStateError),
    (NotAssigned, IllegalStateError),
    (SubscriptionConflict, IllegalStateError),
    (ClientClosed, IllegalStateError),
    (errors.InvalidSetting, KafkaConfigurationError),
)
_REST: Final[tuple[tuple[type[BaseException], ErrorClass], ...]] = (
    (TimeoutError, KafkaTimeoutError),
    (errors.AuthenticationFailed, _CLASSES["SaslAuthenticationFailedError"]),
    (errors.NotConnected, KafkaConnectionError),
    (errors.ConnectionClosed, KafkaConnectionError),
)
_TRANSLATION: Final = Translation(KafkaError, _LOCAL, for_code, _REST)
theirs: Final = _TRANSLATION.theirs
translates: Final = _TRANSLATION.translates
