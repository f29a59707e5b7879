"""The newest image of a store, and who wants to know how it changes: what every local store has in common.

1. `next` decides: does the commit fit, and what is the image after it. It changes nothing, so that a store can write
   between deciding and adopting; `adopt` makes it true and tells the subscribers.
2. The topics that were deleted last are remembered (REMEMBERED_DELETIONS): a crash may come between a deletion and the
   removal of its logs, and only a log of a topic that this cluster deleted may be removed. Any other is kept.
3. One owner, one broker: who registers gets the next change number as its epoch (it grows with every start), and who
   stands for election wins, with the epoch after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ottla.cluster.changes import Change, RegisterBroker, RemoveTopic, SetController, UnregisterBroker, apply_all
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import Broker
from ottla.cluster.store.interface import Committed, Controller, StaleImage, Subscription
from ottla.light_dataclasses import replace

REMEMBERED_DELETIONS: Final = 1_000


class Deletions:
    """The ids of the topics that were deleted last, oldest first."""

    def __init__(self, topic_ids: Iterable[bytes] = ()) -> None:
        self._topic_ids = dict.fromkeys(topic_ids)

    def __contains__(self, topic_id: bytes) -> bool:
        return topic_id in self._topic_ids

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._topic_ids)

    def note(self, changes: Iterable[Change]) -> None:
        """Remember what these changes delete."""
        for change in changes:
            if isinstance(change, RemoveTopic):
                self.add(change.topic_id)

    def add(self, topic_id: bytes) -> None:
        """Remember a deletion; the oldest is forgotten at the limit."""
        self._topic_ids[topic_id] = None
        if len(self._topic_ids) > REMEMBERED_DELETIONS:
            del self._topic_ids[next(iter(self._topic_ids))]


class History:
    """See above."""

    def __init__(
        self,
        image: ClusterImage,
        apply_all: Callable[[ClusterImage, Sequence[Change]], ClusterImage] = apply_all,
        deletions: Deletions | None = None,
    ) -> None:
        self.image = image
        self.deletions = deletions or Deletions()
        self._apply_all = apply_all
        self._subscriptions: list[Subscription] = []

    def next(self, changes: Sequence[Change], expected: int | None) -> ClusterImage:
        """The image after a commit; StaleImage when the caller decided on an older one."""
        if expected is not None and expected != self.image.change_number:
            raise StaleImage(f"expected change number {expected}, but it is {self.image.change_number}")
        return self._apply_all(self.image, changes)

    def adopt(self, image: ClusterImage, changes: Sequence[Change]) -> None:
        """The commit is durable: that is the image now."""
        if not changes:
            return
        self.image = image
        self.deletions.note(changes)
        committed = Committed(image.change_number, tuple(changes))
        for subscription in self._subscriptions:
            subscription.put(committed)

    def replace(self, image: ClusterImage) -> None:
        """Everything was read anew: how it came about is not known, so whoever subscribed takes the whole image."""
        self.image = image
        for subscription in self._subscriptions:
            subscription.missed = True

    def subscribe(self) -> Subscription:
        subscription = Subscription()
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)


class OnlyMember:
    """Membership and election where there is nobody else."""

    def __init__(self, load: Callable[[], ClusterImage], commit: Callable[[Sequence[Change]], ClusterImage]) -> None:
        self._load = load
        self._commit = commit

    def register(self, broker: Broker) -> Broker:
        registered = replace(broker, epoch=self._load().change_number + 1)
        self._commit([RegisterBroker(registered)])
        return registered

    def leave(self, broker_id: int) -> None:
        if broker_id in self._load().brokers:
            self._commit([UnregisterBroker(broker_id)])

    def stand(self, broker_id: int) -> Controller:
        elected = Controller(broker_id, self._load().controller_epoch + 1)
        self._commit([SetController(*elected)])
        return elected

    def resign(self, broker_id: int) -> None:
        image = self._load()
        if image.controller_id == broker_id:
            self._commit([SetController(NO_CONTROLLER, image.controller_epoch)])
