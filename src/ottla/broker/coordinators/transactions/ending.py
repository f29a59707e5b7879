"""EndTxn: does it end the open transaction, repeat an earlier end, or come from a fenced producer?

Version 1 of transactions (EndTxn 0-4) knows a producer by its epoch alone, which is the same in the next transaction;
so an EndTxn that was held back can end the wrong one. Version 2 (EndTxn 5, KIP-890) raises the epoch with every
decision; then the epoch says which transaction is meant:

    state            its epoch is current     its epoch is one behind (it has not heard of the raise)
    Ongoing          decide                   PRODUCER_FENCED
    PrepareX         CONCURRENT_TRANSACTIONS  CONCURRENT_TRANSACTIONS
    CompleteX        abort: decide, commit:   same decision: the raised epoch once more, else INVALID_TXN_STATE
                     INVALID_TXN_STATE
    Empty            as CompleteX             PRODUCER_FENCED

1. While markers are being written (PrepareX), the answer is CONCURRENT_TRANSACTIONS. In version 2 this comes before
   the producer id and the epoch are compared, because a producer may already send the end of its next transaction
   with the epoch it just got, and PRODUCER_FENCED would be fatal for it. In version 1 the producer is checked
   first. Both are as in Kafka 4.3.1 (tests/conformance/test_transaction_answers.py).
2. An abort without a transaction is decided like any other, because the producer cannot know whether the broker has
   seen any of its records; the epoch is raised, and what is still on its way to a partition is fenced there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ottla.broker.coordinators.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EPOCH_BUMP_SINCE,
    LAST_CLIENT_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    TransactionMetadata,
)
from ottla.errors import InvalidProducerIdMapping, InvalidTxnState, ProducerFenced
from ottla.light_tuples import NamedTuple


class Ending(NamedTuple):
    """Who asks for which end. `next_producer_id` is called when the epochs of a producer id are used up."""

    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int
    now_ms: int
    next_producer_id: Callable[[], int]


class EndDecision(NamedTuple):
    """The decision, to be written."""

    prepared: TransactionMetadata


class AlreadyEnded(NamedTuple):
    """It had ended this way before; answer as then."""


def end(metadata: TransactionMetadata, ending: Ending) -> EndDecision | AlreadyEnded:
    """Decide a client's EndTxn; raises what is wrong with it."""
    if ending.client_version >= EPOCH_BUMP_SINCE:
        return _end_by_raised_epoch(metadata, ending)
    return _end_by_same_epoch(metadata, ending)


def fence(
    metadata: TransactionMetadata, *, transaction_version: int, now_ms: int, next_producer_id: Callable[[], int]
) -> TransactionMetadata:
    """The coordinator's own abort of an open transaction: its time is over, or another producer has come."""
    raises = transaction_version >= EPOCH_BUMP_SINCE
    return metadata.prepared(
        commit=False,
        client_version=transaction_version if raises else 0,
        next_producer_id=next_producer_id() if raises and metadata.is_epoch_exhausted else NO_PRODUCER_ID,
        now_ms=now_ms,
        fences=True,
    )


def _end_by_same_epoch(metadata: TransactionMetadata, ending: Ending) -> EndDecision | AlreadyEnded:
    _check_producer_id(metadata, ending.producer_id)
    if ending.producer_epoch != metadata.producer_epoch:
        _refuse_epoch(metadata, ending)
    metadata.check_no_pending_markers()
    if metadata.state is ONGOING:
        return EndDecision(
            metadata.prepared(
                commit=ending.commit, client_version=0, next_producer_id=NO_PRODUCER_ID, now_ms=ending.now_ms
            )
        )
    return _repeated(metadata, ending)


def _end_by_raised_epoch(metadata: TransactionMetadata, ending: Ending) -> EndDecision | AlreadyEnded:
    metadata.check_no_pending_markers()
    was_rotated = _names_replaced_producer_id(metadata, ending)
    if not was_rotated:
        _check_producer_id(metadata, ending.producer_id)
    if _is_complete(metadata) and (was_rotated or metadata.producer_epoch == ending.producer_epoch + 1):
        return _repeated(metadata, ending)
    if was_rotated or ending.producer_epoch != metadata.producer_epoch:
        _refuse_epoch(metadata, ending)
    if metadata.state is not ONGOING and ending.commit:
        _refuse_state(metadata, ending)
    return EndDecision(
        metadata.prepared(
            commit=ending.commit,
            client_version=ending.client_version,
            next_producer_id=ending.next_producer_id() if metadata.is_epoch_exhausted else NO_PRODUCER_ID,
            now_ms=ending.now_ms,
        )
    )


def _names_replaced_producer_id(metadata: TransactionMetadata, ending: Ending) -> bool:
    """Whether this is the retry of an end that used up the epochs: it names the producer id that was replaced."""
    return (
        ending.producer_id == metadata.previous_producer_id != metadata.producer_id
        and ending.producer_epoch == LAST_CLIENT_EPOCH
        and metadata.producer_epoch == 0
    )


def _repeated(metadata: TransactionMetadata, ending: Ending) -> AlreadyEnded:
    """No transaction is open: this must be the end that was decided before."""
    if metadata.state is not (COMPLETE_COMMIT if ending.commit else COMPLETE_ABORT):
        _refuse_state(metadata, ending)
    return AlreadyEnded()


def _is_complete(metadata: TransactionMetadata) -> bool:
    return metadata.state in (COMPLETE_COMMIT, COMPLETE_ABORT)


def _check_producer_id(metadata: TransactionMetadata, producer_id: int) -> None:
    if metadata.producer_id != producer_id:
        raise InvalidProducerIdMapping(f"{metadata.transactional_id!r} belongs to another producer than {producer_id}")


def _refuse_epoch(metadata: TransactionMetadata, ending: Ending) -> NoReturn:
    raise ProducerFenced(
        f"{metadata.transactional_id!r} is at epoch {metadata.producer_epoch}, not {ending.producer_epoch}"
    )


def _refuse_state(metadata: TransactionMetadata, ending: Ending) -> NoReturn:
    wanted = "committed" if ending.commit else "aborted"
    raise InvalidTxnState(f"{metadata.transactional_id!r} is {metadata.state.text} and cannot be {wanted}")
