"""Matched topics are deleted and made again at any moment: nobody waits for what is gone (KIP-848).

The clients know topics as real ones do. They are assigned ids, and read a partition only once their metadata has the
name of its topic; a topic that was deleted before never gets one, so there is nothing to give up and nothing to report.
They name what they own only when that has changed, or with everything after an answer was lost.

What must hold: no partition is read by two; and after the last change everybody has a part of all that matches within
a few heartbeats, though no time-out of ours (session, revocation) is there to help.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from tests.unit.broker.coordinators.groups.random_groups import RandomGroups, run

from ottla.broker.coordinators.groups.consumer.timers import RevocationTimer
from ottla.errors import FencedMemberEpoch, UnknownMemberId
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

PATTERN = "log.*"
NAMES = st.sampled_from(["log-a", "log-b", "log-c"])
CLIENTS = st.sampled_from("ABC")
REBALANCE_MS = 300_000
QUIET_ROUNDS = 20  # of a second each: an expression is matched again after ten
BEGIN_ANEW = (FencedMemberEpoch.code, UnknownMemberId.code)


class Reader:
    """A consumer of the new protocol: everything by the ids of topics, names only from its metadata."""

    def __init__(self, world, member_id):
        self.world = world
        self.member_id = member_id
        self.known = set()  # ids whose name it knows
        self.begin()

    def begin(self):
        self.epoch = 0
        self.target, self.owned = set(), set()
        self.is_full, self.reported = True, None

    def beat(self, *, is_lost=False):
        is_full, reports = self.is_full, self.is_full or self.owned != self.reported
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            subscribed_topic_names=[] if is_full else None,
            subscribed_topic_regex=PATTERN if is_full else None,
            topic_partitions=as_wire(self.owned) if reports else None,
        )
        answer = self.world.answer(self.world.call("consumer_group_heartbeat", request, 1))
        if is_lost:
            self.is_full = True
        elif answer.error_code in BEGIN_ANEW:
            self.begin()
        else:
            assert answer.error_code == 0, answer.error_message
            self._take(answer)

    def _take(self, answer):
        self.epoch = answer.member_epoch
        self.is_full, self.reported = False, set(self.owned)
        if answer.assignment is not None:
            self.target = {
                (each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions
            }
        self._reconcile()

    def refresh_metadata(self):
        self.known = {topic_id for topic_id, _ in self.world.cluster.known.values()}
        self._reconcile()

    def _reconcile(self):
        """Give up what is not assigned any more; read what is assigned and has a name."""
        self.owned = {each for each in self.target if each in self.owned or each[0] in self.known}


def as_wire(owned):
    by_topic = {}
    for topic_id, index in sorted(owned):
        by_topic.setdefault(topic_id, []).append(index)
    return [TopicPartitions(topic_id=key, partitions=indexes) for key, indexes in by_topic.items()]


class DeletedTopics(RandomGroups):
    world_settings = {"group_consumer_assignment_interval_ms": 500}

    def __init__(self):
        super().__init__()
        self.ids = itertools.count(1_000)
        self.readers = {name: Reader(self.world, name) for name in "ABC"}

    # -- steps -------------------------------------------------------------------------------------------------------

    @rule(name=CLIENTS)
    def beat(self, name):
        self.readers[name].beat()

    @rule(name=CLIENTS)
    def an_answer_is_lost(self, name):
        reader = self.readers[name]
        if reader.epoch:  # who joins again under its id begins anew anyhow
            reader.beat(is_lost=True)

    @rule(name=CLIENTS)
    def metadata_comes(self, name):
        self.readers[name].refresh_metadata()

    @rule(topic=NAMES, partitions=st.integers(1, 4))
    def a_topic_is_made(self, topic, partitions):
        if topic not in self.world.cluster.known:
            self._make(topic, partitions)

    @rule(topic=NAMES)
    def a_topic_is_deleted(self, topic):
        if topic in self.world.cluster.known:
            self.world.delete_topic(topic)

    @rule(topic=NAMES, partitions=st.integers(1, 4))
    def a_topic_is_made_again_at_once(self, topic, partitions):
        if topic in self.world.cluster.known:
            self.world.delete_topic(topic)
            self._make(topic, partitions)

    def _make(self, topic, partitions):
        """An id is never used again."""
        self.world.cluster.known[topic] = (next(self.ids).to_bytes(16, "big"), partitions)
        self.world.shard.topics_changed([topic], self.world.now_ms)

    @rule(ms=st.sampled_from([0, 500, 3_000, 11_000]))
    def time_passes(self, ms):
        self.world.advance(ms)
        self.stop_the_silent()

    def stop_the_silent(self):
        """Who was put out for its silence has noticed that itself by then."""
        group = self.world.shard.groups.get("g")
        for reader in self.readers.values():
            if reader.epoch and (group is None or reader.member_id not in group.members):
                reader.begin()

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def no_partition_is_read_twice(self):
        read = Counter(each for reader in self.readers.values() for each in reader.owned)
        assert not [each for each, count in read.items() if count > 1]

    def teardown(self):
        for _ in range(QUIET_ROUNDS):
            for key in [each for each in self.world.timers if isinstance(each, RevocationTimer)]:
                del self.world.timers[key]
            self.world.advance(1_000)
            self.stop_the_silent()
            for reader in self.readers.values():
                reader.refresh_metadata()
                reader.beat()
                self.no_partition_is_read_twice()
        matching = {
            (topic_id, index)
            for name, (topic_id, count) in self.world.cluster.known.items()
            if name.startswith("log")
            for index in range(count)
        }
        assert set().union(*(reader.owned for reader in self.readers.values())) == matching
        sizes = sorted(len(reader.owned) for reader in self.readers.values())
        assert sizes[-1] - sizes[0] <= 3  # one for each topic: it keeps what it has
        assert self.world.consumer_group().state_name == "Stable"
        self.world.check_replay()


def test_nobody_waits_for_a_topic_that_is_gone(make_consumers):
    run(DeletedTopics, make_consumers, examples=20, steps=30)


@pytest.mark.long
def test_nobody_waits_for_a_topic_that_is_gone_in_long_walks(make_consumers):
    run(DeletedTopics, make_consumers, examples=500, steps=50)
