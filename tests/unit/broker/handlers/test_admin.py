"""What admin tools ask: settings, directories, elections, moves, features, quotas, credentials, rights."""

import logging

import pytest

from ottla.errors import (
    DuplicateResource,
    ElectionNotNeeded,
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopicException,
    InvalidUpdateVersion,
    KafkaStorageError,
    LogDirNotFound,
    NoReassignmentInProgress,
    ResourceNotFound,
    SecurityDisabled,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.protocol.messages import alter_client_quotas, alter_configs, describe_client_quotas
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


# -- settings


def described(broker, kind, name, *keys, version=4):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    answer = broker.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), version).results[0]
    return answer.error_code, {one.name: one.value for one in answer.configs}


def set_config(broker, kind, name, key, value, *, validate_only=False, operation=0):
    change = AlterableConfig(name=key, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return broker.ask(request).responses[0].error_code


@pytest.mark.parametrize("version", range(1, 5))
def test_settings_of_a_topic_are_told_at_every_version(broker, version):
    broker.create_topic("orders", retention_ms="1000")
    code, values = described(broker, TOPIC, "orders", "retention.ms", "cleanup.policy", version=version)
    assert (code, values) == (0, {"retention.ms": "1000", "cleanup.policy": "delete"})


def test_a_topic_setting_takes_effect_at_once(broker):
    broker.create_topic("orders")
    assert set_config(broker, TOPIC, "orders", "max.message.bytes", "77") == 0
    assert broker.partition("orders").log.settings.max_message_bytes == 77
    assert set_config(broker, TOPIC, "orders", "max.message.bytes", None, operation=1) == 0
    assert broker.partition("orders").log.settings.max_message_bytes == 1_048_588


def test_a_setting_that_is_only_checked_changes_nothing(broker):
    broker.create_topic("orders")
    assert set_config(broker, TOPIC, "orders", "retention.ms", "5", validate_only=True) == 0
    assert described(broker, TOPIC, "orders", "retention.ms")[1] == {"retention.ms": "604800000"}


def test_settings_that_cannot_be_are_refused(broker):
    broker.create_topic("orders")
    assert set_config(broker, TOPIC, "orders", "retention.ms", "soon") == InvalidConfig.code
    assert set_config(broker, TOPIC, "missing", "retention.ms", "1") == UnknownTopicOrPartition.code
    assert set_config(broker, BROKER, "99", "log.retention.ms", "1") == InvalidRequest.code
    assert described(broker, TOPIC, "missing")[0] == UnknownTopicOrPartition.code


def test_a_default_of_all_brokers_reaches_the_topics(broker):
    broker.create_topic("orders")
    assert set_config(broker, BROKER, "", "log.retention.ms", "1234") == 0
    assert described(broker, TOPIC, "orders", "retention.ms")[1] == {"retention.ms": "1234"}
    assert broker.partition("orders").log.settings.retention_ms == 1234


def test_a_broker_that_chose_its_id_tells_it_under_both_names(broker):
    assert described(broker, BROKER, str(broker.broker.id), "node.id", "broker.id") == (
        0,
        {"node.id": str(broker.broker.id), "broker.id": str(broker.broker.id)},
    )


def test_what_is_set_for_one_listener_is_told_with_what_it_hides(make_broker):
    broker = make_broker(**{"listener.name.plaintext.ssl.key.password": "hunter2"})
    me, key = str(broker.broker.id), "listener.name.plaintext.max.connections"
    assert set_config(broker, BROKER, me, key, "3") == 0
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=me, configuration_keys=None)
    answer = broker.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True)).results[0]
    told = {each.name: each for each in answer.configs}
    assert (told[key].value, told[key].config_source, told[key].read_only) == ("3", 2, False)
    assert [each.name for each in told[key].synonyms] == [key, "max.connections"]
    secret = told["listener.name.plaintext.ssl.key.password"]
    assert (secret.value, secret.is_sensitive, secret.config_source) == (None, True, 4)
    assert "hunter2" not in repr(answer)


def test_a_broker_on_its_own_tells_one_default_for_internal_topics(broker):
    name = "offsets.topic.replication.factor"
    keys = [
        DescribeConfigsResource(resource_type=BROKER, resource_name=str(broker.broker.id), configuration_keys=[name])
    ]
    answer = broker.ask(DescribeConfigsRequest(resources=keys, include_synonyms=True))
    (entry,) = answer.results[0].configs
    assert (entry.value, [(each.value, each.source) for each in entry.synonyms]) == ("1", [("1", 5)])


def test_a_group_has_settings_of_its_own(broker):
    session = "consumer.session.timeout.ms"
    assert set_config(broker, GROUP, "g", session, "50000") == 0
    assert set_config(broker, GROUP, "g", session, "1") == InvalidConfig.code
    assert set_config(broker, GROUP, "g", "nonsense", "1") == InvalidConfig.code
    assert set_config(broker, GROUP, "", session, "50000") == InvalidRequest.code
    assert described(broker, GROUP, "g", session) == (0, {session: "50000"})
    assert described(broker, GROUP, "h", session) == (0, {session: "45000"})
    listed = broker.ask(ListConfigResourcesRequest(resource_types=[GROUP])).config_resources
    assert [each.resource_name for each in listed] == ["g"]


def test_settings_of_a_group_reach_its_members_with_their_next_heartbeat(broker):
    broker.create_topic("orders")
    broker.ask(FindCoordinatorRequest(coordinator_keys=["g"], key_type=0))
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    assert broker.ask(beat).heartbeat_interval_ms == 5000
    assert set_config(broker, GROUP, "g", "consumer.heartbeat.interval.ms", "9000") == 0
    assert broker.ask(beat).heartbeat_interval_ms == 9000


def test_alter_configs_replaces_all(broker):
    broker.create_topic("orders", retention_ms="1000")
    config = alter_configs.AlterableConfig(name="segment.bytes", value="2000000")
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=[config])
    request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=False)
    assert broker.ask(request).responses[0].error_code == 0
    _, values = described(broker, TOPIC, "orders", "retention.ms", "segment.bytes")
    assert values == {"retention.ms": "604800000", "segment.bytes": "2000000"}


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"])
def test_a_log_level_is_set_and_told_while_running(broker, level):
    name = "ottla.broker.broker"
    before = logging.getLogger(name).level
    try:
        assert set_config(broker, LOGGER, "1", name, level) == 0
        assert described(broker, LOGGER, "1", name)[1] == {name: level}
        assert logging.getLogger(name).isEnabledFor(logging.CRITICAL) is (level != "OFF")
        assert set_config(broker, LOGGER, "1", name, None, operation=1) == 0
        assert logging.getLogger(name).level == logging.NOTSET
    finally:
        logging.getLogger(name).setLevel(before)


def test_a_log_that_is_not_there_has_no_level(broker):
    assert set_config(broker, LOGGER, "1", "somebody.else", "INFO") == InvalidConfig.code
    assert set_config(broker, LOGGER, "1", "ottla.broker.broker", "LOUD") == InvalidConfig.code


def listed(broker, *types, version=1):
    answer = broker.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
    return answer.error_code, [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_resources_with_settings_are_listed(broker):
    broker.create_topic("orders")
    assert set_config(broker, METRICS, "watch", "interval.ms", "300000") == 0
    assert listed(broker, TOPIC) == (0, [(TOPIC, "orders")])
    assert listed(broker)[1] == [(TOPIC, "orders"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "watch")]
    assert listed(broker, version=0) == (0, [(METRICS, "watch")])
    assert listed(broker, 3) == (UnsupportedVersion.code, [])


# -- the cluster


@pytest.mark.parametrize("version", range(5))
def test_api_versions_are_told_before_anything_else(broker, version):
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    answer = broker.ask(request, version)
    told = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert (answer.error_code, told[0][0], told[75]) == (0, 0, (0, 0))
    assert set(told) == set(broker.broker.served_apis)


def test_a_client_without_a_proper_name_is_refused(broker):
    request = ApiVersionsRequest(client_software_name="-", client_software_version="1.0")
    assert broker.ask(request).error_code == InvalidRequest.code


def test_the_cluster_is_described(broker):
    answer = broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert (answer.error_code, answer.controller_id, len(answer.brokers)) == (0, 1, 1)
    assert answer.cluster_id == "5L6g3nShT-eMCtK--X86sw"
    assert answer.cluster_authorized_operations > 0
    controllers = broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2))
    assert controllers.error_code != 0


# -- directories


def log_dirs(broker, topics=None, version=5):
    return broker.ask(DescribeLogDirsRequest(topics=topics), version).results


@pytest.mark.parametrize("version", range(1, 6))
def test_directories_tell_what_lies_in_them(make_broker, batch, version):
    broker = make_broker(directories=2)
    broker.create_topic("orders", 2)
    broker.produce("orders", batch("a"))
    results = log_dirs(broker, version=version)
    assert [one.log_dir for one in results] == ["/data/0", "/data/1"]
    told = {
        (topic.name, one.partition_index): one for each in results for topic in each.topics for one in topic.partitions
    }
    assert set(told) == {("orders", 0), ("orders", 1)}
    assert told["orders", 0].partition_size == broker.partition("orders").log.size_bytes > 0
    assert (told["orders", 0].offset_lag, told["orders", 0].is_future_key) == (0, False)
    assert all(len(each.topics) == 1 for each in results)


def test_only_the_partitions_asked_for_are_told(broker):
    broker.create_topic("orders", 2)
    wanted = [DescribableLogDirTopic(topic="orders", partitions=[1, 9])]
    assert [[one.partition_index for one in topic.partitions] for topic in log_dirs(broker, wanted)[0].topics] == [[1]]
    assert log_dirs(broker, [])[0].topics == []


def test_a_failed_directory_says_so(make_broker):
    broker = make_broker(directories=2)
    broker.logs.take_offline(broker.logs.directories[1].path, KafkaStorageError("broken"))
    assert [one.error_code for one in log_dirs(broker)] == [0, KafkaStorageError.code]


def test_replicas_do_not_move_where_they_cannot_and_that_is_said(make_broker):
    broker = make_broker(directories=2)
    broker.create_topic("orders")
    home = str(broker.partition("orders").log.directory.parent)

    def move(path, topic="orders", index=0):
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
        return broker.ask(request).results[0].partitions[0].error_code

    assert move(home) == 0
    assert move("/elsewhere") == LogDirNotFound.code
    assert move(home, index=7) == UnknownTopicOrPartition.code
    assert move(home, "t" * 249) == InvalidTopicException.code
    broker.logs.take_offline(broker.logs.directories[0].path, KafkaStorageError("broken"))
    assert move("/data/0") == KafkaStorageError.code


# -- leaders and moves


def elect(broker, topics, kind=0, version=2):
    return broker.ask(ElectLeadersRequest(election_type=kind, topic_partitions=topics), version)


@pytest.mark.parametrize("version", range(3))
def test_an_election_that_is_not_needed_is_said_where_asked(broker, version):
    broker.create_topic("orders")
    wanted = [TopicPartitions(topic="orders", partitions=[0, 5])]
    results = elect(broker, wanted, version=version).replica_election_results[0].partition_result
    assert [one.error_code for one in results] == [ElectionNotNeeded.code, UnknownTopicOrPartition.code]
    everything = elect(broker, None, version=version)
    assert (everything.error_code, everything.replica_election_results[0].partition_result) == (0, [])


def test_an_unknown_election_is_refused(broker):
    wanted = [TopicPartitions(topic="orders", partitions=[0])]
    answer = elect(broker, wanted, kind=9)
    assert answer.error_code == InvalidRequest.code
    assert answer.replica_election_results[0].partition_result[0].error_code == InvalidRequest.code


def reassign(broker, replicas, version=1):
    topics = [
        ReassignableTopic(name="orders", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
    ]
    answer = broker.ask(AlterPartitionReassignmentsRequest(topics=topics), version)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0].error_code


def test_moves_on_one_broker_have_one_target(broker):
    broker.create_topic("orders")
    assert reassign(broker, [1]) == 0
    assert reassign(broker, [1], version=0) == 0
    assert reassign(broker, [7]) == InvalidReplicaAssignment.code
    assert reassign(broker, None) == NoReassignmentInProgress.code
    answer = broker.ask(ListPartitionReassignmentsRequest(topics=None))
    assert (answer.error_code, answer.topics) == (0, [])


# -- features


@pytest.mark.parametrize("version", range(3))
def test_a_feature_is_lowered_when_that_is_meant(broker, version):
    meant = {"allow_downgrade": True} if version == 0 else {"upgrade_type": 2}
    update = FeatureUpdateKey(feature="group.version", max_version_level=0, **meant)
    answer = broker.ask(UpdateFeaturesRequest(feature_updates=[update]), version)
    assert (answer.error_code, len(answer.results)) == (0, 0 if version == 2 else 1)
    assert broker.image.feature("group.version") == 0


def test_a_feature_that_cannot_be_is_refused_with_all_others(broker):
    updates = [
        FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2),
        FeatureUpdateKey(feature="transaction.version", max_version_level=9),
    ]
    answer = broker.ask(UpdateFeaturesRequest(feature_updates=updates))
    assert answer.error_code == InvalidUpdateVersion.code
    assert "transaction.version" in answer.error_message
    assert broker.image.feature("group.version") == 1


# -- quotas


def set_quota(broker, value, *, remove=False, begin=False, **entity):
    parts = [alter_client_quotas.EntityData(entity_type=k.replace("_", "-"), entity_name=v) for k, v in entity.items()]
    key = "connection_creation_rate" if "ip" in entity else "producer_byte_rate"
    op = alter_client_quotas.OpData(key=key, value=value, remove=remove)
    entry = alter_client_quotas.EntryData(entity=parts, ops=[op])
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    if begin:
        return broker.begin(request)
    return broker.ask(request).entries[0].error_code


def quotas(broker, version=1, **match):
    components = [
        describe_client_quotas.ComponentData(
            entity_type=kind.replace("_", "-"), match_type=0 if name else 1, match=name or None
        )
        for kind, name in match.items()
    ]
    answer = broker.ask(DescribeClientQuotasRequest(components=components, strict=False), version)
    if answer.entries is None:
        return answer.error_code
    return [
        ({p.entity_type: p.entity_name for p in e.entity}, {v.key: v.value for v in e.values}) for e in answer.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_kept_told_and_removed(broker, version):
    assert set_quota(broker, 1000.0, user="alice") == 0
    assert set_quota(broker, 500.0, user=None) == 0
    assert quotas(broker, version, user="alice") == [({"user": "alice"}, {"producer_byte_rate": 1000.0})]
    assert quotas(broker, version, user="") == [({"user": None}, {"producer_byte_rate": 500.0})]
    assert set_quota(broker, 0.0, remove=True, user="alice") == 0
    assert quotas(broker, version, user="alice") == []


def test_quotas_that_cannot_be_are_refused(broker):
    assert set_quota(broker, -1.0, user="alice") == InvalidRequest.code
    assert set_quota(broker, 1.0, planet="mars") == InvalidRequest.code
    assert quotas(broker, planet="mars") == UnsupportedVersion.code


def test_a_host_name_is_looked_up_before_its_quota_is_set(broker):
    asked: list[set[str]] = []
    found = broker.loop.create_future()

    async def look_up(names, clock):
        asked.append(set(names))
        return await found

    async def find_nothing(names, clock):
        return frozenset()

    broker.broker.look_up_hosts = look_up
    assert set_quota(broker, 5.0, ip="10.0.0.1") == 0
    assert asked == []
    waiting = set_quota(broker, 5.0, begin=True, ip="there.example")
    assert (asked, waiting.is_answered) == ([{"there.example"}], False)
    broker.do(lambda: found.set_result(frozenset({"there.example"})))
    assert waiting.answer.entries[0].error_code == 0
    broker.broker.look_up_hosts = find_nothing
    assert set_quota(broker, 5.0, ip="nowhere.example") == InvalidRequest.code


# -- credentials


def test_credentials_are_kept_and_told_without_secrets(broker):
    upsertion = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"password"
    )
    assert broker.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])).results[0].error_code == 0
    users = [UserName(name=name) for name in ("alice", "bob", "carol", "carol")]
    answer = broker.ask(DescribeUserScramCredentialsRequest(users=users))
    assert {one.user: one.error_code for one in answer.results} == {
        "alice": 0,
        "bob": ResourceNotFound.code,
        "carol": DuplicateResource.code,
    }
    assert [(one.mechanism, one.iterations) for one in answer.results[0].credential_infos] == [(1, 4096)]
    everybody = broker.ask(DescribeUserScramCredentialsRequest(users=None)).results
    assert [one.user for one in everybody] == ["alice"]
    gone = ScramCredentialDeletion(name="alice", mechanism=1)
    request = AlterUserScramCredentialsRequest(deletions=[gone], upsertions=[])
    assert [broker.ask(request).results[0].error_code for _ in range(2)] == [0, ResourceNotFound.code]


# -- rights


@pytest.mark.parametrize("version", range(1, 4))
def test_rights_are_switched_off(broker, version):
    rule = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
    wish = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
    described = DescribeAclsRequest(resource_type_filter=1, resource_name_filter=None, **wish)
    created = CreateAclsRequest(creations=[AclCreation(resource_type=2, resource_name="t", **rule)] * 2)
    deleted = DeleteAclsRequest(filters=[DeleteAclsFilter(resource_type_filter=1, resource_name_filter=None, **wish)])
    assert broker.ask(described, version).error_code == SecurityDisabled.code
    assert [one.error_code for one in broker.ask(created, version).results] == [SecurityDisabled.code] * 2
    assert [one.error_code for one in broker.ask(deleted, version).filter_results] == [SecurityDisabled.code]
