"""The producer's identity, its sequence numbers and its transactions, as one plain state machine.

The sender drives it, on the client's loop:

    abort = manager.settle(now_ms)                       # may want batches failed: do it, then go on
    planned = manager.next_request(has_incomplete_batches=..., now_ms=...)
    if planned:  send it to planned.to, then exactly one of
                 forget = manager.answered(planned, response, now_ms) | manager.failed(planned, error, now_ms)
                 and when `forget` is true, forget that coordinator before the next attempt
    else:        nothing before manager.due_ms(now_ms)
    for each partition with data: while manager.may_drain(partition, first_batch.stamp):
                 first_batch.stamp = first_batch.stamp or manager.stamp(partition, record_count)

1. One request of a transaction is on its way at a time, in the order of Kind.priority. EndTxn waits until no batch is
   incomplete; produce requests do not wait for requests of the transaction, `may_drain` holds back those that must.
2. First version of transactions (V1): a partition is added before its first batch may go, a group before its offsets;
   after an error the epoch is bumped with InitProducerId. Second version (KIP-890, transaction.version 2): Produce and
   TxnOffsetCommit add by themselves, and every EndTxn answers with the next epoch. Which one holds is decided when the
   producer is initialized and at each end of a transaction, never in the middle of one.
3. Any error leaves the producer in one of two states: abort and go on, or fatal. Which error leads where is data in
   transaction_requests.py and in FATAL_FOR_BATCHES below. A retriable error that exhausted its retries aborts, because
   committing without those records would be a lie.
4. Idempotence alone: the same numbers without transactions. Where a gap cannot be closed the epoch is bumped here,
   without asking (KIP-360), and what is on its way is numbered again from 0.
5. No clock, no socket, no thread. Everything belongs to the loop but `maybe_add_partition`, which the caller's
   thread may call: it only adds to a set that the loop only pops from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.client.group_metadata import GroupMetadata
from ottla.client.producer import transaction_requests as requests
from ottla.client.producer.sequences import NO_OFFSET, Retry, Sequences, Stamp
from ottla.client.producer.transaction_queue import NEVER_MS, Pending, RequestQueue
from ottla.client.producer.transaction_requests import Effect, Verdict
from ottla.client.producer.transaction_states import (
    MOVES,
    AbortBatches,
    Kind,
    Outcome,
    PlannedRequest,
    ProducerIdentity,
    RecordsUnaccounted,
    TransactionAborted,
    TransactionFailed,
    TransactionMisuse,
    TransactionState,
)
from ottla.errors import (
    AuthenticationFailed,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    IllegalMove,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    OttlaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    UnsupportedVersion,
)
from ottla.values import OffsetAndMetadata, TopicPartition

RETRY_BACKOFF_MS: Final = 100.0
ADD_PARTITIONS_BACKOFF_MS: Final = 20.0
"""The transaction before is still writing its markers; that takes milliseconds, and the first send waits for it."""
LAST_EPOCH: Final = 2**15 - 1
BUMP_VERSION: Final = 3
"""The first version of InitProducerId that can bump the epoch of a producer that is alive."""
STORY_LIMIT: Final = 20

FATAL_FOR_BATCHES: Final = (
    ClusterAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    ProducerFenced,
    UnsupportedVersion,
    InvalidProducerIdMapping,
)
_RECOVERABLE: Final = (TransactionalIdAuthorizationFailed, ClusterAuthorizationFailed)

_S = TransactionState


class TransactionManager:
    """Identity, sequences and transactions of one producer; see the top of the file for how it is driven."""

    def __init__(
        self,
        *,
        transactional_id: str | None,
        transaction_timeout_ms: int = 60_000,
        retry_backoff_ms: float = RETRY_BACKOFF_MS,
    ) -> None:
        self.transactional_id = transactional_id
        self.state = _S.UNINITIALIZED
        self.error: OttlaError | None = None
        self.identity: ProducerIdentity | None = None
        self.is_v2 = False
        self._timeout_ms = transaction_timeout_ms
        self._backoff_ms = retry_backoff_ms
        self._sequences = Sequences()
        self._to_rewrite: set[TopicPartition] = set()
        self._bump_required = False
        self._can_bump = True
        self._finalized_version = 0
        self._started = False
        self._new: set[TopicPartition] = set()
        self._adding: set[TopicPartition] = set()
        self._added: set[TopicPartition] = set()
        self._queue = RequestQueue()
        self._call: tuple[Outcome, TransactionState] | None = None
        self._retry_identity_ms = 0.0
        self._story: deque[str] = deque(maxlen=STORY_LIMIT)

    # --- what it is --------------------------------------------------------------------------------------------------

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
        return self.state in (_S.COMMITTING, _S.ABORTING)

    @property
    def has_open_transaction(self) -> bool:
        """Close() should abort: records or offsets may be in a transaction that nobody ended."""
        return self.is_transactional and self.state in (
            _S.IN_TRANSACTION,
            _S.COMMITTING,
            _S.ABORTING,
            _S.ABORTABLE_ERROR,
        )

    @property
    def has_requests(self) -> bool:
        """Something is queued or on its way."""
        return bool(self._queue) or bool(self._new)

    @property
    def produce_version_limit(self) -> int | None:
        """The cap for Produce requests: version 12 and above would add partitions by themselves."""
        return requests.V1_PRODUCE_VERSION_LIMIT if self.is_transactional and not self.is_v2 else None

    def set_features(self, transaction_version: int) -> None:
        """The cluster's finalized `transaction.version` (0 when absent); used from the next good moment on."""
        self._finalized_version = transaction_version

    def coordinator_ready(self, init_producer_id_version: int) -> None:
        """The highest InitProducerId version the transaction coordinator speaks: can it bump epochs?"""
        self._can_bump = init_producer_id_version >= BUMP_VERSION

    # --- calls of the face -------------------------------------------------------------------------------------------

    def initialize(self) -> Outcome:
        """init_transactions: get an identity, ending what a predecessor with this id left open."""
        self._raise_if_failed()
        return self._once("init_transactions", _S.INITIALIZING, self._start_initializing)

    def begin(self) -> None:
        """begin_transaction; asks nobody."""
        self._need_transactional("begin_transaction")
        self._no_unfinished_call("begin_transaction")
        self._raise_if_failed()
        self._must_be(_S.READY, "begin_transaction")
        self._move(_S.IN_TRANSACTION)

    def begin_commit(self) -> Outcome:
        """commit_transaction: all batches must be acknowledged before it is sent; the face flushes, too."""
        return self._once("commit_transaction", _S.COMMITTING, lambda: self._start_ending(commit=True))

    def begin_abort(self) -> Outcome:
        """abort_transaction: what was not sent is dropped, what is on its way is waited for."""
        return self._once("abort_transaction", _S.ABORTING, lambda: self._start_ending(commit=False))

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> Outcome:
        """send_offsets_to_transaction: these positions of the group are committed if the transaction is."""
        self._need_transactional("send_offsets_to_transaction")
        self._no_unfinished_call("send_offsets_to_transaction")
        self._raise_if_failed()
        self._must_be(_S.IN_TRANSACTION, "send_offsets_to_transaction")
        outcome = Outcome("send_offsets_to_transaction")
        if not offsets:
            outcome.succeed()
            return outcome
        pending = self._queue.add(Kind.COMMIT_OFFSETS if self.is_v2 else Kind.ADD_OFFSETS, outcome)
        pending.offsets, pending.group = dict(offsets), group
        # The answer may be lost although the group was added: from now on there is something to end.
        self._started = self._started or self.is_v2
        return outcome

    def maybe_add_partition(self, partition: TopicPartition) -> None:
        """Each send calls this before the record is appended; raises when a record may not be sent now."""
        if not self.is_transactional:
            if self.has_fatal_error:
                self._raise_if_failed()
            return
        if self.state is _S.IN_TRANSACTION and partition in self._added:
            return
        self._check_may_add(partition)
        if self.is_v2:
            self._added.add(partition)
            self._started = True
        elif partition not in self._adding:
            self._new.add(partition)

    def close(self) -> None:
        """The producer goes away at once: whoever still waits for a request is told so."""
        error = TransactionFailed("the producer was closed before the request was answered")
        self._queue.close(error)
        if self._call:
            self._call[0].fail(error)

    # --- driven by the sender: requests ------------------------------------------------------------------------------

    def settle(self, now_ms: float) -> AbortBatches | None:
        """Resolve what is open without a request; first step of each turn. Gives the batches to fail, if any."""
        self._resolve_sequences()
        if self.state is _S.FATAL_ERROR:
            return AbortBatches(self._known_error(), only_unsent=False)
        if self.state is _S.ABORTABLE_ERROR and isinstance(self.error, _RECOVERABLE):
            return self._start_anew(now_ms)
        self._ensure_idempotent_identity(now_ms)
        if self.state is _S.ABORTABLE_ERROR:
            return AbortBatches(self._known_error(), only_unsent=True)
        if self.state is _S.ABORTING:
            return AbortBatches(TransactionAborted(), only_unsent=True)
        return None

    def next_request(self, *, has_incomplete_batches: bool, now_ms: float) -> PlannedRequest | None:
        """The request to send now, if any; the next one comes when this one was answered or failed."""
        self._enqueue_new_partitions()
        if self.has_error:
            self._queue.fail_waiting(self._known_error())
        while first := self._queue.first(now_ms):
            if first.kind is Kind.END and has_incomplete_batches:
                return None
            pending = self._queue.take()
            if pending.kind is Kind.END and not self._started:
                # Nothing was added, so the coordinator knows of no transaction to end.
                self._transaction_ended(pending.outcome)
                continue
            self._queue.in_flight = pending
            return pending.planned(self.transactional_id, self.identity, timeout_ms=self._timeout_ms, is_v2=self.is_v2)
        return None

    def due_ms(self, now_ms: float) -> float:
        """When `next_request` may have something; infinity: only after an answer, a batch or a call."""
        if self._new and not self._queue:
            return now_ms
        if self._queue:
            return self._queue.due_ms(now_ms)
        wants_identity = not self.is_transactional and self.state is _S.UNINITIALIZED
        return max(now_ms, self._retry_identity_ms) if wants_identity else NEVER_MS

    def answered(self, planned: PlannedRequest, response: Any, now_ms: float) -> bool:
        """Take the answer; True: forget the coordinator this was sent to."""
        pending = self._queue.came_back(planned)
        if pending is None:
            return False
        verdict = self._read_answer(pending, response)
        if verdict.effect is Effect.DONE:
            self._succeeded(pending, response)
        else:
            self._apply(pending, verdict, now_ms)
        return verdict.find_coordinator

    def failed(self, planned: PlannedRequest, error: OttlaError, now_ms: float) -> bool:
        """There is no answer: the coordinator was not found or the connection broke. True as in `answered`."""
        pending = self._queue.came_back(planned)
        if pending is None:
            return False
        verdict = self._verdict_on_failure(error)
        self._apply(pending, verdict, now_ms)
        return verdict.find_coordinator and planned.to != "any"

    # --- driven by the sender: batches -------------------------------------------------------------------------------

    def may_send(self, partition: TopicPartition) -> bool:
        """Whether batches of the partition may go at all."""
        if self.has_fatal_error or self.identity is None:
            return False
        return not self.is_transactional or partition in self._added

    def may_drain(self, partition: TopicPartition, stamp: Stamp | None) -> bool:
        """Whether the first batch of the partition's queue may go; `stamp` is the one it has from an earlier try."""
        if self.identity is None or not self.may_send(partition):
            return False
        return self._sequences.may_drain(partition, stamp, self.identity)

    def stamp(self, partition: TopicPartition, record_count: int) -> Stamp:
        """Number a batch that is drained for the first time; ask may_drain first."""
        if self.identity is None:
            raise IllegalMove("a batch was stamped before the producer had an identity", story=self._story)
        return self._sequences.of(partition).stamp(self.identity, record_count)

    def in_flight_count(self, partition: TopicPartition) -> int:
        """Batches with a stamp that are neither acknowledged nor given up."""
        return len(self._sequences.of(partition).in_flight)

    def split(self, partition: TopicPartition, stamp: Stamp, record_counts: list[int]) -> list[Stamp]:
        """The batch was too large: its parts take over its numbers, in order."""
        return self._sequences.of(partition).split(stamp, record_counts)

    def batch_acknowledged(self, partition: TopicPartition, stamp: Stamp, base_offset: int = NO_OFFSET) -> None:
        """The broker has the batch (also when it says DUPLICATE_SEQUENCE_NUMBER, then without an offset)."""
        self._sequences.of(partition).acknowledged(stamp, base_offset)

    def can_retry(
        self, partition: TopicPartition, stamp: Stamp, error: OttlaError, log_start_offset: int = NO_OFFSET
    ) -> bool:
        """Whether the batch may be tried again after `error`; attempts and deadlines are the sender's business."""
        retry = Retry.NO
        if isinstance(error, UnknownProducerId):
            transactional = self.identity if self.is_transactional else None
            retry = self._sequences.after_unknown_producer(partition, stamp, log_start_offset, transactional)
        elif isinstance(error, OutOfOrderSequenceNumber):
            retry = self._sequences.after_out_of_order(partition, stamp, transactional=self.is_transactional)
        if retry is Retry.AFTER_BUMP:
            self._request_bump(partition)
        return retry is not Retry.NO or error.retriable

    def batch_failed(
        self, partition: TopicPartition, stamp: Stamp | None, error: OttlaError, *, adjust_sequences: bool
    ) -> None:
        """The batch is given up. `adjust_sequences`: the broker refused it for good, so it certainly is not in the log
        (false for time-outs and exhausted retries). `stamp` None: it was never drained."""
        self._note_failure(error)
        numbers = self._sequences.of(partition)
        if stamp is not None:
            numbers.forget(stamp)
        if self.has_fatal_error:
            return
        if isinstance(error, UnknownProducerId):
            self._sequences.reset(partition)
        elif not self.is_transactional and (
            isinstance(error, OutOfOrderSequenceNumber) or (adjust_sequences and stamp is not None)
        ):
            self._request_bump(partition)
        elif adjust_sequences and stamp is not None:
            numbers.close_gap(stamp)

    def mark_unresolved(self, partition: TopicPartition, stamp: Stamp) -> None:
        """The batch was sent at least once and expired without an answer; call after batch_failed."""
        self._sequences.mark_unresolved(partition, stamp)

    # --- calls, inside -----------------------------------------------------------------------------------------------

    def _start_initializing(self) -> Outcome:
        self._must_be(_S.UNINITIALIZED, "init_transactions")
        self._move(_S.INITIALIZING)
        outcome = Outcome("init_transactions")
        self._queue.add(Kind.INIT_PRODUCER_ID, outcome)
        return outcome

    def _start_ending(self, *, commit: bool) -> Outcome:
        operation = "commit_transaction" if commit else "abort_transaction"
        if commit or self.state is not _S.ABORTABLE_ERROR:
            self._raise_if_failed()
            self._must_be(_S.IN_TRANSACTION, operation)
        self._move(_S.COMMITTING if commit else _S.ABORTING)
        if not commit:
            self._new.clear()
        self._enqueue_new_partitions()
        outcome = Outcome(operation)
        pending = self._queue.add(Kind.END, outcome)
        pending.commit = commit
        return outcome

    def _once(self, operation: str, state: TransactionState, start: Callable[[], Outcome]) -> Outcome:
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

    def _must_be(self, state: TransactionState, operation: str) -> None:
        if self.state is not state:
            raise TransactionMisuse(f"{operation} in state '{self.state.value}', it needs '{state.value}'")

    def _check_may_add(self, partition: TopicPartition) -> None:
        self._raise_if_failed()
        self._no_unfinished_call("send")
        if not self.has_identity:
            raise TransactionMisuse(f"a record for {partition} before init_transactions")
        if self.state is not _S.IN_TRANSACTION:
            raise TransactionMisuse(f"a record for {partition} in state '{self.state.value}', outside a transaction")

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

    # --- requests, inside --------------------------------------------------------------------------------------------

    def _enqueue_new_partitions(self) -> None:
        if not self._new:
            return
        found: set[TopicPartition] = set()
        while self._new:  # popped one by one: the caller's thread may be adding to this very set
            found.add(self._new.pop())
        self._adding |= found
        self._queue.add(Kind.ADD_PARTITIONS, Outcome("add partitions")).partitions = found

    def _read_answer(self, pending: Pending, response: Any) -> Verdict:
        if pending.kind is Kind.ADD_PARTITIONS:
            return requests.verdict_on_partitions(response)
        if pending.kind is Kind.COMMIT_OFFSETS:
            committed, verdict = requests.verdict_on_offsets(response)
            for partition in committed:
                pending.offsets.pop(partition, None)
            if verdict.effect is Effect.DONE and pending.offsets:
                missing = ", ".join(str(partition) for partition in sorted(pending.offsets))
                return Verdict(Effect.FATAL, TransactionFailed(f"the group coordinator did not answer for {missing}"))
            return verdict
        aborting = self.state is _S.ABORTING
        return requests.verdict_on_code(pending.kind, response.error_code, aborting=aborting)

    def _verdict_on_failure(self, error: OttlaError) -> Verdict:
        if isinstance(error, GroupAuthorizationFailed | TransactionAbortable):
            return Verdict(Effect.ABORTABLE, error)
        if isinstance(error, UnsupportedVersion | AuthenticationFailed | TransactionalIdAuthorizationFailed):
            return Verdict(Effect.FATAL, error)
        if error.retriable:
            return Verdict(Effect.RETRY, error, find_coordinator=True)
        return Verdict(Effect.FATAL, TransactionFailed(str(error)))

    def _apply(self, pending: Pending, verdict: Verdict, now_ms: float) -> None:
        error = verdict.error or TransactionFailed()
        if verdict.effect is Effect.RETRY:
            soon = verdict.soon and not self._added
            wait_ms = min(ADD_PARTITIONS_BACKOFF_MS, self._backoff_ms) if soon else self._backoff_ms
            self._queue.again(pending, now_ms + wait_ms)
            return
        self._adding -= pending.partitions
        refused_abort = pending.kind is Kind.END and self.state is _S.ABORTING
        if verdict.effect is Effect.FATAL or refused_abort:
            self._fail_for_good(error)
        elif verdict.effect is Effect.ABORTABLE_IF_BUMPED:
            self._fail_abortable_or_for_good(error)
        else:
            self._fail_abortable(error)
        pending.outcome.fail(error)

    def _succeeded(self, pending: Pending, response: Any) -> None:
        kind = pending.kind
        if kind in (Kind.INIT_PRODUCER_ID, Kind.BUMP_EPOCH):
            self._identified(kind, ProducerIdentity(response.producer_id, response.producer_epoch))
        elif kind is Kind.ADD_PARTITIONS:
            self._adding -= pending.partitions
            self._added |= pending.partitions
            self._started = True
        elif kind is Kind.ADD_OFFSETS:
            self._started = True
            # The caller waits for the offsets themselves, so the outcome goes on with the next request.
            following = self._queue.add(Kind.COMMIT_OFFSETS, pending.outcome)
            following.offsets, following.group = pending.offsets, pending.group
            return
        elif kind is Kind.END:
            if response.producer_id != -1:  # from EndTxn 5 on every end gives the next epoch
                self.identity = ProducerIdentity(response.producer_id, response.producer_epoch)
                self._sequences.reset_all()
            self._transaction_ended(pending.outcome)
            return
        pending.outcome.succeed()

    def _transaction_ended(self, outcome: Outcome) -> None:
        was_v2, self.is_v2 = self.is_v2, self._finalized_version >= 2
        if self.is_v2 and not was_v2:
            # The cluster was upgraded meanwhile: the first transaction of the new kind starts with its own epoch.
            self._bump_required = True
        bump = self._bump_required or self.identity is None
        self._bump_required = self._started = False
        self._new.clear()
        self._adding.clear()
        self._added.clear()
        self._move(_S.INITIALIZING if bump else _S.READY)
        if bump:
            self._queue.add(Kind.BUMP_EPOCH, outcome)
        else:
            outcome.succeed()

    def _identified(self, kind: Kind, identity: ProducerIdentity) -> None:
        self._move(_S.READY)
        self.identity = identity
        if self.is_transactional:
            self._sequences.reset_all()
        if kind is Kind.INIT_PRODUCER_ID:
            self.is_v2 = self.is_transactional and self._finalized_version >= 2
        self._rewrite_sequences(identity)

    # --- idempotence -------------------------------------------------------------------------------------------------

    def _ensure_idempotent_identity(self, now_ms: float) -> None:
        if self.is_transactional:
            return
        if self._bump_required and self.identity is not None:
            self._bump_idempotent_epoch(self.identity)
        if self.identity is None and self.state is _S.UNINITIALIZED and now_ms >= self._retry_identity_ms:
            self._move(_S.INITIALIZING)
            self._queue.add(Kind.INIT_PRODUCER_ID, Outcome("init producer id"))

    def _bump_idempotent_epoch(self, identity: ProducerIdentity) -> None:
        self._bump_required = False
        if identity.epoch >= LAST_EPOCH:
            # The numbers are rewritten when the new id is there; until then nothing may be sent.
            self.identity = None
            self._move(_S.UNINITIALIZED)
            return
        self.identity = ProducerIdentity(identity.producer_id, identity.epoch + 1)
        self._rewrite_sequences(self.identity)

    def _rewrite_sequences(self, identity: ProducerIdentity) -> None:
        partitions, self._to_rewrite = self._to_rewrite, set()
        for partition in partitions:
            self._sequences.of(partition).start_over(identity)

    def _request_bump(self, partition: TopicPartition) -> None:
        self._bump_required = True
        self._to_rewrite.add(partition)

    def _resolve_sequences(self) -> None:
        for partition in self._sequences.take_lost():
            if self.is_transactional:
                self._fail_abortable_or_for_good(RecordsUnaccounted(str(partition)))
            else:
                self._request_bump(partition)

    # --- errors and moves --------------------------------------------------------------------------------------------

    def _note_failure(self, error: OttlaError) -> None:
        """A record cannot be sent: what does it mean for the producer?"""
        if isinstance(error, FATAL_FOR_BATCHES):
            self._fail_for_good(error)
            return
        if not self.is_transactional:
            return
        if error.retriable or isinstance(error, InvalidTxnState):
            error = TransactionAbortable(f"a record could not be sent: {error}")
        if self._needs_bump_from_client and not self.is_completing:
            self._bump_required = True
        self._fail_abortable(error)

    @property
    def _needs_bump_from_client(self) -> bool:
        return self._can_bump and not self.is_v2

    def _fail_abortable_or_for_good(self, error: OttlaError) -> None:
        if self._can_bump or self.is_v2:
            self._bump_required = self._bump_required or self._needs_bump_from_client
            self._fail_abortable(error)
        else:
            self._fail_for_good(error)

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

    def _start_anew(self, now_ms: float) -> AbortBatches:
        error = self._known_error()
        self._queue.fail_waiting(error)
        if self._call is not None:
            self._call[0].fail(error)
        self._move(_S.UNINITIALIZED)
        self._retry_identity_ms = now_ms + self._backoff_ms
        return AbortBatches(error, only_unsent=False)

    def _known_error(self) -> OttlaError:
        return self.error or TransactionFailed()

    def _move(self, target: TransactionState, error: OttlaError | None = None) -> None:
        if target not in MOVES[self.state]:
            refused = IllegalMove(f"from {self.state.value} to {target.value}", story=self._story)
            self.state, self.error = _S.FATAL_ERROR, refused
            raise refused
        self._story.append(f"{self.state.value} -> {target.value}" + (f" ({error})" if error else ""))
        self.state, self.error = target, error
