"""A truth that several brokers of one process share: for tests, and as the specification of the other ensembles.

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

from collections.abc import Callable, Sequence

from ottla.cluster.changes import Change, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import Broker
from ottla.cluster.store.events import Controller
from ottla.cluster.store.member import Member, Notice, TopicConfigs
from ottla.cluster.store.truth import Seat, Truth


class SharedMemory(Truth):
    """The ensemble; see above. `first` are the changes a new cluster begins with."""

    def __init__(self, cluster_id: str, first: Sequence[Change] = ()) -> None:
        super().__init__(apply_all(ClusterImage(cluster_id), first))
        self.members: list[MemoryMember] = []

    def join(self) -> MemoryMember:
        """A new member, with a session."""
        member = MemoryMember(self)
        self.members.append(member)
        self.seats.append(member)
        return member

    def end_session(self, seat: Seat, *, is_notified: bool = True) -> None:
        if is_notified and isinstance(seat, MemoryMember):
            seat.has_session = False
            seat.session_ended()
        super().end_session(seat)

    def end_outlived(self, member: MemoryMember, broker_id: int) -> None:
        """The session of a member that is closed ends, if it is this broker's."""
        if self._owners.get(broker_id) is member:
            member.outlives_close = False
            self.end_session(member, is_notified=False)
            self.forget(member)

    def begin_session(self, member: MemoryMember) -> None:
        member.session_began()

    def forget(self, member: MemoryMember) -> None:
        self.members.remove(member)
        self.seats.remove(member)


class MemoryMember(Member):
    """One broker's SharedStore on a SharedMemory."""

    def __init__(self, shared: SharedMemory) -> None:
        super().__init__(_InProcess(shared, self), shared.known_to_all())
        self._shared = shared
        self.watches_everything = False
        self.outlives_close = False  # the ensemble does not notice that the member is gone

    def put(self, *notices: Notice) -> None:
        self.queue.put(*notices)


class _InProcess:
    """The Ensemble of one member: plain calls."""

    def __init__(self, shared: SharedMemory, member: MemoryMember) -> None:
        self._shared = shared
        self._member = member

    @property
    def session_timeout_ms(self) -> float:
        return self._shared.session_timeout_ms

    def commit(self, changes: Sequence[Change], elected: Controller | None, adopt: Callable[[], None]) -> None:
        self._shared.commit(changes, elected, self._member)
        adopt()

    def take_over(self, elected: Controller, adopt: Callable[[ClusterImage], None]) -> None:
        adopt(self._shared.take_over(elected, self._member))
        self._member.put(*self._shared.requests())

    def register(self, broker: Broker) -> Broker:
        return self._shared.register(broker, self._member)

    def unregister(self, broker_id: int) -> None:
        self._shared.unregister(broker_id, self._member)

    def stand(self, broker_id: int) -> Controller:
        return self._shared.stand(broker_id, self._member)

    def resign(self, elected: Controller) -> None:
        self._shared.resign(elected, self._member)

    def controller(self) -> Controller | None:
        return self._shared.controller()

    def holder_of(self, broker_id: int) -> str | None:
        return self._shared.holder_of(broker_id, self._member)

    def registered_brokers(self) -> tuple[Broker, ...]:
        return self._shared.registered_brokers()

    def topic_names(self) -> frozenset[str]:
        return self._shared.topic_names()

    def topic_settings(self, names: Sequence[str], adopt: Callable[[TopicConfigs], None]) -> None:
        adopt(self._shared.topic_settings(names))

    def next_broker_number(self) -> int:
        return self._shared.next_broker_number()

    def announce_failed_directory(self, broker_id: int) -> None:
        self._shared.announce_failed_directory(broker_id)

    def leave(self) -> None:
        if not self._member.outlives_close:
            self._shared.end_session(self._member, is_notified=False)
            self._shared.forget(self._member)
