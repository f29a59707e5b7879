"""Random members, random times, random failures, restarts at any moment; and what must hold after every step."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.unit.broker.coordinators.groups.random_groups import OnAFailingDisk, run

from ottla.broker.coordinators.groups.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.broker.coordinators.groups.timers import JoinTimer, SessionTimer, SyncTimer
from ottla.errors import UnstableOffsetCommit
from ottla.protocol.stored import decode_key, decode_value
from ottla.protocol.stored.classic_groups import GroupMetadataKey, GroupMetadataValue

CLIENTS = st.sampled_from(["A", "B", "C", "i", "j"])  # lower case: static members
OFFERS = st.sampled_from([{"range": b"1"}, {"range": b"1", "sticky": b"2"}, {"sticky": b"3", "range": b"4"}])
PARTITIONS = st.tuples(st.sampled_from("tu"), st.integers(0, 1))


class Client:
    """What a client knows: its id, its generation, whether it leads."""

    def __init__(self, name):
        self.instance = name if name.islower() else None
        self.member_id = ""
        self.generation = -1
        self.leads: list[str] = []
        self.protocol = None
        self.joins: list[int] = []


class Members(OnAFailingDisk):
    world_settings = {"group_max_size": 4, "group_initial_rebalance_delay_ms": 1_000}

    def __init__(self):
        super().__init__()
        self.clients = {name: Client(name) for name in "ABCij"}
        self.asked = []  # every token
        self.syncs = {}  # token to member id
        self.leader_syncs = 0

    # -- steps -------------------------------------------------------------------------------------------------------

    @rule(name=CLIENTS, offer=OFFERS, version=st.sampled_from([0, 3, 5, 9]), forgets=st.booleans())
    def join(self, name, offer, version, forgets):
        client = self.clients[name]
        if forgets:
            client.member_id = ""
        if client.instance:
            version = max(version, 5)
        token = self.world.join(
            client.member_id,
            instance=client.instance,
            protocols=offer,
            version=version,
            session_ms=6_000,
            rebalance_ms=9_000,
        )
        self.asked.append(token)
        client.joins.append(token)
        self.listen()

    @rule(name=CLIENTS)
    def sync(self, name):
        client = self.clients[name]
        assignments = {}
        if client.leads:
            self.leader_syncs += 1
            assignments = {member: f"{self.leader_syncs}:{member}".encode() for member in client.leads}
        token = self.world.sync(
            client.member_id, client.generation, assignments, instance=client.instance, protocol=client.protocol or "?"
        )
        self.asked.append(token)
        self.syncs[token] = client.member_id
        self.listen()

    @rule(name=CLIENTS)
    def heartbeat(self, name):
        client = self.clients[name]
        self.world.heartbeat(client.member_id, client.generation, instance=client.instance)

    @rule(name=CLIENTS, by_instance=st.booleans())
    def leave(self, name, by_instance):
        client = self.clients[name]
        self.world.commits_at_once = True
        self.world.commit_log()
        self.world.leave(("" if by_instance else client.member_id, client.instance))
        self.listen()

    @rule(name=CLIENTS, partition=PARTITIONS, offset=st.integers(0, 9))
    def commit(self, name, partition, offset):
        client = self.clients[name]
        self.asked.append(
            self.world.commit(
                {partition: offset},
                member_id=client.member_id,
                generation=client.generation,
                instance=client.instance,
            )
        )

    @rule(ms=st.sampled_from([1, 500, 1_000, 3_000, 6_000, 9_000, 20_000, 600_000]))
    def time_passes(self, ms):
        self.world.advance(ms)
        self.listen()

    @rule()
    def the_coordinator_moves(self):
        self.world.restart()
        self.listen()
        assert all(token in self.world.answers for token in self.asked)

    @rule(at_once=st.booleans())
    def the_log_commits(self, at_once):
        self.world.commits_at_once = at_once
        self.world.commit_log()
        self.listen()

    @precondition(lambda self: self.world.commits_at_once)
    @rule()
    def the_group_is_deleted(self):
        self.world.delete_groups("g")

    def listen(self):
        for client in self.clients.values():
            for token in [each for each in client.joins if not self.world.is_waiting(each)]:
                client.joins.remove(token)
                answer = self.world.answer(token)
                if answer.error_code in (0, 79):
                    client.member_id, client.generation = answer.member_id, answer.generation_id
                    client.protocol = answer.protocol_name
                    client.leads = [] if answer.skip_assignment else [each.member_id for each in answer.members]

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def a_generation_has_one_assignment(self):
        life, assigned = 0, {}
        for stored in self.world.log:
            key = decode_key([GroupMetadataKey], stored.key)
            if key is None or stored.value is None:
                life += key is not None
                continue
            value = decode_value(GroupMetadataValue, stored.value)
            numbers = {each.assignment.split(b":")[0] for each in value.members if each.assignment}
            assigned.setdefault((life, value.generation), set()).update(numbers)
        assert all(len(numbers) <= 1 for numbers in assigned.values()), assigned

    @invariant()
    def nobody_is_in_two_places(self):
        for group in self.world.shard.groups.values():
            assert not set(group.members) & group.pending
            assert group.pending_sync <= set(group.members)
            assert group.static_ids == {
                each.instance_id: each.member_id for each in group.members.values() if each.instance_id
            }
            assert group.leader in group.members if group.members else True
            waiting = [
                wait.token
                for each in group.members.values()
                for wait in (each.waiting_join, each.waiting_sync)
                if wait is not None
            ]
            assert len(waiting) == len(set(waiting))
            assert all(self.world.is_waiting(token) for token in waiting)
            assert group.replacement is None
            assert len(group.members) <= 4 or group.state.current is PREPARING_REBALANCE

    @invariant()
    def a_group_waits_only_where_it_may(self):
        for group in self.world.shard.groups.values():
            state = group.state.current
            assert not group.waiting_to_join or state is PREPARING_REBALANCE
            assert state is COMPLETING_REBALANCE or not any(each.waiting_sync for each in group.members.values())
            assert bool(group.members) or state in (EMPTY, PREPARING_REBALANCE)
            assert not (group.members and state is EMPTY)

    @invariant()
    def every_wait_ends(self):
        """There is a timer behind everything that is not settled, so nothing stays for ever."""
        timers = self.world.timers
        for group in self.world.shard.groups.values():
            state = group.state.current
            assert state is not PREPARING_REBALANCE or JoinTimer("g") in timers
            assert state is not COMPLETING_REBALANCE or SyncTimer("g") in timers
            for member_id in group.pending:
                assert SessionTimer("g", member_id) in timers
            for member in group.members.values():
                assert member.is_alive_without_heartbeat or SessionTimer("g", member.member_id) in timers

    @invariant()
    def a_stable_group_is_what_its_record_says(self):
        replayed = self.world.replayed()
        for name, group in self.world.shard.groups.items():
            if group.state.current is STABLE:
                again = replayed.groups[name]
                assert again.state.current is STABLE
                assert (again.generation, again.leader) == (group.generation, group.leader)
                assert (again.protocol_type, again.protocol_name) == (group.protocol_type, group.protocol_name)
                assert {each.member_id: each.assignment for each in again.members.values()} == {
                    each.member_id: each.assignment for each in group.members.values()
                }

    @invariant()
    def who_synced_got_its_own_assignment(self):
        for token, member_id in list(self.syncs.items()):
            if not self.world.is_waiting(token):
                del self.syncs[token]
                answer = self.world.answer(token)
                if answer.error_code == 0 and answer.assignment and ":" in answer.assignment.decode():
                    told = answer.assignment.decode().split(":", 1)[1]
                    assert told == member_id or self.is_static(told, member_id)

    def is_static(self, old_id, member_id):
        """A restarted static member takes over what its former process was assigned."""
        return old_id[:2] == member_id[:2] and old_id[:2] in ("i-", "j-")

    def teardown(self):
        self.world.commit_log()
        self.world.restart()
        assert all(token in self.world.answers for token in self.asked), "somebody was forgotten"


class Offsets(OnAFailingDisk):
    """Simple groups and transactions against plain dictionaries."""

    retention_ms = 60_000
    world_settings = {"offsets_retention_minutes": retention_ms // 60_000, "offsets_retention_check_interval_ms": 7_000}

    def __init__(self):
        super().__init__()
        self.offsets = {}  # (group, topic, partition) to (offset, time, place in the log)
        self.pending = {}  # producer id to the same

    groups = st.sampled_from("gh")
    producers = st.sampled_from([7, 8])

    @rule(group=groups, partition=PARTITIONS, offset=st.integers(0, 99))
    def commit(self, group, partition, offset):
        if self.world.commit_codes({partition: offset}, group=group) == [0]:
            self.offsets[group, *partition] = (offset, self.world.now_ms, len(self.world.log))

    @rule(group=groups, partition=PARTITIONS, offset=st.integers(0, 99), producer=producers)
    def commit_in_transaction(self, group, partition, offset, producer):
        if self.world.txn_commit(producer, {partition: offset}, group=group) == [0]:
            self.pending.setdefault(producer, {})[group, *partition] = (
                offset,
                self.world.now_ms,
                len(self.world.log),
            )

    @rule(producer=producers, committed=st.booleans())
    def end(self, producer, committed):
        self.world.end_transaction(producer, committed)
        for place, value in self.pending.pop(producer, {}).items():
            if committed and value[2] > self.offsets.get(place, (0, 0, -1))[2]:
                self.offsets[place] = value

    @rule(group=groups, partition=PARTITIONS)
    def delete(self, group, partition):
        answer = self.world.delete_offsets([partition], group=group)
        if answer.error_code == 0:
            self.forget(lambda place: place == (group, *partition))

    @rule(group=groups)
    def delete_group(self, group):
        if self.world.delete_groups(group)[group] == 0:
            self.forget(lambda place: place[0] == group)

    @rule(topic=st.sampled_from("tu"))
    def delete_topic(self, topic):
        effects = self.world.shard.topics_deleted([(topic, self.world.cluster.topic_id(topic))], self.world.now_ms)
        self.world.carry_out(effects)
        if self.world.append_error is None:
            self.forget(lambda place: place[1] == topic)

    def forget(self, is_gone):
        for offsets in (self.offsets, *self.pending.values()):
            for place in [each for each in offsets if is_gone(each)]:
                del offsets[place]

    @rule(ms=st.sampled_from([1, 3_000, 7_000, 30_000, 60_000]))
    def time_passes(self, ms):
        self.world.advance(ms)
        fetched = {(group, *where) for group in "gh" for where in self.world.fetch(group=group)}
        for place in list(self.offsets):
            age_ms = self.world.now_ms - self.offsets[place][1]
            if place not in fetched:
                assert age_ms >= self.retention_ms, "forgotten too early"
                del self.offsets[place]

    @invariant()
    def fetch_tells_what_was_committed(self):
        for group in "gh":
            expected = {place[1:]: (value[0], 0) for place, value in self.offsets.items() if place[0] == group}
            assert self.world.fetch(group=group) == expected
            unsure = {place[1:] for offsets in self.pending.values() for place in offsets if place[0] == group}
            asked = {topic: [0, 1] for topic in "tu"}
            for where, (_, code) in self.world.fetch(asked, group=group, stable=True).items():
                assert (code == UnstableOffsetCommit.code) == (where in unsure)

    @invariant()
    def nothing_is_kept_for_nothing(self):
        store = self.world.shard.offsets
        assert all(partitions for topics in store._committed.values() for partitions in topics.values())
        assert all(store._committed.values())
        assert all(store._pending.values())
        assert all(ids for partitions in store._open.values() for ids in partitions.values())


@pytest.mark.parametrize("machine", [Members, Offsets])
def test_random_steps_break_no_promise(make_world, machine):
    run(machine, make_world, examples=60, steps=40)


@pytest.mark.long
@pytest.mark.parametrize("machine", [Members, Offsets])
def test_many_random_steps_break_no_promise(make_world, machine):
    run(machine, make_world, examples=600, steps=60)
