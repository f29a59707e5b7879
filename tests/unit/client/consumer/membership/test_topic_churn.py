"""Topics come and go at any moment between heartbeats, and members learn of it early, late or never.

Members are our own, the coordinator is the broker's own. The coordinator gives a member nothing new before the member
has said that it gave up what it must, so a member that has nothing to give up any more must still say so.

1. When the topics rest, then within SETTLE_MS every member has exactly its target, nobody has a partition of a deleted
   topic, and every partition of a live topic that somebody subscribes to is read by one member.
2. SETTLE_MS is shorter than the rebalance time-out, after which the coordinator puts a stuck member out: who is saved
   by that only is found here.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.membership.decisions import TopicView

_spec = importlib.util.spec_from_file_location("ottla_membership_world", Path(__file__).with_name("conftest.py"))
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

TOPICS = ["t-1", "t-2", "u-1"]
SUBSCRIPTIONS = [{"topics": ["t-1"]}, {"topics": ["t-1", "t-2"]}, {"topics": ["t-1", "u-1"]}, {"pattern": "t-.*"}]
TURN_MS = 100
SETTLE_MS = 40_000  # three heartbeats of every member, and 10 s between two looks at regular expressions
REBALANCE_MS = 600_000


class ChurnGroup(_module.Group):
    """A group whose members learn of topics when a test says so."""

    max_poll_interval_ms = REBALANCE_MS

    def __init__(self, **topics):
        super().__init__(**topics)
        self.made = len(topics)
        self.known = {}  # what a refresh of metadata gives: the cluster as it was at some time
        self.spread()

    def view(self, *names):
        return {name: TopicView.of(0) for name in names} | self.known

    def spread(self):
        """From now on who asks for metadata is told of the cluster as it is now."""
        self.known = {name: TopicView.of(count, key) for name, (key, count) in self.world.cluster.known.items()}

    def refresh(self, member):
        member.machine.metadata_changed(self.view(), self.now_ms)

    def create(self, name, partitions):
        self.made += 1
        self.world.cluster.known[name] = (bytes([self.made % 256, self.made // 256]) * 8, partitions)
        self.world.shard.topics_changed([name], self.now_ms)

    def grow(self, name, partitions):
        self.world.cluster.known[name] = (self.world.cluster.known[name][0], partitions)
        self.world.shard.topics_changed([name], self.now_ms)

    def delete(self, name):
        del self.world.cluster.known[name]
        self.world.shard.topics_changed([name], self.now_ms)

    def come_to_rest(self):
        for _ in range(SETTLE_MS // TURN_MS):
            self.spread()
            for member in self.members:
                self.refresh(member)
            self.turn(TURN_MS)

    def check_rest(self):
        self.check_nobody_twice()
        group = self.world.shard.groups.get("g")
        if group is None or not self.members:
            return
        names = {key: name for name, (key, _) in self.world.cluster.known.items()}
        for member in self.members:
            target = group.targets.get(member.machine.member_id, {})  # none is written while there is nothing to read
            assert {(names[key], index) for key, indexes in target.items() for index in indexes} == member.held
        assert {partition for member in self.members for partition in member.held} == self.wanted()
        assert group.state_name == "Stable"

    def wanted(self):
        live = {name for name in self.world.cluster.known if any(self.reads(each, name) for each in self.members)}
        return self.all_partitions(*live)

    def reads(self, member, topic):
        return topic in member.wish.get("topics", ()) or ("pattern" in member.wish and topic.startswith("t-"))

    def join(self, wish):
        member = self.add_consumer("none")
        member.wish = wish
        member.subscribe(*wish.get("topics", ()), pattern=wish.get("pattern"))
        return member


# -- two histories that once ended with a stuck member ----------------------------------------------------------------


def test_a_topic_that_is_deleted_before_the_member_knew_its_name_holds_nothing_up():
    group = ChurnGroup(**{"t-1": 1})
    member = group.join({"topics": ["t-1", "u-1"]})
    group.turn()
    group.create("u-1", 1)  # assigned, but the member's metadata does not have it yet
    for _ in range(100):
        group.turn()
    group.delete("u-1")
    group.grow("t-1", 3)
    group.come_to_rest()
    assert member.held == group.all_partitions("t-1")
    group.check_rest()


def test_a_member_that_learns_of_the_end_of_a_topic_before_its_coordinator_is_not_held_up():
    group = ChurnGroup(**{"t-1": 1, "u-1": 1})
    member = group.join({"topics": ["t-1", "u-1"]})
    for _ in range(100):
        group.turn()
    assert member.held == group.all_partitions("t-1", "u-1")
    del group.known["u-1"]
    group.refresh(member)  # it gives the partition up by itself, and says so to a coordinator that did not ask
    for _ in range(100):
        group.turn()
    group.delete("u-1")
    group.grow("t-1", 3)
    group.come_to_rest()
    assert member.held == group.all_partitions("t-1")
    group.check_rest()


# -- any history ------------------------------------------------------------------------------------------------------


class Churn:
    """Steps; each takes a number that says which and how."""

    def __init__(self):
        self.group = ChurnGroup(**{"t-1": 2})
        self.somebody_comes(0)
        self.somebody_comes(3)

    def pick(self, number):
        return self.group.members[number % len(self.group.members)]

    def somebody_comes(self, number):
        if len(self.group.members) < 3:
            self.group.join(SUBSCRIPTIONS[number % len(SUBSCRIPTIONS)])

    def somebody_wants_something_else(self, number):
        member = self.pick(number)
        member.wish = SUBSCRIPTIONS[number // 3 % len(SUBSCRIPTIONS)]
        member.subscribe(*member.wish.get("topics", ()), pattern=member.wish.get("pattern"))

    def a_topic_comes_or_goes(self, number):
        name = TOPICS[number % len(TOPICS)]
        if name in self.group.world.cluster.known:
            self.group.delete(name)
        else:
            self.group.create(name, 1 + number % 3)

    def a_topic_is_made_anew(self, number):
        name = TOPICS[number % len(TOPICS)]
        if name in self.group.world.cluster.known:
            self.group.delete(name)
        self.group.create(name, 1 + number % 4)

    def metadata_spreads(self, number):
        self.group.spread()

    def a_member_refreshes(self, number):
        self.group.refresh(self.pick(number))

    def a_moment_passes(self, number):
        for _ in range(1 + number % 3):
            self.group.turn(TURN_MS)

    def a_while_passes(self, number):
        for _ in range(number % 120):
            self.group.turn(TURN_MS)


STEPS = [name for name in vars(Churn) if not name.startswith("_") and name != "pick"]


def _play(history):
    churn = Churn()
    for name, number in history:
        getattr(churn, name)(number)
        churn.group.check_nobody_twice()
    churn.group.come_to_rest()
    churn.group.check_rest()


histories = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 999)), min_size=5, max_size=25)


@given(histories)
@settings(max_examples=60, deadline=None)
def test_when_topics_rest_every_member_has_its_target(history):
    _play(history)


@pytest.mark.long
@given(histories)
@settings(max_examples=1_500, deadline=None)
def test_when_topics_rest_every_member_has_its_target_many_times(history):
    _play(history)


def test_every_step_is_drawn():
    assert Counter(STEPS).keys() >= {"a_topic_comes_or_goes", "a_member_refreshes", "metadata_spreads"}
