"""How far a share partition is: keys and values in __share_group_state.

A snapshot has the whole state of one share partition, an update what changed since.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, tagged


class ShareSnapshotKey(Message, versions="0", record_type=0):
    group_id: String
    topic_id: Uuid
    partition: Int32


class StateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ShareSnapshotValue(Message, versions="0", flexible=0):
    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = tagged(0, default=-1)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[StateBatch]


class ShareUpdateKey(Message, versions="0", record_type=1):
    group_id: String
    topic_id: Uuid
    partition: Int32


class ShareUpdateValue(Message, versions="0", flexible=0):
    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = tagged(0, default=-1)
    state_batches: list[StateBatch]
