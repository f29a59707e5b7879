"""InitProducerId with a transactional id: which producer may continue, and with which id and epoch.

    state       the request names no producer            it does (KIP-360)
    unknown     new id, epoch 0                          new id, epoch 0: what the coordinator knew has expired
    idle        next epoch                               its epoch is current: next epoch
                                                         its epoch is the last one: the current epoch, this is a retry
                                                         otherwise: PRODUCER_FENCED
    ongoing     abort it first, CONCURRENT_TRANSACTIONS  the same
    decided     CONCURRENT_TRANSACTIONS                  the same

1. An epoch belongs to one producer: every predecessor has a smaller one.
2. After LAST_CLIENT_EPOCH comes a new producer id with epoch 0.
3. Which epoch a retry may name is soft state (`last_epoch`), as in Kafka: after a change of coordinator such a retry
   is fenced. A request that names no producer ends that right of its predecessor.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.coordinators.transactions.producer_ids import names_producer
from ottla.broker.coordinators.transactions.settings import TransactionSettings
from ottla.broker.coordinators.transactions.state import (
    EMPTY,
    LAST_CLIENT_EPOCH,
    NEVER_MS,
    NO_PRODUCER_EPOCH,
    ONGOING,
    TransactionMetadata,
)
from ottla.errors import (
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest


class Initialised(NamedTuple):
    """The id as it becomes, and the epoch that a retry of this request would name."""

    metadata: TransactionMetadata
    last_epoch: int


class FenceFirst(NamedTuple):
    """There is a transaction of the predecessor: abort it with a raised epoch and have the client try again."""


def timeout_ms_of(request: InitProducerIdRequest, settings: TransactionSettings) -> int:
    """The time-out this producer gets; raises what is wrong with the request."""
    if not request.transactional_id:
        raise InvalidRequest("the transactional id is empty")
    if request.enable2pc and not settings.transaction_two_phase_commit_enable:
        raise TransactionalIdAuthorizationFailed("transaction.two.phase.commit.enable is false on this broker")
    if request.keep_prepared_txn:
        raise UnsupportedVersion("a prepared transaction cannot be kept over InitProducerId")
    if request.enable2pc:
        return NEVER_MS
    if not 0 < request.transaction_timeout_ms <= settings.transaction_max_timeout_ms:
        raise InvalidTransactionTimeout(
            f"{request.transaction_timeout_ms} ms; transaction.max.timeout.ms is {settings.transaction_max_timeout_ms}"
        )
    return request.transaction_timeout_ms


def new_metadata(
    request: InitProducerIdRequest, timeout_ms: int, now_ms: int, next_producer_id: Callable[[], int]
) -> Initialised:
    """An id that the coordinator did not know."""
    names_producer(request)
    producer_id = next_producer_id()
    metadata = TransactionMetadata(
        transactional_id=request.transactional_id or "",
        producer_id=producer_id,
        # As Kafka writes it: the step from "no epoch" to epoch 0 was a move from the same producer id.
        previous_producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=EMPTY,
        last_update_ms=now_ms,
    )
    return Initialised(metadata, NO_PRODUCER_EPOCH)


def initialise(
    metadata: TransactionMetadata,
    request: InitProducerIdRequest,
    *,
    last_epoch: int,
    timeout_ms: int,
    now_ms: int,
    next_producer_id: Callable[[], int],
) -> Initialised | FenceFirst:
    """What becomes of an id that the coordinator knows."""
    continues = names_producer(request)
    metadata.check_no_pending_markers()
    if continues and not _may_be(metadata, request):
        raise ProducerFenced(f"{metadata.transactional_id!r} has another producer id than {request.producer_id}")
    if metadata.state is ONGOING:
        return FenceFirst()
    epoch = metadata.producer_epoch
    # A new producer id rotates the ids: the expected epoch belongs to the previous one and was its last.
    is_current = request.producer_epoch == epoch and request.producer_id == metadata.producer_id
    if continues and not is_current:
        if request.producer_epoch != last_epoch:
            raise ProducerFenced(f"{metadata.transactional_id!r} is at epoch {epoch}, not {request.producer_epoch}")
        return Initialised(metadata.initialised(metadata.producer_id, epoch, timeout_ms, now_ms), last_epoch)
    remembered = epoch if continues else NO_PRODUCER_EPOCH
    if metadata.is_epoch_exhausted:
        return Initialised(metadata.initialised(next_producer_id(), 0, timeout_ms, now_ms), remembered)
    return Initialised(metadata.initialised(metadata.producer_id, epoch + 1, timeout_ms, now_ms), remembered)


def _may_be(metadata: TransactionMetadata, request: InitProducerIdRequest) -> bool:
    """The current producer, or the one whose epochs were used up, which may not have heard of its new id."""
    if request.producer_id == metadata.producer_id:
        return True
    return request.producer_id == metadata.previous_producer_id and request.producer_epoch >= LAST_CLIENT_EPOCH
