"""One broker's SharedStore on the model of ZooKeeper (zookeeper_model.py).

1. Its image is its own (cluster/store/interface.py, 4): it moves by what this member commits, observes or takes over.
   So whoever looks sees the same steps as with ZooKeeper: an event first, and a changed image only after the decision.
2. What the model tells is a Notice: an event for the owner, and the changes that the image takes in with it. They are
   in the image when the event is taken at the latest.
3. Things enter the image in the order in which they became true: before a commit of its own the image takes in every
   notice that came earlier. Otherwise an older change of somebody else, taken later, would undo ours.
4. The owner may take events while another thread of the broker calls; a lock guards the image.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.cluster.changes import AlterConfig, Change, SetController
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker, ConfigResource, ResourceType
from ottla.cluster.store.events import (
    Controller,
    EventQueue,
    LogDirFailed,
    SessionBack,
    SessionLost,
    StoreEvent,
    deletion_asked,
)
from ottla.cluster.store.interface import ControllerMoved, NoSession, StoreClosed
from ottla.cluster.store.shared import check_partition_epochs, is_for_the_controller, take_in
from ottla.light_dataclasses import dataclass, replace

if TYPE_CHECKING:
    from ottla.simulation.zookeeper_model import ZooKeeperModel


@dataclass(slots=True)
class Notice:
    """An event, and what enters the image with it; `is_in` when it has."""

    event: StoreEvent
    changes: tuple[Change, ...] = ()
    is_in: bool = False


class ModelStore:
    """See the module."""

    def __init__(self, model: ZooKeeperModel) -> None:
        self._model = model
        self._image = model.known_to_all()
        self._lock = threading.RLock()
        self._waiting: deque[Notice] = deque()  # notices that the owner has not taken
        self._closed = False
        self.queue: EventQueue[Notice] = EventQueue()
        self.has_session = True
        self.watches_everything = False
        """It took over as controller."""
        self.elected: Controller | None = None
        self.membership = self
        self.election = self

    def load(self) -> ClusterImage:
        return self._image

    # --- changing -----------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change], *, controller_epoch: int | None = None) -> ClusterImage:
        self._refuse_without_session()
        elected = self._office(changes, controller_epoch)
        with self._lock:
            check_partition_epochs(self._image, changes)
            take_in(self._image, changes)  # refuses what does not fit
        self._model.commit(changes, elected, self)
        with self._lock:
            self._take_in_notices()
            return self.observe(changes)

    def _office(self, changes: Sequence[Change], controller_epoch: int | None) -> Controller | None:
        """The election that a commit is fenced by; None when everybody may make it."""
        if controller_epoch is None and not any(is_for_the_controller(change) for change in changes):
            return None
        elected = self.elected
        if elected is None or controller_epoch not in (None, elected.epoch):
            raise ControllerMoved(f"decided in controller epoch {controller_epoch}, this broker was elected: {elected}")
        return elected

    def observe(self, changes: Sequence[Change]) -> ClusterImage:
        with self._lock:
            self._image = take_in(self._image, changes)
            return self._image

    # --- living together ----------------------------------------------------------------------------------------------

    def register(self, broker: Broker) -> Broker:
        self._refuse_without_session()
        return self._model.register(broker, self)

    def leave(self, broker_id: int) -> None:
        self._model.unregister(broker_id, self)

    def stand(self, broker_id: int) -> Controller:
        self._refuse_without_session()
        controller = self._model.stand(broker_id, self)
        self.elected = controller if controller.broker_id == broker_id else None
        self.observe([SetController(*controller)])
        return controller

    def resign(self, broker_id: int) -> None:
        if self.elected is not None and self.elected.broker_id == broker_id:
            was, self.elected = self.elected, None
            self._model.resign(was, self)

    def controller(self) -> Controller | None:
        self._refuse_without_session()
        return self._model.controller()

    def take_over(self) -> ClusterImage:
        self._refuse_without_session()
        if self.elected is None:
            raise ControllerMoved("this broker was not elected")
        truth = self._model.take_over(self.elected, self)
        with self._lock:
            self._collect_notices()
            for notice in self._waiting:
                notice.is_in = True  # the truth has it, and perhaps what came after it
            self._image = replace(truth, change_number=self._image.change_number + 1)
        self.queue.put(*self._model.requests())
        return self.load()

    def read_topic_settings(self, names: Iterable[str]) -> tuple[Change, ...]:
        self._refuse_without_session()
        with self._lock:
            self._take_in_notices()
            unknown = tuple(_unknown_settings(self._image, self._model.truth, names))
            self.observe(unknown)
        return unknown

    @property
    def session_timeout_ms(self) -> float:
        return self._model.session_timeout_ms

    def dead_threads(self) -> tuple[str, ...]:
        return ()

    def holder_of(self, broker_id: int) -> str | None:
        self._refuse_without_session()
        return self._model.holder_of(broker_id, self)

    def registered_brokers(self) -> tuple[Broker, ...]:
        self._refuse_without_session()
        return tuple(self._model.truth.brokers.values())

    def topic_names(self) -> frozenset[str]:
        self._refuse_without_session()
        truth = self._model.truth
        return frozenset(name for name in truth.topics() if deletion_asked(name) not in truth.stored_values)

    def next_broker_id(self, reserved_max_id: int = 1_000) -> int:
        self._refuse_without_session()
        return reserved_max_id + self._model.next_broker_number()

    def announce_failed_directory(self, broker_id: int) -> None:
        self._refuse_without_session()
        self._model.notify_controller(LogDirFailed((broker_id,)))

    # --- events -------------------------------------------------------------------------------------------------------

    def wake_with(self, wake: Callable[[], None]) -> None:
        self.queue.wake_with(wake)

    def take_events(self) -> list[StoreEvent]:
        with self._lock:
            self._take_in_notices()
            notices = list(self._waiting)
            self._waiting.clear()
        return [notice.event for notice in notices]

    def _take_in_notices(self) -> None:
        self._collect_notices()
        for notice in self._waiting:
            if not notice.is_in:
                notice.is_in = True
                self.observe(notice.changes)

    def _collect_notices(self) -> None:
        self._waiting.extend(self.queue.take())

    # --- sessions -----------------------------------------------------------------------------------------------------

    def session_ended(self) -> None:
        """The model gave this store up."""
        self.elected = None
        self.queue.put(Notice(SessionLost()))

    def session_began(self) -> None:
        """There is a session again."""
        if self.elected is not None:
            self.session_ended()
        self.has_session = True
        self.queue.put(Notice(SessionBack()))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._model.end_session(self, is_notified=False)
            self._model.stores.remove(self)

    def _refuse_without_session(self) -> None:
        if self._closed:
            raise StoreClosed
        if not self.has_session:
            raise NoSession


def _unknown_settings(image: ClusterImage, truth: ClusterImage, names: Iterable[str]) -> Iterator[Change]:
    """What an image lacks of the settings of these topics."""
    for name in names:
        before, after = image.topic_config(name), truth.topic_config(name)
        edits = {key: after.get(key) for key in sorted({*before, *after}) if before.get(key) != after.get(key)}
        if edits:
            yield AlterConfig(ConfigResource(ResourceType.TOPIC, name), tuple(edits.items()))
