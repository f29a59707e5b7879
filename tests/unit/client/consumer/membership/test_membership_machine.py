"""Groups under drawn histories, against the broker's own coordinator: members come and go, answers are lost or late,
coordinators restart, applications are slow, topics grow.

1. While nobody is silent for a session, no partition is read by two members at any moment.
2. When the dust settles every partition is read by exactly one member, and shares are even.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

_spec = importlib.util.spec_from_file_location("ottla_membership_world", Path(__file__).with_name("conftest.py"))
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

MEMBER_LIMIT = 4
LONG_MS = 7_000


class Machine(RuleBasedStateMachine):
    """Time moves in small steps and everybody is asked to plan at each, so that nobody misses a heartbeat."""

    assignors: tuple[str, ...] = ()
    may_fall_silent = False

    def __init__(self):
        super().__init__()
        self.group = _module.Group(t=3, u=2)
        self.slow = set()

    def add_member(self, topics, instance):
        raise NotImplementedError

    def members(self):
        return self.group.members

    @precondition(lambda self: len(self.group.members) < MEMBER_LIMIT)
    @rule(topics=st.sampled_from([("t",), ("u",), ("t", "u")]), static=st.booleans())
    def somebody_comes(self, topics, static):
        names = {f"i{index}" for index in range(MEMBER_LIMIT)}
        free = names - {member.machine._settings.group_instance_id for member in self.members()}
        self.add_member(topics, min(free) if static else None)

    @precondition(lambda self: self.group.members)
    @rule(which=st.integers(0, MEMBER_LIMIT - 1))
    def somebody_leaves(self, which):
        member = self.members()[which % len(self.members())]
        member.machine.leave(self.group.now_ms, how=_module.Leaving.LEAVE)
        self.slow.discard(member)
        for _ in range(100):
            self.turn(100)
            if member.machine.has_left:
                break
        assert member.machine.has_left
        self.members().remove(member)

    @precondition(lambda self: self.group.members)
    @rule(which=st.integers(0, MEMBER_LIMIT - 1), topics=st.sampled_from([("t",), ("u",), ("t", "u")]))
    def somebody_wants_other_topics(self, which, topics):
        self.members()[which % len(self.members())].subscribe(*topics)

    @precondition(lambda self: self.group.members)
    @rule(which=st.integers(0, MEMBER_LIMIT - 1))
    def somebody_is_slow_to_change(self, which):
        self.slow.add(self.members()[which % len(self.members())])

    @rule()
    def nobody_is_slow(self):
        self.slow.clear()

    @precondition(lambda self: self.group.members)
    @rule(which=st.integers(0, MEMBER_LIMIT - 1))
    def an_answer_is_lost(self, which):
        self.members()[which % len(self.members())].lose()

    @rule()
    def the_coordinator_restarts(self):
        for member in self.members():
            while member.asks:
                member.lose()
        self.group.world.restart()

    @rule(count=st.integers(4, 6))
    def a_topic_grows(self, count):
        if self.group.world.cluster.partition_count("t") < count:
            self.group.grow("t", count)

    @rule(ms=st.sampled_from([100, 500, 2_000, LONG_MS]))
    def time_passes(self, ms):
        for _ in range(ms // 100):
            self.turn(100)

    def turn(self, ms):
        self.group.world.advance(ms)
        for member in list(self.members()):
            member.poll()
            member.plan()
            while member.deliver():
                member.plan()
            self.check()
            if member not in self.slow:
                while member.carry_out():
                    member.plan()
                    self.check()

    @invariant()
    def check(self):
        self.group.check_nobody_twice()

    def teardown(self):
        self.slow.clear()
        for _ in range(900):
            self.turn(100)
        wanted = {topic for member in self.members() for topic in member.machine._subscription.topics}
        if self.members():
            self.group.check_shared_out(*wanted)
            assert not any(member.failures for member in self.members())
            self.check_even()

    def check_even(self):
        subscriptions = {member.machine._subscription for member in self.members()}
        if len(subscriptions) == 1:
            sizes = [len(member.held) for member in self.members()]
            assert max(sizes) - min(sizes) <= 1


class EagerMachine(Machine):
    def add_member(self, topics, instance):
        self.group.add(*topics, assignors=("sticky",), group_instance_id=instance)


class CooperativeMachine(Machine):
    def add_member(self, topics, instance):
        self.group.add(*topics, assignors=("cooperative-sticky",), group_instance_id=instance)


class ConsumerMachine(Machine):
    def add_member(self, topics, instance):
        self.group.add_consumer(*topics, group_instance_id=instance)


TestEager = EagerMachine.TestCase
TestEager.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestCooperative = CooperativeMachine.TestCase
TestCooperative.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
TestConsumer = ConsumerMachine.TestCase
TestConsumer.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
