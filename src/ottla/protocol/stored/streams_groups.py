"""Streams groups (KIP-1071): keys and values in __consumer_offsets.

Like consumer_groups.py, with tasks of a topology instead of partitions.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Int64, Message, String, Struct, UInt16, tagged


class StreamsGroupMetadataKey(Message, versions="0", record_type=17):
    group_id: String


class LastAssignmentConfig(Struct):
    key: String
    value: String


class StreamsGroupMetadataValue(Message, versions="0", flexible=0):
    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = tagged(0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = tagged(1, default=None)


class StreamsGroupTopologyKey(Message, versions="0", record_type=23):
    group_id: String


class TopicConfig(Struct):
    key: String
    value: String


class TopicInfo(Struct):
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[TopicConfig]


class CopartitionGroup(Struct):
    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


class Subtopology(Struct):
    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


class StreamsGroupTopologyValue(Message, versions="0", flexible=0):
    epoch: Int32
    subtopologies: list[Subtopology]


class StreamsGroupMemberMetadataKey(Message, versions="0", record_type=19):
    group_id: String
    member_id: String


class Endpoint(Struct):
    host: String
    port: UInt16


class KeyValue(Struct):
    key: String
    value: String


class StreamsGroupMemberMetadataValue(Message, versions="0", flexible=0):
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]


class StreamsGroupTargetAssignmentMetadataKey(Message, versions="0", record_type=20):
    group_id: String


class StreamsGroupTargetAssignmentMetadataValue(Message, versions="0", flexible=0):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, default=0)


class StreamsGroupTargetAssignmentMemberKey(Message, versions="0", record_type=21):
    group_id: String
    member_id: String


class TaskIds(Struct):
    subtopology_id: String
    partitions: list[Int32]


class StreamsGroupTargetAssignmentMemberValue(Message, versions="0", flexible=0):
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class StreamsGroupCurrentMemberAssignmentKey(Message, versions="0", record_type=22):
    group_id: String
    member_id: String


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Struct):
    subtopology_id: String
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = tagged(0, default=None)


class StreamsGroupCurrentMemberAssignmentValue(Message, versions="0", flexible=0):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValueTaskIds]
