"""Requests of the quorum about the one partition that it has, made and taken apart.

Every request and answer of Raft is made for several topics and partitions, and has one. What is about another one, or
about none, is refused as InvalidRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

from ottla.cluster.raft.log import METADATA_PARTITION
from ottla.cluster.raft.voters import VoterKey
from ottla.errors import InvalidRequest, UnknownTopicId
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    vote,
)
from ottla.values import METADATA_TOPIC_UUID, Address

TOPIC: Final = METADATA_PARTITION.topic
PARTITION: Final = METADATA_PARTITION.partition
OK: Final = 0
P = TypeVar("P")


class LeaderView(NamedTuple):
    """What a node knows of the leader: every answer of the quorum says it."""

    leader_id: int
    epoch: int
    address: Address | None = None


class EpochError(NamedTuple):
    """An error code with what the node knows of the leader."""

    error_code: int
    leader: LeaderView


def _endpoints(make: Callable[..., P], leader: LeaderView) -> list[P]:
    address = leader.address
    return [] if address is None else [make(node_id=leader.leader_id, host=address.host, port=address.port)]


# --- votes -----------------------------------------------------------------------------------------------------------


def vote_request(
    cluster_id: str,
    *,
    epoch: int,
    candidate: VoterKey,
    voter: VoterKey,
    last_epoch: int,
    end_offset: int,
    is_pre_vote: bool,
) -> vote.VoteRequest:
    partition = vote.PartitionData(
        partition_index=PARTITION,
        replica_epoch=epoch,
        replica_id=candidate.id,
        replica_directory_id=candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=last_epoch,
        last_offset=end_offset,
        pre_vote=is_pre_vote,
    )
    topic = vote.TopicData(topic_name=TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def vote_response(error: EpochError, *, is_granted: bool) -> vote.VoteResponse:
    partition = vote.ResponsePartitionData(
        partition_index=PARTITION,
        error_code=error.error_code,
        leader_id=error.leader.leader_id,
        leader_epoch=error.leader.epoch,
        vote_granted=is_granted,
    )
    return vote.VoteResponse(
        error_code=OK,
        topics=[vote.ResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(vote.NodeEndpoint, error.leader),
    )


# --- epochs ----------------------------------------------------------------------------------------------------------


def begin_request(
    cluster_id: str, *, epoch: int, leader_id: int, voter: VoterKey, endpoints: Sequence[tuple[str, Address]]
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.PartitionData(
        partition_index=PARTITION, voter_directory_id=voter.directory_id, leader_id=leader_id, leader_epoch=epoch
    )
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=[begin_quorum_epoch.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin_quorum_epoch.LeaderEndpoint(name=name, host=address.host, port=address.port)
            for name, address in endpoints
        ],
    )


def begin_response(error: EpochError) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    partition = begin_quorum_epoch.ResponsePartitionData(
        partition_index=PARTITION,
        error_code=error.error_code,
        leader_id=error.leader.leader_id,
        leader_epoch=error.leader.epoch,
    )
    return begin_quorum_epoch.BeginQuorumEpochResponse(
        error_code=OK,
        topics=[begin_quorum_epoch.ResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(begin_quorum_epoch.NodeEndpoint, error.leader),
    )


def end_request(
    cluster_id: str,
    *,
    epoch: int,
    leader_id: int,
    candidates: Sequence[VoterKey],
    endpoints: Sequence[tuple[str, Address]],
) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.PartitionData(
        partition_index=PARTITION,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=[candidate.id for candidate in candidates],
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(candidate_id=candidate.id, candidate_directory_id=candidate.directory_id)
            for candidate in candidates
        ],
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[end_quorum_epoch.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            end_quorum_epoch.LeaderEndpoint(name=name, host=address.host, port=address.port)
            for name, address in endpoints
        ],
    )


def end_response(error: EpochError) -> end_quorum_epoch.EndQuorumEpochResponse:
    partition = end_quorum_epoch.ResponsePartitionData(
        partition_index=PARTITION,
        error_code=error.error_code,
        leader_id=error.leader.leader_id,
        leader_epoch=error.leader.epoch,
    )
    return end_quorum_epoch.EndQuorumEpochResponse(
        error_code=OK,
        topics=[end_quorum_epoch.ResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(end_quorum_epoch.NodeEndpoint, error.leader),
    )


# --- the log ---------------------------------------------------------------------------------------------------------


def fetch_response(error: EpochError, partition: fetch.PartitionData, version: int) -> fetch.FetchResponse:
    """As it is answered at a version: up to 12 topics have names, since then ids."""
    partition.error_code = error.error_code
    partition.current_leader = fetch.LeaderIdAndEpoch(leader_id=error.leader.leader_id, leader_epoch=error.leader.epoch)
    topic = fetch.FetchableTopicResponse(partitions=[partition])
    if version > 12:
        topic.topic_id = METADATA_TOPIC_UUID
    else:
        topic.topic = TOPIC
    return fetch.FetchResponse(
        responses=[topic],
        node_endpoints=_endpoints(fetch.NodeEndpoint, error.leader),
    )


def snapshot_response(
    error: EpochError, asked: fetch_snapshot.PartitionSnapshot, content: bytes = b"", size: int = 0
) -> fetch_snapshot.FetchSnapshotResponse:
    partition = fetch_snapshot.ResponsePartitionSnapshot(
        index=PARTITION,
        error_code=error.error_code,
        snapshot_id=asked.snapshot_id,
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=error.leader.leader_id, leader_epoch=error.leader.epoch
        ),
        size=size,
        position=asked.position,
        unaligned_records=content,
    )
    return fetch_snapshot.FetchSnapshotResponse(
        error_code=OK,
        topics=[fetch_snapshot.ResponseTopicSnapshot(name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(fetch_snapshot.NodeEndpoint, error.leader),
    )


# --- the one partition -----------------------------------------------------------------------------------------------

VotePartition: TypeAlias = vote.PartitionData
BeginPartition: TypeAlias = begin_quorum_epoch.PartitionData
EndPartition: TypeAlias = end_quorum_epoch.PartitionData


class NamedTopic(Protocol):
    @property
    def topic_name(self) -> str: ...


def vote_partition(request: vote.VoteRequest) -> VotePartition:
    _check_topics(request.topics)
    return _only([each for topic in request.topics for each in topic.partitions], lambda each: each.partition_index)


def begin_partition(request: begin_quorum_epoch.BeginQuorumEpochRequest) -> BeginPartition:
    _check_topics(request.topics)
    return _only([each for topic in request.topics for each in topic.partitions], lambda each: each.partition_index)


def end_partition(request: end_quorum_epoch.EndQuorumEpochRequest) -> EndPartition:
    _check_topics(request.topics)
    return _only([each for topic in request.topics for each in topic.partitions], lambda each: each.partition_index)


def fetch_partition(request: fetch.FetchRequest) -> fetch.FetchPartition:
    for topic in request.topics:
        if topic.topic != TOPIC and topic.topic_id != METADATA_TOPIC_UUID:
            raise UnknownTopicId("a controller has the metadata log and no other topic")
    return _only([each for topic in request.topics for each in topic.partitions], lambda each: each.partition)


def snapshot_partition(request: fetch_snapshot.FetchSnapshotRequest) -> fetch_snapshot.PartitionSnapshot:
    if any(topic.name != TOPIC for topic in request.topics):
        raise InvalidRequest("a controller has snapshots of the metadata log and of no other topic")
    return _only([each for topic in request.topics for each in topic.partitions], lambda each: each.partition)


def _check_topics(topics: Sequence[NamedTopic]) -> None:
    if any(topic.topic_name != TOPIC for topic in topics):
        raise InvalidRequest(f"a request of the quorum is about {TOPIC}")


def _only(partitions: list[P], index_of: Callable[[P], int]) -> P:
    if len(partitions) != 1 or index_of(partitions[0]) != PARTITION:
        raise InvalidRequest(f"a request of the quorum is about {METADATA_PARTITION}, and nothing else")
    return partitions[0]
