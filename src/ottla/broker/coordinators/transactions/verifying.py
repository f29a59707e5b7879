"""Records of a transaction, before they are appended: the coordinator must know of every partition (KIP-890).

    refused, guards = await verify(broker, request, context)

1. Partitions that have no open transaction of this producer yet are asked about, or from Produce 12 on added to it. The
   log keeps a guard for each meanwhile: what was verified before a marker came is not appended behind it.
2. A partition joins a transaction while the one before it is still being ended: a commit is answered when it is
   decided, before its markers are written, so a quick producer is back before the coordinator can take it.
   CONCURRENT_TRANSACTIONS would cost it a whole backoff of its own, so Kafka asks again for it, every
   add.partitions.to.txn.retry.backoff.ms, for add.partitions.to.txn.retry.backoff.max.ms in all.
3. The coordinator answers as to a broker; the client is answered in words that its version understands:

    PRODUCER_FENCED             INVALID_PRODUCER_EPOCH, which producers have always met on this path
    TRANSACTION_ABORTABLE       INVALID_TXN_STATE to clients from before KIP-890, which do not know the word
    the coordinator is away     NOT_ENOUGH_REPLICAS to producers, because old ones try again on that and fail on others;
                                so with CONCURRENT_TRANSACTIONS before Produce 12
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.produce.admission import topic_name
from ottla.broker.produce.frames import Produce
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    BrokerError,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionAbortable,
)
from ottla.records import BatchInfo
from ottla.records.layout import HEADER_BYTES
from ottla.storage.producers.check import VerificationGuard
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ABORTABLE_SINCE: Final = 11
IMPLICIT_ADD_SINCE: Final = 12
_AWAY: Final = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)

Refused = dict[TopicPartition, BrokerError]
Guards = dict[TopicPartition, VerificationGuard]


async def verify(broker: Broker, request: Produce, context: RequestContext) -> tuple[Refused, Guards]:
    """What must not be appended, and what guards the rest. Who calls has the turn of this transactional id."""
    guards, refused, producer = _unverified(broker, request, context)
    if guards and producer is not None:
        add = partial(
            broker.transactions.add_partitions,
            request.transactional_id or "",
            *producer,
            guards,
            verify_only=context.api_version < IMPLICIT_ADD_SINCE,
            context=context,
        )
        for name, error in (await ask_patiently(broker, add)).items():
            refused[name] = refused_produce(
                error,
                knows_abortable=context.api_version >= ABORTABLE_SINCE,
                adds_partitions=context.api_version >= IMPLICIT_ADD_SINCE,
            )
    return refused, guards


def _unverified(
    broker: Broker, request: Produce, context: RequestContext
) -> tuple[Guards, Refused, tuple[int, int] | None]:
    """Guards of partitions to ask about, partitions whose producer is fenced, and who the producer is."""
    guards: Guards = {}
    fenced: Refused = {}
    producer: tuple[int, int] | None = None
    for topic, partitions in request.topics:
        name = topic_name(broker, topic) or ""
        for index, records in partitions:
            partition = broker.replicas.get((name, index))
            if partition is None or not partition.is_leader or records is None or len(records) < HEADER_BYTES:
                continue
            batch = BatchInfo(records)
            if not batch.is_transactional:
                continue
            producer = batch.producer_id, batch.producer_epoch
            try:
                guard = partition.log.producers.start_verification(
                    batch.producer_id,
                    batch.base_sequence,
                    batch.producer_epoch,
                    now_ms=broker.clock.now_ms(),
                    raises_epoch=context.api_version >= IMPLICIT_ADD_SINCE,
                )
            except BrokerError as error:
                fenced[partition.name] = error
                continue
            if guard is not None:
                guards[partition.name] = guard
    return guards, fenced, producer


async def ask_patiently(broker: Broker, ask: Callable[[], Awaitable[Refused]]) -> Refused:
    """What `ask` returns in the end: asked again while a transaction is being ended, for a bounded time."""
    clock, settings = broker.clock, broker.settings
    end_ms = clock.monotonic_ms() + settings.add_partitions_to_txn_retry_backoff_max_ms
    while True:
        refused = await ask()
        now_ms = clock.monotonic_ms()
        is_ending = any(isinstance(error, ConcurrentTransactions) for error in refused.values())
        if not is_ending or now_ms >= end_ms:
            return refused
        due_ms = now_ms + settings.add_partitions_to_txn_retry_backoff_ms
        await broker.progress.produce_purgatory.wait(_never, (), due_ms)
        if clock.monotonic_ms() < due_ms:  # the broker stops: no later time will come
            return refused


def _never() -> bool:
    return False


# -- in words of the client ------------------------------------------------------------------------------------------


def refused_partition(error: BrokerError, *, knows_abortable: bool) -> BrokerError:
    """In words of both kinds of requests."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(error.detail)
    if isinstance(error, TransactionAbortable) and not knows_abortable:
        return InvalidTxnState("the partition was not added to the transaction")
    return error


def refused_produce(error: BrokerError, *, knows_abortable: bool, adds_partitions: bool) -> BrokerError:
    """In words of Produce."""
    if isinstance(error, _AWAY) or (isinstance(error, ConcurrentTransactions) and not adds_partitions):
        return NotEnoughReplicas(f"the transaction could not be verified and may be tried again: {error}")
    return refused_partition(error, knows_abortable=knows_abortable)
