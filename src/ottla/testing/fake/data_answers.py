"""Answers about data: ApiVersions, Metadata, Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, CreateTopics, logins.

Each function gets the cluster and what was asked, and gives the answer; Fetch gives None while it would rather wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.errors import (
    BrokerError,
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    IllegalSaslState,
    InvalidFetchSessionEpoch,
    InvalidProducerEpoch,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.api import APIS
from ottla.protocol.messages import fetch, metadata, produce
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from ottla.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse
from ottla.records import BatchInfo
from ottla.testing.fake.cluster import FakeCluster, Session
from ottla.testing.fake.log import FakeLog
from ottla.testing.fake.rules import Asked
from ottla.testing.fake.transaction_answers import judge
from ottla.values import TopicPartition

LATEST, EARLIEST = -1, -2
UNLIMITED = (1 << 63) - 1
READ_COMMITTED = 1
FINAL_EPOCH, FIRST_EPOCH = -1, 0


def api_versions(cluster: FakeCluster, asked: Asked, names: Iterator[str]) -> ApiVersionsResponse:
    rows = {row.name: row for row in APIS.values()}
    keys = []
    for name in names:
        lowest, highest = cluster.offered(name)
        keys.append(ApiVersion(api_key=rows[name].key, min_version=lowest, max_version=highest))
    level = cluster.transaction_version
    features = [FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=0)]
    return ApiVersionsResponse(
        error_code=asked.code(), api_keys=keys, finalized_features=features, finalized_features_epoch=1
    )


def refuse_login(cluster: FakeCluster, asked: Asked) -> SaslHandshakeResponse:
    """A listener without logins, as Kafka answers there: clients ask when somebody hung up on them."""
    return SaslHandshakeResponse(error_code=IllegalSaslState.code, mechanisms=[])


def describe(cluster: FakeCluster, asked: Asked) -> metadata.MetadataResponse:
    message: metadata.MetadataRequest = asked.message
    if message.topics is None or (asked.version == 0 and not message.topics):
        names = list(cluster.topics)
    else:
        names = [cluster.name_of(each.name or "", each.topic_id) for each in message.topics]
    if cluster.auto_create and message.allow_auto_topic_creation:
        for name in names:
            if name and name not in cluster.topics:
                cluster.create(name, 1)
    brokers = [
        metadata.MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        for node in cluster.nodes.values()
    ]
    return metadata.MetadataResponse(
        brokers=brokers,
        cluster_id="fake",
        controller_id=cluster.controller_id,
        topics=[_described_topic(cluster, asked, name) for name in names],
    )


def _described_topic(cluster: FakeCluster, asked: Asked, name: str) -> metadata.MetadataResponseTopic:
    failure = asked.failure(name)
    code = failure.code if failure else 0 if name in cluster.topics else UnknownTopicOrPartition.code
    if code:
        return metadata.MetadataResponseTopic(error_code=code, name=name, partitions=[])
    partitions = [_described_partition(cluster, index, log) for index, log in enumerate(cluster.topics[name])]
    topic_id = cluster.topic_ids[name]
    return metadata.MetadataResponseTopic(error_code=0, name=name, topic_id=topic_id, partitions=partitions)


def _described_partition(cluster: FakeCluster, index: int, log: FakeLog) -> metadata.MetadataResponsePartition:
    # A leader of -1 is nobody: an election is under way.
    code = 5 if log.leader < 0 else 0
    others = [node for node in cluster.node_ids if node != log.leader]
    replicas = others if log.leader < 0 else [log.leader, *others]
    return metadata.MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=log.leader,
        leader_epoch=log.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=replicas,
    )


def create_topics(cluster: FakeCluster, asked: Asked) -> CreateTopicsResponse:
    results = []
    for topic in asked.message.topics:
        failure = asked.failure(topic.name)
        code = failure.code if failure else 36 if topic.name in cluster.topics else 0
        if code == 0 and not asked.message.validate_only:
            cluster.create(topic.name, max(1, topic.num_partitions))
        results.append(CreatableTopicResult(name=topic.name, error_code=code))
    return CreateTopicsResponse(topics=results)


def leader_log(cluster: FakeCluster, asked: Asked, name: str, partition: int, epoch: int = -1) -> FakeLog:
    """The log, if this node leads it in this epoch."""
    log = cluster.log(name, partition)
    if log.leader != asked.node:
        raise NotLeaderOrFollower(f"{name}-{partition} is led by {log.leader}")
    if epoch >= 0 and epoch != log.leader_epoch:
        raise (FencedLeaderEpoch if epoch < log.leader_epoch else UnknownLeaderEpoch)(str(epoch))
    return log


# -- produce -----------------------------------------------------------------------------------------------------------


def take_records(cluster: FakeCluster, asked: Asked) -> produce.ProduceResponse | None:
    message: produce.ProduceRequest = asked.message
    topics = []
    for topic in message.topic_data:
        name = cluster.name_of(topic.name, topic.topic_id)
        parts = [_append(cluster, asked, name, each) for each in topic.partition_data]
        topics.append(produce.TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=parts))
    answer = produce.ProduceResponse(responses=topics)
    if any(part.current_leader.leader_id >= 0 for topic in topics for part in topic.partition_responses):
        answer.node_endpoints = [
            produce.NodeEndpoint(node_id=node.id, host=node.host, port=node.port) for node in cluster.nodes.values()
        ]
    return answer if message.acks != 0 else None


def _append(cluster: FakeCluster, asked: Asked, name: str, data: Any) -> produce.PartitionProduceResponse:
    failure = asked.failure(name, data.index)
    base_offset, code = -1, failure.code if failure else 0
    hint = produce.LeaderIdAndEpoch()
    if failure is None or failure.although_done:
        try:
            log = leader_log(cluster, asked, _known(name), data.index)
            _join_transaction(cluster, asked, TopicPartition(name, data.index), data.records or b"")
            base_offset = log.append(data.records or b"")
        except NotLeaderOrFollower as error:
            code = error.code
            log = cluster.log(name, data.index)
            hint = produce.LeaderIdAndEpoch(leader_id=log.leader, leader_epoch=log.leader_epoch)
        except BrokerError as error:
            code = error.code
    shown = base_offset if code == 0 else -1
    start = _start_offset(cluster, name, data.index)
    return produce.PartitionProduceResponse(
        index=data.index, error_code=code, base_offset=shown, log_start_offset=start, current_leader=hint
    )


def _start_offset(cluster: FakeCluster, name: str, partition: int) -> int:
    """Told with errors too: producers judge UNKNOWN_PRODUCER_ID by it."""
    logs = cluster.topics.get(name, [])
    return logs[partition].start_offset if partition < len(logs) else -1


def _known(name: str) -> str:
    if not name:
        raise UnknownTopicId("no topic has that id")
    return name


def _join_transaction(cluster: FakeCluster, asked: Asked, name: TopicPartition, records: bytes) -> None:
    """A leader asks the coordinator before it takes records of a transaction; whoever was replaced is refused."""
    transactional_id = asked.message.transactional_id
    if transactional_id is None:
        return
    first = BatchInfo(records)
    if judge(cluster, transactional_id, first.producer_id, first.producer_epoch):
        raise InvalidProducerEpoch(f"{transactional_id} has another producer now")
    cluster.transactions[transactional_id].partitions.add(name)


# -- fetch -------------------------------------------------------------------------------------------------------------


def give_records(cluster: FakeCluster, asked: Asked, *, waited_ms: float) -> fetch.FetchResponse | None:
    """None: there is too little yet and the client is patient."""
    message: fetch.FetchRequest = asked.message
    if code := asked.code():
        return fetch.FetchResponse(error_code=code, responses=[])
    try:
        session_id, wanted = _session(cluster, asked, is_first=waited_ms == 0)
    except BrokerError as error:
        return fetch.FetchResponse(error_code=error.code, responses=[])
    left = message.max_bytes
    found: dict[str, list[fetch.PartitionData]] = {}
    size = 0
    for name, each in wanted.items():
        data = _read(cluster, asked, name, each, min(left - size, each.partition_max_bytes))
        size += len(data.records or b"")
        asked.failed = asked.failed or data.error_code != 0
        if data.error_code or data.records or message.session_epoch <= FIRST_EPOCH:
            found.setdefault(name.topic, []).append(data)
    if size < message.min_bytes and not asked.failed and waited_ms < message.max_wait_ms:
        return None
    topics = [
        fetch.FetchableTopicResponse(topic=name, topic_id=cluster.topic_ids.get(name, bytes(16)), partitions=parts)
        for name, parts in found.items()
    ]
    return fetch.FetchResponse(session_id=session_id, responses=topics)


def _session(cluster: FakeCluster, asked: Asked, *, is_first: bool) -> tuple[int, dict[TopicPartition, Any]]:
    """The id to answer with and everything that is wanted; the session's memory changes at the first look only."""
    message: fetch.FetchRequest = asked.message
    named = {
        TopicPartition(cluster.name_of(topic.topic, topic.topic_id), each.partition): each
        for topic in message.topics
        for each in topic.partitions
    }
    if message.session_epoch == FINAL_EPOCH:
        cluster.sessions.pop(message.session_id, None)
        return 0, named
    if message.session_epoch == FIRST_EPOCH:
        if is_first:
            cluster.sessions.pop(message.session_id, None)
            asked.message.session_id = cluster.number()
            cluster.sessions[message.session_id] = Session(1, dict(named))
        return message.session_id, named
    session = cluster.sessions.get(message.session_id)
    if session is None:
        raise FetchSessionIdNotFound(f"session {message.session_id}")
    if is_first:
        if session.epoch != message.session_epoch:
            raise InvalidFetchSessionEpoch(f"{message.session_epoch} came, {session.epoch} was expected")
        session.epoch += 1
        for topic in message.forgotten_topics_data:
            for partition in topic.partitions:
                session.wanted.pop(TopicPartition(cluster.name_of(topic.topic, topic.topic_id), partition), None)
        session.wanted.update(named)
    return message.session_id, session.wanted


def _read(
    cluster: FakeCluster, asked: Asked, name: TopicPartition, wanted: fetch.FetchPartition, limit_bytes: int
) -> fetch.PartitionData:
    failure = asked.failure(*name)
    if failure is not None:
        return _no_data(name.partition, failure.code)
    try:
        log = leader_log(cluster, asked, _known(name.topic), name.partition, wanted.current_leader_epoch)
        committed_only = asked.message.isolation_level == READ_COMMITTED
        diverged = _diverged(log, wanted)
        if diverged is not None:
            data = _no_data(name.partition, 0)
            data.diverging_epoch = diverged
            return data
        end = log.last_stable_offset if committed_only else UNLIMITED
        records = log.read(wanted.fetch_offset, limit_bytes, before=end)
    except BrokerError as error:
        return _no_data(name.partition, error.code)
    aborted = [
        fetch.AbortedTransaction(producer_id=producer_id, first_offset=first)
        for producer_id, first, last in log.aborted
        if last >= wanted.fetch_offset
    ]
    return fetch.PartitionData(
        partition_index=name.partition,
        error_code=0,
        high_watermark=log.end_offset,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=aborted if committed_only else None,
        records=records,
    )


def _diverged(log: FakeLog, wanted: fetch.FetchPartition) -> fetch.EpochEndOffset | None:
    if wanted.last_fetched_epoch < 0:
        return None
    epoch, end = log.end_of_epoch(wanted.last_fetched_epoch)
    if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
        return fetch.EpochEndOffset(epoch=epoch, end_offset=end)
    return None


def _no_data(partition: int, code: int) -> fetch.PartitionData:
    return fetch.PartitionData(
        partition_index=partition, error_code=code, high_watermark=-1, aborted_transactions=None, records=b""
    )


# -- offsets -----------------------------------------------------------------------------------------------------------


def list_offsets(cluster: FakeCluster, asked: Asked) -> ListOffsetsResponse:
    topics = []
    for topic in asked.message.topics:
        parts = [_list_offset(cluster, asked, topic.name, each) for each in topic.partitions]
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=parts))
    return ListOffsetsResponse(topics=topics)


def _list_offset(cluster: FakeCluster, asked: Asked, name: str, wanted: Any) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    failure = asked.failure(name, index)
    if failure is not None:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=failure.code)
    try:
        log = leader_log(cluster, asked, name, index, wanted.current_leader_epoch)
    except BrokerError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    offset, timestamp = log.start_offset, -1
    if wanted.timestamp == LATEST:
        offset = log.last_stable_offset if asked.message.isolation_level == READ_COMMITTED else log.end_offset
    elif wanted.timestamp != EARLIEST:
        offset, timestamp = log.offset_at(wanted.timestamp)
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=0, timestamp=timestamp, offset=offset, leader_epoch=log.leader_epoch
    )


def end_of_epochs(cluster: FakeCluster, asked: Asked) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in asked.message.topics:
        parts = [_end_of_epoch(cluster, asked, topic.topic, each) for each in topic.partitions]
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_of_epoch(cluster: FakeCluster, asked: Asked, name: str, wanted: Any) -> EpochEndOffset:
    failure = asked.failure(name, wanted.partition)
    if failure is not None:
        return EpochEndOffset(error_code=failure.code, partition=wanted.partition)
    try:
        log = leader_log(cluster, asked, name, wanted.partition, wanted.current_leader_epoch)
    except BrokerError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    epoch, end = log.end_of_epoch(wanted.leader_epoch)
    return EpochEndOffset(error_code=0, partition=wanted.partition, leader_epoch=epoch, end_offset=end)
