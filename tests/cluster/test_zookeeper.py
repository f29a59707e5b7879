"""ZooKeeperStore when the ensemble is not well: nodes that die, answers that are lost, commits that are large."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla.cluster.changes import AlterConfig, ChangePartition, CreateTopic, RemoveTopic, SetStoredValue
from ottla.cluster.model import ALL_BROKERS, Broker, Endpoint, Partition, Topic
from ottla.cluster.store.events import (
    ConfigChanged,
    Controller,
    DeletionsAsked,
    PartitionStatesChanged,
    SessionBack,
    TopicsChanged,
    deletion_asked,
)
from ottla.cluster.store.interface import ControllerMoved, NoSession, StaleImage
from ottla.cluster.store.zookeeper.connecting import Connection
from ottla.testing.zookeeper import ZooKeeperServer, missing

if (REASON := missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, UnimplementedError

from ottla.cluster.store.zookeeper.facts import RequestsRead, TopicsRead
from ottla.cluster.store.zookeeper.store import ZooKeeperStore
from ottla.cluster.store.zookeeper.writes import Create, Delete, SetData

BROKER = Broker(1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092),))
ID = b"0123456789abcdef"
Open = Callable[..., ZooKeeperStore]


CHROOTS = count()


@pytest.fixture
def chroot() -> str:
    """The path alone: some tests have servers of their own."""
    return f"/here/{next(CHROOTS)}"


@pytest.fixture
def opened() -> Iterator[list[ZooKeeperStore]]:
    stores: list[ZooKeeperStore] = []
    yield stores
    for store in stores:
        store.close()


@pytest.fixture
def open_store(zookeeper: ZooKeeperServer, chroot: str, opened: list[ZooKeeperStore]) -> Open:
    def make(connect: str = zookeeper.connect, session_timeout_ms: int = 20_000) -> ZooKeeperStore:
        store = ZooKeeperStore(Connection(connect + chroot, session_timeout_ms=session_timeout_ms))
        opened.append(store)
        store.load()
        return store

    return make


def lead(store: ZooKeeperStore, number: int = 1) -> None:
    store.register(replace(BROKER, id=number))
    assert store.stand(number).broker_id == number
    store.take_over()


def topic(partitions: int = 1) -> Topic:
    return Topic("t", ID, (Partition((1, 2, 3), (1, 2, 3), 1),) * partitions)


def event_of(store: ZooKeeperStore, kind: type[Any]) -> Any:
    something = threading.Event()
    store.wake_with(something.set)
    while True:
        something.clear()
        for event in store.take_events():
            if isinstance(event, kind):
                return event
        assert something.wait(HANG_S), f"no {kind.__name__} came"


# --- nodes that die ---------------------------------------------------------------------------------------------------


def test_a_server_that_restarts_costs_neither_session_nor_commit(tmp_path: Path, open_store: Open) -> None:
    # A session may be as long as 20 ticks: long enough for the restart of a JVM on a machine that is busy.
    with ZooKeeperServer(tmp_path, durable=True, tick_ms=3_000) as own:
        store, other = (open_store(own.connect, session_timeout_ms=60_000) for _ in range(2))
        lead(store)
        (node,) = own.nodes
        own.signal_node(node, signal.SIGKILL)
        own.start_node(node)
        image = store.commit([CreateTopic(topic()), AlterConfig(ALL_BROKERS, (("a", "b"),))])
        assert image.topic("t") == topic()
        assert event_of(other, ConfigChanged).changes == (AlterConfig(ALL_BROKERS, (("a", "b"),)),)
        assert store.controller() == Controller(1, 1)
        assert not [event for event in store.take_events() if isinstance(event, SessionBack)]
        for each in (store, other):
            each.close()


def test_an_ensemble_of_three_goes_on_without_one(tmp_path: Path, open_store: Open) -> None:
    with ZooKeeperServer(tmp_path, nodes=3) as ensemble:
        store = open_store(ensemble.connect)
        lead(store)
        store.commit([CreateTopic(topic())])
        for number, node in enumerate(ensemble.nodes):
            ensemble.signal_node(node, signal.SIGKILL)
            store.commit([AlterConfig(ALL_BROKERS, (("number", str(number)),))])
            ensemble.start_node(node)
            ensemble.wait([node])
        assert store.take_over().config(ALL_BROKERS) == {"number": "2"}
        assert store.controller() == Controller(1, 1)
        store.close()


def test_without_any_server_it_says_so(open_store: Open) -> None:
    with pytest.raises(NoSession, match=r"look at zookeeper\.connect"):
        open_store("127.0.0.1:1", session_timeout_ms=300)


# --- answers that are lost --------------------------------------------------------------------------------------------


class LostAnswers:
    """The next `count` transactions are made, and their answers are lost."""

    def __init__(self, store: ZooKeeperStore, number: int = 1) -> None:
        self.left = number
        self._session = store._session
        self._send = store._session._send

    def __enter__(self) -> LostAnswers:
        self._session._send = self._sent  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        self._session._send = self._send  # type: ignore[method-assign]

    def _sent(self, batch: Any) -> Any:
        answer = self._send(batch)
        if not self.left:
            return answer
        self.left -= 1
        answer.wait(HANG_S)
        lost = self._session._client.handler.async_result()
        lost.set_exception(ConnectionLoss())
        return lost


def test_a_commit_whose_answer_was_lost_is_made_once(open_store: Open) -> None:
    store = open_store()
    lead(store)
    with LostAnswers(store):
        store.commit([CreateTopic(topic())])
    changed = replace(topic().partitions[0], isr=(1,), leader_epoch=1, partition_epoch=1)
    with LostAnswers(store):
        store.commit([ChangePartition(ID, 0, changed)])
    with LostAnswers(store):
        store.commit([AlterConfig(ALL_BROKERS, (("a", "b"),))])
    store.commit([AlterConfig(ALL_BROKERS, (("a", "c"),))])
    image = store.take_over()
    assert image.partition("t", 0) == changed
    assert image.config(ALL_BROKERS) == {"a": "c"}
    with LostAnswers(store):
        store.commit([RemoveTopic(ID)])
    assert not list(store.take_over().topics())


def test_an_election_whose_answer_was_lost_is_won_once(open_store: Open) -> None:
    store = open_store()
    with LostAnswers(store):
        registered = store.register(BROKER)
    store.controller()
    with LostAnswers(store, 2):
        assert store.stand(1) == Controller(1, 1)
    assert list(store.take_over().brokers.values()) == [registered]
    store.commit([CreateTopic(topic())])


# --- fencing ----------------------------------------------------------------------------------------------------------


def test_a_paused_controller_is_fenced_in_the_middle_of_a_large_commit(open_store: Open) -> None:
    old, new = open_store(), open_store()
    lead(old, 1)
    pending = old.begin([CreateTopic(topic(3_000))])
    old._session.make([Delete("/controller")])
    lead(new, 2)
    with pytest.raises(ControllerMoved):
        pending.write()
    assert not list(new.take_over().topics())


def test_a_commit_that_was_half_made_is_read_again(open_store: Open) -> None:
    store, other = open_store(), open_store()
    lead(store)
    store.commit([CreateTopic(topic(1_500))])
    path = "/brokers/topics/t/partitions/1499/state"
    other._session.make([SetData(path, b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}')])
    changed = replace(topic().partitions[0], leader=2, leader_epoch=1, partition_epoch=1)
    with pytest.raises(StaleImage):
        store.commit([ChangePartition(ID, index, changed) for index in range(1_500)])
    told = dict(event_of(store, PartitionStatesChanged).partitions)
    assert told[("t", 1499)].isr == (1,)
    assert told[("t", 0)] == changed
    store.observe([ChangePartition(ID, index, state) for (_, index), state in told.items()])
    assert store.load().topic("t") == store.take_over().topic("t")


def test_a_commit_that_is_under_way_is_not_told_as_news(open_store: Open) -> None:
    store = open_store()
    lead(store)
    store.take_events()
    pending = store.begin([CreateTopic(topic())])
    pending.write()
    store._watching._read_topics()
    assert not [event for event in store.take_events() if isinstance(event, TopicsChanged)]
    store.finish(pending)
    assert not [event for event in store.take_events() if isinstance(event, TopicsChanged)]
    assert store.load().topic("t") == topic()


def test_members_of_one_process_may_commit_at_the_same_time(open_store: Open) -> None:
    store = open_store()
    lead(store)

    def change(number: int) -> None:
        store.commit([AlterConfig(ALL_BROKERS, ((f"name.{number}", "x"),))])
        store.commit([CreateTopic(replace(topic(), name=f"t{number}", id=bytes([number]) * 16))])

    threads = [threading.Thread(target=change, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    image = store.load()
    assert len(image.config(ALL_BROKERS)) == 8
    assert len(list(image.topics())) == 8
    again = store.take_over()
    assert (again.configs, again.topics_by_name) == (image.configs, image.topics_by_name)


def test_a_look_that_failed_is_taken_again(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cluster.store.zookeeper.watching.AGAIN_AFTER_S", 0.01)
    store, other = open_store(), open_store()
    kept, failures = other._session.children, iter([NoSession("once"), OSError("twice")])

    def children(path: str, *, watch: bool = False) -> list[str]:
        for failure in failures:
            raise failure
        return kept(path, watch=watch)

    monkeypatch.setattr(other._session, "children", children)
    change = AlterConfig(ALL_BROKERS, (("a", "b"),))
    store.commit([change])
    assert event_of(other, ConfigChanged).changes == (change,)


# --- large ------------------------------------------------------------------------------------------------------------


def test_a_topic_larger_than_a_transaction_is_made_read_and_removed(open_store: Open) -> None:
    store, other = open_store(), open_store()
    lead(store)
    large = topic(2_500)
    store.commit([CreateTopic(large)])
    assert store.take_over().topic("t") == large
    store.commit([RemoveTopic(ID)])
    assert other._session.children("/brokers/topics") == []


def test_a_removed_topic_goes_also_when_it_has_other_nodes_than_expected(open_store: Open) -> None:
    store, other = open_store(), open_store()
    lead(store)
    store.commit([CreateTopic(topic(2))])
    other._session.make([Delete("/brokers/topics/t/partitions/1/state"), Create("/brokers/topics/t/partitions/9")])
    store.commit([RemoveTopic(ID)])
    assert other._session.children("/brokers/topics") == []


def test_a_server_that_reads_nodes_only_one_by_one_is_asked_so(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    lead(store)
    store.commit([CreateTopic(topic(3))])

    def refused(group: list[str]) -> Any:
        answer = store._session._client.handler.async_result()
        answer.set_exception(UnimplementedError())
        return answer

    monkeypatch.setattr(store._session, "_ask_in_bulk", refused)
    assert store.take_over().topic("t") == topic(3)
    assert not store._session._reads_in_bulk


# --- what is there ----------------------------------------------------------------------------------------------------


def test_a_new_cluster_looks_like_one_of_kafka(zookeeper: ZooKeeperServer, chroot: str, open_store: Open) -> None:
    store = open_store()
    client = KazooClient(zookeeper.connect)
    client.start()
    try:
        assert client.get(f"{chroot}/brokers/ids")[0] is None
        assert client.get(f"{chroot}/feature")[0] == b'{"features":{},"version":2,"status":1}'
        made = set(client.get_children(chroot))
        assert made >= {"admin", "brokers", "cluster", "config", "consumers", "isr_change_notification"}
        lead(store)
        assert client.get(f"{chroot}/controller_epoch")[0] == b"1"
        assert b'"kraftControllerEpoch":-1' in client.get(f"{chroot}/controller")[0]
        assert client.get(f"{chroot}/brokers/ids/1")[1].ephemeralOwner == store._session.id
        assert "controller" not in client.get_children("/")
    finally:
        client.stop()
        client.close()


def test_a_broker_of_another_cluster_is_sent_away(zookeeper: ZooKeeperServer, chroot: str, open_store: Open) -> None:
    from ottla.storage.directory.checkpoints import ForeignDirectory

    found = open_store().load().cluster_id
    stranger = ZooKeeperStore(Connection(zookeeper.connect + chroot), cluster_id="x" * 22)
    with pytest.raises(ForeignDirectory, match=found):
        stranger.load()
    stranger.close()


def test_old_notes_are_deleted_and_new_ones_stay(open_store: Open) -> None:
    from ottla.cluster.store.zookeeper import watching

    store, other = open_store(), open_store()
    store.commit([AlterConfig(ALL_BROKERS, (("a", "1"),))])
    event_of(other, ConfigChanged)
    other._watching._clock = _Later(watching.NOTE_LIFE_MS + 60_000)
    store.commit([AlterConfig(ALL_BROKERS, (("a", "2"),))])
    event_of(other, ConfigChanged)
    other._watching.stop()
    assert other._session.children("/config/changes") == []
    assert store._session.children("/config/changes") == []


class _Later:
    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        import time

        return time.time_ns() // 1_000_000 + self._by_ms

    def monotonic_ms(self) -> float:
        return 0.0

    async def sleep(self, duration_ms: float) -> None:
        raise AssertionError


# --- what was read before it was written ------------------------------------------------------------------------------


def test_a_deletion_that_was_read_before_it_was_carried_out_is_not_asked_for_again(open_store: Open) -> None:
    """A topic of the same name, made since, would be deleted by it."""
    store, asked = open_store(), SetStoredValue(deletion_asked("t"), "")
    lead(store)
    store.commit([CreateTopic(topic()), asked])
    read = RequestsRead({asked.key: ""}, store._session.zxid)
    store.commit([RemoveTopic(ID), SetStoredValue(asked.key, None)])
    store.commit([CreateTopic(replace(topic(), id=b"another identity"))])
    store.take_events()
    store._facts.put(read)
    assert [event for event in store.take_events() if isinstance(event, DeletionsAsked)] == []
    assert asked.key not in store.load().stored_values


def test_a_request_that_somebody_took_away_stops_no_commit_for_ever(open_store: Open, chroot: str) -> None:
    store, asked = open_store(), SetStoredValue(deletion_asked("t"), "")
    lead(store)
    store.commit([CreateTopic(topic()), asked])
    client = KazooClient(store._session._connection.servers)
    client.start()
    client.delete(f"{chroot}/admin/delete_topics/t")
    client.stop()
    client.close()
    done = [RemoveTopic(ID), SetStoredValue(asked.key, None)]
    with pytest.raises(StaleImage):
        store.commit(done)
    assert store.commit(done).topic("t") is None


@pytest.mark.parametrize("is_there", [False, True])
def test_a_look_at_topics_from_before_one_was_made_or_removed_says_nothing(open_store: Open, is_there: bool) -> None:
    store = open_store()
    lead(store)
    if is_there:
        read = TopicsRead((), ("t",), store._session.zxid)
        store.commit([CreateTopic(topic())])
    else:
        store.commit([CreateTopic(topic())])
        read = TopicsRead((topic(),), (), store._session.zxid)
        store.commit([RemoveTopic(ID)])
    store.take_events()
    store._facts.put(read)
    assert [event for event in store.take_events() if isinstance(event, TopicsChanged)] == []
