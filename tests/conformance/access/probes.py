"""Valid requests of every API for brokers with access rules. Each can be sent again and again under every rule set.

A probe names resources with a rule and resources without one (rules.py), some that exist and some that do not. What it
asks for changes nothing that another probe would notice, or is put right again before the next one (`restores`): an
allowed request is often answered with another error, as long as that error is only told to who may ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.access.building import Id
from tests.conformance.access.probe import TOPICS, Probe
from tests.conformance.access.rules import (
    FLOWING,
    GHOST,
    HIDDEN,
    MODERN,
    MODERN_SHUT,
    OPEN,
    OWNER,
    SHUT,
    SPARED,
    STEADY,
    VICTIM,
)
from tests.conformance.access.share_probes import share_groups

from ottla.records import BatchBuilder

STRANGER = 1_000_000  # a producer id that nobody has
UNKNOWN_REPLICA = 77
BROKER = "1"
TOPIC_TYPE, BROKER_TYPE, LOGGER_TYPE, METRICS_TYPE, GROUP_TYPE = 2, 4, 8, 16, 32


def _named(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more} for name in names]


def _batch(**identity: Any) -> bytes:
    builder = BatchBuilder(**identity)
    builder.append(1_700_000_000_000, b"key", b"value")
    return bytes(builder.close())


def records() -> Iterator[Probe]:
    def produced(name: str, transactional_id: str | None, **identity: Any) -> Probe:
        data = [{"index": 0, "records": _batch(**identity)}]
        topics = [{"name": each, "topic_id": Id(each), "partition_data": data} for each in TOPICS]
        return Probe(
            "Produce",
            name,
            {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 30_000, "topic_data": topics},
        )

    stranger = {"producer_id": STRANGER, "producer_epoch": 0, "base_sequence": 0}
    yield produced("plain", None)
    yield produced("plain records with a transactional id", SHUT)
    yield produced("idempotent", None, producer_id=STRANGER + 1, producer_epoch=0, base_sequence=0)
    yield produced("transactional", OPEN, transactional=True, **stranger)
    yield produced("transactional without an id", None, transactional=True, **stranger)

    def fetched(name: str, **more: Any) -> Probe:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
        topics = [{"topic": each, "topic_id": Id(each), "partitions": [partition]} for each in TOPICS]
        return Probe("Fetch", name, {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "topics": topics, **more})

    yield fetched("consumer")
    yield fetched("consumer that opens a session", session_id=0, session_epoch=0)
    yield fetched("follower", replica_id=UNKNOWN_REPLICA, replica_state={"replica_id": UNKNOWN_REPLICA})
    asked = [{"name": each, "partitions": [{"partition_index": 0, "timestamp": -1}]} for each in TOPICS]
    yield Probe("ListOffsets", "consumer", {"replica_id": -1, "topics": asked})
    yield Probe("ListOffsets", "follower", {"replica_id": UNKNOWN_REPLICA, "topics": asked})
    epochs = [{"topic": each, "partitions": [{"partition": 0, "leader_epoch": 0}]} for each in TOPICS]
    yield Probe("OffsetForLeaderEpoch", "consumer", {"replica_id": -1, "topics": epochs})
    yield Probe("OffsetForLeaderEpoch", "follower", {"replica_id": UNKNOWN_REPLICA, "topics": epochs})
    deleted = [{"name": each, "partitions": [{"partition_index": 0, "offset": 0}]} for each in TOPICS]
    yield Probe("DeleteRecords", "names", {"topics": deleted, "timeout_ms": 30_000})
    yield Probe("DescribeProducers", "names", {"topics": _named(*TOPICS, partition_indexes=[0])})


def topics() -> Iterator[Probe]:
    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    named = {"topics": _named(*TOPICS), **operations}
    yield Probe("Metadata", "all", {"topics": None, **operations}, since=1)
    yield Probe("Metadata", "all by an empty list", {"topics": []}, until=0)
    yield Probe("Metadata", "names", {**named, "allow_auto_topic_creation": False}, since=4)
    yield Probe("Metadata", "names that may be made", {**named, "allow_auto_topic_creation": True})
    by_id = [{"name": None, "topic_id": Id(each)} for each in TOPICS]
    yield Probe("Metadata", "ids", {"topics": by_id, **operations, "allow_auto_topic_creation": False}, since=12)
    yield Probe("DescribeTopicPartitions", "all", {"topics": []})
    yield Probe("DescribeTopicPartitions", "names", {"topics": _named(*TOPICS)})
    made = [{"name": each, "num_partitions": 1, "replication_factor": 1} for each in TOPICS]
    yield Probe("CreateTopics", "names", {"topics": made, "timeout_ms": 30_000, "validate_only": True})
    internal = [{"name": "__cluster_metadata", "num_partitions": 1, "replication_factor": 1}, made[2]]
    yield Probe("CreateTopics", "the log of the cluster", {"topics": internal, "validate_only": True})
    doomed = (VICTIM, SPARED, GHOST, HIDDEN)
    yield Probe("DeleteTopics", "names", {"topic_names": doomed, "timeout_ms": 30_000}, until=5, restores=True)
    by_name = [{"name": each, "topic_id": bytes(16)} for each in doomed]
    yield Probe("DeleteTopics", "names", {"topics": by_name, "timeout_ms": 30_000}, since=6, restores=True)
    by_id = [{"name": None, "topic_id": Id(each)} for each in doomed]
    yield Probe("DeleteTopics", "ids", {"topics": by_id, "timeout_ms": 30_000}, since=6, restores=True)
    grown = _named(*TOPICS, count=1, assignments=None)
    yield Probe("CreatePartitions", "names", {"topics": grown, "timeout_ms": 30_000, "validate_only": True})
    elected = [{"topic": each, "partitions": [0]} for each in TOPICS]
    yield Probe("ElectLeaders", "names", {"topic_partitions": elected, "timeout_ms": 30_000})
    yield Probe("ElectLeaders", "all", {"topic_partitions": None, "timeout_ms": 30_000})
    moved = _named(*TOPICS, partitions=[{"partition_index": 0, "replicas": None}])
    yield Probe("AlterPartitionReassignments", "cancel", {"timeout_ms": 30_000, "topics": moved})
    yield Probe("ListPartitionReassignments", "all", {"timeout_ms": 30_000, "topics": None})
    placed = [{"path": "/nowhere", "topics": _named(*TOPICS, partitions=[0])}]
    yield Probe("AlterReplicaLogDirs", "names", {"dirs": placed})
    yield Probe("DescribeLogDirs", "names", {"topics": [{"topic": each, "partitions": [0]} for each in TOPICS]})


def groups() -> Iterator[Probe]:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    committed = [{"name": each, "topic_id": Id(each), "partitions": [partition]} for each in TOPICS]
    values = {"generation_id_or_member_epoch": -1, "member_id": "", "topics": committed}
    yield Probe("OffsetCommit", "names", {"group_id": OPEN, **values})
    asked = [{"name": each, "topic_id": Id(each), "partition_indexes": [0]} for each in TOPICS]
    plain = _named(*TOPICS, partition_indexes=[0])
    yield Probe("OffsetFetch", "names", {"group_id": OPEN, "topics": plain}, until=7)
    yield Probe("OffsetFetch", "all", {"group_id": OPEN, "topics": None}, since=2, until=7)
    both = [{"group_id": each, "topics": asked} for each in (OPEN, SHUT)]
    yield Probe("OffsetFetch", "names", {"groups": both}, since=8)
    yield Probe(
        "OffsetFetch", "all", {"groups": [{"group_id": each, "topics": None} for each in (OPEN, SHUT)]}, since=8
    )
    for kind, number in (("group", 0), ("transactional id", 1)):
        for key in (OPEN, SHUT):
            yield Probe("FindCoordinator", f"{kind} {key}", {"key": key, "key_type": number}, until=3, since=number)
        yield Probe("FindCoordinator", kind, {"coordinator_keys": [OPEN, SHUT], "key_type": number}, since=4)
    yield Probe("FindCoordinator", "state of no share partition", {"coordinator_keys": [GHOST], "key_type": 2}, since=6)
    member = {"group_id": OPEN, "member_id": "nobody", "generation_id": 1}
    protocols = [{"name": "range", "metadata": b""}]
    short = {"session_timeout_ms": 1, "rebalance_timeout_ms": 1, "protocol_type": "consumer", "protocols": protocols}
    yield Probe("JoinGroup", "too short a session", {"group_id": OPEN, "member_id": "", **short})
    yield Probe("Heartbeat", "nobody", member)
    yield Probe("LeaveGroup", "nobody", {"group_id": OPEN, "member_id": "nobody"}, until=2)
    yield Probe("LeaveGroup", "nobody", {"group_id": OPEN, "members": [{"member_id": "nobody"}]}, since=3)
    synced = {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}
    yield Probe("SyncGroup", "nobody", {**member, **synced})
    named = {"groups": (OPEN, SHUT, GHOST, HIDDEN), "include_authorized_operations": True}
    yield Probe("DescribeGroups", "names", named)
    yield Probe("ListGroups", "all", {})
    yield Probe("DeleteGroups", "names that nobody has", {"groups_names": (GHOST, HIDDEN)})
    uncommitted = _named(*TOPICS, partitions=[{"partition_index": 3}])
    yield Probe("OffsetDelete", "names", {"group_id": OPEN, "topics": uncommitted})
    beat = {"group_id": GHOST, "member_id": "nobody", "member_epoch": 5}
    yield Probe("ConsumerGroupHeartbeat", "nobody", beat)
    yield Probe("ConsumerGroupHeartbeat", "with topics", {**beat, "subscribed_topic_names": (OPEN, GHOST)})
    modern = {"group_ids": (MODERN, MODERN_SHUT, GHOST, HIDDEN), "include_authorized_operations": True}
    yield Probe("ConsumerGroupDescribe", "names", modern)
    yield from _streams_groups()
    yield from share_groups()


def streams_join() -> dict[str, Any]:
    """A member of Kafka Streams whose changelog wants more copies than there are brokers: it can be sent for ever."""
    changelog = {"name": GHOST, "partitions": 0, "replication_factor": 9}
    subtopology = {"subtopology_id": "0", "source_topics": [OPEN], "state_changelog_topics": [changelog]}
    return {
        "group_id": FLOWING,
        "member_id": f"member-of-{FLOWING}",
        "endpoint_information_epoch": -1,
        "rebalance_timeout_ms": 600_000,
        "topology": {"epoch": 0, "subtopologies": [subtopology]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "process",
    }


def _streams_groups() -> Iterator[Probe]:
    nobody = {"group_id": GHOST, "member_id": "nobody", "member_epoch": 5}
    yield Probe("StreamsGroupHeartbeat", "nobody", nobody)
    yield Probe("StreamsGroupHeartbeat", "joining", streams_join())
    named = {"group_ids": (FLOWING, MODERN_SHUT, GHOST, HIDDEN), "include_authorized_operations": True}
    yield Probe("StreamsGroupDescribe", "names", named)


def transactions() -> Iterator[Probe]:
    stranger = {"producer_id": STRANGER, "producer_epoch": 0}
    yield Probe("InitProducerId", "transactional", {"transactional_id": OPEN, "transaction_timeout_ms": 60_000})
    yield Probe("InitProducerId", "idempotent", {"transactional_id": None, "transaction_timeout_ms": 60_000})
    added = _named(*TOPICS, partitions=[0])
    old = {f"v3_and_below_{name}": value for name, value in {**stranger, "topics": added}.items()}
    yield Probe("AddPartitionsToTxn", "client", {"v3_and_below_transactional_id": OPEN, **old}, until=3)
    several = [{"transactional_id": each, **stranger, "topics": added} for each in (OPEN, SHUT)]
    yield Probe("AddPartitionsToTxn", "brokers", {"transactions": several}, since=4)
    verified = [{**each, "verify_only": True} for each in several]
    yield Probe("AddPartitionsToTxn", "brokers verify", {"transactions": verified}, since=4)
    yield Probe("AddOffsetsToTxn", "stranger", {"transactional_id": OPEN, **stranger, "group_id": OPEN})
    yield Probe("EndTxn", "stranger", {"transactional_id": OPEN, **stranger, "committed": True})
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    committed = {"group_id": OPEN, **stranger, "topics": _named(*TOPICS, partitions=[partition])}
    yield Probe("TxnOffsetCommit", "stranger", {"transactional_id": OPEN, **committed})
    marker = {**stranger, "transaction_result": False, "coordinator_epoch": 0}
    absent = _named(GHOST, HIDDEN, partition_indexes=[0])
    yield Probe("WriteTxnMarkers", "for topics that are not there", {"markers": [{**marker, "topics": absent}]})
    yield Probe("DescribeTransactions", "names", {"transactional_ids": (STEADY, SHUT, GHOST, HIDDEN)})
    yield Probe("ListTransactions", "all", {"state_filters": [], "producer_id_filters": []})


def cluster() -> Iterator[Probe]:
    kinds = (
        *((TOPIC_TYPE, each) for each in TOPICS),
        *((BROKER_TYPE, BROKER), (BROKER_TYPE, ""), (LOGGER_TYPE, BROKER), (METRICS_TYPE, OPEN)),
        *((GROUP_TYPE, OPEN), (GROUP_TYPE, SHUT)),
    )
    described = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in kinds]
    for kind, name in kinds[4:]:
        if not name:
            continue  # what all brokers have beside their defaults differs from broker to broker
        asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
        since = 0 if kind < METRICS_TYPE else 1
        yield Probe("DescribeConfigs", f"type {kind} name {name!r}", {"resources": asked}, since=since)
    yield Probe("DescribeConfigs", "topics", {"resources": described[:4]})
    keys = {TOPIC_TYPE: ("retention.ms", "1000"), BROKER_TYPE: ("log.cleaner.threads", "1"),
            LOGGER_TYPE: ("kafka", "INFO"), METRICS_TYPE: ("interval.ms", "1000"),
            GROUP_TYPE: ("consumer.session.timeout.ms", "45000")}  # fmt: skip
    for kind, name in ((TOPIC_TYPE, OPEN), (TOPIC_TYPE, SHUT), (TOPIC_TYPE, GHOST), (TOPIC_TYPE, HIDDEN), *kinds[4:]):
        key, value = keys[kind]
        resource = {"resource_type": kind, "resource_name": name}
        whole = [{**resource, "configs": [{"name": key, "value": value}]}]
        single = [{**resource, "configs": [{"name": key, "value": value, "config_operation": 0}]}]
        if name:  # Kafka takes no such list of settings for all brokers, for another reason than access
            yield Probe("AlterConfigs", f"type {kind} name {name!r}", {"resources": whole, "validate_only": True})
        yield Probe(
            "IncrementalAlterConfigs", f"type {kind} name {name!r}", {"resources": single, "validate_only": True}
        )
    yield Probe("ListConfigResources", "all", {})
    yield Probe("ListConfigResources", "topics", {"resource_types": [TOPIC_TYPE]}, since=1)
    yield Probe("DescribeCluster", "with operations", {"include_cluster_authorized_operations": True})
    yield Probe("DescribeClientQuotas", "all", {"components": [], "strict": False})
    limit = {"entity": [{"entity_type": "client-id", "entity_name": "slow"}]}
    ops = [{"key": "producer_byte_rate", "value": 1e6, "remove": False}]
    yield Probe("AlterClientQuotas", "validate", {"entries": [{**limit, "ops": ops}], "validate_only": True})
    yield Probe("DescribeUserScramCredentials", "all", {"users": []})
    yield Probe("DescribeUserScramCredentials", "nobody", {"users": _named("nobody")})
    yield Probe("AlterUserScramCredentials", "nobody", {"deletions": _named("nobody", mechanism=1), "upsertions": []})
    feature = {"feature": "no.such.feature", "max_version_level": 1}
    yield Probe("UpdateFeatures", "unknown", {"timeout_ms": 30_000, "feature_updates": [feature]})
    yield Probe("UnregisterBroker", "unknown", {"broker_id": 77})
    metadata = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    yield Probe("DescribeQuorum", "metadata", {"topics": [metadata]})
    yield Probe("ApiVersions", "anybody", {"client_software_name": "probe", "client_software_version": "1"})


def access() -> Iterator[Probe]:
    nobody = {"principal_filter": "User:nobody", "host_filter": None, "operation": 1, "permission_type": 1}
    filtered = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, **nobody}
    yield Probe("DescribeAcls", "of nobody", filtered)
    rule = {"resource_type": 2, "resource_name": "elsewhere", "principal": "User:somebody", "host": "*"}
    wrong = {**rule, "resource_name": "", "operation": 3, "permission_type": 3}
    yield Probe("CreateAcls", "no name", {"creations": [wrong]})
    yield Probe("DeleteAcls", "of nobody", {"filters": [filtered]})
    yield Probe("DescribeDelegationToken", "all", {"owners": None})
    owner = {"principal_type": "User", "principal_name": OWNER}
    yield Probe("DescribeDelegationToken", "owner's", {"owners": [owner]})
    yield Probe("RenewDelegationToken", "unknown", {"hmac": b"nothing", "renew_period_ms": 1000})
    yield Probe("ExpireDelegationToken", "unknown", {"hmac": b"nothing", "expiry_time_period_ms": 1000})
    impossible = {"renewers": [{"principal_type": "Group", "principal_name": "all"}], "max_lifetime_ms": 86_400_000}
    yield Probe("CreateDelegationToken", "own", impossible)
    other = {"owner_principal_type": "User", "owner_principal_name": OWNER}
    yield Probe("CreateDelegationToken", "another's", {**other, **impossible}, since=3)


def all_probes() -> list[Probe]:
    return [*records(), *topics(), *groups(), *transactions(), *cluster(), *access()]
