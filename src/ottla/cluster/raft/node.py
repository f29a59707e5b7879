"""What raft.py, and those who help it, pass around: who a node is, what it was told about time, what it asks whom."""

from __future__ import annotations

from typing import TypeAlias

from ottla.cluster.raft.fetching import FetchLimits, Identity
from ottla.cluster.raft.voters import VoterKey, VoterSet
from ottla.light_dataclasses import dataclass, field
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.protocol.messages.add_raft_voter import Listener as AddedListener
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.protocol.messages.update_raft_voter import KRaftVersionFeature as Levels
from ottla.protocol.messages.update_raft_voter import Listener as UpdatedListener
from ottla.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from ottla.protocol.messages.vote import VoteRequest, VoteResponse
from ottla.protocol.metadata_log.control import KRaftVersionFeature, VoterEndpoint, VoterNode
from ottla.values import Address


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """What controller.quorum.* say."""

    election_timeout_ms: int = 1_000
    election_backoff_max_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    limits: FetchLimits = field(default_factory=FetchLimits)


@dataclass(frozen=True, slots=True)
class RaftNode:
    """Who a node is, and whom it can ask while it knows nothing."""

    identity: Identity
    bootstrap: tuple[Address, ...] = ()
    voters: VoterSet = field(default_factory=VoterSet)
    """By settings (controller.quorum.voters); what the log says comes before it."""
    endpoints: tuple[tuple[str, Address], ...] = ()
    """Of its controller listeners, by their names; empty for who can only follow."""
    kraft_versions: tuple[int, int] = (0, 1)
    joins_by_itself: bool = False
    """Makes itself a voter (controller.quorum.auto.join.enable)."""
    voters_max: int = 0
    """It does so only while there are fewer, and not where its vote was taken in this life; 0 is no bound."""

    @property
    def key(self) -> VoterKey:
        return VoterKey(self.identity.node_id, self.identity.directory_id)

    @property
    def listener(self) -> str:
        return self.endpoints[0][0] if self.endpoints else ""

    def as_voter(self) -> VoterNode:
        """What the log says of it while it votes."""
        return VoterNode(
            voter_id=self.key.id,
            voter_directory_id=self.key.directory_id,
            endpoints=[VoterEndpoint(name=name, host=at.host, port=at.port) for name, at in self.endpoints],
            k_raft_version_feature=KRaftVersionFeature(
                min_supported_version=self.kraft_versions[0], max_supported_version=self.kraft_versions[1]
            ),
        )

    def update_request(self, epoch: int) -> UpdateRaftVoterRequest:
        """For a leader whose log says something else of this voter."""
        return UpdateRaftVoterRequest(
            cluster_id=self.identity.cluster_id,
            current_leader_epoch=epoch,
            voter_id=self.key.id,
            voter_directory_id=self.key.directory_id,
            listeners=[UpdatedListener(name=name, host=at.host, port=at.port) for name, at in self.endpoints],
            kraft_version_feature=Levels(
                min_supported_version=self.kraft_versions[0], max_supported_version=self.kraft_versions[1]
            ),
        )

    def add_request(self, timeout_ms: int) -> AddRaftVoterRequest:
        """To become a voter."""
        return AddRaftVoterRequest(
            cluster_id=self.identity.cluster_id,
            timeout_ms=timeout_ms,
            voter_id=self.key.id,
            voter_directory_id=self.key.directory_id,
            listeners=[AddedListener(name=name, host=at.host, port=at.port) for name, at in self.endpoints],
            ack_when_committed=False,
        )

    def remove_request(self, voter: VoterNode) -> RemoveRaftVoterRequest:
        """For the directory with which this node voted before it lost its disk."""
        return RemoveRaftVoterRequest(
            cluster_id=self.identity.cluster_id,
            voter_id=voter.voter_id,
            voter_directory_id=voter.voter_directory_id,
        )


Request: TypeAlias = (
    FetchRequest
    | FetchSnapshotRequest
    | VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | UpdateRaftVoterRequest
    | AddRaftVoterRequest
    | RemoveRaftVoterRequest
    | ApiVersionsRequest
)
Response: TypeAlias = (
    FetchResponse
    | FetchSnapshotResponse
    | VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | UpdateRaftVoterResponse
    | AddRaftVoterResponse
    | RemoveRaftVoterResponse
    | ApiVersionsResponse
)


class Sent(NamedTuple):
    """A request, and where it goes; `voter` is who is meant by it, where that matters."""

    address: Address
    epoch: int
    request: Request
    voter: VoterKey | None = None
