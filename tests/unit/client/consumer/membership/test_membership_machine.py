"""Groups under drawn histories, against the broker's own coordinator: members come and go, answers are lost or late,
coordinators restart, applications are slow, topics grow.

1. While everybody polls, no partition is read by two members at any moment.
2. When the dust settles every partition is read by exactly one member, and shares are even.

The histories are lists of steps and not a hypothesis state machine: that one likes to leave rules out altogether, and a
group without members has no rebalances.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

_spec = importlib.util.spec_from_file_location("ottla_membership_world", Path(__file__).with_name("conftest.py"))
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

MEMBER_LIMIT = 4
TOPICS = [("t",), ("u",), ("t", "u")]
TURN_MS = 100
SETTLE_MS = 120_000


class History:
    """Time moves in small steps and everybody is asked to plan at each, so that nobody misses a heartbeat."""

    def __init__(self, kind, *, sleepers=False):
        self.group = _module.Group(t=3, u=2)
        self.kind = kind
        self.sleepers = sleepers
        if sleepers:
            self.group.max_poll_interval_ms = 6_000
        self.slow = set()
        self.somebody_comes(0)
        self.somebody_comes(1)

    @property
    def members(self):
        return self.group.members

    def pick(self, number):
        return self.members[number % len(self.members)] if self.members else None

    # the steps; each takes a number that says which and how

    def somebody_comes(self, number):
        if len(self.members) == MEMBER_LIMIT:
            return
        topics, instance = TOPICS[number % 3], f"i{self.group.count}" if number % 2 else None
        if self.kind == "consumer":
            self.group.add_consumer(*topics, group_instance_id=instance)
        else:
            self.group.add(*topics, assignors=(self.kind,), group_instance_id=instance)

    def somebody_leaves(self, number):
        member = self.pick(number)
        if member is None:
            return
        member.machine.leave(self.group.now_ms, how=_module.Leaving.LEAVE)
        self.slow.discard(member)
        member.polls = True
        for _ in range(100):
            self.turn()
            if member.machine.has_left:
                break
        assert member.machine.has_left
        self.members.remove(member)

    def somebody_dies(self, number):
        """Without a word; the others take over when its session is over."""
        member = self.pick(number)
        if member is not None:
            self.slow.discard(member)
            self.members.remove(member)

    def somebody_wants_other_topics(self, number):
        if self.members:
            self.pick(number).subscribe(*TOPICS[number % 3])

    def somebody_is_slow_to_change(self, number):
        if self.members:
            self.slow.add(self.pick(number))

    def nobody_is_slow(self, _number):
        self.slow.clear()
        for member in self.members:
            member.polls = True

    def somebody_falls_asleep(self, number):
        """Its application neither polls nor gives anything up; what it reads then is its own risk."""
        if self.sleepers and self.members:
            member = self.pick(number)
            member.polls = False
            self.slow.add(member)

    def an_answer_is_lost(self, number):
        if self.members:
            self.pick(number).lose()

    def the_coordinator_restarts(self, _number):
        for member in self.members:
            while member.asks:
                member.lose()
        self.group.world.restart()

    def a_topic_grows(self, number):
        count = 4 + number % 3
        if self.group.world.cluster.partition_count("t") < count:
            self.group.grow("t", count)

    def time_passes(self, number):
        for _ in range((1, 20, 50, 90)[number % 4]):
            self.turn()

    # carrying out

    def turn(self):
        self.group.world.advance(TURN_MS)
        for member in list(self.members):
            member.poll()
            member.plan()
            while member.deliver():
                member.plan()
            self.check_nobody_twice()
            if member not in self.slow:
                while member.carry_out():
                    member.plan()
                    self.check_nobody_twice()

    def check_nobody_twice(self):
        if not self.sleepers:
            self.group.check_nobody_twice()

    def settle(self):
        self.nobody_is_slow(0)
        for _ in range(SETTLE_MS // TURN_MS):
            self.turn()

    def check_end(self):
        wanted = {topic for member in self.members for topic in member.machine._subscription.topics}
        if not self.members:
            return
        self.group.check_shared_out(*wanted)
        assert not any(member.failures for member in self.members)
        if len({member.machine._subscription for member in self.members}) == 1:
            sizes = [len(member.held) for member in self.members]
            assert max(sizes) - min(sizes) <= 1


STEPS = [name for name in vars(History) if name.startswith(("somebody", "nobody", "an_", "the_", "a_", "time_"))]
steps = st.lists(st.tuples(st.sampled_from([*STEPS, *["time_passes"] * 4]), st.integers(0, 11)), max_size=25)


@pytest.mark.parametrize("kind", ["range", "sticky", "cooperative-sticky", "consumer"])
@settings(max_examples=20, deadline=None)
@given(steps=steps)
def test_no_partition_is_read_twice_and_all_are_read_in_the_end(kind, steps):
    history = History(kind)
    for name, number in steps:
        getattr(history, name)(number)
        history.turn()
    history.settle()
    history.check_end()


@pytest.mark.parametrize("kind", ["range", "cooperative-sticky", "consumer"])
@settings(max_examples=15, deadline=None)
@given(steps=steps)
def test_groups_recover_from_applications_that_stop_polling(kind, steps):
    history = History(kind, sleepers=True)
    for name, number in steps:
        getattr(history, name)(number)
        history.turn()
    history.settle()
    history.check_end()
