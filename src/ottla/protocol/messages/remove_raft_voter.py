"""RemoveRaftVoter (key 81): take a voter out of the metadata quorum (KIP-853)."""

from ottla.protocol.schema import Int16, Int32, Message, String, Uuid


class RemoveRaftVoterRequest(Message, versions="0", flexible=0):
    cluster_id: String | None
    voter_id: Int32
    voter_directory_id: Uuid


class RemoveRaftVoterResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
