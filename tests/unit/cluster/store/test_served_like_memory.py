"""The store behind a socket answers as the one in memory does: any sequence of calls, any members, the same of both."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.served_ensemble import ServedEnsemble

from ottla.cluster.changes import (
    AlterConfig,
    Change,
    ChangePartition,
    CreateTopic,
    RemoveTopic,
    SetQuota,
    SetStoredValue,
)
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ALL_BROKERS, Broker, ConfigResource, Endpoint, Partition, ResourceType, Topic
from ottla.cluster.shared_map import SharedMap
from ottla.cluster.store.events import BrokersChanged, deletion_asked
from ottla.cluster.store.member import Member
from ottla.cluster.store.shared_memory import SharedMemory
from ottla.errors import OttlaError

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
MEMBERS = 3
IDS = st.integers(1, 3)
WHO = st.integers(0, MEMBERS - 1)
NAMES = st.sampled_from(["a", "b"])


def topic(name: str) -> Topic:
    return Topic(name, name.encode() * 16, (Partition((1, 2), (1, 2), 1),) * 2)


CHANGES: st.SearchStrategy[Change] = st.one_of(
    NAMES.map(lambda name: CreateTopic(topic(name))),
    NAMES.map(lambda name: RemoveTopic(topic(name).id)),
    st.builds(
        lambda name, epoch: ChangePartition(topic(name).id, 0, Partition((1, 2), (1,), 1, epoch, epoch)),
        NAMES,
        st.integers(1, 3),
    ),
    st.builds(
        lambda name, value: AlterConfig(ConfigResource(ResourceType.TOPIC, name), (("retention.ms", value),)),
        NAMES,
        st.sampled_from(["1", "2", None]),
    ),
    st.sampled_from(["1", "2", None]).map(lambda value: AlterConfig(ALL_BROKERS, (("num.io.threads", value),))),
    st.builds(SetQuota, st.just((("user", "u"),)), st.just("producer_byte_rate"), st.sampled_from([1.0, 2.5, None])),
    st.builds(lambda name, text: SetStoredValue(deletion_asked(name), text), NAMES, st.sampled_from(["", None])),
)
# Who is no member changes what is there.
OUTSIDE = CHANGES.filter(lambda change: not isinstance(change, RemoveTopic | ChangePartition))
STEPS = st.one_of(
    st.tuples(st.just("register"), WHO, IDS),
    st.tuples(st.just("leave"), WHO, IDS),
    st.tuples(st.just("stand"), WHO, IDS),
    st.tuples(st.just("resign"), WHO, IDS),
    st.tuples(st.just("take_over"), WHO),
    st.tuples(st.just("commit"), WHO, st.lists(CHANGES, min_size=1, max_size=3)),
    st.tuples(st.just("observe"), WHO, NAMES),
    st.tuples(st.just("change"), st.lists(OUTSIDE, min_size=1, max_size=2)),
    st.tuples(st.just("ask"), WHO, IDS),
    st.tuples(st.just("depose")),
    st.tuples(st.just("rejoin"), WHO),
)


class Side:
    """Three members of one ensemble, and what they are asked."""

    def __init__(self, ensemble: Any, join: Callable[[], Member]) -> None:
        self.ensemble = ensemble
        self.join = join
        self.members = [join() for _ in range(MEMBERS)]

    def take(self, step: tuple[Any, ...]) -> Any:
        name, *arguments = step
        try:
            return plain(getattr(self, name)(*arguments))
        except OttlaError as error:
            return type(error).__name__

    def register(self, who: int, broker_id: int) -> Any:
        return self.members[who].register(Broker(broker_id, (Endpoint("PLAINTEXT", "host", 9092),)))

    def leave(self, who: int, broker_id: int) -> Any:
        return self.members[who].leave(broker_id)

    def stand(self, who: int, broker_id: int) -> Any:
        return self.members[who].stand(broker_id)

    def resign(self, who: int, broker_id: int) -> Any:
        return self.members[who].resign(broker_id)

    def take_over(self, who: int) -> Any:
        return self.members[who].take_over()

    def commit(self, who: int, changes: list[Change]) -> Any:
        return self.members[who].commit(changes)

    def observe(self, who: int, name: str) -> Any:
        return self.members[who].read_topic_settings([name])

    def change(self, changes: list[Change]) -> Any:
        return self.ensemble.change(changes)

    def ask(self, who: int, broker_id: int) -> Any:
        member = self.members[who]
        is_held = member.holder_of(broker_id) is not None
        return member.controller(), is_held, member.topic_names(), plain(BrokersChanged(member.registered_brokers()))

    def depose(self) -> Any:
        self.ensemble.depose()

    def rejoin(self, who: int) -> Any:
        self.members[who].close()
        self.members[who] = self.join()

    def state(self) -> list[Any]:
        """What every member knows and has heard, when everything that was sent to it has come."""
        found = []
        for member in self.members:
            member.controller()
            found.append(([plain(event) for event in member.take_events()], plain(member.load())))
        return found


def plain(value: Any) -> Any:
    """Without numbers that an ensemble chooses as it likes: epochs of brokers, counts of changes."""
    match value:
        case ClusterImage():
            brokers = SharedMap((number, plain(broker)) for number, broker in value.brokers.items())
            return replace(value, change_number=0, brokers=brokers)
        case Broker():
            return replace(value, epoch=0)
        case BrokersChanged(live):
            return [plain(each) for each in live]
    return value


@given(st.lists(STEPS, max_size=25))
def test_any_sequence_of_calls_has_the_same_answers_events_and_images(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory, ServedEnsemble(Path(directory), CLUSTER) as served:
        memory = SharedMemory(CLUSTER)
        sides = Side(memory, memory.join), Side(served, served.join)
        for step in steps:
            expected, found = (side.take(step) for side in sides)
            assert found == expected, step
            assert sides[1].state() == sides[0].state(), step
