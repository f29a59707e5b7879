"""The calls of a transaction as either face makes them: start one with the manager, then wait for its end on the loop.

A call that takes longer than its time goes on; the same call made again waits for its end
(transaction_states.TransactionalResult). Before and after each of them it is looked at whether records may take the hot
path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.client.arguments import by_partition, offset_of
from ottla.client.connections import within
from ottla.client.group_metadata import GroupMetadata
from ottla.client.producer.transactions.manager import TransactionManager
from ottla.client.producer.transactions.prepared import PreparedTransaction
from ottla.client.producer.transactions.states import TransactionalResult, TransactionMisuse
from ottla.errors import RequestTimedOut
from ottla.values import OffsetAndMetadata, TopicPartition

METRICS: Final = {
    "init_transactions": "txn-init",
    "send_offsets_to_transaction": "txn-send-offsets",
    "commit_transaction": "txn-commit",
    "abort_transaction": "txn-abort",
    "prepare_transaction": "txn-prepare",
}

if TYPE_CHECKING:
    from ottla.client.producer.core import ProducerCore


class TransactionCalls:
    """init, begin, send offsets, prepare, commit and abort of one producer; belongs to the loop."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core

    def _manager(self, operation: str) -> TransactionManager:
        if self._core.transactions is None:
            raise TransactionMisuse(f"{operation} needs a producer with transactional.id")
        return self._core.transactions

    async def init_transactions(self, *, timeout_ms: float) -> None:
        await self._outcome(self._manager("init_transactions").initialize(), timeout_ms)

    async def begin(self) -> None:
        began_ms = self._core.clock.monotonic_ms()
        self._manager("begin_transaction").begin()
        self._core.metrics.took("txn-begin", self._core.clock.monotonic_ms() - began_ms, began_ms)
        self._core.refresh_heat()

    async def commit(self, *, timeout_ms: float) -> None:
        await self._outcome(self._manager("commit_transaction").begin_commit(), timeout_ms)

    async def prepare(self, *, timeout_ms: float) -> PreparedTransaction:
        manager = self._manager("prepare_transaction")
        await self._outcome(manager.begin_prepare(), timeout_ms)
        return manager.prepared()

    async def abort(self, *, timeout_ms: float) -> None:
        """What was not delivered is meant to be lost, so nobody is told of it."""
        await self._outcome(self._manager("abort_transaction").begin_abort(), timeout_ms)
        self._core.failures.take()

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: GroupMetadata | str,
        timeout_ms: float,
    ) -> None:
        positions = by_partition(offsets, offset_of)
        who = GroupMetadata(group) if isinstance(group, str) else group
        if not isinstance(who, GroupMetadata):
            raise TypeError(f"the group is told by consumer.group_metadata() or its name, not by {group!r}")
        await self._outcome(self._manager("send_offsets_to_transaction").send_offsets(positions, who), timeout_ms)

    async def _outcome(self, outcome: TransactionalResult, timeout_ms: float) -> None:
        """Wait for the end of a call; after a time-out it goes on, and the same call made again waits for its end."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(lambda _: None if done.done() else done.set_result(None))
        self._core.refresh_heat()
        self._core.loop.turn_soon()
        began_ms = self._core.clock.monotonic_ms()
        in_time = await within(done, self._core.clock, timeout_ms)
        now_ms = self._core.clock.monotonic_ms()
        self._core.metrics.took(METRICS[outcome.operation], now_ms - began_ms, now_ms)
        if not in_time:
            why = self._core.network.metadata.failure
            raise RequestTimedOut(
                f"{outcome.operation} took longer than {timeout_ms:.0f} ms; call it again to wait for its end"
                + (f" ({why})" if why else "")
            )
        outcome.acknowledge()
        self._core.refresh_heat()
