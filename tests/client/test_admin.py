"""The admin client against a real broker: every call that one broker can answer."""

import asyncio

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from tests.patience import HANG_S, wait_until

from ottla.client.admin.access import AclBinding, AclOperation, ResourceType
from ottla.client.admin.admin import Admin
from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.cluster import FeatureUpdate, UpgradeType
from ottla.client.admin.configs import (
    AlterConfig,
    AlterOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from ottla.client.admin.credentials import ScramDeletion, ScramMechanism, ScramUpsertion
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.plans import PartlyFailed
from ottla.client.admin.quotas import MatchType, QuotaFilter
from ottla.client.admin.topics import NewTopic
from ottla.errors import (
    ElectionNotNeeded,
    GroupIdNotFound,
    InvalidPartitions,
    InvalidReplicationFactor,
    NonEmptyGroup,
    SecurityDisabled,
    TopicAlreadyExists,
    TransactionalIdNotFound,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.values import OffsetAndMetadata, TopicPartition


@pytest.fixture
def admin(kafka_broker):
    with Admin(bootstrap_servers=kafka_broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def clicks(admin, unique_topic):
    admin.create_topics([NewTopic(unique_topic, num_partitions=3)])
    return unique_topic


def produce(broker, topic, count, partition=0):
    producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=1_000 + number)
    assert producer.flush(HANG_S) == 0


# --- topics ----------------------------------------------------------------------------------------------------------


def test_a_topic_is_made_and_described(admin, unique_topic):
    made = admin.create_topics([NewTopic(unique_topic, num_partitions=3, configs={"retention.ms": "1234"})])
    assert (made[unique_topic].num_partitions, made[unique_topic].replication_factor) == (3, 1)
    assert made[unique_topic].configs["retention.ms"] == "1234"
    described = admin.describe_topics([unique_topic])[unique_topic]
    assert described.topic_id == made[unique_topic].topic_id
    assert [each.partition for each in described.partitions] == [0, 1, 2]
    assert all(each.leader == 0 and each.in_sync == (0,) for each in described.partitions)
    assert admin.describe_topics_by_id([described.topic_id])[described.topic_id].name == unique_topic
    assert unique_topic in admin.list_topics()


def test_validate_only_makes_nothing(admin, unique_topic):
    assert admin.create_topics([unique_topic], validate_only=True)[unique_topic].num_partitions == 1
    assert unique_topic not in admin.list_topics()


def test_one_failure_is_raised_as_it_is(admin, clicks):
    with pytest.raises(TopicAlreadyExists):
        admin.create_topics([clicks])
    with pytest.raises(InvalidReplicationFactor):
        admin.create_topics([NewTopic("other", replication_factor=3)])


def test_of_several_the_failed_and_the_others_are_told(admin, clicks, unique_topic):
    with pytest.raises(PartlyFailed, match="1 of 2 failed") as raised:
        admin.create_topics([clicks, f"{unique_topic}-two"])
    assert isinstance(raised.value.failed[clicks], TopicAlreadyExists)
    assert raised.value.succeeded[f"{unique_topic}-two"].num_partitions == 1


def test_unknown_topics_are_said_to_be_unknown_at_once(admin):
    with pytest.raises(UnknownTopicOrPartition):
        admin.describe_topics(["nothing"], timeout=HANG_S)
    with pytest.raises(UnknownTopicId):
        admin.delete_topics_by_id([b"0123456789abcdef"], timeout=HANG_S)
    with pytest.raises(UnknownTopicOrPartition):
        admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "nothing")], timeout=HANG_S)
    with pytest.raises(UnknownTopicOrPartition):
        admin.delete_topics(["nothing"], timeout=HANG_S)


def test_topics_are_deleted_by_name_and_by_id(admin, clicks, unique_topic):
    other = f"{unique_topic}-two"
    topic_id = admin.create_topics([other])[other].topic_id
    admin.delete_topics([clicks])
    admin.delete_topics_by_id([topic_id])
    assert not {clicks, other} & set(admin.list_topics())


def test_partitions_are_added_and_never_taken_away(admin, clicks):
    admin.create_partitions({clicks: 5})
    assert len(admin.describe_topics([clicks])[clicks].partitions) == 5
    with pytest.raises(InvalidPartitions):
        admin.create_partitions({clicks: 2})


def test_offsets_are_found_by_place_and_time_and_records_cut_off(admin, clicks, kafka_broker):
    produce(kafka_broker, clicks, 10)
    first = TopicPartition(clicks, 0)
    assert admin.list_offsets({first: OffsetSpec.LATEST})[first].offset == 10
    assert admin.list_offsets({first: 1_004})[first][:2] == (4, 1_004)
    assert admin.list_offsets({first: 5_000})[first].offset == -1
    assert admin.list_offsets({first: OffsetSpec.MAX_TIMESTAMP})[first][:2] == (9, 1_009)
    assert admin.delete_records({first: 4}) == {first: 4}
    assert admin.list_offsets({first: OffsetSpec.EARLIEST})[first].offset == 4


def test_a_single_name_instead_of_a_list_is_refused(admin):
    with pytest.raises(TypeError, match="a list of names"):
        admin.delete_topics("clicks")


def test_more_partitions_than_a_page_has_are_put_together(admin, unique_topic, monkeypatch):
    monkeypatch.setattr("ottla.client.admin.topics.PAGE_PARTITIONS", 2)
    names = [f"{unique_topic}-{number}" for number in range(3)]
    admin.create_topics([NewTopic(name, num_partitions=3) for name in names])
    described = admin.describe_topics(names)
    assert {name: len(each.partitions) for name, each in described.items()} == dict.fromkeys(names, 3)


# --- settings --------------------------------------------------------------------------------------------------------


def test_settings_are_changed_and_shown_with_their_source(admin, clicks):
    topic = ConfigResource(ConfigResourceType.TOPIC, clicks)
    admin.incremental_alter_configs({topic: [AlterConfig("retention.ms", "777")]})
    entry = admin.describe_configs([topic], include_synonyms=True)[topic]["retention.ms"]
    assert (entry.value, entry.source) == ("777", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert entry.synonyms[0].value == "777"
    admin.incremental_alter_configs({topic: [AlterConfig("retention.ms", operation=AlterOperation.DELETE)]})
    (only,) = admin.describe_configs([topic], names=["retention.ms"])[topic].values()
    assert only.is_default
    admin.alter_configs({topic: {"segment.ms": "99000"}})
    assert admin.describe_configs([topic])[topic]["segment.ms"].value == "99000"


def test_settings_of_a_broker_come_from_that_broker(admin):
    broker = ConfigResource(ConfigResourceType.BROKER, "0")
    entries = admin.describe_configs([broker])[broker]
    assert entries["num.partitions"].value == "1"
    assert ConfigResource(ConfigResourceType.BROKER, "0") in admin.list_config_resources([ConfigResourceType.BROKER])


# --- the cluster -----------------------------------------------------------------------------------------------------


def test_the_cluster_is_described(admin, kafka_broker):
    described = admin.describe_cluster()
    assert described.controller == 0
    assert [str(node.address) for node in described.nodes] == [kafka_broker.bootstrap_servers]


def test_features_can_be_looked_at_and_tried(admin):
    features = admin.describe_features()
    assert "transaction.version" in features.finalized
    level = features.finalized["transaction.version"].max
    update = FeatureUpdate(level - 1, UpgradeType.SAFE_DOWNGRADE)
    admin.update_features({"transaction.version": update}, validate_only=True)


def test_log_directories_show_sizes(admin, clicks, kafka_broker):
    produce(kafka_broker, clicks, 10)
    (directory,) = admin.describe_log_dirs()[0].values()
    assert directory.error is None
    assert directory.replicas[TopicPartition(clicks, 0)].size_bytes > 0


def test_elections_and_reassignments_are_answered(admin, clicks):
    first = TopicPartition(clicks, 0)
    assert isinstance(admin.elect_leaders([first])[first], ElectionNotNeeded)
    assert admin.elect_leaders() == {}
    admin.alter_partition_reassignments({first: [0]})
    assert admin.list_partition_reassignments() == {}


def test_who_keeps_the_metadata_is_described(admin):
    quorum = admin.describe_metadata_quorum(timeout=HANG_S)
    assert quorum.leader == 0
    assert [each.node_id for each in quorum.voters] == [0]
    assert quorum.voters[0].log_end_offset >= quorum.high_watermark >= 0


# --- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_listed_described_and_its_offsets_moved(admin, clicks, kafka_broker, unique_group, protocol):
    produce(kafka_broker, clicks, 10)
    first = TopicPartition(clicks, 0)
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": kafka_broker.bootstrap_servers,
            "group.id": unique_group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([clicks])
    assert len(consumer.consume(10, 20)) == 10
    consumer.commit(asynchronous=False)
    (listing,) = [each for each in admin.list_consumer_groups() if each.group_id == unique_group]
    assert (listing.state, listing.type.lower()) == ("Stable", protocol)
    described = admin.describe_consumer_groups([unique_group])[unique_group]
    assert (described.type, described.state) == (protocol, "Stable")
    assert described.coordinator in {node.id for node in admin.describe_cluster().nodes}
    assert described.members[0].assignment == {TopicPartition(clicks, number) for number in range(3)}
    assert admin.list_consumer_group_offsets(unique_group)[first].offset == 10
    with pytest.raises(NonEmptyGroup):
        admin.delete_consumer_groups([unique_group])
    consumer.close()
    admin.alter_consumer_group_offsets(unique_group, {first: 3})
    assert admin.list_consumer_group_offsets(unique_group, [first]) == {first: OffsetAndMetadata(3)}
    admin.delete_consumer_group_offsets(unique_group, [first])
    assert admin.list_consumer_group_offsets(unique_group, [first]) == {first: None}
    admin.delete_consumer_groups([unique_group])
    assert unique_group not in {each.group_id for each in admin.list_groups()}


def test_members_are_removed(admin, clicks, kafka_broker, unique_group):
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": kafka_broker.bootstrap_servers,
            "group.id": unique_group,
            "group.instance.id": "one",
            # It does not notice before the group was described, and come back.
            "max.poll.interval.ms": 1_000_000,
            "session.timeout.ms": 1_000_000,
            "heartbeat.interval.ms": 300_000,
        }
    )
    consumer.subscribe([clicks])

    def is_assigned() -> bool:
        consumer.poll(0.05)
        return bool(consumer.assignment())

    wait_until(is_assigned, "the member has partitions")
    admin.remove_members_from_consumer_group(unique_group, ["one"])
    assert admin.describe_consumer_groups([unique_group])[unique_group].members == ()
    consumer.close()


def test_an_unknown_group_is_said_to_be_unknown(admin):
    with pytest.raises(GroupIdNotFound):
        admin.describe_consumer_groups(["nobody"])


# --- transactions ----------------------------------------------------------------------------------------------------


def test_transactions_are_seen_and_hanging_ones_aborted(admin, clicks, kafka_broker, unique_group):
    producer = ConfluentProducer(
        {"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": unique_group}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(clicks, b"open", partition=0)
    assert producer.flush(HANG_S) == 0
    first = TopicPartition(clicks, 0)
    (listing,) = [each for each in admin.list_transactions() if each.transactional_id == unique_group]
    described = admin.describe_transactions([unique_group])[unique_group]
    assert (listing.state, described.state, described.partitions) == ("Ongoing", "Ongoing", {first})
    (state,) = admin.describe_producers([first])[first]
    assert (state.producer_id, state.transaction_start_offset) == (described.producer_id, 0)
    stable = admin.list_offsets({first: OffsetSpec.LATEST}, isolation_level="read_committed")[first].offset
    assert stable == 0
    fenced = admin.fence_producers([unique_group])[unique_group]
    assert fenced.producer_id >= 0
    for _ in range(100):
        stable = admin.list_offsets({first: OffsetSpec.LATEST}, isolation_level="read_committed")[first].offset
        if stable == 2:
            break
    assert stable == 2
    with pytest.raises(TransactionalIdNotFound):
        admin.describe_transactions(["nobody"])


# --- quotas and credentials ------------------------------------------------------------------------------------------


def test_quotas_are_kept(admin):
    admin.alter_client_quotas([({"user": "alice", "client-id": None}, {"producer_byte_rate": 1024.0})])
    key = (("client-id", None), ("user", "alice"))
    filters = [QuotaFilter("user", MatchType.EXACT, "alice"), QuotaFilter("client-id", MatchType.DEFAULT)]
    assert admin.describe_client_quotas(filters) == {key: {"producer_byte_rate": 1024.0}}
    admin.alter_client_quotas([(dict(key), {"producer_byte_rate": None})])
    assert admin.describe_client_quotas(filters) == {}


def test_scram_credentials_are_kept_and_passwords_not_shown(admin):
    upsertion = ScramUpsertion("bob", "secret", ScramMechanism.SCRAM_SHA_256, iterations=8192)
    assert "secret" not in repr(upsertion)
    admin.alter_user_scram_credentials([upsertion])
    (info,) = admin.describe_user_scram_credentials()["bob"]
    assert info == (ScramMechanism.SCRAM_SHA_256, 8192)
    admin.alter_user_scram_credentials([ScramDeletion("bob", ScramMechanism.SCRAM_SHA_256)])
    assert admin.describe_user_scram_credentials() == {}


def test_access_rules_need_a_broker_that_has_them(admin):
    rule = AclBinding(ResourceType.TOPIC, "clicks", "User:alice", AclOperation.READ)
    with pytest.raises(SecurityDisabled, match=r"^The cluster has no authorizer[^:]*: no authorizer"):
        admin.create_acls([rule], timeout=HANG_S)
    with pytest.raises(SecurityDisabled):
        admin.describe_acls()


# --- the faces -------------------------------------------------------------------------------------------------------


def test_the_asyncio_face_has_the_same_calls(kafka_broker, unique_topic):
    async def story():
        async with AsyncAdmin({"bootstrap.servers": kafka_broker.bootstrap_servers}) as admin:
            await admin.create_topics([unique_topic])
            return await asyncio.gather(*(admin.describe_topics([unique_topic]) for _ in range(10)))

    assert all(unique_topic in found for found in asyncio.run(story()))


def test_both_faces_name_the_same_calls():
    calls = {name for name in dir(AsyncAdmin) if not name.startswith("_")}
    assert calls == {name for name in dir(Admin) if not name.startswith("_")}


def test_a_cluster_that_is_not_there_is_told_within_the_time():
    with Admin(bootstrap_servers="127.0.0.1:1") as admin, pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        admin.list_topics(timeout=0.5)
