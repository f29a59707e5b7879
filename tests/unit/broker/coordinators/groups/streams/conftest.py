"""The world of group tests with streams groups in it, and a client that does what a thread of Kafka Streams does."""

from __future__ import annotations

import pytest
from tests.unit.broker.coordinators.groups.streams.topologies import stateless

from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.coordinators.groups.streams.group import StreamsGroup
from ottla.broker.settings.group_level import streams_config
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.broker.settings.sharing import SharingSettings
from ottla.protocol.messages import streams_group_heartbeat as wire
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

SESSION_MS = 45_000  # group.streams.session.timeout.ms
SOFT = {"configured", "checked_epoch", "delayed_until_ms", "endpoint_epoch", "shutdown_by"}


class AllSettings(GroupCoordinatorSettings, SharingSettings, GroupSettings):
    pass


def durable(shard):
    """All that must survive of the streams groups."""
    return {
        name: {key: value for key, value in vars(group).items() if key not in SOFT}
        for name, group in shard.groups.items()
        if isinstance(group, StreamsGroup)
    }


def task_ids(tasks):
    by_name = {}
    for name, partition in sorted(tasks):
        by_name.setdefault(name, []).append(partition)
    return [wire.TaskIds(subtopology_id=name, partitions=each) for name, each in by_name.items()]


def tasks_of(entries):
    return {(each.subtopology_id, partition) for each in entries for partition in each.partitions}


class Client:
    """What a thread of Kafka Streams knows. It acknowledges what it was assigned with its next heartbeat."""

    def __init__(self, world, member_id, process=None, sent=None, group="g", endpoint=None):
        self.world = world
        self.member_id = member_id
        self.process = process or member_id
        self.sent = sent or stateless()
        self.group = group
        self.endpoint = endpoint
        self.begin_anew()
        self.last_ms = world.now_ms

    def begin_anew(self):
        self.epoch, self.active, self.standby = 0, set(), set()
        self.code, self.statuses, self.endpoint_epoch, self.endpoints = 0, [], -1, None

    def stop_if_silent(self):
        """A member that could not send a heartbeat for its session stops its tasks and begins anew."""
        if self.world.now_ms - self.last_ms >= SESSION_MS:
            self.begin_anew()

    def beat(self, **how):
        self.stop_if_silent()
        self.last_ms = self.world.now_ms
        joins = self.epoch == 0
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            topology=self.sent if joins else None,
            active_tasks=task_ids(self.active),
            standby_tasks=task_ids(self.standby),
            warmup_tasks=[],
            process_id=self.process if joins else None,
            user_endpoint=self.endpoint if joins else None,
            client_tags=[] if joins else None,
        )
        for name, value in how.items():
            setattr(request, name, value)
        answer = self.world.streams_beat(request)
        self.listen(answer)
        return answer

    def listen(self, answer):
        self.code = answer.error_code
        if answer.error_code in (110, 25, 69):  # fenced or forgotten: give up everything and begin anew
            code = self.code
            self.begin_anew()
            self.code = code
        elif answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.statuses = [each.status_code for each in answer.status]
            self.endpoint_epoch = answer.endpoint_information_epoch
            if answer.partitions_by_user_endpoint is not None:
                self.endpoints = answer.partitions_by_user_endpoint
            if answer.active_tasks is not None:
                self.active, self.standby = tasks_of(answer.active_tasks), tasks_of(answer.standby_tasks)

    def say_only_that_it_lives(self):
        if self.epoch != 0:
            return self.beat(active_tasks=None, standby_tasks=None, warmup_tasks=None)
        return self.beat()

    def leave(self, **how):
        answer = self.beat(member_epoch=-1, topology=None, process_id=None, client_tags=None, **how)
        self.begin_anew()
        return answer


@pytest.fixture
def make_streams(make_world):
    class Streams(make_world):
        def __init__(self, cluster=None, **settings):
            settings.setdefault("group_streams_assignment_interval_ms", 0)
            settings.setdefault("group_streams_initial_rebalance_delay_ms", 0)
            self.all_settings = AllSettings(**settings)
            self.own_settings = {}  # by group, what it set for itself
            super().__init__(cluster)

        def _new_shard(self):
            return GroupShard(
                self.all_settings,
                self.cluster,
                self._new_uuid,
                streams_config_of=lambda group_id: streams_config(
                    self.own_settings.get(group_id, {}), self.all_settings
                ),
            )

        def client(self, member_id, **how):
            return Client(self, member_id, **how)

        def streams_beat(self, request):
            return self.answer(self.call("streams_group_heartbeat", request, 0))

        def streams_group(self, name="g"):
            group = self.shard.groups[name]
            assert isinstance(group, StreamsGroup)
            return group

        def streams_described(self, group="g"):
            request = StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
            return self.answer(self.call("describe_streams_groups", request, 0)).groups[0]

        def make_missing_topics(self, group="g"):
            """What the broker does when a status says that internal topics are missing."""
            made = dict(self.shard.missing_streams_topics(group))
            for name, topic in made.items():
                self.make_topic(name, topic.num_partitions)
            return made

        def check_replay(self):
            super().check_replay()
            assert durable(self.replayed()) == durable(self.shard)

    return Streams


@pytest.fixture
def streams(make_streams):
    return make_streams()
