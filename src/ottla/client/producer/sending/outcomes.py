"""What becomes of a batch when its request has ended: delivered, tried again, split, or given up.

`verdict` decides from the error alone and from what the batch has behind it; the rest of the file carries it out in
queues, sequence numbers, metadata and futures.

1. Every batch of a request gets exactly one verdict, also when the broker forgot to mention it.
2. A batch whose delivery is already told (it expired, it was aborted) is only cleared away: the first word counts.
3. Tried again: errors that may pass, while there is time (delivery.timeout.ms) and tries (retries) are left.
4. MESSAGE_TOO_LARGE of several records: they go on in smaller batches under the same numbers. Of one: it fails.
5. DUPLICATE_SEQUENCE_NUMBER is a success without an offset: the broker has it from an earlier try. So is
   OUT_OF_ORDER_SEQUENCE_NUMBER of a batch that may be written when a later one is (see sequences.py, 7).
6. Errors that say "not here" ask for fresh metadata, or take the new leader from the answer (KIP-951).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from ottla.client.metadata import Metadata
from ottla.client.producer.batches.accumulator import RecordAccumulator
from ottla.client.producer.batches.append_choice import ProducerBatch
from ottla.client.producer.batches.produce_frames import Accepted
from ottla.client.producer.producer_metrics import ProducerMetrics
from ottla.client.producer.sending.failures import Failures
from ottla.client.producer.sending.sender import Send, Sender
from ottla.client.producer.transactions.manager import TransactionManager
from ottla.errors import (
    BrokerError,
    DuplicateSequenceNumber,
    InvalidRecord,
    MessageTooLarge,
    OttlaError,
    RecordListTooLarge,
    UnknownServerError,
    broker_error,
)
from ottla.light_dataclasses import dataclass, field
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from ottla.values import Node, TopicPartition

log = logging.getLogger(__name__)

NO_OFFSET: Final = -1
TOO_LARGE: Final = (MessageTooLarge, RecordListTooLarge)


class BatchOutcome(Enum):
    DELIVERED = "delivered"
    AGAIN = "tried again"
    SPLIT = "split"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the broker said of one batch, or what happened instead."""

    error: OttlaError | None = None
    base_offset: int = NO_OFFSET
    append_time_ms: int = -1
    log_start_offset: int = NO_OFFSET
    record_errors: Mapping[int, OttlaError] = field(default_factory=dict)


class Outcomes:
    """Takes the ends of requests; belongs to the loop."""

    def __init__(
        self,
        sender: Sender,
        failures: Failures,
        metrics: ProducerMetrics,
        *,
        retries: int,
        delivery_limit_ms: float,
        batch_bytes: int,
    ) -> None:
        self._sender = sender
        self._accumulator: RecordAccumulator = sender.accumulator
        self._metadata: Metadata = sender.network.metadata
        self._transactions: TransactionManager | None = sender.transactions
        self._failures = failures
        self._metrics = metrics
        self._retries = retries
        self._delivery_limit_ms = delivery_limit_ms
        self._batch_bytes = batch_bytes
        self._done: list[ProducerBatch] = []  # whose memory goes back when the whole answer is read

    # --- the end of a request ---

    def answered(self, send: Send, response: ProduceResponse, now_ms: float, names: Mapping[bytes, str]) -> None:
        """An answer came: each batch gets the word that is about it. `names` are those of the ids in the request."""
        words = _words_of(response, names)
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        for batch in send.batches:
            name = batch.queue.name
            word = words.pop(name, None)
            if word is None:
                silent = UnknownServerError(f"{send.node} did not mention {name} in its answer")
                self._end(batch, Answer(silent), now_ms)
            elif word.error_code == 0:
                self._sender.drainer.accept((batch,), [(word.base_offset, word.log_append_time_ms)], self._done)
            else:
                self._end(batch, _answer_of(word), now_ms)
                self._mind_leader(name, word, nodes)
        self._clear_away()
        for name in words:
            log.warning("%s answered for %s, which was not in the request", send.node, name)

    def accepted(self, send: Send, accepted: Accepted) -> None:
        """The usual answer: the broker has every batch of the request."""
        self._sender.drainer.accept(send.batches, accepted.places, self._done)
        self._clear_away()

    def not_answered(self, send: Send, error: OttlaError, now_ms: float) -> None:
        """The connection ended or time was over: nobody knows whether the broker has them."""
        self._metadata.request_update()
        for batch in send.batches:
            self._end(batch, Answer(error), now_ms)
        self._clear_away()

    def not_asked(self, send: Send) -> None:
        """acks=0: written is delivered."""
        self._sender.drainer.accept(send.batches, [(NO_OFFSET, -1)] * len(send.batches), self._done)
        self._clear_away()

    def give_up(self, batch: ProducerBatch, error: OttlaError, *, is_unknown: bool) -> None:
        """Fail a batch that waits, or one that is in flight and out of time; the latter keeps its memory."""
        in_flight = batch in self._sender.in_flight
        stamp = batch.stamp
        if self._transactions is not None:
            self._transactions.batch_failed(batch.queue.name, stamp, error, adjust_sequences=False)
            if is_unknown and stamp is not None:
                self._transactions.mark_unresolved(batch.queue.name, stamp)
        self._fail(batch, error, {})
        if in_flight:
            self._accumulator.forget(batch)
        else:
            self._accumulator.finish(batch)

    def _clear_away(self) -> None:
        done, self._done = self._done, []
        self._accumulator.finish(*done)

    # --- one batch ---

    def verdict(self, batch: ProducerBatch, answer: Answer, now_ms: float) -> BatchOutcome:
        """What is to be done with a batch that nobody has been told about."""
        error = answer.error
        if error is None or isinstance(error, DuplicateSequenceNumber):
            return BatchOutcome.DELIVERED
        if self._is_written(batch, error):
            return BatchOutcome.DELIVERED
        if isinstance(error, TOO_LARGE) and batch.record_count > 1:
            return BatchOutcome.SPLIT
        in_time = now_ms - batch.created_ms < self._delivery_limit_ms
        if in_time and batch.attempts < self._retries and self._may_retry(batch, answer, error):
            return BatchOutcome.AGAIN
        return BatchOutcome.FAILED

    def _is_written(self, batch: ProducerBatch, error: OttlaError) -> bool:
        if self._transactions is None or batch.stamp is None:
            return False
        return self._transactions.is_written(batch.queue.name, batch.stamp, error)

    def _may_retry(self, batch: ProducerBatch, answer: Answer, error: OttlaError) -> bool:
        if self._transactions is None or batch.stamp is None:
            return error.retriable
        return self._transactions.can_retry(batch.queue.name, batch.stamp, error, answer.log_start_offset)

    def _end(self, batch: ProducerBatch, answer: Answer, now_ms: float) -> None:
        if not self._sender.drainer.end(batch):
            return
        if batch.delivery.is_done:
            self._done.append(batch)
            return
        match self.verdict(batch, answer, now_ms):
            case BatchOutcome.DELIVERED:
                self._delivered(batch, answer.base_offset, answer.append_time_ms)
            case BatchOutcome.AGAIN:
                self._again(batch, answer, now_ms)
            case BatchOutcome.SPLIT:
                self._split(batch, now_ms)
            case BatchOutcome.FAILED:
                self._failed(batch, answer)

    def _delivered(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        stamp = batch.stamp
        if self._transactions is not None and stamp is not None:
            self._transactions.batch_acknowledged(batch.queue.name, stamp, base_offset)
            batch.queue.proven = stamp.identity
        batch.queue.last_error = None
        batch.delivery.succeed(base_offset, append_time_ms)
        self._done.append(batch)

    def _again(self, batch: ProducerBatch, answer: Answer, now_ms: float) -> None:
        log.debug("%s is tried again after: %s", batch.queue.name, answer.error)
        self._metrics.retried(batch, now_ms)
        self._accumulator.requeue(batch, now_ms)
        batch.queue.last_error = answer.error
        batch.backoff_ms = self._sender.backoff_ms(batch.attempts)
        if answer.error is not None and answer.error.refresh_metadata:
            self._metadata.request_update()

    def _split(self, batch: ProducerBatch, now_ms: float) -> None:
        # Half of what was refused: a batch of batch.size may be too large for the topic, too.
        limit_bytes = max(1, min(self._batch_bytes, batch.uncompressed_bytes // 2 + 61))
        self._accumulator.sizes.refused(batch.delivery.topic, batch.size_bytes)
        parts = self._accumulator.split(batch, limit_bytes, now_ms)
        log.info("a batch of %s was too large and goes on in %d parts", batch.queue.name, len(parts))
        if self._transactions is not None and batch.stamp is not None:
            counts = [part.record_count for part in parts]
            stamps = self._transactions.split(batch.queue.name, batch.stamp, counts)
            for part, stamp in zip(parts, stamps, strict=True):
                part.stamp = stamp
        self._metrics.split(batch, now_ms)
        self._accumulator.put_in_front(batch.queue, parts)
        self._done.append(batch)

    def _failed(self, batch: ProducerBatch, answer: Answer) -> None:
        error = answer.error or UnknownServerError()
        if self._transactions is not None:
            # A broker that refuses for good does not have it; after any other end nobody knows.
            certain = _is_refusal(error) and batch.attempts < self._retries
            self._transactions.batch_failed(batch.queue.name, batch.stamp, error, adjust_sequences=certain)
            if not certain and batch.stamp is not None:
                self._transactions.mark_unresolved(batch.queue.name, batch.stamp)
        self._fail(batch, error, answer.record_errors)
        self._done.append(batch)
        if error.refresh_metadata:
            self._metadata.request_update()

    def _fail(self, batch: ProducerBatch, error: OttlaError, record_errors: Mapping[int, OttlaError]) -> None:
        self._metrics.failed(batch)
        self._failures.add(batch, error, record_errors)
        batch.delivery.fail(error, dict(record_errors) or None)

    # --- reading answers ---

    def _mind_leader(self, name: TopicPartition, word: PartitionProduceResponse, nodes: Iterable[Node]) -> None:
        leader = word.current_leader
        if leader.leader_id >= 0 and leader.leader_epoch >= 0:
            self._metadata.leader_changed(name, leader.leader_id, leader.leader_epoch, nodes)


def _words_of(response: ProduceResponse, names: Mapping[bytes, str]) -> dict[TopicPartition, PartitionProduceResponse]:
    return {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }


def _is_refusal(error: OttlaError) -> bool:
    """Whether a broker said no in words that mean: I do not have it."""
    return isinstance(error, BrokerError) and not error.retriable and not isinstance(error, UnknownServerError)


def _answer_of(word: PartitionProduceResponse) -> Answer:
    error = broker_error(word.error_code, word.error_message)
    assert error is not None, "code 0 is no error"
    reasons: dict[int, OttlaError] = {
        each.batch_index: InvalidRecord(each.batch_index_error_message or word.error_message)
        for each in word.record_errors
    }
    if reasons:
        error = InvalidRecord("it was in one batch with a record that the broker refused, and a batch is taken whole")
    return Answer(error, log_start_offset=word.log_start_offset, record_errors=reasons)
