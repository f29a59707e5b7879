"""DescribeQuorum, on a controller: who votes, who follows, and how far everybody is. Only the leader knows.

Raft counts in a time that nobody sets and that stands still while a machine sleeps. What is told are times of the
clock of now: so long before it as Raft says that it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.handlers.cluster.describe_quorum import (
    DESCRIBE_CLUSTER,
    NODES_SINCE,
    UNKNOWN,
    asks_for_the_log_alone,
    unknown_log,
)
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.cluster.image import ClusterImage
from ottla.cluster.raft.leading import Leadership, Progress
from ottla.cluster.raft.raft import Raft
from ottla.cluster.raft.voters import VoterKey
from ottla.errors import NONE, NotLeaderOrFollower
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(DescribeQuorumRequest, needs=(DESCRIBE_CLUSTER,))
NOBODY_HEARD: Final = Progress()


def handle(broker: Broker, request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    DESCRIBE_CLUSTER.check(broker, context)
    raft = controller_link(broker).raft_loop.raft
    leadership = raft.leadership
    if leadership is None:
        error = NotLeaderOrFollower(f"node {raft.node.key.id} does not lead the metadata log")
        return DescribeQuorumResponse(error_code=error.code, error_message=str(error), topics=[], nodes=[])
    now_ms = broker.clock.now_ms()
    ahead_ms = now_ms - controller_link(broker).raft_loop.now_ms()
    is_asked = asks_for_the_log_alone(request)
    topics = [
        ResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                _partition(raft, leadership, now_ms, ahead_ms) if is_asked else unknown_log(partition.partition_index)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    nodes = _nodes(raft, broker.image) if context.api_version >= NODES_SINCE else []
    return DescribeQuorumResponse(error_code=NONE, topics=topics, nodes=nodes)


def _partition(raft: Raft, leadership: Leadership, now_ms: int, ahead_ms: int) -> ResponsePartitionData:
    me = raft.node.key
    voters = [
        _leader(raft, now_ms)
        if voter.id == me.id
        else _replica(voter, leadership.voters.get(voter, NOBODY_HEARD), ahead_ms)
        for voter in raft.voters
    ]
    return ResponsePartitionData(
        partition_index=0,
        error_code=NONE,
        leader_id=me.id,
        leader_epoch=raft.epoch,
        high_watermark=UNKNOWN if leadership.high_watermark is None else leadership.high_watermark,
        current_voters=voters,
        observers=[
            _replica(key, progress, ahead_ms) for key, progress in leadership.observers.items() if key.id != me.id
        ],
    )


def _leader(raft: Raft, now_ms: int) -> ReplicaState:
    me = raft.node.key
    return ReplicaState(
        replica_id=me.id,
        replica_directory_id=me.directory_id,
        log_end_offset=raft.log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


def _replica(key: VoterKey, progress: Progress, ahead_ms: int) -> ReplicaState:
    return ReplicaState(
        replica_id=key.id,
        replica_directory_id=key.directory_id,
        log_end_offset=progress.end_offset,
        last_fetch_timestamp=_by_the_clock(progress.fetched_ms, ahead_ms),
        last_caught_up_timestamp=_by_the_clock(progress.caught_up_ms, ahead_ms),
    )


def _by_the_clock(time_ms: int, ahead_ms: int) -> int:
    return UNKNOWN if time_ms < 0 else time_ms + ahead_ms


def _nodes(raft: Raft, image: ClusterImage) -> list[Node]:
    """Where the voters are, and registered controllers that follow without a vote."""
    assert raft.leadership is not None, "it leads"
    nodes = [
        Node(
            node_id=voter.voter_id,
            listeners=[
                Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port) for endpoint in voter.endpoints
            ],
        )
        for voter in raft.voters.nodes
    ]
    for node_id in sorted({key.id for key in raft.leadership.observers} - {*raft.voters.ids}):
        controller = image.controllers.get(node_id)
        if controller is not None:
            listeners = [
                Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
                for endpoint in controller.endpoints
            ]
            nodes.append(Node(node_id=node_id, listeners=listeners))
    return nodes
