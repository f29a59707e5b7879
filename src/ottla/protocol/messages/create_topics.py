"""CreateTopics (key 19): make topics.

What each version changed:

    2: lowest served.
    3: the client waits out a throttle.
    4: -1 asks for the broker's default of partitions and replicas.
    5: the answer tells settings and sizes; response gains topic_config_error_code, num_partitions,
        replication_factor, configs; flexible.
    6: THROTTLING_QUOTA_EXCEEDED may be answered.
    7: response gains topic_id.
"""

from ottla.protocol.schema import ZERO_UUID, Bool, Int8, Int16, Int32, Message, String, Struct, Uuid, since, tagged


class CreatableReplicaAssignment(Struct):
    partition_index: Int32
    broker_ids: list[Int32]


class CreatableTopicConfig(Struct):
    name: String
    value: String | None


class CreatableTopic(Struct):
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


class CreateTopicsRequest(Message, versions="2-7", flexible=5):
    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopicConfigs(Struct):
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


class CreatableTopicResult(Struct):
    name: String
    topic_id: Uuid = since(7, default=ZERO_UUID, ignorable=True)
    error_code: Int16
    error_message: String | None = None
    topic_config_error_code: Int16 = tagged(0, since=5, default=0, ignorable=True)
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = since(5, factory=list, ignorable=True)


class CreateTopicsResponse(Message, versions="2-7", flexible=5):
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult]
