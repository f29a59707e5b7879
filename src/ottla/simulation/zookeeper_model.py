"""A model of ZooKeeper at the interface of a shared store (cluster/store/interface.py), without its wire and znodes.

    model = ZooKeeperModel(cluster_id, first_features())     the truth, who is registered, who is controller
    store = model.join()                                     one broker's SharedStore, with a session

What others do to the truth and to sessions is done here:

    end_session(store)       its registration and its office are gone; the others hear of it, and the store too, unless
                             `is_notified=False` (a broker that is cut off believes that it is still there)
    begin_session(store)     there is a session again
    depose()                 the controller is not controller any more, and does not know it yet
    change(changes)          somebody writes past the controller, as tools and old leaders do

1. A registration and an office belong to a store, and end with its session.
2. What is for the controller is fenced: it is written only as long as the store's election is the last one.
3. A commit is written on states that nobody else changed: otherwise it is StaleImage, nothing is written, and the store
   hears what is true (interface.py, 6).
4. What a store is told is a Notice (zookeeper_model_store.py). Calls come one at a time.

One suite (tests/cluster/test_shared_store.py) holds the model and a real ZooKeeper to the same promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.cluster.changes import (
    AddPartitions,
    AlterConfig,
    Change,
    ChangePartition,
    CreateTopic,
    RegisterBroker,
    RemoveTopic,
    SetController,
    SetFeature,
    SetStoredValue,
    UnregisterBroker,
    apply_all,
)
from ottla.cluster.image import NO_CONTROLLER, ClusterImage
from ottla.cluster.model import Broker, ResourceType, StoredKey, Topic
from ottla.cluster.shared_map import SharedMap
from ottla.cluster.store.events import (
    ELECTION_ASKED,
    REASSIGNMENT_ASKED,
    BrokersChanged,
    ConfigChanged,
    Controller,
    ControllerChanged,
    DeletionsAsked,
    ElectionAsked,
    PartitionStatesChanged,
    ReassignmentAsked,
    StoreEvent,
    TopicsChanged,
    deletion_asked,
)
from ottla.cluster.store.interface import BrokerIdTaken, ControllerMoved, StaleImage
from ottla.cluster.store.requests import is_request, request_event, requests_in
from ottla.cluster.store.shared import is_for_the_controller, partition_before, take_in
from ottla.light_dataclasses import replace
from ottla.simulation.zookeeper_model_store import ModelStore, Notice
from ottla.values import TopicPartition

NEVER_WRITTEN: Final = (RegisterBroker, UnregisterBroker, SetController)
"""A broker's own `register` and `stand` wrote them; when a controller commits them, they only enter its image."""


class ZooKeeperModel:
    """See above. `first` are the changes a new cluster begins with."""

    session_timeout_ms = 18_000.0

    def __init__(self, cluster_id: str, first: Sequence[Change] = ()) -> None:
        self.truth = apply_all(ClusterImage(cluster_id), first)
        self.stores: list[ModelStore] = []
        self._owners: dict[int, ModelStore] = {}
        self._in_office: ModelStore | None = None
        self._last_epoch = 0
        self._last_broker_number = 0

    # --- sessions -----------------------------------------------------------------------------------------------------

    def join(self) -> ModelStore:
        """A new member, with a session."""
        store = ModelStore(self)
        self.stores.append(store)
        return store

    def end_session(self, store: ModelStore, *, is_notified: bool = True) -> None:
        if is_notified:
            store.session_ended()
        store.has_session = store.watches_everything = False
        for broker_id in [broker_id for broker_id, owner in self._owners.items() if owner is store]:
            self.unregister(broker_id, store)
        if self._in_office is store:
            self.depose()

    def begin_session(self, store: ModelStore) -> None:
        store.session_began()

    def depose(self) -> None:
        self._in_office = None
        if self.truth.controller_id != NO_CONTROLLER:
            self._set_controller(Controller(NO_CONTROLLER, self.truth.controller_epoch))

    # --- registration and election ------------------------------------------------------------------------------------

    def register(self, broker: Broker, by: ModelStore) -> Broker:
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

    def unregister(self, broker_id: int, by: ModelStore) -> None:
        if self._owners.get(broker_id) is by:
            self._write([UnregisterBroker(broker_id)])
            del self._owners[broker_id]
            self._notify_brokers()

    def holder_of(self, broker_id: int, asking: ModelStore) -> str | None:
        owner = self._owners.get(broker_id, asking)
        return None if owner is asking else f"session {self.stores.index(owner) if owner in self.stores else '?'}"

    def stand(self, broker_id: int, by: ModelStore) -> Controller:
        if self.truth.controller_id == NO_CONTROLLER:
            self._set_controller(Controller(broker_id, self.truth.controller_epoch + 1))
            self._in_office = by
        return Controller(self.truth.controller_id, self.truth.controller_epoch)

    def resign(self, elected: Controller, by: ModelStore) -> None:
        by.watches_everything = False
        if self.truth.controller_epoch == elected.epoch and self._in_office is by:
            self.depose()

    def controller(self) -> Controller | None:
        truth = self.truth
        return None if truth.controller_id == NO_CONTROLLER else Controller(truth.controller_id, truth.controller_epoch)

    # --- changing -----------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change], elected: Controller | None, by: ModelStore) -> None:
        """Make it true, as the controller of that election when there is one."""
        if elected is not None:
            self._fence(elected, by)
        self._refuse_unexpected_states(changes, by)
        self._write_for_all([change for change in changes if not isinstance(change, NEVER_WRITTEN)], by)

    def change(self, changes: Sequence[Change]) -> None:
        """Written by nobody that is a member, so everybody hears of it."""
        before = self.truth
        self._write_for_all(changes, None)
        for change in changes:
            if (event := _event_for_controller(before, self.truth, change)) is not None:
                self.notify_controller(event)

    def _write_for_all(self, changes: Sequence[Change], by: ModelStore | None) -> None:
        if changes:
            self._write(changes)
        if news := _news_of(changes):
            self._notify(ConfigChanged(news), news, but=by)

    def _write(self, changes: Sequence[Change]) -> None:
        self.truth = take_in(self.truth, changes)

    def _fence(self, elected: Controller, by: ModelStore) -> None:
        now = self.truth.controller_epoch
        if elected.epoch != now or self._in_office is not by:
            raise ControllerMoved(f"the controller epoch is {now}, this broker was elected in {elected}")

    def _refuse_unexpected_states(self, changes: Sequence[Change], by: ModelStore) -> None:
        """See 3. What the store knew is one partition epoch before what it writes (check_partition_epochs)."""
        seen: set[tuple[bytes, int]] = set()
        unexpected = []
        for change in changes:
            if not isinstance(change, ChangePartition) or (change.topic_id, change.index) in seen:
                continue
            seen.add((change.topic_id, change.index))
            true = partition_before(self.truth, change)
            if true is not None and change.partition.partition_epoch - 1 != true.partition_epoch:
                unexpected.append((TopicPartition(self.truth.names_by_id[change.topic_id], change.index), true))
        if unexpected:
            by.queue.put(Notice(PartitionStatesChanged(tuple(unexpected))))
            raise StaleImage(f"somebody else changed {', '.join(str(partition) for partition, _ in unexpected)}")

    # --- reading ------------------------------------------------------------------------------------------------------

    def take_over(self, elected: Controller, by: ModelStore) -> ClusterImage:
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
        return [self._with_texts(event) for event in requests_in(self.truth)]

    def next_broker_number(self) -> int:
        self._last_broker_number += 1
        return self._last_broker_number

    # --- telling ------------------------------------------------------------------------------------------------------

    def notify_controller(self, event: StoreEvent) -> None:
        for store in self.stores:
            if store.watches_everything and store.has_session:
                store.queue.put(self._with_texts(event))

    def _with_texts(self, event: StoreEvent) -> Notice:
        """An event with the texts of the request behind it."""
        texts = self.truth.stored_values
        return Notice(event, tuple(SetStoredValue(key, texts.get(key)) for key in _asked_by(event)))

    def _notify(self, event: StoreEvent, changes: tuple[Change, ...], but: ModelStore | None = None) -> None:
        for store in self.stores:
            if store is not but and store.has_session:
                store.queue.put(Notice(event, changes))

    def _notify_brokers(self) -> None:
        self.notify_controller(BrokersChanged(tuple(self.truth.brokers.values())))

    def _set_controller(self, controller: Controller) -> None:
        change = SetController(*controller)
        self._write([change])
        self._notify(ControllerChanged(None if controller.broker_id == NO_CONTROLLER else controller), (change,))


# --- what is told of a change -----------------------------------------------------------------------------------------


def _news_of(changes: Iterable[Change]) -> tuple[Change, ...]:
    """What other members hear of a commit by ConfigChanged. Not the settings of topics that begin with it: a broker
    reads those when it is told to have a replica (`read_topic_settings`), as with Kafka."""
    changes = tuple(changes)
    new = {change.topic.name for change in changes if isinstance(change, CreateTopic)}
    return tuple(change for change in changes if _is_for_everybody(change) and not _is_of_topic_in(new, change))


def _is_for_everybody(change: Change) -> bool:
    if isinstance(change, NEVER_WRITTEN):
        return False
    return isinstance(change, SetFeature) or not is_for_the_controller(change)


def _is_of_topic_in(names: set[str], change: Change) -> bool:
    """Whether it sets something for one of these topics."""
    return (
        isinstance(change, AlterConfig) and change.resource.type is ResourceType.TOPIC and change.resource.name in names
    )


def _event_for_controller(before: ClusterImage, after: ClusterImage, change: Change) -> StoreEvent | None:
    """What the controller hears when somebody else made this change."""
    match change:
        case CreateTopic(topic):
            return TopicsChanged((topic,))
        case RemoveTopic(topic_id):
            return TopicsChanged((), (before.names_by_id[topic_id],))
        case AddPartitions(topic_id):
            grown: Topic | None = after.topic_by_id(topic_id)
            return None if grown is None else TopicsChanged((grown,))
        case ChangePartition(topic_id, index, partition):
            return PartitionStatesChanged(((TopicPartition(after.names_by_id[topic_id], index), partition),))
        case SetStoredValue(key, str(text)):
            return request_event(key, text)
    return None


def _asked_by(event: StoreEvent) -> list[StoredKey]:
    """Where the texts behind an event are kept."""
    match event:
        case DeletionsAsked(names):
            return [deletion_asked(name) for name in names]
        case ReassignmentAsked():
            return [REASSIGNMENT_ASKED]
        case ElectionAsked():
            return [ELECTION_ASKED]
    return []
