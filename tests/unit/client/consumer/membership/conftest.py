"""Memberships on one side, the broker's own group coordinator on the other, and a network that a test moves by hand."""

from __future__ import annotations

import importlib.util
from collections import deque
from pathlib import Path

import pytest

from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.settings.group_level import consumer_times
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.broker.settings.sharing import SharingSettings
from ottla.client.consumer.membership.classic import ClassicMembership
from ottla.client.consumer.membership.consumer import ConsumerMembership
from ottla.client.consumer.membership.decisions import (
    Ask,
    Assigned,
    Fail,
    ForgetCoordinator,
    LearnTopics,
    Leaving,
    Lost,
    MemberSettings,
    Revoke,
    Subscription,
    TopicView,
    WakeAt,
    Warn,
)
from ottla.errors import ConnectionClosed
from ottla.values import TopicPartition

__all__ = ["Group", "Leaving", "Member", "World"]

METHODS = {
    "JoinGroupRequest": ("join_group", 9),
    "SyncGroupRequest": ("sync_group", 5),
    "HeartbeatRequest": ("heartbeat", 4),
    "LeaveGroupRequest": ("leave_group", 5),
    "ConsumerGroupHeartbeatRequest": ("consumer_group_heartbeat", 1),
}


def _broker_world():
    """The tiny runtime of the coordinator's own tests; test folders are not packages, so it is loaded by its place."""
    place = Path(__file__).parents[3] / "broker" / "coordinators" / "groups" / "conftest.py"
    spec = importlib.util.spec_from_file_location("ottla_group_world", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_world = _broker_world()


class AllSettings(GroupCoordinatorSettings, SharingSettings, GroupSettings):
    pass


class World(_world.World):
    def _new_shard(self):
        all_settings = AllSettings(group_consumer_assignment_interval_ms=0)
        return GroupShard(
            all_settings, self.cluster, self._new_uuid, times_of=lambda _group: consumer_times({}, all_settings)
        )


class Member:
    """A consumer: its membership, and what the face would do."""

    def __init__(self, group, name, membership, topics):
        self.group, self.name, self.machine = group, name, membership
        self.asks = deque()  # (ask, token)
        self.changes = deque()
        self.held = frozenset()
        self.told = []
        self.wake_at_ms = 0.0
        self.polls = True
        membership.metadata_changed(group.view(), group.now_ms)
        membership.subscription_changed(Subscription(frozenset(topics)), group.now_ms)
        self.poll()

    def poll(self):
        if self.polls:
            self.machine.polled(self.group.now_ms)

    def subscribe(self, *topics, pattern=None):
        self.machine.subscription_changed(Subscription(frozenset(topics), pattern), self.group.now_ms)

    def plan(self):
        self.plan_once()
        for _ in range(5):
            # A machine that wants to be woken at once, again and again, would keep the loop busy for nothing.
            if self.wake_at_ms > self.group.now_ms:
                return
            self.plan_once()
        raise AssertionError("plan() wakes up for nothing")

    def plan_once(self):
        for decision in self.machine.plan(self.group.now_ms):
            if isinstance(decision, Ask):
                method, version = METHODS[type(decision.request).__name__]
                self.asks.append((decision, self.group.world.call(method, decision.request, version)))
            elif isinstance(decision, LearnTopics):
                self.machine.metadata_changed(self.group.view(*decision.names), self.group.now_ms)
                self.told.append(decision)
            elif isinstance(decision, Revoke | Lost | Assigned):
                self.changes.append(decision)
            elif isinstance(decision, WakeAt):
                self.wake_at_ms = decision.ms
            else:
                assert isinstance(decision, ForgetCoordinator | Warn | Fail)
                self.told.append(decision)

    def carry_out(self):
        if self.changes:
            change = self.changes.popleft()
            if isinstance(change, Assigned):
                self.held = change.partitions
            else:
                self.held -= change.partitions
            self.machine.carried_out(change, self.group.now_ms)
            return change
        return None

    def deliver(self):
        for ask, token in list(self.asks):
            if not self.group.world.is_waiting(token):
                self.asks.remove((ask, token))
                self.machine.answered(ask, self.group.world.answer(token), self.group.now_ms)
                return True
        return False

    def lose(self):
        if self.asks:
            ask, _ = self.asks.popleft()
            self.machine.failed(ask, ConnectionClosed(), self.group.now_ms)

    @property
    def warnings(self):
        return [each.message for each in self.told if isinstance(each, Warn)]

    @property
    def failures(self):
        return [each.error for each in self.told if isinstance(each, Fail)]


class Group:
    """All members of group "g"."""

    max_poll_interval_ms = 60_000

    def __init__(self, **topics):
        self.world = World(_world.Cluster(**(topics or {"t": 4})))
        self.members = []
        self.count = 0

    @property
    def now_ms(self):
        return self.world.now_ms

    def view(self, *names):
        known = {name: TopicView.of(count, key) for name, (key, count) in self.world.cluster.known.items()}
        return {name: TopicView.of(0) for name in names} | known

    def settings(self, **how):
        limit_ms = self.max_poll_interval_ms
        return MemberSettings(group_id="g", session_timeout_ms=10_000, max_poll_interval_ms=limit_ms, **how)

    def add(self, *topics, assignors=("range",), **how):
        membership = ClassicMembership(self.settings(assignors=assignors, **how))
        return self._add(membership, topics)

    def add_consumer(self, *topics, **how):
        membership = ConsumerMembership(self.settings(**how), f"member-{self.count}")
        return self._add(membership, topics)

    def _add(self, membership, topics):
        self.count += 1
        member = Member(self, f"m{self.count}", membership, topics or ("t",))
        self.members.append(member)
        return member

    def grow(self, name, partitions):
        key = self.world.cluster.known[name][0] if name in self.world.cluster.known else bytes([200]) * 16
        self.world.cluster.known[name] = (key, partitions)
        self.world.shard.topics_changed([name], self.now_ms)
        for member in self.members:
            member.machine.metadata_changed(self.view(), self.now_ms)

    def turn(self, ms=100):
        self.world.advance(ms)
        for member in self.members:
            member.poll()
            member.plan()
            while member.deliver():
                member.plan()
            while member.carry_out():
                member.plan()

    def settle(self, ms=30_000):
        for _ in range(ms // 100):
            self.turn()

    def all_partitions(self, *topics):
        return {
            TopicPartition(name, index) for name in topics for index in range(self.world.cluster.partition_count(name))
        }

    def check_shared_out(self, *topics):
        held = [partition for member in self.members for partition in member.held]
        assert sorted(held) == sorted(self.all_partitions(*(topics or ("t",))))
        for member in self.members:
            assert member.held == member.machine.assignment

    def check_nobody_twice(self):
        held = [partition for member in self.members for partition in member.held]
        assert len(held) == len(set(held)), "two members read the same partition"


@pytest.fixture
def make_group():
    return Group


@pytest.fixture
def group():
    return Group()
