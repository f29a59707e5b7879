"""AddPartitionsToTxn and AddOffsetsToTxn: partitions become part of a transaction, or are asked about.

1. The first partitions begin the transaction. Only the producer with the current id and epoch may add.
   While markers are being written, a request to add is answered CONCURRENT_TRANSACTIONS before producer id and
   epoch are compared; a request to verify has them compared first. Both are as in Kafka 4.3.1.
2. To verify changes nothing: a partition that was not added is answered TRANSACTION_ABORTABLE, so that a leader does
   not take records of a transaction that would never end there.
3. Clients add in versions 0-3, brokers in 4-5 on behalf of clients of the second version of transactions. A broker's
   request may name one transaction twice; the second part sees what the first has done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.broker.coordinators.transactions import txn_responses
from ottla.broker.coordinators.transactions.state import EPOCH_BUMP_SINCE, ONGOING, TransactionMetadata
from ottla.errors import (
    NONE,
    BrokerError,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
)
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
from ottla.values import TopicPartition

ADD_KNOWS_ABORTABLE: Final = 5
ADD_OFFSETS_KNOWS_ABORTABLE: Final = 4


class Adding:
    """One request, seen against the transactions as they are now."""

    def __init__(self, transactions: Mapping[str, TransactionMetadata], partitions_max: int, now_ms: int) -> None:
        self._transactions = transactions
        self._partitions_max = partitions_max
        self._now_ms = now_ms

    def codes(
        self, transaction: AddPartitionsToTxnTransaction, version: int, staged: dict[str, TransactionMetadata]
    ) -> txn_responses.PartitionCodes:
        """The code of every partition; what has to be written is put into `staged`."""
        partitions = txn_responses.partitions_of(transaction)
        name = transaction.transactional_id
        metadata = staged.get(name) or self._transactions.get(name)
        try:
            known = _known(metadata, name)
            if not transaction.verify_only:
                known.check_no_pending_markers()
            _check_producer(known, transaction.producer_id, transaction.producer_epoch)
            if transaction.verify_only:
                known.check_no_pending_markers()
                missing = TransactionAbortable.code
                return {each: NONE if each in known.partitions else missing for each in partitions}
            client_version = EPOCH_BUMP_SINCE if version >= txn_responses.BATCHED_ADD_SINCE else 0
            added = self._added(known, partitions, client_version, knows_abortable=version >= ADD_KNOWS_ABORTABLE)
        except BrokerError as error:
            return dict.fromkeys(partitions, txn_responses.code_of(error, version))
        if added is not None:
            staged[name] = added
        return dict.fromkeys(partitions, NONE)

    def offsets(
        self, request: AddOffsetsToTxnRequest, version: int, partition: TopicPartition
    ) -> TransactionMetadata | None:
        """With the partition that has the group's offsets; None when it takes part already."""
        name = request.transactional_id
        metadata = _known(self._transactions.get(name), name)
        metadata.check_no_pending_markers()
        _check_producer(metadata, request.producer_id, request.producer_epoch)
        knows_abortable = version >= ADD_OFFSETS_KNOWS_ABORTABLE
        return self._added(metadata, frozenset({partition}), 0, knows_abortable=knows_abortable)

    def _added(
        self,
        metadata: TransactionMetadata,
        partitions: frozenset[TopicPartition],
        client_version: int,
        *,
        knows_abortable: bool,
    ) -> TransactionMetadata | None:
        if metadata.state is ONGOING and partitions <= metadata.partitions:
            return None
        added = metadata.with_partitions(partitions, client_version, self._now_ms)
        if len(added.partitions) > self._partitions_max:
            refusal = TransactionAbortable if knows_abortable else InvalidTxnState
            raise refusal(f"{metadata.transactional_id!r} would touch more than {self._partitions_max} partitions")
        return added


def _known(metadata: TransactionMetadata | None, name: str) -> TransactionMetadata:
    if not name:
        raise InvalidRequest("the transactional id is empty")
    if metadata is None:
        raise InvalidProducerIdMapping(f"the coordinator does not know {name!r}")
    return metadata


def _check_producer(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> None:
    """Raise unless this producer has the current id and epoch."""
    name = metadata.transactional_id
    if metadata.producer_id != producer_id:
        raise InvalidProducerIdMapping(f"{name!r} does not belong to producer {producer_id}")
    if metadata.producer_epoch != producer_epoch:
        raise ProducerFenced(f"{name!r} is at epoch {metadata.producer_epoch}, not {producer_epoch}")
