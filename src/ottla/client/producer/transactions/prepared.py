"""A transaction that is written and left open, so that somebody else may decide how it ends.

    prepared = producer.prepare_transaction()           # in the process that wrote the records
    admin.end_transaction(prepared, commit=True)        # in the process that decides

1. The value is small and can be pickled: whoever has it can end the transaction, and nobody else needs to be alive.
2. To end it the same way twice does no harm, as long as nobody has initialized the transactional id again. Once
   somebody has, or the time-out was faster, the end is refused: what was prepared is aborted, unless it had been
   committed.
3. Between the two it is an open transaction like any other: it holds back readers of committed records, and the
   coordinator aborts it after transaction.timeout.ms. Two-phase commit without a time-out (KIP-939) is another matter.
"""

from __future__ import annotations

from ottla.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """What is needed to end a transaction. `is_empty`: nothing was sent, so the coordinator knows of none.
    `transaction_version`: 2 when the cluster raises the epoch with every end (KIP-890), else 1."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_empty: bool = False
    transaction_version: int = 2
