"""What a shared store promises: members, election, fencing, events; a real ZooKeeper, and the model that the simulation
has in its place."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import pytest
from kazoo.client import KazooClient
from tests.patience import HANG_S

from ottla.cluster.changes import (
    AddPartitions,
    AllocateProducerIds,
    AlterConfig,
    Change,
    ChangePartition,
    CreateTopic,
    IllegalChange,
    RegisterBroker,
    RemoveTopic,
    SetQuota,
    SetScramCredential,
    SetStoredValue,
)
from ottla.cluster.model import (
    ALL_BROKERS,
    Broker,
    ConfigResource,
    Endpoint,
    Partition,
    ResourceType,
    ScramCredential,
    ScramKey,
    Topic,
)
from ottla.cluster.store.events import (
    REASSIGNMENT_ASKED,
    BrokersChanged,
    ConfigChanged,
    Controller,
    ControllerChanged,
    DeletionsAsked,
    LogDirFailed,
    PartitionStatesChanged,
    ReassignmentAsked,
    SessionBack,
    SessionLost,
    StoreEvent,
    TopicsChanged,
    deletion_asked,
)
from ottla.cluster.store.interface import (
    BrokerIdTaken,
    ControllerMoved,
    NoSession,
    SharedStore,
    StaleImage,
    StoreClosed,
)
from ottla.cluster.store.zookeeper.connecting import Connection
from ottla.cluster.store.zookeeper.session import Session
from ottla.cluster.store.zookeeper.store import ZooKeeperStore
from ottla.cluster.store.zookeeper.writes import Create, writes_of
from ottla.simulation.zookeeper_model import ZooKeeperModel
from ottla.simulation.zookeeper_model_store import ModelStore
from ottla.values import TopicPartition

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
E = TypeVar("E")
_KEPT: WeakKeyDictionary[Any, deque[StoreEvent]] = WeakKeyDictionary()


class Ensemble(Protocol):
    """What the tests do besides being members."""

    def join(self) -> SharedStore: ...
    def expire(self, member: Any) -> None: ...
    def depose(self) -> None: ...
    def change(self, changes: Sequence[Change]) -> None: ...


class ModelEnsemble:
    def __init__(self) -> None:
        self.model = ZooKeeperModel(CLUSTER)

    def join(self) -> ModelStore:
        return self.model.join()

    def expire(self, member: ModelStore) -> None:
        self.model.end_session(member)
        self.model.begin_session(member)

    def depose(self) -> None:
        self.model.depose()

    def change(self, changes: Sequence[Change]) -> None:
        self.model.change(changes)


class ZooKeeperEnsemble:
    def __init__(self, connect: str) -> None:
        self.connection = Connection(connect, session_timeout_ms=6_000)
        self.stores: list[ZooKeeperStore] = []

    def join(self) -> ZooKeeperStore:
        store = ZooKeeperStore(self.connection, cluster_id=CLUSTER)
        store.load()
        self.stores.append(store)
        return store

    def expire(self, member: ZooKeeperStore) -> None:
        """A second connection of the same session that says good-bye ends it."""
        twin = KazooClient(self.connection.servers, client_id=member._session._client.client_id)
        twin.start()
        twin.stop()
        twin.close()

    def depose(self) -> None:
        self.raw(lambda client: client.delete("/controller"))

    def change(self, changes: Sequence[Change]) -> None:
        """As somebody who is not fenced; a changed state is noted as leaders before Kafka 2.7 did."""
        image = self.stores[0].load()
        for store in self.stores:
            image = store.load() if list(store.load().topics()) else image
        writes = writes_of(image, changes, {}, 1)
        note = b'{"version":1,"partitions":[{"topic":"%s","partition":%d}]}'
        notes = [
            note % (image.names_by_id[change.topic_id].encode(), change.index)
            for change in changes
            if isinstance(change, ChangePartition)
        ]
        session = Session(self.connection, lambda path: None, lambda connected, lost: None)
        session.start()
        session.make([*writes, *(Create("/isr_change_notification/isr_change_", each, True) for each in notes)])
        session.close()

    def raw(self, do: Callable[[KazooClient], Any]) -> Any:
        client = KazooClient(self.connection.hosts)
        client.start()
        try:
            return do(client)
        finally:
            client.stop()
            client.close()


@pytest.fixture(params=["model", "zookeeper"])
def ensemble(request: pytest.FixtureRequest) -> Iterator[Ensemble]:
    if request.param == "model":
        yield ModelEnsemble()
        return
    on_zookeeper = ZooKeeperEnsemble(request.getfixturevalue("chroot"))
    yield on_zookeeper
    for store in on_zookeeper.stores:
        store.close()


def wait_for(member: SharedStore, kind: type[E], fits: Callable[[E], bool] = lambda event: True) -> E:
    """The next event of that kind; what came before it is passed over, what comes after it is kept."""
    kept = _KEPT.setdefault(member, deque())
    something = threading.Event()
    member.wake_with(something.set)
    while True:
        something.clear()
        kept.extend(member.take_events())
        while kept:
            event = kept.popleft()
            if isinstance(event, kind) and fits(event):
                return event
        assert something.wait(HANG_S), f"no {kind.__name__} came"


def broker(number: int, **more: Any) -> Broker:
    return Broker(number, (Endpoint("PLAINTEXT", "localhost", 9092 + number),), **more)


def topic(name: str, *, partitions: int = 2, replicas: tuple[int, ...] = (1, 2)) -> Topic:
    identity = name.encode().ljust(16, b"\1")
    return Topic(name, identity, (Partition(replicas, replicas, replicas[0]),) * partitions)


def elected(ensemble: Ensemble, number: int = 1) -> SharedStore:
    """A member that is registered, elected, and has taken over."""
    member = ensemble.join()
    member.membership.register(broker(number))
    assert member.election.stand(number).broker_id == number
    member.take_over()
    member.take_events()
    return member


# --- members ----------------------------------------------------------------------------------------------------------


def test_all_members_are_of_one_cluster(ensemble: Ensemble) -> None:
    assert {ensemble.join().load().cluster_id for _ in range(3)} == {CLUSTER}


def test_a_broker_gets_a_larger_epoch_every_time_it_registers(ensemble: Ensemble) -> None:
    member = ensemble.join()
    first = member.membership.register(broker(1, rack="a"))
    member.membership.leave(1)
    second = member.membership.register(broker(1, rack="a"))
    assert second.epoch > first.epoch > 0
    assert replace(first, epoch=-1) == broker(1, rack="a")


def test_who_registers_again_in_its_session_keeps_its_epoch_and_is_known_anew(ensemble: Ensemble) -> None:
    member, controller = ensemble.join(), elected(ensemble, 2)
    first = member.membership.register(replace(broker(1), lost_memory=True))
    assert member.membership.register(broker(1)).epoch == first.epoch
    assert [each.lost_memory for each in controller.registered_brokers() if each.id == 1] == [False]
    assert [each.lost_memory for each in ensemble.join().registered_brokers() if each.id == 1] == [False]


def test_an_id_that_another_session_holds_is_refused(ensemble: Ensemble) -> None:
    first, second = ensemble.join(), ensemble.join()
    first.membership.register(broker(1))
    with pytest.raises(BrokerIdTaken):
        second.membership.register(broker(1))
    first.close()
    assert second.membership.register(broker(1)).id == 1


def test_generated_ids_are_above_the_reserved_ones_and_never_twice(ensemble: Ensemble) -> None:
    members = ensemble.join(), ensemble.join()
    assert [member.next_broker_id() for member in (*members, *members)] == [1001, 1002, 1003, 1004]
    assert members[0].next_broker_id(reserved_max_id=5) == 10


def test_a_closed_member_takes_no_commits(ensemble: Ensemble) -> None:
    member = ensemble.join()
    member.close()
    member.close()
    with pytest.raises(StoreClosed):
        member.commit([SetQuota((("user", "a"),), "producer_byte_rate", 1.0)])


# --- election and fencing ---------------------------------------------------------------------------------------------


def test_the_first_that_stands_is_elected_and_the_others_hear_of_it(ensemble: Ensemble) -> None:
    first, second = ensemble.join(), ensemble.join()
    assert first.controller() is None
    assert first.election.stand(1) == Controller(1, 1)
    assert second.election.stand(2) == Controller(1, 1)
    assert second.controller() == Controller(1, 1)
    assert wait_for(second, ControllerChanged).controller == Controller(1, 1)
    assert second.load().controller_id == 1


def test_when_the_controller_resigns_the_next_has_a_larger_epoch(ensemble: Ensemble) -> None:
    first, second = ensemble.join(), ensemble.join()
    first.election.stand(1)
    second.election.stand(2)
    second.election.resign(2)
    assert second.controller() == Controller(1, 1)
    wait_for(second, ControllerChanged, lambda event: event.controller == Controller(1, 1))  # else it may miss both
    first.election.resign(1)
    wait_for(second, ControllerChanged, lambda event: event.controller is None)
    assert second.election.stand(2) == Controller(2, 2)


def test_a_controller_that_was_replaced_writes_nothing_more(ensemble: Ensemble) -> None:
    old, new = elected(ensemble, 1), ensemble.join()
    old.commit([CreateTopic(topic("a"))])
    ensemble.depose()
    assert new.election.stand(2) == Controller(2, 2)
    for changes in ([CreateTopic(topic("b"))], [ChangePartition(topic("a").id, 0, Partition((1, 2), (1,), 1, 1, 1))]):
        with pytest.raises(ControllerMoved):
            old.commit(changes)
    image = new.take_over()
    assert list(image.topics()) == ["a"]
    assert image.partition("a", 0) == Partition((1, 2), (1, 2), 1)


def test_who_was_never_elected_changes_no_topics(ensemble: Ensemble) -> None:
    member = ensemble.join()
    with pytest.raises(ControllerMoved):
        member.commit([CreateTopic(topic("a"))])


def test_what_was_decided_under_one_election_is_not_written_under_another(ensemble: Ensemble) -> None:
    member = elected(ensemble)
    member.election.resign(1)
    assert member.election.stand(1).epoch == 2
    with pytest.raises(ControllerMoved):
        member.commit([CreateTopic(topic("a"))], controller_epoch=1)
    assert member.commit([CreateTopic(topic("a"))], controller_epoch=2).topic("a") == topic("a")


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_lost_session_takes_registration_and_office_away(ensemble: Ensemble) -> None:
    lost, other = elected(ensemble, 1), ensemble.join()
    other.membership.register(broker(2))
    other.election.stand(2)
    ensemble.expire(lost)
    wait_for(lost, SessionLost)
    wait_for(other, ControllerChanged, lambda event: event.controller is None)
    assert other.election.stand(2) == Controller(2, 2)
    assert 1 not in other.take_over().brokers
    wait_for(lost, SessionBack)
    with pytest.raises(ControllerMoved):
        lost.commit([CreateTopic(topic("a"))])
    again = lost.membership.register(broker(1))
    live = wait_for(other, BrokersChanged, lambda event: len(event.live) == 2).live
    assert [each.id for each in live] == [1, 2]
    assert live[0] == again


def test_the_controller_hears_of_brokers_that_come_and_go(ensemble: Ensemble) -> None:
    controller, other = elected(ensemble, 1), ensemble.join()
    there = other.membership.register(broker(2, rack="r"))
    live = wait_for(controller, BrokersChanged, lambda event: len(event.live) == 2).live
    assert live[1] == there
    assert 2 not in controller.load().brokers
    controller.commit([RegisterBroker(there)])
    assert controller.load().brokers[2] == there
    other.close()
    assert [each.id for each in wait_for(controller, BrokersChanged).live] == [1]


# --- topics -----------------------------------------------------------------------------------------------------------


def test_what_a_controller_committed_the_next_one_reads(ensemble: Ensemble) -> None:
    first = elected(ensemble, 1)
    made = topic("orders", partitions=3)
    first.commit([CreateTopic(made), AlterConfig(ConfigResource(ResourceType.TOPIC, "orders"), (("a", "b"),))])
    moved = replace(made.partitions[1], isr=(2,), leader=2, leader_epoch=1, partition_epoch=1, recovering=True)
    grown = Partition((2, 1), (2, 1), 2)
    moving = replace(made.partitions[2], replicas=(1, 2, 3), adding=(3,), removing=(1,), partition_epoch=1)
    first.commit([ChangePartition(made.id, 1, moved), AddPartitions(made.id, (grown,))])
    first.commit([ChangePartition(made.id, 2, moving), AllocateProducerIds(1, 5, 1000)])
    first.close()
    second = elected(ensemble, 2)
    image = second.load()
    assert image.topic("orders") == Topic("orders", made.id, (made.partitions[0], moved, moving, grown))
    assert image.topic_config("orders") == {"a": "b"}
    assert image.next_producer_id == 1000
    assert list(image.brokers) == [2]


def test_a_removed_topic_is_gone_with_its_settings_and_the_request(ensemble: Ensemble) -> None:
    controller = elected(ensemble)
    made = topic("t")
    controller.commit([CreateTopic(made), AlterConfig(ConfigResource(ResourceType.TOPIC, "t"), (("a", "b"),))])
    controller.commit([SetStoredValue(deletion_asked("t"), "")])
    controller.commit([RemoveTopic(made.id), SetStoredValue(deletion_asked("t"), None)])
    image = controller.take_over()
    assert (list(image.topics()), len(image.configs), image.stored("topic-deletion")) == ([], 0, {})
    assert controller.commit([CreateTopic(made)]).topic("t") == made


def test_a_deletion_that_waits_is_told_to_the_next_controller(ensemble: Ensemble) -> None:
    first = elected(ensemble, 1)
    first.commit([CreateTopic(topic("t")), SetStoredValue(deletion_asked("t"), "")])
    first.close()
    second = ensemble.join()
    second.election.stand(2)
    assert second.take_over().stored("topic-deletion") == {"t": ""}
    assert wait_for(second, DeletionsAsked).names == ("t",)


def test_a_state_that_somebody_else_changed_is_not_overwritten(ensemble: Ensemble) -> None:
    controller = elected(ensemble)
    made = topic("t")
    controller.commit([CreateTopic(made)])
    shrunk = replace(made.partitions[0], isr=(1,), partition_epoch=1)
    ensemble.change([ChangePartition(made.id, 0, shrunk)])
    mine = replace(made.partitions[0], leader=2, leader_epoch=1, partition_epoch=1)
    with pytest.raises(StaleImage):
        controller.commit([ChangePartition(made.id, 0, mine), ChangePartition(made.id, 1, mine)])
    told = wait_for(controller, PartitionStatesChanged).partitions
    assert told == ((TopicPartition("t", 0), shrunk),)
    assert controller.load().topic("t") == made
    controller.observe([ChangePartition(made.id, 0, shrunk)])
    mine = replace(shrunk, leader=2, leader_epoch=1, partition_epoch=2)
    controller.commit([ChangePartition(made.id, 0, mine)])
    assert controller.take_over().partition("t", 0) == mine


def test_a_partition_epoch_that_does_not_count_by_one_is_a_mistake(ensemble: Ensemble) -> None:
    controller = elected(ensemble)
    controller.commit([CreateTopic(topic("t"))])
    with pytest.raises(IllegalChange):
        controller.commit([ChangePartition(topic("t").id, 0, Partition((1, 2), (1,), 1, 1, 5))])


def test_the_controller_hears_of_topics_that_others_made_or_removed(ensemble: Ensemble) -> None:
    controller = elected(ensemble)
    mine, others = topic("mine"), topic("others")
    controller.commit([CreateTopic(mine)])
    ensemble.change([CreateTopic(others)])
    assert wait_for(controller, TopicsChanged) == TopicsChanged((others,))
    controller.observe([CreateTopic(others)])
    ensemble.change([RemoveTopic(others.id)])
    assert wait_for(controller, TopicsChanged) == TopicsChanged((), ("others",))


def test_the_controller_hears_of_requests_and_failed_directories(ensemble: Ensemble) -> None:
    controller, other = elected(ensemble), ensemble.join()
    text = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}'
    ensemble.change([SetStoredValue(REASSIGNMENT_ASKED, text)])
    assert wait_for(controller, ReassignmentAsked).targets == ((TopicPartition("t", 0), (2, 1)),)
    controller.commit([SetStoredValue(REASSIGNMENT_ASKED, None)])
    other.announce_failed_directory(2)
    assert wait_for(controller, LogDirFailed).broker_ids == (2,)
    ensemble.change([SetStoredValue(deletion_asked("t"), "")])
    assert wait_for(controller, DeletionsAsked).names == ("t",)


# --- what everybody may change ----------------------------------------------------------------------------------------


def test_every_member_may_change_settings_and_the_others_hear_of_it(ensemble: Ensemble) -> None:
    first, second = ensemble.join(), ensemble.join()
    credential = ScramCredential(4096, b"salt", b"stored", b"server")
    changes: tuple[Change, ...] = (
        AlterConfig(ConfigResource(ResourceType.TOPIC, "t"), (("a", "b"),)),
        AlterConfig(ALL_BROKERS, (("num.io.threads", "9"),)),
        SetQuota((("user", "al/ice"),), "producer_byte_rate", 1024.0),
        SetQuota((("client-id", None), ("user", None)), "request_percentage", 12.5),
        SetScramCredential(ScramKey("al/ice", 1), credential),
    )
    for change in changes:
        first.commit([change])
    heard: list[Change] = []
    while len(heard) < len(changes):
        heard += wait_for(second, ConfigChanged).changes
    assert sorted(heard, key=repr) == sorted(changes, key=repr)
    images = first.load(), second.load(), ensemble.join().load()
    for image in images:
        assert image.topic_config("t") == {"a": "b"}
        assert image.config(ALL_BROKERS) == {"num.io.threads": "9"}
        assert image.quotas[(("user", "al/ice"),)] == {"producer_byte_rate": 1024.0}
        assert image.quotas[(("client-id", None), ("user", None))] == {"request_percentage": 12.5}
        assert image.scram_credentials[ScramKey("al/ice", 1)] == credential


def test_settings_that_a_topic_begins_with_are_read_not_told(ensemble: Ensemble) -> None:
    controller, other = elected(ensemble), ensemble.join()
    setting = AlterConfig(ConfigResource(ResourceType.TOPIC, "t"), (("retention.ms", "1"),))
    controller.commit([CreateTopic(topic("t")), setting])
    assert other.read_topic_settings(["t", "unknown"]) == (setting,)
    assert other.load().topic_config("t") == {"retention.ms": "1"}
    assert other.read_topic_settings(["t"]) == ()
    again = AlterConfig(ConfigResource(ResourceType.TOPIC, "t"), (("retention.ms", "2"),))
    controller.commit([again])
    assert wait_for(other, ConfigChanged).changes == (again,)


def test_two_members_that_set_different_things_lose_neither(ensemble: Ensemble) -> None:
    first, second = ensemble.join(), ensemble.join()
    user = (("user", "u"),)
    first.commit([SetQuota(user, "producer_byte_rate", 1.0)])
    second.commit([SetQuota(user, "consumer_byte_rate", 2.0)])
    first.commit([SetQuota(user, "producer_byte_rate", None)])
    assert ensemble.join().load().quotas[user] == {"consumer_byte_rate": 2.0}


def test_without_a_session_nothing_is_changed() -> None:
    model = ZooKeeperModel(CLUSTER)
    member = model.join()
    model.end_session(member, is_notified=False)
    with pytest.raises(NoSession):
        member.commit([AlterConfig(ALL_BROKERS, (("a", "b"),))])
    assert member.take_events() == []
