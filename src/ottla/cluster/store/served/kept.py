"""The truth of several members on the disk of one process.

1. Every step is a commit of the log (kept_log.py): when somebody is told that it is true, it survives a crash. What the
   disk refused is not true, and nobody hears of it.
2. Who was controller is forgotten at the start: the members stand again, and the winner reads everything.
3. Brokers that were registered when the process ended may go on serving. They are kept as unclaimed: a member that
   names the epoch of such a registration has it again, without anybody noticing; one that registers anew replaces it;
   `end_unclaimed` takes the rest away, as when their sessions had ended.
4. Epochs of brokers are change numbers, so they grow over restarts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.cluster.changes import Change, SetController, SetStoredValue, UnregisterBroker
from ottla.cluster.image import NO_CONTROLLER
from ottla.cluster.model import Broker, StoredKey
from ottla.cluster.store.served.kept_log import KeeperStore
from ottla.cluster.store.truth import Seat, Truth

LAST_BROKER_NUMBER: Final = StoredKey("ottla", "last-broker-number")


class KeptTruth(Truth):
    """See above. The store applies changes by `take_in`."""

    def __init__(self, store: KeeperStore, *, session_timeout_ms: float) -> None:
        super().__init__(store.load())
        self.session_timeout_ms = session_timeout_ms
        self._store = store
        self._unclaimed = set(self.truth.brokers)
        if self.truth.controller_id != NO_CONTROLLER:
            self._write([SetController(NO_CONTROLLER, self.truth.controller_epoch)])

    def _write(self, changes: Sequence[Change]) -> None:
        self.truth = self._store.commit(changes)

    def _next_epoch(self) -> int:
        return self.truth.change_number + 1

    def register(self, broker: Broker, by: Seat) -> Broker:
        registered = super().register(broker, by)
        self._unclaimed.discard(broker.id)
        return registered

    def claim(self, registrations: Mapping[int, int], by: Seat) -> bool:
        """Whether a member that comes back has all the registrations (epochs by broker id) that it had."""
        brokers = self.truth.brokers
        if any(each not in brokers or brokers[each].epoch != epoch for each, epoch in registrations.items()):
            return False
        for broker_id in registrations:
            self._owners[broker_id] = by
            self._unclaimed.discard(broker_id)
        return True

    @property
    def has_unclaimed(self) -> bool:
        return bool(self._unclaimed)

    def end_unclaimed(self) -> list[int]:
        """Their brokers did not come back."""
        gone = sorted(self._unclaimed)
        self._unclaimed.clear()
        if gone:
            self._write([UnregisterBroker(each) for each in gone])
            self._notify_brokers()
        return gone

    def next_broker_number(self) -> int:
        number = int(self.truth.stored_values.get(LAST_BROKER_NUMBER, "0")) + 1
        self._write([SetStoredValue(LAST_BROKER_NUMBER, str(number))])
        return number
