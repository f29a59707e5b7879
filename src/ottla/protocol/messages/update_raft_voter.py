"""UpdateRaftVoter (key 82): a voter tells the leader of the metadata quorum its endpoints and versions (KIP-853)."""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct, UInt16, Uuid, tagged


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class KRaftVersionFeature(Struct):
    min_supported_version: Int16
    max_supported_version: Int16


class UpdateRaftVoterRequest(Message, versions="0", flexible=0):
    cluster_id: String | None
    current_leader_epoch: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    kraft_version_feature: KRaftVersionFeature


class CurrentLeader(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: String = ""
    port: Int32 = 0


class UpdateRaftVoterResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    current_leader: CurrentLeader = tagged(0, factory=CurrentLeader)
