"""The share coordinator against a plain model: one entry per offset, and the state of every other shard that has read
the same log.

Group coordinators initialize and delete, leaders of growing epochs read and write, the coordinator moves (a new shard
reads the log), and the log is cut where it says that nobody needs it.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ottla.broker.coordinators.effects import Reply, StoredRecord, Write
from ottla.broker.coordinators.share_state.cutting import CutLog, CutTimer
from ottla.broker.coordinators.share_state.records import KINDS
from ottla.broker.coordinators.share_state.shard import ShareStateShard
from ottla.broker.coordinators.share_state.state import Batch, merge
from ottla.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest, KafkaStorageError
from ottla.protocol.messages import delete_share_group_state as deleting
from ottla.protocol.messages import initialize_share_group_state as initializing
from ottla.protocol.messages import read_share_group_state as reading
from ottla.protocol.messages import read_share_group_state_summary as summarizing
from ottla.protocol.messages import write_share_group_state as writing
from ottla.protocol.stored import decode_key, decode_value, encode_key, encode_value

TOPIC = bytes(range(16))
SETTINGS = SimpleNamespace(share_coordinator_snapshot_update_records_per_snapshot=3)
CLUSTER = SimpleNamespace(topic_name=lambda topic_id: "orders", partition_count=lambda name: 3)
PARTITIONS = st.integers(0, 2)


def painted(batches):
    return {at: (each.state, each.deliveries) for each in batches for at in range(each.first, each.last + 1)}


class World(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.log = []  # (offset, record as bytes)
        self.log_start = self.next_offset = 0
        self.shard = ShareStateShard(SETTINGS, CLUSTER)
        self.model = {}
        self.now = 0

    # -- the runtime --------------------------------------------------------------------------------------------------

    def ask(self, method, request, refuses=False):
        """The error code of the answer, or the answer."""
        self.now += 1
        effects = getattr(self.shard, method)(7, request, None, self.now)
        (reply,) = self.carry_out(effects, refuses)
        return reply.response.results[0].partitions[0]

    def carry_out(self, effects, refuses=False):
        replies = []
        for effect in effects:
            if isinstance(effect, Reply):
                replies.append(effect)
            elif isinstance(effect, CutLog):
                self.log_start = max(self.log_start, effect.offset)
                self.log = [each for each in self.log if each[0] >= self.log_start]
            elif isinstance(effect, Write):
                if refuses and effect.records:
                    return effect.failure(KafkaStorageError("the disk is full"))
                for record in effect.records:
                    self.append(record)
                replies += effect.replies
        return replies

    def append(self, record):
        key = encode_key(record.key)
        value = None if record.value is None else encode_value(record.value, record.value_version)
        self.log.append((self.next_offset, key, value))
        self.shard.replay(record, offset=self.next_offset)
        self.next_offset += 1

    def replayed(self):
        """Another shard that has read the log."""
        other = ShareStateShard(SETTINGS, CLUSTER)
        for offset, key_bytes, value_bytes in self.log:
            key = decode_key(KINDS, key_bytes)
            value = None if value_bytes is None else decode_value(KINDS[type(key)], value_bytes)
            other.replay(StoredRecord(key, value), offset=offset)
        return other

    # -- requests -----------------------------------------------------------------------------------------------------

    @rule(partition=PARTITIONS, epoch=st.integers(0, 4), start=st.integers(-1, 9), refuses=st.booleans())
    def initialize_one(self, partition, epoch, start, refuses):
        data = initializing.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
        topics = [initializing.InitializeStateData(topic_id=TOPIC, partitions=[data])]
        request = initializing.InitializeShareGroupStateRequest(group_id="g", topics=topics)
        code = self.ask("initialize", request, refuses).error_code
        known = self.model.get(partition)
        if known is not None and known.epoch > epoch:
            assert code == FencedStateEpoch.code
        elif known is not None and start == -1:
            assert code == 0, "what was done since stays"
        elif refuses:
            assert code != 0
        else:
            leader = 0 if known is None else known.leader
            self.model[partition] = SimpleNamespace(
                epoch=epoch, leader=leader, start=start, done=0 if start >= 0 else -1, offsets={}
            )

    @rule(partition=PARTITIONS, leader=st.integers(0, 4), refuses=st.booleans())
    def read_one(self, partition, leader, refuses):
        data = reading.PartitionData(partition=partition, leader_epoch=leader)
        topics = [reading.ReadStateData(topic_id=TOPIC, partitions=[data])]
        answer = self.ask("read", reading.ReadShareGroupStateRequest(group_id="g", topics=topics), refuses)
        known = self.model.get(partition)
        if known is None:
            assert answer.error_code == InvalidRequest.code
        elif leader < known.leader:
            assert answer.error_code == FencedLeaderEpoch.code
        elif refuses and leader > known.leader:
            assert answer.error_code != 0
        else:
            known.leader = leader
            found = [
                Batch(e.first_offset, e.last_offset, e.delivery_state, e.delivery_count) for e in answer.state_batches
            ]
            assert (answer.start_offset, painted(found)) == (known.start, known.offsets)

    @rule(
        partition=PARTITIONS,
        leader=st.integers(0, 4),
        epoch=st.integers(0, 4),
        start=st.integers(0, 12),
        sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from([0, 2, 4]), st.integers(0, 3))),
        refuses=st.booleans(),
    )
    def write_one(self, partition, leader, epoch, start, sizes, refuses):
        batches, at = [], start
        for gap, size, state, deliveries in sizes[:4]:
            batches.append(Batch(at + gap, at + gap + size - 1, state, deliveries))
            at += gap + size
        data = writing.PartitionData(
            partition=partition,
            state_epoch=epoch,
            leader_epoch=leader,
            start_offset=start,
            delivery_complete_count=len(batches),
            state_batches=[
                writing.StateBatch(
                    first_offset=e.first, last_offset=e.last, delivery_state=e.state, delivery_count=e.deliveries
                )
                for e in batches
            ],
        )
        topics = [writing.WriteStateData(topic_id=TOPIC, partitions=[data])]
        code = self.ask("write", writing.WriteShareGroupStateRequest(group_id="g", topics=topics), refuses).error_code
        known = self.model.get(partition)
        if known is None:
            assert code == InvalidRequest.code
        elif leader < known.leader:
            assert code == FencedLeaderEpoch.code
        elif epoch < known.epoch:
            assert code == FencedStateEpoch.code
        elif refuses:
            assert code != 0
        else:
            assert code == 0
            known.epoch, known.leader, known.start, known.done = epoch, leader, start, len(batches)
            known.offsets |= painted(batches)
            known.offsets = {at: each for at, each in known.offsets.items() if at >= start}

    @rule(partition=PARTITIONS, refuses=st.booleans())
    def delete_one(self, partition, refuses):
        topics = [deleting.DeleteStateData(topic_id=TOPIC, partitions=[deleting.PartitionData(partition=partition)])]
        code = self.ask(
            "delete", deleting.DeleteShareGroupStateRequest(group_id="g", topics=topics), refuses
        ).error_code
        if refuses and partition in self.model:
            assert code != 0
        else:
            assert code == 0
            self.model.pop(partition, None)

    @rule()
    def the_topic_is_deleted(self):
        self.carry_out(self.shard.topics_deleted([("orders", TOPIC)], self.now))
        self.model.clear()

    @rule()
    def another_broker_takes_over(self):
        self.shard = self.replayed()

    @rule()
    def the_log_is_cut(self):
        self.carry_out([each for each in self.shard.timer_fired(CutTimer(), self.now) if not hasattr(each, "at_ms")])

    # -- what must always hold ----------------------------------------------------------------------------------------

    @invariant()
    def the_state_is_what_the_model_has(self):
        if not hasattr(self, "model"):
            return
        assert {key.partition for key in self.shard.states} == self.model.keys()
        for partition, known in self.model.items():
            data = summarizing.PartitionData(partition=partition, leader_epoch=-1)
            topics = [summarizing.ReadStateSummaryData(topic_id=TOPIC, partitions=[data])]
            found = self.ask("summary", summarizing.ReadShareGroupStateSummaryRequest(group_id="g", topics=topics))
            said = (found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count)
            assert said == (known.epoch, known.leader, known.start, known.done)
        for key, state in self.shard.states.items():
            assert painted(state.batches) == self.model[key.partition].offsets

    @invariant()
    def a_replay_gives_the_same_state(self):
        if hasattr(self, "model"):
            assert self.replayed().states == self.shard.states


def run(examples, steps):
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        World,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=checks
        ),
    )


def test_whatever_is_asked_the_log_has_the_state():
    run(20, 20)


@pytest.mark.long
def test_whatever_is_asked_for_long_the_log_has_the_state():
    run(500, 50)


def test_equal_neighbours_are_put_together_and_the_newest_wins():
    older = [Batch(0, 9, 0, 1), Batch(10, 12, 2, 1)]
    assert merge(older, [Batch(3, 4, 2, 1)], 0) == (
        Batch(0, 2, 0, 1),
        Batch(3, 4, 2, 1),
        Batch(5, 9, 0, 1),
        Batch(10, 12, 2, 1),
    )
    assert merge(older, [Batch(5, 9, 2, 1)], 7) == (Batch(7, 12, 2, 1),)


def test_a_cold_share_partition_does_not_keep_the_log_of_others():
    world = World()
    world.begin()
    world.initialize_one(0, 1, 0, False)
    world.initialize_one(1, 1, 0, False)
    for _ in range(1_200):
        world.write_one(1, 0, 1, 0, [], False)
    world.the_log_is_cut()  # writes the cold one once more
    world.the_log_is_cut()
    assert len(world.log) < 10
    assert world.replayed().states == world.shard.states
