"""StopReplica (key 5): the controller tells a broker to stop, and perhaps delete, replicas (ZooKeeper clusters).

What each version changed:

    1: broker epoch; request gains broker_epoch, topics; request loses ungrouped_partitions.
    2: flexible.
    3: leader epoch and delete flag per partition; request gains topic_states; request loses delete_partitions,
        topics.
    4: request gains is_kraft_controller.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Int64, Message, String, Struct, since


class StopReplicaPartitionV0(Struct):
    topic_name: String
    partition_index: Int32


class StopReplicaTopicV1(Struct):
    name: String
    partition_indexes: list[Int32]


class StopReplicaPartitionState(Struct):
    partition_index: Int32
    leader_epoch: Int32 = -1
    delete_partition: Bool


class StopReplicaTopicState(Struct):
    topic_name: String
    partition_states: list[StopReplicaPartitionState]


class StopReplicaRequest(Message, versions="0-4", flexible=2):
    controller_id: Int32
    is_kraft_controller: Bool = since(4, default=False)
    controller_epoch: Int32
    broker_epoch: Int64 = since(1, default=-1, ignorable=True)
    delete_partitions: Bool = since(0, until=2, default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = since(0, until=0, factory=list)
    topics: list[StopReplicaTopicV1] = since(1, until=2, factory=list)
    topic_states: list[StopReplicaTopicState] = since(3, factory=list)


class StopReplicaPartitionError(Struct):
    topic_name: String
    partition_index: Int32
    error_code: Int16


class StopReplicaResponse(Message, versions="0-4", flexible=2):
    error_code: Int16
    partition_errors: list[StopReplicaPartitionError]
