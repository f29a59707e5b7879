"""The producer's identity, its sequence numbers and its transactions, as one plain state machine.

The sender drives it, on the client's loop:

    abort = manager.resolve_errors(now_ms)                       # may want batches failed: do it, then go on
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
   transaction_requests.py and in numbered_batches.py. A retriable error that exhausted its retries aborts, because
   committing without those records would be a lie.
4. Idempotence alone: the same numbers without transactions. Where a gap cannot be closed the epoch is bumped here,
   without asking (KIP-360), and what is on its way is numbered again from 0.
5. Three files, one object: transaction_life.py has states and calls, numbered_batches.py the records, this one the
   requests. No clock, no socket, no thread. Everything belongs to the loop but `maybe_add_partition`, which the
   caller's thread may call: it only adds to a set that the loop only pops from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.client.group_metadata import GroupMetadata
from ottla.client.producer.sending.numbered_batches import NumberedBatches
from ottla.client.producer.transactions import requests
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.client.producer.transactions.queue import NEVER_MS, PendingRequest, RequestQueue
from ottla.client.producer.transactions.requests import Effect, Verdict
from ottla.client.producer.transactions.states import (
    AbortBatches,
    Kind,
    PlannedRequest,
    ProducerIdentity,
    TransactionAborted,
    TransactionalResult,
    TransactionFailed,
    TransactionMisuse,
    TransactionState,
)
from ottla.errors import (
    AuthenticationFailed,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    IllegalMove,
    OttlaError,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from ottla.values import OffsetAndMetadata, TopicPartition

RETRY_BACKOFF_MS: Final = 100.0
ADD_PARTITIONS_BACKOFF_MS: Final = 20.0
"""The transaction before is still writing its markers; that takes milliseconds, and the first send waits for it."""
_RECOVERABLE: Final = (TransactionalIdAuthorizationFailed, ClusterAuthorizationFailed)

_S = TransactionState


class TransactionManager(NumberedBatches):
    """Identity, sequences and transactions of one producer; see the top of the file for how it is driven."""

    def __init__(
        self,
        *,
        transactional_id: str | None,
        transaction_timeout_ms: int = 60_000,
        retry_backoff_ms: float = RETRY_BACKOFF_MS,
    ) -> None:
        super().__init__(transactional_id)
        self._timeout_ms = transaction_timeout_ms
        self._backoff_ms = retry_backoff_ms
        self._finalized_version = 0
        self._end_waits = False
        self._new: set[TopicPartition] = set()
        self._adding: set[TopicPartition] = set()
        self._queue = RequestQueue()
        self._retry_identity_ms = 0.0

    # --- what it is --------------------------------------------------------------------------------------------------

    @property
    def has_requests(self) -> bool:
        """Something is queued or on its way."""
        return bool(self._queue) or bool(self._new)

    @property
    def produce_version_limit(self) -> int | None:
        """The cap for Produce requests: version 12 and above would add partitions by themselves."""
        return None if self.transactional_id is None or self.is_v2 else requests.V1_PRODUCE_VERSION_LIMIT

    def set_features(self, transaction_version: int) -> None:
        """The cluster's finalized `transaction.version` (0 when absent); used from the next good moment on."""
        self._finalized_version = transaction_version

    # --- calls of the face -------------------------------------------------------------------------------------------

    def initialize(self) -> TransactionalResult:
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

    def begin_commit(self) -> TransactionalResult:
        """commit_transaction: all batches must be acknowledged before it is sent; the face flushes, too."""
        return self._once("commit_transaction", _S.COMMITTING, lambda: self._start_ending(commit=True))

    def begin_abort(self) -> TransactionalResult:
        """abort_transaction: what was not sent is dropped, what is on its way is waited for."""
        return self._once("abort_transaction", _S.ABORTING, lambda: self._start_ending(commit=False))

    def begin_prepare(self) -> TransactionalResult:
        """prepare_transaction: like a commit, all batches must be acknowledged; then the transaction stays open."""
        return self._once("prepare_transaction", _S.PREPARING, self._start_preparing)

    def prepared(self) -> PreparedTransaction:
        """What is left open, for whoever is to end it."""
        self._must_be(_S.PREPARED, "prepare_transaction")
        if self.transactional_id is None or self.identity is None:
            raise IllegalMove("a transaction was prepared without an identity", story=self._story)
        return PreparedTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            is_empty=not self._started,
            transaction_version=2 if self.is_v2 else 1,
        )

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> TransactionalResult:
        """send_offsets_to_transaction: these positions of the group are committed if the transaction is."""
        self._need_transactional("send_offsets_to_transaction")
        self._no_unfinished_call("send_offsets_to_transaction")
        self._raise_if_failed()
        self._must_be(_S.IN_TRANSACTION, "send_offsets_to_transaction")
        outcome = TransactionalResult("send_offsets_to_transaction")
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
        if self.transactional_id is None:
            if self.state is _S.FATAL_ERROR:
                self._raise_if_failed()
            return
        if self.state is _S.IN_TRANSACTION and partition in self._added:
            return
        self._check_may_add(partition)
        if self.is_v2:
            self._added.add(partition)
        elif partition not in self._adding:
            self._new.add(partition)

    def close(self) -> None:
        """The producer goes away at once: whoever still waits for a request is told so."""
        error = TransactionFailed("the producer was closed before the request was answered")
        self._queue.close(error)
        if self._call:
            self._call[0].fail(error)

    # --- driven by the sender: requests ------------------------------------------------------------------------------

    def resolve_errors(self, now_ms: float) -> AbortBatches | None:
        """Resolve what is open without a request; first step of each turn. Returns the batches to fail, if any."""
        self._resolve_sequences()
        if self.state is _S.FATAL_ERROR:
            return AbortBatches(self._known_error(), only_unsent=False)
        if self.state is _S.ABORTABLE_ERROR and isinstance(self.error, _RECOVERABLE):
            return self._restart_epoch(now_ms)
        self._ensure_idempotent_identity(now_ms)
        if self.state is _S.ABORTABLE_ERROR:
            return AbortBatches(self._known_error(), only_unsent=True)
        if self.state is _S.ABORTING:
            return AbortBatches(TransactionAborted(), only_unsent=True)
        return None

    def next_request(self, *, has_incomplete_batches: bool, now_ms: float) -> PlannedRequest | None:
        """The request to send now, if any; the next one comes when this one was answered or failed."""
        self._end_waits = False
        self._enqueue_new_partitions()
        if self.has_error:
            self._queue.fail_waiting(self._known_error())
        while first := self._queue.first(now_ms):
            if first.kind in (Kind.END, Kind.PREPARE) and has_incomplete_batches:
                self._end_waits = True
                return None
            pending = self._queue.take()
            if pending.kind is Kind.PREPARE:
                self._move(_S.PREPARED)
                pending.outcome.succeed()
                continue
            if pending.kind is Kind.END and not self._started:
                # Nothing was added, so the coordinator knows of no transaction to end.
                self._transaction_ended(pending.outcome)
                continue
            self._queue.in_flight = pending
            return pending.planned(self.transactional_id, self.identity, timeout_ms=self._timeout_ms, is_v2=self.is_v2)
        return None

    def due_ms(self, now_ms: float) -> float:
        """When `next_request` may have something; infinity: only after an answer, a batch or a call."""
        if self._end_waits:
            return NEVER_MS  # for batches, and they come back by themselves
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

    # --- calls, inside -----------------------------------------------------------------------------------------------

    def _start_initializing(self) -> TransactionalResult:
        self._must_be(_S.UNINITIALIZED, "init_transactions", or_prepared=True)
        self._forget_transaction()  # a prepared one is out of our hands, and gone if nobody ended it
        self._move(_S.INITIALIZING)
        outcome = TransactionalResult("init_transactions")
        self._queue.add(Kind.INIT_PRODUCER_ID, outcome)
        return outcome

    def _start_preparing(self) -> TransactionalResult:
        self._raise_if_failed()
        self._must_be(_S.IN_TRANSACTION, "prepare_transaction")
        self._move(_S.PREPARING)
        self._enqueue_new_partitions()
        outcome = TransactionalResult("prepare_transaction")
        self._queue.add(Kind.PREPARE, outcome)
        return outcome

    def _start_ending(self, *, commit: bool) -> TransactionalResult:
        operation = "commit_transaction" if commit else "abort_transaction"
        if commit or self.state is not _S.ABORTABLE_ERROR:
            self._raise_if_failed()
            self._must_be(_S.IN_TRANSACTION, operation, or_prepared=True)
        self._move(_S.COMMITTING if commit else _S.ABORTING)
        if not commit:
            self._new.clear()
        self._enqueue_new_partitions()
        outcome = TransactionalResult(operation)
        pending = self._queue.add(Kind.END, outcome)
        pending.commit = commit
        return outcome

    def _check_may_add(self, partition: TopicPartition) -> None:
        self._raise_if_failed()
        self._no_unfinished_call("send")
        if not self.has_identity:
            raise TransactionMisuse(f"a record for {partition} before init_transactions")
        if self.state is not _S.IN_TRANSACTION:
            raise TransactionMisuse(f"a record for {partition} in state '{self.state.value}', outside a transaction")

    # --- requests, inside --------------------------------------------------------------------------------------------

    def _enqueue_new_partitions(self) -> None:
        if not self._new:
            return
        found: set[TopicPartition] = set()
        while self._new:  # popped one by one: the caller's thread may be adding to this very set
            found.add(self._new.pop())
        self._adding |= found
        self._queue.add(Kind.ADD_PARTITIONS, TransactionalResult("add partitions")).partitions = found

    def _read_answer(self, pending: PendingRequest, response: Any) -> Verdict:
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

    def _apply(self, pending: PendingRequest, verdict: Verdict, now_ms: float) -> None:
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

    def _succeeded(self, pending: PendingRequest, response: Any) -> None:
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

    def _transaction_ended(self, outcome: TransactionalResult) -> None:
        was_v2, self.is_v2 = self.is_v2, self._finalized_version >= 2
        if self.is_v2 and not was_v2:
            # The cluster was upgraded meanwhile: the first transaction of the new kind starts with its own epoch.
            self._bump_required = True
        bump = self._bump_required or self.identity is None
        self._forget_transaction()
        self._move(_S.INITIALIZING if bump else _S.READY)
        if bump:
            self._queue.add(Kind.BUMP_EPOCH, outcome)
        else:
            outcome.succeed()

    def _forget_transaction(self) -> None:
        self._bump_required = self._started = False
        self._new.clear()
        self._adding.clear()
        self._added.clear()

    def _identified(self, kind: Kind, identity: ProducerIdentity) -> None:
        self._move(_S.READY)
        self.identity = identity
        if self.is_transactional:
            self._sequences.reset_all()
        if kind is Kind.INIT_PRODUCER_ID:
            self.is_v2 = self.is_transactional and self._finalized_version >= 2
        self._rewrite_sequences(self._to_rewrite, identity)

    # --- idempotence -------------------------------------------------------------------------------------------------

    def _ensure_idempotent_identity(self, now_ms: float) -> None:
        if self.is_transactional:
            return
        if self._to_rewrite and self.identity is not None:
            self._bump_idempotent_epoch(self.identity)
        if self.identity is None and self.state is _S.UNINITIALIZED and now_ms >= self._retry_identity_ms:
            self._move(_S.INITIALIZING)
            self._queue.add(Kind.INIT_PRODUCER_ID, TransactionalResult("init producer id"))

    # --- errors and moves --------------------------------------------------------------------------------------------

    def _restart_epoch(self, now_ms: float) -> AbortBatches:
        error = self._known_error()
        self._queue.fail_waiting(error)
        if self._call is not None:
            self._call[0].fail(error)
        self._move(_S.UNINITIALIZED)
        self._retry_identity_ms = now_ms + self._backoff_ms
        return AbortBatches(error, only_unsent=False)
