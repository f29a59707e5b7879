"""AddRaftVoter (key 80): make a controller that follows the metadata log a voter of its quorum (KIP-853).

What each version changed:

    1: the answer need not wait for the commit; request gains ack_when_committed.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Message, String, Struct, UInt16, Uuid, since


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class AddRaftVoterRequest(Message, versions="0-1", flexible=0):
    cluster_id: String | None
    timeout_ms: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    ack_when_committed: Bool = since(1, default=True)


class AddRaftVoterResponse(Message, versions="0-1", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
