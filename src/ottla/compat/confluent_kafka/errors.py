"""Errors as confluent-kafka shows them: one class with codes, and one exception that carries it.

Codes of brokers are Kafka's numbers under librdkafka's names; errors that a client finds by itself have librdkafka's
negative numbers. What our client raises is translated here and nowhere else.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from ottla.client.consumer.subscription import NotAssigned
from ottla.client.producer.transactions.states import TransactionMisuse
from ottla.client.producer.values import (
    BufferExhausted,
    DeliveryTimedOut,
    RecordPurged,
    RecordPurgedInFlight,
    RecordTooLargeToSend,
)
from ottla.errors import (
    ERRORS,
    AuthenticationFailed,
    BrokerError,
    ConnectionClosed,
    NotConnected,
    OttlaError,
    ProducerFenced,
)

# Where librdkafka's name for a code is not Kafka's.
_OTHER_NAMES: Final = {
    -1: "UNKNOWN",
    2: "INVALID_MSG",
    3: "UNKNOWN_TOPIC_OR_PART",
    4: "INVALID_MSG_SIZE",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MSG_SIZE_TOO_LARGE",
    11: "STALE_CTRL_EPOCH",
    17: "TOPIC_EXCEPTION",
}
LOCAL_NAMES: Final = {
    -199: "_BAD_MSG",
    -198: "_BAD_COMPRESSION",
    -197: "_DESTROY",
    -196: "_FAIL",
    -195: "_TRANSPORT",
    -194: "_CRIT_SYS_RESOURCE",
    -193: "_RESOLVE",
    -192: "_MSG_TIMED_OUT",
    -191: "_PARTITION_EOF",
    -190: "_UNKNOWN_PARTITION",
    -189: "_FS",
    -188: "_UNKNOWN_TOPIC",
    -187: "_ALL_BROKERS_DOWN",
    -186: "_INVALID_ARG",
    -185: "_TIMED_OUT",
    -184: "_QUEUE_FULL",
    -183: "_ISR_INSUFF",
    -182: "_NODE_UPDATE",
    -181: "_SSL",
    -180: "_WAIT_COORD",
    -179: "_UNKNOWN_GROUP",
    -178: "_IN_PROGRESS",
    -177: "_PREV_IN_PROGRESS",
    -176: "_EXISTING_SUBSCRIPTION",
    -175: "_ASSIGN_PARTITIONS",
    -174: "_REVOKE_PARTITIONS",
    -173: "_CONFLICT",
    -172: "_STATE",
    -171: "_UNKNOWN_PROTOCOL",
    -170: "_NOT_IMPLEMENTED",
    -169: "_AUTHENTICATION",
    -168: "_NO_OFFSET",
    -167: "_OUTDATED",
    -166: "_TIMED_OUT_QUEUE",
    -165: "_UNSUPPORTED_FEATURE",
    -164: "_WAIT_CACHE",
    -163: "_INTR",
    -162: "_KEY_SERIALIZATION",
    -161: "_VALUE_SERIALIZATION",
    -160: "_KEY_DESERIALIZATION",
    -159: "_VALUE_DESERIALIZATION",
    -158: "_PARTIAL",
    -157: "_READ_ONLY",
    -156: "_NOENT",
    -155: "_UNDERFLOW",
    -154: "_INVALID_TYPE",
    -153: "_RETRY",
    -152: "_PURGE_QUEUE",
    -151: "_PURGE_INFLIGHT",
    -150: "_FATAL",
    -149: "_INCONSISTENT",
    -148: "_GAPLESS_GUARANTEE",
    -147: "_MAX_POLL_EXCEEDED",
    -146: "_UNKNOWN_BROKER",
    -145: "_NOT_CONFIGURED",
    -144: "_FENCED",
    -143: "_APPLICATION",
    -142: "_ASSIGNMENT_LOST",
    -141: "_NOOP",
    -140: "_AUTO_OFFSET_RESET",
    -139: "_LOG_TRUNCATION",
    -138: "_INVALID_DIFFERENT_RECORD",
    -137: "_DESTROY_BROKER",
}


def _all_names() -> dict[int, str]:
    names = {code: error.name for code, error in ERRORS.items() if error is not None}
    return {0: "NO_ERROR"} | names | _OTHER_NAMES | LOCAL_NAMES


NAMES: Final = _all_names()


class KafkaError:
    """What went wrong: a code, its name, a text, and what may be done about it."""

    NO_ERROR: ClassVar[int]
    _PARTITION_EOF: ClassVar[int]
    _TIMED_OUT: ClassVar[int]
    _QUEUE_FULL: ClassVar[int]
    _MSG_TIMED_OUT: ClassVar[int]
    _TRANSPORT: ClassVar[int]
    _ALL_BROKERS_DOWN: ClassVar[int]
    _AUTHENTICATION: ClassVar[int]
    _INVALID_ARG: ClassVar[int]
    _NOT_CONFIGURED: ClassVar[int]
    _STATE: ClassVar[int]
    _FAIL: ClassVar[int]
    _FATAL: ClassVar[int]
    _FENCED: ClassVar[int]
    _NOT_IMPLEMENTED: ClassVar[int]
    _NO_OFFSET: ClassVar[int]
    _KEY_SERIALIZATION: ClassVar[int]
    _VALUE_SERIALIZATION: ClassVar[int]
    _KEY_DESERIALIZATION: ClassVar[int]
    _VALUE_DESERIALIZATION: ClassVar[int]
    UNKNOWN_TOPIC_OR_PART: ClassVar[int]
    MSG_SIZE_TOO_LARGE: ClassVar[int]
    _RESOLVE: ClassVar[int]

    __slots__ = ("_code", "_fatal", "_retriable", "_text", "_txn_requires_abort")

    def __init__(
        self,
        error: int,
        reason: str | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self._code = error
        self._text = reason if reason is not None else _text_of(error)
        self._fatal = fatal
        self._retriable = retriable
        self._txn_requires_abort = txn_requires_abort

    def code(self) -> int:
        return self._code

    def name(self) -> str:
        return NAMES.get(self._code, f"ERR_{self._code}?")

    def str(self) -> str:
        return self._text

    def fatal(self) -> bool:
        return self._fatal

    def retriable(self) -> bool:
        return self._retriable

    def txn_requires_abort(self) -> bool:
        return self._txn_requires_abort

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KafkaError):
            return self._code == other._code
        return self._code == other if isinstance(other, int) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._code)

    def __lt__(self, other: object) -> bool:
        return self._code < _number(other) if isinstance(other, KafkaError | int) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self._code <= _number(other) if isinstance(other, KafkaError | int) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self._code > _number(other) if isinstance(other, KafkaError | int) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self._code >= _number(other) if isinstance(other, KafkaError | int) else NotImplemented

    def __repr__(self) -> str:  # type: ignore[valid-type]  # the method `str` hides the type in this class
        fatal = "FATAL," if self._fatal else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{self._text}"}}'

    __str__ = __repr__


def _number(error: KafkaError | int) -> int:
    return error if isinstance(error, int) else error.code()


for _code, _name in NAMES.items():
    setattr(KafkaError, _name, _code)


def _text_of(code: int) -> str:
    if code in LOCAL_NAMES:
        return f"Local: {LOCAL_NAMES[code].strip('_').replace('_', ' ').capitalize()}"
    error = ERRORS.get(code)
    return "Success" if code == 0 else f"Broker: {error.what if error is not None else NAMES.get(code, code)}"


class KafkaException(Exception):
    """Carries a KafkaError in args[0]."""


class IllegalStateException(RuntimeError):
    """A share consumer cannot do this now."""


class ConcurrentModificationException(RuntimeError):
    """Two threads use a share consumer at once."""


_LOCAL_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (ProducerFenced, -144),
    (TransactionMisuse, -172),
    (NotAssigned, -190),
    (RecordPurgedInFlight, -151),
    (RecordPurged, -152),
    (RecordTooLargeToSend, 10),
    (DeliveryTimedOut, -192),
    (BufferExhausted, -184),
    (AuthenticationFailed, -169),
    (NotConnected, -195),
    (ConnectionClosed, -195),
    (TimeoutError, -185),
)


def error_of(raised: BaseException, *, fatal: bool = False, txn_requires_abort: bool = False) -> KafkaError:
    """An error of our client as confluent-kafka would have told it."""
    code = next((code for kind, code in _LOCAL_CODES if isinstance(raised, kind)), None)
    if code is None:
        code = raised.code if isinstance(raised, BrokerError) else -196
    retriable = isinstance(raised, OttlaError) and raised.retriable
    aborts = txn_requires_abort or (isinstance(raised, OttlaError) and raised.aborts_transaction)
    return KafkaError(code, str(raised), fatal=fatal, retriable=retriable, txn_requires_abort=aborts)


def exception_of(raised: BaseException, **facts: Any) -> KafkaException:
    """The same, ready to be raised."""
    return KafkaException(error_of(raised, **facts))
