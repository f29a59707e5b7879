"""Batches on their way: which may go, how they are numbered, and what a broker's refusal means for the producer.

The half of transactions.py that has to do with records. The rules about numbers are in sequences.py; here they meet the
producer: where a gap cannot be closed an idempotent producer bumps its epoch by itself (KIP-360) and numbers again
what is on its way; a transactional one aborts, and the epoch is bumped when the transaction ends.

A refusal says something about one attempt only: an earlier one, whose answer was lost, may be in the log. Then what
follows keeps its numbers until the broker's answers tell; to number it again could write it twice.

An error that leaves a batch without its records in the log is fatal (FATAL_FOR_BATCHES) or aborts the transaction. A
retriable one whose retries ran out aborts, too: committing without those records would be a lie.
"""

from __future__ import annotations

from typing import Final

from ottla.client.producer.sending.sequences import NO_OFFSET, PartitionSequences, Retry, Sequences, Stamp
from ottla.client.producer.transactions.life import TransactionLife
from ottla.client.producer.transactions.states import ProducerIdentity, RecordsUnaccounted, TransactionState
from ottla.errors import (
    ClusterAuthorizationFailed,
    ConcurrentTransactions,
    CorruptMessage,
    IllegalMove,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NotEnoughReplicas,
    OttlaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    UnsupportedVersion,
)
from ottla.values import TopicPartition

LAST_EPOCH: Final = 2**15 - 1
BUMP_VERSION: Final = 3
"""The first version of InitProducerId that can bump the epoch of a producer that is alive."""

FATAL_FOR_BATCHES: Final = (
    ClusterAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    ProducerFenced,
    UnsupportedVersion,
    InvalidProducerIdMapping,
)

NOT_WRITTEN: Final = (NotEnoughReplicas, ConcurrentTransactions, CorruptMessage)
"""Retriable errors of an attempt that certainly left nothing in the log. Of the others nobody knows: a leader that
moved or a connection that broke may have taken the batch first."""

_S = TransactionState


class NumberedBatches(TransactionLife):
    """Driven by the sender: drain, acknowledge, retry, give up."""

    def __init__(self, transactional_id: str | None) -> None:
        super().__init__(transactional_id)
        self.is_v2 = False
        self._sequences = Sequences()
        self._to_rewrite: set[TopicPartition] = set()
        self._bump_required = False
        self._can_bump = True
        self._added: set[TopicPartition] = set()
        self._started = False  # the coordinator may know of the transaction, so it must hear of its end

    def coordinator_ready(self, init_producer_id_version: int) -> None:
        """The highest InitProducerId version the transaction coordinator speaks: can it bump epochs?"""
        self._can_bump = init_producer_id_version >= BUMP_VERSION

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

    def sendable(self) -> tuple[ProducerIdentity | None, set[TopicPartition] | None]:
        """Under which identity batches may go, None for not at all; and of which partitions, None for all."""
        if self.state is _S.FATAL_ERROR:
            return None, None
        return self.identity, None if self.transactional_id is None else self._added

    def numbers_of(self, partition: TopicPartition) -> PartitionSequences:
        """The numbers of a partition, made on first use."""
        return self._sequences.of(partition)

    def stamp(self, partition: TopicPartition, record_count: int) -> Stamp:
        """Number a batch that is drained for the first time; ask may_drain first."""
        if self.identity is None:
            raise IllegalMove("a batch was stamped before the producer had an identity", story=self._story)
        self.stamping()
        return self._sequences.of(partition).stamp(self.identity, record_count)

    def stamping(self) -> None:
        """Batches are about to get numbers."""
        # Not when the record was given to us: a coordinator that is still busy with the transaction before takes the
        # end of one that nobody began for the word of a producer that was replaced.
        self._started = self._started or self.is_v2

    def in_flight_count(self, partition: TopicPartition) -> int:
        """Batches with a stamp that are neither acknowledged nor given up."""
        return len(self._sequences.of(partition).in_flight)

    def split(self, partition: TopicPartition, stamp: Stamp, record_counts: list[int]) -> list[Stamp]:
        """The batch was too large: its parts take over its numbers, in order."""
        return self._sequences.of(partition).split(stamp, record_counts)

    def batch_acknowledged(self, partition: TopicPartition, stamp: Stamp, base_offset: int = NO_OFFSET) -> None:
        """The broker has the batch (also when it says DUPLICATE_SEQUENCE_NUMBER, then without an offset)."""
        self._sequences.of(partition).acknowledged(stamp, base_offset)

    def is_written(self, partition: TopicPartition, stamp: Stamp, error: OttlaError) -> bool:
        """Whether a batch that was refused with `error` is in the log all the same; nobody knows at which offset."""
        return isinstance(error, OutOfOrderSequenceNumber) and self._sequences.of(partition).is_written(stamp)

    def probe(self, partition: TopicPartition) -> Stamp | None:
        """The batch that goes before all others of its partition, to learn how far the log reaches."""
        return self._sequences.of(partition).probe

    def end_probing(self, partition: TopicPartition) -> None:
        """Another leader is asked about the oldest batch first."""
        self._sequences.of(partition).end_probing()

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
        else:
            self.end_probing(partition)  # perhaps the leader is another one by now
        if error.retriable and not isinstance(error, NOT_WRITTEN):
            stamp.may_be_written = True
        stamp.at_rest = True
        if retry is Retry.AFTER_BUMP:
            self._request_bump(partition, stamp.base_sequence)
        return retry is not Retry.NO or error.retriable

    def batch_failed(
        self, partition: TopicPartition, stamp: Stamp | None, error: OttlaError, *, adjust_sequences: bool
    ) -> None:
        """The batch is given up. `adjust_sequences`: the broker refused this attempt for good (false for time-outs and
        exhausted retries). `stamp` None: it was never drained."""
        self._note_failure(error)
        if stamp is None:
            return
        numbers = self._sequences.of(partition)
        numbers.forget(stamp)
        if self.has_fatal_error:
            return
        if isinstance(error, UnknownProducerId):
            self._sequences.reset(partition)
        elif not adjust_sequences or stamp.may_be_written:
            # What follows keeps its numbers: if the batch arrived they fit, if not the broker will say so.
            self._sequences.mark_unresolved(partition, stamp)
        elif self.is_transactional:
            numbers.close_gap(stamp)
        else:
            self._request_bump(partition, stamp.base_sequence)

    def mark_unresolved(self, partition: TopicPartition, stamp: Stamp) -> None:
        """The batch was sent at least once and expired without an answer. batch_failed says so by itself; to say it
        twice does no harm."""
        self._sequences.mark_unresolved(partition, stamp)

    # --- epochs ------------------------------------------------------------------------------------------------------

    def _bump_idempotent_epoch(self, identity: ProducerIdentity) -> None:
        """Number calm partitions again under the next epoch; the others follow when they are calm."""
        calm = {partition for partition in self._to_rewrite if self._sequences.of(partition).is_calm}
        if not calm:
            return
        if identity.epoch < LAST_EPOCH:
            self.identity = ProducerIdentity(identity.producer_id, identity.epoch + 1)
            self._rewrite_sequences(calm, self.identity)
        elif calm == self._to_rewrite:
            # The numbers are rewritten when the new id is there; until then nothing may be sent.
            self.identity = None
            self._move(_S.UNINITIALIZED)

    def _rewrite_sequences(self, partitions: set[TopicPartition], identity: ProducerIdentity) -> None:
        self._to_rewrite = self._to_rewrite - partitions
        for partition in partitions:
            self._sequences.of(partition).start_over(identity)

    def _request_bump(self, partition: TopicPartition, gap_at: int) -> None:
        self._to_rewrite.add(partition)
        self._sequences.of(partition).found_gap(gap_at)

    def _resolve_sequences(self) -> None:
        for partition in self._sequences.take_lost():
            if self.is_transactional:
                # The error that lost the records says more than the loss.
                first = self.error if self.state is _S.ABORTABLE_ERROR else None
                self._fail_abortable_or_for_good(first or RecordsUnaccounted(str(partition)))
            else:
                self._request_bump(partition, self._sequences.of(partition).next_sequence)

    # --- errors ------------------------------------------------------------------------------------------------------

    def _note_failure(self, error: OttlaError) -> None:
        """A record cannot be sent: what does it mean for the producer?"""
        if isinstance(error, FATAL_FOR_BATCHES):
            self._fail_for_good(error)
            return
        if not self.is_transactional:
            return
        if error.retriable or isinstance(error, InvalidTxnState):
            error = TransactionAbortable(f"a record could not be sent: {error}")
        if self._needs_bump_from_client and (not self.is_completing or self.state is _S.PREPARING):
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
