"""Transactions as partitions have them and as their coordinators know them.

A transaction that a partition has open hangs when its coordinator knows nothing of it: nobody will ever end it, and
readers of committed records wait behind it. One whose partition the coordinator still has to end does not hang, however
old it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import TransactionalIdNotFound

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.transactions import ProducerState, TransactionDescription
    from ottla.values import TopicPartition

    Opened: TypeAlias = tuple[TopicPartition, ProducerState]


def began_at(admin: Admin, partition: TopicPartition, offset: int) -> ProducerState | None:
    """Who has the transaction open that began at this offset."""
    found = admin.describe_producers([partition])[partition]
    return next((each for each in found if each.transaction_start_offset == offset), None)


def hanging(
    admin: Admin,
    opened: Sequence[Opened],
    during: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> list[Opened]:
    """Those that no coordinator knows; `during` is entered with what is tried, for the words of a failure."""
    if not opened:
        return []
    producers = sorted({each.producer_id for _, each in opened})
    with during(f"list transactions for {len(producers)} producers"):
        listed = admin.list_transactions(producer_ids=producers)
    names = {each.producer_id: each.transactional_id for each in listed}
    with during(f"describe {len(names)} transactions"):
        known = {producer: _described(admin, name) for producer, name in names.items()}
    return [
        (partition, each)
        for partition, each in opened
        if (transaction := known.get(each.producer_id)) is None or partition not in transaction.partitions
    ]


def _described(admin: Admin, name: str) -> TransactionDescription | None:
    """None for one that ended meanwhile and is forgotten."""
    try:
        return admin.describe_transactions([name])[name]
    except TransactionalIdNotFound:
        return None
