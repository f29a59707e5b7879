"""aiokafka.errors: aiokafka's tree of errors. What our client raises becomes one of these (`theirs`); ours is the
__cause__."""

from __future__ import annotations

from typing import Any, Final

from ottla import errors
from ottla.client.closed import ClientClosed
from ottla.client.consumer.subscription import NotAssigned, SubscriptionConflict
from ottla.client.producer.values import BufferExhausted, DeliveryTimedOut, RecordTooLargeToSend
from ottla.client.producer.values import ProducerClosed as OurProducerClosed
from ottla.compat.broker_errors import ErrorClass, Translation, broker_errors


class KafkaError(RuntimeError):
    """Whatever goes wrong."""

    retriable = False
    invalid_metadata = False

    def __str__(self) -> str:
        name = type(self).__name__
        return f"{name}: {super().__str__()}" if self.args else name


class IllegalStateError(KafkaError):
    """Not now."""


class IllegalArgumentError(KafkaError):
    """An argument cannot be used."""


class NoBrokersAvailable(KafkaError):
    """No broker can be reached."""

    retriable = True
    invalid_metadata = True


class NodeNotReadyError(KafkaError):
    """The connection is not ready."""

    retriable = True


class KafkaProtocolError(KafkaError):
    """An answer cannot be understood."""

    retriable = True


class CorrelationIdError(KafkaProtocolError):
    """An answer to another question."""


class Cancelled(KafkaError):
    """A request was given up."""

    retriable = True


class TooManyInFlightRequests(KafkaError):
    """Too many requests wait for their answers."""

    retriable = True


class StaleMetadata(KafkaError):
    """What is known of the cluster is too old."""

    retriable = True
    invalid_metadata = True


class MetadataEmptyBrokerList(KafkaError):
    """The cluster names no brokers."""

    retriable = True


class UnrecognizedBrokerVersion(KafkaError):
    """The broker is of no known version."""


class IncompatibleBrokerVersion(KafkaError):
    """The broker cannot do this."""


class CommitFailedError(KafkaError):
    """The group has moved on."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(args or ("The offsets were not committed: the group has rebalanced meanwhile.",)))


class AuthenticationMethodNotSupported(KafkaError):
    """The broker does not know this way to log in."""


class AuthenticationFailedError(KafkaError):
    """The broker refused the login."""

    retriable = False


class KafkaUnavailableError(KafkaError):
    """Kafka cannot be reached."""


class KafkaTimeoutError(KafkaError):
    """It took too long."""


class KafkaConnectionError(KafkaError):
    """A broker cannot be reached."""

    retriable = True
    invalid_metadata = True


class UnsupportedCodecError(KafkaError):
    """The codec is not installed."""


class KafkaConfigurationError(KafkaError):
    """A setting cannot be used."""


class QuotaViolationError(KafkaError):
    """Too much."""


class ConsumerStoppedError(Exception):
    """The consumer was stopped."""


class IllegalOperation(Exception):
    """This client was not set up for that."""


class NoOffsetForPartitionError(KafkaError):
    """Nothing says where to begin."""


class RecordTooLargeError(KafkaError):
    """A record is larger than a fetch may be."""


class ProducerClosed(KafkaError):
    """The producer was stopped."""


class ProducerFenced(KafkaError):
    """Another producer has the same transactional id."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(args or ("There is a newer producer with the same transactional_id.",)))


class BrokerResponseError(KafkaError):
    """A broker said no."""

    errno: int
    message: str
    description: str = ""

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


class NoError(BrokerResponseError):
    """It worked; never raised."""

    errno = 0
    message = "NO_ERROR"
    description = "No error--it worked!"


_LAST: Final = 79
_UNKNOWN: Final = (73, 74, 75, 76, 77, 78)
_NAMES: Final = {
    -1: "UnknownError",
    2: "CorruptRecordException",
    4: "InvalidFetchRequestError",
    6: "NotLeaderForPartitionError",
    10: "MessageSizeTooLargeError",
    13: "StaleLeaderEpochCodeError",
    14: "GroupLoadInProgressError",
    15: "GroupCoordinatorNotAvailableError",
    16: "NotCoordinatorForGroupError",
    17: "InvalidTopicError",
    39: "InvalidReplicationAssignmentError",
    40: "InvalidConfigurationError",
    **{
        code: error.__name__
        for code, error in errors.ERRORS.items()
        if error is not None and (45 <= code <= 72 or code == _LAST)
    },
}
_MESSAGES: Final = {
    -1: "UNKNOWN",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    13: "STALE_LEADER_EPOCH_CODE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}
_NOT_RETRIABLE: Final = (2, 9, 13, 51, 70, 71, 72)
_NOT_STALE: Final = (9, 13, 72)


def _facts(error: type[errors.BrokerError], code: int) -> dict[str, Any]:
    return {
        "retriable": error.retriable and code not in _NOT_RETRIABLE,
        "invalid_metadata": error.refresh_metadata and code not in _NOT_STALE,
    }


_CLASSES: Final = broker_errors(
    _NAMES,
    lambda error, code: (BrokerResponseError,),
    __name__,
    up_to=_LAST,
    without=_UNKNOWN,
    messages=_MESSAGES,
    facts=_facts,
)
globals().update(_CLASSES)
CoordinatorLoadInProgressError: Final = _CLASSES["GroupLoadInProgressError"]
CoordinatorNotAvailableError: Final = _CLASSES["GroupCoordinatorNotAvailableError"]
NotCoordinatorError: Final = _CLASSES["NotCoordinatorForGroupError"]
InvalidMessageError: Final = _CLASSES["CorruptRecordException"]
kafka_errors: Final[dict[int, ErrorClass]] = {0: NoError} | {each.errno: each for each in _CLASSES.values()}


def for_code(error_code: int) -> ErrorClass:
    """The class of a code; UnknownError for one that aiokafka does not know."""
    return kafka_errors.get(error_code, _CLASSES["UnknownError"])


def __getattr__(name: str) -> Any:  # for type checkers: the classes are made above
    raise AttributeError(f"module 'ottla.compat.aiokafka.errors' has no attribute {name!r}")


# The first that fits counts.
_LOCAL: Final[tuple[tuple[type[BaseException], ErrorClass], ...]] = (
    (errors.ProducerFenced, ProducerFenced),
    (RecordTooLargeToSend, _CLASSES["MessageSizeTooLargeError"]),
    (DeliveryTimedOut, KafkaTimeoutError),
    (BufferExhausted, KafkaTimeoutError),
    (OurProducerClosed, ProducerClosed),
    (NotAssigned, IllegalStateError),
    (SubscriptionConflict, IllegalStateError),
    (ClientClosed, ConsumerStoppedError),
    (errors.InvalidSetting, KafkaConfigurationError),
)
_REST: Final[tuple[tuple[type[BaseException], ErrorClass], ...]] = (
    (TimeoutError, KafkaTimeoutError),
    (errors.AuthenticationFailed, AuthenticationFailedError),
    (errors.NotConnected, KafkaConnectionError),
    (errors.ConnectionClosed, KafkaConnectionError),
)
_TRANSLATION: Final = Translation(KafkaError, _LOCAL, for_code, _REST)
theirs: Final = _TRANSLATION.theirs
translates: Final = _TRANSLATION.translates
