"""How often a poll that waits for records says that it is still there: seldom, unless somebody waits to hear it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ottla.client.consumer.group import POLL_TURN_MS, Group
from ottla.client.consumer.settings import ConsumerSettings


class Core(SimpleNamespace):
    """What a group needs of a consumer's core, and how often the caller was stirred."""

    def __init__(self, **settings):
        super().__init__(settings=ConsumerSettings(bootstrap_servers="127.0.0.1:1", group_id="g", **settings))
        self.random_bytes = bytes
        self.clock = SimpleNamespace(monotonic_ms=lambda: 0.0)
        self.network = SimpleNamespace(clock=self.clock)
        self.stirred = 0

    def stir(self):
        self.stirred += 1


def in_state(group, *, is_member, is_rebalancing=False):
    group._membership = SimpleNamespace(
        is_member=is_member,
        is_rebalancing=is_rebalancing,
        has_left=False,
        plan=lambda now_ms: [],
        polled=lambda now_ms: None,
    )
    group.step()


@pytest.mark.parametrize(("is_member", "is_rebalancing"), [(False, False), (True, True)])
def test_it_is_often_while_the_membership_waits_for_a_poll(is_member, is_rebalancing):
    group = Group(Core(enable_auto_commit=False), "g")
    in_state(group, is_member=is_member, is_rebalancing=is_rebalancing)
    assert group.poll_turn_ms(0.0) == POLL_TURN_MS


def test_it_is_seldom_for_a_member_that_has_its_partitions():
    group = Group(Core(enable_auto_commit=False, max_poll_interval_ms=80_000), "g")
    in_state(group, is_member=True)
    assert group.poll_turn_ms(0.0) == 10_000


def test_it_is_in_time_for_the_next_commit():
    group = Group(Core(enable_auto_commit=True, auto_commit_interval_ms=5_000), "g")
    in_state(group, is_member=True)
    assert not group.polled(0.0)
    assert group.poll_turn_ms(0.0) == 5_000
    assert group.polled(5_000.0)


def test_a_poll_that_waits_hears_when_the_membership_begins_to_wait_for_it():
    core = Core(enable_auto_commit=False)
    group = Group(core, "g")
    in_state(group, is_member=True)
    before = core.stirred
    in_state(group, is_member=True, is_rebalancing=True)
    in_state(group, is_member=True, is_rebalancing=True)
    assert core.stirred == before + 1
