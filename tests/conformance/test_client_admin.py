"""Our admin client against Apache Kafka: what an in-process broker cannot answer, and the rest once more.

One broker of each release line with an authorizer, two log directories, logins and delegation tokens.
Needs Java and Kafka's jars (kafka_jars.py): run by `make test-long`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from tests.conformance.kafka_jars import RELEASES, JarsMissing, find_jars
from tests.conformance.secure_broker import MODULE, Doors, secure_broker
from tests.patience import HANG_S

from ottla.client.admin.access import AclBinding, AclFilter, PatternType, ResourceType
from ottla.client.admin.admin import Admin
from ottla.client.admin.cluster import Replica
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.client.admin.credentials import Principal, ScramDeletion, ScramMechanism, ScramUpsertion
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.operations import AclOperation
from ottla.client.admin.plans import PartlyFailed
from ottla.client.admin.quotas import MatchType, QuotaFilter
from ottla.client.admin.share_groups import ShareGroupDescription
from ottla.client.admin.streams_groups import StreamsGroupDescription
from ottla.client.admin.topics import NewTopic
from ottla.client.network import NetworkClient
from ottla.client.settings import ClientSettings
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ElectionNotNeeded,
    GroupIdNotFound,
    NonEmptyGroup,
    NotCoordinator,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages import streams_group_heartbeat as streams
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.schema import Message
from ottla.values import OffsetAndMetadata, TopicPartition, random_uuid, uuid_to_text

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command"),
]

T = TypeVar("T")
RETRIABLE = {CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code}
MORE = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
delegation.token.secret.key=whatever
log.dirs={one},{two}
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
"""


class Place(NamedTuple):
    """A broker, its directories, and an admin client that may do everything."""

    doors: Doors
    directories: list[str]
    admin: Admin

    @property
    def bootstrap(self) -> str:
        return self.doors.broker.bootstrap

    def alice(self, **settings: object) -> Admin:
        login = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "alice", "sasl_password": "pencil", **settings}
        return Admin(**self.doors.settings("LOGIN", **login))


@pytest.fixture(scope="module", params=RELEASES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    try:
        jars = find_jars(request.param)
    except JarsMissing as reason:
        pytest.skip(str(reason))
    scratch = tmp_path_factory.mktemp("kafka")
    directories = [str(scratch / name) for name in ("one", "two")]
    more = MORE.format(one=directories[0], two=directories[1])
    with secure_broker(jars, scratch, more) as doors, Admin(bootstrap_servers=doors.broker.bootstrap) as admin:
        eventually(admin.describe_cluster, lambda cluster: len(cluster.nodes) == 1)
        yield Place(doors, directories, admin)


@pytest.fixture
def topic(place: Place, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name.replace("[", "-").replace("]", "")[:100]
    place.admin.create_topics([NewTopic(name, num_partitions=2)])
    eventually(lambda: place.admin.list_topics(), lambda found: name in found)
    eventually(lambda: place.admin.describe_topics([name]), lambda found: found[name].partitions[1].leader == 1)
    return name


def eventually(look: Callable[[], T], is_so: Callable[[T], bool], limit_s: float = 30) -> T:
    deadline = time.monotonic() + limit_s
    while not is_so(found := look()):
        assert time.monotonic() < deadline, f"it stays {found!r}"
        time.sleep(0.1)
    return found


def produce(place: Place, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": place.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=1_000 + number)
    assert producer.flush(HANG_S) == 0


# --- topics and settings ---------------------------------------------------------------------------------------------


def test_topics_from_birth_to_death(place: Place, topic: str) -> None:
    admin = place.admin
    with pytest.raises(TopicAlreadyExists):
        admin.create_topics([topic])
    admin.create_partitions({topic: 3})
    described = eventually(lambda: admin.describe_topics([topic])[topic], lambda found: len(found.partitions) == 3)
    topic_id = described.topic_id or b""
    assert admin.describe_topics_by_id([topic_id])[topic_id].name == topic
    assert topic in admin.list_topics()
    with pytest.raises(PartlyFailed) as partly:
        admin.describe_topics([topic, "nothing"])
    assert set(partly.value.succeeded) == {topic}
    admin.delete_topics([topic])
    eventually(admin.list_topics, lambda found: topic not in found)
    with pytest.raises(UnknownTopicOrPartition):
        admin.delete_topics([topic])


def test_offsets_and_deleted_records(place: Place, topic: str) -> None:
    produce(place, topic, 10)
    first = TopicPartition(topic, 0)
    assert place.admin.list_offsets({first: OffsetSpec.LATEST})[first].offset == 10
    assert place.admin.list_offsets({first: 1_004})[first][:2] == (4, 1_004)
    assert place.admin.delete_records({first: 4}) == {first: 4}
    assert place.admin.list_offsets({first: OffsetSpec.EARLIEST})[first].offset == 4


def test_settings_of_topics_and_brokers(place: Place, topic: str) -> None:
    resource, broker = ConfigResource(ConfigResourceType.TOPIC, topic), ConfigResource(ConfigResourceType.BROKER, "1")
    place.admin.incremental_alter_configs({resource: [AlterConfig("retention.ms", "777")]})
    entries = eventually(
        lambda: place.admin.describe_configs([resource, broker], include_documentation=True),
        lambda found: found[resource]["retention.ms"].value == "777",
    )
    assert entries[broker]["num.io.threads"].value == "2"
    assert entries[resource]["retention.ms"].documentation


def test_copies_move_between_directories(place: Place, topic: str) -> None:
    first = TopicPartition(topic, 0)

    def directory() -> str | None:
        found = place.admin.describe_log_dirs([1])[1]
        homes = {path: each.replicas.get(first) for path, each in found.items()}
        return next((path for path, copy in homes.items() if copy is not None and not copy.is_future), None)

    eventually(directory, lambda path: path is not None)
    other = next(path for path in place.directories if path != directory())
    place.admin.alter_replica_log_dirs({Replica(topic, 0, 1): other})
    eventually(directory, lambda path: path == other)
    assert place.admin.describe_replica_log_dirs([Replica(topic, 0, 1)])[Replica(topic, 0, 1)].current == other


# --- the cluster -----------------------------------------------------------------------------------------------------


def test_the_cluster_its_features_and_its_quorum(place: Place, topic: str) -> None:
    cluster = place.admin.describe_cluster(include_authorized_operations=True)
    assert [node.id for node in cluster.nodes] == [1]
    assert AclOperation.ALTER in (cluster.authorized_operations or ())
    assert place.admin.describe_features().finalized["metadata.version"].max > 0
    quorum = place.admin.describe_metadata_quorum()
    assert (quorum.leader, [voter.node_id for voter in quorum.voters]) == (1, [1])
    first = TopicPartition(topic, 0)
    assert isinstance(place.admin.elect_leaders([first])[first], ElectionNotNeeded)
    place.admin.alter_partition_reassignments({first: [1]})
    eventually(place.admin.list_partition_reassignments, lambda found: found == {})


# --- groups and transactions -----------------------------------------------------------------------------------------


def test_a_group_and_its_offsets(place: Place, topic: str) -> None:
    produce(place, topic, 10)
    group, first = f"group-of-{topic}", TopicPartition(topic, 0)
    consumer = Consumer({"bootstrap.servers": place.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(10, 30)) == 10
    consumer.commit(asynchronous=False)
    described = place.admin.describe_consumer_groups([group])[group]
    assert (described.type, described.state, len(described.members)) == ("classic", "Stable", 1)
    assert group in {each.group_id for each in place.admin.list_consumer_groups(states=["Stable"])}
    assert place.admin.list_consumer_group_offsets(group)[first].offset == 10  # type: ignore[union-attr]
    place.admin.remove_members_from_consumer_group(group)
    consumer.close()
    place.admin.alter_consumer_group_offsets(group, {first: 3, TopicPartition(topic, 1): 0})
    assert place.admin.list_consumer_group_offsets(group, [first]) == {first: OffsetAndMetadata(3)}
    place.admin.delete_consumer_group_offsets(group, [first])
    place.admin.delete_consumer_groups([group])
    with pytest.raises(GroupIdNotFound):
        place.admin.delete_consumer_groups([group])


def test_transactions_are_seen_fenced_and_aborted(place: Place, topic: str) -> None:
    transactional_id, first = f"txn-of-{topic}", TopicPartition(topic, 0)
    producer = Producer({"bootstrap.servers": place.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(HANG_S) == 0
    described = place.admin.describe_transactions([transactional_id])[transactional_id]
    assert (described.state, set(described.partitions)) == ("Ongoing", {first})
    assert transactional_id in {each.transactional_id for each in place.admin.list_transactions(states=["Ongoing"])}
    (state,) = place.admin.describe_producers([first])[first]
    assert state.transaction_start_offset == 0
    place.admin.fence_producers([transactional_id])

    def stable_offset() -> int:
        return place.admin.list_offsets({first: OffsetSpec.LATEST}, isolation_level="read_committed")[first].offset

    eventually(stable_offset, lambda offset: offset == 2)
    with pytest.raises(TransactionalIdNotFound):
        place.admin.describe_transactions(["nobody"])


async def beat(place: Place, group: str, heartbeat: Message) -> Any:
    """Be a member of a group: what a client of that kind would say."""
    network = NetworkClient.from_settings(ClientSettings(bootstrap_servers=place.bootstrap))
    try:
        deadline = time.monotonic() + HANG_S
        while True:
            node = await network.coordinator("group", group, timeout_ms=20_000)
            answer = await network.send(node, heartbeat)
            if answer.error_code not in RETRIABLE or time.monotonic() > deadline:
                return answer
            network.coordinator_gone("group", group)
            await asyncio.sleep(0.2)
    finally:
        await network.close()


def test_a_share_group_and_where_it_starts(place: Place, topic: str) -> None:
    if "share.version" not in place.admin.describe_features().finalized:
        pytest.skip("this release has no share groups")
    produce(place, topic, 10)
    group, first = f"share-of-{topic}", TopicPartition(topic, 0)
    member = uuid_to_text(random_uuid(os.urandom))
    joining = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=[topic]
    )

    def beat_and_look() -> ShareGroupDescription:
        answer = asyncio.run(beat(place, group, joining))
        assert answer.error_code == 0
        joining.member_epoch, joining.subscribed_topic_names = answer.member_epoch, None
        return place.admin.describe_share_groups([group])[group]

    described = eventually(beat_and_look, lambda found: bool(found.members) and len(found.members[0].assignment) == 2)
    assert (described.members[0].member_id, described.members[0].subscription) == (member, (topic,))
    with pytest.raises(NonEmptyGroup):
        place.admin.alter_share_group_offsets(group, {first: 3})
    leaving = ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=-1, subscribed_topic_names=None)
    assert asyncio.run(beat(place, group, leaving)).error_code == 0
    place.admin.alter_share_group_offsets(group, {first: 3})
    offsets = eventually(lambda: place.admin.list_share_group_offsets(group), lambda found: first in found)
    assert offsets[first] is not None
    assert offsets[first].offset == 3  # type: ignore[union-attr]
    place.admin.delete_share_group_offsets(group, [topic])
    eventually(lambda: place.admin.list_share_group_offsets(group), lambda found: found.get(first) is None)
    place.admin.delete_share_groups([group])
    with pytest.raises(GroupIdNotFound):
        place.admin.describe_share_groups([group])


def test_a_streams_group_is_described(place: Place, topic: str) -> None:
    if "streams.version" not in place.admin.describe_features().finalized:
        pytest.skip("this release has no streams groups")
    group, member = f"app-of-{topic}", uuid_to_text(random_uuid(os.urandom))
    part = streams.Subtopology(
        subtopology_id="0",
        source_topics=[topic],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    joining = streams.StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=30_000,
        topology=streams.Topology(epoch=0, subtopologies=[part]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
        client_tags=[],
    )

    def beat_and_look() -> StreamsGroupDescription:
        answer = asyncio.run(beat(place, group, joining))
        assert answer.error_code == 0
        joining.member_epoch, joining.topology = answer.member_epoch, None
        return place.admin.describe_streams_groups([group])[group]

    described = eventually(
        beat_and_look, lambda found: len(found.members) == 1 and len(found.members[0].target_assignment.active) == 2
    )
    assert described.subtopologies[0].source_topics == (topic,)
    assert described.members[0].member_id == member


# --- who may do what -------------------------------------------------------------------------------------------------


def test_access_rules_are_made_seen_obeyed_and_deleted(place: Place, topic: str) -> None:
    rule = AclBinding(ResourceType.TOPIC, topic, "User:alice", AclOperation.DESCRIBE)
    prefixed = AclBinding(
        ResourceType.TOPIC, f"{topic}-", "User:bob", AclOperation.READ, pattern_type=PatternType.PREFIXED
    )
    with place.alice() as alice:
        with pytest.raises((TopicAuthorizationFailed, UnknownTopicOrPartition)):
            alice.describe_topics([topic], timeout=HANG_S)
        place.admin.create_acls([rule, prefixed])
        of_topic = AclFilter(ResourceType.TOPIC, topic, pattern_type=PatternType.ANY)
        eventually(lambda: place.admin.describe_acls(of_topic), lambda found: found == [rule])
        assert prefixed in place.admin.describe_acls(AclFilter(principal="User:bob"))
        assert alice.describe_topics([topic])[topic].name == topic
        assert place.admin.delete_acls([of_topic]) == {of_topic: [rule]}
    place.admin.delete_acls([AclFilter(principal="User:bob")])
    eventually(place.admin.describe_acls, lambda found: found == [])


def test_quotas(place: Place) -> None:
    place.admin.alter_client_quotas([({"user": "carol"}, {"producer_byte_rate": 1024.0})])
    filters = [QuotaFilter("user", MatchType.EXACT, "carol")]
    wanted = {(("user", "carol"),): {"producer_byte_rate": 1024.0}}
    eventually(lambda: place.admin.describe_client_quotas(filters), lambda found: found == wanted)
    place.admin.alter_client_quotas([({"user": "carol"}, {"producer_byte_rate": None})])
    eventually(lambda: place.admin.describe_client_quotas(filters), lambda found: found == {})


def test_a_password_given_by_us_opens_the_door(place: Place) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512
    place.admin.alter_user_scram_credentials([ScramUpsertion("dave", "sesame", mechanism, iterations=8192)])
    eventually(place.admin.describe_user_scram_credentials, lambda found: "dave" in found)
    with place.alice(sasl_username="dave", sasl_password="sesame") as dave:
        eventually(dave.describe_cluster, lambda cluster: len(cluster.nodes) == 1)
    place.admin.alter_user_scram_credentials([ScramDeletion("dave", mechanism)])
    eventually(place.admin.describe_user_scram_credentials, lambda found: "dave" not in found)


def test_a_token_is_made_used_renewed_and_ended(place: Place) -> None:
    with place.alice() as alice:
        token = alice.create_delegation_token(renewers=[Principal("User", "alice")], max_lifetime_ms=3_600_000)
        assert token.owner == Principal("User", "alice")
        eventually(
            alice.describe_delegation_tokens, lambda found: [each.token_id for each in found] == [token.token_id]
        )
        jaas = (
            f'{MODULE}.scram.ScramLoginModule required tokenauth="true"'
            f' username="{token.token_id}" password="{base64.b64encode(token.hmac).decode()}";'
        )
        with place.alice(sasl_username=None, sasl_password=None, sasl_jaas_config=jaas) as bearer:
            assert len(bearer.describe_cluster().nodes) == 1
        assert alice.renew_delegation_token(token.hmac, period_ms=60_000) > 0
        alice.expire_delegation_token(token.hmac)
        eventually(alice.describe_delegation_tokens, lambda found: found == [])
