"""The truth that several members share, and who may change it: what every ensemble of ours decides.

    Truth      the image that is true, who is registered, who is controller; calls come one at a time
    Seat       what the truth knows of one member; it gets notices (member.py) by `put`

1. A registration and an office belong to a seat, and end with its session.
2. What is for the controller is fenced: it is written only as long as the seat's election is the last one.
3. A commit is written on states that nobody else changed: otherwise it is StaleImage, nothing is written, and the
   seat hears what is true (interface.py, 8).
4. Everything that becomes true goes through `_write`, once, before anybody hears of it. Here that is memory;
   served/kept.py writes it to the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ottla.cluster.changes import (
    Change,
    ChangePartition,
    RegisterBroker,
    SetController,
    SetStoredValue,
    UnregisterBroker,
)
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import Broker
from ottla.cluster.shared_map import SharedMap
from ottla.cluster.store.events import (
    BrokersChanged,
    ConfigChanged,
    Controller,
    ControllerChanged,
    LogDirFailed,
    PartitionStatesChanged,
    StoreEvent,
    deletion_asked,
)
from ottla.cluster.store.interface import BrokerIdTaken, ControllerMoved, StaleImage
from ottla.cluster.store.member import Notice, controller_notice
from ottla.cluster.store.requests import asked_by, events_for_controller, is_request, requests_in
from ottla.cluster.store.shared import NEVER_WRITTEN, changes_for_all, partition_before, take_in
from ottla.light_dataclasses import replace
from ottla.values import TopicPartition


class Seat(Protocol):
    """One member, as the truth knows it."""

    has_session: bool
    watches_everything: bool
    """It took over as controller."""

    def put(self, *notices: Notice) -> None: ...


class Truth:
    """See above; begins with an image."""

    session_timeout_ms = 18_000.0

    def __init__(self, image: ClusterImage) -> None:
        self.truth = image
        self.seats: list[Seat] = []
        self._owners: dict[int, Seat] = {}
        self._in_office: Seat | None = None
        self._last_epoch = 0
        self._last_broker_number = 0

    # --- sessions ---

    def end_session(self, seat: Seat) -> None:
        """Its registration and its being controller are gone; the others hear of it."""
        seat.has_session = seat.watches_everything = False
        for broker_id in [each for each, owner in self._owners.items() if owner is seat]:
            self.unregister(broker_id, seat)
        if self._in_office is seat:
            self.depose()

    def depose(self) -> None:
        """The controller is not controller any more, and hears of it like the others."""
        self._in_office = None
        if self.truth.controller_id != NO_CONTROLLER:
            self._set_controller(Controller(NO_CONTROLLER, self.truth.controller_epoch))

    # --- registration and election ---

    def register(self, broker: Broker, by: Seat) -> Broker:
        if self._owners.get(broker.id, by) is not by:
            raise BrokerIdTaken(f"broker {broker.id} is registered by another session")
        known = self.truth.brokers.get(broker.id) if broker.id in self._owners else None
        registered = replace(broker, epoch=self._next_epoch() if known is None else known.epoch)
        self._write([RegisterBroker(registered)])
        self._owners[broker.id] = by
        self._notify_brokers()
        return registered

    def _next_epoch(self) -> int:
        self._last_epoch += 1
        return self._last_epoch

    def unregister(self, broker_id: int, by: Seat) -> None:
        if self._owners.get(broker_id) is by:
            self._write([UnregisterBroker(broker_id)])
            del self._owners[broker_id]
            self._notify_brokers()

    def holder_of(self, broker_id: int, asking: Seat) -> str | None:
        owner = self._owners.get(broker_id, asking)
        return None if owner is asking else f"session {self.seats.index(owner) if owner in self.seats else '?'}"

    def stand(self, broker_id: int, by: Seat) -> Controller:
        if self.truth.controller_id == NO_CONTROLLER:
            self._set_controller(Controller(broker_id, self.truth.controller_epoch + 1))
            self._in_office = by
        return Controller(self.truth.controller_id, self.truth.controller_epoch)

    def resign(self, elected: Controller, by: Seat) -> None:
        by.watches_everything = False
        if self.truth.controller_epoch == elected.epoch and self._in_office is by:
            self.depose()

    def controller(self) -> Controller | None:
        truth = self.truth
        return None if truth.controller_id == NO_CONTROLLER else Controller(truth.controller_id, truth.controller_epoch)

    # --- changing ---

    def commit(self, changes: Sequence[Change], elected: Controller | None, by: Seat) -> None:
        if elected is not None:
            self._fence(elected, by)
        self._refuse_unexpected_states(changes, by)
        self.write([each for each in changes if not isinstance(each, NEVER_WRITTEN)], by)

    def write(self, changes: Sequence[Change], by: Seat | None) -> None:
        if changes:
            self._write(changes)
        if news := changes_for_all(changes):
            self._notify(ConfigChanged(news), news, but=by)

    def change(self, changes: Sequence[Change]) -> None:
        """Written by nobody that is a member, as tools and old leaders do, so everybody hears of it."""
        before = self.truth
        self.write(changes, None)
        for event in events_for_controller(before, self.truth, changes):
            self.notify_controller(event)

    def _write(self, changes: Sequence[Change]) -> None:
        """Make it true."""
        self.truth = take_in(self.truth, changes)

    def _fence(self, elected: Controller, by: Seat) -> None:
        now = self.truth.controller_epoch
        if elected.epoch != now or self._in_office is not by:
            raise ControllerMoved(f"the controller epoch is {now}, this broker was elected in {elected}")

    def _refuse_unexpected_states(self, changes: Sequence[Change], by: Seat) -> None:
        """See 3. What the member knew is one partition epoch before what it writes (check_partition_epochs)."""
        seen: set[tuple[bytes, int]] = set()
        found = []
        for change in changes:
            if not isinstance(change, ChangePartition) or (change.topic_id, change.index) in seen:
                continue
            seen.add((change.topic_id, change.index))
            true = partition_before(self.truth, change)
            if true is not None and change.partition.partition_epoch - 1 != true.partition_epoch:
                found.append((TopicPartition(self.truth.names_by_id[change.topic_id], change.index), true))
        if found:
            by.put(Notice(PartitionStatesChanged(tuple(found))))
            raise StaleImage(f"somebody else changed {', '.join(str(each) for each, _ in found)}")

    # --- reading ---

    def take_over(self, elected: Controller, by: Seat) -> ClusterImage:
        self._fence(elected, by)
        by.watches_everything = True
        return self.truth

    def known_to_all(self) -> ClusterImage:
        """What a member that is not controller knows: no brokers, topics or requests."""
        truth, empty = self.truth, ClusterImage(self.truth.cluster_id)
        kept = [(key, text) for key, text in truth.stored_values.items() if not is_request(key)]
        return replace(
            truth,
            brokers=empty.brokers,
            topics_by_name=empty.topics_by_name,
            names_by_id=empty.names_by_id,
            colliding_names=empty.colliding_names,
            stored_values=SharedMap(kept),
        )

    def requests(self) -> list[Notice]:
        """What waits for a controller that takes over."""
        return [self._notice(event) for event in requests_in(self.truth)]

    def registered_brokers(self) -> tuple[Broker, ...]:
        return tuple(self.truth.brokers.values())

    def topic_names(self) -> frozenset[str]:
        """The topics that nobody is deleting."""
        truth = self.truth
        return frozenset(name for name in truth.topics() if deletion_asked(name) not in truth.stored_values)

    def topic_settings(self, names: Iterable[str]) -> dict[str, Mapping[str, str]]:
        return {name: self.truth.topic_config(name) for name in names}

    def next_broker_number(self) -> int:
        self._last_broker_number += 1
        return self._last_broker_number

    # --- telling ---

    def announce_failed_directory(self, broker_id: int) -> None:
        self.notify_controller(LogDirFailed((broker_id,)))

    def notify_controller(self, event: StoreEvent) -> None:
        for seat in self.seats:
            if seat.watches_everything and seat.has_session:
                seat.put(self._notice(event))

    def _notice(self, event: StoreEvent) -> Notice:
        """An event with the texts of the request behind it."""
        texts = self.truth.stored_values
        return Notice(event, tuple(SetStoredValue(key, texts.get(key)) for key in asked_by(event)))

    def _notify(self, event: StoreEvent, changes: tuple[Change, ...], but: Seat | None = None) -> None:
        for seat in self.seats:
            if seat is not but and seat.has_session:
                seat.put(Notice(event, changes))

    def _notify_brokers(self) -> None:
        self.notify_controller(BrokersChanged(self.registered_brokers()))

    def _set_controller(self, controller: Controller) -> None:
        self._write([SetController(*controller)])
        news = None if controller.broker_id == NO_CONTROLLER else controller
        self._notify(ControllerChanged(news), controller_notice(news, controller.epoch))
