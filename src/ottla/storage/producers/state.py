"""All producers of one partition: who may append what, and how far a reader of committed records may read.

    batches = read_producer_batches(buffer, infos)
    answer = state.check_append(batches, AppendOrigin.CLIENT)     # raises, or Duplicate, or Accepted
    ... write the batches ...
    state.update(answer)
    for completed in answer.completed:
        ... append to the transaction index: completed, state.last_stable_offset_after(completed) ...
        state.complete(completed)
    state.move_end(next_offset)

1. check_append decides and changes nothing; update() books what it decided, after the write and before the next
   check. The rules are in producer_append.py.
2. A transaction is completed only after the transaction index has it, so that a reader of committed records can
   never pass an aborted transaction that the index does not know.
3. replay() books what is in the log already, on followers and at start-up, with the same code; a state that was
   reloaded from a snapshot and replayed equals the live one, but for older batches of each producer: a snapshot
   has only the last one. `lacks_batches_before` says when they matter; log/batch_history.py reads them from the log.
4. Producers without an open transaction are forgotten when they are silent for `id_expiration_ms`, and from the
   longest silent on when there are more than `id_limit`. A forgotten producer goes on writing; only a batch
   it repeats just then would not be recognised. Those with an open transaction are never forgotten: their
   coordinator bounds their number.
5. `end_offset` is the offset up to which the log is in this state; a snapshot is of that offset.
6. Owned by its log, touched by nobody else. No clock and no file; snapshots are in producer_snapshot.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ottla.errors import InvalidProducerEpoch
from ottla.records.checks import PlacedBatch
from ottla.records.implementation import BatchInfo
from ottla.records.layout import NO_PRODUCER_ID
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.producers.check import Accepted, Duplicate, ProducerCheck, Verification, VerificationGuard
from ottla.storage.producers.entry import BATCHES_KEPT, SEQUENCES, BatchMetadata, ProducerBatch, ProducerEntry
from ottla.storage.producers.open_transactions import CompletedTransaction, OpenTransactions

ID_EXPIRATION_MS = 24 * 60 * 60 * 1000
ID_LIMIT = 100_000
# A transaction is late when its time-out and this much more have passed: clocks differ and markers take time.
LATE_TRANSACTION_GRACE_MS = 5 * 60 * 1000


class ProducerState:
    """What one partition knows of its producers."""

    def __init__(
        self,
        *,
        start_offset: int = 0,
        id_expiration_ms: int = ID_EXPIRATION_MS,
        id_limit: int = ID_LIMIT,
        verification_required: bool = True,
    ) -> None:
        self.id_expiration_ms = id_expiration_ms
        self.id_limit = id_limit
        self.verification_required = verification_required
        self.end_offset = start_offset
        self.snapshot_offset = start_offset
        # Entries may come from a snapshot of this offset, which has only the newest batch of each.
        self._reloaded_offset = start_offset
        # Producers whose earlier batches were looked for in the log: there are no more than are known.
        self._recalled: set[int] = set()
        # In order of the last append, the longest silent first.
        self._entries: OrderedDict[int, ProducerEntry] = OrderedDict()
        self._open_count = 0
        self._transactions = OpenTransactions()
        self._verifications: OrderedDict[int, Verification] = OrderedDict()

    # ---- what is known ----

    @property
    def entries(self) -> Mapping[int, ProducerEntry]:
        """All producers by id, the longest silent first; open transactions go to the back when the limit is met."""
        return MappingProxyType(self._entries)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first record of the oldest transaction that is open, or ended above the high watermark."""
        return self._transactions.first_unstable_offset

    @property
    def first_undecided_offset(self) -> int | None:
        """The first record of the oldest transaction that is open."""
        return self._transactions.first_undecided_offset

    @property
    def oldest_open_producer(self) -> int | None:
        """Whose open transaction began first, and so holds back the last stable offset."""
        return self._transactions.oldest_producer_id

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where a reader of committed records may read."""
        unstable = self._transactions.first_unstable_offset
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """What the transaction index stores with a completed transaction; ask before complete()."""
        return self._transactions.last_stable_offset_after(completed)

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        """This producer, in this epoch, has an open transaction here."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset is not None and entry.epoch == epoch

    def has_late_transaction(self, now_ms: int, transaction_timeout_max_ms: int) -> bool:
        """The oldest open transaction is silent for longer than any time-out allows: its coordinator forgot it."""
        producer_id = self._transactions.oldest_producer_id
        entry = None if producer_id is None else self._entries.get(producer_id)
        if entry is None or entry.last_timestamp_ms <= 0:
            return False
        return now_ms - entry.last_timestamp_ms > transaction_timeout_max_ms + LATE_TRANSACTION_GRACE_MS

    # ---- questions to the coordinator about transactions ----

    def take_verifications(self, other: ProducerState) -> None:
        """Go on with what the other one has asked: its log lies here now."""
        self._verifications = other._verifications

    def needs_verification(self, producer_id: int, epoch: int) -> bool:
        """The coordinator must be asked before a transactional batch of this producer may be appended."""
        return self.verification_required and not self.has_ongoing_transaction(producer_id, epoch)

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, raises_epoch: bool, now_ms: int
    ) -> VerificationGuard | None:
        """The guard to bring along with the append when the coordinator has agreed; None when it need not be asked.

        `raises_epoch` says that the producer raises its epoch with every transaction.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id} has epoch {epoch}, epoch {entry.epoch} was seen")
        if not self.needs_verification(producer_id, epoch):
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = Verification(sequence, epoch, raises_epoch=raises_epoch, started_ms=now_ms)
            self._verifications[producer_id] = verification
            if len(self._verifications) > self.id_limit:
                # The first to ask waited longest; without its guard its append is refused, and it asks again.
                self._verifications.popitem(last=False)
        verification.lower(sequence, epoch)
        return verification.guard

    # ---- appends ----

    def check_append(
        self,
        batches: Sequence[ProducerBatch],
        origin: AppendOrigin,
        *,
        guard: VerificationGuard | None = None,
        transaction_version: int | None = None,
    ) -> Duplicate | Accepted:
        """Whether the batches of one append may be written, and what the state is then."""
        if origin is AppendOrigin.CLIENT:
            decided = self.find_duplicate(batches) or (self.check_run(batches) if len(batches) == 1 else None)
            if decided is not None:
                return decided
        elif origin is AppendOrigin.REPLICATION and batches and (going_on := self.check_run(batches)) is not None:
            return going_on
        return self._accept(batches, origin, guard, transaction_version)

    def find_duplicate(self, batches: Sequence[ProducerBatch]) -> Duplicate | None:
        """Where the first of these batches is that was appended before."""
        for batch in batches:
            entry = self._entries.get(batch.producer_id)
            known = None if entry is None else entry.find_duplicate(batch)
            if known is not None:
                return Duplicate(known)
        return None

    def lacks_batches_before(self, batch: ProducerBatch) -> ProducerEntry | None:
        """The producer of this batch, when the batch may repeat one that is in the log and that a snapshot left out."""
        entry = self._entries.get(batch.producer_id)
        if entry is None or not entry.batches or entry.epoch != batch.epoch or batch.is_control:
            return None
        oldest = entry.batches[0]
        if oldest.last_offset >= self._reloaded_offset or len(entry.batches) >= BATCHES_KEPT:
            return None
        is_before = 0 < (oldest.first_sequence - batch.first_sequence) % SEQUENCES < SEQUENCES // 2
        return entry if is_before and batch.producer_id not in self._recalled else None

    def recalled(self, entry: ProducerEntry, earlier: tuple[BatchMetadata, ...]) -> None:
        """These batches of the producer are in the log before those that are known; there are no others to be found."""
        self._entries[entry.producer_id] = entry._replace(batches=(*earlier, *entry.batches)[-BATCHES_KEPT:])
        self._recalled.add(entry.producer_id)

    def check_run(self, batches: Sequence[ProducerBatch]) -> Accepted | None:
        """What nearly all batches do: go on where their producer was, one after the other. None: decide step by step.

        A batch that goes on repeats none, so a caller that gets an answer need not search for duplicates.
        """
        producer_id = batches[0].producer_id
        entry = self._entries.get(producer_id)
        if entry is None or not entry.batches or producer_id in self._verifications:
            return None
        for batch in batches:
            if batch.producer_id != producer_id or batch.epoch != entry.epoch or batch.is_control:
                return None
            if batch.first_sequence != (entry.batches[-1].last_sequence + 1) % SEQUENCES:
                return None
            if batch.is_transactional is (entry.transaction_first_offset is None):
                return None
            entry = entry.with_batch(batch)
        return Accepted({producer_id: entry}, [], [], set())

    def entries_after(self, batches: Sequence[PlacedBatch | BatchInfo]) -> list[ProducerEntry] | None:
        """`check_run` for batches that have their places, of any number of producers and of none: what `went_on` is
        told when they are written. None when one of them does not simply go on; a marker has no sequence, so nobody
        goes on with one.

        Every append of idempotent producers comes here, so nothing is made on the way that is not kept.
        """
        histories: dict[int, list[BatchMetadata]] = {}
        entries, verifications = self._entries, self._verifications
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id == NO_PRODUCER_ID:
                continue
            entry = entries.get(producer_id)
            if entry is None or not entry.batches or producer_id in verifications:
                return None
            if batch.producer_epoch != entry.epoch or batch.is_transactional is (
                entry.transaction_first_offset is None
            ):
                return None
            history = histories.pop(
                producer_id, None
            )  # it goes behind the others: they are in order of the last append
            if history is None:
                history = [*entry.batches]
            if batch.base_sequence != (history[-1].last_sequence + 1) % SEQUENCES:
                return None
            last_offset = batch.last_offset
            history.append(
                BatchMetadata(batch.last_sequence, last_offset, last_offset - batch.base_offset, batch.max_timestamp_ms)
            )
            histories[producer_id] = history
        return [entries[producer_id].with_history(history) for producer_id, history in histories.items()]

    def went_on(self, after: Sequence[ProducerEntry]) -> None:
        """The batches that led to these entries (`entries_after`) are written; no transaction began or ended."""
        entries = self._entries
        for entry in after:
            producer_id = entry[0]
            entries[producer_id] = entry
            entries.move_to_end(producer_id)

    def update(self, accepted: Accepted) -> None:
        """The batches are written."""
        for entry in accepted.entries.values():
            self._set(entry)
        for first_offset, producer_id in accepted.started:
            self._transactions.start(first_offset, producer_id)
        for producer_id in accepted.verified:
            self._verifications.pop(producer_id, None)
        if len(self._entries) > self.id_limit:
            self._keep_limit()

    def complete(self, completed: CompletedTransaction) -> None:
        """The transaction index has it."""
        self._transactions.complete(completed)

    def move_end(self, next_offset: int) -> None:
        """The log now ends here."""
        self.end_offset = next_offset

    def replay(self, batches: Sequence[ProducerBatch], next_offset: int) -> None:
        """Book batches that are in the log, and whose aborted transactions the transaction index has."""
        accepted = self._accept(batches, AppendOrigin.REPLICATION, None, None)
        self.update(accepted)
        for completed in accepted.completed:
            self.complete(completed)
        self.move_end(next_offset)

    # ---- time passes, the log is cut ----

    def move_high_watermark(self, high_watermark: int) -> None:
        """Markers below it are replicated."""
        if self._transactions.has_unreplicated:
            self._transactions.forget_before(high_watermark)

    def move_log_start(self, log_start_offset: int, newest_snapshot_offset: int | None) -> None:
        """Records before it are gone; producers are kept, they still write."""
        self._transactions.forget_before(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)
        self.snapshot_offset = log_start_offset if newest_snapshot_offset is None else newest_snapshot_offset

    def remove_expired(self, now_ms: int) -> int:
        """Forget those that were silent too long; returns how many producers."""
        expired = [entry.producer_id for entry in self._entries.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
        asked_until_ms = now_ms - self.id_expiration_ms
        forgotten = [key for key, asked in self._verifications.items() if asked.started_ms <= asked_until_ms]
        for producer_id in forgotten:
            del self._verifications[producer_id]
        return len(expired)

    def clear(self, offset: int) -> None:
        """Forget everything; the log is empty and starts at `offset`."""
        self._entries.clear()
        self._open_count = 0
        self._transactions.clear()
        self.end_offset = self._reloaded_offset = offset
        self.snapshot_offset = 0
        self._recalled.clear()

    def reload(self, entries: Iterable[ProducerEntry], offset: int, now_ms: int) -> None:
        """Be what a snapshot of `offset` says; the log from there on is to be replayed."""
        self.clear(offset)
        self.snapshot_offset = offset
        for entry in entries:
            if entry.transaction_first_offset is not None:
                self._transactions.start(entry.transaction_first_offset, entry.producer_id)
            elif self._is_expired(entry, now_ms):
                continue
            self._set(entry)
        self._keep_limit()

    # ---- inside ----

    def _accept(
        self,
        batches: Sequence[ProducerBatch],
        origin: AppendOrigin,
        guard: VerificationGuard | None,
        transaction_version: int | None,
    ) -> Accepted:
        checks: dict[int, ProducerCheck] = {}
        accepted = Accepted({}, [], [], set())
        for batch in batches:
            check = checks.get(batch.producer_id)
            if check is None:
                check = checks[batch.producer_id] = self._new_check(batch.producer_id, origin)
            check.check_guard(batch, guard, required=self.verification_required)
            _book(check, batch, transaction_version, accepted)
        return accepted

    def _new_check(self, producer_id: int, origin: AppendOrigin) -> ProducerCheck:
        entry = self._entries.get(producer_id) or ProducerEntry(producer_id)
        return ProducerCheck(entry, self._verifications.get(producer_id), origin)

    def _set(self, entry: ProducerEntry) -> None:
        before = self._entries.pop(entry.producer_id, None)
        if before is not None and before.transaction_first_offset is not None:
            self._open_count -= 1
        if entry.transaction_first_offset is not None:
            self._open_count += 1
        self._entries[entry.producer_id] = entry

    def _keep_limit(self) -> None:
        while len(self._entries) > max(self.id_limit, self._open_count):
            producer_id, entry = self._entries.popitem(last=False)
            if entry.transaction_first_offset is not None:
                # Back in line behind the others, so that it is not met again at every append.
                self._entries[producer_id] = entry

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.transaction_first_offset is None and now_ms - entry.last_timestamp_ms >= self.id_expiration_ms


def _book(check: ProducerCheck, batch: ProducerBatch, transaction_version: int | None, accepted: Accepted) -> None:
    """Take one batch into what the state will be."""
    if check.ends_verification(batch):
        accepted.verified.add(batch.producer_id)
    if not batch.is_control:
        if check.add_data(batch):
            accepted.started.append((batch.first_offset, batch.producer_id))
    elif batch.marker is not None:
        completed = check.end_transaction(batch, batch.marker, transaction_version)
        if completed is not None:
            accepted.completed.append(completed)
    else:
        return
    accepted.entries[batch.producer_id] = check.entry
