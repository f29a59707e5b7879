"""The transaction coordinator of one partition of __transaction_state: calls in, effects out.

Its state is one TransactionMetadata per transactional id, exactly what a replay of the log produces. Soft state, which
a change of coordinator loses: how far the markers of decided transactions are, and which epoch a repeated
InitProducerId may name.

1. A transaction has one decision. It is in the log, committed, before the client or any partition hears of it.
2. Every change of state checks producer id and epoch; a fenced producer changes nothing.
3. A positive answer waits until all it rests on is committed. Where nothing has to be written, that is a Write without
   records: reply when everything appended so far is committed. Without it, a partition that a client believes is part
   of its transaction could be forgotten with the coordinator, and its records would never get a marker.
4. Effects after a Write in the same list count only when that Write is committed (see markers.py).
5. No request waits in here: each is answered in its own call, at once or by a Write.
6. Limits: ottla.transactional.ids.max ids, ottla.transaction.partitions.max partitions per transaction, SCAN_LIMIT
   aborts or tombstones per timer; what is left over is done SCAN_PAUSE_MS later, when other work had its turn.

Timers: TIME_OUTS and EXPIRY check all ids at Kafka's intervals, (ABORT, id) aborts a transaction that timed out,
(MARKERS, id) asks again for markers that failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final

from ottla.broker.coordinators.effects import (
    CancelTimer,
    Reply,
    SetTimer,
    StoredRecord,
    Token,
    Write,
)
from ottla.broker.coordinators.transactions import txn_responses
from ottla.broker.coordinators.transactions.adding import Adding
from ottla.broker.coordinators.transactions.ending import AlreadyEnded, Ending, end, fence
from ottla.broker.coordinators.transactions.initialising import (
    FenceFirst,
    Initialised,
    initialise,
    new_metadata,
    timeout_ms_of,
)
from ottla.broker.coordinators.transactions.markers import (
    DropMarkers,
    MarkerBook,
    MarkerOutcome,
    MarkerProgress,
    TransactionEffect,
    WriteMarkers,
    outcome_of,
)
from ottla.broker.coordinators.transactions.settings import TransactionSettings
from ottla.broker.coordinators.transactions.state import (
    EPOCH_BUMP_SINCE,
    NO_PRODUCER_EPOCH,
    TransactionMetadata,
    tombstone,
)
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    NONE,
    BrokerError,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidRequest,
)
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue
from ottla.values import TopicPartition

TIME_OUTS: Final = "time-outs"
EXPIRY: Final = "expiry"
MARKERS: Final = "markers"
ABORT: Final = "abort"
SCAN_LIMIT: Final = 500
SCAN_PAUSE_MS: Final = 100

# From this version on EndTxn comes from a client of the second version of transactions.
END_RAISES_EPOCH_SINCE: Final = 5

Effects = list[TransactionEffect]

log = logging.getLogger(__name__)


class TransactionShard:
    """`transaction_version` is the finalized level of that feature; the owner sets it when it changes."""

    def __init__(
        self,
        settings: TransactionSettings,
        *,
        coordinator_epoch: int,
        next_producer_id: Callable[[], int],
        transaction_version: int = EPOCH_BUMP_SINCE,
    ) -> None:
        self._settings = settings
        self._next_producer_id = next_producer_id
        self.transaction_version = transaction_version
        # In the order of their last change, so that the first idle one was idle longest.
        self._transactions: dict[str, TransactionMetadata] = {}
        self._markers = MarkerBook(coordinator_epoch)
        self._last_epochs: dict[str, int] = {}

    @property
    def transactions(self) -> Mapping[str, TransactionMetadata]:
        """Everything replayed from the log, read-only."""
        return MappingProxyType(self._transactions)

    # --- the log -----------------------------------------------------------------------------------------------------

    def replay(self, record: StoredRecord, *, offset: int, producer_id: int = -1, producer_epoch: int = -1) -> None:
        if not isinstance(record.key, TransactionLogKey):
            raise TypeError(f"the transaction log has no {type(record.key).__name__}; offset {offset}")
        name = record.key.transactional_id
        self._transactions.pop(name, None)
        self._markers.forget(name)
        if record.value is None:
            self._last_epochs.pop(name, None)
            return
        if not isinstance(record.value, TransactionLogValue):
            raise TypeError(f"the transaction log has no {type(record.value).__name__}; offset {offset}")
        metadata = self._transactions[name] = TransactionMetadata.from_record(name, record.value)
        if metadata.is_prepared:
            self._markers.decided(metadata)

    def replay_end_of_transaction(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """The coordinator's own log is not written in transactions; a marker in it means nothing."""

    def loaded(self, now_ms: int) -> Sequence[Effects]:
        """What the former coordinator had decided and not completed is completed now."""
        effects: Effects = []
        for progress in self._markers:
            effects += self._markers.reorder(progress, frozenset(progress.remaining))
        effects += self._complete_finished(now_ms)
        return [[*effects, *self._next_scan(TIME_OUTS, now_ms), *self._next_scan(EXPIRY, now_ms)]]

    def unload(self) -> Effects:
        effects: Effects = [CancelTimer(TIME_OUTS), CancelTimer(EXPIRY)]
        for progress in self._markers:
            effects += _dropped(progress)
        return effects

    # --- InitProducerId ----------------------------------------------------------------------------------------------

    def init_producer_id(
        self, token: Token, request: InitProducerIdRequest, context: RequestContext, now_ms: int
    ) -> Effects:
        """For a request with a transactional id; without one see producer_ids.answer_without_transactional_id."""

        def refused(error: BrokerError) -> tuple[Reply, ...]:
            return (Reply(token, txn_responses.init_refused(error, context.api_version)),)

        try:
            return self._init(token, request, now_ms, refused)
        except BrokerError as error:
            return [*refused(error)]

    def _init(
        self,
        token: Token,
        request: InitProducerIdRequest,
        now_ms: int,
        refused: Callable[[BrokerError], tuple[Reply, ...]],
    ) -> Effects:
        timeout_ms = timeout_ms_of(request, self._settings)
        name = request.transactional_id or ""
        metadata = self._transactions.get(name)
        if metadata is None:
            evicted = self._make_room()
            became = new_metadata(request, timeout_ms, now_ms, self._next_producer_id)
            return self._initialised(token, became, evicted, refused)
        decided = initialise(
            metadata,
            request,
            last_epoch=self._last_epochs.get(name, NO_PRODUCER_EPOCH),
            timeout_ms=timeout_ms,
            now_ms=now_ms,
            next_producer_id=self._next_producer_id,
        )
        if isinstance(decided, FenceFirst):
            replies = refused(ConcurrentTransactions(f"the open transaction of {name!r} is aborted first"))
            return self._abort_and_fence(metadata, replies, refused, now_ms)
        return self._initialised(token, decided, (), refused)

    def _initialised(
        self,
        token: Token,
        became: Initialised,
        evicted: tuple[StoredRecord, ...],
        refused: Callable[[BrokerError], tuple[Reply, ...]],
    ) -> Effects:
        metadata = became.metadata
        self._remember_last_epoch(metadata.transactional_id, became.last_epoch)
        answer = InitProducerIdResponse(
            error_code=NONE, producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch
        )
        return [self._write((*evicted, self._record(metadata)), (Reply(token, answer),), refused)]

    def _remember_last_epoch(self, name: str, last_epoch: int) -> None:
        # Before the record is written: should that fail, this is an epoch that is current, and no retry of it harms.
        if last_epoch == NO_PRODUCER_EPOCH:
            self._last_epochs.pop(name, None)
        else:
            self._last_epochs[name] = last_epoch

    def _make_room(self) -> tuple[StoredRecord, ...]:
        """The tombstone of the id that has to go so that a new one fits."""
        if len(self._transactions) < self._settings.ottla_transactional_ids_max:
            return ()
        oldest = next((name for name, each in self._transactions.items() if each.is_idle), None)
        if oldest is None:
            raise CoordinatorNotAvailable(
                f"all {len(self._transactions)} transactional ids of this partition have open transactions; "
                "try later or raise ottla.transactional.ids.max"
            )
        log.warning("%r is forgotten before it expired: ottla.transactional.ids.max is reached", oldest)
        return (tombstone(oldest),)

    # --- AddPartitionsToTxn, AddOffsetsToTxn -------------------------------------------------------------------------

    def add_partitions_to_txn(
        self, token: Token, request: AddPartitionsToTxnRequest, context: RequestContext, now_ms: int
    ) -> Effects:
        """All transactions of the request must belong to this shard. Whether the partitions exist, and whether the
        client may write to them, has been checked by the handler."""
        version = context.api_version
        staged: dict[str, TransactionMetadata] = {}
        codes_by_id = [
            (each.transactional_id, self._adding(now_ms).codes(each, version, staged))
            for each in txn_responses.transactions_of(request, version)
        ]

        def failed(error: BrokerError) -> tuple[Reply, ...]:
            refused = txn_responses.failed_codes(codes_by_id, txn_responses.append_error(error).code)
            return (Reply(token, txn_responses.add_response(refused, version)),)

        reply = Reply(token, txn_responses.add_response(codes_by_id, version))
        if not staged and not any(code == NONE for _, codes in codes_by_id for code in codes.values()):
            return [reply]
        return [Write(tuple(map(self._record, staged.values())), (reply,), failed)]

    def add_offsets_to_txn(
        self,
        token: Token,
        request: AddOffsetsToTxnRequest,
        context: RequestContext,
        now_ms: int,
        offsets_partition: TopicPartition,
    ) -> Effects:
        """`offsets_partition` is the partition of __consumer_offsets that has the group of the request."""

        def refused(error: BrokerError) -> tuple[Reply, ...]:
            return (
                Reply(token, AddOffsetsToTxnResponse(error_code=txn_responses.code_of(error, context.api_version))),
            )

        try:
            added = self._adding(now_ms).offsets(request, context.api_version, offsets_partition)
        except BrokerError as error:
            return [*refused(error)]
        records = () if added is None else (self._record(added),)
        return [self._write(records, (Reply(token, AddOffsetsToTxnResponse(error_code=NONE)),), refused)]

    def _adding(self, now_ms: int) -> Adding:
        return Adding(self._transactions, self._settings.ottla_transaction_partitions_max, now_ms)

    # --- EndTxn ------------------------------------------------------------------------------------------------------

    def end_txn(self, token: Token, request: EndTxnRequest, context: RequestContext, now_ms: int) -> Effects:
        def refused(error: BrokerError) -> tuple[Reply, ...]:
            return (Reply(token, txn_responses.end_refused(error, context.api_version)),)

        raises_epoch = context.api_version >= END_RAISES_EPOCH_SINCE
        ending = Ending(
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            commit=request.committed,
            client_version=EPOCH_BUMP_SINCE if raises_epoch else 0,
            now_ms=now_ms,
            next_producer_id=self._next_producer_id,
        )
        try:
            metadata = self._ending_one(request.transactional_id)
            decided = end(metadata, ending)
        except BrokerError as error:
            return [*refused(error)]
        if isinstance(decided, AlreadyEnded):
            return [self._write((), (Reply(token, _ended(metadata, raises_epoch)),), refused)]
        if raises_epoch:
            self._remember_last_epoch(metadata.transactional_id, metadata.producer_epoch)
        # What the producer goes on with is what it will be when the markers are written.
        answer = _ended(decided.prepared.completed(now_ms), raises_epoch)
        return self._decide(decided.prepared, (Reply(token, answer),), refused, now_ms)

    def _ending_one(self, name: str) -> TransactionMetadata:
        if not name:
            raise InvalidRequest("the transactional id is empty")
        metadata = self._transactions.get(name)
        if metadata is None:
            raise InvalidProducerIdMapping(f"the coordinator does not know {name!r}")
        return metadata

    def _abort_and_fence(
        self,
        metadata: TransactionMetadata,
        replies: tuple[Reply, ...],
        refused: Callable[[BrokerError], tuple[Reply, ...]],
        now_ms: int,
    ) -> Effects:
        prepared = fence(
            metadata,
            transaction_version=self.transaction_version,
            now_ms=now_ms,
            next_producer_id=self._next_producer_id,
        )
        raises_epoch = prepared.client_version >= EPOCH_BUMP_SINCE
        last_epoch = metadata.producer_epoch if raises_epoch else NO_PRODUCER_EPOCH
        self._remember_last_epoch(metadata.transactional_id, last_epoch)
        return self._decide(prepared, replies, refused, now_ms)

    def _decide(
        self,
        prepared: TransactionMetadata,
        replies: tuple[Reply, ...],
        refused: Callable[[BrokerError], tuple[Reply, ...]],
        now_ms: int,
    ) -> Effects:
        """Write the decision, then the markers; a transaction without partitions is complete at once."""
        records = (self._record(prepared),)
        if not prepared.partitions:
            return [self._write((*records, self._record(prepared.completed(now_ms))), replies, refused)]
        return [self._write(records, replies, refused), self._markers.order(prepared)]

    # --- markers -----------------------------------------------------------------------------------------------------

    def markers_written(
        self, markers: WriteMarkers, partition: TopicPartition, error: BrokerError | None, now_ms: int
    ) -> Effects:
        """One partition of `markers` has its marker or does not exist any more, or it failed with `error`."""
        progress = self._markers.waiting_for(markers)
        if progress is None:
            return []
        outcome = outcome_of(error)
        if outcome is MarkerOutcome.DONE:
            progress.written(partition)
            return self._complete(progress, now_ms) if progress.is_done else []
        if outcome is MarkerOutcome.STOP:
            log.warning("no more markers from here, another coordinator is at work: %s; %s", error, markers)
            progress.is_stopped = True
            return _dropped(progress)
        if outcome is MarkerOutcome.UNEXPECTED:
            log.error("the marker for %s failed and is tried again: %s; %s", partition, error, markers)
        wait_ms = progress.next_retry_ms(partition, outcome)
        return [] if wait_ms is None else [SetTimer((MARKERS, markers.transactional_id), now_ms + wait_ms)]

    def _complete(self, progress: MarkerProgress, now_ms: int) -> Effects:
        completed = self._record(progress.metadata.completed(now_ms))
        return [
            CancelTimer((MARKERS, progress.metadata.transactional_id)),
            self._write((completed,), (), _nobody_waits),
        ]

    def _complete_finished(self, now_ms: int) -> Effects:
        """Those whose markers are all written and whose last record could not be."""
        return [effect for each in self._markers if each.is_done for effect in self._complete(each, now_ms)]

    # --- timers ------------------------------------------------------------------------------------------------------

    def timer_fired(self, key: Hashable, now_ms: int) -> Effects:
        if key == TIME_OUTS:
            return [*self._complete_finished(now_ms), *self._find_timed_out(now_ms)]
        if key == EXPIRY:
            return self._forget_expired(now_ms)
        if not isinstance(key, tuple) or key[0] not in (MARKERS, ABORT):
            raise ValueError(f"no timer of a transaction coordinator: {key!r}")
        if key[0] == ABORT:
            return self._abort_timed_out(key[1], now_ms)
        progress = self._markers.get(key[1])
        return [] if progress is None else [*self._markers.reorder(progress, progress.pop_failed())]

    def _find_timed_out(self, now_ms: int) -> Effects:
        # Each is aborted in a call of its own: markers count only when every Write before them in their list is
        # committed, and the abort of one must not hang on the abort of another.
        timed_out = (name for name, each in self._transactions.items() if each.is_timed_out(now_ms))
        chosen = list(islice(timed_out, SCAN_LIMIT))
        effects: Effects = [SetTimer((ABORT, name), now_ms) for name in chosen]
        return [*effects, *self._next_scan(TIME_OUTS, now_ms, is_full=len(chosen) == SCAN_LIMIT)]

    def _abort_timed_out(self, name: str, now_ms: int) -> Effects:
        metadata = self._transactions.get(name)
        if metadata is None or not metadata.is_timed_out(now_ms):
            return []
        log.info("%r timed out after %d ms and is aborted", name, metadata.timeout_ms)
        try:
            return self._abort_and_fence(metadata, (), _nobody_waits, now_ms)
        except BrokerError as error:
            log.info("the abort of %r waits for the next look: %s", name, error)
            return []

    def _forget_expired(self, now_ms: int) -> Effects:
        border_ms = now_ms - self._settings.transactional_id_expiration_ms
        expired = (
            name for name, each in self._transactions.items() if each.is_idle and each.last_update_ms <= border_ms
        )
        chosen = list(islice(expired, SCAN_LIMIT))
        effects: Effects = [self._write(tuple(map(tombstone, chosen)), (), _nobody_waits)] if chosen else []
        return [*effects, *self._next_scan(EXPIRY, now_ms, is_full=len(chosen) == SCAN_LIMIT)]

    def _next_scan(self, key: str, now_ms: int, *, is_full: bool = False) -> Effects:
        if is_full:
            return [SetTimer(key, now_ms + SCAN_PAUSE_MS)]
        settings = self._settings
        if key == TIME_OUTS:
            return [SetTimer(key, now_ms + settings.transaction_abort_timed_out_transaction_cleanup_interval_ms)]
        return [SetTimer(key, now_ms + settings.transaction_remove_expired_transaction_cleanup_interval_ms)]

    # --- looking -----------------------------------------------------------------------------------------------------

    def describe_transactions(
        self, token: Token, request: DescribeTransactionsRequest, context: RequestContext, now_ms: int
    ) -> Effects:
        """All ids of the request must belong to this shard."""
        states = []
        for name in request.transactional_ids:
            metadata = self._transactions.get(name)
            partitions = metadata.partitions if metadata else frozenset()
            progress = self._markers.get(name)
            states.append(txn_responses.described(name, metadata, progress.remaining if progress else partitions))
        return [Reply(token, DescribeTransactionsResponse(transaction_states=states))]

    def list_transactions(
        self,
        token: Token,
        request: ListTransactionsRequest,
        context: RequestContext,
        now_ms: int,
    ) -> Effects:
        """This shard's part of the answer; the request's pattern is for those that its sender may describe."""
        return [Reply(token, txn_responses.listed(self._transactions.values(), request, now_ms))]

    # --- records -----------------------------------------------------------------------------------------------------

    def _record(self, metadata: TransactionMetadata) -> StoredRecord:
        return metadata.record(self.transaction_version)

    def _write(
        self,
        records: tuple[StoredRecord, ...],
        replies: tuple[Reply, ...],
        refused: Callable[[BrokerError], tuple[Reply, ...]],
    ) -> Write:
        return Write(records, replies, lambda error: refused(txn_responses.append_error(error)))


def _nobody_waits(error: BrokerError) -> tuple[Reply, ...]:
    """The record stays unwritten; the next check of all ids finds that and tries again."""
    log.warning("the transaction log could not be written: %s", error)
    return ()


def _dropped(progress: MarkerProgress) -> Effects:
    name = progress.metadata.transactional_id
    return [CancelTimer((MARKERS, name)), DropMarkers(name, progress.generation)]


def _ended(metadata: TransactionMetadata, raises_epoch: bool) -> EndTxnResponse:
    if not raises_epoch:
        return EndTxnResponse(error_code=NONE)
    return EndTxnResponse(error_code=NONE, producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch)
