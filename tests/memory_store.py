"""The OwnStore that forgets: for brokers of unit tests, which have no disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.cluster.changes import Change, RegisterBroker, SetController, UnregisterBroker, apply_all
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import Broker
from ottla.cluster.store.deletions import Deletions
from ottla.cluster.store.interface import Controller, StoreClosed
from ottla.light_dataclasses import replace
from ottla.values import ZERO_UUID


class PendingChange:
    """What a commit is between its beginning and its end."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes

    def write(self) -> None:
        """Nowhere."""


class MemoryStore:
    """An OwnStore whose truth ends with the process. An epoch is the number of the change that it came with."""

    directory_id = ZERO_UUID
    stopped_in_order = True
    metadata_log = None
    upkeep_is_due = False
    has_failed = False

    def __init__(self, cluster_id: str, first: Sequence[Change] = ()) -> None:
        self._image = apply_all(ClusterImage(cluster_id), first)
        self._deletions = Deletions()
        self._closed = False
        self.membership = self
        self.election = self

    def load(self) -> ClusterImage:
        return self._image

    def commit(self, changes: Sequence[Change]) -> ClusterImage:
        if self._closed:
            raise StoreClosed
        self._image = apply_all(self._image, changes)
        self._deletions.note(changes)
        return self._image

    def begin(self, changes: Sequence[Change]) -> PendingChange:
        return PendingChange(changes)

    def finish(self, pending: PendingChange) -> ClusterImage:
        return self.commit(pending.changes)

    def log_state(self) -> None:
        """There is none."""

    def upkeep(self) -> Iterator[None]:
        yield from ()

    def was_deleted(self, topic_id: bytes) -> bool:
        return topic_id in self._deletions

    def close(self) -> None:
        self._closed = True

    # --- the only member ----------------------------------------------------------------------------------------------

    def register(self, broker: Broker) -> Broker:
        registered = replace(broker, epoch=self._image.change_number + 1)
        self.commit([RegisterBroker(registered)])
        return registered

    def leave(self, broker_id: int) -> None:
        if broker_id in self._image.brokers:
            self.commit([UnregisterBroker(broker_id)])

    def stand(self, broker_id: int) -> Controller:
        elected = Controller(broker_id, self._image.controller_epoch + 1)
        self.commit([SetController(*elected)])
        return elected

    def resign(self, broker_id: int) -> None:
        if self._image.controller_id == broker_id:
            self.commit([SetController(NO_CONTROLLER, self._image.controller_epoch)])
