"""Stories of share groups, streams groups and client metrics, told to a broker by bare requests: what does it answer?

    with Wire("127.0.0.1:9092") as wire:
        for row in all_rows(wire): print(row)          # (story, step, answer)

1. A story has a group, a topic and members of its own; a step is one request, its row says errors and numbers.
   Rows have no clock, no id and no text of an error in them, so the rows of two brokers can be compared.
2. What a broker does in the background (states are begun, locks end) is waited for, never slept for.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.conformance.transaction_probes import Wire

from ottla.errors import name_of_code
from ottla.protocol.messages import share_acknowledge, share_fetch
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from ottla.records import BatchBuilder

WAIT_S = 60
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
GROUP_RESOURCE, METRICS_RESOURCE = 32, 16
DELETE, SET = 1, 0
Step = tuple[str, str]
Story = Callable[["Teller"], Iterator[Step]]


def name(code: int) -> str:
    return name_of_code(code)


class Teller:
    """A group with a topic of one partition, and members that ask."""

    def __init__(self, wire: Wire, story: str) -> None:
        self.wire = wire
        self.group = f"group-{story}"
        self.topic = f"topic-{story}"
        self.epochs: dict[int, int] = {}  # of the next fetch, by member
        self.topic_id = b""

    # -- before ------------------------------------------------------------------------------------------------------

    def make_topic(self, partitions: int = 1) -> None:
        topic = CreatableTopic(
            name=self.topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        answer = self.wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0]
        assert not answer.error_code, answer
        self.topic_id = answer.topic_id

    def produce(self, *counts: int) -> None:
        """A batch of each count."""
        for count in counts:
            batch = BatchBuilder()
            for number in range(count):
                batch.append(1_700_000_000_000, None, b"%d" % number)
            data = PartitionProduceData(index=0, records=batch.close())
            request = ProduceRequest(
                transactional_id=None,
                acks=-1,
                timeout_ms=30_000,
                topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
            )
            self.until(lambda request=request: not _produced(self.wire.ask(request, 12)))

    def set_group(self, **configs: str) -> str:
        return self.alter(GROUP_RESOURCE, self.group, **configs)

    def alter(self, kind: int, resource: str, **configs: str) -> str:
        changes = [
            AlterableConfig(name=key.replace("_", "."), config_operation=SET, value=value)
            for key, value in configs.items()
        ]
        entry = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=changes)
        answer = self.wire.ask(IncrementalAlterConfigsRequest(resources=[entry], validate_only=False), 1)
        return name(answer.responses[0].error_code)

    def until(self, is_so: Callable[[], object]) -> Any:
        deadline_s = time.monotonic() + WAIT_S
        while not (found := is_so()):
            assert time.monotonic() < deadline_s, "the broker did not get there"
            time.sleep(0.02)
        return found

    # -- members -----------------------------------------------------------------------------------------------------

    @staticmethod
    def id(member: int) -> str:
        return base64.urlsafe_b64encode(bytes([member]) * 16).decode().rstrip("=")

    def beat(self, member: int = 1, epoch: int = 0, topics: list[str] | None = None, **other: Any) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.id(member), member_epoch=epoch, subscribed_topic_names=topics
        )
        for key, value in other.items():
            setattr(request, key, value)
        return self.wire.ask(request, 1)

    def join(self, member: int = 1) -> int:
        """Until it has the partition; its epoch."""
        answer = self.until(lambda: _unless_error(self.beat(member, 0, [self.topic])))
        epoch = answer.member_epoch
        while not (answer.assignment and answer.assignment.topic_partitions):
            time.sleep(0.05)
            answer = self.beat(member, epoch, [self.topic])
            assert not answer.error_code, answer
            epoch = answer.member_epoch
        return int(epoch)

    def fetch(
        self,
        member: int = 1,
        *,
        epoch: int | None = None,
        said: list[tuple[int, int, list[int]]] | None = None,
        version: int = 2,
        with_topic: bool = True,
        **other: Any,
    ) -> str:
        """What one ShareFetch gives: its error, and for the partition errors and what was acquired."""
        at = self.epochs.get(member, 0) if epoch is None else epoch
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in said or ()
        ]
        partition = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = share_fetch.ShareFetchRequest(
            group_id=self.group,
            member_id=self.id(member),
            share_session_epoch=at,
            max_wait_ms=0,
            min_bytes=1,
            max_records=100,
            batch_size=100,
            topics=[share_fetch.FetchTopic(topic_id=self.topic_id, partitions=[partition])]
            if with_topic or said
            else [],
            forgotten_topics_data=[],
        )
        for key, value in other.items():
            setattr(request, key, value)
        answer = self.wire.ask(request, version)
        if not answer.error_code:
            self.epochs[member] = 0 if at == -1 else at + 1
        return _fetched(answer)

    def acquire(self, member: int = 1, **other: Any) -> str:
        """Fetch until something is acquired."""
        return str(self.until(lambda: "acquired" in (found := self.fetch(member, **other)) and found))

    def acknowledge(
        self, *said: tuple[int, int, list[int]], member: int = 1, epoch: int | None = None, **other: Any
    ) -> str:
        at = self.epochs.get(member, 0) if epoch is None else epoch
        batches = [
            share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in said
        ]
        partition = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.id(member),
            share_session_epoch=at,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])] if said else [],
        )
        for key, value in other.items():
            setattr(request, key, value)
        answer = self.wire.ask(request, 2)
        if not answer.error_code:
            self.epochs[member] = 0 if at == -1 else at + 1
        parts = [name(each.error_code) for topic in answer.responses for each in topic.partitions]
        return " ".join([name(answer.error_code), *parts])

    # -- administrators ----------------------------------------------------------------------------------------------

    def offsets(self, group: str | None = None, topics: list[str] | None = None, partitions: int = 1) -> str:
        asked = topics and [
            DescribeShareGroupOffsetsRequestTopic(topic_name=each, partitions=list(range(partitions)))
            for each in topics
        ]
        entry = DescribeShareGroupOffsetsRequestGroup(group_id=group or self.group, topics=asked)
        found = self.wire.ask(DescribeShareGroupOffsetsRequest(groups=[entry]), 1).groups[0]
        parts = [
            f"{name(each.error_code)} start {each.start_offset} lag {each.lag} epoch {each.leader_epoch}"
            for topic in found.topics
            for each in topic.partitions
        ]
        return "; ".join([name(found.error_code), *parts])

    def set_offsets(self, offset: int, topic: str | None = None, partition: int = 0, group: str | None = None) -> str:
        entry = AlterShareGroupOffsetsRequestTopic(
            topic_name=topic or self.topic,
            partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)],
        )
        request = AlterShareGroupOffsetsRequest(group_id=self.group if group is None else group, topics=[entry])
        answer = self.wire.ask(request, 0)
        parts = [name(each.error_code) for found in answer.responses for each in found.partitions]
        return " ".join([name(answer.error_code), *parts])

    def delete_offsets(self, topic: str | None = None, group: str | None = None) -> str:
        entry = DeleteShareGroupOffsetsRequestTopic(topic_name=topic or self.topic)
        answer = self.wire.ask(
            DeleteShareGroupOffsetsRequest(group_id=self.group if group is None else group, topics=[entry]), 0
        )
        return " ".join([name(answer.error_code), *(name(each.error_code) for each in answer.responses)])

    def describe(self, group: str | None = None) -> str:
        request = ShareGroupDescribeRequest(group_ids=[group or self.group], include_authorized_operations=False)
        found = self.wire.ask(request, 1).groups[0]
        members = [
            f"epoch {each.member_epoch} topics {len(each.subscribed_topic_names)} "
            f"partitions {sum(len(one.partitions) for one in each.assignment.topic_partitions)}"
            for each in found.members
        ]
        head = f"{name(found.error_code)} {found.group_state} {found.assignor_name}"
        return "; ".join([head, f"epochs {found.group_epoch} {found.assignment_epoch}", *members])

    def delete_group(self, group: str | None = None) -> str:
        answer = self.wire.ask(DeleteGroupsRequest(groups_names=[group or self.group]), 2)
        return name(answer.results[0].error_code)


def _produced(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def _unless_error(answer: Any) -> Any:
    return None if answer.error_code in (14, 15, 16) else answer


def _fetched(answer: Any) -> str:
    parts = [name(answer.error_code)]
    for topic in answer.responses:
        for each in topic.partitions:
            parts.append(f"{name(each.error_code)}/{name(each.acknowledge_error_code)}")
            parts += [
                f"acquired {one.first_offset}-{one.last_offset} x{one.delivery_count}" for one in each.acquired_records
            ]
    return " ".join(parts)


# --- stories ---------------------------------------------------------------------------------------------------------


def heartbeats(tell: Teller) -> Iterator[Step]:
    tell.make_topic()

    def code(*asked: Any, **other: Any) -> str:
        answer = tell.until(lambda: _unless_error(tell.beat(*asked, **other)))
        return f"{name(answer.error_code)} interval {answer.heartbeat_interval_ms}"

    yield "no member id", code(member_id="", topics=[tell.topic])
    yield "no group id", code(group_id="", topics=[tell.topic])
    yield "no topics at the join", code()
    yield "empty topics at the join", code(topics=[])
    yield "empty rack", code(rack_id="", topics=[tell.topic])
    yield "epoch -2", code(epoch=-2)
    yield "epoch 5 of a group that is not there", code(epoch=5)
    yield "leave a group that is not there", code(epoch=-1)
    yield "join with a topic that is not there", code(topics=["nobody-has-this"])
    yield "join", code(topics=[tell.topic])
    yield "epoch 9", code(epoch=9)
    yield "a stranger with an epoch", code(2, epoch=1)
    yield "a stranger leaves", code(2, epoch=-1)
    yield "leave", code(epoch=-1)
    yield "leave again", code(epoch=-1)


def sessions(tell: Teller) -> Iterator[Step]:
    tell.make_topic()
    tell.set_group(share_auto_offset_reset="earliest")
    tell.join()
    tell.produce(3)
    yield "epoch 4 without a session", tell.fetch(epoch=4)
    yield "the end without a session", tell.fetch(epoch=-1, with_topic=False)
    yield "acknowledge at epoch 0", tell.acknowledge((0, 0, [ACCEPT]), epoch=0)
    yield "acknowledge without a session", tell.acknowledge((0, 0, [ACCEPT]), epoch=1)
    yield "a first fetch that acknowledges", tell.fetch(epoch=0, said=[(0, 0, [ACCEPT])])
    yield "no group", tell.fetch(epoch=0, group_id="")
    yield "no member", tell.fetch(epoch=0, member_id="")
    yield "a member id that is no uuid", tell.fetch(epoch=0, with_topic=False, member_id="not-a-uuid")
    yield "a member id of 36 letters", tell.fetch(epoch=0, with_topic=False, member_id="a" * 36)
    yield "a member id of 37 letters", tell.fetch(epoch=0, with_topic=False, member_id="a" * 37)
    yield "a member id of 100 letters", tell.fetch(epoch=0, with_topic=False, member_id="a" * 100)
    tell.epochs.clear()
    yield "a fetch", tell.acquire()
    yield "the epoch before", tell.fetch(epoch=max(0, tell.epochs[1] - 1) or 9)
    yield "an unknown topic", tell.fetch(epoch=0, topics=[_unknown_topic()], member_id=tell.id(7))
    yield "the end", tell.fetch(epoch=-1, with_topic=False)
    yield "after the end", tell.fetch(epoch=3)
    yield "and anew", tell.acquire()


def _unknown_topic() -> share_fetch.FetchTopic:
    return share_fetch.FetchTopic(
        topic_id=b"\x07" * 16, partitions=[share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])]
    )


def acknowledgements(tell: Teller) -> Iterator[Step]:
    tell.make_topic()
    tell.set_group(share_auto_offset_reset="earliest")
    tell.join()
    tell.produce(10)
    yield "acquire", tell.acquire()
    yield "offsets that were never delivered", tell.acknowledge((90, 91, [ACCEPT]))
    yield "no types", tell.acknowledge((0, 0, []))
    yield "too few types", tell.acknowledge((0, 2, [ACCEPT, ACCEPT]))
    yield "an unknown type", tell.acknowledge((0, 0, [9]))
    yield "a negative type", tell.acknowledge((0, 0, [-1]))
    yield "first above last", tell.acknowledge((2, 1, [ACCEPT]))
    yield "two that overlap", tell.acknowledge((0, 1, [ACCEPT]), (1, 2, [ACCEPT]))
    yield "two out of order", tell.acknowledge((4, 5, [ACCEPT]), (0, 1, [ACCEPT]))
    yield "a renewal without saying so", tell.acknowledge((0, 0, [RENEW]))
    yield "one of another member", tell.acknowledge((0, 0, [ACCEPT]), member=2, epoch=1)
    yield "accept 0 to 1", tell.acknowledge((0, 1, [ACCEPT]))
    yield "accept them again", tell.acknowledge((0, 1, [ACCEPT]))
    yield "release, reject, gap", tell.acknowledge((2, 4, [RELEASE, REJECT, GAP]))
    yield "what was released comes again", tell.fetch()
    yield "half of it is not mine", tell.acknowledge((3, 6, [ACCEPT]))
    yield "the offsets", tell.offsets(topics=[tell.topic])
    yield "accept the rest", tell.acknowledge((2, 2, [ACCEPT]), (5, 9, [ACCEPT]))
    tell.until(lambda: "lag 0" in tell.offsets(topics=[tell.topic]))


def renewals(tell: Teller) -> Iterator[Step]:
    tell.make_topic()
    tell.set_group(share_auto_offset_reset="earliest")
    tell.join()
    tell.produce(4)
    yield "acquire", tell.acquire()
    zero = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    yield "renew by acknowledge", tell.acknowledge((0, 1, [RENEW]), is_renew_ack=True)
    yield "renew by fetch", tell.fetch(said=[(0, 1, [RENEW])], is_renew_ack=True, **zero)
    yield "renew by a fetch that wants records", tell.fetch(said=[(0, 1, [RENEW])], is_renew_ack=True)
    yield "renew and accept", tell.acknowledge((0, 0, [RENEW]), (1, 1, [ACCEPT]), is_renew_ack=True)
    yield "renew what was accepted", tell.acknowledge((1, 1, [RENEW]), is_renew_ack=True)
    yield "renewal is switched off", tell.set_group(share_renew_acknowledge_enable="false")
    yield (
        "renew then",
        tell.until(lambda: _other_than(tell.acknowledge((0, 0, [RENEW]), is_renew_ack=True), "NONE NONE")),
    )


def _other_than(found: str, other: str) -> str | None:
    return None if found == other else found


def deliveries(tell: Teller) -> Iterator[Step]:
    tell.make_topic()
    tell.set_group(share_auto_offset_reset="earliest", share_delivery_count_limit="2")
    tell.join()
    tell.produce(1)
    yield "first", tell.acquire()
    yield "released", tell.acknowledge((0, 0, [RELEASE]))
    yield "second", tell.acquire()
    yield "released again", tell.acknowledge((0, 0, [RELEASE]))
    yield "what is left", tell.fetch()
    tell.produce(1)
    yield "the next one", tell.acquire()
    yield "the session ends", tell.fetch(epoch=-1, with_topic=False)
    yield "it counts though nobody saw it", tell.acquire()


def locks(tell: Teller) -> Iterator[Step]:
    tell.make_topic()
    tell.set_group(share_auto_offset_reset="earliest")
    yield "a lock that is too short", tell.set_group(share_record_lock_duration_ms="1")
    yield "a short one", tell.set_group(share_record_lock_duration_ms="15000")
    tell.join()
    tell.produce(2)
    yield "acquire", tell.acquire()
    yield "others get nothing", tell.fetch(2)
    yield "until the lock ends", tell.acquire(2)
    yield "the first one is too late", tell.acknowledge((0, 1, [ACCEPT]))


def limits(tell: Teller) -> Iterator[Step]:
    tell.make_topic()
    tell.set_group(share_auto_offset_reset="earliest")
    tell.join()
    tell.produce(5, 5, 5)
    yield "three records of batches of five", tell.acquire(max_records=3)
    yield "three and not one more", tell.fetch(max_records=3, share_acquire_mode=1)
    yield "the rest in small batches", tell.fetch(batch_size=1)
    yield "an unknown mode", tell.fetch(3, share_acquire_mode=7)


def offsets(tell: Teller) -> Iterator[Step]:
    tell.make_topic()
    tell.produce(8)
    yield "of a group that is not there", tell.offsets("nobody-there", [tell.topic])
    yield "all of a group that is not there", tell.offsets("nobody-there")
    yield "set for a group that is not there", tell.set_offsets(3)
    yield "then", tell.offsets(topics=[tell.topic])
    yield "all of it", tell.offsets()
    yield "of an unknown topic", tell.offsets(topics=["nobody-has-this"])
    yield "of partitions that are not there", tell.offsets(topics=[tell.topic], partitions=2)
    yield "set an unknown topic", tell.set_offsets(3, "nobody-has-this")
    yield "set an unknown partition", tell.set_offsets(3, partition=7)
    yield "set without a group", tell.set_offsets(3, group="")
    tell.join()
    yield "what is fetched", tell.acquire()
    yield "accept some", tell.acknowledge((3, 4, [ACCEPT]), (6, 6, [ACCEPT]))
    tell.until(lambda: "lag 2" in tell.offsets(topics=[tell.topic]))
    yield "set while somebody is there", tell.set_offsets(0)
    yield "delete while somebody is there", tell.delete_offsets()
    yield "delete the group", tell.delete_group()
    tell.fetch(epoch=-1, with_topic=False)
    tell.beat(epoch=-1)
    yield "set to the beginning", tell.set_offsets(0)
    yield "lag from the beginning", tell.offsets(topics=[tell.topic])
    yield "forget an unknown topic", tell.delete_offsets("nobody-has-this")
    yield "forget it", tell.delete_offsets()
    yield "what is left", tell.offsets(topics=[tell.topic])
    yield "forget it again", tell.delete_offsets()
    yield "forget without a group", tell.delete_offsets(group="")
    yield "forget of a group that is not there", tell.delete_offsets(group="nobody-there")
    yield "describe", tell.describe().split(";")[0]
    yield "delete the group then", tell.delete_group()
    yield "and again", tell.delete_group()
    yield "describe what is gone", tell.describe()


def resets(tell: Teller) -> Iterator[Step]:
    tell.make_topic()
    tell.produce(4)
    yield "by a duration that is none", tell.set_group(share_auto_offset_reset="by_duration:soon")
    yield "by a negative duration", tell.set_group(share_auto_offset_reset="by_duration:-PT1H")
    yield "by an unknown word", tell.set_group(share_auto_offset_reset="none")
    yield "by a duration", tell.set_group(share_auto_offset_reset="by_duration:PT1H")
    tell.join()
    tell.fetch()
    yield "nothing is as young as that", tell.fetch()


def other_kinds(tell: Teller) -> Iterator[Step]:
    """A consumer group is no share group, and the other way round."""
    tell.make_topic()
    tell.join()
    yield "a consumer joins a share group", _consumer(tell, tell.group)
    other = f"{tell.group}-of-consumers"
    tell.until(lambda: _consumer(tell, other) == "NONE")
    answer = tell.beat(topics=[tell.topic], group_id=other)
    yield "a share consumer joins a consumer group", name(answer.error_code)
    yield "offsets of a consumer group", tell.offsets(other)
    yield "set offsets of a consumer group", tell.set_offsets(0, group=other)
    yield "forget offsets of a consumer group", tell.delete_offsets(group=other)
    yield "describe a consumer group", tell.describe(other).split(";")[0]
    tell.until(lambda: "partitions 1" in tell.describe())


def _consumer(tell: Teller, group: str) -> str:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="c1",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[tell.topic],
        topic_partitions=[],
    )
    return name(tell.until(lambda: _unless_error(tell.wire.ask(request, 1))).error_code)


def group_settings(tell: Teller) -> Iterator[Step]:
    """Every setting of a group: name, value, where it is from; and what is refused."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=tell.group, configuration_keys=None)
        ],
        include_synonyms=True,
    )
    found = tell.wire.ask(request, 4).results[0]
    yield "describe", name(found.error_code)
    for each in sorted(found.configs, key=lambda each: each.name):
        synonyms = " ".join(f"{one.name}={one.value} from {one.source}" for one in each.synonyms)
        yield each.name, f"{each.value} from {each.config_source} type {each.config_type} ({synonyms})"
    for key, values in {
        "share.session.timeout.ms": ("1", "44999", "60001", "50000"),
        "share.heartbeat.interval.ms": ("1", "4999", "15001", "6000"),
        "share.record.lock.duration.ms": ("999", "14999", "60001", "20000"),
        "share.delivery.count.limit": ("1", "2", "11", "7"),
        "share.partition.max.record.locks": ("99", "100", "4001", "3000"),
        "share.isolation.level": ("committed", "read_committed", "READ_COMMITTED"),
        "share.renew.acknowledge.enable": ("maybe", "false"),
        "share.assignment.interval.ms": ("-1", "0", "2000"),
        "consumer.assignment.interval.ms": ("-1", "2000"),
        "streams.num.standby.replicas": ("-1", "3", "2"),
        "streams.initial.rebalance.delay.ms": ("-1", "5000"),
        "streams.session.timeout.ms": ("5000", "44999", "60001"),
        "nobody.knows.this": ("1",),
    }.items():
        for value in values:
            yield f"{key}={value}", tell.set_group(**{key: value})


def streams(tell: Teller) -> Iterator[Step]:
    tell.make_topic(2)
    first = Topology(epoch=1, subtopologies=[_subtopology("0", [tell.topic])])

    def beat(member: str = "A", epoch: int = 0, **other: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id=tell.group, member_id=member, member_epoch=epoch, endpoint_information_epoch=-1
        )
        if epoch == 0:
            request.rebalance_timeout_ms, request.topology, request.process_id = 60_000, first, "p"
            request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
        for key, value in other.items():
            setattr(request, key, value)
        return tell.until(lambda: _unless_error(tell.wire.ask(request, 0)))

    def code(*asked: Any, **other: Any) -> str:
        answer = beat(*asked, **other)
        statuses = sorted(each.status_code for each in answer.status or ())
        tasks = None if answer.active_tasks is None else [(t.subtopology_id, t.partitions) for t in answer.active_tasks]
        return f"{name(answer.error_code)} statuses {statuses} tasks {tasks}"

    yield "delay is switched off", tell.set_group(streams_initial_rebalance_delay_ms="0")
    yield "no member id", code("")
    yield "no group id", code(group_id="")
    yield "no topology", code(topology=None)
    yield "no time-out", code(rebalance_timeout_ms=-1)
    yield "tasks at the join", code(active_tasks=[TaskIds(subtopology_id="0", partitions=[0])])
    yield "no tasks at the join", code(active_tasks=None)
    yield "a static member", code(instance_id="i")
    yield "epoch -3", code(epoch=-3)
    yield "epoch 4 of nobody", code(epoch=4)
    yield "leave a group that is not there", code(epoch=-1)
    yield "task offsets", code(task_offsets=[TaskOffset(subtopology_id="0", partition=0, offset=1)])
    yield (
        "an internal topic",
        code(topology=Topology(epoch=1, subtopologies=[_subtopology("0", ["__consumer_offsets"])])),
    )
    yield "an illegal topic", code(topology=Topology(epoch=1, subtopologies=[_subtopology("0", ["a b"])]))
    yield (
        "a missing source",
        code(
            "M",
            group_id=f"{tell.group}-m",
            topology=Topology(epoch=1, subtopologies=[_subtopology("0", ["not-there"])]),
        ),
    )
    answer = beat()
    yield "join", f"{name(answer.error_code)} {[each.status_code for each in answer.status or ()]}"
    epoch = answer.member_epoch

    def settled() -> Any:
        nonlocal epoch
        now = beat(epoch=epoch)
        epoch = now.member_epoch or epoch
        return tell_tasks(tell) == 2

    tell.until(settled)
    yield "another topology", code("B", topology=Topology(epoch=1, subtopologies=[_subtopology("1", [tell.topic])]))
    yield "a newer topology", code("B", topology=Topology(epoch=2, subtopologies=[_subtopology("0", [tell.topic])]))
    yield "topology without a join", code(epoch=epoch, topology=first)
    yield "only one kind of tasks", code(epoch=epoch, active_tasks=[])
    yield (
        "a task that is not there",
        code(
            epoch=epoch,
            active_tasks=[TaskIds(subtopology_id="0", partitions=[7])],
            standby_tasks=[],
            warmup_tasks=[],
        ),
    )
    yield (
        "a subtopology that is not there",
        code(
            epoch=epoch,
            active_tasks=[TaskIds(subtopology_id="9", partitions=[0])],
            standby_tasks=[],
            warmup_tasks=[],
        ),
    )
    yield "epoch 90", code(epoch=90)
    yield "a stranger", code("X", epoch=1)
    yield "an endpoint", code(epoch=epoch, user_endpoint=Endpoint(host="h", port=1)).split(" ")[0]
    described = _described(tell)
    yield "describe", f"{name(described.error_code)} {described.group_state}"
    yield "topology", _topology(described.topology)
    nobody = _described(tell, "nobody-there")
    yield "describe nobody", f"{name(nobody.error_code)} {nobody.group_state}"
    yield "a share consumer joins", name(tell.beat(topics=[tell.topic]).error_code)
    yield "a consumer joins", _consumer(tell, tell.group)
    yield "delete the group", tell.delete_group()
    yield "leave", code(epoch=-1)
    yield "leave again", code(epoch=-1)
    yield "delete it then", tell.delete_group()


def _subtopology(name_: str, sources: list[str]) -> Subtopology:
    return Subtopology(
        subtopology_id=name_,
        source_topics=sources,
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )


def _described(tell: Teller, group: str | None = None) -> Any:
    request = StreamsGroupDescribeRequest(group_ids=[group or tell.group], include_authorized_operations=False)
    return tell.wire.ask(request, 0).groups[0]


def tell_tasks(tell: Teller) -> int:
    described = _described(tell)
    return sum(len(each.partitions) for member in described.members for each in member.assignment.active_tasks)


def _topology(topology: Any) -> str:
    parts = [
        f"{each.subtopology_id} reads {len(each.source_topics)} repartition {len(each.repartition_source_topics)} "
        f"changelogs {len(each.state_changelog_topics)}"
        for each in topology.subtopologies or ()
    ]
    return f"epoch {topology.epoch}: " + "; ".join(parts)


def internal_topics(tell: Teller) -> Iterator[Step]:
    """A topology whose internal topics the broker makes."""
    tell.make_topic(3)
    tell.produce(1)  # it is known everywhere then
    inner = TopicInfo(name=f"{tell.group}-inner", partitions=0, replication_factor=1, topic_configs=[])
    log = TopicInfo(name=f"{tell.group}-log", partitions=0, replication_factor=1, topic_configs=[])
    one, two = _subtopology("0", [tell.topic]), _subtopology("1", [])
    one.repartition_sink_topics = [inner.name]
    two.repartition_source_topics, two.state_changelog_topics = [inner], [log]

    def beat(epoch: int) -> Any:
        request = StreamsGroupHeartbeatRequest(
            group_id=tell.group, member_id="A", member_epoch=epoch, endpoint_information_epoch=-1
        )
        if epoch == 0:
            request.rebalance_timeout_ms, request.process_id = 60_000, "p"
            request.topology = Topology(epoch=3, subtopologies=[one, two])
            request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
        return tell.until(lambda: _unless_error(tell.wire.ask(request, 0)))

    answer = beat(0)
    assert not answer.error_code, answer
    epoch = answer.member_epoch

    def settled() -> bool:
        nonlocal epoch
        epoch = beat(epoch).member_epoch or epoch
        return tell_tasks(tell) == 6

    tell.until(settled)
    described = _described(tell)
    yield "topology", _topology(described.topology)
    yield (
        "internal topics",
        " ".join(
            f"{topic.partitions}" for each in described.topology.subtopologies for topic in each.state_changelog_topics
        ),
    )
    yield (
        "repartition topics",
        " ".join(
            f"{topic.partitions}"
            for each in described.topology.subtopologies
            for topic in each.repartition_source_topics
        ),
    )


def telemetry(tell: Teller) -> Iterator[Step]:
    nobody, somebody = bytes(16), b"\x05" * 16

    def get(client: bytes) -> Any:
        return tell.wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=client), 0)

    def shown(answer: Any, client: bytes) -> str:
        whose = (
            "same id"
            if answer.client_instance_id == client
            else "new id"
            if any(answer.client_instance_id)
            else "no id"
        )
        return (
            f"{name(answer.error_code)} {whose} every {answer.push_interval_ms} at most {answer.telemetry_max_bytes} "
            f"codecs {answer.accepted_compression_types} delta {answer.delta_temporality} {answer.requested_metrics}"
        )

    def push(client: bytes, subscription: int, metrics: bytes = b"", codec: int = 0, *, last: bool = False) -> str:
        request = PushTelemetryRequest(
            client_instance_id=client,
            subscription_id=subscription,
            terminating=last,
            compression_type=codec,
            metrics=metrics,
        )
        return name(tell.wire.ask(request, 0).error_code)

    yield "an interval that is too short", tell.alter(METRICS_RESOURCE, "m", interval_ms="1")
    yield "a match that is none", tell.alter(METRICS_RESOURCE, "m", match="nothing")
    yield (
        "a subscription",
        tell.alter(METRICS_RESOURCE, "m", interval_ms="2000", metrics="org.apache.kafka.producer.,x.y"),
    )
    first = tell.until(lambda: (now := get(somebody)).requested_metrics and now)
    yield "get", shown(first, somebody)
    made = get(nobody)
    yield "get without an id", shown(made, nobody)
    yield "get again at once", shown(get(somebody), somebody)
    yield "push of nobody", push(nobody, 1)
    yield "push with another subscription", push(somebody, first.subscription_id + 1)
    fresh = made.client_instance_id
    yield "push with an unknown codec", push(fresh, made.subscription_id, b"x", 9)
    yield (
        "push what is no metrics",
        tell.until(lambda: _other_than(push(fresh, made.subscription_id, b"\xff\xff"), "THROTTLING_QUOTA_EXCEEDED")),
    )
    yield "push at once again", push(fresh, made.subscription_id)
    yield (
        "push too much",
        tell.until(
            lambda: _other_than(push(fresh, made.subscription_id, b"x" * 1_100_000), "THROTTLING_QUOTA_EXCEEDED")
        ),
    )
    yield "the last push", push(fresh, made.subscription_id, last=True)
    yield "after the last push", push(fresh, made.subscription_id, last=True)
    yield (
        "get after the last push",
        tell.until(lambda: _other_than(name(get(fresh).error_code), "THROTTLING_QUOTA_EXCEEDED")),
    )


STORIES: tuple[Story, ...] = (
    heartbeats,
    sessions,
    acknowledgements,
    renewals,
    deliveries,
    locks,
    limits,
    offsets,
    resets,
    other_kinds,
    group_settings,
    streams,
    internal_topics,
    telemetry,
)


def prepare(wire: Wire) -> None:
    """The coordinators are there when this returns."""
    tell = Teller(wire, "first")
    for key in ("first", "second", "third", "fourth"):
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=0)
        tell.until(lambda request=request: not wire.ask(request, 4).coordinators[0].error_code)
    tell.make_topic()
    tell.join()


def all_rows(wire: Wire) -> Iterator[tuple[str, str, str]]:
    for story in STORIES:
        for step, answer in story(Teller(wire, story.__name__.replace("_", "-"))):
            yield story.__name__, step, answer
