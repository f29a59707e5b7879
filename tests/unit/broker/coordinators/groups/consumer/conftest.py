"""The world of group tests with consumer groups in it, and a client that does what a KIP-848 consumer does."""

from __future__ import annotations

import pytest

from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.settings.group_level import consumer_times
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.broker.settings.sharing import SharingSettings
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

SESSION_MS = 45_000  # group.consumer.session.timeout.ms


class AllSettings(GroupCoordinatorSettings, SharingSettings, GroupSettings):
    pass


def durable(shard):
    """All that must survive of the consumer groups."""
    soft = {"checked_epoch", "has_new_topics", "called"}
    return {
        name: {key: value for key, value in vars(group).items() if key not in soft}
        for name, group in shard.groups.items()
        if isinstance(group, ConsumerGroup)
    }


class Client:
    """What a consumer knows. It acknowledges what it was assigned with its next heartbeat, as consumers do."""

    def __init__(self, world, member_id, group="g", topics=("t",), **told):
        self.world = world
        self.member_id = member_id
        self.group = group
        self.told = {"topics": list(topics) if topics is not None else None, **told}
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()
        self.code = 0
        self.is_told = False  # something changed that the coordinator must hear
        self.last_ms = world.now_ms

    def stop_if_silent(self):
        """A consumer that could not send a heartbeat for its session stops reading and begins anew."""
        if self.world.now_ms - self.last_ms >= SESSION_MS:
            self.epoch, self.owned = 0, set()

    def beat(self, *, says_nothing=False):
        """One heartbeat; takes over what the answer says."""
        self.stop_if_silent()
        self.last_ms = self.world.now_ms
        full = self.epoch == 0 or self.is_told
        answer = self.world.beat(
            self.member_id,
            self.epoch,
            group=self.group,
            owned=None if says_nothing else sorted(self.owned) if self.epoch != 0 else [],
            rebalance_ms=60_000 if full else -1,
            **(self.told if full else {"instance": self.told.get("instance"), "topics": None}),
        )
        self.listen(answer)
        return answer

    def listen(self, answer):
        self.code = answer.error_code
        if answer.error_code in (110, 25, 82):  # fenced or forgotten: give up everything and begin anew
            self.epoch = 0
            self.owned = set()
        elif answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.is_told = False
            if answer.assignment is not None:
                self.owned = self.world.named(answer.assignment.topic_partitions)

    def subscribe(self, *topics, **told):
        self.told.update(topics=list(topics), **told)
        self.is_told = True


@pytest.fixture
def make_consumers(make_world):
    class Consumers(make_world):
        def __init__(self, cluster=None, **settings):
            settings.setdefault("group_consumer_assignment_interval_ms", 0)
            self.all_settings = AllSettings(**settings)
            self.own_settings = {}  # by group, what it set for itself
            super().__init__(cluster)

        def _new_shard(self):
            return GroupShard(
                self.all_settings,
                self.cluster,
                self._new_uuid,
                times_of=lambda group_id: consumer_times(self.own_settings.get(group_id, {}), self.all_settings),
                leader_epoch=self.leader_epoch,
            )

        def client(self, member_id, **how):
            return Client(self, member_id, **how)

        def named(self, topic_partitions):
            return {
                (self.cluster.topic_name(each.topic_id) or each.topic_id, index)
                for each in topic_partitions
                for index in each.partitions
            }

        def beat_token(
            self,
            member_id="m",
            epoch=0,
            *,
            group="g",
            topics=("t",),
            owned=None,
            version=1,
            instance=None,
            rack=None,
            regex=None,
            assignor=None,
            rebalance_ms=None,
        ):
            told = None
            if owned is not None or epoch == 0:
                by_topic = {}
                for topic, partition in owned or ():
                    by_topic.setdefault(self.cluster.topic_id(topic) or bytes(16), []).append(partition)
                told = [TopicPartitions(topic_id=key, partitions=each) for key, each in by_topic.items()]
            request = ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member_id,
                member_epoch=epoch,
                instance_id=instance,
                rack_id=rack,
                rebalance_timeout_ms=(60_000 if epoch == 0 else -1) if rebalance_ms is None else rebalance_ms,
                subscribed_topic_names=None if topics is None else list(topics),
                subscribed_topic_regex=regex,
                server_assignor=assignor,
                topic_partitions=told,
            )
            return self.call("consumer_group_heartbeat", request, version)

        def beat(self, *args, **how):
            return self.answer(self.beat_token(*args, **how))

        def leave_consumer(self, member_id, epoch=-1, *, group="g", instance=None):
            return self.beat(member_id, epoch, group=group, instance=instance, topics=None)

        def consumer_group(self, name="g"):
            group = self.shard.groups[name]
            assert isinstance(group, ConsumerGroup)
            return group

        def consumer_described(self, group="g", version=1):
            request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
            return self.answer(self.call("describe_consumer_groups", request, version)).groups[0]

        def grow_topic(self, name, partitions):
            self.cluster.known[name] = (self.cluster.known[name][0], partitions)
            self.shard.topics_changed([name], self.now_ms)

        def check_replay(self):
            super().check_replay()
            assert durable(self.replayed()) == durable(self.shard)

    return Consumers


@pytest.fixture
def consumers(make_consumers):
    return make_consumers()
