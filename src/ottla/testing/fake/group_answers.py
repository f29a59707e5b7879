"""Answers of coordinators: groups of one member in both protocols, offsets, producer ids, transactions.

The last who joins is the member; whoever was it before is told so (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION), which is how
a program experiences being thrown out.
"""

from __future__ import annotations

from typing import Any

from ottla.protocol.messages import consumer_group_heartbeat as beats
from ottla.protocol.messages import offset_commit, offset_fetch, txn_offset_commit
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.testing.fake.cluster import FakeCluster, FakeGroup
from ottla.testing.fake.rules import Asked
from ottla.values import OffsetAndMetadata, TopicPartition

NOT_COORDINATOR, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID = 16, 22, 25
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED, FENCED_MEMBER_EPOCH = 27, 79, 110
MEMBER_ID_REQUIRED_SINCE = 4
INVALID_PRODUCER_EPOCH = 47
HEARTBEAT_MS = 100


def find_coordinator(cluster: FakeCluster, asked: Asked) -> FindCoordinatorResponse:
    message = asked.message
    code = asked.code()
    node = cluster.nodes[cluster.coordinator_id]
    place: dict[str, Any] = {"node_id": node.id, "host": node.host, "port": node.port}
    if code:
        place = {"node_id": -1, "host": "", "port": -1}
    if message.coordinator_keys:
        found = [Coordinator(key=key, error_code=code, **place) for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    return FindCoordinatorResponse(error_code=code, **place)


def coordinator_code(cluster: FakeCluster, asked: Asked) -> int:
    """The error that the script wants, or the one for asking the wrong node."""
    return asked.code() or (0 if asked.node == cluster.coordinator_id else NOT_COORDINATOR)


# -- the classic protocol ----------------------------------------------------------------------------------------------


def join_group(cluster: FakeCluster, asked: Asked) -> JoinGroupResponse:
    message = asked.message
    group = cluster.group(message.group_id)
    member_id = message.member_id or f"{asked.client_id or 'member'}-{cluster.number()}"
    code = coordinator_code(cluster, asked)
    anonymous = not message.member_id and message.group_instance_id is None
    if code == 0 and anonymous and asked.version >= MEMBER_ID_REQUIRED_SINCE:
        code = MEMBER_ID_REQUIRED
    if code:
        return JoinGroupResponse(error_code=code, protocol_name="", leader="", member_id=member_id, members=[])
    chosen = message.protocols[0]
    group.member_id, group.protocol, group.must_rejoin = member_id, chosen.name, False
    group.generation += 1
    member = JoinGroupResponseMember(
        member_id=member_id, group_instance_id=message.group_instance_id, metadata=bytes(chosen.metadata)
    )
    return JoinGroupResponse(
        error_code=0,
        generation_id=group.generation,
        protocol_type=message.protocol_type,
        protocol_name=chosen.name,
        leader=member_id,
        member_id=member_id,
        members=[member],
    )


def sync_group(cluster: FakeCluster, asked: Asked) -> SyncGroupResponse:
    message = asked.message
    group = cluster.group(message.group_id)
    code = coordinator_code(cluster, asked) or _stranger(group, message.member_id, message.generation_id)
    if code:
        return SyncGroupResponse(error_code=code, assignment=b"")
    for each in message.assignments:
        if each.member_id == message.member_id:
            group.assignment = bytes(each.assignment)
    return SyncGroupResponse(
        error_code=0, protocol_type="consumer", protocol_name=group.protocol, assignment=group.assignment
    )


def _stranger(group: FakeGroup, member_id: str, generation: int) -> int:
    if member_id != group.member_id:
        return UNKNOWN_MEMBER_ID
    return ILLEGAL_GENERATION if generation != group.generation else 0


def heartbeat(cluster: FakeCluster, asked: Asked) -> HeartbeatResponse:
    message = asked.message
    group = cluster.group(message.group_id)
    code = coordinator_code(cluster, asked) or _stranger(group, message.member_id, message.generation_id)
    return HeartbeatResponse(error_code=code or (REBALANCE_IN_PROGRESS if group.must_rejoin else 0))


def leave_group(cluster: FakeCluster, asked: Asked) -> LeaveGroupResponse:
    message = asked.message
    group = cluster.group(message.group_id)
    code = coordinator_code(cluster, asked)
    leaving = [each.member_id for each in message.members] or [message.member_id]
    if code == 0 and group.member_id in leaving:
        group.member_id = ""
    members = [
        MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=0)
        for each in message.members
    ]
    return LeaveGroupResponse(error_code=code, members=members)


# -- the new protocol --------------------------------------------------------------------------------------------------


def consumer_heartbeat(cluster: FakeCluster, asked: Asked) -> beats.ConsumerGroupHeartbeatResponse:
    message = asked.message
    group = cluster.group(message.group_id)
    code = coordinator_code(cluster, asked) or _membership(cluster, group, message)
    if code or message.member_epoch < 0:
        return beats.ConsumerGroupHeartbeatResponse(
            error_code=code, member_id=message.member_id, member_epoch=message.member_epoch, heartbeat_interval_ms=0
        )
    wanted = _target(cluster, group)
    assignment = None
    if wanted != group.announced or message.member_epoch == 0:
        if group.announced is not None and message.member_epoch != 0:
            group.generation += 1
        group.announced = wanted
        assignment = _as_assignment(cluster, wanted)
    return beats.ConsumerGroupHeartbeatResponse(
        error_code=0,
        member_id=group.member_id,
        member_epoch=group.generation,
        heartbeat_interval_ms=HEARTBEAT_MS,
        assignment=assignment,
    )


def _membership(cluster: FakeCluster, group: FakeGroup, message: Any) -> int:
    """Let the member in, out, or say why it is not the member."""
    if message.subscribed_topic_names is not None:
        group.topics = list(message.subscribed_topic_names)
    if message.member_epoch == 0:
        group.member_id = message.member_id or f"member-{cluster.number()}"
        group.generation += 1
        group.must_rejoin = False
        return 0
    if message.member_id != group.member_id:
        return 0 if message.member_epoch < 0 else UNKNOWN_MEMBER_ID
    if message.member_epoch < 0:
        group.member_id = ""
        return 0
    return FENCED_MEMBER_EPOCH if group.must_rejoin or message.member_epoch > group.generation else 0


def _target(cluster: FakeCluster, group: FakeGroup) -> list[TopicPartition]:
    if group.target is not None:
        return sorted(group.target)
    known = [name for name in sorted(group.topics) if name in cluster.topics]
    return [TopicPartition(name, index) for name in known for index in range(len(cluster.topics[name]))]


def _as_assignment(cluster: FakeCluster, wanted: list[TopicPartition]) -> beats.Assignment:
    by_topic: dict[str, list[int]] = {}
    for name in wanted:
        by_topic.setdefault(name.topic, []).append(name.partition)
    parts = [
        beats.TopicPartitions(topic_id=cluster.topic_ids[topic], partitions=indexes)
        for topic, indexes in by_topic.items()
    ]
    return beats.Assignment(topic_partitions=parts)


# -- offsets -----------------------------------------------------------------------------------------------------------


def commit_offsets(cluster: FakeCluster, asked: Asked) -> offset_commit.OffsetCommitResponse:
    message = asked.message
    group = cluster.group(message.group_id)
    general = 0 if asked.node == cluster.coordinator_id else NOT_COORDINATOR
    if message.member_id:
        general = general or _stranger(group, message.member_id, message.generation_id_or_member_epoch)
    topics = []
    for topic in message.topics:
        name = cluster.name_of(topic.name, topic.topic_id)
        parts = []
        for each in topic.partitions:
            failure = asked.failure(name, each.partition_index)
            code = failure.code if failure else general
            if code == 0 or (failure is not None and failure.although_done):
                group.offsets[TopicPartition(name, each.partition_index)] = _committed(each)
            parts.append(
                offset_commit.OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            )
        topics.append(offset_commit.OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=parts))
    return offset_commit.OffsetCommitResponse(topics=topics)


def _committed(each: Any) -> OffsetAndMetadata:
    epoch = each.committed_leader_epoch
    return OffsetAndMetadata(each.committed_offset, each.committed_metadata or "", None if epoch < 0 else epoch)


def fetch_offsets(cluster: FakeCluster, asked: Asked) -> offset_fetch.OffsetFetchResponse:
    message = asked.message
    code = coordinator_code(cluster, asked)
    if message.groups:
        groups = [
            offset_fetch.OffsetFetchResponseGroup(
                group_id=each.group_id, error_code=code, topics=[] if code else _committed_topics(cluster, each)
            )
            for each in message.groups
        ]
        return offset_fetch.OffsetFetchResponse(groups=groups)
    offsets = cluster.group(message.group_id).offsets
    topics = []
    for topic in message.topics or []:
        parts = [
            offset_fetch.OffsetFetchResponsePartition(**_position(offsets, topic.name, index))
            for index in topic.partition_indexes
        ]
        topics.append(offset_fetch.OffsetFetchResponseTopic(name=topic.name, partitions=parts))
    return offset_fetch.OffsetFetchResponse(topics=[] if code else topics, error_code=code)


def _committed_topics(cluster: FakeCluster, wanted: Any) -> list[offset_fetch.OffsetFetchResponseTopics]:
    offsets = cluster.group(wanted.group_id).offsets
    asked: dict[str, list[int]] = {}
    if wanted.topics is None:
        for name in sorted(offsets):
            asked.setdefault(name.topic, []).append(name.partition)
    else:
        for topic in wanted.topics:
            asked[cluster.name_of(topic.name, topic.topic_id)] = list(topic.partition_indexes)
    return [
        offset_fetch.OffsetFetchResponseTopics(
            name=name,
            topic_id=cluster.topic_ids.get(name, bytes(16)),
            partitions=[
                offset_fetch.OffsetFetchResponsePartitions(**_position(offsets, name, index)) for index in indexes
            ],
        )
        for name, indexes in asked.items()
    ]


def _position(offsets: dict[TopicPartition, OffsetAndMetadata], topic: str, index: int) -> dict[str, Any]:
    found = offsets.get(TopicPartition(topic, index))
    if found is None:
        return {"partition_index": index, "committed_offset": -1, "metadata": "", "error_code": 0}
    return {
        "partition_index": index,
        "committed_offset": found.offset,
        "committed_leader_epoch": -1 if found.leader_epoch is None else found.leader_epoch,
        "metadata": found.metadata,
        "error_code": 0,
    }


def commit_offsets_in_transaction(cluster: FakeCluster, asked: Asked) -> txn_offset_commit.TxnOffsetCommitResponse:
    message = asked.message
    transaction = cluster.transactions.get(message.transactional_id)
    identity = message.producer_id, message.producer_epoch
    if transaction is None or identity != (transaction.producer_id, transaction.epoch):
        general = INVALID_PRODUCER_EPOCH
    else:
        general = 0 if asked.node == cluster.coordinator_id else NOT_COORDINATOR
    topics = []
    for topic in message.topics:
        parts = []
        for each in topic.partitions:
            failure = asked.failure(topic.name, each.partition_index)
            code = failure.code if failure else general
            if code == 0 and transaction is not None:
                pending = transaction.offsets.setdefault(message.group_id, {})
                pending[TopicPartition(topic.name, each.partition_index)] = _committed(each)
            parts.append(
                txn_offset_commit.TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=code
                )
            )
        topics.append(txn_offset_commit.TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts))
    return txn_offset_commit.TxnOffsetCommitResponse(topics=topics)
