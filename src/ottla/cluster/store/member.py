"""One member's SharedStore: its image, its events and its office, above an ensemble that keeps the truth.

The ensemble is in the same process (shared_memory.py) or behind a socket (served/): the member is the same.

1. The member's image is its own (interface.py, 6): it moves by what the member commits, observes or takes over.
2. What the ensemble tells is a Notice: an event for the owner, and the changes that the image takes in with it. They
   are in the image when the event is taken at the latest.
3. Things enter the image in the order in which they became true: the ensemble calls `adopt` when a commit is done, and
   before that the image takes in every notice that came earlier. Otherwise an older change of somebody else, taken
   later, would undo ours.
4. The owner may take events while another thread waits for a commit; a lock guards the image, and nobody holds it
   while it waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from ottla.cluster.changes import AlterConfig, Change, SetController
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import Broker, ConfigResource, ResourceType
from ottla.cluster.store.events import Controller, EventQueue, SessionBack, SessionLost, StoreEvent
from ottla.cluster.store.history import History
from ottla.cluster.store.interface import ControllerMoved, NoSession, StoreClosed, Subscription
from ottla.cluster.store.shared import check_partition_epochs, is_for_the_controller, take_in
from ottla.light_dataclasses import dataclass, replace

TopicConfigs: TypeAlias = Mapping[str, Mapping[str, str]]
"""Settings by topic."""


@dataclass(slots=True)
class Notice:
    """An event, and what enters the image with it; `is_in` when it has."""

    event: StoreEvent
    changes: tuple[Change, ...] = ()
    is_in: bool = False


class Ensemble(Protocol):
    """Who keeps the truth, as one member reaches it. Calls may wait, and raise NoSession when nobody answers."""

    @property
    def session_timeout_ms(self) -> float: ...
    def commit(self, changes: Sequence[Change], elected: Controller | None, adopt: Callable[[], None]) -> None:
        """Write, as the controller of that election when there is one; `adopt` is called when it is true."""

    def take_over(self, elected: Controller, adopt: Callable[[ClusterImage], None]) -> None:
        """Everything, to a newly elected controller; from then on its events come."""

    def register(self, broker: Broker) -> Broker: ...
    def unregister(self, broker_id: int) -> None: ...
    def stand(self, broker_id: int) -> Controller: ...
    def resign(self, elected: Controller) -> None: ...
    def controller(self) -> Controller | None: ...
    def holder_of(self, broker_id: int) -> str | None: ...
    def registered_brokers(self) -> tuple[Broker, ...]: ...
    def topic_names(self) -> frozenset[str]: ...
    def topic_settings(self, names: Sequence[str], adopt: Callable[[TopicConfigs], None]) -> None: ...
    def next_broker_number(self) -> int: ...
    def announce_failed_directory(self, broker_id: int) -> None: ...
    def leave(self) -> None:
        """The member closes: its session ends."""


class Member:
    """See above. `first` is what a member that is not controller knows."""

    blocks = False

    def __init__(self, ensemble: Ensemble, first: ClusterImage) -> None:
        self._ensemble = ensemble
        self._history = History(first, take_in)
        self._lock = threading.RLock()
        self._waiting: deque[Notice] = deque()  # notices that the owner has not taken
        self._closed = False
        self.queue: EventQueue[Notice] = EventQueue()
        self.has_session = True
        self.elected: Controller | None = None
        self.membership = self
        self.election = self

    # --- reading ---

    def load(self) -> ClusterImage:
        return self._history.image

    def subscribe(self) -> Subscription:
        with self._lock:
            return self._history.subscribe()

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._history.unsubscribe(subscription)

    # --- changing ---

    def commit(
        self, changes: Sequence[Change], *, expected: int | None = None, controller_epoch: int | None = None
    ) -> ClusterImage:
        self._refuse_without_session()
        elected = self._office(changes, controller_epoch)
        with self._lock:
            check_partition_epochs(self._history.image, changes)
            self._history.next(changes, expected)  # refuses what does not fit
        self._ensemble.commit(changes, elected, lambda: self._adopt(changes))
        return self.load()

    def _office(self, changes: Sequence[Change], controller_epoch: int | None) -> Controller | None:
        """The election that a commit is fenced by; None when everybody may make it."""
        if controller_epoch is None and not any(is_for_the_controller(change) for change in changes):
            return None
        elected = self.elected
        if elected is None or controller_epoch not in (None, elected.epoch):
            raise ControllerMoved(f"decided in controller epoch {controller_epoch}, this broker was elected: {elected}")
        return elected

    def _adopt(self, changes: Sequence[Change]) -> None:
        with self._lock:
            self._take_in_notices()
            self._observe(changes)

    def observe(self, changes: Sequence[Change]) -> ClusterImage:
        with self._lock:
            self._observe(changes)
            return self._history.image

    def _observe(self, changes: Sequence[Change]) -> None:
        self._history.adopt(self._history.next(changes, None), changes)

    # --- living together ---

    def register(self, broker: Broker) -> Broker:
        self._refuse_without_session()
        return self._ensemble.register(broker)

    def leave(self, broker_id: int) -> None:
        self._ensemble.unregister(broker_id)

    def stand(self, broker_id: int) -> Controller:
        self._refuse_without_session()
        controller = self._ensemble.stand(broker_id)
        self.elected = controller if controller.broker_id == broker_id else None
        self.observe([SetController(*controller)])
        return controller

    def resign(self, broker_id: int) -> None:
        if self.elected is not None and self.elected.broker_id == broker_id:
            was, self.elected = self.elected, None
            self._ensemble.resign(was)

    def controller(self) -> Controller | None:
        self._refuse_without_session()
        return self._ensemble.controller()

    def take_over(self) -> ClusterImage:
        self._refuse_without_session()
        if self.elected is None:
            raise ControllerMoved("this broker was not elected")
        self._ensemble.take_over(self.elected, self._replace)
        return self.load()

    def _replace(self, truth: ClusterImage) -> None:
        with self._lock:
            self._collect_notices()
            for notice in self._waiting:
                notice.is_in = True  # the truth has it, and perhaps what came after it
            self._history.replace(replace(truth, change_number=self._history.image.change_number + 1))

    def read_topic_settings(self, names: Iterable[str]) -> tuple[Change, ...]:
        self._refuse_without_session()
        found: list[Change] = []

        def adopt(settings: TopicConfigs) -> None:
            with self._lock:
                self._take_in_notices()
                found.extend(_differences(self._history.image, settings))
                self._observe(found)

        self._ensemble.topic_settings(list(names), adopt)
        return tuple(found)

    @property
    def session_timeout_ms(self) -> float:
        return self._ensemble.session_timeout_ms

    def dead_threads(self) -> tuple[str, ...]:
        return ()

    def holder_of(self, broker_id: int) -> str | None:
        self._refuse_without_session()
        return self._ensemble.holder_of(broker_id)

    def registered_brokers(self) -> tuple[Broker, ...]:
        self._refuse_without_session()
        return self._ensemble.registered_brokers()

    def topic_names(self) -> frozenset[str]:
        self._refuse_without_session()
        return self._ensemble.topic_names()

    def next_broker_id(self, reserved_max_id: int = 1_000) -> int:
        self._refuse_without_session()
        return reserved_max_id + self._ensemble.next_broker_number()

    def announce_failed_directory(self, broker_id: int) -> None:
        self._refuse_without_session()
        self._ensemble.announce_failed_directory(broker_id)

    # --- events ---

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
                self._observe(notice.changes)

    def _collect_notices(self) -> None:
        self._waiting.extend(self.queue.take())

    # --- sessions ---

    def session_ended(self) -> None:
        """The ensemble gave this member up."""
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
            self._ensemble.leave()

    def _refuse_without_session(self) -> None:
        if self._closed:
            raise StoreClosed
        if not self.has_session:
            raise NoSession


def _differences(image: ClusterImage, settings: Mapping[str, Mapping[str, str]]) -> Iterable[Change]:
    """What an image lacks of the settings of topics."""
    for name, after in settings.items():
        present = image.topic_config(name)
        edits = {key: after.get(key) for key in sorted({*present, *after}) if present.get(key) != after.get(key)}
        if edits:
            yield AlterConfig(ConfigResource(ResourceType.TOPIC, name), tuple(edits.items()))


def controller_notice(controller: Controller | None, epoch: int) -> tuple[Change, ...]:
    """What enters an image with ControllerChanged; `epoch` is the last election's."""
    return (SetController(*controller) if controller else SetController(NO_CONTROLLER, epoch),)
