"""AlterPartition (key 56): a leader proposes a new in-sync set to the controller.

What each version changed:

    2: lowest served; topics by id.
    3: broker epoch of each proposed member; request gains new_isr_with_epochs; request loses new_isr.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Int64, Message, Struct, Uuid, since


class BrokerState(Struct):
    broker_id: Int32
    broker_epoch: Int64 = -1


class PartitionData(Struct):
    partition_index: Int32
    leader_epoch: Int32
    new_isr: list[Int32] = since(0, until=2, factory=list)
    new_isr_with_epochs: list[BrokerState] = since(3, factory=list)
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


class TopicData(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class AlterPartitionRequest(Message, versions="2-3", flexible=0):
    broker_id: Int32
    broker_epoch: Int64 = -1
    topics: list[TopicData]


class ResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    isr: list[Int32]
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32


class ResponseTopicData(Struct):
    topic_id: Uuid
    partitions: list[ResponsePartitionData]


class AlterPartitionResponse(Message, versions="2-3", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    topics: list[ResponseTopicData]
