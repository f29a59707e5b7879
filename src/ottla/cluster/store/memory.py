"""The store that forgets: for tests, for brokers without a disk, and as the specification of the others.

Every store must pass the suite that this one passes (tests/unit/cluster/test_store.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.cluster.changes import Change, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.store.history import History, OnlyMember
from ottla.cluster.store.interface import StoreClosed, Subscription
from ottla.values import ZERO_UUID


class MemoryStore:
    """A MetadataStore whose truth ends with the process."""

    def __init__(self, cluster_id: str, first: Sequence[Change] = ()) -> None:
        self._history = History(apply_all(ClusterImage(cluster_id), first))
        self._closed = False
        self.membership = OnlyMember(self.load, self.commit)
        self.election = self.membership

    def load(self) -> ClusterImage:
        return self._history.image

    def commit(self, changes: Sequence[Change], *, expected: int | None = None) -> ClusterImage:
        if self._closed:
            raise StoreClosed
        image = self._history.next(changes, expected)
        self._history.adopt(image, changes)
        return image

    @property
    def directory_id(self) -> bytes:
        return ZERO_UUID

    @property
    def stopped_in_order(self) -> bool:
        return True

    def log_state(self) -> None:
        """There is none."""

    metadata_log = None

    @property
    def upkeep_is_due(self) -> bool:
        return False

    def upkeep(self) -> Iterator[None]:
        yield from ()

    def was_deleted(self, topic_id: bytes) -> bool:
        return topic_id in self._history.deletions

    def subscribe(self) -> Subscription:
        return self._history.subscribe()

    def unsubscribe(self, subscription: Subscription) -> None:
        self._history.unsubscribe(subscription)

    def close(self) -> None:
        self._closed = True
