"""What every store of a single broker promises: the metadata log, and the one in memory that unit tests have."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.memory_store import MemoryStore

from ottla.cluster.changes import IllegalChange, SetFeature, UnregisterBroker
from ottla.cluster.model import Broker, Endpoint
from ottla.cluster.raft.solo import LocalNode
from ottla.cluster.store.interface import OwnStore, StoreClosed
from ottla.cluster.store.kraft import KRaftNode, KRaftStore
from ottla.testing.files import MemoryFiles

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
DATA = Path("/data")
FIRST = (SetFeature("metadata.version", 29),)


@pytest.fixture(params=["memory", "metadata log"])
def store(request: pytest.FixtureRequest) -> OwnStore:
    if request.param == "memory":
        return MemoryStore(CLUSTER, FIRST)
    files = MemoryFiles()
    files.make_directory(DATA)
    return KRaftStore(
        DATA,
        CLUSTER,
        files=files,
        node=KRaftNode(1, (Endpoint("CONTROLLER", "localhost", 9093),), ()),
        local=LocalNode(1, b"d" * 16, False),
        now_ms=lambda: 1_800_000_000_000,
        random_bytes=Random(1).randbytes,
        first=lambda: FIRST,
    )


def test_a_new_store_begins_with_the_first_changes(store: OwnStore) -> None:
    image = store.load()
    assert (image.cluster_id, image.feature("metadata.version")) == (CLUSTER, 29)


def test_a_commit_gives_the_image_after_all_its_changes(store: OwnStore) -> None:
    before = store.load().change_number
    image = store.commit([SetFeature("group.version", 1), SetFeature("share.version", 1)])
    assert image is store.load()
    assert (image.feature("group.version"), image.feature("share.version")) == (1, 1)
    assert image.change_number == before + 2


def test_an_illegal_change_takes_the_whole_commit_with_it(store: OwnStore) -> None:
    before = store.load()
    with pytest.raises(IllegalChange):
        store.commit([SetFeature("group.version", 1), UnregisterBroker(7)])
    assert store.load() is before
    assert store.commit([SetFeature("group.version", 1)]).feature("group.version") == 1


def test_an_empty_commit_is_nothing(store: OwnStore) -> None:
    assert store.load() is store.commit([])


def test_the_only_broker_registers_with_a_growing_epoch_and_is_controller(store: OwnStore) -> None:
    broker = Broker(1, (Endpoint("PLAINTEXT", "localhost", 9092),))
    first = store.membership.register(broker)
    assert store.election.stand(1).broker_id == 1
    assert store.load().controller_id == 1
    second = store.membership.register(broker)
    assert second.epoch > first.epoch > 0
    assert store.load().brokers[1] == second
    store.membership.leave(1)
    store.membership.leave(1)
    assert 1 not in store.load().brokers


def test_a_closed_store_takes_no_commits(store: OwnStore) -> None:
    store.load()
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.commit([SetFeature("group.version", 1)])
