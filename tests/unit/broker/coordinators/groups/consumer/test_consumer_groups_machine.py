"""Random members, topics, silences, restarts and failing disks; and what must hold after every step.

The clients are honest: they have what they were last told, give up what is not in it and say so with the next
heartbeat, and stop when they are silent for too long. So `owned` is what a client really reads, and nobody else may
read the same at any time.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from tests.unit.broker.coordinators.groups.random_groups import HonestMembers, run

from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.state import UNREVOKED
from ottla.broker.coordinators.groups.consumer.timers import RevocationTimer

CLIENTS = st.sampled_from("ABCij")  # lower case: static members
TOPICS = st.sets(st.sampled_from(["t", "u", "new"]))


class Consumers(HonestMembers):
    world_settings = {"group_consumer_max_size": 4, "group_consumer_assignment_interval_ms": 500}

    def __init__(self):
        super().__init__()
        self.clients = {name: self._client(name) for name in "ABCij"}
        self.lives = Counter()

    def _client(self, name, life=0):
        instance = name if name.islower() else None
        return self.world.client(f"{name}{life}", topics=["t"], instance=instance, regex="", assignor=None)

    # -- steps -------------------------------------------------------------------------------------------------------

    @rule(name=CLIENTS)
    def beat(self, name):
        self.clients[name].beat()

    @rule(name=CLIENTS)
    def say_only_that_it_lives(self, name):
        self.clients[name].beat(says_nothing=True)

    @rule(name=CLIENTS)
    def an_answer_is_lost(self, name):
        """The client did not hear what it was told; it still has what it had."""
        client = self.clients[name]
        epoch, owned, is_told = client.epoch, client.owned, client.is_told
        code = client.beat().error_code
        if code == 0 and epoch != 0:
            client.epoch, client.owned, client.is_told = epoch, owned, is_told or True

    @rule(name=CLIENTS, topics=TOPICS, regex=st.sampled_from(["", "", "n.*", "t|u"]), range_=st.booleans())
    def subscribe(self, name, topics, regex, range_):
        self.clients[name].subscribe(*sorted(topics), regex=regex, assignor="range" if range_ else "uniform")

    @rule(name=CLIENTS, for_a_while=st.booleans())
    def leave(self, name, for_a_while):
        client = self.clients[name]
        instance = client.told["instance"]
        client.owned = set()  # a consumer gives up everything before it goes
        self.world.leave_consumer(client.member_id, -2 if instance and for_a_while else -1, instance=instance)
        client.epoch = 0

    @rule(name=CLIENTS)
    def crash(self, name):
        """The process is gone, without a word; another one starts under another id."""
        self.lives[name] += 1
        told = self.clients[name].told
        self.clients[name] = self._client(name, self.lives[name])
        self.clients[name].told = told

    @rule(ms=st.sampled_from([0, 1, 400, 500, 3_000, 11_000, 20_000, 45_000, 61_000]))
    def time_passes(self, ms):
        self.advance(ms)

    @rule(topic=st.sampled_from(["t", "u"]), count=st.integers(1, 6))
    def a_topic_grows(self, topic, count):
        now = self.world.cluster.partition_count(topic) or 0
        if count > now > 0:
            self.world.grow_topic(topic, count)

    @rule(count=st.integers(1, 3))
    def a_topic_comes_or_goes(self, count):
        if self.world.cluster.topic_id("new") is None:
            self.world.make_topic("new", count)
        else:
            self.world.delete_topic("new")

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def no_partition_is_read_twice(self):
        live = [client for client in self.clients.values() if client.epoch > 0]
        read = Counter(each for client in live for each in client.owned)
        assert not [each for each, count in read.items() if count > 1], read

    @invariant()
    def nobody_is_in_two_places(self):
        for group in self.world.shard.groups.values():
            assert isinstance(group, ConsumerGroup)
            assert len(group.members) <= 4
            owned = [
                (topic, partition)
                for member in group.members.values()
                for part in (member.assigned, member.revoking)
                for topic, partitions in part.items()
                for partition in partitions
            ]
            assert len(owned) == len(set(owned)) == len(group.owners)
            wanted = [
                each for target in group.targets.values() for t, ps in target.items() for each in [(t, p) for p in ps]
            ]
            assert len(wanted) == len(set(wanted))
            assert group.targets.keys() <= group.members.keys()
            assert group.static_ids == {
                each.instance_id: each.member_id for each in group.members.values() if each.instance_id
            }
            assert group.assignment_epoch <= group.epoch
            assert all(each.epoch <= group.assignment_epoch for each in group.members.values())
            assert group.regex_members == Counter(each.regex for each in group.members.values() if each.regex)

    def revocation_timer(self, member):
        return RevocationTimer("g", member.member_id) if member.state is UNREVOKED else None

    def teardown(self):
        """After quiet everybody who is there has a fair part, and every partition that somebody wants is read."""
        self.world.append_error = None
        live = [self.clients[name] for name in "ABC"]
        for client in live:
            client.is_told = True
        for _ in range(40):
            self.advance(3_000)
            for client in live:
                client.beat()
                if client.code == 81:  # full, because dead members still have their session
                    client.epoch, client.owned = 0, set()
        self.no_partition_is_read_twice()
        group = self.world.consumer_group()
        assert group.state_name == "Stable"
        assert set(group.members) == {client.member_id for client in live}
        cluster = self.world.cluster
        wanted = {
            (topic, index)
            for topic in group.subscribed_topics()
            for index in range(cluster.partition_count(topic) or 0)
        }
        assert {each for client in live for each in client.owned} == wanted
        self.world.check_replay()


def test_random_steps_break_no_promise(make_consumers):
    run(Consumers, make_consumers, examples=40, steps=40)


@pytest.mark.long
def test_many_random_steps_break_no_promise(make_consumers):
    run(Consumers, make_consumers, examples=600, steps=60)
