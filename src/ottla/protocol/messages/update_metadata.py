"""UpdateMetadata (key 6): the controller tells every broker what the cluster looks like (ZooKeeper clusters).

What each version changed:

    1: request gains endpoints; request loses v0_host, v0_port.
    2: request gains rack.
    3: request gains listener.
    4: request gains offline_replicas.
    5: broker epoch; partitions grouped by topic; request gains broker_epoch, topic_states; request loses
        ungrouped_partition_states, topic_name.
    6: flexible.
    7: topic ids; request gains topic_id.
    8: request gains is_kraft_controller, type.
"""

from ottla.protocol.schema import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
    since,
    tagged,
)


class UpdateMetadataPartitionState(Struct):
    topic_name: String = since(0, until=4, default="", ignorable=True)
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    zk_version: Int32
    replicas: list[Int32]
    offline_replicas: list[Int32] = since(4, factory=list, ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: String
    topic_id: Uuid = since(7, default=ZERO_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState]


class UpdateMetadataEndpoint(Struct):
    port: Int32
    host: String
    listener: String = since(3, default="", ignorable=True)
    security_protocol: Int16


class UpdateMetadataBroker(Struct):
    id: Int32
    v0_host: String = since(0, until=0, default="", ignorable=True)
    v0_port: Int32 = since(0, until=0, default=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = since(1, factory=list, ignorable=True)
    rack: String | None = since(2, default="", ignorable=True)


class UpdateMetadataRequest(Message, versions="0-8", flexible=6):
    controller_id: Int32
    is_kraft_controller: Bool = since(8, default=False)
    type: Int8 = tagged(0, since=8, default=0)
    controller_epoch: Int32
    broker_epoch: Int64 = since(5, default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = since(0, until=4, factory=list)
    topic_states: list[UpdateMetadataTopicState] = since(5, factory=list)
    live_brokers: list[UpdateMetadataBroker]


class UpdateMetadataResponse(Message, versions="0-8", flexible=6):
    error_code: Int16
