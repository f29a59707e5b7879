"""LeaderAndIsr (key 4): the controller tells a broker which partitions it leads or follows (ZooKeeper clusters).

What each version changed:

    1: request gains is_new.
    2: broker epoch; partitions grouped by topic; request gains broker_epoch, topic_states; request loses
        ungrouped_partition_states, topic_name.
    3: request gains adding_replicas, removing_replicas.
    4: flexible.
    5: topic ids; request gains type, topic_id; response gains topics; response loses partition_errors, topic_name.
    6: request gains leader_recovery_state.
    7: KRaft flag of migrations; request gains is_kraft_controller.
"""

from ottla.protocol.schema import ZERO_UUID, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, since


class LeaderAndIsrPartitionState(Struct):
    topic_name: String = since(0, until=1, default="", ignorable=True)
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    partition_epoch: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32] = since(3, factory=list, ignorable=True)
    removing_replicas: list[Int32] = since(3, factory=list, ignorable=True)
    is_new: Bool = since(1, default=False, ignorable=True)
    leader_recovery_state: Int8 = since(6, default=0)


class LeaderAndIsrTopicState(Struct):
    topic_name: String
    topic_id: Uuid = since(5, default=ZERO_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState]


class LeaderAndIsrLiveLeader(Struct):
    broker_id: Int32
    host_name: String
    port: Int32


class LeaderAndIsrRequest(Message, versions="0-7", flexible=4):
    controller_id: Int32
    is_kraft_controller: Bool = since(7, default=False)
    controller_epoch: Int32
    broker_epoch: Int64 = since(2, default=-1, ignorable=True)
    type: Int8 = since(5, default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = since(0, until=1, factory=list)
    topic_states: list[LeaderAndIsrTopicState] = since(2, factory=list)
    live_leaders: list[LeaderAndIsrLiveLeader]


class LeaderAndIsrPartitionError(Struct):
    topic_name: String = since(0, until=4, default="", ignorable=True)
    partition_index: Int32
    error_code: Int16


class LeaderAndIsrTopicError(Struct):
    topic_id: Uuid
    partition_errors: list[LeaderAndIsrPartitionError]


class LeaderAndIsrResponse(Message, versions="0-7", flexible=4):
    error_code: Int16
    partition_errors: list[LeaderAndIsrPartitionError] = since(0, until=4, factory=list)
    topics: list[LeaderAndIsrTopicError] = since(5, factory=list)
