"""The table of APIs: key, messages, versions. ApiVersions answers from it, connections choose versions from it.

Adding an API is a file in messages/ and a row here. Modules are loaded when a row is first used, so that a client
does not pay at start for the seventy APIs it never calls.

An API whose newest version is still unstable in Kafka (`unstable_from`) can be spoken, but is not advertised. At which
kind of listener an API belongs is said once, in its row; a node advertises those of its listener that it has a handler
for (broker/requests/served.py).
"""

import enum
from collections.abc import Callable
from functools import cached_property
from importlib import import_module

from ottla.light_dataclasses import dataclass
from ottla.protocol.schema import Buffer, Message, Versions


class ListenerType(enum.Flag):
    """Who is asked there, as in Kafka's own table."""

    BROKER = enum.auto()
    ZK_BROKER = enum.auto()
    """What a broker serves beside that while its cluster is kept in ZooKeeper: orders of the controller and questions
    to it, because any broker may be controller."""
    CONTROLLER = enum.auto()
    """A controller of a cluster that is kept in a metadata log."""


BROKER, ZK_BROKER, CONTROLLER = ListenerType.BROKER, ListenerType.ZK_BROKER, ListenerType.CONTROLLER


@dataclass(frozen=True)
class Api:
    """One row. `versions` is what we speak, `advertised` what we tell others."""

    key: int
    name: str
    module: str
    listeners: ListenerType = BROKER
    unstable_from: int | None = None

    @cached_property
    def request(self) -> type[Message]:
        return self._load("Request")

    @cached_property
    def response(self) -> type[Message]:
        return self._load("Response")

    @property
    def versions(self) -> Versions:
        return self.request.versions

    @property
    def advertised(self) -> Versions:
        if self.unstable_from is None:
            return self.versions
        return Versions(self.versions.min, self.unstable_from - 1)

    @property
    def flexible_since(self) -> int:
        return self.request.flexible_since

    def _load(self, kind: str) -> type[Message]:
        loaded: type[Message] = getattr(import_module(f"ottla.protocol.messages.{self.module}"), self.name + kind)
        return loaded

    def __str__(self) -> str:
        return f"{self.name} (key {self.key})"


_ROWS = (
    Api(0, "Produce", "produce"),
    Api(1, "Fetch", "fetch", BROKER | CONTROLLER),
    Api(2, "ListOffsets", "list_offsets"),
    Api(3, "Metadata", "metadata"),
    Api(4, "LeaderAndIsr", "leader_and_isr", ZK_BROKER),
    Api(5, "StopReplica", "stop_replica", ZK_BROKER),
    Api(6, "UpdateMetadata", "update_metadata", ZK_BROKER),
    Api(7, "ControlledShutdown", "controlled_shutdown", ZK_BROKER),
    Api(8, "OffsetCommit", "offset_commit"),
    Api(9, "OffsetFetch", "offset_fetch"),
    Api(10, "FindCoordinator", "find_coordinator"),
    Api(11, "JoinGroup", "join_group"),
    Api(12, "Heartbeat", "heartbeat"),
    Api(13, "LeaveGroup", "leave_group"),
    Api(14, "SyncGroup", "sync_group"),
    Api(15, "DescribeGroups", "describe_groups"),
    Api(16, "ListGroups", "list_groups"),
    Api(17, "SaslHandshake", "sasl_handshake", BROKER | CONTROLLER),
    Api(18, "ApiVersions", "api_versions", BROKER | CONTROLLER),
    Api(19, "CreateTopics", "create_topics", BROKER | CONTROLLER),
    Api(20, "DeleteTopics", "delete_topics", BROKER | CONTROLLER),
    Api(21, "DeleteRecords", "delete_records"),
    Api(22, "InitProducerId", "init_producer_id", unstable_from=6),
    Api(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch"),
    Api(24, "AddPartitionsToTxn", "add_partitions_to_txn"),
    Api(25, "AddOffsetsToTxn", "add_offsets_to_txn"),
    Api(26, "EndTxn", "end_txn"),
    Api(27, "WriteTxnMarkers", "write_txn_markers"),
    Api(28, "TxnOffsetCommit", "txn_offset_commit"),
    Api(29, "DescribeAcls", "describe_acls", BROKER | CONTROLLER),
    Api(30, "CreateAcls", "create_acls", BROKER | CONTROLLER),
    Api(31, "DeleteAcls", "delete_acls", BROKER | CONTROLLER),
    Api(32, "DescribeConfigs", "describe_configs", BROKER | CONTROLLER),
    Api(33, "AlterConfigs", "alter_configs", BROKER | CONTROLLER),
    Api(34, "AlterReplicaLogDirs", "alter_replica_log_dirs"),
    Api(35, "DescribeLogDirs", "describe_log_dirs"),
    Api(36, "SaslAuthenticate", "sasl_authenticate", BROKER | CONTROLLER),
    Api(37, "CreatePartitions", "create_partitions", BROKER | CONTROLLER),
    Api(38, "CreateDelegationToken", "create_delegation_token", BROKER | CONTROLLER),
    Api(39, "RenewDelegationToken", "renew_delegation_token", BROKER | CONTROLLER),
    Api(40, "ExpireDelegationToken", "expire_delegation_token", BROKER | CONTROLLER),
    Api(41, "DescribeDelegationToken", "describe_delegation_token", BROKER | CONTROLLER),
    Api(42, "DeleteGroups", "delete_groups"),
    Api(43, "ElectLeaders", "elect_leaders", BROKER | CONTROLLER),
    Api(44, "IncrementalAlterConfigs", "incremental_alter_configs", BROKER | CONTROLLER),
    Api(45, "AlterPartitionReassignments", "alter_partition_reassignments", BROKER | CONTROLLER),
    Api(46, "ListPartitionReassignments", "list_partition_reassignments", BROKER | CONTROLLER),
    Api(47, "OffsetDelete", "offset_delete"),
    Api(48, "DescribeClientQuotas", "describe_client_quotas"),
    Api(49, "AlterClientQuotas", "alter_client_quotas", BROKER | CONTROLLER),
    Api(50, "DescribeUserScramCredentials", "describe_user_scram_credentials", BROKER | CONTROLLER),
    Api(51, "AlterUserScramCredentials", "alter_user_scram_credentials", BROKER | CONTROLLER),
    Api(52, "Vote", "vote", CONTROLLER),
    Api(53, "BeginQuorumEpoch", "begin_quorum_epoch", CONTROLLER),
    Api(54, "EndQuorumEpoch", "end_quorum_epoch", CONTROLLER),
    Api(55, "DescribeQuorum", "describe_quorum", BROKER | CONTROLLER),
    Api(56, "AlterPartition", "alter_partition", ZK_BROKER | CONTROLLER),
    Api(57, "UpdateFeatures", "update_features", BROKER | CONTROLLER),
    Api(58, "Envelope", "envelope", ZK_BROKER | CONTROLLER),
    Api(59, "FetchSnapshot", "fetch_snapshot", CONTROLLER),
    Api(60, "DescribeCluster", "describe_cluster", BROKER | CONTROLLER),
    Api(61, "DescribeProducers", "describe_producers"),
    Api(62, "BrokerRegistration", "broker_registration", CONTROLLER),
    Api(63, "BrokerHeartbeat", "broker_heartbeat", CONTROLLER),
    Api(64, "UnregisterBroker", "unregister_broker", BROKER | CONTROLLER),
    Api(65, "DescribeTransactions", "describe_transactions"),
    Api(66, "ListTransactions", "list_transactions"),
    Api(67, "AllocateProducerIds", "allocate_producer_ids", ZK_BROKER | CONTROLLER),
    Api(68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat"),
    Api(69, "ConsumerGroupDescribe", "consumer_group_describe"),
    Api(70, "ControllerRegistration", "controller_registration", CONTROLLER),
    Api(71, "GetTelemetrySubscriptions", "get_telemetry_subscriptions"),
    Api(72, "PushTelemetry", "push_telemetry"),
    Api(73, "AssignReplicasToDirs", "assign_replicas_to_dirs", CONTROLLER),
    Api(74, "ListConfigResources", "list_config_resources"),
    Api(75, "DescribeTopicPartitions", "describe_topic_partitions"),
    Api(76, "ShareGroupHeartbeat", "share_group_heartbeat"),
    Api(77, "ShareGroupDescribe", "share_group_describe"),
    Api(78, "ShareFetch", "share_fetch"),
    Api(79, "ShareAcknowledge", "share_acknowledge"),
    Api(80, "AddRaftVoter", "add_raft_voter", BROKER | CONTROLLER),
    Api(81, "RemoveRaftVoter", "remove_raft_voter", BROKER | CONTROLLER),
    Api(82, "UpdateRaftVoter", "update_raft_voter", CONTROLLER),
    Api(83, "InitializeShareGroupState", "initialize_share_group_state"),
    Api(84, "ReadShareGroupState", "read_share_group_state"),
    Api(85, "WriteShareGroupState", "write_share_group_state"),
    Api(86, "DeleteShareGroupState", "delete_share_group_state"),
    Api(87, "ReadShareGroupStateSummary", "read_share_group_state_summary"),
    Api(88, "StreamsGroupHeartbeat", "streams_group_heartbeat"),
    Api(89, "StreamsGroupDescribe", "streams_group_describe"),
    Api(90, "DescribeShareGroupOffsets", "describe_share_group_offsets"),
    Api(91, "AlterShareGroupOffsets", "alter_share_group_offsets"),
    Api(92, "DeleteShareGroupOffsets", "delete_share_group_offsets"),
)

APIS = {api.key: api for api in _ROWS}
APIS_BY_NAME = {api.name: api for api in _ROWS}


@dataclass(frozen=True, slots=True)
class WrittenRequest:
    """A request whose body is bytes already, in one version of its API: that of a client that wrote it by itself.

    `read` is asked first for what the frame of its answer says; None means that the answer is to be decoded."""

    api: Api
    body: list[Buffer]
    read: Callable[[Buffer], object | None] | None = None


def api_of(message: Message | type[Message] | WrittenRequest) -> Api:
    """The row a request or response belongs to."""
    if isinstance(message, WrittenRequest):
        return message.api
    message_class = message if isinstance(message, type) else type(message)
    name = message_class.__name__
    for ending in ("Request", "Response"):
        if name.endswith(ending):
            return APIS_BY_NAME[name.removesuffix(ending)]
    raise KeyError(f"{name} is not the request or response of an API")
