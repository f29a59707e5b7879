"""The truth that is kept for several members: what calls mean, what survives, what nonsense does (nothing)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.changes import AlterConfig, CreateTopic, RegisterBroker
from ottla.cluster.image import ClusterImage
from ottla.cluster.json_values import to_json
from ottla.cluster.model import ALL_BROKERS, Broker, ConfigResource, Endpoint, Partition, ResourceType, Topic
from ottla.cluster.store.member import Notice
from ottla.cluster.store.served.answers import _CALLS, answer
from ottla.cluster.store.served.kept import KeptTruth
from ottla.cluster.store.served.kept_log import KeeperStore
from ottla.cluster.store.served.wire import read_image, write_changes
from ottla.cluster.store.shared import take_in
from ottla.storage.files import Files
from ottla.testing.files import MemoryFiles

TOPIC = Topic("t", b"t" * 16, (Partition((1,), (1,), 1),))
ALL_CALLS = sorted(_CALLS)


class FakeSeat:
    def __init__(self) -> None:
        self.has_session = True
        self.watches_everything = False
        self.notices: list[Notice] = []

    def put(self, *notices: Notice) -> None:
        self.notices += notices


def opened(files: Files) -> KeptTruth:
    store = KeeperStore(Path("/data"), "cluster", files=files, apply_all=take_in)
    return KeptTruth(store, session_timeout_ms=1_000.0)


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def truth(files: MemoryFiles) -> KeptTruth:
    return opened(files)


def joined(truth: KeptTruth) -> FakeSeat:
    seat = FakeSeat()
    truth.seats.append(seat)
    return seat


def broker(number: int) -> Broker:
    return Broker(number, (Endpoint("PLAINTEXT", "localhost", 9092),))


def call(truth: KeptTruth, seat: FakeSeat, name: str, **arguments: Any) -> Any:
    (answered, *_) = answer(truth, seat, {"id": 1, "call": name, **arguments})
    return answered.get("value"), answered.get("error")


def test_what_was_committed_is_there_after_a_kill(files: MemoryFiles, truth: KeptTruth) -> None:
    seat = joined(truth)
    call(truth, seat, "stand", broker_id=1)
    orphan = AlterConfig(ConfigResource(ResourceType.TOPIC, "unknown"), (("a", "b"),))
    assert call(truth, seat, "commit", changes=write_changes([CreateTopic(TOPIC), orphan]), elected=[1, 1])[1] is None
    assert [call(truth, seat, "next_broker_number")[0] for _ in range(2)] == [1, 2]
    before = truth.truth
    files.crash("nothing")
    again = opened(files)
    assert again.truth.topic("t") == TOPIC
    assert again.truth.configs == before.configs
    assert again.next_broker_number() == 3


def test_an_election_after_a_kill_is_a_new_one(files: MemoryFiles, truth: KeptTruth) -> None:
    assert call(truth, joined(truth), "stand", broker_id=1) == ([1, 1], None)
    again = opened(files)
    assert again.controller() is None
    assert call(again, joined(again), "stand", broker_id=2) == ([2, 2], None)


def test_a_broker_that_comes_back_after_a_kill_has_its_registration(files: MemoryFiles, truth: KeptTruth) -> None:
    first = truth.register(broker(1), joined(truth))
    truth.register(broker(2), joined(truth))
    again = opened(files)
    watching, back = joined(again), joined(again)
    watching.watches_everything = True
    assert call(again, back, "hello", registrations=[[1, first.epoch]])[0]["has_all"]
    assert not watching.notices
    assert again.end_unclaimed() == [2]
    assert [each.id for each in again.registered_brokers()] == [1]
    assert len(watching.notices) == 1
    again.end_session(back)
    assert again.registered_brokers() == ()


def test_a_registration_is_claimed_by_its_epoch_only(files: MemoryFiles, truth: KeptTruth) -> None:
    first = truth.register(broker(1), joined(truth))
    again = opened(files)
    for claims in ([[1, first.epoch - 1]], [[1, first.epoch], [2, 1]], [[7, 1]]):
        assert not call(again, joined(again), "hello", registrations=claims)[0]["has_all"]
    newcomer = joined(again)
    assert again.holder_of(1, newcomer) is None
    assert again.register(broker(1), newcomer).epoch > first.epoch
    assert again.end_unclaimed() == []


def test_a_welcome_has_what_everybody_knows_and_no_more(truth: KeptTruth) -> None:
    seat = joined(truth)
    truth.register(broker(1), seat)
    truth.write([CreateTopic(TOPIC), AlterConfig(ALL_BROKERS, (("a", "b"),))], None)
    welcome, _ = call(truth, joined(truth), "hello", registrations=[])
    image = read_image(welcome["image"])
    assert list(image.topics()) == []
    assert len(image.brokers) == 0
    assert image.config(ALL_BROKERS) == {"a": "b"}
    assert welcome["session_timeout_ms"] == 1_000.0


def test_topics_are_the_controllers_even_for_a_member_that_claims_no_office(truth: KeptTruth) -> None:
    seat = joined(truth)
    _, error = call(truth, seat, "commit", changes=write_changes([CreateTopic(TOPIC)]), elected=None)
    assert error[0] == "ControllerMoved"
    call(truth, joined(truth), "stand", broker_id=1)
    _, error = call(truth, seat, "commit", changes=write_changes([CreateTopic(TOPIC)]), elected=[1, 1])
    assert error[0] == "ControllerMoved", "another member was elected"
    assert truth.truth.topic("t") is None


def test_registrations_are_not_made_by_commits(truth: KeptTruth) -> None:
    call(truth, joined(truth), "commit", changes=write_changes([RegisterBroker(broker(1))]), elected=None)
    assert truth.registered_brokers() == ()


NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["id", "call", "changes", "elected", "broker", "broker_id", "names", "registrations"])
# What says that a session ends, or asks for the next number, is no nonsense whatever else it says.
MEANINGFUL = {"leave", "next_broker_number", "announce_failed_directory", "unregister", "stand"}


@given(st.dictionaries(FIELDS, NONSENSE), st.sampled_from([each for each in ALL_CALLS if each not in MEANINGFUL]))
def test_nonsense_is_answered_and_changes_nothing(fields: dict[str, Any], name: str) -> None:
    truth = opened(MemoryFiles())
    before = truth.truth
    for request in (fields, {**fields, "call": name}):
        answered = answer(truth, joined(truth), request)
        assert answered[0].keys() <= {"id", "value", "error"}
    assert truth.truth == before


def test_a_broker_is_read_strictly(truth: KeptTruth) -> None:
    written = to_json(broker(1))
    for wrong in ({**written, "id": "1"}, {**written, "more": 1}, [], None, {"id": 1}):
        assert call(truth, joined(truth), "register", broker=wrong)[1][0] == "MalformedValue"
    assert truth.truth == ClusterImage("cluster")
