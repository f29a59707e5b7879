"""Random threads, processes, topics, silences, restarts and failing disks; and what must hold after every step.

The clients are honest: they run the tasks that they were last told, give up what is not among them and say so with the
next heartbeat, and stop when they are silent for too long. So `active` is what a thread really runs, and nobody else
may run the same at any time.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from tests.unit.broker.coordinators.groups.random_groups import HonestMembers, run
from tests.unit.broker.coordinators.groups.streams.topologies import sub, topic, topology

from ottla.broker.coordinators.groups.streams.group import StreamsGroup
from ottla.broker.coordinators.groups.streams.state import UNREVOKED
from ottla.broker.coordinators.groups.streams.tasks import task_ids
from ottla.broker.coordinators.groups.streams.timers import StreamsRevocationTimer

CLIENTS = st.sampled_from("AaBbC")  # a letter is a process: A and a share one


def application():
    return topology(sub("0", ["t"], sinks=["r"]), sub("1", repartitions=[topic("r")], changelogs=[topic("log")]))


class Application(HonestMembers):
    world_settings = {
        "group_streams_max_size": 4,
        "group_streams_assignment_interval_ms": 500,
        "group_streams_initial_rebalance_delay_ms": 1_000,
    }

    def __init__(self):
        super().__init__()
        self.lives = Counter()
        self.clients = {name: self._client(name) for name in "AaBbC"}

    def _client(self, name):
        return self.world.client(f"{name}{self.lives[name]}", process=name.lower(), sent=application())

    # -- steps -------------------------------------------------------------------------------------------------------

    @rule(name=CLIENTS)
    def beat(self, name):
        self.clients[name].beat()

    @rule(name=CLIENTS)
    def say_only_that_it_lives(self, name):
        self.clients[name].say_only_that_it_lives()

    @rule(name=CLIENTS)
    def an_answer_is_lost(self, name):
        """The client did not hear what it was told; it still runs what it ran."""
        client = self.clients[name]
        before = client.epoch, client.active, client.standby
        if client.beat().error_code == 0 and before[0] != 0:
            client.epoch, client.active, client.standby = before

    @rule(name=CLIENTS)
    def leave(self, name):
        self.clients[name].leave()

    @rule(name=CLIENTS)
    def crash(self, name):
        """The thread is gone, without a word; another one starts under another id."""
        self.lives[name] += 1
        self.clients[name] = self._client(name)

    @rule(ms=st.sampled_from([0, 1, 500, 1_000, 11_000, 20_000, 45_000, 61_000]))
    def time_passes(self, ms):
        self.advance(ms)

    @rule()
    def internal_topics_are_made(self):
        self.world.make_missing_topics()

    @rule(name=st.sampled_from(["t", "r", "log"]))
    def a_topic_comes_or_goes(self, name):
        if self.world.cluster.topic_id(name) is not None:
            self.world.delete_topic(name)
        else:
            self.world.make_topic(name, 4)

    @rule(standbys=st.sampled_from(["0", "1", "2"]))
    def the_group_is_set(self, standbys):
        self.world.own_settings["g"] = {
            "streams.num.standby.replicas": standbys,
            "streams.assignment.interval.ms": "500",
            "streams.initial.rebalance.delay.ms": "1000",
        }

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def no_task_runs_twice(self):
        live = [client for client in self.clients.values() if client.epoch > 0]
        running = Counter(each for client in live for each in client.active)
        assert not [each for each, count in running.items() if count > 1], running

    @invariant()
    def nobody_has_what_another_has(self):
        for group in self.world.shard.groups.values():
            assert isinstance(group, StreamsGroup)
            assert len(group.members) <= 4
            assert group.targets.keys() <= group.members.keys()
            assert group.assignment_epoch <= group.epoch
            assert all(each.epoch <= group.assignment_epoch for each in group.members.values())
            active = Counter(
                task
                for member in group.members.values()
                for owned in (member.assigned, member.revoking)
                for task in task_ids(owned.active)
            )
            assert all(count == 1 for count in active.values()), active
            placed = Counter(
                (member.process_id, task)
                for member in group.members.values()
                for owned in (member.assigned, member.revoking)
                for role in owned.tasks
                for task in task_ids(role)
            )
            assert all(count == 1 for count in placed.values()), placed

    def revocation_timer(self, member):
        return StreamsRevocationTimer("g", member.member_id, member.epoch) if member.state is UNREVOKED else None

    def teardown(self):
        """When the weather is good again, all tasks run."""
        self.world.append_error = None
        for name in ("t", "r", "log"):
            if self.world.cluster.topic_id(name) is None:
                self.world.make_topic(name, 4)
        self.advance(61_000)
        for _ in range(12):
            self.advance(3_000)
            for client in self.clients.values():
                client.beat()
        running = Counter(each for client in self.clients.values() if client.epoch > 0 for each in client.active)
        assert running == Counter({(name, each): 1 for name in "01" for each in range(4)})
        assert self.world.streams_group().state_name == "Stable"
        self.world.check_replay()


def test_no_task_runs_twice_and_all_run_in_the_end(make_streams):
    run(Application, make_streams, examples=15, steps=40)


@pytest.mark.long
def test_no_task_runs_twice_in_many_walks(make_streams):
    run(Application, make_streams, examples=200, steps=50)
