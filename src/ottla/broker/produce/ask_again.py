"""A partition joins a transaction while the transaction before it is still being ended: wait a moment, ask again.

A commit is answered when it is decided, before its markers are written, so a quick producer is back before the
coordinator can take it. CONCURRENT_TRANSACTIONS would cost it a whole backoff of its own, so Kafka asks again for it:
every add.partitions.to.txn.retry.backoff.ms, for add.partitions.to.txn.retry.backoff.max.ms in all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.requests.answers import Later
from ottla.errors import BrokerError, ConcurrentTransactions
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Refused = dict[TopicPartition, BrokerError]
Ask = Callable[[], Later[Refused]]


class AskingAgain:
    """An operation of the purgatory that nothing completes but time."""

    def __init__(self, broker: Broker, ask: Ask, taken: Later[Refused]) -> None:
        self._broker = broker
        self._ask = ask
        self._taken = taken
        self._end_ms = broker.clock.monotonic_ms() + broker.settings.add_partitions_to_txn_retry_backoff_max_ms
        self._due_ms = 0.0
        self._refused: Refused = {}

    def begin(self) -> None:
        self._ask().when_given(self._answered)

    def _answered(self, refused: Refused) -> None:
        now_ms = self._broker.clock.monotonic_ms()
        is_ending = any(isinstance(error, ConcurrentTransactions) for error in refused.values())
        if not is_ending or now_ms >= self._end_ms:
            self._taken.give(refused)
            return
        self._refused = refused
        self._due_ms = now_ms + self._broker.settings.add_partitions_to_txn_retry_backoff_ms
        self._broker.produce_purgatory.wait(self, (), self._due_ms)

    def try_complete(self) -> bool:
        return False

    def expire(self) -> None:
        if self._broker.clock.monotonic_ms() < self._due_ms:  # the broker stops: no later time will come
            self._taken.give(self._refused)
        else:
            self.begin()


def ask_patiently(broker: Broker, ask: Ask) -> Later[Refused]:
    """What `ask` gives in the end: asked again while a transaction is being ended, for a bounded time."""
    taken: Later[Refused] = Later()
    AskingAgain(broker, ask, taken).begin()
    return taken
