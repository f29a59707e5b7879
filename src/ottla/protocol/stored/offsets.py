"""What a group has read: keys and values of __consumer_offsets.

Key 0 is what brokers before 0.9 wrote; it is read, never written. Value versions: 1 has an expiry (only 1), 2 dropped
it again, 3 has the leader epoch, 4 is flexible and may carry the topic id.
"""

from ottla.protocol.schema import ZERO_UUID, Int32, Int64, Message, String, Uuid, since, tagged


class LegacyOffsetCommitKey(Message, versions="0", record_type=0):
    group: String
    topic: String
    partition: Int32


class LegacyOffsetCommitValue(Message, versions="0"):
    offset: Int64
    metadata: String
    commit_timestamp: Int64


class OffsetCommitKey(Message, versions="0", record_type=1):
    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(Message, versions="0-4", flexible=4):
    offset: Int64
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = since(1, until=1, default=-1, ignorable=True)
    topic_id: Uuid = tagged(0, since=4, default=ZERO_UUID, ignorable=True)
