"""A partition joins a transaction while the transaction before it is still being ended: wait a moment, ask again.

A commit is answered when it is decided, before its markers are written, so a quick producer is back before the
coordinator can take it. CONCURRENT_TRANSACTIONS would cost it a whole backoff of its own, so Kafka asks again for it:
every add.partitions.to.txn.retry.backoff.ms, for add.partitions.to.txn.retry.backoff.max.ms in all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.errors import BrokerError, ConcurrentTransactions
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Refused = dict[TopicPartition, BrokerError]


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
