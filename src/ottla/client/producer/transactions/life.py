"""What state a producer is in, and what its calls may do in it: the half of transactions.py that asks nobody.

1. `_move` is the only way to another state, along MOVES. A move that the table does not have is a fault of ours: the
   producer is over, and the error tells its story.
2. A call of the application that does not fit the state is TransactionMisuse and changes nothing.
3. init, commit and abort are one at a time. When the application stopped waiting for one, only the same call may
   follow; it gets the outcome of the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.client.producer.transactions.states import (
    MOVES,
    ProducerIdentity,
    TransactionalResult,
    TransactionFailed,
    TransactionMisuse,
    TransactionState,
)
from ottla.errors import IllegalMove, InvalidProducerEpoch, OttlaError, ProducerFenced, TransactionAbortable

STORY_LIMIT: Final = 20

_S = TransactionState


class TransactionLife:
    """State, error and identity of one producer, and the call that is being carried out."""

    def __init__(self, transactional_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.state = _S.UNINITIALIZED
        self.error: OttlaError | None = None
        self.identity: ProducerIdentity | None = None
        self._call: tuple[TransactionalResult, TransactionState] | None = None
        self._story: deque[str] = deque(maxlen=STORY_LIMIT)

    @property
    def is_transactional(self) -> bool:
        return self.transactional_id is not None

    @property
    def has_identity(self) -> bool:
        return self.identity is not None

    @property
    def has_fatal_error(self) -> bool:
        return self.state is _S.FATAL_ERROR

    @property
    def has_error(self) -> bool:
        return self.state in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR)

    @property
    def is_completing(self) -> bool:
        """The accumulator should send everything now instead of lingering."""
        return self.state in (_S.COMMITTING, _S.ABORTING, _S.PREPARING)

    @property
    def has_open_transaction(self) -> bool:
        """Close() should abort: records or offsets may be in a transaction that nobody ended."""
        return self.is_transactional and self.state in (
            _S.IN_TRANSACTION,
            _S.COMMITTING,
            _S.ABORTING,
            _S.PREPARING,
            _S.ABORTABLE_ERROR,
        )

    # --- calls -------------------------------------------------------------------------------------------------------

    def _once(
        self, operation: str, state: TransactionState, start: Callable[[], TransactionalResult]
    ) -> TransactionalResult:
        self._need_transactional(operation)
        if self._call is not None and not self._call[0].acknowledged:
            outcome, wanted = self._call
            if wanted is state:
                return outcome
        self._no_unfinished_call(operation)
        outcome = start()
        self._call = (outcome, state)
        return outcome

    def _no_unfinished_call(self, operation: str) -> None:
        if self._call is None:
            return
        if not self._call[0].acknowledged:
            earlier = self._call[0].operation
            raise TransactionMisuse(f"{earlier} timed out and must be called again before {operation}")
        self._call = None

    def _need_transactional(self, operation: str) -> None:
        if not self.is_transactional:
            raise TransactionMisuse(f"{operation} needs a producer with transactional.id")

    def _must_be(self, state: TransactionState, operation: str, *, or_prepared: bool = False) -> None:
        if self.state is not state and not (or_prepared and self.state is _S.PREPARED):
            raise TransactionMisuse(f"{operation} in state '{self.state.value}', it needs '{state.value}'")

    def _raise_if_failed(self) -> None:
        if not self.has_error:
            return
        who = f"transactional.id {self.transactional_id!r}, producer {self.identity}"
        if isinstance(self.error, ProducerFenced):
            raise ProducerFenced(f"{who}: a newer producer with the same transactional.id took over") from self.error
        if isinstance(self.error, InvalidProducerEpoch):
            raise InvalidProducerEpoch(f"{who} wrote with an old epoch") from self.error
        if self.state is _S.ABORTABLE_ERROR:
            raise TransactionAbortable(f"{who}: {self.error}") from self.error
        raise TransactionFailed(f"{who}: {self.error}") from self.error

    # --- errors and moves --------------------------------------------------------------------------------------------

    def _fail_abortable(self, error: OttlaError) -> None:
        if self.state in (_S.ABORTING, _S.FATAL_ERROR):
            return  # it is being aborted already, or worse
        self._move(_S.ABORTABLE_ERROR, error)

    def _fail_for_good(self, error: OttlaError) -> None:
        if self.state is _S.FATAL_ERROR:
            return  # the first reason is the one to tell
        self._move(_S.FATAL_ERROR, error)
        if self._call is not None:
            self._call[0].fail(error)

    def _known_error(self) -> OttlaError:
        return self.error or TransactionFailed()

    def _move(self, target: TransactionState, error: OttlaError | None = None) -> None:
        if target not in MOVES[self.state]:
            refused = IllegalMove(f"from {self.state.value} to {target.value}", story=self._story)
            self.state, self.error = _S.FATAL_ERROR, refused
            raise refused
        self._story.append(f"{self.state.value} -> {target.value}" + (f" ({error})" if error else ""))
        self.state, self.error = target, error
