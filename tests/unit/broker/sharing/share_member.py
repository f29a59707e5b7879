"""A member of a share group that speaks to a MemoryBroker: one call for each request."""

from __future__ import annotations

from ottla.broker.settings import BrokerSettings
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from ottla.protocol.messages.share_fetch import AcknowledgementBatch as FetchAcknowledgement
from ottla.protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.records import RecordStream
from ottla.values import uuid_to_text

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
GROUP = "workers"
INTERVAL_MS = BrokerSettings().group_share_heartbeat_interval_ms


def set_group(broker, **configs):
    """Settings of the group, with _ for the dots."""
    alter = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=32,
                resource_name=GROUP,
                configs=[
                    AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
                    for name, value in configs.items()
                ],
            )
        ],
        validate_only=False,
    )
    assert broker.ask(alter).responses[0].error_code == 0


def later(broker, duration_ms):
    """Let time pass, also for those who sleep."""
    broker.loop.run_until_complete(broker.clock.advance(duration_ms))
    broker.do(broker.broker.deadlines.ring)


class Member:
    """`number` makes its id; `group_id` is the group it joins."""

    def __init__(self, broker, number=1, group_id=GROUP, connection=None):
        self.broker = broker
        self.id = uuid_to_text(bytes([number]) * 16)
        self.group_id = group_id
        self.connection = connection
        self.epoch = 0
        self.session_epoch = 0
        self.assigned = {}

    def begin_heartbeat(self, topics=None, epoch=None):
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.id,
            member_epoch=self.epoch if epoch is None else epoch,
            subscribed_topic_names=topics,
        )
        return self.broker.begin(request)

    def heartbeat(self, topics=None, epoch=None):
        asked = self.begin_heartbeat(topics, epoch)
        for _ in range(100):
            if asked.is_answered:
                break
            later(self.broker, 50)
        answer = asked.answer
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
        return answer

    def join(self, *topics):
        """Join, and stay until there is something to read."""
        self.broker.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id]))
        assert self.heartbeat(list(topics)).error_code == 0
        for _ in range(20):
            if self.assigned:
                break
            later(self.broker, INTERVAL_MS)
            assert self.heartbeat().error_code == 0
        assert self.assigned, "no partition was assigned"
        return self

    def leave(self):
        return self.heartbeat(epoch=-1)

    def begin_fetch(self, *, said=None, version=2, forgotten=(), **fields):
        """`said` maps (topic id, partition) to acknowledgements (first, last, types)."""
        places = [(topic, each) for topic, partitions in self.assigned.items() for each in partitions]
        if self.session_epoch:
            places = list(said or {})
        request = ShareFetchRequest(
            **{
                "group_id": self.group_id,
                "member_id": self.id,
                "share_session_epoch": self.session_epoch,
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "max_records": 500,
                "batch_size": 500,
                "topics": [
                    FetchTopic(
                        topic_id=topic,
                        partitions=[
                            FetchPartition(
                                partition_index=each,
                                acknowledgement_batches=[
                                    FetchAcknowledgement(first_offset=a, last_offset=b, acknowledge_types=list(types))
                                    for a, b, types in (said or {}).get((topic, each), ())
                                ],
                            )
                        ],
                    )
                    for topic, each in places
                ],
                "forgotten_topics_data": [ForgottenTopic(topic_id=t, partitions=[p]) for t, p in forgotten],
                **fields,
            }
        )
        asked = self.broker.begin(request, version, connection=self.connection)
        self.session_epoch = request.share_session_epoch + 1
        return asked

    def fetch(self, **fields):
        asked = self.begin_fetch(**fields)
        assert asked.is_answered, "the fetch waits"
        return asked.answer

    def fetch_one(self, **fields):
        """What a fetch has of the only partition; the first one has to load it."""
        asked = self.begin_fetch(max_wait_ms=1000, **fields)
        for _ in range(100):
            if asked.is_answered:
                break
            later(self.broker, 10)
        assert asked.is_answered
        found = [each for topic in asked.answer.responses for each in topic.partitions]
        return found[0] if found else None

    def acknowledge(self, *words, **more):
        """The error of the one partition; the request's own error if it has one."""
        asked = self.begin_acknowledge(*words, **more)
        assert asked.is_answered, "the acknowledgement waits"
        return asked.answer.error_code or asked.answer.responses[0].partitions[0].error_code

    def begin_acknowledge(self, topic_id, *batches, partition=0, is_end=False, version=2, is_renew_ack=False):
        request = ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.id,
            share_session_epoch=-1 if is_end else self.session_epoch,
            topics=[
                AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=partition,
                            acknowledgement_batches=[
                                AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=list(types))
                                for a, b, types in batches
                            ],
                        )
                    ],
                )
            ],
        )
        if version >= 2:
            request.is_renew_ack = is_renew_ack
        asked = self.broker.begin(request, version)
        self.session_epoch = 0 if is_end else self.session_epoch + 1
        return asked


def acquired(found):
    """(first, last, delivery count) of all that a partition's answer acquired."""
    if found is None:
        return []
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in found.acquired_records]


def values(found):
    """The values of acquired records."""
    ranges = acquired(found)
    return [
        record.value.decode()
        for batch in RecordStream(found.records)
        if not batch.is_control
        for record in batch
        if any(first <= record.offset <= last for first, last, _ in ranges)
    ]
