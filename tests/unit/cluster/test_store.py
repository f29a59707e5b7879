"""What every store promises; each store of the room runs through this."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ottla.cluster.changes import Change, IllegalChange, SetFeature
from ottla.cluster.model import Broker, Endpoint
from ottla.cluster.store import interface
from ottla.cluster.store.interface import MetadataStore, StaleImage, StoreClosed
from ottla.cluster.store.memory import MemoryStore

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
Open = Callable[[Sequence[Change]], MetadataStore]


@pytest.fixture(params=["memory"])
def open_store(request: pytest.FixtureRequest) -> Open:
    def make(first: Sequence[Change] = ()) -> MetadataStore:
        return MemoryStore(CLUSTER, first)

    return make


def test_a_new_store_begins_with_the_first_changes(open_store: Open) -> None:
    image = open_store([SetFeature("metadata.version", 30)]).load()
    assert (image.cluster_id, image.change_number, image.feature("metadata.version")) == (CLUSTER, 1, 30)


def test_a_commit_gives_the_image_after_all_its_changes(open_store: Open) -> None:
    store = open_store(())
    image = store.commit([SetFeature("a", 1), SetFeature("b", 2)])
    assert image is store.load()
    assert (image.change_number, image.feature("a"), image.feature("b")) == (2, 1, 2)


def test_a_commit_on_an_older_image_changes_nothing(open_store: Open) -> None:
    store = open_store(())
    seen = store.load().change_number
    store.commit([SetFeature("a", 1)], expected=seen)
    with pytest.raises(StaleImage, match="expected change number 0, but it is 1"):
        store.commit([SetFeature("a", 2)], expected=seen)
    assert store.load().feature("a") == 1


def test_an_illegal_change_takes_the_whole_commit_with_it(open_store: Open) -> None:
    from ottla.cluster.changes import UnregisterBroker

    store = open_store(())
    with pytest.raises(IllegalChange):
        store.commit([SetFeature("a", 1), UnregisterBroker(7)])
    assert store.load().change_number == 0
    assert store.commit([SetFeature("a", 3)]).feature("a") == 3


def test_an_empty_commit_is_nothing(open_store: Open) -> None:
    store = open_store(())
    subscription = store.subscribe()
    assert store.commit([]).change_number == 0
    assert subscription.take() == []


def test_subscribers_get_what_is_committed_from_then_on(open_store: Open) -> None:
    store = open_store(())
    store.commit([SetFeature("a", 1)])
    subscription = store.subscribe()
    store.commit([SetFeature("b", 1), SetFeature("c", 1)])
    assert subscription.take() == [(3, (SetFeature("b", 1), SetFeature("c", 1)))]
    assert subscription.take() == []
    store.unsubscribe(subscription)
    store.commit([SetFeature("d", 1)])
    assert subscription.take() == []


def test_a_subscriber_that_is_too_slow_is_told(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface, "SUBSCRIPTION_LIMIT", 2)
    store = open_store(())
    subscription = store.subscribe()
    for level in (1, 2, 3):
        store.commit([SetFeature("a", level)])
    assert subscription.missed
    assert [each.number for each in subscription.take()] == [2, 3]
    assert not subscription.missed


def test_the_only_broker_registers_with_a_growing_epoch_and_is_elected(open_store: Open) -> None:
    store = open_store(())
    broker = Broker(1, (Endpoint("PLAINTEXT", "localhost", 9092),))
    first = store.membership.register(broker)
    assert store.election.stand(1) == (1, 1)
    second = store.membership.register(broker)
    assert second.epoch > first.epoch > 0
    assert store.load().brokers[1] == second
    assert store.election.stand(1) == (1, 2)
    store.election.resign(2)
    assert store.load().controller_id == 1
    store.election.resign(1)
    assert (store.load().controller_id, store.load().controller_epoch) == (-1, 2)
    store.membership.leave(1)
    store.membership.leave(1)
    assert 1 not in store.load().brokers


def test_a_closed_store_takes_no_commits(open_store: Open) -> None:
    store = open_store(())
    store.load()
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.commit([SetFeature("a", 1)])
