"""The states of a producer that has an identity, and the values its transaction manager hands out.

    UNINITIALIZED -> INITIALIZING -> READY -> IN_TRANSACTION -> COMMITTING -> READY
                                              IN_TRANSACTION -> ABORTING   -> READY
                  (an end that must bump the epoch goes through INITIALIZING on its way to READY)

    IN_TRANSACTION -> PREPARING -> PREPARED: all is written and the transaction is left open, for whoever holds its
    PreparedTransaction to end. The producer may be closed, end it itself, or be initialized again.

    ABORTABLE_ERROR   this transaction cannot commit; abort it and go on. After an abort the producer is READY again.
    FATAL_ERROR       this producer is over; reachable from everywhere, left for nowhere.

1. MOVES is the whole truth about states; only TransactionManager moves, and only along it.
2. A producer that is merely idempotent uses UNINITIALIZED, INITIALIZING, READY and the two errors.
3. An TransactionalResult is done exactly once, with or without an error; what is told to it later is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Final, Literal

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.schema import Message


class TransactionState(Enum):
    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    PREPARING = "preparing"
    PREPARED = "prepared"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


_S = TransactionState

MOVES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.FATAL_ERROR}),
    _S.INITIALIZING: frozenset({_S.READY, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset({_S.COMMITTING, _S.ABORTING, _S.PREPARING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.PREPARING: frozenset({_S.PREPARED, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.PREPARED: frozenset({_S.COMMITTING, _S.ABORTING, _S.INITIALIZING, _S.FATAL_ERROR}),
    _S.COMMITTING: frozenset({_S.READY, _S.INITIALIZING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.INITIALIZING, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.ABORTABLE_ERROR, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset({_S.FATAL_ERROR}),
}


class ProducerIdentity(NamedTuple):
    """What a coordinator gave this producer; a higher epoch of the same id fences the lower ones."""

    producer_id: int
    epoch: int


class Kind(IntEnum):
    """The requests of a transaction; `priority` says which goes first when several wait."""

    INIT_PRODUCER_ID = 0
    ADD_PARTITIONS = 1
    ADD_OFFSETS = 2
    COMMIT_OFFSETS = 3
    END = 4
    BUMP_EPOCH = 5
    PREPARE = 6
    """Sends nothing: it is done when everything before it is."""

    @property
    def priority(self) -> int:
        return _PRIORITY[self]


_PRIORITY: Final = {
    Kind.INIT_PRODUCER_ID: 0,
    # Offsets and partitions are equals: whichever was asked for first is added first.
    Kind.ADD_PARTITIONS: 1,
    Kind.ADD_OFFSETS: 1,
    Kind.COMMIT_OFFSETS: 1,
    Kind.END: 2,
    Kind.PREPARE: 2,
    # A bump before the end would fence the transaction it should end.
    Kind.BUMP_EPOCH: 3,
}

Destination = Literal["any", "transaction", "group"]


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """Send this, then tell the manager what became of it: `answered` or `failed`, exactly once.

    `to` is "any" (least loaded node) or the kind of coordinator whose key is `coordinator_key`; `at_most` caps the
    version, because some versions mean something else (EndTxn 5 bumps the epoch) and not only look different.
    """

    kind: Kind
    request: Message
    to: Destination
    coordinator_key: str | None
    at_most: int | None
    ticket: int


@dataclass(frozen=True, slots=True)
class AbortBatches:
    """Fail batches of the accumulator with `error`: all of them, or only those that were never sent."""

    error: OttlaError
    only_unsent: bool


class TransactionalResult:
    """How a call of the face ends; the face waits for `done` and then calls `acknowledge`.

    A face that stops waiting (max.block.ms is over) does not acknowledge: the operation goes on, and the same call
    made again gets the same outcome. So a time-out never leaves the producer in a state nobody knows.
    """

    __slots__ = ("_callbacks", "acknowledged", "done", "error", "operation")

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.done = False
        self.error: OttlaError | None = None
        self.acknowledged = False
        self._callbacks: list[Callable[[TransactionalResult], None]] = []

    def __repr__(self) -> str:
        how = "waiting" if not self.done else f"failed: {self.error}" if self.error else "done"
        return f"<TransactionalResult of {self.operation}: {how}>"

    def add_done_callback(self, call: Callable[[TransactionalResult], None]) -> None:
        """Call when done, or now if it is; on whatever thread finishes it, which is the client's loop."""
        if self.done:
            call(self)
        else:
            self._callbacks.append(call)

    def acknowledge(self) -> None:
        """The caller has seen the result; returns nothing and raises the error if there is one."""
        self.acknowledged = True
        if self.error is not None:
            raise self.error

    def succeed(self) -> None:
        self._finish(None)

    def fail(self, error: OttlaError) -> None:
        self._finish(error)

    def _finish(self, error: OttlaError | None) -> None:
        if self.done:
            return
        self.done, self.error = True, error
        callbacks, self._callbacks = self._callbacks, []
        for call in callbacks:
            call(self)


# --- errors that only a producer's transactions have -----------------------------------------------------------------


class TransactionMisuse(OttlaError):
    """The transaction calls came in an order that means nothing.
    The order is init_transactions, then for each transaction begin, sends, and commit or abort."""


class TransactionAborted(OttlaError):
    """The transaction was aborted before this record was sent. It is not in the log; send it again if it matters."""


class TransactionFailed(OttlaError):
    """The producer cannot go on with its transactions.
    Close it and make a new one with the same transactional.id, which ends what was left open."""


class OffsetsNotCommitted(OttlaError):
    """The group no longer knows this consumer as its member, so its offsets were not added to the transaction.
    Abort, let the consumer poll so that it joins again, and process from the last committed offsets."""

    aborts_transaction = True


class RecordsUnaccounted(OttlaError):
    """Some records were sent, never acknowledged, and can no longer be tried again.
    Abort the transaction and send its records again."""

    aborts_transaction = True
