"""A truth that several brokers of one process share: for tests, and as the specification of ZooKeeperStore.

`SharedMemory` is the ensemble. `join()` gives a member: a SharedStore with a session. What others do to the ensemble
and its sessions, a test does here:

    end_session(member)      its registration and its being controller are gone; the others hear of it, and the member
                             too, unless `is_notified=False` (a broker that is cut off believes it is still there)
    begin_session(member)    there is a session again
    depose()                 the controller is not controller any more, and does not know it yet
    change(changes)          somebody writes past the controller, as tools and old leaders do

A member's image is its own (interface.py, 6), so a test sees the same steps as with ZooKeeper: an event first, and a
changed image only after the member decided. Everybody lives on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ottla.cluster.changes import (
    AlterConfig,
    Change,
    ChangePartition,
    RegisterBroker,
    SetController,
    SetStoredValue,
    UnregisterBroker,
    apply_all,
)
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import Broker, ConfigResource, ResourceType
from ottla.cluster.shared_map import SharedMap
from ottla.cluster.store.events import (
    BrokersChanged,
    ConfigChanged,
    Controller,
    ControllerChanged,
    EventQueue,
    LogDirFailed,
    PartitionStatesChanged,
    SessionBack,
    SessionLost,
    StoreEvent,
    deletion_asked,
)
from ottla.cluster.store.history import History
from ottla.cluster.store.interface import (
    BrokerIdTaken,
    Committed,
    ControllerMoved,
    NoSession,
    StaleImage,
    StoreClosed,
    Subscription,
)
from ottla.cluster.store.requests import asked_by, events_for_controller, is_request, requests_in
from ottla.cluster.store.shared import (
    NEVER_WRITTEN,
    changes_for_all,
    check_partition_epochs,
    is_for_the_controller,
    partition_before,
    take_in,
)
from ottla.light_dataclasses import replace
from ottla.values import TopicPartition


class SharedMemory:
    """The ensemble; see above. `first` are the changes a new cluster begins with."""

    session_timeout_ms = 18_000.0

    def __init__(self, cluster_id: str, first: Sequence[Change] = ()) -> None:
        self.truth = apply_all(ClusterImage(cluster_id), first)
        self.members: list[MemoryMember] = []
        self._owners: dict[int, MemoryMember] = {}
        self._in_office: MemoryMember | None = None
        self._last_epoch = 0
        self._last_broker_number = 0

    def join(self) -> MemoryMember:
        """A new member, with a session."""
        member = MemoryMember(self)
        self.members.append(member)
        return member

    # --- what a test does ---

    def end_session(self, member: MemoryMember, *, is_notified: bool = True) -> None:
        member.has_session = False
        if is_notified:
            member.session_ended()
        for broker_id in [each for each, owner in self._owners.items() if owner is member]:
            self.unregister(broker_id, member)
        if self._in_office is member:
            self.depose()

    def end_outlived(self, member: MemoryMember, broker_id: int) -> None:
        """The session of a member that is closed ends, if it is this broker's."""
        if self._owners.get(broker_id) is member:
            member.outlives_close = False
            self.end_session(member, is_notified=False)
            self.members.remove(member)

    def begin_session(self, member: MemoryMember) -> None:
        if member.elected is not None:
            member.session_ended()
        member.has_session = True
        member.queue.put(SessionBack())

    def depose(self) -> None:
        self._in_office = None
        if self.truth.controller_id != NO_CONTROLLER:
            self._set_controller(Controller(NO_CONTROLLER, self.truth.controller_epoch))

    def change(self, changes: Sequence[Change]) -> None:
        """Written by nobody that is a member, so everybody hears of it."""
        before = self.truth
        self.write(changes, None)
        for event in events_for_controller(before, self.truth, changes):
            self.notify_controller(event)

    # --- what members do ---

    def register(self, broker: Broker, owner: MemoryMember) -> Broker:
        if self._owners.get(broker.id, owner) is not owner:
            raise BrokerIdTaken(f"broker {broker.id} is registered by another session")
        self._last_epoch += 1
        registered = replace(broker, epoch=self._last_epoch)
        self._owners[broker.id] = owner
        self.truth = apply_all(self.truth, [RegisterBroker(registered)])
        self._notify_brokers()
        return registered

    def holder_of(self, broker_id: int, asking: MemoryMember) -> str | None:
        owner = self._owners.get(broker_id, asking)
        return None if owner is asking else f"session {self.members.index(owner) if owner in self.members else '?'}"

    def unregister(self, broker_id: int, owner: MemoryMember) -> None:
        if self._owners.get(broker_id) is owner:
            del self._owners[broker_id]
            self.truth = apply_all(self.truth, [UnregisterBroker(broker_id)])
            self._notify_brokers()

    def stand(self, broker_id: int, by: MemoryMember) -> Controller:
        if self.truth.controller_id == NO_CONTROLLER:
            self._in_office = by
            self._set_controller(Controller(broker_id, self.truth.controller_epoch + 1))
        return Controller(self.truth.controller_id, self.truth.controller_epoch)

    def write(self, changes: Sequence[Change], by: MemoryMember | None) -> None:
        self.truth = take_in(self.truth, changes)
        news = changes_for_all(changes)
        for member in self.members:
            if news and member is not by and member.has_session:
                member.queue.put(ConfigChanged(news))

    def next_broker_number(self) -> int:
        self._last_broker_number += 1
        return self._last_broker_number

    def notify_controller(self, event: StoreEvent) -> None:
        for member in self.members:
            if member.watches_everything and member.has_session:
                member.queue.put(event)

    def _notify_brokers(self) -> None:
        self.notify_controller(BrokersChanged(tuple(self.truth.brokers.values())))

    def _set_controller(self, controller: Controller) -> None:
        self.truth = apply_all(self.truth, [SetController(*controller)])
        news = None if controller.broker_id == NO_CONTROLLER else controller
        for member in self.members:
            if member.has_session:
                member.queue.put(ControllerChanged(news))


class MemoryMember:
    """One broker's SharedStore on a SharedMemory."""

    blocks = False

    def __init__(self, shared: SharedMemory) -> None:
        self._shared = shared
        self._history = History(_known_to_all(shared.truth), take_in)
        self._closed = False
        self.queue: EventQueue[StoreEvent] = EventQueue()
        self.has_session = True
        self.outlives_close = False  # the ensemble does not notice that the member is gone
        self.elected: Controller | None = None
        self.watches_everything = False
        self.membership = self
        self.election = self

    # --- reading ---

    def load(self) -> ClusterImage:
        return self._history.image

    def changes_since(self, number: int) -> list[Committed] | None:
        return self._history.since(number)

    def subscribe(self) -> Subscription:
        return self._history.subscribe()

    def unsubscribe(self, subscription: Subscription) -> None:
        self._history.unsubscribe(subscription)

    # --- changing ---

    def commit(
        self, changes: Sequence[Change], *, expected: int | None = None, controller_epoch: int | None = None
    ) -> ClusterImage:
        self._refuse_without_session()
        self._fence(changes, controller_epoch)
        check_partition_epochs(self._history.image, changes)
        image = self._history.next(changes, expected)
        self._refuse_unexpected_states(changes)
        self._shared.write([each for each in changes if not isinstance(each, NEVER_WRITTEN)], self)
        self._history.adopt(image, changes)
        return image

    def observe(self, changes: Sequence[Change]) -> ClusterImage:
        self._history.adopt(self._history.next(changes, None), changes)
        return self._history.image

    def _fence(self, changes: Sequence[Change], controller_epoch: int | None) -> None:
        if controller_epoch is None and not any(is_for_the_controller(change) for change in changes):
            return
        now = Controller(self._shared.truth.controller_id, self._shared.truth.controller_epoch)
        if self.elected is None or now.epoch != self.elected.epoch or controller_epoch not in (None, now.epoch):
            raise ControllerMoved(f"the controller epoch is {now.epoch}, this broker was elected in {self.elected}")

    def _refuse_unexpected_states(self, changes: Sequence[Change]) -> None:
        """A commit is written on states that nobody else changed; see interface.py, 8."""
        surprising = []
        for change in changes:
            if isinstance(change, ChangePartition):
                known, true = (partition_before(each, change) for each in (self.load(), self._shared.truth))
                if true is not None and known is not None and known.partition_epoch != true.partition_epoch:
                    name = self.load().names_by_id[change.topic_id]
                    surprising.append((TopicPartition(name, change.index), true))
        if surprising:
            self.queue.put(PartitionStatesChanged(tuple(surprising)))
            raise StaleImage(f"somebody else changed {', '.join(str(each) for each, _ in surprising)}")

    # --- living together ---

    def register(self, broker: Broker) -> Broker:
        self._refuse_without_session()
        return self._shared.register(broker, self)

    def leave(self, broker_id: int) -> None:
        self._shared.unregister(broker_id, self)

    def stand(self, broker_id: int) -> Controller:
        self._refuse_without_session()
        controller = self._shared.stand(broker_id, self)
        self.elected = controller if controller.broker_id == broker_id else None
        self.observe([SetController(*controller)])
        return controller

    def resign(self, broker_id: int) -> None:
        self.watches_everything = False
        if self.elected is not None and self.elected.broker_id == broker_id:
            was, self.elected = self.elected, None
            if self._shared.truth.controller_epoch == was.epoch:
                self._shared.depose()

    def controller(self) -> Controller | None:
        self._refuse_without_session()
        truth = self._shared.truth
        return None if truth.controller_id == NO_CONTROLLER else Controller(truth.controller_id, truth.controller_epoch)

    def take_over(self) -> ClusterImage:
        self._refuse_without_session()
        self._fence((), self.elected.epoch if self.elected else -1)
        self.watches_everything = True
        number = self._history.image.change_number + 1
        self._history.replace(replace(self._shared.truth, change_number=number))
        self.queue.put(*requests_in(self._shared.truth))
        return self._history.image

    def read_topic_settings(self, names: Iterable[str]) -> tuple[Change, ...]:
        self._refuse_without_session()
        truth, changes = self._shared.truth, list[Change]()
        for name in names:
            resource, before, after = ConfigResource(ResourceType.TOPIC, name), self.load(), truth.topic_config(name)
            present = before.topic_config(name)
            edits = {key: after.get(key) for key in sorted({*present, *after}) if present.get(key) != after.get(key)}
            if edits:
                changes.append(AlterConfig(resource, tuple(edits.items())))
        self.observe(changes)
        return tuple(changes)

    @property
    def session_timeout_ms(self) -> float:
        return self._shared.session_timeout_ms

    def holder_of(self, broker_id: int) -> str | None:
        self._refuse_without_session()
        return self._shared.holder_of(broker_id, self)

    def registered_brokers(self) -> tuple[Broker, ...]:
        self._refuse_without_session()
        return tuple(self._shared.truth.brokers.values())

    def topic_names(self) -> frozenset[str]:
        self._refuse_without_session()
        truth = self._shared.truth
        return frozenset(name for name in truth.topics() if deletion_asked(name) not in truth.stored_values)

    def next_broker_id(self, reserved_max_id: int = 1_000) -> int:
        self._refuse_without_session()
        return reserved_max_id + self._shared.next_broker_number()

    def announce_failed_directory(self, broker_id: int) -> None:
        self._refuse_without_session()
        self._shared.notify_controller(LogDirFailed((broker_id,)))

    # --- events ---

    def wake_with(self, wake: Callable[[], None]) -> None:
        self.queue.wake_with(wake)

    def take_events(self) -> list[StoreEvent]:
        events = self.queue.take()
        for event in events:
            if isinstance(event, ConfigChanged):
                self.observe(event.changes)
            elif isinstance(event, ControllerChanged):
                self.observe([SetController(*event.controller or (NO_CONTROLLER, self.load().controller_epoch))])
            else:
                self.observe(
                    [SetStoredValue(key, self._shared.truth.stored_values.get(key)) for key in asked_by(event)]
                )
        return events

    def session_ended(self) -> None:
        """The ensemble gave this member up."""
        self.elected, self.watches_everything = None, False
        self.queue.put(SessionLost())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if not self.outlives_close:
                self._shared.end_session(self, is_notified=False)
                self._shared.members.remove(self)

    def _refuse_without_session(self) -> None:
        if self._closed:
            raise StoreClosed
        if not self.has_session:
            raise NoSession


def _known_to_all(truth: ClusterImage) -> ClusterImage:
    """What a member that is not controller knows: no brokers, topics or requests."""
    empty = ClusterImage(truth.cluster_id)
    kept = [(key, text) for key, text in truth.stored_values.items() if not is_request(key)]
    return replace(
        truth,
        brokers=empty.brokers,
        topics_by_name=empty.topics_by_name,
        names_by_id=empty.names_by_id,
        colliding_names=empty.colliding_names,
        stored_values=SharedMap(kept),
    )
