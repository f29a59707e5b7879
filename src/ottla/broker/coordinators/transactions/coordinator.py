"""The transaction coordinator of this broker: its topic, the markers it writes, and what Produce must ask it first."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinators.coordinator import Coordinator
from ottla.broker.coordinators.runtime import InternalPartition, Runtime
from ottla.broker.coordinators.transactions.markers import DropMarkers, WriteMarkers
from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.replication.markers import write_marker
from ottla.broker.requests.context import RequestContext
from ottla.broker.waiting.turns import Turns
from ottla.cluster.image import ClusterImage
from ottla.errors import BrokerError, CoordinatorNotAvailable, OttlaError, UnknownServerError, error_for_code
from ottla.light_dataclasses import replace
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.schema import Message
from ottla.protocol.stored.transactions import TransactionLogKey, TransactionLogValue
from ottla.storage.log.whole_log import Rotten
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)

TOPIC: Final = "__transaction_state"
KINDS: Final[dict[type[Message], type[Message]]] = {TransactionLogKey: TransactionLogValue}

BATCHED_VERSION: Final = 5  # of AddPartitionsToTxn between brokers

Refused = dict[TopicPartition, BrokerError]


class TransactionCoordinator(Coordinator[TransactionShard]):
    serves_remains = False  # a decision to commit that is forgotten would be decided again, the other way

    def __init__(self, broker: Broker) -> None:
        self.turns = Turns()  # of produce requests that ask before they append, by transactional id
        runtime = Runtime(
            TOPIC,
            make_shard=self._make_shard,
            kinds=KINDS,
            now_ms=broker.clock.now_ms,
            monotonic_ms=broker.clock.monotonic_ms,
            write_timeout_ms=lambda: broker.settings.request_timeout_ms,
            loads=broker.loads,
            unreadable=self.unreadable,
            other_effect=self.carry_out,
            wake=broker.deadlines.arm,
        )
        super().__init__(TOPIC, runtime, broker)

    def _make_shard(self, index: int, partition: InternalPartition) -> TransactionShard:
        return TransactionShard(
            self._broker.settings,
            coordinator_epoch=partition.leader_epoch,
            next_producer_id=self._broker.producer_ids.next_id,
            transaction_version=self._broker.image.feature("transaction.version"),
        )

    def image_changed(self, image: ClusterImage) -> None:
        for _, shard in self.runtime.all_shards():
            shard.transaction_version = image.feature("transaction.version")

    def without(self, rotten: Rotten) -> str:
        return (
            "Decisions to commit may have been there, so transactional ids of this partition are refused with "
            "COORDINATOR_NOT_AVAILABLE, all others are served. Bring back the file from a copy and start the broker "
            "again; if there is none, delete the topic's partition directory: its producers then begin anew, and "
            "transactions that were open are ended with `kafka-transactions.sh abort`"
        )

    # -- markers -----------------------------------------------------------------------------------------------------

    def carry_out(self, index: int, effect: object) -> None:
        """Effects that only this coordinator has. The result of dropped markers does no harm: nobody waits for it."""
        if isinstance(effect, WriteMarkers):
            for partition in effect.partitions:
                self._broker.background.start(self._write_marker(index, effect, partition))
        elif not isinstance(effect, DropMarkers):
            raise TypeError(f"no effect of a transaction coordinator: {effect!r}")

    async def _write_marker(self, index: int, markers: WriteMarkers, partition: TopicPartition) -> None:
        error: BrokerError | None = None
        try:
            await write_marker(self._broker, markers, partition)
        except BrokerError as refusal:
            error = refusal
        except Exception as failure:
            # A marker that nobody asks for again would leave its transaction open, and its readers waiting, for ever.
            log.exception("the marker of %r for %s failed in itself", markers.transactional_id, partition)
            error = UnknownServerError(str(failure))
        self.runtime.notify(index, lambda shard, now_ms: shard.markers_written(markers, partition, error, now_ms))

    # -- before a transactional produce ------------------------------------------------------------------------------

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        verify_only: bool,
        context: RequestContext,
    ) -> Refused:
        """Add partitions to a transaction, or only ask whether they are part of it; returns those that are refused."""
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
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        try:
            answer = await self._ask_coordinator(transactional_id, request, context)
        except BrokerError as error:
            return dict.fromkeys(wanted, error)
        return _refused(answer)

    async def _ask_coordinator(
        self, transactional_id: str, request: AddPartitionsToTxnRequest, context: RequestContext
    ) -> AddPartitionsToTxnResponse:
        """Whoever coordinates this id: a shard here, or another broker."""
        partition, link = self.partition_of(transactional_id), self._broker.link
        answer: Message
        if link.leads_elsewhere(TOPIC, partition):
            try:
                answer = await link.ask_leader(TOPIC, partition, request)
            except (OttlaError, OSError) as error:
                # Whatever it was, the coordinator could not be asked; that its broker is unknown to us would mean
                # something else to a producer, and end its transaction.
                raise CoordinatorNotAvailable(str(error)) from error
        else:
            batched = replace(context, api_version=BATCHED_VERSION, connection=None)
            answer = await self.ask(transactional_id, TransactionShard.add_partitions_to_txn, request, batched)
        assert isinstance(answer, AddPartitionsToTxnResponse)
        if answer.error_code:
            raise error_for_code(answer.error_code)()
        return answer


def _refused(answer: AddPartitionsToTxnResponse) -> Refused:
    return {
        TopicPartition(topic.name, partition.partition_index): error_for_code(partition.partition_error_code)()
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
        if partition.partition_error_code
    }
