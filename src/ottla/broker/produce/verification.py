"""What a client is answered when the transaction coordinator refuses a partition of its produce or offset commit.

The coordinator answers as to a broker; Kafka puts that into words that the client's version understands:

    PRODUCER_FENCED             INVALID_PRODUCER_EPOCH, which producers have always met on this path
    TRANSACTION_ABORTABLE       INVALID_TXN_STATE to clients from before KIP-890, which do not know the word
    the coordinator is away     NOT_ENOUGH_REPLICAS to producers, because old ones try again on that and fail on others;
                                so with CONCURRENT_TRANSACTIONS before Produce 12
"""

from __future__ import annotations

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

_AWAY = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


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
