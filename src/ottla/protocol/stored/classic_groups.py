"""Members of a classic group: key and value in __consumer_offsets.

The coordinator writes it once per generation, when the assignment is known. 1 has the rebalance time-out, 2 the time of
the last state change, 3 static members, 4 is flexible.
"""

from ottla.protocol.schema import Bytes, Int32, Int64, Message, String, Struct, since


class GroupMetadataKey(Message, versions="0", record_type=2):
    group: String


class MemberMetadata(Struct):
    member_id: String
    group_instance_id: String | None = since(3, default=None, ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = since(1, default=-1, ignorable=True)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(Message, versions="0-4", flexible=4):
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: list[MemberMetadata]
