"""The transaction coordinator of this broker: whose shard an id is, markers, and what Produce must ask first."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla.broker.coordinators.effects import Effect, RequestContext
from ottla.broker.coordinators.placement import partition_for_name
from ottla.broker.coordinators.runtime import Runtime
from ottla.broker.coordinators.transactions.markers import DropMarkers, WriteMarkers
from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.requests.answers import Later
from ottla.broker.waiting.turns import Turns
from ottla.errors import BrokerError, CoordinatorNotAvailable, UnknownServerError, error_for_code
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.schema import Message
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue
from ottla.values import TopicPartition

log = logging.getLogger(__name__)

TOPIC: Final = "__transaction_state"
KINDS: Final[dict[type[Message], type[Message]]] = {TransactionLogKey: TransactionLogValue}

BATCHED_VERSION: Final = 5  # of AddPartitionsToTxn between brokers

Method = Callable[[TransactionShard, int, Any, RequestContext, int], list[Any]]
# Write one marker: (markers, partition, told what became of it).
WriteMarker = Callable[[WriteMarkers, TopicPartition, Callable[[BrokerError | None], None]], None]
# Ask the coordinator in another broker: (its partition, request, told the answer or an error); False: it is not there.
AskElsewhere = Callable[[int, Message, Callable[[Any], None]], bool]


class TransactionCoordinator:
    def __init__(self, partition_count: Callable[[], int | None], write_marker: WriteMarker) -> None:
        self.runtime: Runtime[TransactionShard]  # set by the broker, which makes both
        self._partition_count = partition_count
        self._write_marker = write_marker
        self.ask_elsewhere: AskElsewhere = lambda *_: False  # set when this broker becomes a member of a cluster
        self.turns = Turns()  # of produce requests that ask before they append, by transactional id

    def partition_of(self, transactional_id: str) -> int:
        count = self._partition_count()
        if count is None:
            raise CoordinatorNotAvailable(f"{TOPIC} does not exist yet")
        return partition_for_name(transactional_id, count)

    def ask(self, transactional_id: str, method: Method, request: Message, context: RequestContext) -> Later[Any]:
        return self.runtime.call(
            self.partition_of(transactional_id),
            lambda shard, token, now_ms: method(shard, token, request, context, now_ms),
        )

    # -- markers -----------------------------------------------------------------------------------------------------

    def carry_out(self, index: int, effect: Effect | WriteMarkers | DropMarkers) -> None:
        """Effects that only this coordinator has. An answer about dropped markers does no harm: nobody waits for it."""
        if isinstance(effect, WriteMarkers):
            for partition in effect.partitions:
                self._one_marker(index, effect, partition)
        elif not isinstance(effect, DropMarkers):
            raise TypeError(f"no effect of a transaction coordinator: {effect!r}")

    def _one_marker(self, index: int, markers: WriteMarkers, partition: TopicPartition) -> None:
        def told(error: BrokerError | None) -> None:
            self.runtime.tell(index, lambda shard, now_ms: shard.markers_written(markers, partition, error, now_ms))

        try:
            self._write_marker(markers, partition, told)
        except Exception as error:
            # A marker that nobody asks for again would leave its transaction open, and its readers waiting, for ever.
            log.exception("the marker of %r for %s failed in itself", markers.transactional_id, partition)
            told(UnknownServerError(str(error)))

    # -- before a transactional produce ------------------------------------------------------------------------------

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        verify_only: bool,
        context: RequestContext,
    ) -> Later[dict[TopicPartition, BrokerError]]:
        """Add partitions to a transaction, or only ask whether they are part of it; gives those that are refused."""
        wanted = list(partitions)
        by_topic: dict[str, list[int]] = defaultdict(list)
        for name in wanted:
            by_topic[name.topic].append(name.partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=found) for topic, found in by_topic.items()],
        )
        refused: Later[dict[TopicPartition, BrokerError]] = Later()
        batched = RequestContext(
            api_version=BATCHED_VERSION,
            client_id=context.client_id,
            client_host=context.client_host,
            principal=context.principal,
            listener=context.listener,
        )

        def answered(given: AddPartitionsToTxnResponse | Exception) -> None:
            if not isinstance(given, Exception) and given.error_code:
                given = error_for_code(given.error_code)()
            refused.give(_all_refused(wanted, given) if isinstance(given, Exception) else _refused(given))

        def answered_elsewhere(given: AddPartitionsToTxnResponse | Exception) -> None:
            # Whatever it was, the coordinator could not be asked; that its broker is unknown to us would mean something
            # else to a producer, and end its transaction.
            answered(CoordinatorNotAvailable(str(given)) if isinstance(given, Exception) else given)

        try:
            request = AddPartitionsToTxnRequest(transactions=[transaction])
            if self.ask_elsewhere(self.partition_of(transactional_id), request, answered_elsewhere):
                return refused
            asked = self.ask(transactional_id, TransactionShard.add_partitions_to_txn, request, batched)
        except BrokerError as error:
            refused.give(_all_refused(wanted, error))
            return refused
        asked.when_given(answered)
        return refused


def _all_refused(wanted: Iterable[TopicPartition], error: Exception) -> dict[TopicPartition, BrokerError]:
    """An error that is no broker's answer means that the coordinator could not be asked."""
    told = error if isinstance(error, BrokerError) else CoordinatorNotAvailable(str(error))
    return dict.fromkeys(wanted, told)


def _refused(answer: AddPartitionsToTxnResponse) -> dict[TopicPartition, BrokerError]:
    return {
        TopicPartition(topic.name, partition.partition_index): error_for_code(partition.partition_error_code)()
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
        if partition.partition_error_code
    }
